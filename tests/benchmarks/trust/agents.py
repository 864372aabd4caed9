"""Rubbish replies through whole agents: who ends a run that the plain agent does not end, and who holds an event loop.

A model gives a rubbish reply, then answers. Each reply goes through the plain agent and through one form of ours in
turn, with and without a checkpointer: integers of 400 digits, arguments nested a thousand deep, ids that are missing,
empty or the same, fields of any type. A crash counts if the plain agent, with the same reply, does not crash. What one
reply costs in processor time beyond the plain agent is how long it can hold an event loop.
"""

import copy
import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils import batch_iterate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore
from pydantic import Field

from langchain_tooltree import (
    CFGMMiddleware,
    Experience,
    SITGraph,
    SITGraphMiddleware,
    ToolTreeNode,
    create_tooltree_agent,
)
from tests.benchmarks.trust.rubbish import PARROT, READS, deep, look, random_reply, send

REPLIES, QUICK = 20_000, 600
"""Replies that are tried, each in one form."""

TOOLS = [look, send]
FOLLOWING = AIMessage('{"missing": "nothing"}\nDone.')
MOST_STEPS = 40
RENEWED = 200
"""Replies after which agents are made anew, since what they have learnt takes gigabytes in the end."""


class Speaker(BaseChatModel):
    """A model that gives a rubbish reply once, and answers then."""

    said: dict[str, Any] = Field(default_factory=dict)  # shared by copies of the model

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        reply = self.said.pop("reply", None) or FOLLOWING.model_copy()
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Bind nothing."""
        return self.bind()


def _plain(model: Any, **options: Any) -> Any:
    return create_agent(model, TOOLS, **options)


def _node(model: Any, **options: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, TOOLS, effects=READS))
    graph.add_node("tools", ToolNode(TOOLS))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(**options)


def _experienced(model: Any, **options: Any) -> Any:
    experience = Experience(InMemoryStore(), namespace=("all",), verdict=lambda _: True)
    return create_tooltree_agent(
        model, TOOLS, effects=READS, experience=experience, **options
    )


def _middleware(model: Any, **options: Any) -> Any:
    parts = [CFGMMiddleware(PARROT, reflect=False), SITGraphMiddleware(SITGraph())]
    return create_agent(model, TOOLS, middleware=parts, **options)


FORMS: Mapping[str, Callable[..., Any]] = {
    "agent": lambda model, **options: create_tooltree_agent(
        model, TOOLS, effects=READS, **options
    ),
    "review": lambda model, **options: create_tooltree_agent(
        model, TOOLS, effects=READS, review=True, **options
    ),
    "node": _node,
    "experience": _experienced,
    "middleware": _middleware,
}


def worst() -> Iterator[AIMessage]:
    """The cases that once ended a run."""
    for arguments in (
        {"query": "a", "count": 10**400},
        {"query": deep(1_000)},
        {"query": deep(90, keyed=True)},
    ):
        yield AIMessage("", tool_calls=[{"name": "look", "args": arguments, "id": "1"}])
    for ids in ((None,), ("",), ("same", "same"), ("", "")):
        yield AIMessage(
            "",
            tool_calls=[
                {"name": "look", "args": {"query": str(at)}, "id": id_}
                for at, id_ in enumerate(ids)
            ],
        )


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Try the worst replies in each form, then random ones in turn."""
    model = Speaker()
    forms = [
        (form, kept)
        for form in FORMS
        for kept in (False, True)
        if kept or form != "review"
    ]  # which needs one
    crashes, slowest, tried = Counter[str](), ("", 0.0), 0
    replies = [(reply, form) for reply in worst() for form in forms]
    draws = (
        random.Random(f"agents {number}")  # noqa: S311 - no secret
        for number in range(QUICK if quick else REPLIES)
    )
    replies += [
        (random_reply(draw), forms[number % len(forms)])
        for number, draw in enumerate(draws)
    ]
    gc.disable()  # a pause for what other replies have left is none of this one's
    for page in batch_iterate(RENEWED, replies):
        graphs = _graphs(model, forms)
        gc.collect()
        for reply, (form, kept) in page:
            tried += 1
            plain_crash, plain_seconds = _played(graphs["plain", kept], model, reply)
            crash, seconds = _played(graphs[form, kept], model, reply)
            if crash and not plain_crash:
                crashes[f"{form}: {crash}"] += 1
            slowest = max(
                slowest, (form, seconds - plain_seconds), key=lambda each: each[1]
            )
    gc.enable()
    figures = {
        "tried": tried,
        "crashed": crashes.total(),
        "slowest_ms": round(slowest[1] * 1_000, 1),
    }
    return {"agents": {**figures, "slowest_form": slowest[0], "crashes": dict(crashes)}}


def _graphs(
    model: Any, forms: Sequence[tuple[str, bool]]
) -> dict[tuple[str, bool], Any]:
    """Agents that have seen nothing yet, and have loaded what they need."""
    makers = {"plain": _plain, **FORMS}
    graphs = {
        (form, kept): makers[form](
            model, checkpointer=InMemorySaver() if kept else None
        )
        for form, kept in (("plain", False), ("plain", True), *forms)
    }
    for graph in graphs.values():
        _played(graph, model, FOLLOWING)
    return graphs


def _played(graph: Any, model: Speaker, reply: AIMessage) -> tuple[str, float]:
    """Why a run ended that had this reply, if it did not end by itself, and its processor time."""
    model.said["reply"] = copy.copy(reply)
    config = {"configurable": {"thread_id": "one"}, "recursion_limit": MOST_STEPS}
    began, crash = time.thread_time(), ""
    try:
        graph.invoke({"messages": [HumanMessage("How many things are there?")]}, config)
    except Exception as error:  # noqa: BLE001 - what crashes is counted
        crash = type(error).__name__
    seconds = time.thread_time() - began
    if graph.checkpointer is not None:
        graph.checkpointer.delete_thread("one")
    return crash, seconds
