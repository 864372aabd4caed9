"""A deterministic chat model, for tests of agents: it says what is prepared, in order. No key, no network."""

import json
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

__all__ = ["ScriptedChatModel"]

CHARACTERS_PER_TOKEN = (
    4  # the doubles report usage by this rule of thumb for English text
)

Response = AIMessage | str | Mapping[str, Any] | Exception


class ChatDouble(BaseChatModel):
    """The plumbing of a chat model: tool binding, structured output, async, streaming and usage figures."""

    @abstractmethod
    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        """Say something; a mapping is the structured output that was asked for."""

    @property
    def _llm_type(self) -> str:
        return type(self).__name__

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools, as any chat model with tool calling does."""
        return self.bind(
            tools=[convert_to_openai_tool(tool) for tool in tools],
            tool_choice=tool_choice,
            **kwargs,
        )

    def _generate(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(
            generations=[ChatGeneration(message=self._message(messages, kwargs))]
        )

    async def _agenerate(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> ChatResult:
        return self._generate(messages, **kwargs)

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        return _chunks(self._message(messages, kwargs))

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, **kwargs):
            yield chunk

    def _message(
        self, messages: list[BaseMessage], options: Mapping[str, Any]
    ) -> AIMessage:
        tools: Sequence[Mapping[str, Any]] = options.get("tools") or ()
        reply = self._respond(messages, tools)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Mapping):
            if tools:
                name = tools[0]["function"]["name"]
                reply = AIMessage(
                    "",
                    tool_calls=[
                        {"name": name, "args": dict(reply), "id": "call_structured"}
                    ],
                )
            else:
                reply = json.dumps(reply)
        message = AIMessage(reply) if isinstance(reply, str) else reply
        if message.usage_metadata is not None:
            return message
        tokens_in = _estimate_tokens(
            *(str(part.content) for part in messages), json.dumps(tools)
        )
        tokens_out = _estimate_tokens(
            str(message.content), json.dumps(message.tool_calls)
        )
        usage = {
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
        return message.model_copy(update={"usage_metadata": usage})


def _estimate_tokens(*texts: str) -> int:
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """A message word by word, or block by block, and in the last chunk what stands beside its content."""
    blocks = message.content if isinstance(message.content, list) else ()
    for at, block in enumerate(
        blocks
    ):  # with a place each, so that what is added up keeps them apart
        part: dict[str, Any] = (
            {"type": "text", "text": block} if isinstance(block, str) else block
        )
        yield ChatGenerationChunk(
            message=AIMessageChunk(content=[{**part, "index": at}])
        )
    words = message.text.split(" ") if message.text and not blocks else []
    for position, word in enumerate(words):
        yield ChatGenerationChunk(
            message=AIMessageChunk(content=word if position == 0 else f" {word}")
        )
    last = AIMessageChunk(
        content="",
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        additional_kwargs=message.additional_kwargs,
        tool_call_chunks=[
            tool_call_chunk(
                name=call["name"],
                args=json.dumps(call["args"]),
                id=call["id"],
                index=position,
            )
            for position, call in enumerate(message.tool_calls)
        ],
        chunk_position="last",
    )
    yield ChatGenerationChunk(message=last)


class ScriptedChatModel(ChatDouble):
    r"""A chat model that gives prepared replies, one a call, in order.

    ```python
    call = {"name": "look", "args": {"place": "desk"}, "id": "1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), '{"missing": "nothing"}\nIt is on the desk.'])
    search("Where is it?", [look], model=model, effects={"look": "read"})
    ```

    Args:
        replies: What to say: a message; a string; a mapping, given as the structured output asked for; an exception,
            to be raised; or a function from the prompt to one of these.

    Raises:
        IndexError: When it is called more often than it has replies.
    """

    replies: Sequence[Any] = Field(default_factory=list)
    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def calls(self) -> list[list[BaseMessage]]:
        """The prompts received so far."""
        return self._calls

    def _respond(
        self,
        messages: list[BaseMessage],
        tools: Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> Response:
        with self._lock:
            self._calls.append(messages)
            position = len(self._calls) - 1
        if position >= len(self.replies):
            msg = f"ScriptedChatModel was called {position + 1} times but has {len(self.replies)} replies."
            raise IndexError(msg)
        reply: Response | Callable[[list[BaseMessage]], Response] = self.replies[
            position
        ]
        return reply(messages) if callable(reply) else reply
