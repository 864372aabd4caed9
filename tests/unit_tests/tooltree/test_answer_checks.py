"""Tests of the checks of a final answer."""

# ruff: noqa: RUF001 - the typographic quotation marks are meant.

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tooltree.tooltree.answer_checks import (
    MAX_INTRODUCTION_LENGTH,
    find_problem,
)

TOOL_NAMES = ["find_orders", "search", "get-weather"]

CALL = {"name": "find_orders", "args": {"id": 7}, "id": None, "type": "tool_call"}


def find_kind(response, current_turn=()):
    if isinstance(response, str):
        response = AIMessage(response)
    problem = find_problem(response, TOOL_NAMES, current_turn)
    return problem and problem.kind


def call_tool(name="find_orders", *, call_id="1", **args):
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"incomplete_details": {"reason": "max_output_tokens"}},
        {"done_reason": "length"},
        {"finish_reason": "MAX_TOKENS"},
        {"stopReason": "max_tokens"},
    ],
)
def test_truncated(metadata):
    assert find_kind(AIMessage("The", response_metadata=metadata)) == "truncated"
    assert find_kind(AIMessage("", response_metadata=metadata)) == "truncated"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "stop"},
        {"stop_reason": "end_turn"},
        {"incomplete_details": None},
        {"incomplete_details": {"reason": "content_filter"}},
        {"finish_reason": None},
        {"finish_reason": ["length"]},
    ],
)
def test_complete_output_is_not_truncated(metadata):
    assert find_kind(AIMessage("Yes.", response_metadata=metadata)) is None


@pytest.mark.parametrize("name", ["find_orders", None])
def test_invalid_tool_call(name):
    invalid_call = {"name": name, "args": "{", "id": "1", "error": "no JSON"}
    response = AIMessage("", invalid_tool_calls=[invalid_call])
    assert find_kind(response) == "invalid_tool_call"


@pytest.mark.parametrize(
    "content",
    [
        "",
        " \n",
        [],
        [""],
        [{"type": "text", "text": " "}],
        [{"type": "reasoning", "reasoning": "Hm."}],
        [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": ""}],
        [{"type": "redacted_thinking", "data": "x"}],
        [{"type": "tool_use", "id": "1", "name": "a", "input": {}}],
        [{"type": "web_search_call", "id": "1"}],
        [{"type": "server_tool_result", "tool_call_id": "1"}],
        "<think>Hm.</think>\n",
        "<think>Hm.",
    ],
)
def test_empty(content):
    assert find_kind(AIMessage(content)) == "empty"


@pytest.mark.parametrize(
    "content",
    [
        "Yes.",
        "<think>Hm.</think>Yes.",
        ["Yes."],
        [{"type": "text", "text": "Yes."}],
        [{"type": "image", "url": "https://example.com/a.png"}],
        [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        [{"type": "image_generation_call", "result": "x"}],
        [{"type": "refusal", "refusal": "No."}],
        [{"type": "something_new"}],
    ],
)
def test_visible_content_is_not_empty(content):
    assert find_kind(AIMessage(content)) is None


def test_audio_is_not_empty():
    assert find_kind(AIMessage("", additional_kwargs={"audio": {"id": "1"}})) is None


CALL_TEXTS = [
    '{"name": "find_orders", "arguments": {"id": 7}}',
    '{"name": "find_orders", "parameters": {"id": 7}}',
    '{"name": "find_orders", "args": {"id": 7}}',
    '{"name": "find_orders", "input": {"id": 7}}',
    '{"tool": "find_orders", "args": {"id": 7}}',
    '{"action": "find_orders", "action_input": {"id": 7}}',
    '{"function": "find_orders", "arguments": {"id": 7}}',
    '{"function": {"name": "find_orders", "arguments": {"id": 7}}}',
    '{"function": {"name": "find_orders", "arguments": "{\\"id\\": 7}"}}',
    "{'name': 'find_orders', 'arguments': {'id': 7,}}",
    '{\n  "name": "find_orders",\n  "arguments": {\n    "id": 7\n  }\n}',
    '```json\n{"name": "find_orders", "arguments": {"id": 7}}\n```',
    '```\n{"name": "find_orders", "arguments": {"id": 7}}\n```',
    '<tool_call>\n{"name": "find_orders", "arguments": {"id": 7}}\n</tool_call>',
    '<tool_call>{"name": "find_orders", "arguments": {"id": 7}}',
    '<tool_call>{"name": "find_orders", "arguments": {"id": 7}}</tool_call><|im_end|>',
    '<|python_tag|>{"name": "find_orders", "parameters": {"id": 7}}',
    '[{"name": "find_orders", "arguments": {"id": 7}}]',
    '[TOOL_CALLS] [{"name": "find_orders", "arguments": {"id": 7}}]',
    'Action: find_orders\nAction Input: {"id": 7}',
    'Thought: I look it up.\nAction: `find_orders`\nAction Input:\n{"id": 7}',
    'Action: find_orders\nAction Input: ```json\n{"id": 7}\n```',
    'Let me look.\n\n```json\n{"name": "find_orders", "arguments": {"id": 7}}\n```',
    '<think>Hm.</think>\n{"name": "find_orders", "arguments": {"id": 7}}',
    'Thought: {7} is open.\nAction: find_orders\nAction Input: {"id": 7}',
    "x" * MAX_INTRODUCTION_LENGTH
    + '\n```json\n{"name": "find_orders", "arguments": {"id": 7}}\n```',
]


@pytest.mark.parametrize("text", CALL_TEXTS)
def test_tool_call_as_text(text):
    problem = find_problem(AIMessage(text), TOOL_NAMES, [])
    assert problem is not None
    assert problem.kind == "tool_call_as_text"
    assert problem.tool_call == CALL


def test_arguments_are_read_exactly():
    args = {
        "query": "name = 'x' \"y\" {z}\n\\",
        "limit": 2.5,
        "all": True,
        "none": None,
    }
    text = json.dumps({"name": "search", "arguments": args})
    problem = find_problem(AIMessage(text), TOOL_NAMES, [])
    assert problem is not None
    assert problem.tool_call is not None
    assert problem.tool_call["args"] == args


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(), JSON_VALUES, max_size=4),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_valid_json_is_read_exactly(args, ensure_ascii, indent):
    text = json.dumps(
        {"name": "search", "args": args},
        ensure_ascii=ensure_ascii,
        indent=indent,
    )
    problem = find_problem(AIMessage(text), TOOL_NAMES, [])
    assert problem is not None
    assert problem.tool_call is not None
    assert problem.tool_call["args"] == args


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "input": {"age": 7}}',
        '{"name": "find_orders"}',
        '{"name": "find_orders", "arguments": 7}',
        '{"name": ["find_orders"], "arguments": {}}',
        '{"name": "find_orders", "arguments": {"id": 7}} returned order 7.',
        '[{"name": "find_orders", "args": {}}, {"name": "search", "args": {}}]',
        "x" * (MAX_INTRODUCTION_LENGTH + 1)
        + '{"name": "find_orders", "arguments": {"id": 7}}',
        "x" * 1000 + '{"name": "find_orders", "arguments": {"id": 7}}',
        'Action: find_orders\nAction Input: {"id": 7}\nObservation: open\nIt is open.',
        'Action: delete_orders\nAction Input: {"id": 7}',
        '{"orders": [{"id": 7}]}',
        '{"name": "find_orders", "arguments": {',
        '{"function": {}}',
        '{"function": ' * 900 + '"find_orders"' + "}" * 900,
        "{",
    ],
)
def test_other_text_is_no_tool_call(text):
    assert find_kind(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "I'll use `find_orders` to look that up.",
        "I’ll now call the find_orders tool.",
        "Let me call find_orders",
        "Let me call find_orders.",
        "I will use the `search` tool.",
        'I am going to run "search" for that.',
        "I'm about to query `search()`.",
        "I need to call `get-weather` first.",
        "Sure! Let's check find_orders.",
        "Of course.\n\nCalling find_orders...",
        "Now calling `find_orders`",
        "**Next, calling find_orders**",
    ],
)
def test_announced_tool_call(text):
    assert find_kind(text) == "announced_tool_call"


@pytest.mark.parametrize(
    "text",
    [
        "I'll use search to find it.",
        "I'll search for it.",
        "I'll call you tomorrow.",
        "I used `find_orders` and found order 7.",
        "If you like, I'll use `find_orders`.",
        "I'll use `find_orders` once you send me the number.",
        "Shall I use `find_orders`? Let me know.",
        "Let me know if I should use `find_orders`.",
        "I need to call `find_orders`, but the number is missing.",
        "You can call `find_orders` yourself.",
        "I'll use `find_orders_by_name`.",
        "Let me call delete_orders.",
        "The tool `find_orders` exists. Let me call you.",
    ],
)
def test_other_text_announces_nothing(text):
    assert find_kind(text) is None


def test_announced_tool_that_was_called_is_no_problem():
    turn = [call_tool(id=7), ToolMessage("open", tool_call_id="1")]
    assert find_kind("Let me call find_orders. It is open.", turn) is None
    assert find_kind("Let me call `search`.", turn) == "announced_tool_call"


def build_turn(*calls):
    turn = [HumanMessage("Is order 7 open?")]
    for call in calls:
        turn += [call, ToolMessage("no result", tool_call_id="1")]
    return turn


def test_repeated_call():
    turn = build_turn(call_tool(id=7), call_tool(id=7, call_id="2"), call_tool(id=7))
    assert find_kind(call_tool(id=7), turn) == "repeated_call"
    assert find_kind(call_tool(id=7), turn[:-2]) == "repeated_call"
    assert find_kind(call_tool(id=8), turn) is None
    assert find_kind(call_tool("search", id=7), turn) is None


def test_other_calls_are_not_repeated():
    turn = build_turn(call_tool(id=7))
    assert find_kind(call_tool(id=7), turn) is None
    turn = build_turn(call_tool(id=7), call_tool(id=8), call_tool(id=7))
    assert find_kind(call_tool(id=7), turn) is None


def test_final_answer_after_repeated_calls_is_no_problem():
    turn = build_turn(call_tool(id=7), call_tool(id=7), call_tool(id=7))
    assert find_kind("It is open.", turn) is None


def test_first_kind_wins():
    invalid_call = {"name": "search", "args": "{", "id": "1", "error": "no JSON"}
    response = AIMessage("", invalid_tool_calls=[invalid_call])
    assert find_kind(response) == "invalid_tool_call"
    response.response_metadata["finish_reason"] = "length"
    assert find_kind(response) == "truncated"


def test_response_with_tool_calls_is_not_checked_for_its_form():
    response = call_tool(id=7)
    response.response_metadata["finish_reason"] = "length"
    assert find_kind(response) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "find_orders ",
            "Let me find_orders ",
            "I'll use find_orders. ",
            "{",
            '{"a":',
        ),
        *(
            '{"name": "find_orders", ',
            "<think>",
            "`",
            "```a",
            "<a",
            "<a>",
            "let me " * 3,
            " ",
            "\n",
        ),
        *('{"find_orders"} ', "{}" + "]" * 50, "Action: find_orders ", ". "),
    ],
)
def test_time_is_linear(unit):
    text = "find_orders {" + unit * (400_000 // len(unit))
    started = time.process_time()
    find_kind(text)
    find_kind(text[13:])
    find_kind(text[13:] + text[:13])
    assert time.process_time() - started < 12
