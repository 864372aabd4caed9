import dataclasses
import math

import pytest

from langchain_tooltree import ConfigurationError, SearchConfig
from tests.internals.tooltree import Estimate

PARTS = ("pre_threshold", "post_threshold", "goal_threshold", "value_threshold", "relevance_threshold")
COUNTS = (
    "max_rollouts", "top_k", "max_depth", "parallel_rollouts", "patience", "max_proposals",
    "retrieve_above", "retrieve_top", "max_observation_chars",
)  # fmt: skip
LIMITS = ("max_model_calls", "max_tool_calls", "max_tokens")


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


@pytest.mark.parametrize("value", [0, 1.01, -0.5, math.nan, "0.9", None, True])
def test_a_confidence_is_above_0_and_at_most_1(value):
    with pytest.raises(ConfigurationError, match="confidence must be a number above 0 and at most 1, got "):
        SearchConfig(confidence=value)
    assert SearchConfig(confidence=1).confidence == 1


def test_the_posterior_policy_needs_goal_scores():
    with pytest.raises(ConfigurationError, match=r"needs goal_score=True; .* choose selection='smoothed'"):
        SearchConfig(goal_score=False)
    for form in ("smoothed", "printed"):
        assert not SearchConfig(selection=form, goal_score=False).goal_score


@pytest.mark.parametrize("name", ["exploration_decay", "pre_threshold_decay"])
@pytest.mark.parametrize("value", [0, 1.1, -0.5])
def test_a_decay_is_above_0_and_at_most_1(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a number above 0 and at most 1"):
        SearchConfig(**{name: value})


@pytest.mark.parametrize("name", ["exploration", "min_gain"])
@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_exploration_and_gain_are_finite_and_not_negative(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be a finite number of 0 or more"):
        SearchConfig(**{name: value})
    assert getattr(SearchConfig(**{name: 0}), name) == 0


@pytest.mark.parametrize("name", ["selection", "first_play", "proposals", "pre_evaluation", "post_evaluation"])
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
    with pytest.raises(TypeError):
        SearchConfig(60)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SearchConfig().seed = 1


def test_the_published_defaults():
    config = SearchConfig()
    assert (config.max_rollouts, config.exploration, config.pre_threshold, config.post_threshold) == (
        100,
        1.4,
        0.3,
        0.4,
    )
    assert (config.top_k, config.max_depth, config.parallel_rollouts, config.patience) == (5, 15, 4, 10)
    assert (config.selection, config.confidence, config.post_evaluation) == ("posterior", 0.95, "needed")
    assert (config.max_proposals, config.goal_score, config.proposals) == (3, True, "together")
    assert (config.min_gain, config.seed, config.retrieve_above, config.retrieve_top) == (1e-3, 0, 20, 20)


def test_the_papers_settings():
    changed = {
        field.name: getattr(SearchConfig.paper(), field.name)
        for field in dataclasses.fields(SearchConfig)
        if getattr(SearchConfig.paper(), field.name) != getattr(SearchConfig(), field.name)
    }
    assert changed == {
        "max_rollouts": 60,
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
