"""The states at the edges that leave a tool: which stand for which, and which are like a given one."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.internals.sitgraph import (
    DIMENSIONS,
    REMOVED,
    GrowingRows,
    Rows,
    SourceStates,
    cosines,
    fitted,
    packed,
    sketched,
    stand_ins,
    states_module,
    unpacked,
)

VIEWS = 2


def vectors(count, *, views=VIEWS, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(count * views, DIMENSIONS))
    return fitted(drawn).reshape(count, views, DIMENSIONS)


def rows_of(states, *, targets=1, runs=0, first_key=0):
    codes = packed(states)
    count = len(codes)
    return Rows(
        targets=np.broadcast_to(np.asarray(targets, dtype=np.int32), count).copy(),
        runs=np.broadcast_to(np.asarray(runs, dtype=np.int32), count).copy(),
        keys=np.arange(first_key, first_key + count, dtype=np.uint64),
        weights=np.ones(count, dtype=np.int32),
        codes=codes,
        sketches=sketched(codes),
    )


def filled(*parts, max_states=None, views=VIEWS, stored=None):
    table = SourceStates(views, max_states=max_states, stored=stored)
    for part in parts:
        table.add(part)
    return table


def content(rows):
    return [getattr(rows, name).tolist() for name in ("targets", "runs", "keys", "weights")], rows.codes.tobytes()


def naive_cosines(states, state, center):
    found = np.zeros(states.shape[:2])
    for place, view in np.ndindex(*found.shape):
        one, other = states[place, view].astype(float) - center[view], state[view].astype(float) - center[view]
        lengths = np.linalg.norm(one) * np.linalg.norm(other)
        found[place, view] = one @ other / lengths if lengths > 1e-6 else 0
    return found


@pytest.mark.parametrize("centered", [False, True])
def test_cosines_are_those_of_the_textbook(centered):
    stored, state = vectors(40), vectors(1, seed=1)[0]
    stored[3] = 0
    stored[4, 1] = 0
    codes = packed(stored)
    center = unpacked(codes).mean(axis=0) if centered else np.zeros((VIEWS, DIMENSIONS), dtype=np.float32)

    assert cosines(codes, state, center) == pytest.approx(naive_cosines(unpacked(codes), state, center), abs=1e-4)


def test_cosines_with_nothing_are_zero():
    nothing = np.zeros((VIEWS, DIMENSIONS), dtype=np.float32)
    codes = packed(np.stack([nothing, vectors(1)[0]]))

    assert not cosines(codes, nothing, nothing).any()
    assert not cosines(codes[:1], vectors(1, seed=1)[0], nothing).any()


def test_a_state_at_the_center_is_like_nothing():
    codes = packed(vectors(1))
    center = unpacked(codes)[0]

    assert not cosines(codes, vectors(1, seed=1)[0], center).any()
    assert not cosines(packed(vectors(3, seed=1)), center, center).any()


def test_a_state_is_like_itself():
    codes = packed(vectors(5))

    assert cosines(codes, unpacked(codes)[2], np.zeros((VIEWS, DIMENSIONS), np.float32))[2] == pytest.approx([1, 1])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 12), st.integers(1, 14), st.integers(0, 99))
def test_stand_ins_stand_for_all(count, limit, seed):
    kinds = np.random.default_rng(seed).integers(0, 4, count)  # some states are the same
    weights = stand_ins(sketched(packed(vectors(4, seed=seed)))[kinds], limit)

    assert weights.sum() == count
    assert 1 <= np.count_nonzero(weights) <= min(limit, len(set(kinds)))
    assert weights[0] > 0


def test_the_state_farthest_from_all_chosen_ones_is_chosen_next():
    sketches = np.array([[0], [0b1], [0b1111], [0b111], [0b11110000]], dtype=np.uint64)

    assert stand_ins(sketches, 1).tolist() == [5, 0, 0, 0, 0]
    assert stand_ins(sketches, 2).tolist() == [3, 0, 2, 0, 0]  # the first of two that are equally far
    assert stand_ins(sketches, 3).tolist() == [2, 0, 2, 0, 1]
    assert stand_ins(sketches, 9).tolist() == [1, 1, 1, 1, 1]


def test_states_that_are_the_same_stand_for_one_another():
    assert stand_ins(np.array([[5], [5], [9], [9], [5]], dtype=np.uint64), 9).tolist() == [3, 0, 2, 0, 0]


def test_rows_that_grow_keep_what_they_hold():
    growing = GrowingRows(VIEWS)
    parts = [rows_of(vectors(size, seed=size), first_key=10 * size) for size in (1, 3, 2, 5)]
    for part in parts:
        growing.append(part)

    assert content(growing.rows) == content(Rows.joined(parts))


def test_rows_are_a_copy_of_what_was_added():
    growing, part = GrowingRows(VIEWS), rows_of(vectors(2))
    growing.append(part)
    part.targets[:] = 9
    growing.rows.weights[0] = 7

    assert growing.rows.targets.tolist() == [1, 1]
    assert growing.rows.weights.tolist() == [7, 1]


def test_rows_come_in_the_order_of_their_keys():
    late, early = rows_of(vectors(2), first_key=100), rows_of(vectors(2, seed=1), first_key=5)

    assert filled(late, early).rows().keys.tolist() == [5, 6, 100, 101]
    assert content(filled(late, early).rows()) == content(filled(early, late).rows())


@pytest.mark.parametrize("max_states", [None, 2])
@pytest.mark.parametrize("stored_first", [False, True])
def test_a_run_that_is_taken_out_leaves_nothing_behind(max_states, stored_first):
    one = rows_of(vectors(5), targets=[1, 1, 1, 2, 2], runs=0)
    other = rows_of(vectors(4, seed=1), targets=[1, 1, 2, 3], runs=1, first_key=50)
    table = filled(one, max_states=max_states) if not stored_first else filled(max_states=max_states, stored=one)
    table.spread()
    table.rows()
    table.add(other)
    table.rows()
    table.remove(0)

    assert content(table.rows()) == content(filled(other, max_states=max_states).rows())
    assert table.counts() == {1: 2, 2: 1, 3: 1}
    assert table.counts().total() == 4
    assert REMOVED not in table.compare(vectors(1)[0], centered=False).rows.targets


def test_a_run_that_goes_on_takes_no_more_room_than_it_needs():
    table = filled(rows_of(vectors(3), runs=99, first_key=9000))
    for version in range(1, 60):
        table.remove(version - 1)
        table.add(rows_of(vectors(10, seed=version), runs=version, first_key=100 * version))

    assert table.counts().total() == 13
    assert table.rows().runs.tolist() == [59] * 10 + [99] * 3
    assert len(table._added.rows) <= 2 * 13 + 10


def test_the_cap_holds_for_each_edge():
    table = filled(rows_of(vectors(9), targets=[1] * 6 + [2] * 3), max_states=2)

    compared = table.compare(vectors(1, seed=5)[0], centered=False)

    assert sorted(compared.rows.targets.tolist()) == [1, 1, 2, 2]
    assert sum(compared.rows.weights[compared.rows.targets == 1]) == 6
    assert sum(compared.rows.weights[compared.rows.targets == 2]) == 3
    assert len(table.rows()) == 9


def test_without_a_cap_all_states_are_compared():
    assert len(filled(rows_of(vectors(9))).compare(vectors(1)[0], centered=True).rows) == 9


def test_what_all_states_have_in_common_is_left_out_of_a_centered_comparison():
    common = 3 * vectors(1)[0]
    states = np.stack([common + each for each in vectors(400, seed=1)])
    states /= np.linalg.norm(states, axis=2, keepdims=True)
    table = filled(rows_of(states))

    plain, centered = (table.compare(states[0], centered=each).similarities[1:].mean() for each in (False, True))

    assert plain > 0.8
    assert abs(centered) < plain / 4


def test_few_states_do_not_make_a_center():
    table = filled(rows_of(vectors(1)))

    assert table.compare(vectors(1)[0], centered=True).similarities.min() > 0.9


def test_a_change_moves_the_center():
    table, state = filled(rows_of(vectors(30))), vectors(1)[0]
    before = table.compare(state, centered=True).similarities[:30]
    table.add(rows_of(vectors(200, seed=3), runs=1, first_key=500))
    table.compare(state, centered=True)
    table.remove(1)

    assert table.compare(state, centered=True).similarities == pytest.approx(before)


def clusters(count, *, seed):
    """States in clusters of ten: near to one another, far from the others."""
    centers = vectors(count // 10, seed=seed)
    spread = np.repeat(centers, 10, axis=0) + 0.35 * vectors(count, seed=seed + 1)
    return spread / np.linalg.norm(spread, axis=2, keepdims=True)


def test_of_more_states_than_can_be_compared_the_best_is_found_nearly_always(monkeypatch):
    stored = clusters(1000, seed=0)
    table = filled(rows_of(stored))
    asked = stored[::20] + 0.35 * vectors(50, seed=9)
    asked /= np.linalg.norm(asked, axis=2, keepdims=True)
    exact = [table.compare(state, centered=False) for state in asked]
    monkeypatch.setattr(states_module, "COMPARED", 60)

    near = [table.compare(state, centered=False) for state in asked]

    assert {len(each.rows) for each in near} == {60}
    assert sum(best(one) == best(other) for one, other in zip(near, exact, strict=True)) >= 47


def best(likeness):
    return int(likeness.rows.keys[likeness.similarities.mean(axis=1).argmax()])


def test_of_states_that_are_equally_near_the_order_of_adding_does_not_choose(monkeypatch):
    monkeypatch.setattr(states_module, "COMPARED", 4)
    states = np.repeat(vectors(3), 6, axis=0)
    parts = [rows_of(states[place : place + 1], first_key=place) for place in range(18)]

    forth, back = (filled(*each).compare(states[0], centered=True) for each in (parts, parts[::-1]))

    assert content(forth.rows) == content(back.rows)
    assert forth.rows.keys.tolist() == [0, 1, 2, 3]


def test_stored_rows_are_compared_beside_those_added_later():
    states = vectors(6)
    stored, added = rows_of(states[:3]), rows_of(states[3:], first_key=3)

    both = filled(added, stored=stored).compare(states[4], centered=False)

    assert both.rows.keys.tolist() == [0, 1, 2, 3, 4, 5]
    assert best(both) == 4
