"""An OpenAI-compatible server on a loopback port, with a policy for a model.

Real clients talk to it over HTTP: `ChatOpenAI(base_url=server.url, api_key="unused")`.
"""

import asyncio
import functools
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import uvicorn
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from openai_wire import (
    BadRequestError,
    ChatRequest,
    Reply,
    check_reasoning,
    items_of,
    read_chat,
    read_responses,
    stream_chat,
    stream_responses,
    write_chat,
    write_responses,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cookbook.offline_model import read_question

STARTING = 30
"""Seconds that the server may take to come up."""


@dataclass(frozen=True)
class Recorded:
    """A request that was received.

    Attributes:
        kind: The kind of question, as in `langchain_tooltree.testing.Question`.
        path: Where it was sent.
        body: What it said.
        asked: What it said, understood.
        at: When it came, on a monotonic clock.
    """

    kind: str
    path: str
    body: Mapping[str, Any]
    asked: ChatRequest
    at: float = field(default_factory=time.monotonic)


class _Host:
    """The one HTTP server of this process, for all that is mounted on it; it ends with the process."""

    def __init__(self) -> None:
        self._services: list[Callable[[Request], Awaitable[Response]]] = []
        routes = [Route("/{service:int}/{path:path}", self._serve, methods=["POST"])]
        settings = uvicorn.Config(
            Starlette(routes=routes), log_level="critical", lifespan="off", ws="none"
        )
        server = uvicorn.Server(settings)
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self._port = listening.getsockname()[1]
        threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, daemon=True
        ).start()
        end = time.monotonic() + STARTING
        while not server.started:
            assert time.monotonic() < end, "the server does not come up"
            time.sleep(0.01)

    def mount(self, service: Callable[[Request], Awaitable[Response]]) -> str:
        """Add a service; returns its address."""
        self._services.append(service)
        return f"http://127.0.0.1:{self._port}/{len(self._services) - 1}"

    async def _serve(self, request: Request) -> Response:
        return await self._services[request.path_params["service"]](request)


host = functools.cache(_Host)
"""The HTTP server of this process."""


class OpenAIServer:
    """Chat completions and responses, answered by a chat model in this process.

    Args:
        model: Gives the replies.
        forms: What becomes of the schema of a structured output: it is filled in, the request is refused, or it is
            ignored, so that the model replies in prose unless the prompt itself spells the schema out.
        reasoning: Whether the model reasons before it replies, and wants its reasoning back; responses only.

    Attributes:
        url: The base URL for clients.
        requests: Those received, in order.
        rejected: Why requests were found to be invalid; empty, if the client does its work.
        tokens: Those that the replies reported in all.
    """

    def __init__(
        self,
        model: BaseChatModel,
        *,
        forms: Literal["filled in", "refused", "ignored"] = "filled in",
        reasoning: bool = False,
    ) -> None:
        self.requests: list[Recorded] = []
        self.rejected: list[str] = []
        self.tokens = 0
        self._model = model
        self._forms = forms
        self._reasoning = reasoning
        self._needed: dict[str, str] = {}
        self.url = f"{host().mount(self.serve)}/v1"

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[ChatOpenAI]:
        """A client that does not ask again by itself, whatever the environment says of proxies."""
        with DefaultHttpxClient(trust_env=False, verify=False) as connections:
            async with DefaultAsyncHttpxClient(
                trust_env=False, verify=False
            ) as async_connections:
                fixed = {
                    "model": "gpt-4.1-mini",
                    "base_url": self.url,
                    "api_key": "unused",
                    "max_retries": 0,
                }
                clients = {
                    "http_client": connections,
                    "http_async_client": async_connections,
                }
                yield ChatOpenAI(**{**fixed, **clients, **options})

    def kinds(self) -> Counter[str]:
        """How many questions of each kind were received."""
        return Counter(request.kind for request in self.requests)

    async def serve(self, request: Request) -> Response:
        """Answer a request, or do to it what is on order."""
        body = await request.json()
        chat = request.url.path.endswith("/chat/completions")
        try:
            asked = read_chat(body) if chat else read_responses(body)
            check_reasoning(body.get("input", ()), self._needed)
        except BadRequestError as error:
            self.rejected.append(str(error))
            return _error(400, str(error))
        kind = read_question(asked.messages, asked.tools)[0].kind
        self.requests.append(Recorded(kind, request.url.path, body, asked))
        if asked.schema is not None and self._forms == "refused":
            return _error(
                400,
                f"{'response_format' if chat else 'text.format'} json_schema is not supported",
            )
        reply = await self._reply(asked, kind)
        self.tokens += reply.input_tokens + reply.output_tokens
        return (
            self._write_chat(reply, asked, body)
            if chat
            else self._write_responses(reply, asked, body)
        )

    async def _reply(self, asked: ChatRequest, kind: str) -> Reply:
        model = self._model.bind(tools=asked.tools) if asked.tools else self._model
        reply = Reply.of(await model.ainvoke(asked.messages))
        told = asked.schema is not None and self._forms == "filled in"
        if (
            kind in {"pre", "post", "plan"}
            and not told
            and "JSON schema" not in asked.messages[0].text
        ):
            return replace(reply, text="I would rather say it in my own words.")
        return replace(reply, reasoned=self._reasoning)

    def _write_chat(
        self, reply: Reply, asked: ChatRequest, body: Mapping[str, Any]
    ) -> Response:
        if asked.streaming:
            return streamed(stream_chat(reply, body["model"], usage=asked.usage))
        return JSONResponse(write_chat(reply, body["model"]))

    def _write_responses(
        self, reply: Reply, asked: ChatRequest, body: Mapping[str, Any]
    ) -> Response:
        items = items_of(reply)
        if reply.reasoned:
            self._needed.update((item["id"], items[0]["id"]) for item in items[1:])
        if asked.streaming:
            return streamed(stream_responses(reply, items, body["model"]))
        return JSONResponse(write_responses(reply, items, body["model"]))


def streamed(events: Iterable[str]) -> Response:
    """A response of server-sent events."""
    return StreamingResponse(_slowly(events), media_type="text/event-stream")


async def _slowly(events: Iterable[str]) -> AsyncIterator[str]:
    for event in events:
        yield event
        await asyncio.sleep(0)


def _error(status: int, message: str) -> Response:
    return JSONResponse(
        {"error": {"message": message, "type": "error", "code": None}}, status
    )
