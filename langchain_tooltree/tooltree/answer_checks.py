"""Find final answers that are obviously not usable, without asking a model."""

# ruff: noqa: RUF001 - the typographic quotation marks are meant.

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall

from langchain_tooltree.tooltree.model_json import read_object, read_tool_call
from langchain_tooltree.tooltree.problems import AnswerProblem
from langchain_tooltree.tooltree.thinking import split_thinking

MAX_INTRODUCTION_LENGTH = 300
"""The number of characters that may precede a tool call written as text."""

MAX_IDENTICAL_CALLS = 3
"""The number of identical tool calls in a row that is a problem."""

_FINISH_REASON_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_LENGTH_LIMIT_REASONS = ("length", "max_tokens", "max_output_tokens")

# The types of content blocks that the user does not see, such as `thinking`,
# `tool_use`, `server_tool_result`, `function_call` and `web_search_call`.
_HIDDEN_BLOCK = re.compile(r"reasoning|thinking|tool|(?<!image_generation)_call")

# Brackets, code fences, and tags such as <tool_call> and <|python_tag|>. There are
# only a few before a call: without the limit, the search would take quadratic time.
_CALL_OPENING = re.compile(
    r"(?:\s|\[TOOL_CALLS\]|\[|`{3,9}+\w*+|<[\w|]{1,30}>){0,20}+\Z",
)
_CALL_CLOSING = re.compile(r"(?:\s|\]|`{3,}|</?[\w|]{1,30}>)*+")

# The format of ReAct agents, up to the arguments.
_ACTION = re.compile(
    r"\bAction:\s*`?(?P<name>[\w.-]+)`?\s+Action Input:\s*(?:`{3,}\w*\s*)?(?=\{)",
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_ANNOUNCEMENT = re.compile(
    r"""
    \b(?:I['’]ll|I\ will|I['’]m\ going\ to|I\ am\ going\ to|I['’]m\ about\ to
        |I\ need\ to|I\ have\ to|let\ me|let['’]s|let\ us)
    \ (?!know\b)(?:\w+\ ){0,3}?
    (?:call|use|run|invoke|try|query|execute|check|consult)\b
    |^\W*(?:(?:now|first|next),?\ )?(?:calling|invoking)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CONDITION_WORD = re.compile(r"\b(?:if|once|when|unless|but)\b|\?", re.IGNORECASE)


def find_problem(
    response: AIMessage,
    tool_names: Collection[str],
    current_turn: Sequence[BaseMessage],
) -> AnswerProblem | None:
    """Return the first problem of a model response.

    A response with tool calls is only checked for repeated calls, and a final answer
    for everything else.

    Example:
        ```python
        problem = find_problem(AIMessage(""), ["find_orders"], current_turn=[])
        assert problem is not None
        assert problem.kind == "empty"
        ```

    Args:
        response: The response of the model.
        tool_names: The names of the tools that the model was offered.
        current_turn: The messages of the current turn before the response.

    Returns:
        The problem, or None if the response has none.
    """
    if response.tool_calls:
        return _find_repeated_call(response, current_turn)
    return _find_problem_of_answer(response, tool_names, current_turn)


def _find_problem_of_answer(
    response: AIMessage,
    tool_names: Collection[str],
    current_turn: Sequence[BaseMessage],
) -> AnswerProblem | None:
    """Return the first problem that the form or the text of a final answer shows."""
    if _is_truncated(response):
        return AnswerProblem(
            "truncated",
            "Your reply was cut off because it was too long. Answer more briefly.",
        )

    if response.invalid_tool_calls:
        names = ", ".join(call["name"] or "?" for call in response.invalid_tool_calls)
        return AnswerProblem(
            "invalid_tool_call",
            f"Your tool call could not be read ({names}). Call the tool again, with "
            "arguments that are valid JSON.",
        )

    if not has_visible_content(response):
        return AnswerProblem(
            "empty",
            "Your reply was empty. Call a tool, or answer the question.",
        )

    _, text = split_thinking(response.text)
    tool_call = _find_tool_call_in_text(text, tool_names)
    if tool_call is not None:
        return AnswerProblem(
            "tool_call_as_text",
            f"You wrote the call of {tool_call['name']} as text, so the tool did not "
            "run. Call the tool itself, or answer the question.",
            tool_call,
        )

    called_names = {call["name"] for call in _list_tool_calls(current_turn)}
    name = _find_announced_tool(text, set(tool_names) - called_names)
    if name is not None:
        return AnswerProblem(
            "announced_tool_call",
            f"You said that you would call {name}, but you did not call it. Call it "
            "now, or answer the question without it.",
        )
    return None


def _is_truncated(response: AIMessage) -> bool:
    """Return True if the provider cut the output off at its length limit."""
    metadata = response.response_metadata
    reasons = [metadata.get(key) for key in _FINISH_REASON_KEYS]
    # OpenAI's Responses API has the reason in an object of its own.
    incomplete_details = metadata.get("incomplete_details")
    if isinstance(incomplete_details, Mapping):
        reasons.append(incomplete_details.get("reason"))
    return any(str(reason).lower() in _LENGTH_LIMIT_REASONS for reason in reasons)


def has_visible_content(response: AIMessage) -> bool:
    """Return True if the user sees anything of a response, such as text or an image."""
    # OpenAI's audio models return their answer beside the content.
    if "audio" in response.additional_kwargs:
        return True
    if isinstance(response.content, str):
        return _is_visible(response.content)
    return any(_is_visible(block) for block in response.content)


def _is_visible(block: str | dict[Any, Any]) -> bool:
    """Return True if a content block is visible to the user.

    A block of an unknown type is visible: its content must not be thrown away.
    """
    if isinstance(block, str):
        _, text = split_thinking(block)
        return bool(text)
    block_type = str(block.get("type"))
    if block_type == "text":
        return _is_visible(str(block.get("text") or ""))
    return _HIDDEN_BLOCK.search(block_type) is None


def _find_tool_call_in_text(text: str, tool_names: Collection[str]) -> ToolCall | None:
    """Return the tool call that a model has written as text.

    The text must be nothing but the call, after a short introduction at most. It must
    name one of the model's tools, because the JSON of other answers can have the keys
    of a tool call, too.
    """
    # Most answers name no tool, so their JSON need not be read.
    if not any(name in text for name in tool_names):
        return None
    tool_call = _read_action(text) or _read_json_call(text)
    if tool_call is None or tool_call["name"] not in tool_names:
        return None
    return tool_call


def _read_action(text: str) -> ToolCall | None:
    """Return the tool call of a text in the format of ReAct agents.

    An example is `Action: find_orders Action Input: {"id": 7}`.
    """
    action = _ACTION.search(text)
    if action is None or action.start() > MAX_INTRODUCTION_LENGTH:
        return None
    arguments = read_object(text, action.end())
    if not _CALL_CLOSING.fullmatch(text, arguments.end):
        return None
    return read_tool_call({"name": action["name"], "args": arguments.value})


def _read_json_call(text: str) -> ToolCall | None:
    """Return the tool call of a text in one of the JSON formats.

    An example is `<tool_call>{"name": "find_orders", "args": {"id": 7}}</tool_call>`.
    """
    text_before_call, _, _ = text.partition("{")
    introduction = _CALL_OPENING.sub("", text_before_call)
    if len(introduction) > MAX_INTRODUCTION_LENGTH:
        return None
    json_object = read_object(text, len(text_before_call))
    if not _CALL_CLOSING.fullmatch(text, json_object.end):
        return None
    return read_tool_call(json_object.value)


def _find_announced_tool(text: str, tool_names: Iterable[str]) -> str | None:
    """Return the name of a tool that a text announces to call.

    An offer to the user ("If you like, I'll call find_orders") is no announcement.
    """
    names = sorted(name for name in tool_names if name in text)
    if not names:
        return None
    for sentence in _SENTENCE_END.split(text):
        announcement = _ANNOUNCEMENT.search(sentence)
        if announcement is None or _CONDITION_WORD.search(sentence):
            continue
        for name in names:
            if _is_tool_named(name, sentence[announcement.end() :]):
                return name
    return None


def _is_tool_named(name: str, text: str) -> bool:
    """Return True if a text names a tool, and does not use its name as a word.

    A name without an underscore, such as `search`, must stand in backticks or
    quotation marks.
    """
    pattern = re.escape(name)
    if "_" in name:
        pattern = rf"(?<!\w){pattern}(?!\w)"
    else:
        pattern = rf"[`'\"“‘]{pattern}(?:\(\))?[`'\"”’]"
    return re.search(pattern, text) is not None


def _find_repeated_call(
    response: AIMessage,
    current_turn: Sequence[BaseMessage],
) -> AnswerProblem | None:
    """Return the problem that the latest tool calls of a turn are all the same."""
    recent_calls = _list_tool_calls([*current_turn, response])[-MAX_IDENTICAL_CALLS:]
    if len(recent_calls) < MAX_IDENTICAL_CALLS:
        return None

    first_call = recent_calls[0]
    for call in recent_calls:
        # The id is different each time.
        if (call["name"], call["args"]) != (first_call["name"], first_call["args"]):
            return None
    return AnswerProblem(
        "repeated_call",
        f"You have called {first_call['name']} {MAX_IDENTICAL_CALLS} times in a row "
        "with the same arguments. Use its result, or do something else.",
    )


def _list_tool_calls(messages: Iterable[BaseMessage]) -> list[ToolCall]:
    """Return the tool calls of all model responses, in their order."""
    tool_calls: list[ToolCall] = []
    for message in messages:
        if isinstance(message, AIMessage):
            tool_calls.extend(message.tool_calls)
    return tool_calls
