"""A gate before the tokens of an answer, so that its report is not streamed, and a doubtful answer not at all.

The gated model is a view of the agent's own, of a subclass of its class: `isinstance` of other middleware, bound
arguments and the original object stay as they are. Its stream holds back the first line of a reply. If that line is a
report, it is taken out; if the report is doubtful, the text after it is kept back as well, and handed to the visit
through `Withheld`. So it is with a reply that comes as a whole. Reasoning and steps pass at once.
"""

import functools
import operator
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_tooltree.models import with_chat_model
from langchain_tooltree.tooltree.completeness_report import parse_report
from langchain_tooltree.tooltree.report import (
    Report,
    build_report,
    find_texts,
    split_report,
    with_first_text,
    with_texts,
)
from langchain_tooltree.tooltree.stream_filter import ReportFilter

ModelT = TypeVar("ModelT")
ValueT = TypeVar("ValueT")


@dataclass(slots=True)
class Withheld:
    """What gates kept from the streams of the model calls of one step, by the ids of the replies."""

    gates: dict[str | None, "_Gate"] = field(default_factory=dict)

    def restore(self, answer: AIMessage) -> tuple[AIMessage, Report | None]:
        """Put the withheld text back into an answer: as the model gave it, without its report; and the report.

        A doubtful answer gets no id, so that LangGraph streams it as a whole if it is returned after all.
        """
        latest = [*self.gates.values()][-1:] if not answer.text else []
        gate = self.gates.get(answer.id) or next(iter(latest), None)
        if gate is None or not gate.is_shut:
            return answer, gate.report if gate else None
        return with_first_text(answer, gate.text).model_copy(
            update={"id": None}
        ), gate.report


_WITHHELD: ContextVar[Withheld | None] = ContextVar("tooltree_withheld", default=None)
_GATED_KINDS: set[Any] = set()
_GATE: ContextVar["_Gate | None"] = ContextVar("tooltree_gate", default=None)


@contextmanager
def _holding(variable: ContextVar[Any], value: ValueT) -> Iterator[ValueT]:
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


withholding = functools.partial(_holding, _WITHHELD)
"""Hands what gated models keep from their streams meanwhile to a `Withheld`; without it, they keep nothing."""


def as_said(reply: AIMessage) -> AIMessage:
    """A reply as its model gave it, with its report and the text that a gate holds back, for whoever records models."""
    withheld = _WITHHELD.get()
    gate = withheld.gates.get(reply.id) if withheld is not None else None
    if gate is None or gate.report is None:
        return reply
    return reply.model_copy(update={"content": gate.said})


def gated(model: ModelT) -> ModelT:
    """A view of a model whose streams hold back the report; the model itself if there is no chat model in it."""
    return cast("ModelT", with_chat_model(model, _gated))


def _gated(model: BaseChatModel) -> BaseChatModel:
    if (
        type(model) in _GATED_KINDS
    ):  # a copy that other middleware has made of a gated model
        return model
    # A view and no copy: counters, caches and cached properties of the model stay one and the same.
    view = object.__new__(_gated_class(type(model)))
    for name in (
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    ):
        object.__setattr__(view, name, getattr(model, name))
    return cast("BaseChatModel", view)


@functools.cache
def _gated_class(kind: Any) -> Any:
    """A subclass whose replies and streams go through a gate where a visit asks.

    The inner stream gets no run manager: it would announce tokens before the gate has seen them, and LangChain
    announces those that come out of the stream.
    """

    def _generate_with_cache(self: Any, *args: Any, **kwargs: Any) -> ChatResult:
        with _holding(_GATE, _Gate(_WITHHELD.get())) as gate:
            return gate.close(
                kind._generate_with_cache(_uncached(self, gate), *args, **kwargs)  # noqa: SLF001
            )

    async def _agenerate_with_cache(self: Any, *args: Any, **kwargs: Any) -> ChatResult:
        with _holding(_GATE, _Gate(_WITHHELD.get())) as gate:
            return gate.close(
                await kind._agenerate_with_cache(_uncached(self, gate), *args, **kwargs)  # noqa: SLF001
            )

    def _stream(
        self: Any,
        messages: Any,
        stop: Any = None,
        run_manager: Any = None,  # noqa: ARG001
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        gate = _streaming_gate()
        for chunk in kind._stream(self, messages, stop=stop, **kwargs):  # noqa: SLF001
            yield from gate.admit(chunk)
        yield from gate.release()

    async def _astream(
        self: Any,
        messages: Any,
        stop: Any = None,
        run_manager: Any = None,  # noqa: ARG001
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        gate = _streaming_gate()
        async for chunk in kind._astream(self, messages, stop=stop, **kwargs):  # noqa: SLF001
            for admitted in gate.admit(chunk):
                yield admitted
        for admitted in gate.release():
            yield admitted

    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    methods: list[Any] = [_generate_with_cache, _agenerate_with_cache]
    methods += [
        each
        for each in (_stream, _astream)
        if getattr(kind, each.__name__) is not getattr(BaseChatModel, each.__name__)
    ]
    gated_kind = type(
        kind.__name__, (kind,), {**own, **{each.__name__: each for each in methods}}
    )
    for events in ("_stream_chat_model_events", "_astream_chat_model_events"):
        setattr(gated_kind, events, None)  # which would go past the gate
    _GATED_KINDS.add(gated_kind)
    return gated_kind


def _uncached(model: Any, gate: "_Gate") -> Any:
    """The model without LangChain's cache of replies: it would keep what is shown, and give back empty answers."""
    has_cache = (
        model.cache is not False and (model.cache or get_llm_cache()) is not None
    )
    return (
        model.model_copy(update={"cache": False})
        if has_cache and gate.withheld is not None
        else model
    )


def _streaming_gate() -> "_Gate":
    """The gate of the call that streams; an open one where a model is streamed directly."""
    gate = _GATE.get() or _Gate(None)
    gate.is_open = gate.withheld is None
    return gate


@dataclass(slots=True)
class _Gate:
    """Decides which parts of one reply may be shown.

    Attributes:
        withheld: Where the visit finds what was kept back. None if no visit asks:
            then everything passes.
        report: The report of the reply, once it is known.
        said: The text as the model wrote it, as far as it has arrived.
        text: The text of a doubtful answer, which is kept back as a whole.
        is_open: True if nothing is held back any more.
        is_shut: True if the answer is doubtful, so that nothing of it is shown.
        chunks: The chunks that are held back.
    """

    withheld: Withheld | None
    report: Report | None = None
    said: str = ""
    text: str = ""
    is_open: bool = False
    is_shut: bool = False
    chunks: list[ChatGenerationChunk] = field(default_factory=list)
    _filter: ReportFilter = field(default_factory=ReportFilter)
    _shown: bool = False

    def admit(self, chunk: ChatGenerationChunk) -> Sequence[ChatGenerationChunk]:
        """Return the chunks of a stream that may be shown after one more has arrived."""
        if self.is_open:
            return [chunk]
        text = str(chunk.message.text)
        is_step = bool(getattr(chunk.message, "tool_call_chunks", None))
        # Reasoning before the text, and usage behind it, may be shown at once.
        if not (text or is_step or self.chunks):
            return [chunk]

        self.said += text
        shown_text = self._filter.feed(text)
        self.chunks.append(chunk)
        if is_step:
            return self.release(is_step=True)
        if not self._shown and shown_text.strip():
            self.is_shut = self._is_doubtful_so_far()
        if self.is_shut or not (shown_text.strip() or (shown_text and self._shown)):
            return []
        return self._show(shown_text if self._shown else shown_text.lstrip())

    def release(self, *, is_step: bool = False) -> list[ChatGenerationChunk]:
        """Return what is still held back at the end, without a report.

        It is one chunk without text if the answer is doubtful.

        Args:
            is_step: True if the reply calls tools. Then it is no answer, and its text
                is shown whatever a report in it says.
        """
        self.is_open = True
        waiting, self.chunks = self.chunks, []
        parsed = parse_report(self.said)
        self.report = build_report(parsed)
        if self.report is None and not self._shown:
            return waiting

        self.text = parsed.answer
        is_doubtful = self.report is not None and self.report.doubtful
        self.is_shut = is_doubtful and not (is_step or self._shown)
        if self._shown:
            rest = self._filter.finish()
            if waiting:
                return [_merged(waiting, rest)]
            return (
                [ChatGenerationChunk(message=AIMessageChunk(content=rest))]
                if rest
                else []
            )
        if not waiting:
            return []
        return [_merged(waiting, "" if self.is_shut else parsed.answer)]

    def _is_doubtful_so_far(self) -> bool:
        """Return True if the reports before the answer say that something is missing."""
        report = build_report(parse_report(self.said))
        return report is not None and report.doubtful

    def _show(self, text: str) -> list[ChatGenerationChunk]:
        """Return the chunks that were held back as one, with the text that is shown."""
        waiting, self.chunks = self.chunks, []
        self._shown = True
        if len(waiting) == 1 and waiting[0].message.text == text:
            return waiting
        return [_merged(waiting, text)]

    def close(self, result: ChatResult) -> ChatResult:
        """Return the reply as it may be shown, and note it for the visit."""
        if self.withheld is None or len(result.generations) != 1:
            return result
        generation = self._show_whole(result.generations[0])
        self.withheld.gates[generation.message.id] = self
        return ChatResult(generations=[generation], llm_output=result.llm_output)

    def _show_whole(self, generation: ChatGeneration) -> ChatGeneration:
        """Return a reply without its report, and without the text of a doubtful answer."""
        has_streamed = bool(self.said)
        if has_streamed or not isinstance(generation.message, AIMessage):
            return generation
        self.said = str(generation.message.text)
        message, self.report = split_report(generation.message)
        is_step = bool(message.tool_calls or message.invalid_tool_calls)
        self.is_shut = self.report is not None and self.report.doubtful and not is_step
        if self.is_shut:
            self.text = str(message.text)
            message = with_texts(message, [""] * len(find_texts(message)))
        return ChatGeneration(
            message=message,
            generation_info=generation.generation_info,
        )


def _merged(chunks: Sequence[ChatGenerationChunk], text: str) -> ChatGenerationChunk:
    """Chunks as one, so that usage and the like are kept, with another text: where the last one had some."""
    merged = functools.reduce(operator.add, chunks)
    texts = find_texts(merged.message)
    last = max((at for at, each in enumerate(texts) if each), default=0)
    message = with_texts(
        merged.message, [text if at == last else "" for at in range(len(texts))]
    )
    return ChatGenerationChunk(message=message, generation_info=merged.generation_info)
