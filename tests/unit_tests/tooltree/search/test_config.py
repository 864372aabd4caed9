import dataclasses
import math
from functools import partial

import pytest

from langchain_tooltree import ConfigurationError, SearchConfig
from langchain_tooltree.tooltree.search import KernelConfig

PARTS = ("pre_threshold", "post_threshold", "value_threshold")
COUNTS = ("max_rollouts", "top_k", "max_depth", "parallel_rollouts", "patience", "max_proposals")


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf, "0.3", None, True])
def test_a_threshold_out_of_range_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a number between 0 and 1, got "):
        KernelConfig(**{name: value})


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 1.5, math.nan, "3", None, True])
def test_a_count_below_1_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a whole number of 1 or more, got "):
        KernelConfig(**{name: value})


def test_a_budget_of_zero_is_refused_and_none_means_no_limit():
    with pytest.raises(ConfigurationError, match=r"max_model_calls must be .* or None for no limit, got 0"):
        KernelConfig(max_model_calls=0)
    assert KernelConfig(max_model_calls=None).max_model_calls is None


@pytest.mark.parametrize("value", [0, -1.0, math.nan, "1"])
def test_a_time_limit_must_be_above_zero(value):
    with pytest.raises(ConfigurationError, match="max_seconds must be a number above 0, or None for no limit"):
        SearchConfig(max_seconds=value)


@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_exploration_is_finite_and_not_negative(value):
    with pytest.raises(ConfigurationError, match="exploration must be a finite number of 0 or more"):
        SearchConfig(exploration=value)


@pytest.mark.parametrize(
    ("effort", "extra_calls", "stop_at"), [("frugal", 2, 0.7), ("balanced", 4, 0.9), ("thorough", 8, 0.97)]
)
def test_an_effort_says_how_many_calls_it_may_add_and_when_a_deep_search_is_content(effort, extra_calls, stop_at):
    assert SearchConfig(effort=effort).extra_calls == extra_calls
    assert SearchConfig(effort=effort, max_model_calls=3).extra_calls == 3
    assert KernelConfig(effort=effort).stop_at == stop_at


def test_the_search_lives_in_the_loop_by_default():
    assert not SearchConfig().is_deep
    assert all(SearchConfig(selection=each).is_deep for each in ("posterior", "smoothed", "printed"))
    with pytest.raises(ConfigurationError, match="selection='doubt' searches in the agent's own loop"):
        KernelConfig.of(SearchConfig())


@pytest.mark.parametrize(
    ("chosen", "pre_evaluation"),
    [
        ({}, "fused"),
        ({"proposals": "per_tool"}, "batched"),
        ({"pre_evaluation": "single"}, "single"),
        ({"selection": "smoothed"}, "batched"),
        ({"selection": "printed", "proposals": "per_tool"}, "batched"),
    ],
)
def test_what_is_left_to_the_search_fits_the_selection(chosen, pre_evaluation):
    assert KernelConfig(**chosen).pre_evaluation == pre_evaluation


@pytest.mark.parametrize("form", ["smoothed", "printed"])
def test_eq_1_needs_scores_of_every_call_by_themselves(form):
    with pytest.raises(ConfigurationError, match="needs scores of every call by themselves; choose pre_evaluation="):
        KernelConfig(selection=form, pre_evaluation="fused")


def test_the_posterior_policy_needs_goal_scores():
    with pytest.raises(ConfigurationError, match=r"needs goal_score=True; .* choose selection='smoothed'"):
        KernelConfig(goal_score=False)


@pytest.mark.parametrize("name", ["selection", "proposals", "pre_evaluation", "post_evaluation", "effort"])
def test_a_choice_must_be_one_of_those_there_are(name):
    with pytest.raises(ConfigurationError, match=f"{name} must be one of '.*, got 'other'"):
        KernelConfig(**{name: "other"})


def test_a_switch_and_the_seed_are_checked():
    with pytest.raises(ConfigurationError, match="coarse_planner must be True or False, got 'no'"):
        SearchConfig(coarse_planner="no")
    with pytest.raises(ConfigurationError, match=r"seed must be a whole number, got 0.5"):
        KernelConfig(seed=0.5)


def test_settings_are_keyword_only_and_frozen():
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        SearchConfig(60)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SearchConfig().top_k = 1


@pytest.mark.parametrize("make", [SearchConfig, SearchConfig.paper, partial(dataclasses.replace, SearchConfig())])
def test_a_misspelt_setting_is_refused(make):
    with pytest.raises(TypeError, match="max_rollout"):
        make(max_rollout=3)


def test_the_published_settings():
    assert [field.name for field in dataclasses.fields(SearchConfig)] == [
        "effort", "max_model_calls", "max_seconds", "check_writes", "selection", "max_rollouts", "exploration",
        "pre_threshold", "post_threshold", "top_k", "max_depth", "parallel_rollouts", "patience", "proposals",
        "coarse_planner",
    ]  # fmt: skip
    assert dataclasses.astuple(SearchConfig()) == (
        "balanced", None, None, False, "doubt", 100, 1.4, 0.3, 0.4, 5, 15, 4, 10, "together", False,
    )  # fmt: skip


def test_the_papers_settings():
    paper = SearchConfig.paper()
    changed = {
        field.name: getattr(paper, field.name)
        for field in dataclasses.fields(KernelConfig)
        if getattr(paper, field.name) != getattr(KernelConfig(), field.name)
    }
    assert changed == {
        "max_rollouts": 60,
        "top_k": 20,
        "parallel_rollouts": 1,
        "selection": "printed",
        "proposals": "per_tool",
        "pre_evaluation": "single",
        "max_proposals": 1,
        "goal_score": False,
    }
    assert SearchConfig.paper(max_rollouts=7).max_rollouts == 7
    assert SearchConfig.paper(form="acl") == SearchConfig.paper(coarse_planner=True, reward="path")
    with pytest.raises(ConfigurationError, match="form must be 'iclr' or 'acl', got 'emnlp'"):
        SearchConfig.paper(form="emnlp")


@pytest.mark.parametrize(
    ("config", "tools", "expected"),
    [
        (KernelConfig(), 3, 100 * 3 + 2),
        (KernelConfig(max_rollouts=10, pre_evaluation="single", top_k=3), 3, 10 * (3 + 3) + 2),
        (SearchConfig.paper(max_rollouts=10), 3, 10 * (3 + 3 + 3) + 2),
        (KernelConfig(max_model_calls=7), 3, 7),
    ],
)
def test_a_search_knows_the_most_model_calls_that_it_may_make(config, tools, expected):
    assert config.most_model_calls(tools) == expected
