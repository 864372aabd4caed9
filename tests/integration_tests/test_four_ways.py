"""One plan, four ways: as a node, as middleware, as an agent and as a function, sync and async, one search is made.

What a search did is compared by its progress events, which tell of every node, score and token, and what came of it by
the messages of the plan with their marks. Models and tools answer arbitrarily, but always the same.
"""

# ruff: noqa: S311 - nothing random here is a secret

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from conversations import check_pairs
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_tooltree import (
    JudgeRequest,
    ObjectSandbox,
    SearchConfig,
    ToolTreeMiddleware,
    ToolTreeNode,
    asearch,
    create_tooltree_agent,
    search,
)
from langchain_tooltree.testing import Made, OfflineChatModel, Question
from tests.internals.tooltree import MANY_QUESTIONS

REQUEST = "Put the right note on the board."

EFFECTS: dict[str, Any] = {"look": "read", "ask": "read", "fetch": "read"}

SMALL: dict[str, Any] = {"max_rollouts": 8, "post_threshold": 0.2, "value_threshold": 0.8}
"""Lets arbitrary scores grow a tree of some depth in little time."""

CONFIGS: dict[str, SearchConfig] = {
    "default": SearchConfig(max_rollouts=20),
    "many-questions": SearchConfig(**SMALL, **MANY_QUESTIONS),
    "always-judged": SearchConfig(**SMALL, **{**MANY_QUESTIONS, "post_evaluation": "always"}),
    "smoothed": SearchConfig(**SMALL, selection="smoothed", **MANY_QUESTIONS),
    "paper": SearchConfig.paper(max_rollouts=6, max_depth=3),
    "per-tool": SearchConfig(**SMALL, proposals="per_tool", pre_evaluation="single"),
    "one-at-a-time": SearchConfig(**SMALL, parallel_rollouts=1),
    "few-model-calls": SearchConfig(**SMALL, max_model_calls=11),
    "few-tool-calls": SearchConfig(**SMALL, max_tool_calls=3),
    "few-tokens": SearchConfig(**SMALL, max_tokens=3_000),
    "one-rollout": SearchConfig(max_rollouts=1),
    "tools-retrieved": SearchConfig(**SMALL, retrieve_top=2),
    "tools-planned": SearchConfig(**SMALL, coarse_planner=True),
}


@dataclass(frozen=True)
class Dice:
    """A policy that throws dice for every question; the same dice for the same question."""

    seed: int

    def propose(self, question: Question) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Up to four calls of the tools that are shown."""
        dice = self._dice("propose", question.path, question.attempt, question.tools)
        count = dice.randrange(1 if question.path else 2, 5)
        return [(dice.choice(question.tools), {"n": dice.randrange(4)}) for _ in range(count)]

    def score_call(self, question: Question, call: Made) -> float:
        """Any number, small ones less often."""
        return self._dice("pre", question.path, call.tool, call.arguments).random() ** 0.5

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """Any two numbers."""
        dice = self._dice("post", question.path, call.tool, call.arguments, call.observation)
        return dice.random() ** 0.5, dice.random()

    def answer(self, question: Question) -> str:
        """What was seen on the way."""
        return f"I saw {[made.observation for made in question.path]} for you"

    def judge(self, request: JudgeRequest) -> Any:
        """The same scores from a function, which costs no model calls."""
        dice = self._dice(request.stage, request.history, [(call.tool, call.arguments) for call in request.calls])
        return [dice.random() ** 0.5 for _ in request.calls] if request.stage == "pre" else (dice.random(), 0.5)

    def _dice(self, *about: object) -> random.Random:
        return random.Random(f"{self.seed}:{about}")


class Board:
    """A world for writes."""

    def __init__(self) -> None:
        self.notes: list[int] = []

    def pin(self, n: int) -> str:
        """Pin a note to the board."""
        self.notes.append(n)
        return f"the board shows {self.notes}"


def reads() -> list[BaseTool]:
    """One tool with both forms, one that is sync only and one that is async only."""

    def look(n: int) -> str:
        """Look at a note."""
        return f"note {n} says {n * n}"

    async def alook(n: int) -> str:
        return look(n)

    def ask(n: int) -> str:
        """Ask a person."""
        if n == 2:
            msg = "nobody is there"
            raise ValueError(msg)
        return f"person {n} shrugs"

    async def fetch(n: int) -> str:
        """Fetch a page."""
        await asyncio.sleep(0)
        return f"page {n}"

    return [
        StructuredTool.from_function(look, alook),
        StructuredTool.from_function(ask),
        StructuredTool.from_function(coroutine=fetch),
    ]


@dataclass(frozen=True)
class Case:
    """One agent in one situation, to be built in different ways."""

    seed: int
    config: SearchConfig
    sandboxed: bool = False
    judged_by_function: bool = False

    def parts(self) -> tuple[OfflineChatModel, list[BaseTool], dict[str, Any]]:
        """Model, tools and options, newly made."""
        dice = Dice(self.seed)
        board = ObjectSandbox.of_methods(Board())
        return (
            OfflineChatModel(policy=dice),
            [*reads(), *board.tools],
            {
                "config": self.config,
                "effects": EFFECTS,
                "sandbox": board if self.sandboxed else None,
                "judge": dice.judge if self.judged_by_function else None,
            },
        )


Seen = tuple[list[Any], list[Any]]
"""The events of a search, and the messages of its plan without what differs from run to run."""


def as_function(case: Case, path: str) -> Seen:
    model, tools, options = case.parts()
    events: list[Any] = []
    options |= {"model": model, "on_event": events.append}
    result = search(REQUEST, tools, **options) if path == "sync" else asyncio.run(asearch(REQUEST, tools, **options))
    return events, comparable(result.messages)


def as_node(case: Case, path: str) -> Seen:
    model, tools, options = case.parts()
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, tools, **options))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return streamed(graph.compile(checkpointer=InMemorySaver()), path)


def as_middleware(case: Case, path: str) -> Seen:
    model, tools, options = case.parts()
    middleware = [ToolTreeMiddleware(**options)]
    return streamed(create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver()), path)


def as_agent(case: Case, path: str) -> Seen:
    model, tools, options = case.parts()
    return streamed(create_tooltree_agent(model, tools, **options, checkpointer=InMemorySaver()), path)


WAYS: list[Callable[[Case, str], Seen]] = [as_function, as_node, as_middleware, as_agent]
PATHS = ("sync", "async")
ALL_WAYS = list(itertools.product(WAYS, PATHS))


def streamed(agent: CompiledStateGraph[Any, Any, Any, Any], path: str) -> Seen:
    """One turn of an agent, up to the write that its plan waits for or to the answer."""
    given: Any = {"messages": [HumanMessage(REQUEST)]}
    thread = {"configurable": {"thread_id": "1"}}
    options: Any = {"config": thread, "stream_mode": ["custom", "values"], "interrupt_before": ["tools"]}

    async def astreamed() -> list[Any]:
        return [chunk async for chunk in agent.astream(given, **options)]

    chunks = list(agent.stream(given, **options)) if path == "sync" else asyncio.run(astreamed())
    events = [chunk["tooltree"] for mode, chunk in chunks if mode == "custom"]
    *_, last = (chunk["messages"] for mode, chunk in chunks if mode == "values")
    return events, comparable(last[1:])


def comparable(messages: Sequence[BaseMessage]) -> list[Any]:
    """Messages as plain data, without ids and times."""
    check_pairs([HumanMessage(REQUEST), *messages], may_end_open=True)
    return [_plain(message) for message in messages]


def _plain(message: BaseMessage) -> Any:
    if isinstance(message, ToolMessage):
        return message.name, message.content, message.status, message.artifact
    assert isinstance(message, AIMessage)
    mark = {key: value for key, value in message.response_metadata.get("tooltree", {}).items() if key != "search"}
    if "cost" in mark:
        mark["cost"] = {name: value for name, value in mark["cost"].items() if name != "seconds"}
    return [(call["name"], call["args"]) for call in message.tool_calls], message.text, mark


def check_one_plan(case: Case, ways: Sequence[tuple[Callable[[Case, str], Seen], str]] = ALL_WAYS) -> Seen:
    """Fail unless these ways tell the same story and come to the same plan."""
    expected = as_function(case, "sync")
    for way, path in ways:
        events, plan = way(case, path)
        assert plan == expected[1], f"{way.__name__}, {path}"
        assert events == expected[0], f"{way.__name__}, {path}"
    return expected


@pytest.mark.parametrize("sandboxed", [False, True], ids=["deferred", "sandboxed"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_way_makes_the_same_search_and_finds_the_same_plan(config: SearchConfig, *, sandboxed: bool) -> None:
    # Each way takes both paths with each configuration: one with a sandbox, the other without.
    ways = [(way, PATHS[(number + sandboxed) % 2]) for number, way in enumerate(WAYS)]
    events, plan = check_one_plan(Case(seed=4, config=config, sandboxed=sandboxed), ways)

    kinds = {event["type"] for event in events}
    assert {"select", "propose", "stop"} <= kinds
    assert plan


def test_the_cases_hold_plans_that_end_in_answers_and_plans_that_wait_for_writes() -> None:
    plans = [
        as_function(Case(seed=seed, config=CONFIGS[config], sandboxed=sandboxed), "sync")[1]
        for seed in range(4)
        for sandboxed in (False, True)
        for config in ("default", "always-judged")
    ]

    waiting = [plan[-1][0][0][0] for plan in plans if plan[-1][0]]
    assert 0 < len(waiting) < len(plans)
    assert set(waiting) == {"pin"}
    assert any(plan[-1][2]["plan"] for plan in plans if plan[-1][0]), "some sandboxed plan goes on after its write"


@given(
    seed=st.integers(0, 10_000),
    parallel=st.integers(1, 5),
    rollouts=st.integers(1, 9),
    budget=st.sampled_from([{}, {"max_model_calls": 7}, {"max_tool_calls": 2}, {"max_tokens": 2_000}]),
    switches=st.fixed_dictionaries(
        {
            "proposals": st.sampled_from(["together", "per_tool"]),
            "pre_evaluation": st.sampled_from(["batched", "single"]),
            "selection": st.sampled_from(["posterior", "smoothed", "printed"]),
            "goal_score": st.booleans(),
            "post_evaluation": st.sampled_from(["needed", "always"]),
        }
    ),
    sandboxed=st.booleans(),
    judged_by_function=st.booleans(),
)
@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_every_way_makes_the_same_search_whatever_the_settings(
    seed: int,
    parallel: int,
    rollouts: int,
    budget: dict[str, int],
    switches: dict[str, Any],
    *,
    sandboxed: bool,
    judged_by_function: bool,
) -> None:
    switches["goal_score"] = switches["goal_score"] or switches["selection"] == "posterior"
    config = SearchConfig(
        **{**SMALL, "max_rollouts": rollouts}, parallel_rollouts=parallel, seed=seed, **budget, **switches
    )

    check_one_plan(Case(seed, config, sandboxed=sandboxed, judged_by_function=judged_by_function))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_function_grows_the_same_tree_on_both_paths(config: SearchConfig) -> None:
    trees = []
    for path in ("sync", "async"):
        model, tools, options = Case(seed=9, config=config, sandboxed=True).parts()
        options |= {"model": model}
        result = (
            search(REQUEST, tools, **options) if path == "sync" else asyncio.run(asearch(REQUEST, tools, **options))
        )
        trees.append(result.to_dict())

    assert trees[0] == trees[1]
    assert len(trees[0]["nodes"]) > 1
