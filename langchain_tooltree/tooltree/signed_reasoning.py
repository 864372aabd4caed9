"""What is kept of the reply that proposed a call, where its model signs its reasoning. Pure.

Models that sign their reasoning expect a call to come back in the message that made it. A plan keeps one call of a
reply, so the message cannot come back as it was: its reasoning comes back as it was written, with this call alone. Such
reasoning is known by its shape and not by its provider: content blocks that are neither plain text nor tool calls
(thinking, reasoning items), a signature on any block, or additional keyword arguments beyond the usual ones
(`reasoning_content`, thought signatures).
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

PLAIN_BLOCKS = frozenset({"text", "output_text", "refusal"})

CALL_BLOCKS = frozenset(
    {"tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call", "custom_tool_call"}
)

SIGNATURES = ("signature", "thought_signature")
"""Keys of a signature, on a block or among its `extras`."""

USUAL_KEYWORDS = frozenset({"tool_calls", "function_call", "refusal", "parsed"})
"""Additional keyword arguments that repeat what the message says elsewhere."""

ORIGIN = ("model_provider", "output_version")
"""Response metadata by which the integrations know whose blocks these are, and in which form they are written.

The rest describes the whole reply; its identifier, sent back, would bring back the siblings as well.
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, as far as signed reasoning depends on it; each call has `id` and `args`, the valid ones first."""

    content: str | Sequence[Any]
    additional_kwargs: Mapping[str, Any]
    response_metadata: Mapping[str, Any]
    calls: Sequence[Mapping[str, Any]]
    keywords: Mapping[str, Any] = field(init=False)  # the additional ones beyond the usual, as JSON has them

    def __post_init__(self) -> None:
        unusual = {name: value for name, value in self.additional_kwargs.items() if name not in USUAL_KEYWORDS}
        plain = ((name, _as_json(value)) for name, value in unusual.items())
        object.__setattr__(self, "keywords", {name: value for name, value in plain if value is not None})


class SignedReasoning(BaseModel):
    """The reasoning around one call, as plain JSON."""

    model_config = ConfigDict(frozen=True)

    call_id: str | None = None  # `None` if the provider gave no identifier, or the same one twice
    # Content blocks before the call, untouched, without those of its siblings and plain text. `None` if the content was
    # no list of blocks: some integrations tell their own formats apart by that.
    reasoning: tuple[Any, ...] | None = None
    block: dict[str, Any] | None = None  # the call's own, if it has one
    keywords: dict[str, Any] = {}  # additional keyword arguments
    keywords_by_call: dict[str, Any] = {}  # of those that map identifiers of calls: what belongs to this one
    origin: dict[str, Any] = {}  # response metadata that says whose blocks these are

    def message_fields(self, call_id: str) -> dict[str, Any]:
        """Fields of a message that makes the call again, its `tool_calls` aside: a copy.

        If the call's identifier in the conversation is not the provider's own, its block is left out, because
        integrations match blocks to tool calls by it.
        """
        own = [self.block] if self.block is not None and call_id == self.call_id else []
        by_call = {name: {call_id: value} for name, value in self.keywords_by_call.items()}
        content = "" if self.reasoning is None else [*self.reasoning, *own]
        keywords = {**self.keywords, **by_call}
        fields = {"content": content, "additional_kwargs": keywords, "response_metadata": self.origin}
        return copy.deepcopy(fields)


def fields_together(made: Sequence[tuple[SignedReasoning, str]]) -> dict[str, Any]:
    """Fields of a message that makes several calls of one reply again, each with its identifier in the conversation.

    What led to several of them comes back once, where the provider has put it.
    """
    fields, *others = (signed.message_fields(call_id) for signed, call_id in made)
    for other in others:
        if isinstance(other["content"], list):
            fields["content"] = [*fields["content"]]
            fields["content"] += [block for block in other["content"] if block not in fields["content"]]
        for name, value in other["additional_kwargs"].items():
            kept = fields["additional_kwargs"].setdefault(name, value)
            if isinstance(kept, dict) and isinstance(value, dict):
                # A call that is not the first of its message does not take the signature of another.
                kept.update({key: entry for key, entry in value.items() if entry not in kept.values()})
        fields["response_metadata"] = {**other["response_metadata"], **fields["response_metadata"]}
    return fields


def signed_reasoning_of(reply: Reply, position: int, arguments: Mapping[str, Any]) -> SignedReasoning | None:
    """The signed reasoning of the call at a position of a reply; `None` if its model would want none back.

    The call's block is brought in line with the arguments that the call is made with.
    """
    call_ids = [str(call["id"]) for call in reply.calls if call.get("id")]
    listed = not isinstance(reply.content, str)
    blocks = [block for block in reply.content if isinstance(block, dict)]
    keywords = reply.keywords
    calls = [block for block in blocks if block.get("type") in CALL_BLOCKS or block_id(block) in call_ids]
    special = [each for each in blocks if isinstance(each.get("type"), str) and each["type"] not in PLAIN_BLOCKS]
    reasoning = [block for block in blocks if _is_signed(block) or (block in special and block not in calls)]
    if not (keywords or reasoning):
        return None
    own_id = reply.calls[position].get("id")
    call_id = own_id if own_id and call_ids.count(own_id) == 1 else None
    end = next((place for place, block in enumerate(blocks) if call_id and block_id(block) == call_id), None)
    # What was reasoned after the call did not lead to it; up to the call, the order is the provider's.
    before = [block for block in blocks[:end] if block in reasoning and block not in calls]
    by_call = {
        name: value
        for name, value in keywords.items()
        if isinstance(value, dict) and value and value.keys() <= {*call_ids}
    }
    return SignedReasoning(
        call_id=call_id,
        reasoning=tuple(plain for block in before if (plain := _as_json(block)) is not None) if listed else None,
        block=None if end is None else _consistent(blocks[end], reply.calls[position]["args"], arguments),
        keywords={name: value for name, value in keywords.items() if name not in by_call},
        keywords_by_call={name: _entry(value, call_id, call_ids) for name, value in by_call.items()},
        origin={name: value for name in ORIGIN if isinstance(value := reply.response_metadata.get(name), str)},
    )


def _is_signed(block: Mapping[str, Any]) -> bool:
    extras = block.get("extras")
    places = (block, extras) if isinstance(extras, dict) else (block,)
    return any(place.get(key) for place in places for key in SIGNATURES)


def block_id(block: Mapping[str, Any]) -> Any:
    """The identifier by which tool calls are matched; an OpenAI item has one of its own beside it."""
    return block.get("call_id") or block.get("id")


def _entry(by_call: Mapping[str, Any], call_id: str | None, call_ids: Sequence[str]) -> Any:
    """What belongs to a call.

    Gemini signs only the first of several calls, for the thought that led to them all, and wants a signature on the
    first call of each message. A call that comes back without its siblings is the first of its message, so it takes
    theirs if it has none.
    """
    return next(by_call[key] for key in (call_id, *call_ids) if key is not None and key in by_call)


def _consistent(
    block: Mapping[str, Any], written: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any] | None:
    """A call's block, with the arguments that the call is made with where they are not those that were written."""
    own: dict[str, Any] | None = _as_json(block)
    if own is None or written == arguments:
        return own
    own.pop("partial_json", None)  # what a streamed block was put together from
    return with_arguments(own, arguments)


def with_arguments(block: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A content block that repeats a call, with other arguments, in the form that its provider writes them in."""
    now = {
        key: json.dumps(arguments) if isinstance(block[key], str) else dict(arguments)
        for key in ("args", "input", "arguments")
        if key in block
    }
    return {**block, **now}


def _as_json(value: Any) -> Any:
    """A copy as JSON has it; `None` for what JSON cannot say."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None
