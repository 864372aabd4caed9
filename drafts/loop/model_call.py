"""One model call of an agent, with a search if its final answer has a problem.

The middleware calls `handle_model_call` in place of each request to the model. The
terms:

- A *final answer* is a model response without tool calls.
- A *run* is one invocation of the agent by the application.
- A *search* looks for a better answer. It is open from the first rejected answer until
  an answer is returned, or until the agent goes back to its ordinary work. In between,
  the agent may make tool calls, and so the search can last for several model calls.
- The *fallback answer* is the best of the answers that the open search has rejected. It
  is returned if the search finds no better one.
- An *exploratory message* contains one read-only tool call that the search chose, not
  the model. The agent makes this call like any other.
- A *control call* is a tool call that steers the agent itself, such as a to-do list or
  a handoff.
- A *report* is a part of an answer in which the model says, on our instruction, what is
  missing. The adapter adds the instruction and removes the report.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata, add_usage
from langgraph.errors import GraphBubbleUp

from loop.conversation import list_tool_rounds
from loop.next_action import (
    Effect,
    ToolPolicy,
    choose_action,
    find_call_to_explore,
    find_reason_for_writes,
    may_ask_for_report,
)
from loop.problems import AnswerProblem
from loop.search_state import (
    EXPLORATORY_ID_PREFIX,
    REASONING_BLOCK_TYPES,
    AgentCalledTools,
    AnswerRejected,
    CallExplored,
    CallProposed,
    EndReason,
    Event,
    ModelAsked,
    SearchEnded,
    SearchFailed,
    SearchState,
    StopReason,
    continue_state,
)

logger = logging.getLogger(__name__)

METADATA_KEY = "tooltree"
"""The key in `response_metadata` under which an answer describes its search."""

MAX_ALTERNATIVES = 5
"""The largest number of calls that are kept when the model proposes alternatives."""

ALTERNATIVES_REQUEST = (
    "Your answer is not complete yet. Call other read-only tools that could find what "
    f"is missing, at most {MAX_ALTERNATIVES}. Do not repeat a call."
)


class Adapter(ToolPolicy, Protocol):
    """The agent, as one model call of it needs it.

    The methods of `ToolPolicy` are synchronous, because they only look things up.
    """

    @property
    def run_id(self) -> int:
        """The id of the current invocation of the agent."""

    async def ask(
        self,
        messages: Sequence[BaseMessage],
        *,
        hide_from_stream: bool,
        with_report: bool,
    ) -> AIMessage:
        """Ask the agent's own model.

        Args:
            messages: The messages to send, without the system prompt.
            hide_from_stream: Do not stream the response to the user.
            with_report: Ask for a report of what is missing. The report is no longer
                part of the text that is returned. The adapter keeps it for
                `find_problem`.

        Raises:
            Exception: Whatever the provider raises.
        """

    async def find_problem(
        self, response: AIMessage, messages: Sequence[BaseMessage], *, with_report: bool
    ) -> AnswerProblem | None:
        """Return the problem of a final answer, or None if it can be accepted.

        The form of the answer is checked first, then the report, and then the tool
        calls of the turn, with `find_problem_of_turn`.

        Args:
            response: A response without tool calls.
            messages: The messages of the agent, without the response.
            with_report: True if the request asked for a report. Otherwise nothing in
                the response counts as one.
        """

    async def emit(self, event_name: str, data: dict[str, Any]) -> None:
        """Tell the application what happened. Exceptions are logged and ignored."""


@dataclass(frozen=True)
class ModelCallResult:
    """The outcome of one model call.

    Attributes:
        message: The message to return to the agent.
        removed_ids: The ids of the messages to remove from the conversation.
        state: The data to store and to pass to the next model call.
    """

    message: AIMessage
    removed_ids: list[str]
    state: dict[str, Any]


async def handle_model_call(
    stored_state: object, conversation: Sequence[BaseMessage], adapter: Adapter
) -> ModelCallResult:
    """Ask the model, and search for a better answer if its answer has a problem.

    A search can go on over several model calls of the agent, with tool calls between
    them. If anything fails during a search, its fallback answer is returned.

    Args:
        stored_state: The `state` of the previous result, or None.
        conversation: All messages of the agent.
        adapter: The agent.

    Raises:
        Exception: The first request to the model failed, and no search is open.
        GraphBubbleUp: A step interrupted the graph.
    """
    # An exploratory message has no result if the run died in the tools node. Providers
    # refuse a conversation with such a message.
    unanswered_ids = find_unanswered_ids(conversation)
    model_call = _ModelCall(
        state=continue_state(stored_state, adapter.run_id, conversation),
        conversation=[m for m in conversation if m.id not in unanswered_ids],
        unanswered_ids=unanswered_ids,
        adapter=adapter,
    )
    return await model_call.run()


@dataclass
class _ModelCall:
    """One model call, from the first request to the message for the agent.

    Each method that returns a `ModelCallResult` carries the model call through to its
    end: it adds events to the state, and may ask the model again.

    Attributes:
        state: The state of the search.
        conversation: The messages of the agent, without unanswered messages.
        unanswered_ids: The ids of exploratory messages that have no result. They are
            removed from the agent's conversation, whatever the outcome.
        adapter: The agent.
        uncounted_response: The latest response, or None once it was rejected. From then
            on it can be the fallback answer, and its tokens are counted by an event.
    """

    state: SearchState
    conversation: Sequence[BaseMessage]
    unanswered_ids: Sequence[str]
    adapter: Adapter
    uncounted_response: AIMessage | None = None

    async def run(self) -> ModelCallResult:
        """Ask the model and handle its response, or an error."""
        try:
            with_report = may_ask_for_report(self.state, self.adapter)
            return await self.ask_and_handle(self.conversation, with_report=with_report)
        except GraphBubbleUp:
            # LangGraph interrupts a graph with this exception. It is not an error.
            raise
        except Exception as error:
            message = self.state.fallback_answer or self.uncounted_response
            if message is None:
                # The first request failed. The user's own retry middleware must see
                # the error, as it would without us.
                raise
            return await self.recover(error, message)

    async def recover(self, error: Exception, message: AIMessage) -> ModelCallResult:
        """Return the best message there is after an error in a step.

        Args:
            error: The error.
            message: The fallback answer if a search is open, otherwise the response of
                the model. It is returned as it is if the search can't be ended in the
                usual way, which adds metadata and removes messages.
        """
        logger.warning("The search for a better answer failed", exc_info=error)
        try:
            # The text of an error may contain characters that can't be stored.
            await self.record(SearchFailed(error=ascii(error)))
            if self.state.is_search_open():
                return await self.end_with_fallback("failed")
        except Exception:
            logger.exception("The end of the search failed, too")
            if self.state.is_search_open():
                self.state.end_search("failed")
        return self.build_result(message)

    async def ask_and_handle(
        self, messages: Sequence[BaseMessage], *, with_report: bool
    ) -> ModelCallResult:
        """Send messages to the model and handle the response."""
        response = await self.adapter.ask(
            messages, hide_from_stream=False, with_report=with_report
        )
        self.uncounted_response = response
        if response.tool_calls:
            return await self.handle_tool_calls(response)

        problem = await self.adapter.find_problem(
            response, self.conversation, with_report=with_report
        )
        if problem is None:
            return await self.handle_good_answer(response)
        return await self.handle_problem(response, problem)

    async def handle_tool_calls(self, response: AIMessage) -> ModelCallResult:
        """Return a response with tool calls to the agent, or the fallback answer.

        Without an open search, the calls are the agent's ordinary work. Only a write is
        recorded then, because only a write must be recognised later: it must not be
        made again, above all if a person changed or refused it.
        """
        effect = find_strongest_effect(response.tool_calls, self.adapter)
        if self.state.is_search_open():
            return await self.handle_tool_calls_in_search(response, effect)
        if effect == "write":
            response = ensure_id(response)
            await self.record_tool_calls(response)
        return self.build_result(response)

    async def handle_tool_calls_in_search(
        self, response: AIMessage, effect: Effect
    ) -> ModelCallResult:
        """Go on with the search if the agent only reads, and end it otherwise.

        Args:
            response: The response with tool calls.
            effect: The strongest effect among the calls.
        """
        # Without room, the recursion limit would end the run after these calls, and the
        # fallback answer would be lost.
        if not self.adapter.has_room():
            return await self.end_with_fallback("no_room")
        if effect == "write":
            return await self.handle_writes_in_search(response)
        if effect == "control":
            return await self.end_without_answer("control_call", response)

        # The calls are recorded so that the messages can be removed if the search ends
        # with an answer that was given before them.
        response = ensure_id(response)
        await self.record_tool_calls(response)
        return self.build_result(response)

    async def handle_writes_in_search(self, response: AIMessage) -> ModelCallResult:
        """End the search, with the writes if there is a reason for them.

        Without a reason, the fallback answer is returned and no write is made.
        """
        reason = find_reason_for_writes(
            response, self.state, self.conversation, self.adapter
        )
        if reason is None:
            return await self.end_with_fallback("write_without_reason")
        response = ensure_id(response)
        await self.record_tool_calls(response)
        return await self.end_without_answer(reason, response)

    async def handle_good_answer(self, answer: AIMessage) -> ModelCallResult:
        """Return a final answer without a problem, or the fallback answer if better."""
        if not self.state.is_search_open():
            return self.build_result(answer)
        if self.state.is_better_than_fallback(problem=None):
            return await self.end_with_new_answer(answer)
        return await self.end_with_fallback("answered")

    async def handle_problem(
        self, answer: AIMessage, problem: AnswerProblem
    ) -> ModelCallResult:
        """Reject a final answer and act on its problem, or return the answer.

        It is returned, as the same object, if there is no remedy for the problem and no
        search is open. If one is open, an earlier answer may be better than this one.
        """
        action = choose_action(problem, self.state, self.conversation, self.adapter)
        if action.name == "accept" and not self.state.is_search_open():
            return self.build_result(answer)

        await self.reject(answer, problem)
        # Only the action `explore` has a call.
        if action.tool_call is not None:
            return await self.explore(action.tool_call)
        if action.name == "ask_plainly":
            return await self.ask_plainly(problem)
        if action.name == "ask_again":
            return await self.ask_again(answer, problem)
        if action.name == "ask_alternatives":
            return await self.ask_alternatives(answer, problem)
        # The action is `accept`: there is nothing more to do about the problem.
        return await self.end_with_fallback(action.stop_reason)

    async def reject(self, answer: AIMessage, problem: AnswerProblem) -> None:
        """Record that an answer was rejected, and keep it if it is the best so far.

        The call that the problem proposes is recorded, too.
        """
        is_better = self.state.is_better_than_fallback(problem)
        event = AnswerRejected(
            problem=problem, became_fallback=is_better, usage=answer.usage_metadata
        )
        await self.record(event, fallback_answer=answer if is_better else None)
        # The event now counts the tokens of the answer.
        self.uncounted_response = None
        if problem.tool_call is not None:
            await self.record_proposal(problem.tool_call, answer)

    async def explore(self, tool_call: ToolCall) -> ModelCallResult:
        """Return a message with a call that the search chose, for the agent to make."""
        message_id = f"{EXPLORATORY_ID_PREFIX}{uuid4()}"
        await self.record(CallExplored(tool_call=tool_call, message_id=message_id))
        reasoning = self.state.find_reasoning(tool_call)
        message = build_exploratory_message(message_id, tool_call, reasoning)
        return self.build_result(message)

    async def ask_plainly(self, problem: AnswerProblem) -> ModelCallResult:
        """Repeat the request exactly as the plain agent would send it."""
        await self.record(ModelAsked(purpose="plainly", problem_kind=problem.kind))
        return await self.ask_and_handle(self.conversation, with_report=False)

    async def ask_again(
        self, answer: AIMessage, problem: AnswerProblem
    ) -> ModelCallResult:
        """Ask the model for another response, with a note about the problem."""
        await self.record(ModelAsked(purpose="again", problem_kind=problem.kind))
        messages = build_follow_up(self.conversation, answer, build_note(problem))
        with_report = may_ask_for_report(self.state, self.adapter)
        return await self.ask_and_handle(messages, with_report=with_report)

    async def ask_alternatives(
        self, answer: AIMessage, problem: AnswerProblem
    ) -> ModelCallResult:
        """Ask the model for other calls, and explore the first one that is allowed.

        The response only serves to propose calls. Its text is dropped, so it is hidden
        from the stream.
        """
        messages = build_follow_up(self.conversation, answer, ALTERNATIVES_REQUEST)
        usage = None
        try:
            response = await self.adapter.ask(
                messages, hide_from_stream=True, with_report=False
            )
            usage = response.usage_metadata
        finally:
            # A failed request is recorded, too, because it counts towards the budget.
            await self.record(
                ModelAsked(
                    purpose="alternatives", problem_kind=problem.kind, usage=usage
                )
            )
        for tool_call in response.tool_calls[:MAX_ALTERNATIVES]:
            await self.record_proposal(tool_call, response)

        call_to_explore = find_call_to_explore(problem, self.state, self.adapter)
        if call_to_explore is None:
            return await self.end_with_fallback("nothing_left_to_try")
        return await self.explore(call_to_explore)

    async def end_with_new_answer(self, answer: AIMessage) -> ModelCallResult:
        """End the search and return an answer that is better than the fallback answer.

        Nothing is removed, because the model gave this answer with all messages of the
        conversation before it.
        """
        message = self.describe_search(answer, "answered", missing=None)
        await self.end_search("answered")
        return self.build_result(message)

    async def end_with_fallback(self, reason: StopReason) -> ModelCallResult:
        """End the search and return the fallback answer.

        The messages with tool calls that were added after that answer was given are
        removed from the agent's conversation.

        Raises:
            RuntimeError: No search is open.
        """
        answer = self.state.fallback_answer
        if answer is None:
            msg = "Without an open search, there is no fallback answer"
            raise RuntimeError(msg)
        removed_messages = find_removable_messages(
            self.conversation, self.state.list_abandoned_message_ids()
        )
        message = self.describe_search(
            answer,
            reason,
            missing=self.state.find_missing_information(),
            removed_messages=removed_messages,
        )
        await self.end_search(reason)
        return self.build_result(message, removed_messages)

    async def end_without_answer(
        self, reason: EndReason, response: AIMessage
    ) -> ModelCallResult:
        """End the search and return a response with write or control calls.

        The fallback answer is dropped, because it may no longer be true after these
        calls. No message is removed, because the response may rest on any of them.
        """
        usage = self.add_up_usage()
        # A response that needs no change is returned as the same object.
        if usage != response.usage_metadata:
            response = response.model_copy(update={"usage_metadata": usage})
        await self.end_search(reason)
        return self.build_result(response)

    def describe_search(
        self,
        answer: AIMessage,
        reason: StopReason,
        *,
        missing: str | None,
        removed_messages: Sequence[BaseMessage] = (),
    ) -> AIMessage:
        """Return a copy of the answer with the metadata and tokens of the search.

        Args:
            answer: The answer that ends the search.
            reason: Why the search ends.
            missing: What the model reported as missing in this answer, if anything.
            removed_messages: The messages whose tokens the answer takes over, because
                they are removed from the conversation.
        """
        explored_calls = self.state.list_explored_calls()
        metadata = {
            "stop_reason": reason,
            "model_calls": self.state.count_model_calls(),
            "explored": [format_call(tool_call) for tool_call in explored_calls],
            "missing": missing,
        }
        return answer.model_copy(
            update={
                "response_metadata": answer.response_metadata
                | {METADATA_KEY: metadata},
                "usage_metadata": self.add_up_usage(removed_messages),
            }
        )

    def add_up_usage(
        self, removed_messages: Sequence[BaseMessage] = ()
    ) -> UsageMetadata | None:
        """Return the tokens for the message that ends the search.

        They are the tokens of the message itself, and of all responses of the search
        that are not in the agent's conversation afterwards. So whoever adds up the
        messages of the conversation gets what was paid. Each response is counted in one
        place:

        - by an event, if it was rejected (as the fallback answer was) or was asked to
          propose other calls;
        - as `uncounted_response`, if it is the latest one and was not rejected;
        - as one of `removed_messages`, if the agent has received it before. These
          responses contain tool calls, so they were never rejected.
        """
        responses = [m for m in removed_messages if isinstance(m, AIMessage)]
        if self.uncounted_response is not None:
            responses.append(self.uncounted_response)

        total = None
        for usage in self.state.list_usages():
            total = add_usage(total, usage)
        for response in responses:
            if response.usage_metadata is not None:
                total = add_usage(total, response.usage_metadata)
        return total

    async def record_tool_calls(self, response: AIMessage) -> None:
        """Record the calls of a response that the agent will receive.

        Raises:
            ValueError: The response has no id, by which it could be found later.
        """
        if response.id is None:
            msg = "A response with tool calls must have an id to be recorded"
            raise ValueError(msg)
        await self.record(
            AgentCalledTools(tool_calls=response.tool_calls, message_id=response.id)
        )

    async def record_proposal(self, tool_call: ToolCall, response: AIMessage) -> None:
        """Record a call that may be explored, with the reasoning of its response."""
        reasoning = get_reasoning_blocks(response)
        await self.record(CallProposed(tool_call=tool_call, reasoning=reasoning))

    async def record(
        self, event: Event, fallback_answer: AIMessage | None = None
    ) -> None:
        """Add an event to the state and tell the application about it.

        An answer given as `fallback_answer` replaces the present one.
        """
        self.state.add(event, fallback_answer)
        await self.emit(event)

    async def end_search(self, reason: EndReason) -> None:
        """End the search in the state and tell the application about it."""
        self.state.end_search(reason)
        await self.emit(SearchEnded(reason=reason))

    async def emit(self, event: Event) -> None:
        """Tell the application about an event. Exceptions are only logged."""
        try:
            data = event.model_dump(mode="json", exclude={"type"})
            await self.adapter.emit(event.type, data)
        except Exception:
            logger.warning("The event %s was not delivered", event.type, exc_info=True)

    def build_result(
        self, message: AIMessage, removed_messages: Sequence[BaseMessage] = ()
    ) -> ModelCallResult:
        """Return a message for the agent, with the ids to remove and the new state."""
        removed_ids = [m.id for m in removed_messages if m.id is not None]
        return ModelCallResult(
            message=message,
            removed_ids=[*self.unanswered_ids, *removed_ids],
            state=self.state.dump(),
        )


def ensure_id(response: AIMessage) -> AIMessage:
    """Return the response, or a copy with a new id if it has none."""
    if response.id:
        return response
    return response.model_copy(update={"id": str(uuid4())})


def find_unanswered_ids(conversation: Sequence[BaseMessage]) -> list[str]:
    """Return the ids of the exploratory messages whose call has no result.

    The agent's own messages are not among them, even if their calls have no results,
    because without a search the agent would send them to the model, too.
    """
    unanswered_ids = []
    for tool_round in list_tool_rounds(conversation):
        message_id = tool_round.message.id or ""
        if message_id.startswith(EXPLORATORY_ID_PREFIX) and not tool_round.results:
            unanswered_ids.append(message_id)
    return unanswered_ids


def find_removable_messages(
    conversation: Sequence[BaseMessage], message_ids: Sequence[str]
) -> list[BaseMessage]:
    """Return the messages with tool calls that have these ids, and their results.

    Messages without tool calls are left out, even if they have one of the ids. So is a
    message if it or one of its results has no id, because LangGraph can only remove a
    message by its id. If only a part of them were removed, providers would refuse the
    conversation, with calls that have no results or results that have no call.
    """
    removable: list[BaseMessage] = []
    for tool_round in list_tool_rounds(conversation):
        messages = tool_round.list_messages()
        has_ids = all(message.id is not None for message in messages)
        if has_ids and tool_round.message.id in message_ids:
            removable += messages
    return removable


def find_strongest_effect(tool_calls: Iterable[ToolCall], policy: ToolPolicy) -> Effect:
    """Return `write` if a call is a write, else `control` if one is, else `read`."""
    effects = {policy.effect(tool_call) for tool_call in tool_calls}
    if "write" in effects:
        return "write"
    if "control" in effects:
        return "control"
    return "read"


def get_reasoning_blocks(response: AIMessage) -> list[dict[str, Any]]:
    """Return the reasoning blocks in the content of a response.

    The content may also be a text. It contains no blocks then.
    """
    return [
        block
        for block in response.content
        if isinstance(block, dict) and block.get("type") in REASONING_BLOCK_TYPES
    ]


def build_exploratory_message(
    message_id: str, tool_call: ToolCall, reasoning: list[dict[str, Any]]
) -> AIMessage:
    """Return a message with one tool call, as if the model had made the call.

    The call gets a new id. The reasoning of the response that proposed it becomes the
    content, because some providers only accept a call together with its reasoning.
    """
    # OpenAI allows 40 characters for the id of a call.
    call_id = f"call_{uuid4().hex}"
    return AIMessage(
        id=message_id,
        content=[*reasoning] if reasoning else "",
        tool_calls=[
            ToolCall(name=tool_call["name"], args=tool_call["args"], id=call_id)
        ],
    )


def build_note(problem: AnswerProblem) -> str:
    """Return the text that tells the model about the problem of its answer.

    The explanation of most problems is such a text. For `missing`, it is only what the
    model itself wrote, and needs a sentence around it.
    """
    if problem.kind != "missing":
        return problem.explanation
    return (
        "Your answer is not complete yet. You reported as missing: "
        f"{problem.explanation}\nCall a tool to find it. If that is not possible, "
        "repeat your answer."
    )


def build_follow_up(
    conversation: Sequence[BaseMessage], answer: AIMessage, note: str
) -> list[BaseMessage]:
    """Return the conversation, followed by the text of the answer and a note.

    The answer is sent as a new message with nothing but its text, because invalid tool
    calls or reasoning in it could make the provider refuse it.
    """
    messages = [*conversation]
    if answer.text.strip():
        messages.append(AIMessage(content=str(answer.text)))
    messages.append(HumanMessage(content=note))
    return messages


def format_call(tool_call: ToolCall) -> str:
    """Return a call as text, such as `find_orders({"customer": "Ada"})`."""
    return f"{tool_call['name']}({json.dumps(tool_call['args'], ensure_ascii=False)})"
