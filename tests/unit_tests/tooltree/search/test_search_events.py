"""Every event of a search, whole and in order."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import events
from langchain_tooltree.tooltree.search import TreeSearch
from langchain_tooltree.tooltree.search.config import KernelConfig
from tests.internals.tooltree import BY_POSTERIOR

FIELDS = {
    kind: set(re.findall(r"`(\w+)`", fields))
    for kind, fields in re.findall(
        r"^\| `(\w+)` \|[^|]*\|(.*)\|$", events.__doc__, re.MULTILINE
    )
}
ONE = {"model_calls": 1, "tokens": 34}
TABLES = {
    "offers": {(): "a b c d a"},
    "r_pre": {"a": 0.1, "b": None, "c": 0.9, "d": 0.6},
    "r_post": {"c": 0.1, "d": 0.6},
    "goal": {"c": 0.2, "d": None},
    "failing": {"c"},
    "spent": {"propose": ONE, "score": ONE, "evaluate": ONE},
}


def spent(rollouts, model_calls, tool_calls, tokens):
    paid = {"model_calls": model_calls, "tool_calls": tool_calls, "tokens": tokens}
    return {"type": "budget", "rollouts": rollouts, **paid}


def scored(node, call, r_pre, *, by_judge=True):
    return {
        "type": "judge",
        "node": node,
        "rollout": 0,
        "call": call,
        "r_pre": r_pre,
        "scored": by_judge,
    }


def test_all_that_happens_is_an_event(search_in):
    search = search_in(
        TABLES, top_k=2, max_rollouts=2, max_proposals=1, max_depth=1, pre_threshold=0.5
    )
    first, second = {"node": 3, "rollout": 0}, {"node": 4, "rollout": 1}
    assert search.take_events() == [
        {"type": "select", "node": 0, "rollout": 0},
        spent(1, 1, 0, 34),
        {
            "type": "propose",
            "node": 0,
            "rollout": 0,
            "calls": ["a()", "b()", "c()", "d()"],
            "dropped": ["a(): already proposed here"],
        },
        spent(1, 2, 0, 68),
        scored(1, "a()", 0.1),
        scored(2, "b()", 0.5, by_judge=False),
        scored(3, "c()", 0.9),
        scored(4, "d()", 0.6),
        {
            "type": "prune",
            "node": 1,
            "rollout": 0,
            "call": "a()",
            "reason": "pre_evaluation",
        },
        {"type": "prune", "node": 2, "rollout": 0, "call": "b()", "reason": "top_k"},
        spent(1, 2, 1, 68),
        {
            "type": "execute",
            **first,
            "call": "c()",
            "status": "exception",
            "cached": False,
        },
        spent(1, 3, 1, 102),
        {
            "type": "evaluate",
            **first,
            "call": "c()",
            "r_post": 0.1,
            "goal": 0.2,
            "scored": True,
        },
        {"type": "prune", **first, "call": "c()", "reason": "post_evaluation"},
        {"type": "select", **second},
        spent(2, 3, 2, 102),
        {"type": "execute", **second, "call": "d()", "status": "ok", "cached": False},
        spent(2, 4, 2, 136),
        {
            "type": "evaluate",
            **second,
            "call": "d()",
            "r_post": 0.6,
            "goal": 0.5,
            "scored": True,
        },
        {"type": "best", "node": 4, "value": 0.3, "calls": ["d()"]},
        {"type": "stop", "reason": "max_rollouts", "rollouts": 2},
    ]
    assert search.take_events() == []


@pytest.mark.parametrize(
    ("score", "r_post", "scored"), [(None, 0.4, False), (0.6, 0.6, True)]
)
def test_without_goal_scores_and_a_score_events_say_so(
    search_in, score, r_post, scored
):
    tables = {"offers": {(): "a"}, "r_post": {"a": score}}
    search = search_in(tables, selection="printed", goal_score=False, max_rollouts=1)
    [judged] = [event for event in search.take_events() if event["type"] == "evaluate"]
    assert (judged["r_post"], judged["goal"], judged["scored"]) == (
        r_post,
        None,
        scored,
    )


def test_a_known_observation_is_cached_and_a_best_path_has_all_its_calls(search_in):
    search = search_in(
        {"offers": {(): "a b", ("a",): "c", ("b",): "c"}, "goal": {"c": 0.5}}
    )
    taken = search.take_events()
    assert [
        event["cached"]
        for event in taken
        if event["type"] == "execute" and event["call"] == "c()"
    ] == [
        False,
        True,
    ]
    (first,), path = [event["calls"] for event in taken if event["type"] == "best"]
    assert path == [first, "c()"]


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    rule=st.sampled_from(
        [BY_POSTERIOR, {"selection": "smoothed"}, {"selection": "printed"}]
    ),
)
@settings(max_examples=40, deadline=None)
def test_every_event_has_the_fields_that_the_table_lists_for_it(
    seed, rule, pure_world, run_pure
):
    search = TreeSearch(KernelConfig(**rule, max_rollouts=20, top_k=2))
    run_pure(search, pure_world(seed))
    for event in search.take_events():
        assert set(event) - {"type"} == FIELDS[event["type"]]
