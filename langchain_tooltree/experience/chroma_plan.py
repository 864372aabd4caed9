"""A batch of store operations, checked and taken apart: what is to be embedded, written and read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from langchain_tooltree.experience.chroma_catalogue import Namespace
from langchain_tooltree.experience.chroma_filters import check_filter

WHOLE = "$"
"""The path of an item's whole value."""

Vector = Sequence[float]


@dataclass(frozen=True, slots=True)
class Put:
    """One item to be written.

    Attributes:
        value: Its value, or `None` to delete it.
        document: The value in JSON.
        texts: What of it is to be embedded.
    """

    value: Mapping[str, Any] | None
    document: str = ""
    texts: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """What a batch asks for.

    Attributes:
        ops: The operations, in order.
        puts: What to write, by namespace and key; of several writes to one item the last one counts.
        vectors: The vectors of the texts to be stored, once they are known.
        queries: The vectors of the queries, once they are known.
    """

    ops: list[Op]
    puts: dict[Namespace, dict[str, Put]] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)
    queries: dict[str, Vector] = field(default_factory=dict)

    def texts(self) -> list[str]:
        """The texts to be stored, each once."""
        written = (put for puts in self.puts.values() for put in puts.values())
        return list(dict.fromkeys(text for put in written for text in put.texts))

    def questions(self) -> list[str]:
        """The queries, each once; an empty one is none, as in LangGraph's own stores."""
        return list(dict.fromkeys(op.query for op in self.ops if isinstance(op, SearchOp) and op.query))


@dataclass(frozen=True, slots=True)
class EmbedStep:
    """Has a plan's texts and queries embedded."""

    embeddings: Embeddings
    plan: Plan

    def run(self) -> None:
        """Embed, blocking the calling thread."""
        if texts := self.plan.texts():
            self._keep(texts, self.embeddings.embed_documents(texts))
        self.plan.queries = {query: self.embeddings.embed_query(query) for query in self.plan.questions()}

    async def arun(self) -> None:
        """Embed without blocking the event loop."""
        if texts := self.plan.texts():
            self._keep(texts, await self.embeddings.aembed_documents(texts))
        self.plan.queries = {query: await self.embeddings.aembed_query(query) for query in self.plan.questions()}

    def _keep(self, texts: list[str], vectors: list[list[float]]) -> None:
        if len(vectors) != len(texts):
            msg = f"{type(self.embeddings).__name__} returned {len(vectors)} vectors for {len(texts)} texts."
            raise ValueError(msg)
        self.plan.vectors = dict(zip(texts, vectors, strict=True))


def plan_batch(ops: Iterable[Op], fields: Sequence[str]) -> Plan:
    """Check a batch and take it apart.

    Args:
        ops: The operations.
        fields: Paths of what is embedded of an item unless its operation says otherwise.

    Returns:
        The plan, without vectors.

    Raises:
        InvalidNamespaceError: If a label is empty, no string, or contains a period.
        NotImplementedError: If an item is to expire.
        TypeError: If a value is not JSON, or has keys that are not strings.
        ValueError: If an operation, an operator or a kind of match is unknown.
    """
    plan = Plan(list(ops))
    for op in plan.ops:
        if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
            msg = f"Unknown operation type: {type(op)}"
            raise ValueError(msg)  # noqa: TRY004 - as LangGraph's own stores
        validate_op_namespace(op)
        if isinstance(op, SearchOp):
            check_filter(op.filter)
        elif isinstance(op, PutOp):
            plan.puts.setdefault(op.namespace, {})[op.key] = _put(op, fields)
        elif isinstance(op, ListNamespacesOp):
            for condition in op.match_conditions or ():
                if condition.match_type not in {"prefix", "suffix"}:
                    msg = f"Unsupported match type: {condition.match_type}"
                    raise ValueError(msg)
    return plan


def _put(op: PutOp, fields: Sequence[str]) -> Put:
    if op.value is None:
        return Put(None)
    if op.ttl is not None:
        msg = "TTL is not supported by ChromaStore. Use a store implementation that supports TTL or set ttl=None."
        raise NotImplementedError(msg)
    value = dict(op.value)
    _check_keys(value)
    paths = fields if op.index is None else op.index or ()
    texts = [
        text for path in paths for text in get_text_at_path(value, WHOLE if path == WHOLE else tokenize_path(path))
    ]
    return Put(value, json.dumps(value), tuple(dict.fromkeys(texts)))


def _check_keys(value: Any) -> None:
    """JSON would make strings of other keys, and the value would come back changed."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if not isinstance(key, str):
                msg = f"The keys of a stored value must be strings, got {key!r}."
                raise TypeError(msg)
            _check_keys(nested)
    elif isinstance(value, list | tuple):
        for nested in value:
            _check_keys(nested)


def list_matching(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that an operation asks for.

    Args:
        namespaces: All that have items.
        op: The operation.

    Returns:
        One page of them, cut to the depth asked for, each once, in order.
    """
    found = {
        namespace[: op.max_depth]
        for namespace in namespaces
        if all(_matches(namespace, condition) for condition in op.match_conditions or ())
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for label, wanted in zip(labels, path, strict=True))
