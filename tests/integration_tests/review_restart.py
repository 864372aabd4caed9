"""Agents whose writes a person approves, of every kind; run as a script, each step of one in a process of its own."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from child_processes import serve
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import PrivateAttr
from travel import EFFECTS, Agency, TravelPolicy, asking

from langchain_tooltree import (
    JudgeRequest,
    PlanReviewMiddleware,
    PlanReviewNode,
    ToolTreeMiddleware,
    ToolTreeNode,
    create_tooltree_agent,
    review_condition,
)
from langchain_tooltree.testing import OfflineChatModel, read_question
from tests.internals.tooltree import deciding

HOSTS = ("node", "middleware", "agent")

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


class Traveller(OfflineChatModel):
    """The stand-in model. It counts its calls, and may ask for tools where it is to answer.

    Args:
        wishes: Calls that it asks for at once where it is asked for its first answer.
    """

    policy: Any = TravelPolicy()
    wishes: Sequence[dict[str, Any]] = ()
    _calls: list[None] = PrivateAttr(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self._calls)

    def _respond(self, messages: Any, tools: Any) -> Any:
        self._calls.append(None)  # unlike counting up, safe from several threads at once
        question, _ = read_question(messages, tools)
        if question.kind == "answer" and self.wishes and not question.path:
            return AIMessage("I will.", tool_calls=list(self.wishes))
        return super()._respond(messages, tools)


def no_judge(request: JudgeRequest) -> Any:
    """A judge that is down, so that planning fails."""
    raise ConnectionError("no judge today")


def reviewed_agent(
    host: str,
    agency: Agency,
    *,
    model: Any = None,
    judge: Any = None,
    config: Any = None,
    checkpointer: Any = None,
    reads: Any = EFFECTS,
) -> Any:
    """An agent that plans and has its writes approved.

    Args:
        host: `"node"`: both nodes in a graph; `"middleware"`: both middleware in a `create_agent`; `"agent"`:
            `create_tooltree_agent`.
        agency: Its tools.
        model: Its model.
        judge: Its judge, the model if left out.
        config: The settings of its searches.
        checkpointer: Where its threads are kept.
        reads: Which tools read.
    """
    model = model or Traveller()
    parts: dict[str, Any] = {"judge": judge, "config": config, "effects": reads}
    if host == "agent":
        return create_tooltree_agent(model, agency.tools, review=True, checkpointer=checkpointer, **parts)
    if host == "middleware":
        middleware: list[Any] = [PlanReviewMiddleware(reads), ToolTreeMiddleware(**parts)]
        return create_agent(model, agency.tools, middleware=middleware, checkpointer=checkpointer)
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, agency.tools, **parts))
    review = PlanReviewNode(reads)
    graph.add_node("review", review)
    graph.add_node("tools", review.guard(ToolNode(agency.tools)))
    graph.add_edge(START, "model")
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def step(
    *, host: str, path: str, database: str, request: str | None, answer: Any, report: str, decision: Any = None
) -> None:
    """Begin a run, or go on with one that waits for an answer, and write down where it stands then.

    A `decision` is given in the same process on what is asked at the end of it.
    """
    agency = Agency()
    model = Traveller()
    given: Any = asking(request) if request else Command(resume=answer)
    run = _arun(host, agency, model, database, given, decision) if path == "async" else None
    output = asyncio.run(run) if run else _run(host, agency, model, database, given, decision)
    held = {
        "messages": [message.model_dump() for message in output.value["messages"]],
        "asked": [interrupt.value for interrupt in output.interrupts],
        "model_calls": model.calls,
        "tool_calls": dict(agency.calls),
    }
    Path(report).write_text(json.dumps(held))


def _run(host: str, agency: Agency, model: Any, database: str, given: Any, decision: Any) -> Any:
    with SqliteSaver.from_conn_string(database) as saver:
        agent = reviewed_agent(host, agency, model=model, checkpointer=saver)
        output = agent.invoke(given, THREAD, version="v2")
        return agent.invoke(deciding(output.interrupts, decision), THREAD, version="v2") if decision else output


async def _arun(host: str, agency: Agency, model: Any, database: str, given: Any, decision: Any) -> Any:
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        agent = reviewed_agent(host, agency, model=model, checkpointer=saver)
        output = await agent.ainvoke(given, THREAD, version="v2")
        return await agent.ainvoke(deciding(output.interrupts, decision), THREAD, version="v2") if decision else output


if __name__ == "__main__":
    serve(step)
