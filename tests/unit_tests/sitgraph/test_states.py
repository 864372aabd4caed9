"""The states that are stored, and which of them one is compared with."""

import numpy as np
import pytest

from langchain_tooltree.sitgraph.states import (
    COMPARED,
    DIMENSIONS,
    END,
    LABELS,
    States,
    cosines,
    pack,
    project,
    quantize,
    unit,
)

VIEWS = 2
NOWHERE = np.zeros((VIEWS, DIMENSIONS), np.float32)


def numbers(count, *, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(count * VIEWS, DIMENSIONS))
    return quantize(project(drawn)).reshape(count, VIEWS, DIMENSIONS)


def labels(count, *, run=1, source=0, target=1):
    return [(source, 0, target, place, run, 0, 0) for place in range(count)]


def table(*runs):
    """A table with runs, each by its hash, the tool its states come after, and their number."""
    states = States(VIEWS)
    for run, source, count in runs:
        states.add(
            run, labels(count, run=run, source=source), pack(numbers(count, seed=run))
        )
    return states


def content(rows):
    return rows.labels.tolist(), rows.numbers.tobytes()


def naive_cosines(states, state, center):
    found = np.zeros(states.shape[:2])
    for place, view in np.ndindex(*found.shape):
        one, other = (
            states[place, view].astype(float) - center[view],
            state[view].astype(float) - center[view],
        )
        lengths = np.linalg.norm(one) * np.linalg.norm(other)
        seen = states[place, view].any() and state[view].any()
        found[place, view] = one @ other / lengths if seen and lengths > 1e-6 else 0
    return found


@pytest.mark.parametrize("centered", [False, True])
def test_cosines_are_those_of_the_textbook(centered):
    stored, state = numbers(300), unit(numbers(1, seed=1))[0]
    stored[3] = 0
    stored[4, 1] = 0
    center = unit(stored).mean(axis=0) if centered else NOWHERE

    assert cosines(stored, state, center) == pytest.approx(
        naive_cosines(unit(stored), state, center), abs=1e-4
    )
    assert not cosines(stored, NOWHERE, center).any()
    assert not cosines(
        stored[:1], state, unit(stored)[0]
    ).any()  # at the center nothing can be seen


def test_states_are_the_same_whatever_came_and_went_in_between():
    lived, at_once = table((7, 0, 3), (1, 0, 5), (2, 1, 4)), table((2, 1, 4), (3, 0, 6))
    lived.remove(7)
    lived.add(3, labels(6, run=3), pack(numbers(6, seed=3)))
    assert len(lived.compared(0)) == 15
    lived.remove(1)
    lived.remove(99)

    assert content(lived.compared(0)) == content(at_once.compared(0))
    assert content(lived.after(1)) == content(at_once.after(1))
    assert content(lived.of_runs([3])) == content(at_once.of_runs([3]))


@pytest.mark.slow
def test_of_too_many_states_those_after_the_same_tool_come_first_and_the_order_of_adding_does_not_choose():
    runs = [
        (run << 32, run % 5, 20) for run in range(1, 151)
    ]  # 3,000 states, 600 after each tool
    forth, back = table(*runs), table(*runs[::-1])

    compared = forth.compared(3)

    assert len(compared) == COMPARED
    assert (compared.labels["source"] == 3).sum() == 600
    assert content(compared) == content(back.compared(3))
    assert len(forth.after(3)) == 600


def test_states_keep_their_vectors_and_the_ends_of_turns():
    states = States(VIEWS)
    states.add(1, [*labels(2), (0, 0, END, 2, 1, 5, -1)], pack(numbers(3)))

    rows = states.compared(0)

    assert rows.labels.dtype == LABELS
    assert rows.labels["target"][rows.labels["place"] == 2].tolist() == [END]
    assert (rows.vectors == unit(numbers(3))[rows.labels["place"]]).all()
