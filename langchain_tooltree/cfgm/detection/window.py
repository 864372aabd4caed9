"""The window: the latest calls of a conversation with their observations, read from the end and as far as needed."""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tooltree.cfgm.course import as_message, is_request
from langchain_tooltree.experience.records import Outcome, Step, text_of
from langchain_tooltree.experience.reference import without_reference

MOST_MESSAGES = 400
"""Messages from the end that are read for one check."""

HORIZON = 1_000
"""Messages from the end in which a tool may have been used before it was gone."""


def latest_steps(messages: Sequence[Any]) -> Iterator[list[Step]]:
    """The calls since the user last said something, those of one message together, latest message first.

    Args:
        messages: The conversation: LangChain messages, or what `convert_to_messages` takes.

    Yields:
        The answered calls of one message in the order of their observations; an observation whose call is not in
        the conversation counts as a call without arguments. Nothing if the last message is no observation.
    """
    observations: list[ToolMessage] = []
    turn = 0
    for place in range(len(messages) - 1, max(-1, len(messages) - 1 - MOST_MESSAGES), -1):
        message = as_message(messages[place])
        match message:
            case ToolMessage():
                observations.append(message)
            case AIMessage():
                if observations:
                    yield _steps(message, observations[::-1], turn)
                    turn -= 1
                    observations = []
                elif turn == 0:
                    return  # the assistant has the last word
            case HumanMessage():
                if is_request(message):
                    break
            case _ if turn == 0 and not observations:
                return
    if observations:
        yield _steps(None, observations[::-1], turn)


def worked_before(messages: Sequence[Any], tool: str) -> bool:
    """Whether a tool has brought something earlier in a conversation.

    Args:
        messages: The conversation.
        tool: Name of the tool.

    Returns:
        Whether one of the latest `HORIZON` messages is an observation of it, not of its latest call, and no error.
    """
    fine: set[str] = set()
    refusal = f"error: {tool} is not a valid tool".lower()
    earlier = False
    for place in range(len(messages) - 1, max(-1, len(messages) - 1 - HORIZON), -1):
        message = as_message(messages[place])
        if isinstance(message, AIMessage):
            earlier = True
            if any(call["name"] == tool and call["id"] in fine for call in message.tool_calls):
                return True
        elif earlier and isinstance(message, ToolMessage) and message.status != "error":
            refused = text_of(message.content)[: len(refusal)].lower() == refusal
            fine |= set() if refused else {message.tool_call_id}
    return False


def _steps(caller: AIMessage | None, observations: Sequence[ToolMessage], turn: int) -> list[Step]:
    calls = {call["id"]: call for call in caller.tool_calls} if caller is not None else {}
    found = []
    for message in observations:
        call = calls.get(message.tool_call_id)
        outcome = Outcome(without_reference(message.content), message.status)
        tool = call["name"] if call else message.name or ""
        found.append(Step(tool, call["args"] if call else None, outcome, message.tool_call_id or None, turn))
    return found
