"""Every model call of the planner goes through here.

The calls are hidden from users' token streams, named and tagged for traces, counted, asked again once where the reply
is unusable, and read leniently: a model that answers rubbish is normal input.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.json import parse_json_markdown
from langchain_core.utils.json_schema import dereference_refs
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow

TAG = "tooltree"
"""Tag of every inner run, beside the one that keeps its tokens out of `stream_mode="messages"`."""

SHOWN_REPLY = 500
"""Characters of an unusable reply that are shown again."""

ATTEMPTS = 2
"""A question is asked once, and once more if the reply is unusable and the budget allows it."""


@dataclass(slots=True)
class Meter:
    """Counts what one operation spends.

    Args:
        allowance: Model calls it may make at the most.

    Attributes:
        problems: What went wrong with questions that may still have been answered in the end.
    """

    allowance: int
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Model calls that may still be made."""
        return self.allowance - self.model_calls

    def count(self, message: BaseMessage | None) -> None:
        """Count a call and the tokens that its reply reports; a provider that reports none counts as zero."""
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
    if not isinstance(model, BaseChatModel):
        msg = (
            f"model must be a chat model or a name such as 'openai:gpt-4.1-mini', got {type(model).__name__}. "
            "Pass the model itself, before bind_tools or with_structured_output."
        )
        raise ConfigurationError(msg)
    return model


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


def bind_tools(model: BaseChatModel, tools: Sequence[BaseTool | dict[str, Any]]) -> Runnable[Any, Any]:
    """The model with tools bound, or the model itself where there are none or it cannot have any."""
    if not tools:
        return model
    try:
        return model.bind_tools(tools)
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
) -> Flow[AIMessage]:
    """Ask a model that may reply with tool calls.

    Args:
        model: The chat model.
        tools: Tools it may call.
        messages: The prompt.
        meter: Counts the call.
        config: Run configuration of the call.

    Returns:
        The reply.

    Raises:
        Exception: What the model raised.
    """
    try:
        reply = yield ModelStep(bind_tools(model, tools), messages, config)
    except Exception:
        meter.count(None)
        raise
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
    """

    model: BaseChatModel
    schema: type[BaseModel]
    prompt: list[BaseMessage]
    usable: Callable[[dict[str, Any]], bool]
    config: RunnableConfig

    def ask(self, meter: Meter) -> Flow[list[dict[str, Any]]]:
        """Ask, and ask again once if the reply is unusable.

        Args:
            meter: Counts the calls and bounds them.

        Returns:
            The parsed replies, latest last; empty if none could be parsed. What went wrong is noted at the meter.
        """
        replies: list[dict[str, Any]] = []
        prompt = self.prompt
        for _ in range(min(ATTEMPTS, meter.left)):
            try:
                raw, data = yield from self._ask_once(prompt, meter)
            except Exception as error:  # noqa: BLE001 - any failure of a model is a missing score, not a crash
                meter.problems.append(f"{type(error).__name__}: {error}")
                continue
            if data is not None:
                replies.append(data)
                if self.usable(data):
                    break
            shown = (json.dumps(data) if data is not None else str(raw.text))[:SHOWN_REPLY]
            meter.problems.append(f"the reply is not of the form asked for: {shown}")
            prompt = [
                *self.prompt,
                HumanMessage(
                    f"Your reply cannot be used: {shown}\nAnswer again. Fill in the form completely: every identifier "
                    "exactly once, every score a number between 0 and 1."
                ),
            ]
        return replies

    def _ask_once(self, prompt: Sequence[BaseMessage], meter: Meter) -> Flow[tuple[AIMessage, dict[str, Any] | None]]:
        """One request, through the model's structured output where it has one, as plain text otherwise."""
        try:
            structured = self.model.with_structured_output(self._plain_schema(), include_raw=True)
        except (NotImplementedError, ValueError):
            structured = None
        try:
            reply = yield ModelStep(
                structured or self.model,
                prompt if structured else [*prompt, self._form()],
                self.config,
            )
        except Exception:
            meter.count(None)
            raise
        raw = reply["raw"] if structured else reply
        meter.count(raw)
        parsed = reply["parsed"] if structured else None
        return raw, parsed if isinstance(parsed, dict) else _parse_text(raw)

    def _plain_schema(self) -> dict[str, Any]:
        """The JSON schema without references, which some providers do not follow."""
        schema = dereference_refs(self.schema.model_json_schema())
        return {key: value for key, value in schema.items() if key != "$defs"}

    def _form(self) -> HumanMessage:
        schema = json.dumps(self._plain_schema())
        return HumanMessage(f"Reply with one JSON object and nothing else. Its JSON schema:\n{schema}")


def _parse_text(message: AIMessage) -> dict[str, Any] | None:
    """The JSON object in a message's text, if there is one."""
    try:
        data = parse_json_markdown(message.text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
