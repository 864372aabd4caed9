"""What providers demand of a conversation, and how a planner's one must end."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage


def check_conversation(
    messages: Sequence[BaseMessage], *, pending: str | None = None
) -> list[BaseMessage]:
    """Fail unless OpenAI and Anthropic would accept the conversation and it ends as it should.

    OpenAI wants the answers of a message's tool calls right behind it, each call answered once. Anthropic wants the
    same, unique call ids, and no call whose answer is missing when the next turn begins.

    Args:
        messages: The conversation.
        pending: Name of the tool whose call is expected to stand unanswered at the end; an answer otherwise.

    Returns:
        The messages, for further checks.
    """
    check_pairs(messages, may_end_open=pending is not None)
    last = messages[-1]
    assert isinstance(last, AIMessage)
    if pending is None:
        assert not last.tool_calls
        assert last.text
    else:
        assert [call["name"] for call in last.tool_calls] == [pending]
    return list(messages)


def check_pairs(messages: Sequence[BaseMessage], *, may_end_open: bool = False) -> None:
    """Fail unless every call is answered exactly once, in order, right after the message that makes it."""
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting, f"nobody asked for {message!r}"
            assert message.tool_call_id == waiting.pop(0)
            continue
        assert not waiting, f"{waiting} are unanswered before {message!r}"
        if isinstance(message, AIMessage):
            assert not message.invalid_tool_calls
            waiting = [str(call["id"]) for call in message.tool_calls]
            assert [each for each in waiting if not each] == []
            assert len(set(waiting)) == len(waiting)
            assert not seen & set(waiting), f"{seen & set(waiting)} are used twice"
            seen.update(waiting)
        else:
            assert isinstance(message, HumanMessage)
    assert may_end_open or not waiting, f"{waiting} are never answered"


def outline(messages: Sequence[BaseMessage]) -> list[str]:
    """A conversation as one short word for each message: who speaks, and which tool it is about."""
    words: list[str] = []
    for message in messages:
        if isinstance(message, AIMessage) and message.tool_calls:
            words.append(
                "call " + " ".join(call["name"] for call in message.tool_calls)
            )
        elif isinstance(message, ToolMessage):
            words.append(f"result {message.name}")
        else:
            words.append("answer" if isinstance(message, AIMessage) else message.type)
    return words
