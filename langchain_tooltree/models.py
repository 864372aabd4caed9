"""Every model call of the planner goes through here.

The calls are hidden from users' token streams, named and tagged for traces, counted, asked again once where the reply
is unusable, and read leniently: a model that answers rubbish is normal input. What a provider refuses for its rate is
waited out, and what it refuses as structured output is asked in plain text.
"""

import copy
import functools
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from weakref import WeakValueDictionary

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.json_schema import dereference_refs
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow
from langchain_tooltree.rate_limits import Patience, ask_patiently, http_status, was_refused
from langchain_tooltree.text import json_object

logger = logging.getLogger(__name__)


TAG = "tooltree"
"""Tag of every inner run, beside the one that keeps its tokens out of `stream_mode="messages"`."""

AGENT_NAME = "lc_agent_name"
"""Where `create_agent` notes the name of the running agent in the metadata of its runs."""

_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)

SHOWN_REPLY = 500
"""Characters of an unusable reply that are shown again."""

ATTEMPTS = 2
"""A question is asked once, and once more if the reply is unusable and the budget allows it."""

CORRECTION = """\
Your reply cannot be used. Answer again. Fill in the form completely: every identifier exactly once, every score a \
number between 0 and 1."""

FORM_REFUSED = frozenset({400, 404, 422})
"""HTTP statuses of servers that know no structured output; the same question is then asked in plain text."""

_plain_models: WeakValueDictionary[int, BaseChatModel] = WeakValueDictionary()
"""Models whose server was found to refuse structured output, by identity: chat models need not be hashable.

Kept for the process, not for a thread of a checkpointer: since a refused request is not counted, a search that has yet
to find out differs from one that knows by nothing but that request.
"""


@dataclass(slots=True)
class Meter:
    """Counts what one operation spends.

    Args:
        allowance: Model calls it may make at the most. Requests that the provider refused to take are none.
        patience: How long it may wait for rate limits.

    Attributes:
        problems: What went wrong with questions that may still have been answered in the end.
    """

    allowance: int
    patience: Patience = field(default_factory=Patience)
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Model calls that may still be made."""
        return self.allowance - self.model_calls

    def add(self, other: "Meter") -> None:
        """Add what another operation has spent."""
        self.model_calls += other.model_calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.problems += other.problems

    def count(self, message: BaseMessage | None) -> None:
        """Count a call and the tokens that its reply, if any, reports; a provider that reports none counts as zero."""
        self.model_calls += 1
        if isinstance(message, AIMessage) and message.usage_metadata:
            self.input_tokens += message.usage_metadata["input_tokens"]
            self.output_tokens += message.usage_metadata["output_tokens"]


@dataclass(frozen=True, slots=True)
class ModelStep:
    """One request to a chat model, as a step of a flow."""

    model: Runnable[Any, Any]
    messages: Sequence[BaseMessage]
    config: RunnableConfig

    def run(self) -> Any:
        """Invoke the model."""
        return self.model.invoke(list(self.messages), self.config)

    async def arun(self) -> Any:
        """Invoke the model without blocking the loop."""
        return await self.model.ainvoke(list(self.messages), self.config)


def request(step: ModelStep, meter: Meter) -> Flow[Any]:
    """Make a request, waiting for rate limits. One that failed is counted, since it may have cost something.

    Args:
        step: The request.
        meter: Counts it if it fails, unless it was refused; its reply is for the caller to count.

    Returns:
        The reply.

    Raises:
        Exception: What the model raised.
    """
    try:
        return (yield from ask_patiently(step, meter.patience))
    except Exception as error:
        if not was_refused(error):
            meter.count(None)
        raise


def resolve_model(model: str | BaseChatModel) -> BaseChatModel:
    """Turn a model name into a chat model.

    Args:
        model: A chat model, or a string such as `"openai:gpt-4.1-mini"` for `init_chat_model`.

    Returns:
        The chat model.

    Raises:
        ConfigurationError: If it is neither.
        ImportError: If the provider's package is not installed.
    """
    if isinstance(model, str):
        resolved: BaseChatModel = init_chat_model(model)
        return resolved
    if not is_chat_model(model):
        msg = (
            f"model must be a chat model or a name such as 'openai:gpt-4.1-mini', got {type(model).__name__}. "
            "Pass the model itself, before bind_tools or with_structured_output."
        )
        raise ConfigurationError(msg)
    return model


def is_chat_model(model: object) -> TypeGuard[BaseChatModel]:
    """Whether it is a chat model, be it one that is chosen at run time: `init_chat_model(configurable_fields=...)`."""
    if isinstance(model, BaseChatModel):
        return True
    able = all(hasattr(model, name) for name in ("bind_tools", "with_structured_output"))
    return isinstance(model, Runnable) and not isinstance(model, RunnableBinding) and able


def inner_config(name: str, metadata: Mapping[str, Any]) -> RunnableConfig:
    """The run configuration of an inner model call.

    Args:
        name: What the call is for; the run is named `tooltree.<name>`.
        metadata: Where in the search it stands, for traces.

    Returns:
        A configuration that keeps the call's tokens out of users' streams.
    """
    return {"run_name": f"{TAG}.{name}", **inner_marks(metadata)}


def inner_marks(metadata: Mapping[str, Any]) -> RunnableConfig:
    """Tags and metadata of an inner run, of a model or a tool; a tool keeps its own name.

    Args:
        metadata: Where in the search it stands; the keys get the package's prefix.

    Returns:
        A configuration that keeps the run out of users' streams.
    """
    return {"tags": [TAG, TAG_NOSTREAM], "metadata": {f"{TAG}_{key}": value for key, value in metadata.items()}}


def bind_tools(
    model: BaseChatModel, tools: Sequence[BaseTool | dict[str, Any]], settings: Mapping[str, Any] | None = None
) -> Runnable[Any, Any]:
    """The model with tools and settings bound, or the model itself where there are no tools."""
    if not tools:
        return model
    try:
        return model.bind_tools(tools, **(settings or {}))
    except NotImplementedError as error:
        msg = (
            f"{type(model).__name__} cannot call tools: its bind_tools is not implemented. "
            "Use a chat model with tool calling."
        )
        raise ConfigurationError(msg) from error


def call_tools(
    model: BaseChatModel,
    tools: Sequence[BaseTool | dict[str, Any]],
    messages: Sequence[BaseMessage],
    meter: Meter,
    config: RunnableConfig,
    *,
    settings: Mapping[str, Any] | None = None,
) -> Flow[AIMessage]:
    """Ask a model that may reply with tool calls.

    Args:
        model: The chat model.
        tools: Tools it may call.
        messages: The prompt.
        meter: Counts the call.
        config: Run configuration of the call.
        settings: Settings of the request, such as a temperature, by name.

    Returns:
        The reply.

    Raises:
        Exception: What the model raised.
    """
    reply = yield from request(ModelStep(bind_tools(model, tools, settings), messages, config), meter)
    meter.count(reply)
    if not isinstance(reply, AIMessage):
        msg = f"{type(model).__name__} replied with {type(reply).__name__} instead of an AIMessage."
        raise TypeError(msg)
    return reply


@dataclass(slots=True)
class StructuredQuestion:
    """A question whose reply must be an object of a given form.

    Args:
        model: The chat model to ask.
        schema: The form of the reply, as a pydantic model: its JSON schema is sent, its validation is not applied,
            so that a reply that is right in part can be used in part.
        prompt: The messages.
        usable: Whether a parsed reply answers the whole question.
        config: Run configuration of the call.

    Attributes:
        in_words: The texts of replies that held no object, latest last: what a model that ignores the form says instead
            may be of use all the same.
    """

    model: BaseChatModel
    schema: type[BaseModel]
    prompt: list[BaseMessage]
    usable: Callable[[dict[str, Any]], bool]
    config: RunnableConfig
    in_words: list[str] = field(default_factory=list, init=False)

    def ask(self, meter: Meter) -> Flow[list[dict[str, Any]]]:
        """Ask, and ask again once if the reply is unusable.

        Args:
            meter: Counts the calls and bounds them.

        Returns:
            The parsed replies, latest last; empty if none could be parsed. What went wrong is noted at the meter.
        """
        replies: list[dict[str, Any]] = []
        prompt = self.prompt
        spelled_out = False
        for _ in range(min(ATTEMPTS, meter.left)):
            try:
                raw, data = yield from self._ask_once(prompt, meter, spelled_out=spelled_out)
            except Exception as error:  # noqa: BLE001 - any failure of a model is a missing score, not a crash
                meter.problems.append(f"{type(error).__name__}: {error}")
                if was_refused(error):
                    break  # it would be refused again
                continue
            if data is not None:
                replies.append(data)
                if self.usable(data):
                    break
            elif words := _said(raw):
                self.in_words.append(words)
            shown = _shown(raw, data)
            meter.problems.append(f"the reply is not of the form asked for: {shown}")
            prompt = [*self.prompt, AIMessage(shown or "[no text]"), HumanMessage(CORRECTION)]
            # A server that ignores the form, as some do, has not shown it to the model.
            spelled_out = data is None
        return replies

    def _ask_once(
        self, prompt: Sequence[BaseMessage], meter: Meter, *, spelled_out: bool
    ) -> Flow[tuple[AIMessage, dict[str, Any] | None]]:
        """One question, through the model's structured output where it has one, as plain text otherwise."""
        spelled = self._spelled_out(prompt)
        refusal: Exception | None = None
        if structured := self._structured():
            step = ModelStep(structured, spelled if spelled_out else prompt, self.config)
            try:
                reply = yield from request(step, meter)
            except Exception as error:
                if http_status(error) not in FORM_REFUSED:
                    raise
                refusal = error
            else:
                raw, parsed = reply["raw"], reply["parsed"]
                meter.count(raw)
                return raw, parsed if isinstance(parsed, dict) else json_object(_said(raw))
        raw = yield from request(ModelStep(self.model, spelled, self.config), meter)
        meter.count(raw)
        if refusal is not None:
            name = type(self.model).__name__
            logger.info("%s refuses structured output; from now on it is asked in plain text: %s", name, refusal)
            _plain_models[id(self.model)] = self.model
        return raw, json_object(_said(raw))

    def _structured(self) -> Runnable[Any, Any] | None:
        """The model with structured output; `None` if it has none, says so in its profile, or was refused before."""
        lacking = (getattr(self.model, "profile", None) or {}).get("structured_output") is False
        if lacking or id(self.model) in _plain_models:
            return None
        try:
            return self.model.with_structured_output(_plain_schema(self.schema), include_raw=True)
        except (NotImplementedError, ValueError):
            return None

    def _spelled_out(self, prompt: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The prompt with the form in its system message: some models refuse two user messages in a row."""
        form = (
            f"Reply with one JSON object and nothing else. Its JSON schema:\n{json.dumps(_plain_schema(self.schema))}"
        )
        if isinstance(prompt[0], SystemMessage):
            return [SystemMessage(f"{prompt[0].text}\n\n{form}"), *prompt[1:]]
        return [SystemMessage(form), *prompt]


def _plain_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a form without references, which some providers do not follow."""
    return copy.deepcopy(_dereferenced(schema))  # an integration may change what it is given


@functools.cache
def _dereferenced(schema: type[BaseModel]) -> dict[str, Any]:
    described = dereference_refs(schema.model_json_schema())
    return {key: value for key, value in described.items() if key != "$defs"}


def _shown(message: AIMessage, data: dict[str, Any] | None) -> str:
    """The start of an unusable reply; where a model refuses to fill in the form, what it says instead."""
    if data is not None:
        return json.dumps(data)[:SHOWN_REPLY]
    blocks = message.content if isinstance(message.content, list) else []
    said = [block["refusal"] for block in blocks if isinstance(block, dict) and "refusal" in block]
    return str(message.text or message.additional_kwargs.get("refusal") or " ".join(said))[:SHOWN_REPLY]


def _said(message: AIMessage) -> str:
    """The text of a reply, without what some servers leave in it of a model's reasoning."""
    return _THOUGHT.sub("", message.text).strip()


def document_prompt(instruction: str, document: Mapping[str, Any]) -> list[BaseMessage]:
    """The prompt of a question about data.

    Args:
        instruction: What the model is to do.
        document: What it needs for that; what JSON has no form for is shown as text.

    Returns:
        A system message with the instruction, and a user message with the document.
    """
    written = json.dumps(document, ensure_ascii=False, indent=1, default=str)
    return [SystemMessage(instruction), HumanMessage(written)]


def extended(system: SystemMessage | None, text: str) -> SystemMessage:
    """A system message that says something more at its end, where providers' caches of what stands before survive.

    Args:
        system: The message so far, if there is one. Its blocks stay as they are, cache marks included.
        text: What to add.

    Returns:
        A new message.
    """
    if system is None or not system.content:
        return SystemMessage(text)
    added = f"\n\n{text}"
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}{added}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": added}]})
