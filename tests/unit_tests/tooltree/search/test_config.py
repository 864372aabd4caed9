import dataclasses
import math
from functools import partial

import pytest

from langchain_tooltree import ConfigurationError, SearchConfig
from tests.internals.tooltree import Estimate

PARTS = ("pre_threshold", "post_threshold", "goal_threshold", "value_threshold")
COUNTS = ("max_rollouts", "top_k", "max_depth", "parallel_rollouts", "patience", "max_proposals", "tool_tokens")
LIMITS = ("max_model_calls", "max_tool_calls", "max_tokens", "retrieve_top")


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf, "0.3", None, True])
def test_a_threshold_out_of_range_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a number between 0 and 1, got "):
        SearchConfig(**{name: value})


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("value", [0, 0.0, 0.5, 1])
def test_a_threshold_may_be_anything_from_0_to_1(name, value):
    assert getattr(SearchConfig(**{name: value}), name) == value


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 1.5, math.nan, "3", None, True])
def test_a_count_below_1_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a whole number of 1 or more, got "):
        SearchConfig(**{name: value})


@pytest.mark.parametrize("name", LIMITS)
def test_a_budget_of_zero_is_refused_and_none_means_no_limit(name):
    with pytest.raises(ConfigurationError, match=rf"{name} must be .* or None for no limit, got 0"):
        SearchConfig(**{name: 0})
    assert getattr(SearchConfig(**{name: None}), name) is None
    assert getattr(SearchConfig(**{name: 1}), name) == 1


@pytest.mark.parametrize("name", ["max_seconds", "tool_timeout"])
@pytest.mark.parametrize("value", [0, -1.0, math.nan, "1"])
def test_a_time_limit_must_be_above_zero(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a number above 0, or None for no limit"):
        SearchConfig(**{name: value})
    assert getattr(SearchConfig(**{name: None}), name) is None


@pytest.mark.parametrize("name", ["confidence", "speculation"])
@pytest.mark.parametrize("value", [0, 1.01, -0.5, math.nan, "0.9", True])
def test_a_confidence_and_a_speculation_are_above_0_and_at_most_1(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a number above 0 and at most 1, got "):
        SearchConfig(**{name: value})
    assert getattr(SearchConfig(**{name: 1}), name) == 1


@pytest.mark.parametrize(
    ("effort", "stop_at", "extra_calls"), [("frugal", 0.5, 8), ("balanced", 0.7, 12), ("thorough", 0.9, 24)]
)
def test_an_effort_says_when_a_search_is_content_and_how_many_calls_it_may_add(effort, stop_at, extra_calls):
    config = SearchConfig(effort=effort)
    assert (config.stop_at, config.extra_calls) == (stop_at, extra_calls)
    assert SearchConfig(effort=effort, confidence=0.6).stop_at == 0.6
    assert SearchConfig(effort=effort, proposals="together").extra_calls is None


@pytest.mark.parametrize(
    ("chosen", "proposals", "pre_evaluation"),
    [
        ({}, "own_step", "fused"),
        ({"proposals": "together"}, "together", "fused"),
        ({"proposals": "per_tool"}, "per_tool", "batched"),
        ({"pre_evaluation": "single"}, "own_step", "single"),
        ({"selection": "smoothed"}, "together", "batched"),
        ({"selection": "printed", "proposals": "per_tool"}, "per_tool", "batched"),
    ],
)
def test_what_is_left_to_the_search_fits_the_selection(chosen, proposals, pre_evaluation):
    config = SearchConfig(**chosen)
    assert (config.proposals, config.pre_evaluation) == (proposals, pre_evaluation)


@pytest.mark.parametrize("chosen", [{"proposals": "own_step"}, {"pre_evaluation": "fused"}])
@pytest.mark.parametrize("form", ["smoothed", "printed"])
def test_eq_1_needs_scores_of_every_call_by_themselves(chosen, form):
    with pytest.raises(ConfigurationError, match="needs scores of every call by themselves; choose proposals="):
        SearchConfig(selection=form, **chosen)


def test_the_posterior_policy_needs_goal_scores():
    with pytest.raises(ConfigurationError, match=r"needs goal_score=True; .* choose selection='smoothed'"):
        SearchConfig(goal_score=False)
    for form in ("smoothed", "printed"):
        assert not SearchConfig(selection=form, goal_score=False).goal_score


@pytest.mark.parametrize("name", ["exploration", "reuse_seconds"])
@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_exploration_and_reuse_are_finite_and_not_negative(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a finite number of 0 or more"):
        SearchConfig(**{name: value})
    assert getattr(SearchConfig(**{name: 0}), name) == 0


CHOICES = ("selection", "first_play", "proposals", "pre_evaluation", "post_evaluation", "effort")


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_must_be_one_of_those_there_are(name):
    with pytest.raises(ConfigurationError, match=f"{name} must be one of '.*, got 'other'"):
        SearchConfig(**{name: "other"})


def test_the_seed_is_a_whole_number():
    with pytest.raises(ConfigurationError, match=r"seed must be a whole number, got 0.5"):
        SearchConfig(seed=0.5)


def test_always_include_is_a_collection_not_a_string():
    with pytest.raises(ConfigurationError, match=r"always_include .* write \('search',\)"):
        SearchConfig(always_include="search")


def test_a_configuration_error_is_a_value_error():
    with pytest.raises(ValueError, match="top_k"):
        SearchConfig(top_k=0)


def test_settings_are_keyword_only_and_frozen():
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        SearchConfig(60)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SearchConfig().seed = 1


@pytest.mark.parametrize("make", [SearchConfig, SearchConfig.paper, partial(dataclasses.replace, SearchConfig())])
def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant(make):
    with pytest.raises(TypeError, match=r"SearchConfig\(\) got .* 'max_rollout'\. Did you mean 'max_rollouts'\?"):
        make(max_rollout=3)


def test_the_published_defaults():
    config = SearchConfig()
    assert (config.max_rollouts, config.exploration, config.pre_threshold, config.post_threshold) == (
        100,
        1.4,
        0.3,
        0.4,
    )
    assert (config.top_k, config.max_depth, config.parallel_rollouts, config.patience) == (5, 15, 4, 10)
    assert (config.selection, config.confidence, config.effort) == ("posterior", None, "balanced")
    assert (config.proposals, config.pre_evaluation, config.post_evaluation) == ("own_step", "fused", "needed")
    assert (config.max_proposals, config.goal_score, config.speculation) == (3, True, 0.75)
    assert (config.seed, config.tool_tokens, config.retrieve_top) == (0, 12_000, None)


def test_the_papers_settings():
    changed = {
        field.name: getattr(SearchConfig.paper(), field.name)
        for field in dataclasses.fields(SearchConfig)
        if getattr(SearchConfig.paper(), field.name) != getattr(SearchConfig(), field.name)
    }
    assert changed == {
        "max_rollouts": 60,
        "retrieve_top": 20,
        "parallel_rollouts": 1,
        "selection": "printed",
        "proposals": "per_tool",
        "pre_evaluation": "single",
        "max_proposals": 1,
        "goal_score": False,
        "reuse_seconds": 0,
    }
    assert SearchConfig.paper(max_rollouts=7).max_rollouts == 7
    with pytest.raises(ConfigurationError, match="max_rollouts"):
        SearchConfig.paper(max_rollouts=0)


def test_the_earlier_form_of_the_paper_has_a_coarse_planner():
    assert SearchConfig.paper(form="acl") == SearchConfig.paper(coarse_planner=True)
    assert SearchConfig.paper(form="iclr", top_k=2) == SearchConfig.paper(top_k=2)
    with pytest.raises(ConfigurationError, match="form must be 'iclr' or 'acl', got 'emnlp'"):
        SearchConfig.paper(form="emnlp")


@pytest.mark.parametrize(
    ("config", "tools", "expected"),
    [
        (SearchConfig(), 3, Estimate(100, 100 * 3 + 2, 100)),
        (SearchConfig(max_rollouts=10, pre_evaluation="single", top_k=3), 3, Estimate(10, 10 * (3 + 3) + 2, 10)),
        (SearchConfig.paper(max_rollouts=10), 3, Estimate(10, 10 * (3 + 3 + 3) + 2, 10)),
        (SearchConfig.paper(max_rollouts=1), 50, Estimate(1, 3 + 20 + 20 + 2, 1)),
        (SearchConfig(max_model_calls=7, max_tool_calls=5), 3, Estimate(100, 7, 5)),
    ],
)
def test_the_estimate_names_the_most_that_a_search_may_cost(config, tools, expected):
    assert config.estimate(tools) == expected
