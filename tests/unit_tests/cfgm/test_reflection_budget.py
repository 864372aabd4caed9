"""When to reflect: once for each episode of trouble, with pauses and within a budget."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tooltree import ConfigurationError
from langchain_tooltree.cfgm.online import (
    DEFAULT_COOLDOWN,
    DEFAULT_MAX_REFLECTIONS,
    Recovery,
    within_budget,
)


def pace_of(cooldown=DEFAULT_COOLDOWN, max_reflections=DEFAULT_MAX_REFLECTIONS):
    return {"cooldown": cooldown, "max_reflections": max_reflections}


paces = st.builds(pace_of, st.integers(1, 6), st.integers(1, 8))
courses = st.lists(st.booleans(), max_size=60)


def reflections(pace, anomalous):
    """On which rounds of a run there is a reflection."""
    reflected = []
    for is_anomalous in anomalous:
        reflected.append(is_anomalous and within_budget(reversed(reflected), **pace))
    return reflected


def test_one_anomaly_is_reflected_upon_at_once():
    assert reflections(pace_of(), [False, True, False, False]) == [
        False,
        True,
        False,
        False,
    ]


def test_trouble_that_goes_on_is_reflected_upon_again_after_a_pause():
    pace = pace_of(cooldown=3, max_reflections=5)

    assert reflections(pace, [True] * 8) == [
        True,
        False,
        False,
        True,
        False,
        False,
        True,
        False,
    ]


def test_trouble_that_comes_and_goes_in_every_other_step_is_the_same():
    pace = pace_of(cooldown=3)

    assert reflections(pace, [True, False] * 4) == [
        True,
        False,
        False,
        False,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.slow
@given(paces, courses)
def test_normal_rounds_are_never_reflected_upon(pace, anomalous):
    pairs = zip(reflections(pace, anomalous), anomalous, strict=True)

    assert [
        (reflected, is_anomalous)
        for reflected, is_anomalous in pairs
        if reflected and not is_anomalous
    ] == []


@given(paces, courses)
def test_between_two_reflections_the_agent_is_left_alone(pace, anomalous):
    places = [
        place
        for place, reflected in enumerate(reflections(pace, anomalous))
        if reflected
    ]

    assert [
        (earlier, later)
        for earlier, later in pairwise(places)
        if later - earlier < pace["cooldown"]
    ] == []
    assert len(places) <= pace["max_reflections"]


@pytest.mark.slow
@given(paces, courses)
def test_whoever_is_in_trouble_is_helped_as_soon_as_pause_and_budget_allow(
    pace, anomalous
):
    reflected = reflections(pace, anomalous)

    for place, is_anomalous in enumerate(anomalous):
        recent = reflected[max(0, place - pace["cooldown"] + 1) : place]
        if (
            is_anomalous
            and not any(recent)
            and sum(reflected[:place]) < pace["max_reflections"]
        ):
            assert reflected[place]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "3"])
@pytest.mark.parametrize("name", ["cooldown", "max_reflections"])
def test_a_pace_that_cannot_be_kept_is_refused(name, value):
    with pytest.raises(
        ConfigurationError,
        match=f"{name} must be a whole number of 1 or more, got {value!r}",
    ):
        Recovery("openai:gpt-4.1-mini", None, **{name: value})
