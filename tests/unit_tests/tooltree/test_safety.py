"""What a search tries out stays in the search: nothing reaches the real world, the host's state or its store."""

import asyncio
import threading
import time
from typing import Annotated

import pytest
from langchain.tools import ToolRuntime
from langchain_core.messages import HumanMessage
from langchain_core.tools import InjectedToolArg, StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore
from langgraph.store.base import BaseStore
from pydantic import AliasChoices, BaseModel, Field

from langchain_tooltree import ConfigurationError, ObjectSandbox, SearchConfig, ToolTreeNode
from tests.internals.tooltree import MANY_QUESTIONS, clean_arguments, find_problem


def writer(log):
    """A tool that leaves a trace."""

    def send(n: int) -> str:
        """Send a number."""
        log.append(n)
        return f"sent {n}"

    return StructuredTool.from_function(send)


async def test_a_sandbox_that_loses_its_tools_never_lets_the_real_one_run(find, offline):
    real, listed = [], []

    class Leaky:
        @property
        def tools(self):
            listed.append(1)
            return [writer([])] if len(listed) < 4 else []

        def fork(self):
            return self

    model = offline(offers={(): [("send", {"n": 1})]}, goal={"send": 0.9})
    result = await find("Go.", [writer(real)], model=model, sandbox=Leaky())
    assert real == []
    assert result.tree[1].observation.kind == "unsupported"


async def test_a_fork_that_fails_is_an_observation(find, offline):
    class Unreachable:
        tools = (writer([]),)

        def fork(self):
            raise ConnectionError("no route")

    model = offline(offers={(): [("send", {"n": 1})]}, r_post={"send": 0.1})
    for config in (SearchConfig(selection="smoothed"), SearchConfig()):
        result = await find("Go.", Unreachable.tools, model=model, sandbox=Unreachable(), config=config)
        assert "could not be forked: ConnectionError: no route" in result.tree[1].observation.content
        waits = result.pending is not None
        # A judge finds the call useless; the agent's own step is left to the host, as where there is no sandbox.
        assert waits == (config.proposals == "own_step")
        assert waits or result.answer.text == "Done."


@pytest.mark.parametrize("declared", [{}, {"note": "read"}], ids=["sandboxed", "read"])
async def test_what_a_tried_tool_does_to_the_injected_state_stays_in_the_search(offline, declared):
    class State(MessagesState):
        todos: list[int]

    def note(n: int, state: Annotated[dict, InjectedState]) -> str:
        """Note a number."""
        state["todos"].append(n)
        return f"{len(state['todos'])} noted"

    tools = [StructuredTool.from_function(note)]
    model = offline(offers={(): [("note", {"n": n}) for n in range(3)]}, goal={"note": 0.2})
    sandbox = None if declared else ObjectSandbox([], lambda _: tools)
    seen = []
    graph = StateGraph(State)
    graph.add_node("model", ToolTreeNode(model, tools, effects=declared, sandbox=sandbox))
    graph.add_node("look", lambda state: seen.append(list(state["todos"])))
    graph.add_edge(START, "model")
    graph.add_edge("model", "look")
    await graph.compile().ainvoke({"messages": [HumanMessage("Go.")], "todos": []})
    assert seen == [[]]


def keep_by_store(n: int, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a number."""


def keep_by_runtime(n: int, runtime: ToolRuntime) -> str:
    """Keep a number."""


@pytest.mark.parametrize("function", [keep_by_store, keep_by_runtime])
def test_a_sandbox_may_not_bind_a_tool_that_reaches_the_store(offline, function):
    tools = [StructuredTool.from_function(function)]
    with pytest.raises(ConfigurationError, match="which no fork can contain"):
        ToolTreeNode(offline(), tools, sandbox=ObjectSandbox([], lambda _: tools))


class Lookup(BaseModel):
    """Look something up."""

    query: str
    user: Annotated[str, InjectedToolArg] = Field(default="nobody", alias="userId")
    role: Annotated[str, InjectedToolArg] = Field(
        default="guest", validation_alias=AliasChoices("userRole", "roleName")
    )


def test_a_model_cannot_write_an_injected_argument_under_any_of_its_names():
    looking = StructuredTool(name="lookup", description="Look.", args_schema=Lookup, func=lambda **given: str(given))
    written = {"query": "x", "userId": "admin", "user": "admin", "userRole": "root", "roleName": "root", "role": "root"}
    assert clean_arguments(looking, written) == {"query": "x"}
    assert find_problem(looking, {"query": "x"}) is None


async def test_a_write_that_timed_out_leaves_no_world_behind(find, offline):
    release = threading.Event()

    class Slow:
        """Takes long to write."""

        def __init__(self):
            self.written = []

        def __deepcopy__(self, memo):
            copied = Slow()
            copied.written = list(self.written)
            return copied

        def put(self, n: int) -> str:
            """Put a number."""
            release.wait(10)
            self.written.append(n)
            return str(self.written)

    slow = Slow()
    sandbox = ObjectSandbox.of_methods(slow)
    model = offline(offers={(): [("put", {"n": 1})], ("put",): [("put", {"n": 2})]})
    try:
        result = await find(
            "Go.", sandbox.tools, model=model, sandbox=sandbox, config=SearchConfig(tool_timeout=0.05, max_proposals=1)
        )
    finally:
        release.set()
    assert [node.observation.kind for node in result.tree.nodes[1:]] == ["timeout"]
    assert result.tree[1].closed


@pytest.mark.slow
async def test_tools_that_hang_take_no_place_of_others(find, offline):
    release = threading.Event()

    @tool
    def hang(n: int) -> str:
        """Hang."""
        release.wait(20)
        return "late"

    @tool
    def quick(n: int) -> str:
        """Answer."""
        return "here"

    offers = [("hang", {"n": n}) for n in range(9)] + [("quick", {"n": 0})]
    model = offline(offers={(): offers}, r_post={"hang": 0.1}, r_pre={"quick": 0.5})
    config = SearchConfig(tool_timeout=0.2, top_k=10, parallel_rollouts=8, max_proposals=1, **MANY_QUESTIONS)
    began = time.monotonic()
    try:
        result = await find("Go.", [hang, quick], model=model, effects={"hang": "read", "quick": "read"}, config=config)
    finally:
        release.set()
    seen = {node.call.tool: node.observation.kind for node in result.tree.nodes[1:] if node.observation}
    assert seen == {"hang": "timeout", "quick": "ok"}
    assert time.monotonic() - began < 10, "twenty seconds of hanging must not be waited for"


@pytest.mark.slow
async def test_an_async_tool_that_blocks_is_given_up_on_the_sync_path(find, offline):
    release = threading.Event()

    async def block(n: int) -> str:
        """Block the loop, as no async tool should."""
        release.wait(5)
        await asyncio.sleep(0)
        return "late"

    model = offline(offers={(): [("block", {"n": 1})]}, r_post={"block": 0.1})
    blocking = StructuredTool.from_function(coroutine=block)
    timer = threading.Timer(1, release.set)
    timer.start()
    result = await find(
        "Go.", [blocking], model=model, effects={"block": "read"}, config=SearchConfig(tool_timeout=0.1)
    )
    timer.cancel()
    release.set()
    assert result.tree[1].observation.kind in {"timeout", "ok"}  # where it blocks the loop of the search, nothing can


async def test_a_judge_that_raises_stop_iteration_does_not_stall_the_search(find, offline, numbered_tools):
    model = offline(offers={(): [("alpha", {"n": 1})]})
    config = SearchConfig(**MANY_QUESTIONS)
    parts = {"model": model, "judge": lambda _: next(iter(())), "effects": {"alpha": "read"}, "config": config}
    result = await asyncio.wait_for(find("Go.", numbered_tools("alpha"), **parts), 10)
    assert "StopIteration" in result.fallback
