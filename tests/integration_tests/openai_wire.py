"""OpenAI's two interfaces, chat completions and responses: what their requests say, and how their replies are written.

Strict where OpenAI is: a request whose conversation it would not accept is a `BadRequestError` here, too.
"""

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from conversations import check_pairs
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BadRequestError(Exception):
    """A request that OpenAI answers with status 400."""


@dataclass(frozen=True)
class ChatRequest:
    """What a request asks for, whichever interface it came by.

    Attributes:
        messages: The conversation.
        tools: The tools, in the form of chat completions.
        schema: The JSON schema that the reply must have, if any.
        streaming: Whether the reply is to be streamed.
        usage: Whether a streamed reply is to tell the tokens used.
    """

    messages: list[BaseMessage]
    tools: list[dict[str, Any]] = field(default_factory=list)
    schema: Mapping[str, Any] | None = None
    streaming: bool = False
    usage: bool = True


@dataclass(frozen=True)
class WrittenCall:
    """A tool call as a model writes it: its arguments are text, and need not be valid."""

    name: str
    arguments: str
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex[:24]}")


@dataclass(frozen=True)
class Reply:
    """What a model says.

    Attributes:
        text: The text, empty if there is none.
        calls: The tool calls.
        reasoned: Whether it is preceded by reasoning that its model wants back; by responses only.
        input_tokens: Tokens read.
        output_tokens: Tokens written.
    """

    text: str = ""
    calls: tuple[WrittenCall, ...] = ()
    reasoned: bool = False
    input_tokens: int = 0
    output_tokens: int = 0

    @classmethod
    def of(cls, message: AIMessage) -> "Reply":
        """The reply that a LangChain message stands for."""
        calls = tuple(
            WrittenCall(call["name"], json.dumps(call["args"]))
            for call in message.tool_calls
        )
        usage = message.usage_metadata
        assert usage is not None
        tokens = {name: usage[name] for name in ("input_tokens", "output_tokens")}
        return cls(message.text, calls, **tokens)

    def words(self) -> Iterator[str]:
        """The text in pieces, as it is streamed."""
        yield from re.findall(r"\s*\S+\s*$|\s*\S+", self.text)


# --- chat completions ---


def read_chat(body: Mapping[str, Any]) -> ChatRequest:
    """Understand a request to chat completions."""
    form = body.get("response_format") or {}
    return ChatRequest(
        messages=_checked(convert_to_messages(body["messages"])),
        tools=_checked_tools(body.get("tools") or []),
        schema=form["json_schema"]["schema"]
        if form.get("type") == "json_schema"
        else None,
        streaming=bool(body.get("stream")),
        usage=bool((body.get("stream_options") or {}).get("include_usage")),
    )


def write_chat(reply: Reply, model: str) -> dict[str, Any]:
    """A reply of chat completions."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": None,
    }
    if reply.calls:
        message["tool_calls"] = [_chat_call(call) for call in reply.calls]
    return {
        **_chat_head("chat.completion", model),
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _finish(reply),
            }
        ],
        "usage": _chat_usage(reply),
    }


def stream_chat(reply: Reply, model: str, *, usage: bool) -> Iterator[str]:
    """A reply of chat completions as server-sent events."""
    head = _chat_head("chat.completion.chunk", model)

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice], "usage": None})

    yield chunk({"role": "assistant", "content": "" if reply.text else None})
    for word in reply.words():
        yield chunk({"content": word})
    for position, call in enumerate(reply.calls):
        whole = _chat_call(call)
        yield chunk(
            {
                "tool_calls": [
                    {
                        "index": position,
                        **whole,
                        "function": {"name": call.name, "arguments": ""},
                    }
                ]
            }
        )
        for piece in _halves(call.arguments):
            yield chunk(
                {"tool_calls": [{"index": position, "function": {"arguments": piece}}]}
            )
    yield chunk({}, _finish(reply))
    if usage:
        yield _event({**head, "choices": [], "usage": _chat_usage(reply)})
    yield "data: [DONE]\n\n"


def _chat_head(kind: str, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": 1_700_000_000,
        "model": model,
    }


def _chat_call(call: WrittenCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _chat_usage(reply: Reply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


# --- responses ---


def read_responses(body: Mapping[str, Any]) -> ChatRequest:
    """Understand a request to responses."""
    form = (body.get("text") or {}).get("format") or {}
    named = ("name", "description", "parameters")
    tools = [
        {
            "type": "function",
            "function": {key: tool[key] for key in named if key in tool},
        }
        for tool in body.get("tools") or []
    ]
    return ChatRequest(
        messages=_checked(convert_to_messages(_messages_of(body["input"]))),
        tools=_checked_tools(tools),
        schema=form["schema"] if form.get("type") == "json_schema" else None,
        streaming=bool(body.get("stream")),
    )


def _messages_of(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Input items as messages of chat completions; calls in a row belong to the message before them."""
    messages: list[dict[str, Any]] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                content = item["content"]
                text = (
                    content
                    if isinstance(content, str)
                    else "".join(part.get("text", "") for part in content)
                )
                messages.append({"role": item["role"], "content": text})
            case "function_call":
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": ""})
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "type": "function", "function": function}
                messages[-1].setdefault("tool_calls", []).append(call)
            case "function_call_output":
                messages.append(
                    {
                        "role": "tool",
                        "tool_call_id": item["call_id"],
                        "content": item["output"],
                    }
                )
            case "reasoning":
                pass
            case other:
                msg = f"Invalid value: '{other}'."
                raise BadRequestError(msg)
    return messages


def check_reasoning(
    items: Sequence[Mapping[str, Any]], needed: Mapping[str, str]
) -> None:
    """Fail unless reasoning and what it led to come back together.

    Args:
        items: The items of a request.
        needed: From the id of each item that was given out to that of the reasoning right before it.

    Raises:
        BadRequestError: If one is there without the other.
    """
    for before, item in pairwise([{}, *items, {}]):
        if item.get("id") in needed and before.get("id") not in {
            needed[item["id"]],
            *needed,
        }:
            msg = f"Item {item['id']} was provided without its required reasoning item {needed[item['id']]}."
            raise BadRequestError(msg)
        if (
            before.get("type") == "reasoning"
            and needed.get(item.get("id", "")) != before["id"]
        ):
            msg = f"Item {before['id']} of type 'reasoning' was provided without its required following item."
            raise BadRequestError(msg)


def write_responses(
    reply: Reply, items: list[dict[str, Any]], model: str
) -> dict[str, Any]:
    """A reply of responses."""
    return _response(reply, model, f"resp_{uuid.uuid4().hex}", items)


def stream_responses(
    reply: Reply, items: list[dict[str, Any]], model: str
) -> Iterator[str]:
    """A reply of responses as server-sent events."""
    identifier = f"resp_{uuid.uuid4().hex}"
    numbers = iter(range(10_000))

    def event(kind: str, **data: Any) -> str:
        return _event({"type": kind, "sequence_number": next(numbers), **data}, kind)

    yield event(
        "response.created",
        response={**_response(reply, model, identifier, []), "status": "in_progress"},
    )
    for position, item in enumerate(items):
        at = {"output_index": position, "item_id": item["id"]}
        emptied: dict[str, dict[str, Any]] = {
            "function_call": {"arguments": ""},
            "message": {"content": []},
        }
        begun = {**item, "status": "in_progress", **emptied.get(item["type"], {})}
        yield event("response.output_item.added", output_index=position, item=begun)
        if item["type"] == "reasoning":
            pass
        elif item["type"] == "function_call":
            for piece in _halves(item["arguments"]):
                yield event("response.function_call_arguments.delta", **at, delta=piece)
            yield event(
                "response.function_call_arguments.done",
                **at,
                name=item["name"],
                arguments=item["arguments"],
            )
        else:
            for word in reply.words():
                yield event(
                    "response.output_text.delta",
                    **at,
                    content_index=0,
                    delta=word,
                    logprobs=[],
                )
            yield event(
                "response.output_text.done",
                **at,
                content_index=0,
                text=reply.text,
                logprobs=[],
            )
        yield event("response.output_item.done", output_index=position, item=item)
    yield event(
        "response.completed", response=_response(reply, model, identifier, items)
    )


def _response(
    reply: Reply, model: str, identifier: str, items: list[dict[str, Any]]
) -> dict[str, Any]:
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    return {
        "id": identifier,
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": items,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def items_of(reply: Reply) -> list[dict[str, Any]]:
    """The output items of a reply."""
    items: list[dict[str, Any]] = []
    if reply.reasoned:
        items.append(
            {"id": f"rs_{uuid.uuid4().hex}", "type": "reasoning", "summary": []}
        )
    if reply.text:
        part = {
            "type": "output_text",
            "text": reply.text,
            "annotations": [],
            "logprobs": [],
        }
        message = {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        items.append({"id": f"msg_{uuid.uuid4().hex}", **message})
    for call in reply.calls:
        written = {
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        items.append(
            {"id": f"fc_{uuid.uuid4().hex}", "type": "function_call", **written}
        )
    return items


# --- both ---


def _event(data: Mapping[str, Any], kind: str | None = None) -> str:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _checked(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Messages that OpenAI would accept.

    Raises:
        BadRequestError: If it would not.
    """
    try:
        check_pairs(
            [message for message in messages if not isinstance(message, SystemMessage)]
        )
    except AssertionError as error:
        raise BadRequestError(str(error)) from error
    ids = [
        str(call["id"])
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]
    ids += [
        message.tool_call_id for message in messages if isinstance(message, ToolMessage)
    ]
    if bad := [identifier for identifier in ids if not CALL_ID.fullmatch(identifier)]:
        msg = f"Invalid tool call id: {bad}"
        raise BadRequestError(msg)
    return messages


def _checked_tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for tool in tools:
        function = tool["function"]
        if (
            not NAME.fullmatch(function["name"])
            or function["parameters"]["type"] != "object"
        ):
            msg = f"Invalid tool: {function}"
            raise BadRequestError(msg)
    return tools
