"""Questions about a conversation between a user, a model and its tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    MessageLikeRepresentation,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langchain_tooltree.messages.additions import get_tool_output
from langchain_tooltree.messages.agent_state import get_state_messages
from langchain_tooltree.messages.chat_format import (
    ChatMessage,
    remove_additions_from,
    to_chat_message,
)
from langchain_tooltree.messages.content import describe_content, get_text
from langchain_tooltree.messages.kinds import (
    MessageKind,
    classify_message,
    get_tool_calls,
    is_tool_result,
)
from langchain_tooltree.messages.reference import remove_reference
from langchain_tooltree.messages.request_summary import summarize_requests
from langchain_tooltree.messages.tool_calls import Call, build_call
from langchain_tooltree.messages.validation import validate_message


@dataclass(frozen=True, slots=True)
class Round:
    """A model response that called tools, and the results of its calls.

    Attributes:
        response: The response, or None if it is not in the conversation (any more).
        results: The results, oldest first.
    """

    response: AIMessage | None
    results: list[ToolMessage]

    def pairs(self) -> list[tuple[ToolMessage, ToolCall | None]]:
        """Return each result with the call that has its id, or with None."""
        calls_by_id: dict[str | None, ToolCall] = {}
        if self.response is not None:
            for tool_call in get_tool_calls(self.response):
                calls_by_id[tool_call["id"]] = tool_call
        return [
            (result, calls_by_id.get(result.tool_call_id)) for result in self.results
        ]

    def calls(self, turn: int = 0) -> list[Call]:
        """Return the calls that have results, in the order of the results.

        Args:
            turn: The number of the response, which the calls record.
        """
        return [
            build_call(tool_call, result, turn) for result, tool_call in self.pairs()
        ]


class Conversation:
    """A read-only view of one moment of a conversation.

    It reads the messages from the end, as far as a question requires, and each of them
    once: a question about the latest round of a thread of 10,000 messages costs what
    it costs in a short one. Make a new view when messages were added.

    A *request* is a message of the user. The *run* is what came since the latest
    request, or everything if there is none. The *words* of a message are its text
    without reference material (see `langchain_tooltree.messages.reference`) and without
    what was added to a result (see `langchain_tooltree.messages.additions`). Messages
    are handed out as they are.

    A `RemoveMessage` and the messages that it removes do not count.

    Example:
        >>> conversation = Conversation(
        ...     [
        ...         ("user", "Do I need an umbrella in Paris?"),
        ...         AIMessage(
        ...             "",
        ...             tool_calls=[
        ...                 {"name": "weather", "args": {"city": "Paris"}, "id": "1"},
        ...             ],
        ...         ),
        ...         ToolMessage("Rain, 12 °C", tool_call_id="1"),
        ...     ]
        ... )
        >>> conversation.task
        'Do I need an umbrella in Paris?'
        >>> conversation.latest_kind
        'result'
        >>> [(call.tool, call.result.text) for call in conversation.calls]
        [('weather', 'Rain, 12 °C')]
    """

    def __init__(self, messages: Iterable[MessageLikeRepresentation]) -> None:
        """Make a view of the messages.

        Args:
            messages: LangChain messages, or what `convert_to_messages` takes for them
                (texts, dicts, pairs of role and text), oldest first; or a single text,
                dict or message. A message that LangChain cannot convert raises
                LangChain's error when it is read.
        """
        self._unread_messages = _read_backwards(messages)
        # The messages that were read so far, and their kinds, latest first. A single
        # list of pairs would cost garbage collection time for each pair.
        self._messages: list[BaseMessage] = []
        self._kinds: list[MessageKind] = []

    @classmethod
    def of(cls, state: object, key: str = "messages") -> Conversation:
        """Return the conversation of an agent's state.

        Args:
            state: A mapping or an object with the messages, the messages themselves, or
                a conversation, which is returned as it is.
            key: The name under which the state has its messages.

        Returns:
            The conversation. It is empty if the state has no messages.
        """
        if isinstance(state, Conversation):
            return state
        return cls(get_state_messages(state, key) or [])

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """Return all messages, oldest first."""
        self._read_all()
        return self._messages[::-1]

    @cached_property
    def chat(self) -> tuple[ChatMessage, ...]:
        """Return all messages in the chat format, without additions."""
        return remove_additions_from(
            [to_chat_message(message) for message in self.messages]
        )

    @property
    def kinds(self) -> Iterator[tuple[MessageKind, BaseMessage]]:
        """Return each message with its kind, oldest first."""
        self._read_all()
        return zip(reversed(self._kinds), reversed(self._messages), strict=True)

    @cached_property
    def latest_kind(self) -> MessageKind | None:
        """Return the kind of the latest message that is not reference material."""
        for kind, _ in self._iterate_from_latest():
            if kind != "reference":
                return kind
        return None

    @cached_property
    def request(self) -> BaseMessage | None:
        """Return the user's latest request, or None if there is none."""
        for kind, message in self._iterate_from_latest():
            if kind == "request":
                return message
        return None

    @cached_property
    def task(self) -> str:
        """Return the words of the user's latest request, or "" if there is none."""
        request = self.request
        return "" if request is None else get_words(request)

    @cached_property
    def first_task(self) -> str:
        """Return the words of the user's first request that has words, or ""."""
        for kind, message in self.kinds:
            if kind == "request":
                words = get_words(message)
                if words:
                    return words
        return ""

    @cached_property
    def requests(self) -> list[str]:
        """Return descriptions of the user's requests, oldest first."""
        return [
            describe_message(message)
            for kind, message in self.kinds
            if kind == "request"
        ]

    @cached_property
    def goals(self) -> list[str]:
        """Return the user's requests, or the summaries if there are no requests.

        LangChain's SummarizationMiddleware writes a summary in place of old messages,
        and often the requests are among these.
        """
        requests = self.requests
        if requests:
            return requests
        return [
            _remove_heading(get_words(message))
            for kind, message in self.kinds
            if kind == "summary"
        ]

    @cached_property
    def goal(self) -> str:
        """Return the latest of the goals, or "" if there is none."""
        request = self.request
        if request is not None:
            # The other goals would require the whole conversation to be read.
            return describe_message(request)
        goals = self.goals
        return goals[-1] if goals else ""

    @cached_property
    def aim(self) -> str:
        """Return a summary of all goals: what the user wants in the end."""
        return summarize_requests(self.goals)

    @cached_property
    def is_summarized(self) -> bool:
        """Return True if a summary stands in place of some messages."""
        return any(kind == "summary" for kind, _ in self._iterate_from_latest())

    @cached_property
    def instructions(self) -> str:
        """Return the words of the system messages that the conversation begins with."""
        texts = []
        for kind, message in self.kinds:
            if kind == "instruction":
                texts.append(get_words(message))
            elif kind != "reference":
                break
        return "\n\n".join(text for text in texts if text)

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """Return all tool calls, oldest first."""
        tool_calls: list[ToolCall] = []
        for message in self.messages:
            tool_calls.extend(get_tool_calls(message))
        return tool_calls

    @cached_property
    def call_ids(self) -> set[str]:
        """Return the ids of all tool calls, also of those with invalid arguments."""
        ids: set[str | None] = set()
        for message in self.messages:
            if isinstance(message, AIMessage):
                ids.update(call["id"] for call in message.tool_calls)
                ids.update(call["id"] for call in message.invalid_tool_calls)
        return {call_id for call_id in ids if call_id}

    @cached_property
    def response(self) -> AIMessage | None:
        """Return the model's latest message, or None if there is none."""
        for _, message in self._iterate_from_latest():
            if isinstance(message, AIMessage):
                return message
        return None

    @cached_property
    def latest_round(self) -> Round | None:
        """Return the latest round, if its results are the latest messages.

        Reference material after the results does not count.
        """
        if self.latest_kind != "result":
            return None
        return next(self.rounds(), None)

    @cached_property
    def results(self) -> list[ToolMessage]:
        """Return the results of the latest round, if they are the latest messages."""
        latest_round = self.latest_round
        return [] if latest_round is None else latest_round.results

    @cached_property
    def open_calls(self) -> dict[int, ToolCall]:
        """Return the calls of the latest response without results, by their index."""
        answered_ids: set[str | None] = set()
        for _, message in self._iterate_from_latest():
            if is_tool_result(message):
                answered_ids.add(message.tool_call_id)
            elif isinstance(message, AIMessage):
                return {
                    index: tool_call
                    for index, tool_call in enumerate(message.tool_calls)
                    if tool_call["id"] not in answered_ids
                }
        return {}

    @cached_property
    def calls(self) -> list[Call]:
        """Return the tool calls of the run in order, each with its result or None.

        Some models number the calls of each response anew. So a result belongs to a
        call of the nearest response with calls before it. If a call has several
        results, the latest counts.
        """
        calls: list[Call] = []
        results_by_id: dict[str | None, ToolMessage] = {}
        for message in self.since_request():
            if is_tool_result(message):
                results_by_id.setdefault(message.tool_call_id, message)
            tool_calls = get_tool_calls(message)
            if tool_calls:
                calls.extend(
                    build_call(tool_call, results_by_id.get(tool_call["id"]))
                    for tool_call in reversed(tool_calls)
                )
                results_by_id.clear()
        calls.reverse()
        return calls

    def since_request(self) -> Iterator[BaseMessage]:
        """Yield the messages of the run, latest first."""
        for kind, message in self._iterate_from_latest():
            if kind == "request":
                return
            yield message

    def rounds(
        self,
        *,
        limit: int | None = None,
        beyond_request: bool = False,
    ) -> Iterator[Round]:
        """Yield the rounds of the run that have results, latest first.

        Results belong to the nearest response before them. If a request or the
        beginning of the conversation comes first, their round has no response.

        Args:
            limit: The number of messages to read, from the end. The conversation is
                treated as if it began there.
            beyond_request: Go on with the rounds before the latest request.
        """
        results: list[ToolMessage] = []
        for kind, message in islice(self._iterate_from_latest(), limit):
            if is_tool_result(message):
                results.append(message)
            elif isinstance(message, AIMessage):
                if results:
                    yield Round(message, results[::-1])
                results = []
            elif kind == "request":
                if results:
                    yield Round(None, results[::-1])
                results = []
                if not beyond_request:
                    return
        if results:
            yield Round(None, results[::-1])

    def earlier_rounds(self) -> Iterator[Round]:
        """Yield the rounds of the run but the latest, latest first."""
        return islice(self.rounds(), 1, None)

    def get_ends(
        self,
        room: int,
        *,
        longest: int,
        call_size: int,
    ) -> tuple[list[BaseMessage], int]:
        """Return the beginning and the end of the conversation.

        Messages are taken from the end until they exceed the room, and from the
        beginning until they exceed a third of it. The message that exceeds it is
        included, and so is the model's latest message with all that follows.

        Args:
            room: The number of characters for the end of the conversation.
            longest: The number of characters that count of one message at most.
            call_size: The number of characters that a tool call or a result counts in
                addition to its words.

        Returns:
            The messages of the beginning and of the end, oldest first, and the number
            of messages omitted between them.
        """

        def get_size(message: BaseMessage) -> int:
            text_size = min(len(get_words(message)), longest)
            return text_size + call_size * _count_calls_and_results(message)

        messages = self.messages
        start_length = _count_fitting(map(get_size, messages), room // 3)
        end_length = _count_fitting(map(get_size, reversed(messages)), room)
        for distance, message in enumerate(reversed(messages), start=1):
            if isinstance(message, AIMessage):
                end_length = max(end_length, distance)
                break

        omitted_count = len(messages) - start_length - end_length
        if omitted_count <= 0:
            return messages, 0
        return messages[:start_length] + messages[-end_length:], omitted_count

    def _iterate_from_latest(self) -> Iterator[tuple[MessageKind, BaseMessage]]:
        """Yield each message with its kind, latest first.

        A new message is read only when all that earlier questions read are used up.
        """
        index = 0
        while index < len(self._messages) or self._read_next():
            yield self._kinds[index], self._messages[index]
            index += 1

    def _read_all(self) -> None:
        """Read the messages that no question has read so far."""
        while self._read_next():
            pass

    def _read_next(self) -> bool:
        """Read one more message, and return False if there is none."""
        message = next(self._unread_messages, None)
        if message is None:
            return False
        self._kinds.append(classify_message(message))
        self._messages.append(message)
        return True


def get_words(message: BaseMessage) -> str:
    """Return the text of a message, stripped and without what this package added."""
    return get_text(_get_original_content(message)).strip()


def describe_message(message: BaseMessage) -> str:
    """Return the words of a message, or else a description such as "[image]"."""
    return get_words(message) or describe_content(_get_original_content(message))


def _get_original_content(message: BaseMessage) -> Any:
    """Return the content of a message without what this package added."""
    if is_tool_result(message):
        return get_tool_output(message)
    return remove_reference(message.content)


def _read_backwards(
    messages: Iterable[MessageLikeRepresentation],
) -> Iterator[BaseMessage]:
    """Yield the messages latest first, without those that were removed.

    As in LangGraph's `add_messages`, a `RemoveMessage` removes the earlier messages
    with its id, or all earlier messages. A message with the same id that came later
    stays.
    """
    if isinstance(messages, str | BaseMessage | dict):
        messages = [messages]
    elif not isinstance(messages, Sequence):
        messages = convert_to_messages(messages)

    removed_ids: set[str] = set()
    for item in reversed(messages):
        if isinstance(item, BaseMessage):
            message = item
        else:
            [message] = convert_to_messages([item])
        message = validate_message(message)
        if isinstance(message, RemoveMessage):
            if message.id == REMOVE_ALL_MESSAGES:
                return
            if message.id is not None:
                removed_ids.add(message.id)
        elif message.id not in removed_ids:
            yield message


def _remove_heading(summary: str) -> str:
    """Remove the heading that SummarizationMiddleware puts above a summary."""
    heading, separator, text = summary.partition("\n\n")
    if separator and heading.endswith(":") and "\n" not in heading:
        return text.strip()
    return summary


def _count_calls_and_results(message: BaseMessage) -> int:
    """Return the number of calls in a response, 1 for a result, and 0 for the rest."""
    if is_tool_result(message):
        return 1
    return len(get_tool_calls(message))


def _count_fitting(sizes: Iterable[int], room: int) -> int:
    """Return how many of the sizes fit into the room, and count one that exceeds it."""
    count = 0
    total = 0
    for size in sizes:
        count += 1
        total += size
        if total > room:
            break
    return count
