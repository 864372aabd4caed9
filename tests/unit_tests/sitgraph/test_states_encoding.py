"""State vectors: near what they stand for, the same everywhere, and in small whole numbers where they are kept."""

import hashlib

import numpy as np
import pytest

from langchain_tooltree.sitgraph.states import (
    DIMENSIONS,
    hash_features,
    project,
    quantize,
    random_signs,
    unit,
)


def some_vectors(count, dims=DIMENSIONS, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32)


def cosine(one, other):
    return float((one * other).sum() / (np.linalg.norm(one) * np.linalg.norm(other)))


def test_what_was_kept_comes_back_nearly_the_same():
    vectors = project(some_vectors(50))
    numbers = quantize(vectors)

    assert (numbers.dtype, numbers.shape) == (np.int8, vectors.shape)
    assert (
        min(
            cosine(one, other)
            for one, other in zip(vectors, unit(numbers), strict=True)
        )
        > 0.98
    )
    assert np.linalg.norm(unit(numbers), axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    assert (quantize(unit(numbers)) == numbers).all()


def test_zero_stays_zero():
    assert not unit(quantize(np.zeros((2, DIMENSIONS), dtype=np.float32))).any()
    assert not hash_features({}).any()


def test_saved_states_can_be_read_by_later_versions():
    mixed = hash_features(
        {"called find": 1.0, "last ['find']": 1.5, "0 messages since": 1.5}
    )
    longer = project([[((7 * place) % 11) - 5 for place in range(1024)]])

    assert (
        fingerprint(random_signs(1024, DIMENSIONS).astype(np.int8))
        == "678b9c9580e7ca1c"
    )
    assert fingerprint(quantize(mixed)) == "d2edb0f7f1e85d37"
    assert fingerprint(quantize(longer)) == "00b3ccdc61ac7982"


def fingerprint(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("dims", [1, 7, 40, DIMENSIONS])
def test_vectors_that_are_not_longer_keep_their_angles(dims):
    one, other = some_vectors(2, dims)
    fit = project([one, other])

    assert fit.shape == (2, DIMENSIONS)
    assert cosine(*fit) == pytest.approx(cosine(one, other), abs=1e-5)
    assert not fit[:, dims:].any()


@pytest.mark.parametrize("dims", [DIMENSIONS + 1, 1024, 1536])
def test_longer_vectors_nearly_keep_their_angles(dims):
    base, more = some_vectors(2, dims)
    near, far = base + 0.3 * more, more

    fit = project([base, near, far])

    assert fit.shape == (3, DIMENSIONS)
    assert cosine(fit[0], fit[1]) == pytest.approx(cosine(base, near), abs=0.1)
    assert cosine(fit[0], fit[2]) == pytest.approx(cosine(base, far), abs=0.2)
    assert np.linalg.norm(fit, axis=1) == pytest.approx(np.ones(3), abs=1e-5)


@pytest.mark.parametrize("dims", [DIMENSIONS, 1024, 1536])
def test_a_vector_is_the_same_in_a_batch_of_any_size(dims):
    given_vectors = some_vectors(64, dims)

    together = project(given_vectors)

    assert (
        together == np.concatenate([project([each]) for each in given_vectors])
    ).all()
    assert (together[:5] == project(given_vectors[:5])).all()


@pytest.mark.parametrize("dims", [3, DIMENSIONS, 1024])
def test_a_vector_of_zeros_stays_zero(dims):
    fit = project([[0.0] * dims, [1.0] * dims])

    assert not fit[0].any()
    assert fit[1].any()


def test_very_large_and_very_small_vectors_have_a_direction():
    base = some_vectors(1, 1024)[0].astype(np.float64)

    for scale in (1e30, 1e-30):
        assert cosine(project([base * scale])[0], project([base])[0]) == pytest.approx(
            1, abs=1e-4
        )
