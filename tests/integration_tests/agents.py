"""The travel agency's agent as `create_agent` makes it, with a planner in, and what a test asks of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from pydantic import Field
from travel import EFFECTS, Agency, TravelPolicy, travel_model

from langchain_tooltree import ToolTreeMiddleware
from langchain_tooltree.testing import OfflineChatModel, read_question

THREAD: Any = {"configurable": {"thread_id": "1"}}


def planning_agent(
    agency: Agency,
    *before: AgentMiddleware[Any, Any, Any],
    model: OfflineChatModel | None = None,
    tools: Sequence[Any] | None = None,
    planner: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """An agent that plans.

    Args:
        agency: Its tools.
        *before: Middleware in front of the planner.
        model: Its model, the stand-in that knows all errands if left out.
        tools: Its tools, if they are not the agency's.
        planner: Arguments of the planner.
        **options: Arguments of `create_agent`.
    """
    planning = ToolTreeMiddleware(**{"effects": EFFECTS, **(planner or {})})
    return create_agent(
        model or travel_model(),
        agency.tools if tools is None else tools,
        middleware=[*before, planning],
        **options,
    )


def invoke(agent: Any, given: Any, config: Any = None, *, path: str, **options: Any) -> Any:
    """Invoke an agent on one of the two paths."""
    if path == "async":
        return asyncio.run(agent.ainvoke(given, config, **options))
    return agent.invoke(given, config, **options)


def stream(agent: Any, given: Any, config: Any = None, *, path: str, **options: Any) -> list[Any]:
    """Stream an agent to its end on one of the two paths."""

    async def collect() -> list[Any]:
        return [chunk async for chunk in agent.astream(given, config, **options)]

    return asyncio.run(collect()) if path == "async" else list(agent.stream(given, config, **options))


class Witness(BaseCallbackHandler):
    """Hears of every event of the planners in a run."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        if name.startswith("tooltree."):
            self.events.append(data)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind, such as one `start` for each search."""
        return [event for event in self.events if event["type"] == kind]


@dataclass(frozen=True)
class Heard:
    """One request to a model.

    Attributes:
        kind: `propose`, `pre` or `post` while searching, `answer` otherwise.
        messages: What it was sent.
        options: What was bound to it, such as `tools` and `tool_choice`.
    """

    kind: str
    messages: list[BaseMessage]
    options: Mapping[str, Any]

    @property
    def system(self) -> str:
        """The system prompt."""
        return "\n".join(message.text for message in self.messages if isinstance(message, SystemMessage))

    @property
    def tools(self) -> list[Any]:
        """The tools: their names, or, for those that the provider runs, what was passed."""
        return [tool["function"]["name"] if "function" in tool else tool for tool in self.options.get("tools") or ()]


class ListeningModel(OfflineChatModel):
    """The stand-in model of the travel agency, which remembers every request.

    Args:
        failures: Raised, one after the other, in place of answers.
    """

    policy: Any = Field(default_factory=TravelPolicy)
    failures: list[Exception] = Field(default_factory=list)
    heard: list[Heard] = Field(default_factory=list)

    def _message(self, messages: list[BaseMessage], options: Mapping[str, Any]) -> AIMessage:
        own = [tool for tool in options.get("tools") or () if "function" in tool]
        kind = read_question(messages, own)[0].kind
        self.heard.append(Heard(kind, messages, options))
        if kind == "answer" and self.failures:
            raise self.failures.pop(0)
        return super()._message(messages, {**options, "tools": own})

    def asked(self, *kinds: str) -> list[Heard]:
        """The requests of some kinds."""
        return [heard for heard in self.heard if heard.kind in kinds]
