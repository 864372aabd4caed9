"""Conversation: the one reader of what was said and done in a running graph."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, count, islice, takewhile
from typing import Any, TypeGuard

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langchain_tooltree.experience.trajectory import (
    EXTRAS,
    NOTE,
    NOTES,
    PARTS,
    PROMPTED,
    SEARCH_MARK,
    ChatMessage,
    Outcome,
    Part,
    Step,
    added_to,
    aim_of,
    calls_in,
    own_messages,
    part_of,
    readable,
    role_of,
    sound,
    text_of,
    to_chat,
    without_added,
)
from langchain_tooltree.text import MARK, get_mapping, shortened, without_reference

SEEN_CHARS = 20_000  # characters of a result in the history that a transcript holds: about 5,000 tokens


@dataclass(frozen=True, slots=True)
class Round:
    """One message of the model that made calls, and what they brought back, in order."""

    reply: (
        AIMessage | None
    )  # `None` if it does not stand in the conversation (any more)
    observations: list[ToolMessage]

    def pairs(self) -> list[tuple[ToolCall | None, ToolMessage]]:
        """Each observation with its call; `None` where the call does not stand in the conversation."""
        calls = (
            {call["id"]: call for call in self.reply.tool_calls}
            if self.reply is not None
            else {}
        )
        return [
            (calls.get(message.tool_call_id), message) for message in self.observations
        ]

    def steps(self, turn: int = 0) -> list[Step]:
        """The round as steps, in the order of the observations; one without a call has no arguments."""
        return [_step(call, message, turn) for call, message in self.pairs()]


class Conversation:
    """A conversation, and what every room wants to know of it.

    ```python
    conversation = Conversation.of(state)
    conversation.task  # what the user asked for last, in words
    conversation.observations  # what the latest calls brought back
    ```

    What a message is, is decided here and nowhere else:

    - A *request* is a user's message. A summary that a summarising middleware put in place of messages is none, and
      neither is a message that holds nothing but reference material. An empty message is an empty request.
    - A *round* is a message of the model that made calls, with what came back. The calls of one message are one round.
    - The *run* is what came since the latest request, or everything if there is none.

    Reference material is left out of all texts; whole messages are handed out as they stand in the state. A
    `RemoveMessage` and what it removes do not count, as in the reducer `add_messages`.

    The conversation is read from its end, as far as a question needs, and each message once: asking about the latest
    step of a thread of 10,000 messages costs what it costs in a short one. It is a view of one moment: make another one
    when messages were added.

    Args:
        messages: LangChain messages, or what `convert_to_messages` takes: dicts, pairs, texts.
    """

    def __init__(self, messages: Any) -> None:
        listed = isinstance(messages, Sequence) and not isinstance(messages, str)
        self._source: Sequence[Any] = (
            messages if listed else convert_to_messages(messages)
        )
        # What was read, latest first, as far as it was needed: in columns, since garbage collection pays per object.
        self._read: list[BaseMessage] = []
        self._parts: list[Part] = []
        self._left = len(self._source)  # so many from the beginning were not read yet
        self._removed: set[str | None] = set()

    @classmethod
    def of(cls, state: Any, key: str = "messages") -> "Conversation":
        """The conversation in a graph state.

        The state is a mapping, an object, a sequence of messages, or a `Conversation`, which is returned itself. `key`
        says where in a mapping or an object the messages stand; if there are none, the conversation is empty.
        """
        if isinstance(state, Conversation):
            return state
        if isinstance(state, Mapping):
            state = state.get(key)
        elif not isinstance(state, Sequence):
            state = getattr(state, key, None)
        return cls(state or [])

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """All messages, oldest first."""
        while self._read_one():
            pass
        return self._read[::-1]

    @cached_property
    def chat(self) -> tuple[ChatMessage, ...]:
        """The messages in the OpenAI chat format, without reference material: what a record holds."""
        return own_messages(map(to_chat, self.messages))

    @property
    def parts(self) -> Iterator[tuple[Part, BaseMessage]]:
        """Each message with the part that it plays, oldest first."""
        messages = self.messages  # which reads them all
        return zip(reversed(self._parts), messages, strict=True)

    @cached_property
    def latest(self) -> Part | None:
        """The part of the latest message; reference material does not count. `None` if nothing was said."""
        return self._last[0] if self._last else None

    # --- the user ---

    @cached_property
    def request(self) -> BaseMessage | None:
        """The user's latest message; `None` if there is none."""
        return next(
            (message for part, message in self._latest_first() if part == "request"),
            None,
        )

    @cached_property
    def task(self) -> str:
        """What the user asked for last, in words; empty if nobody asked for anything, or with a picture alone."""
        return "" if self.request is None else _words(self.request)

    @cached_property
    def first_task(self) -> str:
        """What the user asked for first, in words: the task of the record."""
        return next(filter(None, map(_words, self._of_part("request"))), "")

    @cached_property
    def requests(self) -> list[str]:
        """All that the user asked for, latest last; a request without words is named by its parts, as `[image]`."""
        return list(map(_describe_message, self._of_part("request")))

    @cached_property
    def goals(self) -> list[str]:
        """What is to be planned for, latest last: the requests.

        Where a summary stands in place of them all, it is the text of the summary: nothing else tells what the user
        wants. As soon as there is one request, a summary is not taken for another.
        """
        return self.requests or list(map(_summed_up, self._of_part("summary")))

    @cached_property
    def goal(self) -> str:
        """The latest of the `goals`; empty if there is nothing to plan for."""
        return (
            _describe_message(self.request)
            if self.request is not None
            else next(reversed(self.goals), "")
        )

    @cached_property
    def aim(self) -> str:
        """What the user wants in the end, from all that they said: what past runs are looked for by."""
        return aim_of(self.goals)

    @property
    def is_summarized(self) -> bool:
        """Whether a summary stands in place of a part of the conversation."""
        return bool(self.messages) and "summary" in self._parts

    @cached_property
    def instructions(self) -> str:
        """The system prompt: the text of the system messages that the conversation begins with."""
        opening = takewhile(lambda each: each[0] == "instruction", self.parts)
        return "\n\n".join(filter(None, (_words(message) for _, message in opening)))

    # --- calls and observations ---

    @cached_property
    def calls(self) -> list[ToolCall]:
        """All calls, in order; those that could not be read are left out."""
        return [call for message in self.messages for call in calls_in(message)]

    @cached_property
    def call_ids(self) -> set[str | None]:
        """The ids of all calls, also of those that could not be read."""
        replies = (
            message for message in self.messages if isinstance(message, AIMessage)
        )
        return {
            call["id"]
            for reply in replies
            for call in (*reply.tool_calls, *reply.invalid_tool_calls)
        }

    @cached_property
    def observations(self) -> list[ToolMessage]:
        """What the calls of the model's latest message brought back, in order; none if more was said since."""
        return self.latest_round.observations if self.latest_round else []

    @cached_property
    def latest_round(self) -> Round | None:
        """The model's latest message with what its calls brought back; `None` if more was said since."""
        return (
            next(self.rounds())
            if self._last and is_observation(self._last[1])
            else None
        )

    @cached_property
    def reply(self) -> AIMessage | None:
        """The model's latest message; `None` if there is none."""
        return next(
            (
                message
                for _, message in self._latest_first()
                if isinstance(message, AIMessage)
            ),
            None,
        )

    @cached_property
    def open_calls(self) -> dict[int, ToolCall]:
        """The calls of the model's latest message that nobody has answered yet, by their place in it."""
        since = takewhile(
            lambda message: message is not self.reply,
            (message for _, message in self._latest_first()),
        )
        answered = {
            message.tool_call_id for message in since if is_observation(message)
        }
        calls = [] if self.reply is None else self.reply.tool_calls
        return {
            place: call
            for place, call in enumerate(calls)
            if call["id"] not in answered
        }

    @cached_property
    def steps(self) -> list[Step]:
        """The calls of the run in order, each with its outcome; it is `None` where nothing came back."""
        steps: list[Step] = []
        answers: dict[
            str, ToolMessage
        ] = {}  # to the calls of one message: some models number them anew in each
        for message in self.since_request():
            if is_observation(message):
                answers.setdefault(message.tool_call_id, message)
            elif calls := calls_in(message):
                steps += [
                    _step(call, answers.get(str(call["id"])))
                    for call in reversed(calls)
                ]
                answers = {}
        return steps[::-1]

    def since_request(self) -> Iterator[BaseMessage]:
        """The messages of the run, latest first."""
        return (
            message
            for _, message in takewhile(
                lambda each: each[0] != "request", self._latest_first()
            )
        )

    def rounds(
        self, *, limit: int | None = None, beyond_request: bool = False
    ) -> Iterator[Round]:
        """The rounds of the run that brought something back, latest first.

        At most `limit` messages from the end are read. With `beyond_request`, those before the request come, too.
        """
        observations: list[ToolMessage] = []
        for part, message in islice(self._latest_first(), limit):
            if is_observation(message):
                observations.append(message)
            elif part == "request" or isinstance(message, AIMessage):
                if observations:
                    yield Round(
                        message if isinstance(message, AIMessage) else None,
                        observations[::-1],
                    )
                observations = []
                if part == "request" and not beyond_request:
                    return
        if observations:
            yield Round(None, observations[::-1])

    def earlier_rounds(self) -> Iterator[Round]:
        """The rounds of the run before the latest one, latest first."""
        return islice(self.rounds(), 1, None)

    # --- reading ---

    def ends(
        self, room: int, *, longest: int, call: int
    ) -> tuple[list[BaseMessage], int]:
        """The beginning and the end of the conversation, oldest first, and how many messages between them are left out.

        `room` is how many characters the end may have; the beginning has a third of them, and the end reaches back to
        the model's latest message, however long that is. Of one message, `longest` characters count, and a call or an
        observation takes `call` characters beside its text.
        """
        messages = self.messages
        sizes = [
            min(len(_words(message)), longest)
            + call * (is_observation(message) or len(calls_in(message)))
            for message in messages
        ]
        begin = 1 + sum(size <= room // 3 for size in accumulate(sizes))
        end = 1 + sum(size <= room for size in accumulate(reversed(sizes)))
        if self.reply is not None:
            end = max(end, 1 + self._read.index(self.reply))
        between = max(0, len(messages) - begin - end)
        return (messages[:begin] + messages[-end:] if between else messages), between

    @cached_property
    def _last(self) -> tuple[Part, BaseMessage] | None:
        return next(
            (each for each in self._latest_first() if each[0] != "reference"), None
        )

    def _of_part(self, part: Part) -> Iterator[BaseMessage]:
        return (message for role, message in self.parts if role == part)

    def _latest_first(self) -> Iterator[tuple[Part, BaseMessage]]:
        for number in count():
            if number == len(self._read) and not self._read_one():
                return
            yield self._parts[number], self._read[number]

    def _read_one(self) -> bool:
        """Read the latest message that was not read yet; whether there is one."""
        while self._left:
            self._left -= 1
            latest = self._source[self._left]
            message = sound(
                latest
                if isinstance(latest, BaseMessage)
                else convert_to_messages([latest])[0]
            )
            if isinstance(message, RemoveMessage):
                self._removed.add(message.id)
                if message.id == REMOVE_ALL_MESSAGES:
                    self._left = 0
            elif message.id is None or message.id not in self._removed:
                self._parts.append(_part(message))
                self._read.append(message)
                return True
        return False


def visible_path(
    state: Any, messages: Sequence[Any] | None = None, *, key: str = "messages"
) -> Sequence[Any]:
    """The messages that the model sees: past runs are asked about these, and never about an abandoned branch.

    A planner marks what it hides: in a channel of the agent's state, or in the metadata of the model's newest message.
    One of its questions ends with a note, and before that may stand an answer that is in no state; both are left out.

    Args:
        state: The state of a graph, or its messages.
        messages: The messages of a request, where they are not those of the state.
        key: Where in the state the conversation stands.

    Returns:
        The messages of the path; those given, if nothing is hidden.
    """
    if not isinstance(state, Mapping):
        state = {
            key: state if isinstance(state, Sequence) else getattr(state, key, None)
        }
    path: Sequence[Any] = (state.get(key) or []) if messages is None else messages
    newest = next(
        (each for each in reversed(path) if isinstance(each, AIMessage)), None
    )
    noted = {} if newest is None else get_mapping(newest.response_metadata, NOTES)
    hidden = {
        each
        for mark in (get_mapping(state, NOTES), get_mapping(noted, SEARCH_MARK))
        for each in mark.get("hidden") or ()
    }
    if hidden:
        path = [each for each in path if getattr(each, "id", None) not in hidden]
    notes = len(list(takewhile(_is_note, reversed(path))))
    answers = (
        notes < len(path)
        and isinstance(answer := path[-1 - notes], AIMessage)
        and not answer.tool_calls
    )
    return path[: len(path) - notes - answers] if notes else path


def _is_note(message: Any) -> bool:
    return (
        isinstance(message, HumanMessage)
        and message.id is None
        and message.text.startswith(NOTE)
    )


def is_observation(message: Any) -> TypeGuard[ToolMessage]:
    """Whether something is what a tool call brought back."""
    return isinstance(message, ToolMessage)


def _part(message: BaseMessage) -> Part:
    role = role_of(message)
    part, content = PARTS.get(role, "other"), message.content
    unmarked = (
        isinstance(content, str)
        and MARK not in content
        and not message.additional_kwargs
    )
    if unmarked or part not in PROMPTED:
        return part  # most messages; a long conversation has many
    extras = {"additional_kwargs": message.additional_kwargs}
    return part_of({"role": role, "content": content, EXTRAS: extras})


def tool_output(message: ToolMessage) -> Any:
    """What a tool has returned, without what this package has added to it."""
    added = added_to(
        message.response_metadata, artifact=message.artifact, tool=message.name
    )
    return without_added(message.content, added) if added else message.content


def _unmarked(message: BaseMessage) -> Any:
    """The content without reference material, of which there nearly always is none."""
    if is_observation(message):
        return tool_output(message)
    is_prompt = PARTS.get(role_of(message)) in PROMPTED
    return without_reference(message.content) if is_prompt else message.content


def _words(message: BaseMessage) -> str:
    """The text of a message without reference material."""
    return text_of(_unmarked(message)).strip()


def _describe_message(message: BaseMessage) -> str:
    return _words(message) or readable(_unmarked(message)).strip()


def _summed_up(summary: BaseMessage) -> str:
    """A summary without the line by which LangChain says that it is one."""
    text = _words(summary)
    heading, _, rest = text.partition("\n\n")
    return rest if rest and heading.endswith(":") else text


def _step(call: ToolCall | None, answer: ToolMessage | None, turn: int = 0) -> Step:
    outcome = None if answer is None else Outcome(tool_output(answer), answer.status)
    tool = call["name"] if call else (answer and answer.name) or ""
    call_id = call["id"] if answer is None and call else answer and answer.tool_call_id
    return Step(tool, call["args"] if call else None, outcome, call_id or None, turn)


def transcript(
    conversation: Sequence[BaseMessage] | Conversation,
) -> list[dict[str, Any]]:
    """A conversation as JSON-like data: one entry for each text, call and observation.

    Calls that were made together have ids, which say whose each observation is.
    """
    entries: list[dict[str, Any]] = []
    together: set[str | None] = set()
    for part, message in Conversation.of(conversation).parts:
        if part == "observation":
            observation = shortened(readable(message.content), SEEN_CHARS)
            call_id = getattr(message, "tool_call_id", None)
            paired = {"id": call_id} if call_id in together else {}
            entries.append(
                {
                    "role": "tool",
                    **paired,
                    "tool": message.name,
                    "observation": observation,
                }
            )
        elif part == "reply":
            if message.text:
                entries.append({"role": "assistant", "text": str(message.text)})
            calls = calls_in(message)
            together = {call["id"] for call in calls} if len(calls) > 1 else set()
            for call in calls:
                paired = {"id": call["id"]} if together else {}
                made = {**paired, "tool": call["name"], "arguments": call["args"]}
                entries.append({"role": "assistant", "call": made})
        else:
            is_system = isinstance(message, SystemMessage)
            role = "system" if is_system else "user" if part == "request" else part
            entries.append(
                {
                    "role": role,
                    "text": str(message.text)
                    if is_system
                    else readable(message.content),
                }
            )
    return entries
