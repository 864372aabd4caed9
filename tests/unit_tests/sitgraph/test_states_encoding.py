"""State vectors in four bits a number, and their sketches: near what they stand for, and the same everywhere."""

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.internals.sitgraph import (
    DIMENSIONS,
    SKETCH_BITS,
    distances,
    fitted,
    numbers_of,
    packed,
    random_signs,
    sketched,
    unpacked,
    vector_of,
)


def some_vectors(count, dims=DIMENSIONS, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32)


def some_states(count, views=6, seed=0):
    return packed(fitted(some_vectors(count * views, seed=seed))).reshape(count, views, -1)


def cosine(one, other):
    return float((one * other).sum() / (np.linalg.norm(one) * np.linalg.norm(other)))


def test_what_was_packed_comes_back_nearly_the_same():
    given_vectors = fitted(some_vectors(50))
    back = unpacked(packed(given_vectors))

    assert packed(given_vectors).shape == (50, DIMENSIONS // 2)
    assert packed(given_vectors).dtype == np.uint8
    assert min(cosine(one, other) for one, other in zip(given_vectors, back, strict=True)) > 0.98
    assert np.linalg.norm(back, axis=1) == pytest.approx(np.ones(50), abs=1e-5)


def test_each_number_keeps_its_place():
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    vector[[0, 1, DIMENSIONS // 2, DIMENSIONS - 1]] = [7, -7, 3, -1]

    assert numbers_of(packed(vector))[[0, 1, 2, DIMENSIONS // 2, DIMENSIONS - 1]].tolist() == [7, -7, 0, 3, -1]
    assert np.count_nonzero(numbers_of(packed(vector))) == 4


def test_zero_stays_zero():
    nothing = np.zeros((2, DIMENSIONS), dtype=np.float32)

    assert not unpacked(packed(nothing)).any()
    assert not vector_of({}).any()


def test_packing_again_changes_nothing():
    once = packed(fitted(some_vectors(20)))

    assert (packed(unpacked(once)) == once).all()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=8), st.floats(0.5, 2), min_size=1, max_size=12))
def test_a_bag_of_features_is_a_vector_of_unit_length_or_zero(features):
    length = float(np.linalg.norm(vector_of(features)))

    assert length == pytest.approx(1, abs=1e-5) or length < 1e-5  # two features may fall together and cancel out


def test_saved_states_can_be_read_by_later_versions():
    mixed = vector_of({"called find": 1.0, "last ['find']": 1.5, "0 messages since": 1.5})
    longer = fitted([[((7 * place) % 11) - 5 for place in range(1024)]])
    states = packed(np.stack([vector_of({f"view {view}": 1.0, "all": 0.5}) for view in range(6)]))[None]

    assert np.flatnonzero(numbers_of(packed(mixed))).tolist() == [13, 114, 138]
    assert fingerprint(random_signs(1024, DIMENSIONS).astype(np.int8)) == "678b9c9580e7ca1c"
    assert fingerprint(packed(mixed)) == "3e4270b638ea49e9"
    assert fingerprint(packed(longer)) == "ad0d4b29318d4747"
    assert fingerprint(sketched(states)) == "fb3bc23930c93bba"


def fingerprint(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def test_random_signs_are_signs_and_even():
    signs = random_signs(400, DIMENSIONS)

    assert set(np.unique(signs).tolist()) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.02


@pytest.mark.parametrize("dims", [1, 7, 40, DIMENSIONS])
def test_vectors_that_are_not_longer_keep_their_angles(dims):
    one, other = some_vectors(2, dims)
    fit = fitted([one, other])

    assert fit.shape == (2, DIMENSIONS)
    assert cosine(*fit) == pytest.approx(cosine(one, other), abs=1e-5)
    assert not fit[:, dims:].any()


@pytest.mark.parametrize("dims", [DIMENSIONS + 1, 1024, 1536])
def test_longer_vectors_nearly_keep_their_angles(dims):
    base, more = some_vectors(2, dims)
    near, far = base + 0.3 * more, more

    fit = fitted([base, near, far])

    assert fit.shape == (3, DIMENSIONS)
    assert cosine(fit[0], fit[1]) == pytest.approx(cosine(base, near), abs=0.1)
    assert cosine(fit[0], fit[2]) == pytest.approx(cosine(base, far), abs=0.2)
    assert np.linalg.norm(fit, axis=1) == pytest.approx(np.ones(3), abs=1e-5)


@pytest.mark.parametrize("dims", [DIMENSIONS, 1024, 1536])
def test_a_vector_is_the_same_in_a_batch_of_any_size(dims):
    given_vectors = some_vectors(64, dims)

    together = fitted(given_vectors)

    assert (together == np.concatenate([fitted([each]) for each in given_vectors])).all()
    assert (together[:5] == fitted(given_vectors[:5])).all()


@pytest.mark.parametrize("dims", [3, DIMENSIONS, 1024])
def test_a_vector_of_zeros_stays_zero(dims):
    fit = fitted([[0.0] * dims, [1.0] * dims])

    assert not fit[0].any()
    assert fit[1].any()


def test_no_vectors_are_none():
    assert fitted([]).shape == (0, DIMENSIONS)


def test_very_large_and_very_small_vectors_have_a_direction():
    base = some_vectors(1, 1024)[0].astype(np.float64)

    for scale in (1e30, 1e-30):
        assert cosine(fitted([base * scale])[0], fitted([base])[0]) == pytest.approx(1, abs=1e-4)


def test_a_sketch_is_the_same_in_a_batch_of_any_size():
    states = some_states(30)

    assert (sketched(states) == np.concatenate([sketched(each[None]) for each in states])).all()


def test_a_sketch_is_made_of_exact_sums():
    states = some_states(200)
    width = SKETCH_BITS // states.shape[1]
    sums = numbers_of(states).astype(np.int64) @ random_signs(DIMENSIONS, width).astype(np.int64)

    bits = np.unpackbits(sketched(states).view(np.uint8), axis=1)[:, : states.shape[1] * width]
    assert (bits == (sums > 0).transpose(0, 2, 1).reshape(len(states), -1)).all()
    assert (sums == 0).any()  # rounding would decide on these


@pytest.mark.parametrize("views", [1, 6])
def test_similar_states_differ_in_few_bits_of_their_sketches(views):
    base = fitted(some_vectors(views))
    near, far = base + 0.2 * fitted(some_vectors(views, seed=1)), fitted(some_vectors(views, seed=2))

    sketches = sketched(packed(np.stack([base, base, near, far, -base])))
    apart = distances(sketches, sketches[0])

    assert sketches.shape == (5, SKETCH_BITS // 64)
    assert apart[0] == apart[1] == 0
    assert apart[2] < 0.15 * SKETCH_BITS
    assert 0.35 * SKETCH_BITS < apart[3] < 0.65 * SKETCH_BITS
    assert apart[4] > 0.9 * SKETCH_BITS


def test_distances_count_the_bits_that_differ():
    sketches = np.array([[0, 0], [1, 0], [3, 1 << 63]], dtype=np.uint64)

    assert distances(sketches, sketches[0]).tolist() == [0, 1, 3]
    assert distances(sketches[:0], sketches[0]).tolist() == []
