"""A warehouse with a shelf under a cover, a worker who does not think of it, and somebody who watches over him."""

import json
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import CFGMMemory, CFGMMiddleware, Trajectory
from langchain_tooltree.testing import ScriptedChatModel

TASK = "Put the lamp that came in this morning on shelf A1, please."
COVERED = "Error: A1 is under a cover, so nothing can be put there."
ADVICE = "Call uncover for A1 first, then place the lamp again."
ANSWER = "The lamp is on A1."
REVIEW: dict[str, Any] = {
    "key_information": {
        "objective": "The lamp has to be on shelf A1.",
        "initial_environment": "A warehouse with the shelf A1.",
        "progress": "The lamp is not on the shelf, which is under a cover.",
    },
    "questions": [{"question": "What is in the way?", "answer": "The cover of A1."}],
    "next_step": ADVICE,
}
STRAIGHT = ["uncover", "place"]
"""What somebody calls who knows of the cover."""

RECOVERED = ["place", *STRAIGHT]
"""What somebody calls who is told of it after the first attempt."""


class Warehouse:
    """The tools of one warehouse.

    Attributes:
        placed: What was put where, in order.
    """

    def __init__(self) -> None:
        self.placed: list[tuple[str, str]] = []
        self._covered = {"A1"}

    @property
    def tools(self) -> list[BaseTool]:
        """The tools, which both a sync and an async agent can call."""
        made = [StructuredTool.from_function(each) for each in (self.place, self.uncover, self.weigh)]
        for each in made:
            each.handle_tool_error = True
        return list(made)

    def place(self, item: str, shelf: str) -> str:
        """Put an item on a shelf."""
        if shelf in self._covered:
            raise ToolException(COVERED)
        self.placed.append((item, shelf))
        return f"{item} is on {shelf}"

    def uncover(self, shelf: str) -> str:
        """Take the cover off a shelf."""
        self._covered.discard(shelf)
        return f"{shelf} is open"

    def weigh(self, item: str) -> str:
        """Weigh an item."""
        return f"{item}: 2 kg"


def work(messages: Sequence[BaseMessage]) -> AIMessage:
    """Place the lamp again and again, unless somebody says what to do first."""
    results = [message for message in _since_request(messages) if isinstance(message, ToolMessage)]
    if results and "lamp is on A1" in results[-1].text:
        return AIMessage(ANSWER)
    number = sum(isinstance(message, AIMessage) for message in messages)
    said = [message.text for message in (*messages[:1], *results) if isinstance(message, SystemMessage | ToolMessage)]
    if any("uncover" in text for text in said) and not any(result.text == "A1 is open" for result in results):
        return calling(number, uncover={"shelf": "A1"})
    return calling(number, place={"item": "lamp", "shelf": "A1"})


def calling(number: int, **calls: Any) -> AIMessage:
    """The worker calls tools, all at once."""
    made = [{"name": name, "args": arguments, "id": f"call_{number}_{name}"} for name, arguments in calls.items()]
    return AIMessage("", tool_calls=made)


def worker(*first: Any) -> ScriptedChatModel:
    """The worker, who may do some other things before he begins."""
    return ScriptedChatModel(replies=[*first, *[work] * 99])


def watcher(*first: Any) -> ScriptedChatModel:
    """Who watches over him, and may say some other things before."""
    return ScriptedChatModel(replies=[*first, *[REVIEW] * 99])


def memory(*stores: Any) -> CFGMMemory:
    """Memory that knows nothing yet."""
    return CFGMMemory(ScriptedChatModel(replies=[]), *(stores or [InMemoryStore()]))


def asking(task: str = TASK) -> Any:
    """What an agent is asked to do."""
    return {"messages": [HumanMessage(task)]}


def thread(number: int = 1) -> Any:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": f"thread {number}"}}


def warehouse_agent(cfgm: CFGMMiddleware, *others: Any, model: Any = None, tools: Any = None, **options: Any) -> Any:
    """An agent that works in a warehouse of its own."""
    tools = Warehouse().tools if tools is None else tools
    return create_agent(model or worker(), tools, middleware=[*others, cfgm], **options)


def called(messages: Sequence[BaseMessage]) -> list[str]:
    """The names of the tools that were called, in order."""
    return [call["name"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]


def advised(messages: Sequence[BaseMessage]) -> list[str]:
    """The ids of the calls whose results hold a correction."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return [message.tool_call_id for message in results if ADVICE in message.text]


def called_in(run: Trajectory) -> list[str]:
    """The names of the tools that were called in a recorded run."""
    return [step.tool for step in run.steps]


def went_well(_: Trajectory) -> bool:
    """The verdict on all runs."""
    return True


def document_of(prompt: Sequence[BaseMessage]) -> dict[str, Any]:
    """What the watcher was told."""
    return dict(json.loads(prompt[1].text))


def _since_request(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    asked = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return messages[asked[-1] :]
