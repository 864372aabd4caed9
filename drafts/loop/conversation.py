"""Functions that find tool calls and their results in a conversation.

A *final answer* is a model response without tool calls. A *turn* is the part of a
conversation after its last final answer. A *round* is a model response with tool calls,
together with the results of these calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)


@dataclass
class ToolRound:
    """A message with tool calls, and the results of these calls.

    Attributes:
        message: The model response that contains the calls.
        results: The results, in the order in which they stand in the conversation.
    """

    message: AIMessage
    results: list[ToolMessage] = field(default_factory=list)

    def find_result(self, tool_call: ToolCall) -> ToolMessage | None:
        """Return the result of a call, or None if it has no result."""
        for result in self.results:
            if result.tool_call_id == tool_call["id"]:
                return result
        return None

    def list_calls_with_results(self) -> list[tuple[ToolCall, ToolMessage | None]]:
        """Return the calls, each with its result or None."""
        return [(call, self.find_result(call)) for call in self.message.tool_calls]

    def is_complete(self) -> bool:
        """Return True if every call has a result."""
        return all(
            self.find_result(call) is not None for call in self.message.tool_calls
        )

    def has_error(self) -> bool:
        """Return True if one of the results is an error."""
        return any(result.status == "error" for result in self.results)

    def list_messages(self) -> list[BaseMessage]:
        """Return the message and its results."""
        return [self.message, *self.results]


def list_tool_rounds(messages: Sequence[BaseMessage]) -> list[ToolRound]:
    """Return the messages with tool calls in their order, each with its results.

    A tool message is only a result of the latest model response before it. Its call id
    alone would not tell, because some models number the calls of each response from
    the start.
    """
    rounds: list[ToolRound] = []
    for message in messages:
        if isinstance(message, AIMessage):
            rounds.append(ToolRound(message))
        elif isinstance(message, ToolMessage) and rounds:
            latest = rounds[-1]
            call_ids = [call["id"] for call in latest.message.tool_calls]
            if message.tool_call_id in call_ids:
                latest.results.append(message)
    # Responses without calls were only collected to separate the results around them.
    return [tool_round for tool_round in rounds if tool_round.message.tool_calls]


def find_final_round(conversation: Sequence[BaseMessage]) -> ToolRound | None:
    """Return the tool calls and results with which a conversation ends.

    Other messages, such as the system message of a hook, may follow the results.

    Returns:
        The round, which need not have all of its results, or None if the last message
        of the model or the user is not a message with tool calls.
    """
    last_speaker = None
    for message in conversation:
        if isinstance(message, AIMessage | HumanMessage):
            last_speaker = message
    if not isinstance(last_speaker, AIMessage) or not last_speaker.tool_calls:
        return None
    return list_tool_rounds(conversation)[-1]


def get_current_turn(conversation: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages after the last final answer of the conversation.

    A turn does not begin with the last message of the user, because hooks, tools and
    critics add messages in the user's name while a turn goes on.
    """
    turn: list[BaseMessage] = []
    for message in conversation:
        if isinstance(message, AIMessage) and not message.tool_calls:
            turn = []
        else:
            turn.append(message)
    return turn


def is_same_call(first: ToolCall, second: ToolCall) -> bool:
    """Return True if two calls have the same name and arguments.

    Their ids are not compared, because a call gets a new id each time it is made.
    """
    return first["name"] == second["name"] and first["args"] == second["args"]


def contains_call(tool_calls: Sequence[ToolCall], searched_call: ToolCall) -> bool:
    """Return True if one of the calls has the name and arguments of `searched_call`."""
    return any(is_same_call(call, searched_call) for call in tool_calls)
