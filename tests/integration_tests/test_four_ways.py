"""One plan, four ways: as a node, as middleware, as an agent and as a function, sync and async, one search is made.

What a search did is compared by its progress events, which tell of every node, score and token, and what came of it by
the messages of the plan. Models and tools answer arbitrarily, but always the same.
"""

# ruff: noqa: S311 - nothing random here is a secret

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from agents import stream
from conversations import check_pairs
from doubts import ASKED, READS, REPLIES, look, middleware_agent, node_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import ObjectSandbox, SearchConfig, asearch, create_tooltree_agent, search
from langchain_tooltree.testing import Made, OfflineChatModel, Question, ScriptedChatModel
from langchain_tooltree.tooltree.judge import JudgeRequest
from tests.internals.tooltree import KernelConfig

REQUEST = "Put the right note on the board."

EFFECTS: dict[str, Any] = {"look": "read", "ask": "read", "fetch": "read"}

SMALL: dict[str, Any] = {"max_rollouts": 8, "post_threshold": 0.2, "value_threshold": 0.8}
"""Lets arbitrary scores grow a tree of some depth in little time."""

CONFIGS: dict[str, SearchConfig] = {
    "posterior": KernelConfig(**SMALL),
    "judged apart": KernelConfig(**SMALL, pre_evaluation="batched", post_evaluation="always"),
    "smoothed": KernelConfig(**SMALL, selection="smoothed"),
    "paper": SearchConfig.paper(max_rollouts=6, max_depth=3),
    "few model calls": KernelConfig(**SMALL, max_model_calls=11),
    "one rollout": SearchConfig(selection="posterior", max_rollouts=1),
    "tools planned": KernelConfig(**SMALL, coarse_planner=True),
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
    return by_graph(node_agent, case, path)


def as_middleware(case: Case, path: str) -> Seen:
    return by_graph(middleware_agent, case, path)


def as_agent(case: Case, path: str) -> Seen:
    return by_graph(create_tooltree_agent, case, path)


def by_graph(make: Any, case: Case, path: str) -> Seen:
    """One turn of an agent, up to the write that its plan waits for or to the answer."""
    model, tools, options = case.parts()
    thread = {"configurable": {"thread_id": "1"}}
    agent = make(model, tools, checkpointer=InMemorySaver(), **options)
    given: Any = {"messages": [HumanMessage(REQUEST)]}
    modes: Any = ["custom", "values"]
    chunks = stream(agent, given, thread, path=path, stream_mode=modes, interrupt_before=["tools"])
    events = [chunk["tooltree"] for mode, chunk in chunks if mode == "custom"]
    *_, last = (chunk["messages"] for mode, chunk in chunks if mode == "values")
    return events, comparable(last[1:])


WAYS: list[Callable[[Case, str], Seen]] = [as_function, as_node, as_middleware, as_agent]
PATHS = ("sync", "async")
ALL_WAYS = list(itertools.product(WAYS, PATHS))


def comparable(messages: Sequence[BaseMessage]) -> list[Any]:
    """Messages as plain data, without ids and times."""
    check_pairs([HumanMessage(REQUEST), *messages], may_end_open=True)
    return [_plain(message) for message in messages]


def _plain(message: BaseMessage) -> Any:
    if isinstance(message, ToolMessage):
        return message.name, message.content, message.status, message.artifact
    assert isinstance(message, AIMessage)
    return [(call["name"], call["args"]) for call in message.tool_calls], message.text


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


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
def test_in_the_loop_every_way_makes_the_same_steps(replies: list[Any]) -> None:
    def agent(make: Any) -> tuple[Any, Any]:
        model = ScriptedChatModel(replies=replies)
        return make(model, [look], effects=READS), model

    seen = []
    for make, path in itertools.product((node_agent, middleware_agent, create_tooltree_agent), PATHS):
        graph, model = agent(make)
        chunks = stream(graph, ASKED, path=path, stream_mode=["custom", "values"])
        events = [chunk["tooltree"] for mode, chunk in chunks if mode == "custom"]
        *_, last = (chunk["messages"] for mode, chunk in chunks if mode == "values")
        seen.append((events, comparable(last[1:]), prompts_of(model)))
    for path in PATHS:
        events, model = [], ScriptedChatModel(replies=replies)
        options: Any = {"model": model, "effects": READS, "on_event": events.append}
        asked = ASKED["messages"]
        result = asyncio.run(asearch(asked, [look], **options)) if path == "async" else search(asked, [look], **options)
        seen.append((events, comparable(result.messages), prompts_of(model)))

    assert all(each == seen[0] for each in seen)
    assert len(seen[0][2]) == len(replies)


def prompts_of(model: ScriptedChatModel) -> list[list[tuple[str, str]]]:
    return [[(message.type, message.text) for message in prompt] for prompt in model.calls]


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
