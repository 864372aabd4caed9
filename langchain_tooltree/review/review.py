"""A person approves calls before they run: LangChain's `HumanInTheLoopMiddleware`, for all that is no declared read.

Question, answer and what an approval is worth are LangChain's. This adds which calls wait, by their effects instead of
by names of tools, and what a person is shown of a call.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

from langchain.agents.middleware import AgentState, HumanInTheLoopMiddleware, InterruptOnConfig, ToolCallRequest
from langchain.agents.middleware.human_in_the_loop import DecisionType
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes those of `typing` from Python 3.12 on only

from langchain_tooltree._langgraph import can_be_answered
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects.calls import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.trajectory import NOTES as KEY
from langchain_tooltree.flows import arun_flow
from langchain_tooltree.text import LEVELS

SHOWN = 300
"""Characters of one text that a person is shown: two lines of a wide window, three of a narrow one."""

SHOWN_ITEMS = 5
"""Results, calls and values that are shown one by one."""

MOST_COUNTED = 1_000
"""Values beyond those that are counted: nobody reads so many."""

MOST_VALUES = 200
"""Values in the arguments of a call that are looked for, which takes up to half a second in results of a megabyte."""

MOST_COMPARED = 100_000
"""Characters of a value, at all places where it stands within a word, that are compared before it counts as absent."""

AROUND = 60
"""Characters of a result that are shown before a value."""

WORDS = re.compile(r"[^\s\"'(),;<>\[\]{}]+")
"""The parts of a text that are looked for one by one; an address, a link and a number are one part each."""

NAME = 3
"""Words that a name has at most; what is longer is prose."""

TELLING = re.compile(r"[@/\d]|\w[.:_-]\w")
"""What an address, a link, a path, an amount or an identifier has, and a word of prose has not."""

VALUE_AS_KEY = re.compile(r"[@/.:\s]|\A\d")
"""What an address, a link, a number or a text of words has, and the name of a field has not."""

NUMBER = re.compile(r"([0-9]{1,20})(?:\.([0-9]{0,20}?)0*)?")
"""A number; zeros at the end behind its point do not count, since 80.0, 80.00 and 80 are one amount."""

NUMBER_GOES_ON = r"\w|\.[0-9]+(?!\.?[0-9])|,[0-9]{3}(?![0-9])"
"""What makes digits the beginning of another number: 80 does not stand in 80.50 and 80,000, but 22 in 22.11.2026."""


class PlannedCall(TypedDict):
    """A call as the metadata of a plan names it."""

    tool: str
    arguments: dict[str, Any]


class Alternative(TypedDict):
    """Another path that the planner weighed."""

    calls: list[PlannedCall]


class Plan(TypedDict, total=False):
    """What a planner may keep with a message under `KEY` of its metadata."""

    plan: list[PlannedCall]  # the calls that are planned after this one
    alternatives: list[Alternative]  # the best other paths, best first
    tried: list[PlannedCall]  # reads whose results are not kept
    missing: str  # what an answer before it left open


PLAN = TypeAdapter(Plan)


def plan_of(conversation: Conversation) -> Plan:
    """What the planner keeps with the model's latest message; nothing if any of it has another form.

    Messages come back from clients and stores, who may have changed them.
    """
    metadata = conversation.reply.response_metadata.get(KEY) if conversation.reply else None
    with suppress(ValidationError, RecursionError):
        return PLAN.validate_python(metadata, strict=True)
    return {}


class Origin(NamedTuple):
    """A value in the arguments of a call that stands in no word of the user or the instructions."""

    argument: str  # where it stands in the arguments; empty for a remark on values that were not looked for
    value: str
    results: list[str]  # calls whose results hold it, latest first; none if it stands nowhere: the model made it


def origins(arguments: Mapping[str, Any], conversation: Conversation) -> list[Origin]:
    """The values of a call that neither the user nor the instructions named, and the results that hold them."""
    words = " ".join([*conversation.requests, conversation.instructions]).casefold()
    results = [
        (_call(call["name"], call["args"]) if call else str(message.name), str(message.text).casefold())
        for each in conversation.rounds(beyond_request=True)
        for call, message in reversed(each.pairs())
    ]

    @cache
    def holding(value: str) -> list[str]:
        return [*dict.fromkeys(call for call, text in results if _contains(text, value))]

    by_place: dict[tuple[str, str], Origin] = {}
    room, left = MOST_VALUES, 0
    values = _values(arguments)
    for argument, value in values:
        if room <= 0:
            left += 1 + sum(1 for _ in islice(values, MOST_COUNTED))
            break
        room -= 1
        if _contains(words, value):
            continue
        whole = holding(value)
        parts = [value] if whole else _parts(value)
        for part in parts[: room + 1]:
            if not _contains(words, part):
                by_place[argument, part] = Origin(argument, part, whole or holding(part))
        left += max(0, len(parts) - room - 1)
        room -= max(0, len(parts) - 1)
    return [*by_place.values(), *([Origin("", f"{left} more values", [])] if left else [])]


def _values(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The numbers and texts in arguments, with their places, and what stands as a key in place of a field's name."""
    waiting = [(place, data, LEVELS)]
    while waiting:
        place, data, levels = waiting.pop()
        if isinstance(data, Mapping | list | tuple) and not levels:
            yield place, f"<{type(data).__name__}>"
        elif isinstance(data, Mapping):
            yield from ((place, str(key).strip()) for key in data if place and VALUE_AS_KEY.search(str(key).strip()))
            inside = ((f"{place}.{key}" if place else str(key), data[key], levels - 1) for key in reversed(list(data)))
            waiting.extend(inside)
        elif isinstance(data, list | tuple):
            waiting.extend((f"{place}[{at}]", data[at], levels - 1) for at in reversed(range(len(data))))
        elif isinstance(data, int | float) and not isinstance(data, bool):
            yield place, repr(int(data) if data == data // 1 else data)
        elif isinstance(data, str) and data.strip():
            yield place, data.strip()


def _parts(value: str) -> list[str]:
    """What is looked for of a value that stands nowhere as a whole: what is telling in prose, and else the value."""
    words = WORDS.findall(value)
    telling = [word.strip(".:!?") for word in words if TELLING.search(word)]
    return [value] if len(words) <= NAME else telling


def _contains(text: str, value: str) -> bool:
    """Whether a value stands in a casefolded text as a word of its own."""
    value = value.casefold()
    if number := NUMBER.fullmatch(value):
        whole, fraction = number.groups()
        ending = rf"\.{fraction}0*" if fraction else r"(?:\.0+)?"
        return re.search(rf"(?<!\w){whole}{ending}(?!{NUMBER_GOES_ON})", text) is not None
    at = -1
    for _ in range(max(1, MOST_COMPARED // len(value))):
        at = text.find(value, at + 1)
        if at < 0:
            return False
        if not re.search(r"\w", text[max(0, at - 1) : at] + text[at + len(value) : at + len(value) + 1]):
            return True
    return False


def describe(call: ToolCall, conversation: Conversation) -> str:
    """A call of the model's latest message, what it rests on, and what it was weighed against; a line each."""
    values, plan = origins(call["args"], conversation), plan_of(conversation)
    asked = f"The user asked: {quoted(conversation.goal)}" if conversation.goal else "The user asked nothing in words."
    lines = [f"{_call(call['name'], call['args'])} waits for approval.", asked, *_origin_lines(values)]
    lines.extend(_result_lines(conversation, values))
    if plan.get("missing"):
        lines.append(f"Left open before it: {quoted(plan['missing'])}")
    lines.extend(_listed("Also read, and not kept", map(_planned, plan.get("tried", ()))))
    lines.extend(_listed("Planned after it", map(_planned, plan.get("plan", ()))))
    others = plan.get("alternatives", [])[:SHOWN_ITEMS]
    lines.extend(f"Instead: {' then '.join(map(_planned, other['calls']))}" for other in others)
    return "\n".join(lines)


def _listed(heading: str, items: Iterable[str]) -> Iterator[str]:
    """As many items as a person reads, on one line, and how many there are beside them."""
    items = list(items)
    if items:
        left = len(items) - SHOWN_ITEMS
        more = f", and {left} more" if left > 0 else ""
        yield f"{heading}: {', '.join(items[:SHOWN_ITEMS])}{more}"


def _origin_lines(values: Sequence[Origin]) -> Iterator[str]:
    """Where the values stand that the user did not name, those of one result together."""
    by_place: dict[str, list[str]] = {}
    for argument, value, results in values:
        if not argument:
            by_place["Not looked for"] = [value]
            continue
        where = f"only in the result of {results[0]}" if results else "in no result: made up"
        by_place.setdefault(f"Not from the user, {where}", []).append(f"{_plain(argument)} {quoted(value)}")
    for where, items in by_place.items():
        yield from _listed(where, items)


def _result_lines(conversation: Conversation, values: Sequence[Origin]) -> Iterator[str]:
    """The results of this turn that hold values of the call, with what stands around these; the others by number."""
    lines, others = list[str](), 0
    for each in conversation.rounds():
        for call, message in each.pairs():
            made = _call(call["name"], call["args"]) if call else str(message.name)
            text = str(message.text)
            held = [value for _, value, results in values if made in results]
            if held:
                at = min(text.casefold().find(value.casefold()) for value in held)
                lines.append(f"Read for it: {made} gave {quoted(text, around=max(0, at))}")
            else:
                others += 1
    yield from lines[::-1][:SHOWN_ITEMS]
    others += max(0, len(lines) - SHOWN_ITEMS)
    if others:
        yield f"Other results in this turn: {others}"


def _planned(call: Mapping[str, Any]) -> str:
    return _call(call["tool"], call["arguments"])


def _call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as Python writes it."""
    return f"{_plain(tool)}({', '.join(f'{_plain(str(name))}={quoted(value)}' for name, value in arguments.items())})"


def _plain(name: str) -> str:
    """A name as it is, or in quotation marks if it is none."""
    return name if re.fullmatch(r"[\w.:/\[\]-]{1,128}", name) else quoted(name)


def quoted(value: Any, *, around: int = 0) -> str:
    """A value as Python writes it, so on one line; of a long one the part around a place, and how much is left out."""
    if not isinstance(value, str):
        value = repr(value)
        return value if len(value) <= SHOWN else f"{value[:SHOWN]} ({len(value) - SHOWN} characters more)"
    begin = max(0, min(around - AROUND, len(value) - SHOWN))
    part = value[begin : begin + SHOWN]
    left = len(value) - len(part)
    return f"{part!r} ({left} characters more)" if left else repr(part)


DECISIONS: tuple[DecisionType, ...] = ("approve", "edit", "reject")

_READ: ContextVar[tuple[Any, Conversation]] = ContextVar("tooltree_reviewed")
"""The state that is reviewed at the moment, and the conversation in it."""


def _conversation(state: Any) -> Conversation:
    reviewed, conversation = _READ.get((None, None))
    return conversation if conversation is not None and reviewed is state else Conversation.of(state)


class _EveryTool(Mapping[str, InterruptOnConfig]):
    """An `interrupt_on` that has the same entry for every name: tools may come and go while an agent runs."""

    def __init__(self, entry: InterruptOnConfig) -> None:
        self._entry = entry

    def __getitem__(self, name: str) -> InterruptOnConfig:
        return self._entry

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class PlanReviewMiddleware(HumanInTheLoopMiddleware[AgentState[Any], Any, Any]):
    """LangChain's `HumanInTheLoopMiddleware` for every call that is not declared a read.

    The run stops before such calls with an interrupt whose value is LangChain's `HITLRequest`, and goes on with a
    `HITLResponse`: `Command(resume={"decisions": [{"type": "approve"}]})`, one decision for each call, in their order.
    So every interface for LangChain's approval works. The `description` of a call says what the user asked, the results
    behind the call, which of its values the user never named, and what a planner weighed it against.

    A turn that only reads stops nowhere and needs no checkpointer. Put it first in the list: `after_model` hooks run
    last to first, so it then sees the calls as they will run. Leave each tool to one reviewer.

    Args:
        effects: Which calls only read, by tool or by call, as for the planner. Without it, every call waits.
        allowed_decisions: What a person may decide: `"approve"`, `"edit"`, `"reject"`, `"respond"`.

    Raises:
        ConfigurationError: Of other `effects` and `allowed_decisions`; while running, of a call that waits where no
            checkpointer keeps the question.
    """

    def __init__(
        self,
        effects: Effects | CallEffects | None = None,
        *,
        allowed_decisions: Sequence[DecisionType] = DECISIONS,
    ) -> None:
        known = get_args(DecisionType)
        if not allowed_decisions or isinstance(allowed_decisions, str) or not {*allowed_decisions} <= {*known}:
            msg = f"allowed_decisions must be some of {', '.join(known)}, got {allowed_decisions!r}."
            raise ConfigurationError(msg)
        super().__init__({})
        # What a process finds out about effects is left behind: LangChain asks `when` again as a run resumes, maybe in
        # another process, and carries out the call without its decision if the answer differs.
        self._effects = CallEffects(CallEffects.declared_as(effects).entries)
        entry = InterruptOnConfig(
            allowed_decisions=list(allowed_decisions), description=self._describe, when=self._must_wait
        )
        self.interrupt_on = _EveryTool(entry)  # type: ignore[assignment]  # in which only names are looked up

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Stop where a call waits for a person, with all that wait in one question."""
        read = _READ.set((state, Conversation.of(state)))  # once for all calls of a reply
        try:
            return super().after_model(state, runtime)
        finally:
            _READ.reset(read)

    def _must_wait(self, request: ToolCallRequest) -> bool:
        """Whether a call waits: it may change something, and has no result yet."""
        call, conversation = request.tool_call, _conversation(request.state)
        if self._effects.of(call["name"], call["args"]) == "read":
            return False
        if all(call["id"] != each["id"] for each in conversation.open_calls.values()):
            return False  # answered by the agent itself, such as a call that fills in a response format
        if not can_be_answered():
            msg = (
                f"A call of {call['name']!r} waits until somebody has answered, which needs a checkpointer. Pass one, "
                "such as checkpointer=InMemorySaver(), where the outermost graph is made."
            )
            raise ConfigurationError(msg)
        return True

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The async twin of `after_model`."""
        await _judge_ahead(self._effects, Conversation.of(state))
        return self.after_model(state, runtime)

    @staticmethod
    def _describe(tool_call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:  # noqa: ARG004
        return describe(tool_call, _conversation(state))


class PlanReviewNode(Runnable[Any, dict[str, list[BaseMessage]]]):
    """The same review as a node of one's own graph, between the model and a `ToolNode`.

    ```python
    graph.add_node("review", PlanReviewNode(effects))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    ```

    Question and answer are those of `PlanReviewMiddleware`. An edited call takes the place of the model's own, so the
    state needs the reducer `add_messages`; a rejected one gets the `ToolMessage` that LangChain writes.

    Args:
        effects: Which calls only read, by tool or by call, as for the planner. Without it, every call waits.
        allowed_decisions: What a person may decide: `"approve"`, `"edit"`, `"reject"`, `"respond"`.
        messages_key: Where in the state the conversation stands.
    """

    def __init__(
        self,
        effects: Effects | CallEffects | None = None,
        *,
        allowed_decisions: Sequence[DecisionType] = DECISIONS,
        messages_key: str = "messages",
    ) -> None:
        self.name = "PlanReviewNode"
        self._effects = CallEffects.declared_as(effects)
        self._middleware = PlanReviewMiddleware(self._effects, allowed_decisions=allowed_decisions)
        self._messages_key = messages_key

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, list[BaseMessage]]:  # noqa: A002, ARG002 - the names in Runnable
        """Ask about the calls that wait.

        Returns:
            An update of the state: the model's message where a call was edited, and the results of rejected calls.
        """
        conversation = Conversation.of(input, self._messages_key)
        reply = conversation.reply
        messages: Any = [each.model_copy() if each is reply else each for each in conversation.messages]
        update = self._middleware.after_model({"messages": messages}, get_runtime()) or {}  # it changes the copy
        edits = update.get("hitl_edited_tool_calls") or {}  # where an agent keeps an edit until its call runs
        changes = [_edited(each, edits) for each in update.get("messages", ())]
        return {self._messages_key: [each for each in changes if each != reply]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, list[BaseMessage]]:  # noqa: A002 - the name in Runnable
        """The async twin of `invoke`."""
        await _judge_ahead(self._effects, Conversation.of(input, self._messages_key))
        return self.invoke(input, config)


async def _judge_ahead(effects: CallEffects, conversation: Conversation) -> None:
    """Judge what will be asked about in a moment, since to parse SQL would hold the event loop."""
    await arun_flow(effects.judged([*conversation.open_calls.values()]))


def _edited(message: BaseMessage, edits: Mapping[str, Mapping[str, Any]]) -> BaseMessage:
    """A message with some of its calls, by their ids, replaced."""
    if not isinstance(message, AIMessage) or not edits:
        return message
    calls = [{**call, **edits.get(str(call["id"]), {})} for call in message.tool_calls]
    return message.model_copy(update={"tool_calls": calls})


def review_condition(
    state: Any, *, messages_key: str = "messages"
) -> list[Send] | Literal["tools", "model", "__end__"]:
    """Where to go after a review, as `tools_condition` says it without one.

    Returns:
        `"tools"` if all calls of the latest message go on; where others were rejected, those that do, sent to
        `"tools"`; `"model"` if none does; `END` if the conversation ends in an answer.
    """
    conversation = Conversation.of(state, messages_key)
    calls = list(conversation.open_calls.values())
    if conversation.latest == "observation":
        return [Send("tools", calls)] if calls else "model"
    return "tools" if calls and conversation.latest == "reply" else "__end__"
