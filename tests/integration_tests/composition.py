"""A depot, an agent with any middleware that works in it, and what a test compares of a run with and without planner.

The clerk is one model for both. It begins an answer with a report only where its instructions ask for one, so an agent
without a planner gives its doubtful answer, and one with a planner is asked on.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from conversations import check_pairs
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

from langchain_tooltree import ToolTreeMiddleware, Trajectory
from langchain_tooltree.testing import ScriptedChatModel

Step = tuple[str, dict[str, Any]]

THREAD: Any = {"configurable": {"thread_id": "1"}}
EFFECTS: dict[str, Any] = {"find": "read", "price": "read", "read_file": "read"}

ANN = "ann@example.com"
REQUEST = f"What does the bolt cost? Write to {ANN}."

FIND, PRICE, ORDER = (
    ("find", {"item": "bolt"}),
    ("price", {"item": "bolt"}),
    ("order", {"item": "bolt"}),
)
DETOUR: Step = ("find", {"item": "bolts"})
"""A read that brings nothing back, after which the clerk answers in doubt."""

DOUBT = "I know of no bolts."
NOTE, OTHERS = "[Planner's note", "Offer other tool calls"
APPROVE: dict[str, Any] = {"type": "approve"}


class Item(BaseModel):
    """The arguments of each tool: to make this anew for every depot takes much of a test."""

    item: str


class Depot:
    """The tools; what ran is listed in order.

    Args:
        failing: Calls that fail once, such as `"find bolt"`.
        broken: Names of tools that always fail.
    """

    def __init__(
        self, *, failing: Iterable[str] = (), broken: Iterable[str] = ()
    ) -> None:
        self.calls: list[str] = []
        self._failing, self._broken = set(failing), set(broken)

    @property
    def tools(self) -> list[BaseTool]:
        """The tools, each with a sync and an async form."""
        return [
            self._tool(
                "find", "Find an item in the depot.", f"shelf 7, ask {ANN} at 10.0.0.7"
            ),
            self._tool("price", "Tell the price of an item.", "90"),
            self._tool("order", "Order an item.", "done"),
        ]

    def _tool(self, name: str, description: str, reply: str) -> BaseTool:
        def run(item: str) -> str:
            label = f"{name} {item}"
            self.calls.append(label)
            if name in self._broken or label in self._failing:
                self._failing.discard(label)
                msg = f"{name} is out of order"
                raise ConnectionError(msg)
            return "[]" if (name, {"item": item}) == DETOUR else f"{label}: {reply}"

        async def arun(item: str) -> str:
            return run(item)

        return StructuredTool.from_function(
            run, arun, name, description, args_schema=Item
        )


def asks_for_report(message: BaseMessage) -> bool:
    """Whether instructions ask for the report with which an answer begins."""
    return isinstance(message, SystemMessage) and '{"missing"' in message.text


class Clerk(ScriptedChatModel):
    """Makes its steps one by one, and answers with the latest result.

    Args:
        steps: The calls that lead to the answer.
        detour: A read made before the first of `steps` beyond the `extra` ones; then the clerk is in doubt.
        extra: Calls made before everything else.
        names_call: Whether its report names the right call, in place of waiting until others are asked for.
        failures: Raised in place of replies, one after the other.
    """

    steps: list[Step] = Field(default_factory=lambda: [FIND, PRICE])
    detour: Step | None = None
    extra: list[Step] = Field(default_factory=list)
    names_call: bool = False
    failures: list[Exception] = Field(default_factory=list)
    shown: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Bind functions, and note what else a provider would see: tools of its own, and what is deferred."""
        own = [each for each in tools if isinstance(each, BaseTool)]
        offered = [
            (each.name, each.extras) if isinstance(each, BaseTool) else each
            for each in tools
        ]
        return super().bind_tools(own, offered=offered, **kwargs)

    def _get_ls_params(self, *_: Any, **__: Any) -> Any:
        return {"ls_provider": "openai"}

    def _message(
        self, messages: list[BaseMessage], options: Mapping[str, Any]
    ) -> AIMessage:
        self.shown.append(options.get("offered"))
        return super()._message(messages, options)

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        self.calls.append(messages)
        if self.failures:
            raise self.failures.pop(0)
        begin = max(
            at
            for at, each in enumerate(messages)
            if isinstance(each, HumanMessage) and not is_note(each)
        )
        turn = messages[begin + 1 :]
        made = [
            (call["name"], call["args"])
            for each in turn
            if isinstance(each, AIMessage)
            for call in each.tool_calls
        ]
        made += [
            step
            for step in self.steps
            if f"{step[0]} {step[1].get('item')}:" in messages[begin].text
        ]
        if is_note(messages[-1]) and OTHERS in messages[-1].text:
            return self._calling(self.steps[0])
        waiting = [each for each in [*self.extra, *self.steps] if each not in made]
        if (
            self.detour is not None
            and self.steps[0] not in made
            and not set_of(waiting) & set_of(self.extra)
        ):
            waiting = [] if self.detour in made else [self.detour]
            if not waiting:
                return self._answering(messages, DOUBT, missing="where the bolt lies")
        if waiting:
            return self._calling(waiting[0])
        latest = next(
            (each.text for each in reversed(turn) if isinstance(each, ToolMessage)),
            "nothing",
        )
        return self._answering(messages, f"That is all: {latest}", missing="nothing")

    def _calling(self, step: Step) -> AIMessage:
        name, args = step
        return AIMessage(
            "",
            tool_calls=[
                {
                    "name": name,
                    "args": args,
                    "id": f"call_{len(self.calls)}_{uuid4().hex}",
                }
            ],
        )

    def _answering(
        self, messages: Sequence[BaseMessage], text: str, *, missing: str
    ) -> str:
        if not asks_for_report(messages[0]):
            return text
        name, args = self.steps[0]
        named = (
            {"call": {"name": name, "args": args}}
            if self.names_call and missing != "nothing"
            else {}
        )
        return f"{json.dumps({'missing': missing, **named})}\n{text}"


def summary(messages: Sequence[BaseMessage]) -> str:
    """A summary that tells what was called so far; the clerk reads it."""
    return f"They ask for an item. Done: {', '.join(re.findall(r'(?:find|price|order) [a-z0-9]+:', messages[-1].text))}"


def set_of(steps: Iterable[Step]) -> set[str]:
    """Steps as a set of texts."""
    return {str(step) for step in steps}


def is_note(message: BaseMessage) -> bool:
    """Whether a message is one of the planner's, behind the conversation of a question."""
    return isinstance(message, HumanMessage) and message.text.startswith(NOTE)


def is_question(messages: Sequence[BaseMessage]) -> bool:
    """Whether a prompt is a question beyond the steps of a path: for other calls, or for the same answer again."""
    return is_note(messages[-1]) and (
        OTHERS in messages[-1].text or isinstance(messages[-2], AIMessage)
    )


@dataclass
class Run:
    """What is compared of a run.

    Attributes:
        messages: The conversation that is left.
        calls: What ran in the depot, in order.
        prompts: What the agent's own steps were sent, without the request for a report; and the tools offered.
        questions: What a person was asked.
        tool_calls: The calls of the typed stream, with their results.
        state: The rest of the state.
        raw: The messages as they are.
    """

    messages: list[Any] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    prompts: list[Any] = field(default_factory=list)
    questions: list[Any] = field(default_factory=list)
    tool_calls: list[Any] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    raw: list[BaseMessage] = field(default_factory=list)


UNEQUAL = frozenset({"messages", "files", "tooltree", "shell_session_resources"})
"""Parts of a state that are compared otherwise, or are made anew in each run."""


def check_equal(run: Run, plain: Run) -> None:
    """Fail unless two runs are the same."""
    check_pairs(run.raw)
    for name in vars(plain):
        if name != "raw":
            assert getattr(run, name) == getattr(plain, name), name


REPEATED = ("text", "tool_call")
"""Types of blocks that say what a message's text and calls say."""


def plain_form(message: BaseMessage) -> Any:
    """A message without what differs from run to run: its ids, its usage and the planner's remarks."""
    content: Any = message.text  # streamed by typed events, a text and a call are blocks with numbers of their own
    if isinstance(message.content, list):
        others = [
            each
            for each in message.content
            if not isinstance(each, dict) or each.get("type") not in REPEATED
        ]
        content = (message.text, others) if others else message.text
    if isinstance(message, AIMessage):
        return (
            "ai",
            content,
            [(call["name"], call["args"]) for call in message.tool_calls],
            message.name,
        )
    if isinstance(message, ToolMessage):
        return "tool", message.name, content, message.status
    return message.type, content


def prompt_form(messages: Sequence[BaseMessage]) -> list[Any]:
    """A prompt without the request for a report, and without a note that stands behind it."""
    prompt = messages[:-1] if is_note(messages[-1]) else messages
    instructions = "\n\n".join(
        each.text for each in prompt if isinstance(each, SystemMessage)
    )
    lines = [
        line for line in instructions.splitlines() if line and '{"missing"' not in line
    ]
    return [
        lines,
        *(plain_form(each) for each in prompt if not isinstance(each, SystemMessage)),
    ]


def middleware_of(
    others: Sequence[AgentMiddleware[Any, Any, Any]],
    planner: str | None,
    **options: Any,
) -> list[Any]:
    """Other middleware with the planner `first`, `last` or, for `None`, not at all."""
    planners = (
        []
        if planner is None
        else [ToolTreeMiddleware(**{"effects": EFFECTS, **options})]
    )
    return [*planners, *others] if planner == "first" else [*others, *planners]


def run_agent(
    model: Clerk,
    depot: Depot,
    others: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    *,
    planner: str | None,
    path: str,
    decisions: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
    tools: Sequence[Any] | None = None,
    make: Callable[..., Any] = create_agent,
    given: Any = None,
    **options: Any,
) -> Run:
    """Run an agent to its end by its typed stream.

    Args:
        model: Its model.
        depot: Its tools' world.
        others: The middleware beside the planner.
        planner: Where the planner stands; see `middleware_of`.
        path: `sync` or `async`.
        decisions: What a person decides on a call; approval if left out.
        tools: Its tools, if they are not the depot's.
        make: What makes the agent, as `create_agent` does.
        given: More of the first state.
        **options: For `make`.
    """
    placed = middleware_of(others, planner)
    own = depot.tools if tools is None else tools
    agent = make(
        model, own, middleware=placed, **{"checkpointer": InMemorySaver(), **options}
    )
    given = {**asking(), **(given or {})}
    run = Run()
    while True:
        output, calls, interrupts = leg(agent, given, path=path)
        run.tool_calls += [
            (call.tool_name, call.input, without_ids(call.output)) for call in calls
        ]
        if not interrupts:
            break
        [question] = interrupts
        asked = question.value["action_requests"]
        run.questions += asked
        given = Command(
            resume={
                "decisions": [
                    (decisions or (lambda _: APPROVE))(each) for each in asked
                ]
            }
        )
    run.raw = output["messages"]
    run.messages = told(run.raw)
    run.state = {key: value for key, value in output.items() if key not in UNEQUAL}
    run.calls = list(depot.calls)
    run.prompts = [
        (prompt_form(messages), names)
        for messages, names in zip(model.calls, model.shown, strict=True)
        if not is_question(messages)
    ]
    return run


def asking(request: str = REQUEST) -> dict[str, Any]:
    """The input that asks for something."""
    return {"messages": [HumanMessage(request)]}


def told(messages: Sequence[BaseMessage]) -> list[Any]:
    """A conversation to compare; see `plain_form`."""
    return [plain_form(message) for message in messages]


def without_ids(output: Any) -> str:
    """What a typed tool call brought back: a command repeats the id of its call."""
    return re.sub(r"call_\w+", "call", str(output))


def leg(agent: Any, given: Any, *, path: str) -> tuple[Any, list[Any], list[Any]]:
    """The output, the typed tool calls and the interrupts of a graph until it stops."""

    async def run() -> tuple[Any, list[Any], list[Any]]:
        stream = await agent.astream_events(given, THREAD, version="v3")
        calls = [call async for call in stream.tool_calls]
        return await stream.output(), calls, await stream.interrupts()

    if path == "async":
        return asyncio.run(run())
    stream = agent.stream_events(given, THREAD, version="v3")
    calls = list(stream.tool_calls)
    return stream.output, calls, stream.interrupts


# --- runs that went well before ---

ITEMS = ("screw", "nail", "hinge", "hook", "lamp", "rope", "saw", "drill")


def past_run(number: int) -> Trajectory:
    """A run that looks an item up and tells its price, or one that looks twice and orders."""
    item = ITEMS[number]
    steps = (
        (("find", item), ("price", item))
        if number % 2
        else (("find", f"{item}s"), ("find", item), ("order", item))
    )
    messages: list[Any] = [
        HumanMessage(f"What does the {item} cost? Write to bob@example.com.")
    ]
    for at, (name, asked) in enumerate(steps):
        call = {"name": name, "args": {"item": asked}, "id": f"{number}.{at}"}
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage(f"{name}: 7", tool_call_id=call["id"], name=name),
        ]
    return Trajectory.from_messages(
        [*messages, AIMessage("It is 7.")], success=True, id=f"run {number}"
    )


RUNS = [past_run(number) for number in range(len(ITEMS))]
