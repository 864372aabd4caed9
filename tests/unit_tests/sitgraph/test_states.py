"""The states that are stored, and which are like a given one."""

import numpy as np
import pytest

from tests.internals.sitgraph import (
    DIMENSIONS,
    END,
    REMOVED,
    GrowingRows,
    Rows,
    States,
    cosines,
    fitted,
    packed,
    sketched,
    states_module,
    summed,
    unpacked,
)

VIEWS = 2


def vectors(count, *, views=VIEWS, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(count * views, DIMENSIONS))
    return fitted(drawn).reshape(count, views, DIMENSIONS)


def rows_of(states, *, sources=0, targets=1, runs=0, first_key=0):
    codes = packed(states)
    count = len(codes)
    return Rows(
        sources=np.broadcast_to(np.asarray(sources, dtype=np.int32), count).copy(),
        befores=np.zeros(count, dtype=np.int32),
        targets=np.broadcast_to(np.asarray(targets, dtype=np.int32), count).copy(),
        runs=np.broadcast_to(np.asarray(runs, dtype=np.int32), count).copy(),
        keys=np.arange(first_key, first_key + count, dtype=np.uint64),
        codes=codes,
        sketches=sketched(codes),
    )


def filled(*parts, views=VIEWS, stored=None):
    table = States(views, stored, None if stored is None else summed(stored.codes))
    for part in parts:
        table.add(part)
    return table


def content(rows):
    return [
        getattr(rows, name).tolist() for name in ("sources", "befores", "targets", "runs", "keys")
    ], rows.codes.tobytes()


def naive_cosines(states, state, center):
    found = np.zeros(states.shape[:2])
    for place, view in np.ndindex(*found.shape):
        one, other = states[place, view].astype(float) - center[view], state[view].astype(float) - center[view]
        lengths = np.linalg.norm(one) * np.linalg.norm(other)
        seen = states[place, view].any() and state[view].any()
        found[place, view] = one @ other / lengths if seen and lengths > 1e-6 else 0
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
    growing.rows.runs[0] = 7

    assert growing.rows.targets.tolist() == [1, 1]
    assert growing.rows.runs.tolist() == [7, 0]


def test_rows_come_in_the_order_of_their_keys():
    late, early = rows_of(vectors(2), first_key=100), rows_of(vectors(2, seed=1), first_key=5)

    assert filled(late, early).rows().keys.tolist() == [5, 6, 100, 101]
    assert content(filled(late, early).rows()) == content(filled(early, late).rows())


@pytest.mark.parametrize("stored_first", [False, True])
def test_a_run_that_is_taken_out_leaves_nothing_behind(stored_first):
    one = rows_of(vectors(5), targets=[1, 1, 1, 2, 2], runs=0)
    other = rows_of(vectors(4, seed=1), targets=[1, 1, 2, 3], runs=1, first_key=50)
    table = filled(one) if not stored_first else filled(stored=one)
    table.add(other)
    assert table.remove(0) == [0, 1, 2, 3, 4]

    assert content(table.rows()) == content(filled(other).rows())
    assert table.by_edge() == {(0, 1): 2, (0, 2): 1, (0, 3): 1}
    assert len(table) == 4
    assert REMOVED not in table.near(vectors(1)[0]).targets
    assert table.center.tobytes() == filled(other).center.tobytes()
    assert table.remove(0) == []


def test_a_run_that_goes_on_takes_no_more_room_than_it_needs():
    table = filled(rows_of(vectors(3), runs=99, first_key=9000))
    for version in range(1, 60):
        table.remove(version - 1)
        table.add(rows_of(vectors(10, seed=version), runs=version, first_key=100 * version))

    assert len(table) == 13
    assert table.rows().runs.tolist() == [59] * 10 + [99] * 3
    assert len(table._added.rows) <= 2 * 13 + 10


def test_states_after_one_tool_are_found_apart():
    table = filled(rows_of(vectors(6), sources=[0, 1, 0, 1, 1, 0]))

    assert table.near(vectors(1)[0], source=1).keys.tolist() == [1, 3, 4]
    assert len(table.near(vectors(1)[0])) == 6


def test_the_ends_of_turns_are_found_on_request():
    table = filled(rows_of(vectors(3), targets=[1, END, 2]))

    assert table.near(vectors(1)[0]).targets.tolist() == [1, 2]
    assert table.near(vectors(1)[0], ends=True).targets.tolist() == [1, END, 2]
    assert table.by_edge() == {(0, 1): 1, (0, 2): 1}


def test_what_all_states_have_in_common_is_left_out_of_a_comparison():
    common = 3 * vectors(1)[0]
    states = np.stack([common + each for each in vectors(400, seed=1)])
    states /= np.linalg.norm(states, axis=2, keepdims=True)
    table = filled(rows_of(states))

    plain = cosines(table.rows().codes[1:], states[0], np.zeros_like(states[0])).mean()
    seen_from_the_center = cosines(table.rows().codes[1:], states[0], table.center).mean()

    assert plain > 0.8
    assert abs(seen_from_the_center) < plain / 4


def test_one_state_alone_is_like_itself():
    table = filled(rows_of(vectors(1)))

    assert cosines(table.rows().codes, vectors(1)[0], table.center).min() > 0.9


def test_the_center_is_the_same_in_any_order():
    parts = [rows_of(vectors(3, seed=seed), runs=seed, first_key=10 * seed) for seed in range(9)]

    assert filled(*parts).center.tobytes() == filled(*parts[::-1]).center.tobytes()


def clusters(count, *, seed):
    """States in clusters of ten: near to one another, far from the others."""
    centers = vectors(count // 10, seed=seed)
    spread = np.repeat(centers, 10, axis=0) + 0.35 * vectors(count, seed=seed + 1)
    return spread / np.linalg.norm(spread, axis=2, keepdims=True)


@pytest.mark.parametrize("glanced", [100_000, 300])
def test_of_more_states_than_can_be_compared_the_best_is_found_nearly_always(monkeypatch, glanced):
    stored = clusters(1000, seed=0)
    table = filled(rows_of(stored))
    asked = stored[::20] + 0.35 * vectors(50, seed=9)
    asked /= np.linalg.norm(asked, axis=2, keepdims=True)
    exact = [best(table.near(state), state) for state in asked]
    monkeypatch.setattr(states_module, "COMPARED", 60)
    monkeypatch.setattr(states_module, "GLANCED", glanced)

    near = [table.near(state) for state in asked]

    assert {len(each) for each in near} == {60}
    found = [best(each, state) for each, state in zip(near, asked, strict=True)]
    assert sum(map(int.__eq__, found, exact)) >= 47


def best(rows, state):
    return int(rows.keys[cosines(rows.codes, state, np.zeros_like(state)).mean(axis=1).argmax()])


@pytest.mark.parametrize("glanced", [100_000, 5])
def test_of_states_that_are_equally_near_the_order_of_adding_does_not_choose(monkeypatch, glanced):
    monkeypatch.setattr(states_module, "COMPARED", 4)
    monkeypatch.setattr(states_module, "GLANCED", glanced)
    states = np.repeat(vectors(3), 6, axis=0)
    parts = [rows_of(states[place : place + 1], first_key=place) for place in range(18)]

    forth, back = (filled(*each).near(states[0]) for each in (parts, parts[::-1]))

    assert content(forth) == content(back)
    assert forth.keys.tolist() == [0, 1, 2, 3]


def test_stored_rows_are_compared_beside_those_added_later():
    states = vectors(6)
    stored, added = rows_of(states[:3]), rows_of(states[3:], first_key=3)

    both = filled(added, stored=stored).near(states[4])

    assert both.keys.tolist() == [0, 1, 2, 3, 4, 5]
    assert best(both, states[4]) == 4
