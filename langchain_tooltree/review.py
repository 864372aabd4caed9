"""A person approves calls before they run: LangChain's `HumanInTheLoopMiddleware`, for all that is no declared read.

Question, answer and what an approval is worth are LangChain's. This adds which calls wait, by their effects instead of
by names of tools, and what a person is shown of a call.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

from langchain.agents.middleware import (
    AgentState,
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    ToolCallRequest,
)
from langchain.agents.middleware.human_in_the_loop import DecisionType
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send

from langchain_tooltree._langgraph import can_be_answered
from langchain_tooltree.effects import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import arun_flow
from langchain_tooltree.messages.additions import NOTES_KEY as KEY
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.text import get_mapping

SHOWN = 300  # characters of one text that a person is shown: two lines of a wide window, three of a narrow one
SHOWN_ITEMS = 5  # results, calls and values that are shown one by one
MOST_VALUES = 200  # values in the arguments of a call that are looked for
LONGEST_RESULT = 100_000  # characters of a result in which values are looked for: about 25,000 tokens
AROUND = 60  # characters of a result that are shown before a value

WORDS = re.compile(r"[^\s\"'(),;<>\[\]{}]+")
"""The parts of a text that are looked for one by one; an address, a link and a number are one part each."""

NAME = 3  # words that a name has at most; what is longer is prose

TELLING = re.compile(r"[@/\d]|\w[.:_-]\w")
"""What an address, a link, a path, an amount or an identifier has, and a word of prose has not."""

VALUE_AS_KEY = re.compile(r"[@/.:\s]")
"""What an address, a link or a text of words has, and the name of a field has not."""

NUMBER = re.compile(r"([0-9]{1,20})(?:\.([0-9]{0,20}?)0*)?")
"""A number; zeros at the end behind its point do not count, since 80.0, 80.00 and 80 are one amount."""

NUMBER_GOES_ON = r"\w|\.[0-9]+(?!\.?[0-9])|,[0-9]{3}(?![0-9])"
"""What makes digits the beginning of another number: 80 does not stand in 80.50 and 80,000, but 22 in 22.11.2026."""


class Origin(NamedTuple):
    """A value in the arguments of a call that stands in no word of the user or the instructions."""

    argument: str  # where it stands in the arguments
    value: str
    results: list[
        str
    ]  # calls whose results hold it, latest first; none if it stands nowhere: the model made it


def origins(
    arguments: Mapping[str, Any], conversation: Conversation
) -> tuple[list[Origin], int]:
    """The values of a call that neither the user nor the instructions named, and how many were not looked for."""
    words = " ".join([*conversation.requests, conversation.instructions]).casefold()
    results = [
        (call, text[:LONGEST_RESULT].casefold())
        for call, text in _results(conversation, beyond_request=True)
    ]
    values = list(dict.fromkeys(_values(arguments)))
    unnamed = [
        (argument, value)
        for argument, value in values[:MOST_VALUES]
        if not _contains(words, value)
    ]
    entries = [
        Origin(
            argument,
            value,
            [*dict.fromkeys(call for call, text in results if _contains(text, value))],
        )
        for argument, value in unnamed
    ]
    return entries, max(0, len(values) - MOST_VALUES)


def _results(
    conversation: Conversation, *, beyond_request: bool = False
) -> Iterator[tuple[str, str]]:
    """The calls of a conversation with their results, latest first."""
    for each in conversation.rounds(beyond_request=beyond_request):
        for message, call in reversed(each.pairs()):
            yield (
                _format_call(call["name"], call["args"]) if call else str(message.name),
                str(message.text),
            )


def _values(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The numbers and names in arguments, and values that stand as keys, with their places."""
    match data:
        case dict():
            for key, value in data.items():
                if place and VALUE_AS_KEY.search(str(key)):
                    yield place, str(key).strip()
                yield from _values(value, f"{place}.{key}" if place else str(key))
        case list():
            for at, value in enumerate(data):
                yield from _values(value, f"{place}[{at}]")
        case bool():
            pass
        case int() | float():
            yield place, repr(int(data) if data == data // 1 else data)
        case str():
            yield from ((place, name) for name in _names(data))


def _names(text: str) -> list[str]:
    """A name by itself; of prose, the words that tell something."""
    words = WORDS.findall(text)
    telling = [word.strip(".:!?") for word in words if TELLING.search(word)]
    return telling if len(words) > NAME else [text.strip()] if words else []


def _contains(text: str, value: str) -> bool:
    """Whether a value stands in a casefolded text as a word of its own."""
    value = value.casefold()
    if number := NUMBER.fullmatch(value):
        whole, fraction = number.groups()
        ending = rf"\.{fraction}0*" if fraction else r"(?:\.0+)?"
        return (
            re.search(rf"(?<!\w){whole}{ending}(?!{NUMBER_GOES_ON})", text) is not None
        )
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        if not re.search(r"\w", text[max(0, at - 1) : at] + text[end : end + 1]):
            return True
        at = text.find(value, end)
    return False


def describe(call: ToolCall, conversation: Conversation) -> str:
    """A call of the model's latest message, what it rests on, and what it was weighed against; a line each."""
    values, left = origins(call["args"], conversation)
    plan = (
        get_mapping(conversation.response.response_metadata, KEY)
        if conversation.response
        else {}
    )
    request = (
        f"The user asked: {quoted(conversation.goal)}"
        if conversation.goal
        else "The user asked nothing in words."
    )
    lines = [
        f"{_format_call(call['name'], call['args'])} waits for approval.",
        request,
        *_origin_lines(values),
    ]
    if left:
        lines.append(f"Not looked for: {left} more values")
    lines.extend(islice(_result_lines(conversation, values), SHOWN_ITEMS))
    if missing := _find_texts([plan.get("missing")]):
        lines.append(f"Left open before it: {quoted(missing[0])}")
    lines.extend(
        _items_line(
            "Also read, and not kept", map(quoted, _find_texts(plan.get("tried")))
        )
    )
    lines.extend(
        _items_line("Planned after it", map(quoted, _find_texts(plan.get("plan"))))
    )
    others = plan.get("alternatives")
    paths = (
        [_find_texts(path) for path in others[:SHOWN_ITEMS]]
        if isinstance(others, list)
        else []
    )
    lines.extend(
        f"Instead: {' then '.join(map(quoted, path))}" for path in paths if path
    )
    return "\n".join(lines)


def _find_texts(data: Any) -> list[str]:
    """The texts in a list that clients and stores may have changed."""
    return (
        [each for each in data if isinstance(each, str) and each]
        if isinstance(data, list)
        else []
    )


def _items_line(heading: str, items: Iterable[str]) -> Iterator[str]:
    """As many items as a person reads, on one line, and how many there are beside them."""
    items = list(items)
    if items:
        surplus = len(items) - SHOWN_ITEMS
        more = f", and {surplus} more" if surplus > 0 else ""
        yield f"{heading}: {', '.join(items[:SHOWN_ITEMS])}{more}"


def _origin_lines(values: Sequence[Origin]) -> Iterator[str]:
    """Where the values stand that the user did not name, those of one result together."""
    by_place: dict[str, list[str]] = {}
    for argument, value, results in values:
        where = (
            f"only in the result of {results[0]}"
            if results
            else "in no result: made up"
        )
        by_place.setdefault(f"Not from the user, {where}", []).append(
            f"{_strip_markup(argument)} {quoted(value)}"
        )
    for where, items in by_place.items():
        yield from _items_line(where, items)


def _result_lines(
    conversation: Conversation, values: Sequence[Origin]
) -> Iterator[str]:
    """The results of this turn that hold values of the call, latest first, with what stands around these."""
    for call, text in _results(conversation):
        places = [
            text.casefold().find(each.value.casefold())
            for each in values
            if call in each.results
        ]
        if places:
            yield f"Read for it: {call} gave {quoted(text, around=max(0, min(places)))}"


def _format_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as Python writes it."""
    return f"{_strip_markup(tool)}({', '.join(f'{_strip_markup(str(name))}={quoted(value)}' for name, value in arguments.items())})"


def _strip_markup(name: str) -> str:
    """A name as it is, or in quotation marks if it is none."""
    return name if re.fullmatch(r"[\w.:/\[\]-]{1,128}", name) else quoted(name)


def quoted(value: Any, *, around: int = 0) -> str:
    """A value as Python writes it, so on one line; of a long one the part around a place, and how much is left out."""
    if not isinstance(value, str):
        value = repr(value)
        return (
            value
            if len(value) <= SHOWN
            else f"{value[:SHOWN]} ({len(value) - SHOWN} characters more)"
        )
    begin = max(0, min(around - AROUND, len(value) - SHOWN))
    part = value[begin : begin + SHOWN]
    more = len(value) - len(part)
    return f"{part!r} ({more} characters more)" if more else repr(part)


ALLOWED_DECISIONS: tuple[DecisionType, ...] = ("approve", "edit", "reject")


class _EveryTool(dict[str, InterruptOnConfig]):
    """An `interrupt_on` that has the same entry for every name: tools may come and go while an agent runs."""

    def __init__(self, entry: InterruptOnConfig) -> None:
        self._entry = entry

    def __getitem__(self, name: str) -> InterruptOnConfig:
        return self._entry

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        """The entry."""
        return self._entry


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
        allowed_decisions: Sequence[DecisionType] = ALLOWED_DECISIONS,
    ) -> None:
        decision_types = get_args(DecisionType)
        if (
            not allowed_decisions
            or isinstance(allowed_decisions, str)
            or not {*allowed_decisions} <= {*decision_types}
        ):
            msg = f"allowed_decisions must be some of {', '.join(decision_types)}, got {allowed_decisions!r}."
            raise ConfigurationError(msg)
        super().__init__({})
        # What a process finds out about effects is left behind: LangChain asks `when` again as a run resumes, maybe in
        # another process, and carries out the call without its decision if the answer differs.
        self._effects = CallEffects(CallEffects.declared_as(effects).entries)
        entry = InterruptOnConfig(
            allowed_decisions=list(allowed_decisions),
            description=self._describe,
            when=self._must_wait,
        )
        self.interrupt_on = _EveryTool(entry)

    def _must_wait(self, request: ToolCallRequest) -> bool:
        """Whether a call waits: it may change something, and has no result yet."""
        call, conversation = request.tool_call, Conversation.of(request.state)
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

    async def aafter_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """The async twin of `after_model`."""
        await _judge_ahead(self._effects, Conversation.of(state))
        return self.after_model(state, runtime)

    @staticmethod
    def _describe(
        tool_call: ToolCall,
        state: AgentState[Any],
        runtime: Runtime[Any],  # noqa: ARG004
    ) -> str:
        return describe(tool_call, Conversation.of(state))


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
        allowed_decisions: Sequence[DecisionType] = ALLOWED_DECISIONS,
        messages_key: str = "messages",
    ) -> None:
        self.name = "PlanReviewNode"
        self._effects = CallEffects.declared_as(effects)
        self._middleware = PlanReviewMiddleware(
            self._effects, allowed_decisions=allowed_decisions
        )
        self._messages_key = messages_key

    def invoke(
        self,
        input: Any,  # noqa: A002 - the names in Runnable
        config: RunnableConfig | None = None,  # noqa: ARG002 - the names in Runnable
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Ask about the calls that wait.

        Returns:
            An update of the state: the model's message where a call was edited, and the results of rejected calls.
        """
        conversation = Conversation.of(input, self._messages_key)
        reply = conversation.response
        messages: Any = [
            each.model_copy() if each is reply else each
            for each in conversation.messages
        ]
        update = (
            self._middleware.after_model({"messages": messages}, get_runtime()) or {}
        )  # it changes the copy
        edits = (
            update.get("hitl_edited_tool_calls") or {}
        )  # where an agent keeps an edit until its call runs
        changes = [_edited(each, edits) for each in update.get("messages", ())]
        return {self._messages_key: [each for each in changes if each != reply]}

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """The async twin of `invoke`."""
        await _judge_ahead(self._effects, Conversation.of(input, self._messages_key))
        return self.invoke(input, config)


async def _judge_ahead(effects: CallEffects, conversation: Conversation) -> None:
    """Judge what will be asked about in a moment, since to parse SQL would hold the event loop."""
    await arun_flow(effects.judged([*conversation.open_calls.values()]))


def _edited(
    message: BaseMessage, edits: Mapping[str, Mapping[str, Any]]
) -> BaseMessage:
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
    if conversation.latest_kind == "result":
        return [Send("tools", calls)] if calls else "model"
    return "tools" if calls and conversation.latest_kind == "response" else "__end__"
