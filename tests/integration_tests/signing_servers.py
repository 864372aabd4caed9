"""Anthropic's and Gemini's interfaces on a loopback port: replies from a script, preceded by reasoning that is signed.

Strict where the providers are: a request whose conversation they would not accept is refused with status 400, too.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openai_server import host, streamed
from openai_wire import BadRequestError, Reply, WrittenCall
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

SKIPPED = "skip_thought_signature_validator"
"""What Gemini takes in the place of a signature for a call that it did not make."""


class _Server:
    def __init__(self, replies: Sequence[Reply | Response]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.rejected: list[str] = []
        self._replies = iter(replies)
        self._signatures: dict[str, str] = {}
        self.url = host().mount(self.serve)

    async def serve(self, request: Request) -> Response:
        """Check a request, and give the next reply of the script."""
        body = await request.json()
        self.requests.append(body)
        try:
            self._check(body)
        except (BadRequestError, AssertionError) as error:
            self.rejected.append(str(error))
            return JSONResponse(
                {
                    "type": "error",
                    "error": {"type": "invalid", "message": str(error), "code": 400},
                },
                400,
            )
        reply = next(self._replies)
        if isinstance(reply, Response):
            return reply
        streaming = bool(body.get("stream")) or "stream" in request.url.path
        return (
            streamed(self._stream(reply))
            if streaming
            else JSONResponse(self._write(reply))
        )

    def _check(self, body: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _write(self, reply: Reply) -> Any:
        raise NotImplementedError

    def _stream(self, reply: Reply) -> Iterator[str]:
        raise NotImplementedError

    def _sign(self, thought: str, calls: Sequence[WrittenCall] = ()) -> str:
        """A signature that is known again."""
        signature = base64.b64encode(
            f"signed {thought} {len(self.requests)}".encode()
        ).decode()
        self._signatures[signature] = thought
        for call in calls:
            self._signatures[call.id] = signature
        return signature


def _refuse_unless(valid: object, why: str) -> None:
    if not valid:
        raise BadRequestError(why)


class AnthropicServer(_Server):
    """Messages of Anthropic, with extended thinking if `reasoned` says so of a reply."""

    def _check(self, body: Mapping[str, Any]) -> None:
        system = body.get("system") or []
        for block in (
            system if isinstance(system, list) else [{"type": "text", "text": system}]
        ):
            _refuse_unless(
                block["text"].strip(), "system: text content blocks must be non-empty"
            )
        waiting: list[str] = []
        for message in body["messages"]:
            content = message["content"]
            _refuse_unless(content, "all messages must have non-empty content")
            blocks = (
                [{"type": "text", "text": content}]
                if isinstance(content, str)
                else content
            )
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            _refuse_unless(
                all(text.strip() for text in texts),
                "text content blocks must be non-empty",
            )
            results = [
                block["tool_use_id"]
                for block in blocks
                if block["type"] == "tool_result"
            ]
            _refuse_unless(
                results == waiting,
                f"tool_use ids {waiting} want their results right behind, got {results}",
            )
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            waiting = calls if message["role"] == "assistant" else []
            thoughts = [block for block in blocks if block["type"] == "thinking"]
            for block in thoughts:
                whole = self._signatures.get(block["signature"]) == block["thinking"]
                _refuse_unless(whole, f"invalid signature in thinking block {block}")
            if "thinking" in body and calls:
                _refuse_unless(
                    blocks[0]["type"] == "thinking",
                    "expected thinking first where a tool is used",
                )
                made = {
                    self._signatures.get(call, blocks[0]["signature"]) for call in calls
                }
                _refuse_unless(
                    made == {blocks[0]["signature"]},
                    "thinking blocks cannot be modified",
                )
        _refuse_unless(
            not waiting and body["messages"][-1]["role"] == "user",
            "the last message is the user's",
        )

    def _blocks(self, reply: Reply) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if reply.reasoned:
            thought = f"Thought {len(self.requests)}."
            blocks.append(
                {
                    "type": "thinking",
                    "thinking": thought,
                    "signature": self._sign(thought, reply.calls),
                }
            )
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        blocks += [
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": json.loads(call.arguments),
            }
            for call in reply.calls
        ]
        return blocks

    def _write(self, reply: Reply) -> Any:
        return {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": self._blocks(reply),
            "stop_reason": "tool_use" if reply.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": reply.input_tokens,
                "output_tokens": reply.output_tokens,
            },
        }

    def _stream(self, reply: Reply) -> Iterator[str]:
        def event(kind: str, **data: Any) -> str:
            return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

        whole = self._write(reply)
        yield event(
            "message_start", message={**whole, "content": [], "stop_reason": None}
        )
        for at, block in enumerate(whole["content"]):
            match block:
                case {"type": "thinking", "thinking": thought, "signature": signature}:
                    empty = {**block, "thinking": "", "signature": ""}
                    deltas = [{"type": "thinking_delta", "thinking": thought}]
                    deltas += [{"type": "signature_delta", "signature": signature}]
                case {"type": "text"}:
                    empty = {**block, "text": ""}
                    deltas = [
                        {"type": "text_delta", "text": word} for word in reply.words()
                    ]
                case _:
                    empty = {**block, "input": {}}
                    deltas = [
                        {
                            "type": "input_json_delta",
                            "partial_json": json.dumps(block["input"]),
                        }
                    ]
            yield event("content_block_start", index=at, content_block=empty)
            for delta in deltas:
                yield event("content_block_delta", index=at, delta=delta)
            yield event("content_block_stop", index=at)
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event(
            "message_delta", delta=stop, usage={"output_tokens": reply.output_tokens}
        )
        yield event("message_stop")


class GeminiServer(_Server):
    """`generateContent` and `streamGenerateContent` of Gemini, with thought signatures where a reply is `reasoned`."""

    def _check(self, body: Mapping[str, Any]) -> None:
        waiting: list[str] = []
        before = ""
        contents = body["contents"]
        is_asked = [
            any(part.get("text") for part in each["parts"]) and each["role"] == "user"
            for each in contents
        ]
        turn = max(
            at for at, asked in enumerate(is_asked) if asked
        )  # signatures are wanted from there
        for at, content in enumerate(contents):
            parts = content["parts"]
            _refuse_unless(parts, "contents.parts must not be empty")
            for part in parts:
                says = part.get("text") or part.keys() - {"text", "thought"}
                _refuse_unless(
                    says, "required oneof field 'data' must have one initialized field"
                )
                signature = part.get("thoughtSignature")
                known = signature in {None, SKIPPED} or signature in self._signatures
                _refuse_unless(known, f"thought signature is not valid: {signature}")
            results = [
                part["functionResponse"]["name"]
                for part in parts
                if "functionResponse" in part
            ]
            _refuse_unless(
                results == waiting,
                f"function responses are not those of the calls: {results}, {waiting}",
            )
            calls = [part for part in parts if "functionCall" in part]
            waiting = [part["functionCall"]["name"] for part in calls]
            if calls and at > turn:
                _refuse_unless(
                    before == "user",
                    "a function call comes immediately after a user turn",
                )
                signed = calls[0].get("thoughtSignature") or not self._signatures
                _refuse_unless(
                    signed, f"function call {calls[0]} is missing a thought_signature"
                )
            before = content["role"]
        _refuse_unless(
            not waiting and before == "user", "the conversation ends with a user turn"
        )

    def _parts(self, reply: Reply) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        signature = None
        if reply.reasoned:
            thought = f"Thought {len(self.requests)}."
            parts.append({"text": thought, "thought": True})
            signature = self._sign(thought, reply.calls)
        parts += [{"text": word} for word in reply.words()]
        parts += [
            {
                "functionCall": {
                    "name": call.name,
                    "args": json.loads(call.arguments),
                    "id": call.id,
                }
            }
            for call in reply.calls
        ]
        if signature:  # on the first call, or behind the text
            if not reply.calls:
                parts.append({"text": ""})
            parts[-max(len(reply.calls), 1)]["thoughtSignature"] = signature
        return parts

    def _write(self, reply: Reply) -> Any:
        return self._content(self._parts(reply), reply)

    def _stream(self, reply: Reply) -> Iterator[str]:
        *parts, last = self._parts(reply)
        for part in parts:
            yield f"data: {json.dumps(self._content([part], None))}\n\n"
        yield f"data: {json.dumps(self._content([last], reply))}\n\n"

    def _content(
        self, parts: list[dict[str, Any]], reply: Reply | None
    ) -> dict[str, Any]:
        candidate: dict[str, Any] = {
            "content": {"role": "model", "parts": parts},
            "index": 0,
        }
        usage = {"promptTokenCount": 10, "totalTokenCount": 10}
        if reply is not None:
            candidate["finishReason"] = "STOP"
            usage = {
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "totalTokenCount": 15,
            }
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "gemini-3-pro-preview",
            "responseId": f"r{len(self.requests)}",
        }
