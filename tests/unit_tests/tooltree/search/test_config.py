import dataclasses
import math
import re
from functools import partial

import pytest

from langchain_tooltree import ConfigurationError, SearchConfig
from langchain_tooltree.tooltree.search.config import KernelConfig

PARTS = ("pre_threshold", "post_threshold", "value_threshold")
COUNTS = (
    "max_rollouts",
    "top_k",
    "max_depth",
    "parallel_rollouts",
    "patience",
    "max_proposals",
)
WRONG = [
    *(
        (name, value)
        for name in PARTS
        for value in (-0.01, 1.01, math.nan, math.inf, "0.3", None, True)
    ),
    *(
        (name, value)
        for name in COUNTS
        for value in (0, -1, 1.5, math.nan, "3", None, True)
    ),
    *(("exploration", value) for value in (-1, math.inf, math.nan)),
    *(("max_seconds", value) for value in (0, -1.0, math.nan, "1")),
    *(
        (name, "other")
        for name in ("selection", "proposals", "pre_evaluation", "effort")
    ),
    ("max_model_calls", 0),
    ("coarse_planner", "no"),
    ("seed", 0.5),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(
        ConfigurationError, match=f"{name} .*should be .*, got {re.escape(repr(value))}"
    ):
        KernelConfig(**{name: value})


def test_no_budget_means_no_limit():
    assert KernelConfig(max_model_calls=None).max_model_calls is None


@pytest.mark.parametrize(
    ("effort", "extra_calls", "stop_at"),
    [("frugal", 2, 0.7), ("balanced", 4, 0.9), ("thorough", 8, 0.97)],
)
def test_an_effort_says_how_many_calls_it_may_add_and_when_a_deep_search_is_content(
    effort, extra_calls, stop_at
):
    assert SearchConfig(effort=effort).extra_calls == extra_calls
    assert SearchConfig(effort=effort, max_model_calls=3).extra_calls == 3
    assert KernelConfig(effort=effort).stop_at == stop_at


def test_the_search_lives_in_the_loop_by_default():
    assert not SearchConfig().is_deep
    assert [
        each
        for each in ("posterior", "smoothed", "printed")
        if not SearchConfig(selection=each).is_deep
    ] == []
    with pytest.raises(
        ConfigurationError, match="selection='doubt' searches in the agent's own loop"
    ):
        KernelConfig.of(SearchConfig())


def test_the_posterior_takes_no_drafts_for_single_tools():
    with pytest.raises(
        ConfigurationError,
        match=r"choose proposals='together', or selection='smoothed'",
    ):
        SearchConfig(selection="posterior", proposals="per_tool")


@pytest.mark.parametrize(
    "setting", [{"max_rollouts": 3}, {"top_k": 2}, {"proposals": "per_tool"}]
)
def test_a_setting_of_deep_search_is_refused_in_the_loop(setting):
    with pytest.raises(
        ConfigurationError, match=f"{next(iter(setting))}=.* shapes a deep search"
    ):
        SearchConfig(**setting)
    assert SearchConfig(selection="smoothed", **setting).is_deep


def test_settings_are_keyword_only_and_frozen():
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        SearchConfig(60)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SearchConfig().top_k = 1


@pytest.mark.parametrize(
    "make",
    [SearchConfig, SearchConfig.paper, partial(dataclasses.replace, SearchConfig())],
)
def test_a_misspelt_setting_is_refused(make):
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_rollout'"):
        make(max_rollout=3)


def test_the_published_settings():
    assert [field.name for field in dataclasses.fields(SearchConfig)] == [
        "effort", "max_model_calls", "max_seconds", "check_writes", "selection", "max_rollouts", "exploration",
        "pre_threshold", "post_threshold", "top_k", "max_depth", "parallel_rollouts", "patience", "proposals",
    ]  # fmt: skip
    assert dataclasses.astuple(SearchConfig()) == (
        "balanced", None, None, False, "doubt", 100, 1.4, 0.3, 0.4, 5, 15, 4, 10, "together",
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
    assert SearchConfig.paper(form="acl") == SearchConfig.paper(
        coarse_planner=True, reward="path"
    )
    with pytest.raises(
        ConfigurationError, match="form must be 'iclr' or 'acl', got 'emnlp'"
    ):
        SearchConfig.paper(form="emnlp")


@pytest.mark.parametrize(
    ("config", "tools", "expected"),
    [
        (KernelConfig(), 3, 100 * 3 + 2),
        (
            KernelConfig(max_rollouts=10, pre_evaluation="single", top_k=3),
            3,
            10 * (3 + 3) + 2,
        ),
        (SearchConfig.paper(max_rollouts=10), 3, 10 * (3 + 3 + 3) + 2),
        (KernelConfig(max_model_calls=7), 3, 7),
    ],
)
def test_a_search_knows_the_most_model_calls_that_it_may_make(config, tools, expected):
    assert config.most_model_calls(tools) == expected
