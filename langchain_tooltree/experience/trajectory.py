"""Trajectory: what happened in one run, read from messages of LangChain or OpenAI, and what is no part of it.

Messages of models are made fit to be read first, and calls are told apart into reads and writes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, TypeVar

from langchain_core.messages import (
    BaseMessage,
)

from langchain_tooltree.messages.chat_format import (
    find_requests,
    from_chat_message,
    get_first_request,
    get_opening_instructions,
    remove_additions,
    remove_additions_from,
    to_chat_message,
)
from langchain_tooltree.messages.kinds import ChatMessage, classify_chat_message
from langchain_tooltree.messages.request_summary import summarize_requests
from langchain_tooltree.messages.tool_calls import Call, find_calls
from langchain_tooltree.text import (
    digest,
    get_mapping,
)

REPORT_FORM = '{"missing": "nothing'
"""Stands in the line by which the planner asks an agent for a report, at the end of its instructions."""


def without_report_line(instructions: str) -> str:
    """An agent's instructions without the planner's line."""
    own, _, last = instructions.rpartition("\n\n")
    return own if REPORT_FORM in last else instructions


T = TypeVar("T")


ATTEMPT_OF = "attempt_of"
"""Key of a record's metadata for what a search has tried and given up: the id of the run that it was part of."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The dialogue of a sub-agent that the trajectory's own dialogue does not contain.

    Attributes:
        name: The nodes that lead to the sub-agent, joined by `/`.
        after: How many messages of the trajectory came before it.
        messages: Its messages.
    """

    name: str
    after: int
    messages: tuple[ChatMessage, ...]


RECALLED = "recalled"
"""Key of a record's metadata under which it stands what was recalled for it; there also where nothing was."""


@dataclass(frozen=True, slots=True)
class Recall:
    """What was recalled for a run.

    Attributes:
        runs: The ids of past runs.
        tips: The ids of tips, each with those of the runs that it was taken from: other tips may stand in the store by
            the time these runs are forgotten.
    """

    runs: Sequence[str] = ()
    tips: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Self:
        """What a note says, as `note` writes it; it may come from anybody."""
        runs, tips, sources = (
            note.get("runs"),
            note.get("tips"),
            get_mapping(note, "sources"),
        )
        return cls(
            _to_ids(runs), {tip: _to_ids(sources.get(tip)) for tip in _to_ids(tips)}
        )

    def __bool__(self) -> bool:
        """Whether anything was recalled."""
        return bool(self.runs or self.tips)

    def __or__(self, later: "Recall") -> "Recall":
        """What was recalled at one of two times."""
        return Recall(
            tuple(dict.fromkeys([*self.runs, *later.runs])), {**self.tips, **later.tips}
        )

    def note(self) -> dict[str, Any]:
        """It as plain data."""
        sources = {tip: list(runs) for tip, runs in self.tips.items() if runs}
        return {
            "runs": list(self.runs),
            "tips": list(self.tips),
            **({"sources": sources} if sources else {}),
        }

    def metadata(self) -> dict[str, Any]:
        """The metadata of a run for which past runs were looked for."""
        return {RECALLED: self.note()}

    def gone(self, is_gone: Callable[[str], bool]) -> set[str]:
        """The ids of what is gone: a tip goes with any run that it was taken from, whatever the others."""
        return {
            *filter(is_gone, self.runs),
            *(tip for tip, runs in self.tips.items() if any(map(is_gone, runs))),
        }

    def without(self, gone: Collection[str]) -> "Recall":
        """What is left where runs and tips are gone."""
        lost = {*gone, *self.gone(gone.__contains__)}
        tips = {tip: runs for tip, runs in self.tips.items() if tip not in lost}
        return Recall(tuple(run for run in self.runs if run not in lost), tips)


def _to_ids(ids: Any) -> tuple[str, ...]:
    return tuple(map(str, ids)) if isinstance(ids, list | tuple) else ()


JUDGED_BY = "judged_by"  # key of a record's metadata: who has judged it

VerdictSource = Literal["verdict", "user", "agent"]
"""Who says whether a run succeeded: a verdict, a person, or the agent about itself."""

CAME_FROM = "came_from"
"""Key of a record's metadata under which it stands whom the run came from, such as a user. The host says so: what the
run itself says would be the word of whoever made it."""


@dataclass(frozen=True)
class Trajectory:
    """One run of an agent on one task: who said what, which tools were called, and what came of it.

    It is immutable. Make one from LangChain messages with `from_messages`, from OpenAI chat messages with `from_chat`,
    from files with `load_trajectories`, or from a LangGraph thread with `load_thread`. It is the one record that
    everything else is made from.

    Attributes:
        id: Identifies the run. Records with the same id are versions of the same run.
        task: What the user asked for.
        messages: The dialogue in the OpenAI chat format.
        success: Whether it succeeded; `None` if nobody has said.
        branches: Dialogues of sub-agents that are not part of `messages`.
        reasons: Why it counts as a success or a failure.
        instructions: The system prompt of the agent, as its developer wrote it; empty if it is not known.
        metadata: Everything else the record came with, such as a reward.
    """

    id: str
    task: str
    messages: tuple[ChatMessage, ...] = ()
    success: bool | None = None
    branches: tuple[Branch, ...] = ()
    reasons: str = ""
    instructions: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls in order; those of a branch stand where the branch began."""
        placed = ((step.position, step) for step in find_calls(self.messages))
        return tuple(
            step
            for each in woven(placed, self.branches)
            for step in (
                find_calls(each.messages, branch=each.name)
                if isinstance(each, Branch)
                else [each]
            )
        )

    @property
    def turns(self) -> int:
        """Number of assistant messages, T in Eq. 1 of SIT-Graph."""
        return sum(
            classify_chat_message(message) == "response" for message in self.messages
        )

    @classmethod
    def from_chat(
        cls,
        messages: Sequence[ChatMessage],
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        task: str | None = None,
        success: bool | None = None,
        branches: Sequence[Branch] = (),
        reasons: str = "",
        instructions: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read a run from messages in the OpenAI chat format.

        Calls and observations are paired by id, and by order where ids fail. Reference material that this package has
        put there is left out: it did not happen in this run. Where they are left out, `id` is a hash of the dialogue,
        `task` its first user message, and `instructions` what it begins with.
        """
        own = [remove_additions(message) for message in messages]
        messages = tuple(message for message in own if message is not None)
        # Where a branch begins is counted in messages that stay.
        cleaned = (
            replace(
                each,
                after=each.after - own[: each.after].count(None),
                messages=remove_additions_from(each.messages),
            )
            for each in branches
        )
        branches = tuple(sorted(cleaned, key=lambda each: (each.after, each.name)))
        return cls(
            id=id or digest(messages),
            task=get_first_request(messages) if task is None else task,
            messages=messages,
            success=success,
            branches=branches,
            reasons=reasons,
            instructions=instructions or get_opening_instructions(messages),
            metadata=metadata or {},
        )

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[BaseMessage],
        *,
        task: str | None = None,
        success: bool | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
        instructions: str = "",
    ) -> Self:
        """Read a run from LangChain messages, oldest first; what is marked in them as reference material is left out.

        Where they are left out, `id` is a hash of the conversation, `task` its first user message, and `instructions`
        what it begins with. Raises `TrajectoryFormatError` if something is no message that a conversation can hold.
        """
        chat = [to_chat_message(message) for message in messages]
        return cls.from_chat(
            chat, id=id, task=task, success=success, instructions=instructions
        )

    @property
    def source(self) -> VerdictSource | None:
        """Who has said whether it succeeded; `None` if that is not known, as for runs from files."""
        by = self.metadata.get(JUDGED_BY)
        return by if by in ("verdict", "user", "agent") else None

    @property
    def came_from(self) -> str:
        """Whom the run came from; empty if that is not known, and then it counts as somebody of its own.

        So does each conversation of a file: those that are published are by many people. Where one file is one
        source, `coming_from` says so.
        """
        name = self.metadata.get(CAME_FROM)
        return name if isinstance(name, str) else ""

    def coming_from(self, name: str) -> Self:
        """A copy of the run that came from somebody, such as a user, an agent or a file."""
        return replace(self, metadata={**self.metadata, CAME_FROM: name})

    @property
    def voice(self) -> tuple[str, str]:
        """What counts once where runs are counted: whom it came from, and the task.

        What an agent says of its own success is worth one voice, however many tasks it has.
        """
        return (
            self.came_from or f"run {self.id}",
            "" if self.source == "agent" else self.task,
        )

    def judged(
        self,
        success: bool | None,  # noqa: FBT001 - the verdict itself
        reasons: str = "",
        *,
        source: VerdictSource | None = None,
    ) -> Self:
        """A copy of the run with a verdict: whether it succeeded, and why; with a `source`, also who says so."""
        metadata = (
            self.metadata if source is None else {**self.metadata, JUDGED_BY: source}
        )
        return replace(self, success=success, reasons=reasons, metadata=metadata)

    @property
    def recall(self) -> Recall:
        """What was recalled for it."""
        return Recall.of_note(get_mapping(self.metadata, RECALLED))

    def with_recall(self, recall: Recall) -> Self:
        """A copy of the run with what was recalled for it."""
        return replace(self, metadata={**self.metadata, **recall.metadata()})

    def dialogues(self) -> Iterator[tuple[str, tuple[ChatMessage, ...]]]:
        """The dialogue of the trajectory, named by an empty text, then those of its branches by their names."""
        yield "", self.messages
        for branch in self.branches:
            yield branch.name, branch.messages

    @property
    def aim(self) -> str:
        """What the user wanted in the end: the task, unless that is no more than the first thing they said."""
        return (
            summarize_requests(find_requests(self.messages))
            if self.task == get_first_request(self.messages)
            else self.task
        )

    def to_messages(self) -> list[BaseMessage]:
        """The dialogue as LangChain messages.

        They equal those that the trajectory was made from, apart from reference material. A message without a role
        raises `TrajectoryFormatError`.
        """
        return [from_chat_message(message) for message in self.messages]


def woven(
    placed: Iterable[tuple[int, T]], branches: Sequence[Branch]
) -> Iterator[T | Branch]:
    """What stands at places in a dialogue, with its branches where they began."""
    rest = list(branches)
    for place, each in placed:
        while rest and rest[0].after <= place:
            yield rest.pop(0)
        yield each
    yield from rest


# --- messages of models ---

# LangChain checks a message when it is made. What an integration assigns later, or builds without checks, is checked
# here by the same classes, and what does not validate is left out: rubbish is normal input.


# --- reads and writes ---
