"""The state of the search for a better answer, as a list of events.

The middleware stores the state as JSON data in the state of the agent. What the search
needs to know is computed from the events, so the stored data cannot contradict itself.
The terms:

- A *final answer* is a model response without tool calls.
- A *run* is one invocation of the agent by the application.
- A *search* looks for a better answer. It is open from the first rejected answer until
  an answer is returned, or until the agent goes back to its ordinary work. A run can
  have several searches, one after the other.
- The *fallback answer* is the best of the answers that the open search has rejected. It
  is returned if the search finds no better one.
- An *exploratory call* is a read-only tool call that the search chose, not the agent.
- A *round* is a model response with tool calls, together with their results.
- A *control call* is a tool call that steers the agent itself, such as a to-do list or
  a handoff.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, Literal, Self

from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from loop.conversation import (
    ToolRound,
    contains_call,
    find_final_round,
    is_same_call,
)
from loop.problems import AnswerProblem, ProblemKind

EXPLORATORY_ID_PREFIX = "lc_tooltree-"
"""The beginning of the id of every exploratory message."""

REASONING_BLOCK_TYPES = frozenset(
    {"reasoning", "reasoning_content", "redacted_thinking", "thinking"}
)
"""The types of content blocks in which providers return the model's reasoning."""

CALL_BLOCK_TYPES = frozenset(
    {"function_call", "invalid_tool_call", "tool_call", "tool_use"}
)
"""The types of content blocks that contain a tool call."""

RAW_CALL_KEYS = frozenset({"tool_calls", "function_call"})
"""The keys of `additional_kwargs` under which integrations keep a provider's calls."""

Purpose = Literal["plainly", "again", "alternatives"]
"""The request as it was, the request with a note, or a request for other calls."""

StopReason = Literal[
    "answered",
    "nothing_left_to_try",
    "budget_spent",
    "no_room",
    "write_without_reason",
    "failed",
]
"""The reasons for which a search ends with an answer."""

WriteReason = Literal["agent_had_not_finished", "write_was_missing"]
"""The reasons for which the agent may make a write while a search is open."""

EndReason = StopReason | WriteReason | Literal["control_call"]
"""All reasons for which a search ends."""


class AnswerQuality(IntEnum):
    """How much a final answer is worth to the user."""

    UNUSABLE = 0
    PARTLY_USABLE = 1
    INCOMPLETE = 2
    FINE = 3


_QUALITY_OF_PROBLEMS: dict[ProblemKind, AnswerQuality] = {
    "empty": AnswerQuality.UNUSABLE,
    "invalid_tool_call": AnswerQuality.UNUSABLE,
    "tool_call_as_text": AnswerQuality.PARTLY_USABLE,
    "announced_tool_call": AnswerQuality.PARTLY_USABLE,
    "truncated": AnswerQuality.PARTLY_USABLE,
    "missing": AnswerQuality.INCOMPLETE,
}


def rate_answer(problem: AnswerProblem | None) -> AnswerQuality:
    """Return the quality of an answer that has this problem, or no problem.

    A problem that says nothing against the answer itself, such as `failed_read`, does
    not lower its quality.
    """
    if problem is None:
        return AnswerQuality.FINE
    return _QUALITY_OF_PROBLEMS.get(problem.kind, AnswerQuality.FINE)


class _BaseEvent(BaseModel):
    # Providers add keys of their own to the details of `UsageMetadata`. Pydantic would
    # drop them without `extra="allow"`, which also applies to nested typed dicts.
    model_config = ConfigDict(frozen=True, extra="allow")


class AnswerRejected(_BaseEvent):
    """A final answer had a problem and was not returned at once."""

    type: Literal["answer_rejected"] = "answer_rejected"
    problem: AnswerProblem
    became_fallback: bool
    usage: UsageMetadata | None = None


class ModelAsked(_BaseEvent):
    """The model was called once more.

    The usage is only given for alternatives, because that response is dropped. Other
    responses are returned to the agent or rejected, and their tokens counted there.
    """

    type: Literal["model_asked"] = "model_asked"
    purpose: Purpose
    problem_kind: ProblemKind
    usage: UsageMetadata | None = None


class CallProposed(_BaseEvent):
    """A response proposed a call that may be explored."""

    type: Literal["call_proposed"] = "call_proposed"
    tool_call: ToolCall
    reasoning: list[dict[str, Any]] = []

    @field_validator("reasoning")
    @classmethod
    def _check_reasoning(cls, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Raise an error if a block is not reasoning.

        The blocks become the content of an exploratory message. Another block in it,
        such as a second call, would be sent to the provider unchecked.
        """
        if any(block.get("type") not in REASONING_BLOCK_TYPES for block in blocks):
            msg = "The reasoning must not contain blocks of another type"
            raise ValueError(msg)
        return blocks


class CallExplored(_BaseEvent):
    """An exploratory call was returned to the agent."""

    type: Literal["call_explored"] = "call_explored"
    tool_call: ToolCall
    message_id: str

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls of the message, as in `AgentCalledTools`: only this one."""
        return [self.tool_call]


class AgentCalledTools(_BaseEvent):
    """The agent itself called tools while a search was open, or made a write."""

    type: Literal["agent_called_tools"] = "agent_called_tools"
    tool_calls: list[ToolCall]
    message_id: str


ToolCallEvent = CallExplored | AgentCalledTools
"""An event that records a message with tool calls."""


class PersonDecided(_BaseEvent):
    """A person may have approved, changed or refused the calls of a message.

    The run was interrupted before the calls were made, and was then resumed.
    """

    type: Literal["person_decided"] = "person_decided"
    message_id: str
    changed_or_refused: bool


class SearchFailed(_BaseEvent):
    """A step of a model call raised an exception."""

    type: Literal["search_failed"] = "search_failed"
    error: str


class SearchEnded(_BaseEvent):
    """A search ended. What follows is the ordinary work of the agent."""

    type: Literal["search_ended"] = "search_ended"
    reason: EndReason


Event = Annotated[
    AnswerRejected
    | ModelAsked
    | CallProposed
    | CallExplored
    | AgentCalledTools
    | PersonDecided
    | SearchFailed
    | SearchEnded,
    Field(discriminator="type"),
]


class SearchState(BaseModel):
    """The events of a run and, while a search is open, the fallback answer.

    Methods whose docstring says "the run" look at all events, because the budget and a
    person's decisions hold for the whole run. The other methods look at the events
    after the last `SearchEnded`, because a search does not depend on earlier ones.

    Attributes:
        run_id: The invocation of the agent to which the events belong.
        events: The events of the run, the oldest first. Use `add` to add one.
        fallback_answer: The answer that is returned if the search finds no better one.
    """

    run_id: int | None = None
    events: list[Event] = []
    fallback_answer: AIMessage | None = None

    @classmethod
    def load(cls, data: object) -> SearchState:
        """Return the stored state, or an empty state if the data is not valid.

        No data makes this method raise an error, because clients of the application
        can write the data, too.
        """
        try:
            return _read_back(cls.model_validate(data))
        except Exception:  # noqa: BLE001
            # For some values, the validators of AIMessage raise other errors than
            # pydantic's, such as AttributeError.
            return cls()

    def dump(self) -> dict[str, Any]:
        """Return the state as plain JSON data."""
        return self.model_dump(mode="json")

    def add(self, event: Event, fallback_answer: AIMessage | None = None) -> None:
        """Add an event, after a check that it can be stored and read back.

        Afterwards, the state consists of the values that were read back, so that it is
        the same in memory and in the store, where a tuple becomes a list, for example.

        Args:
            event: The event to add. `SearchEnded` is added by `end_search` instead.
            fallback_answer: The answer that replaces the fallback answer, or None to
                keep the present one.

        Raises:
            ValueError: The event or the answer can't be stored as JSON data, or an
                answer is rejected without a fallback answer. Nothing is added.
        """
        extended = SearchState(
            run_id=self.run_id,
            events=[*self.events, event],
            fallback_answer=fallback_answer or self.fallback_answer,
        )
        restored = _read_back(extended)
        self.events = restored.events
        self.fallback_answer = restored.fallback_answer

    def end_search(self, reason: EndReason) -> None:
        """Add a `SearchEnded` event and drop the fallback answer.

        Nothing is checked, so that a search can still be ended after an error.
        """
        self.events.append(SearchEnded(reason=reason))
        self.fallback_answer = None

    def is_search_open(self) -> bool:
        """Return True if an answer was rejected since the last search ended."""
        return bool(self.list_rejected_problems())

    def has_rejected_answer(self) -> bool:
        """Return True if any answer of the run was rejected."""
        return any(isinstance(event, AnswerRejected) for event in self.events)

    def count_questions(self, purpose: Purpose, kind: ProblemKind | None = None) -> int:
        """Return how many questions with a purpose the model was asked in the run.

        With a kind, only the questions about problems of this kind are counted.
        """
        kinds_of_questions = [
            event.problem_kind
            for event in self.events
            if isinstance(event, ModelAsked) and event.purpose == purpose
        ]
        if kind is None:
            return len(kinds_of_questions)
        return kinds_of_questions.count(kind)

    def count_model_calls(self) -> int:
        """Return the number of additional model calls of the run.

        An explored call counts as one, because the agent calls the model once more
        with its result.
        """
        additional_calls = [
            event
            for event in self.events
            if isinstance(event, ModelAsked | CallExplored)
        ]
        return len(additional_calls)

    def list_explored_calls(self) -> list[ToolCall]:
        """Return all exploratory calls of the run."""
        return [
            event.tool_call for event in self.events if isinstance(event, CallExplored)
        ]

    def list_agent_calls(self) -> list[ToolCall]:
        """Return the recorded calls that the agent itself made in the run.

        They are the calls of responses that contained a write, and of responses that
        were given while a search was open.
        """
        tool_calls: list[ToolCall] = []
        for event in self.events:
            if isinstance(event, AgentCalledTools):
                tool_calls += event.tool_calls
        return tool_calls

    def has_changed_or_refused_call(self) -> bool:
        """Return True if a person changed or refused a call in the run."""
        return any(
            isinstance(event, PersonDecided) and event.changed_or_refused
            for event in self.events
        )

    def list_search_events(self) -> list[Event]:
        """Return the events of the current search, which may not be open yet.

        If no answer has been rejected since the last search ended, they are the events
        of the agent's ordinary work, such as its writes.
        """
        search_events: list[Event] = []
        for event in self.events:
            if isinstance(event, SearchEnded):
                search_events = []
            else:
                search_events.append(event)
        return search_events

    def list_rejected_problems(self) -> list[AnswerProblem]:
        """Return the problems of the answers that the search rejected, oldest first."""
        return [
            event.problem
            for event in self.list_search_events()
            if isinstance(event, AnswerRejected)
        ]

    def has_explored(self, tool_call: ToolCall) -> bool:
        """Return True if the search explored a call with this name and arguments."""
        return any(
            isinstance(event, CallExplored) and is_same_call(event.tool_call, tool_call)
            for event in self.list_search_events()
        )

    def list_unexplored_calls(self) -> list[ToolCall]:
        """Return the calls that were proposed in the search but not explored.

        A call that was proposed more than once stands at the place of its first
        proposal.
        """
        unexplored_calls: list[ToolCall] = []
        for event in self.list_search_events():
            if not isinstance(event, CallProposed):
                continue
            is_listed = contains_call(unexplored_calls, event.tool_call)
            if not is_listed and not self.has_explored(event.tool_call):
                unexplored_calls.append(event.tool_call)
        return unexplored_calls

    def find_reasoning(self, tool_call: ToolCall) -> list[dict[str, Any]]:
        """Return the reasoning blocks of the latest response that proposed a call.

        The list is empty if that response had no reasoning, or if none proposed it.
        """
        for event in reversed(self.list_search_events()):
            if not isinstance(event, CallProposed):
                continue
            if is_same_call(event.tool_call, tool_call):
                return event.reasoning
        return []

    def list_usages(self) -> list[UsageMetadata]:
        """Return the tokens of the search that are recorded in events.

        These are the tokens of rejected answers, including the fallback answer, and of
        responses to a request for alternatives.
        """
        return [
            event.usage
            for event in self.list_search_events()
            if isinstance(event, AnswerRejected | ModelAsked) and event.usage
        ]

    def find_fallback_problem(self) -> AnswerProblem | None:
        """Return the problem of the fallback answer, or None if no search is open."""
        fallback_problem = None
        for event in self.list_search_events():
            if isinstance(event, AnswerRejected) and event.became_fallback:
                fallback_problem = event.problem
        return fallback_problem

    def find_missing_information(self) -> str | None:
        """Return what the model reported as missing in the fallback answer, or None."""
        problem = self.find_fallback_problem()
        if problem is None or problem.kind != "missing":
            return None
        return problem.explanation

    def list_calls_after_fallback(self) -> list[ToolCallEvent]:
        """Return the events of tool calls that are later than the fallback answer.

        The model had not seen the results of these calls when it gave that answer.
        """
        later_calls: list[ToolCallEvent] = []
        for event in self.list_search_events():
            if isinstance(event, AnswerRejected) and event.became_fallback:
                later_calls = []
            elif isinstance(event, ToolCallEvent):
                later_calls.append(event)
        return later_calls

    def list_abandoned_message_ids(self) -> list[str]:
        """Return the ids of the messages to remove if the fallback answer is returned.

        They contain the tool calls that were made after that answer was given, so it
        can't depend on their results. Messages about which a person decided are left
        out, so that the decision remains in the conversation.
        """
        decided_ids = [
            event.message_id
            for event in self.events
            if isinstance(event, PersonDecided)
        ]
        return [
            event.message_id
            for event in self.list_calls_after_fallback()
            if event.message_id not in decided_ids
        ]

    def is_better_than_fallback(self, problem: AnswerProblem | None) -> bool:
        """Return True if a new answer with this problem beats the fallback answer.

        An answer of higher quality is better, and any answer is better than none. An
        answer of the same quality is only better if the model has seen the result of a
        tool call since it gave the fallback answer. Otherwise it knew no more.
        """
        fallback_problem = self.find_fallback_problem()
        if fallback_problem is None:
            return True
        quality = rate_answer(problem)
        fallback_quality = rate_answer(fallback_problem)
        if quality != fallback_quality:
            return quality > fallback_quality
        return bool(self.list_calls_after_fallback())

    def find_last_tool_calls(self) -> ToolCallEvent | None:
        """Return the event of the run's last recorded tool calls, or None."""
        for event in reversed(self.events):
            if isinstance(event, ToolCallEvent):
                return event
        return None

    @field_validator("fallback_answer")
    @classmethod
    def _remove_invalid_calls(cls, answer: AIMessage | None) -> AIMessage | None:
        """Return the answer without tool calls that LangChain could not parse.

        The agent does not run such calls. But some integrations send them to the
        provider, which refuses a conversation in which a call has no result.
        """
        if answer is None:
            return None
        content = answer.content
        if not isinstance(content, str):
            content = [block for block in content if not _is_call_block(block)]
        additional_kwargs = {
            key: value
            for key, value in answer.additional_kwargs.items()
            if key not in RAW_CALL_KEYS
        }
        return answer.model_copy(
            update={
                "content": content,
                "additional_kwargs": additional_kwargs,
                "invalid_tool_calls": [],
            }
        )

    @model_validator(mode="after")
    def _check_fallback_answer(self) -> Self:
        """Raise an error if the fallback answer does not fit the events."""
        answer = self.fallback_answer
        if answer is None:
            if self.is_search_open():
                msg = "The fallback answer must not be missing while a search is open"
                raise ValueError(msg)
            return self
        # Without an open search, there is no such problem either.
        if self.find_fallback_problem() is None:
            msg = "The fallback answer must be one that the open search has rejected"
            raise ValueError(msg)
        # The answer may be returned to the agent, which would then make its calls. So
        # whoever can write the stored data could have any call made.
        if answer.tool_calls:
            msg = "The fallback answer must have no tool calls"
            raise ValueError(msg)
        return self


def _read_back(state: SearchState) -> SearchState:
    """Return the state as it is after it was stored and read back."""
    return SearchState.model_validate_json(state.model_dump_json())


def _is_call_block(block: str | dict[Any, Any]) -> bool:
    """Return True if a content block is a tool call in the form of a provider."""
    return isinstance(block, dict) and block.get("type") in CALL_BLOCK_TYPES


def continue_state(
    data: object, run_id: int, conversation: Sequence[BaseMessage]
) -> SearchState:
    """Return the state with which a model call of a run begins.

    The stored state belongs to an earlier model call. It is used again if that call was
    made in the same run, or in an interrupted run that the present run resumes, such as
    after a person has approved a tool call. In any other run, the state is empty.

    Args:
        data: The stored data, which need not be valid.
        run_id: The id of the present run.
        conversation: The messages of the agent.
    """
    state = SearchState.load(data)
    if state.run_id != run_id:
        state = _resume_state(state, run_id, conversation)
    state.fallback_answer = _drop_taken_id(state.fallback_answer, conversation)
    return state


def _resume_state(
    state: SearchState, run_id: int, conversation: Sequence[BaseMessage]
) -> SearchState:
    """Return the state for a run that may resume the run of a stored state.

    It is the stored state with a `PersonDecided` event if the conversation ends with
    the last recorded tool calls and all of their results. An interrupted run leaves
    calls without results, so the new run has done nothing but make them. Otherwise the
    new run is not the continuation of the stored one, and its state is empty.
    """
    recorded = state.find_last_tool_calls()
    final_round = find_final_round(conversation)
    if recorded is None or final_round is None:
        return SearchState(run_id=run_id)
    is_recorded_round = final_round.message.id == recorded.message_id
    if not is_recorded_round or not final_round.is_complete():
        return SearchState(run_id=run_id)

    decision = PersonDecided(
        message_id=recorded.message_id,
        changed_or_refused=_was_changed_or_refused(recorded, final_round),
    )
    resumed = state.model_copy(update={"run_id": run_id})
    resumed.add(decision)
    return resumed


def _was_changed_or_refused(recorded: ToolCallEvent, tool_round: ToolRound) -> bool:
    """Return True if a person changed or refused one of the recorded calls.

    A refused call has an error as its result. So has a call that was approved and then
    failed. Both are taken for refusals, because a refusal must not be overlooked.
    """
    if tool_round.has_error():
        return True
    current_calls = tool_round.message.tool_calls
    if len(recorded.tool_calls) != len(current_calls):
        return True
    return not all(map(is_same_call, recorded.tool_calls, current_calls))


def _drop_taken_id(
    answer: AIMessage | None, conversation: Sequence[BaseMessage]
) -> AIMessage | None:
    """Return the answer, without its id if a message of the conversation has that id.

    LangGraph adds a message with a known id by replacing the message that has it.
    """
    if answer is None or answer.id not in [message.id for message in conversation]:
        return answer
    return answer.model_copy(update={"id": None})
