"""Nothing is lost between LangChain messages and the OpenAI chat format, in either direction."""

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.messages.chat_format import from_chat_message, to_chat_message

texts = st.text(max_size=20)
names = st.text(string.ascii_letters + "_", min_size=1, max_size=8)
ids = st.none() | names
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=3)
blocks = st.one_of(
    texts,
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
    st.just({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}),
)
contents = texts | st.lists(blocks, max_size=3)
usages = st.none() | st.just({"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})
calls = st.fixed_dictionaries(
    {"name": names, "args": objects, "id": ids, "type": st.just("tool_call")}
)
invalid_calls = st.fixed_dictionaries(
    {
        "name": ids,
        "args": st.none() | texts,
        "id": ids,
        "error": st.none() | texts,
        "type": st.just("invalid_tool_call"),
    }
)
common = {
    "content": contents,
    "id": ids,
    "name": ids,
    "additional_kwargs": objects,
    "response_metadata": objects,
}
messages = st.one_of(
    st.builds(HumanMessage, **common),
    st.builds(SystemMessage, **common),
    st.builds(
        AIMessage,
        **common,
        tool_calls=st.lists(calls, max_size=3),
        invalid_tool_calls=st.lists(invalid_calls, max_size=2),
        usage_metadata=usages,
    ),
    st.builds(
        ToolMessage,
        **common,
        tool_call_id=names,
        status=st.sampled_from(["success", "error"]),
        artifact=values,
    ),
    st.builds(ChatMessage, **common, role=names.map(lambda name: f"x {name}")),
)


@pytest.mark.slow
@settings(deadline=None)
@given(messages)
def test_a_message_survives_the_chat_format_and_json(message):
    assert (
        from_chat_message(json.loads(json.dumps(to_chat_message(message)))) == message
    )


@pytest.mark.slow
@settings(deadline=None)
@given(messages)
def test_what_the_chat_format_says_is_said_again(message):
    said = to_chat_message(message)
    assert to_chat_message(from_chat_message(said)) == said


entries = st.builds(
    lambda call_id, name, arguments: {
        "id": call_id,
        "type": "function",
        "function": {
            "name": name,
            "arguments": json.dumps(arguments, ensure_ascii=False),
        },
    },
    names,
    names,
    objects,
)
unknown = st.dictionaries(names.map(lambda name: f"x_{name}"), values, max_size=2)
chat = st.one_of(
    st.builds(
        lambda role, content, more: {"role": role, "content": content, **more},
        st.sampled_from(["user", "system", "critic"]),
        contents,
        unknown,
    ),
    st.builds(
        lambda content, calls, more: {
            "role": "assistant",
            "content": content,
            "tool_calls": calls,
            **more,
        },
        contents,
        st.lists(entries, min_size=1, max_size=3),
        unknown,
    ),
    st.builds(
        lambda content, call_id, more: {
            "role": "tool",
            "content": content,
            "tool_call_id": call_id,
            **more,
        },
        contents,
        names,
        unknown,
    ),
)


def test_chunks_are_messages():
    assert to_chat_message(AIMessageChunk("Hello")) == {
        "role": "assistant",
        "content": "Hello",
    }


def test_arguments_that_are_no_json_become_an_invalid_call():
    entry = {
        "id": "1",
        "type": "function",
        "function": {"name": "look", "arguments": "{place"},
    }
    message = from_chat_message(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [entry, "look", {"id": "2"}],
        }
    )

    assert message.tool_calls == []
    assert [(call["name"], call["args"]) for call in message.invalid_tool_calls] == [
        ("look", "{place"),
        (None, '{"id": "2"}'),
    ]


@pytest.mark.parametrize(
    "said",
    [{}, {"role": None}, {"role": 3}, {"role": None, "langchain": {"type": "chat"}}],
)
def test_a_message_needs_a_role(said):
    with pytest.raises(TrajectoryFormatError, match="A message needs a role"):
        from_chat_message({**said, "content": "Hello"})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"role": "developer", "content": "Be kind."}, SystemMessage("Be kind.")),
        ({"role": "user", "content": None}, HumanMessage("")),
        ({"role": "user"}, HumanMessage("")),
        ({"role": "user", "content": [], "langchain": "?"}, HumanMessage([])),
        (
            {"role": "function", "content": "A"},
            ChatMessage(content="A", role="function"),
        ),
        ({"role": "tool", "content": "A"}, ToolMessage("A", tool_call_id="")),
    ],
)
def test_strange_messages_are_read(said, message):
    assert from_chat_message(said) == message
