"""Segments: what runs give to the fold of their namespace, kept in the store, so that no process reads them all again.

A segment is one item with the parts of some hundred runs, each with the version of the record that it was made of.
Segments are a cache: what is damaged or missing is made again of the records, and nothing of a run that was forgotten
or has changed stays in one.
"""

import base64
import json
import logging
import threading
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
from langgraph.store.base import Item, SearchItem

from langchain_tooltree.experience.catalogue import RunEntry, Vector
from langchain_tooltree.experience.store import ExperienceStore, StoreCall, listing
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.sitgraph.graph import Contribution
from langchain_tooltree.text import digest

logger = logging.getLogger(__name__)

SEGMENTS = "segments"
"""Label under which segments stand."""

SEGMENT = 128
"""Runs in a new segment. Of fewer, each process reads the records: mining as many takes about a second."""

FEWEST = SEGMENT // 2
"""Runs below which a segment from which others have gone is dissolved; those left go into the next one."""

FORMAT = 1
"""Version of what stands in a segment; what has another one is ignored."""


VOTE = "vote"
"""Key of an item without parts that holds the settings of the graph's vote: fitting them takes about a second."""

Vote = Mapping[str, Any]

EMPTY: Mapping[str, Any] = {"parts": {}, "embedders": []}
"""What is left of a segment that cannot be read."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one run gives to the fold of its namespace.

    Attributes:
        version: The version of its record.
        contribution: What it gives to the graph; `None` if that is nothing.
        task: The vector of its task, where the store has no index.
    """

    version: str
    contribution: Contribution | None
    task: Vector | None = None

    def to_dict(self) -> dict[str, Any]:
        """The part as plain data; vectors are base64."""
        task = None if self.task is None else base64.b64encode(self.task.astype(np.float16).tobytes()).decode()
        contribution = self.contribution and self.contribution.to_dict()
        return {"version": self.version, "contribution": contribution, "task": task}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Part":
        """The part that `to_dict` has made plain data of."""
        contribution, task = data["contribution"], data["task"]
        return cls(
            data["version"],
            contribution and Contribution.from_dict(contribution),
            None if task is None else np.frombuffer(base64.b64decode(task), np.float16).astype(np.float32),
        )


class Segments:
    """The segments of one namespace, and the parts that no segment holds yet. Its methods are flows where they ask.

    `embedder` names what makes the vectors of the graph: segments with vectors of others are ignored.
    """

    def __init__(self, store: ExperienceStore, embedder: str) -> None:
        self._store = store
        self._embedders = [embedder, store.embedder]
        self._loose: dict[str, Part] = {}
        self._holders: dict[str, str] = {}  # key of the segment that holds a run
        self._stale: set[str] = set()  # keys of segments that hold what does not count any more
        self.vote: Vote | None = None  # as it is kept
        self._lock = threading.Lock()

    def add(self, run: str, part: Part) -> None:
        """Have the part of a run kept with the next segment."""
        with self._lock:
            self._let_go(run)
            self._loose[run] = part

    def drop(self, run: str) -> None:
        """Have nothing kept of a run."""
        with self._lock:
            self._let_go(run)

    def _let_go(self, run: str) -> None:
        self._loose.pop(run, None)
        if run in self._holders:
            self._stale.add(self._holders.pop(run))

    def is_due(self, vote: Vote | None) -> bool:
        """Whether there is something to write; beside segments, the settings of the vote are kept."""
        has_changed = vote is not None and vote != self.vote and bool(self._holders)
        return len(self._loose) >= SEGMENT or bool(self._stale) or has_changed

    def load(self, entries: Mapping[str, RunEntry]) -> Flow[dict[str, Part]]:
        """The parts that segments hold of records in their present version, by the ids of the runs."""
        items = yield from self._items()
        # Reading them takes its time, so it must not hold up an event loop.
        parts: dict[str, Part] = yield FunctionStep(partial(self._parts, entries), items)
        self._store.hold_vectors({run: part.task for run, part in parts.items() if part.task is not None})
        return parts

    def _parts(self, entries: Mapping[str, RunEntry], items: Sequence[Item]) -> dict[str, Part]:
        parts: dict[str, Part] = {}
        for item in items:
            segment = _read(item)
            if segment is None or segment["embedders"] != self._embedders:
                continue
            self.vote = segment["vote"] or self.vote
            for run, data in segment["parts"].items():
                if run in parts or not _counts(entries, run, data):
                    self._stale.add(item.key)
                    continue
                try:
                    parts[run] = Part.from_dict(data)
                except Exception as error:  # noqa: BLE001 - however it is damaged, the record is still there
                    logger.info("A part of the segment %r is made again: %r", item.key, error)
                    self._stale.add(item.key)
                else:
                    self._holders[run] = item.key
        return parts

    def write(self, vote: Vote | None) -> Flow[None]:
        """Write new segments of parts that are enough for one, and old ones without what does not count any more."""
        while len(self._loose) >= SEGMENT:
            yield from self._write_next()
        while self._stale:
            yield from self._write_again(self._stale.pop())
        if self._holders and vote != self.vote:
            self.vote = vote
            yield from self._put(VOTE, {}, self._embedders, vote)

    def erase(self, entries: Mapping[str, RunEntry]) -> Flow[None]:
        """Leave nothing in any segment of runs that have no entry, or another version, whoever has written it."""
        for item in (yield from self._items()):
            segment = (yield FunctionStep(_read, item)) or EMPTY
            left = {run for run, data in segment["parts"].items() if _counts(entries, run, data)}
            yield from self._reduce(item.key, segment, left)

    def _write_next(self) -> Flow[None]:
        with self._lock:
            page = dict(islice(self._loose.items(), SEGMENT))
        vectors = yield from self._store.vectors(list(page))
        data = {run: replace(part, task=vectors.get(run)).to_dict() for run, part in page.items()}
        # Of two processes that have come across the same runs, one overwrites what the other has written.
        key = digest([self._embedders, sorted((run, part.version) for run, part in page.items())])
        yield from self._put(key, data, self._embedders)
        there = yield from self._store.there(list(page))  # somebody may have had one forgotten meanwhile
        with self._lock:
            for run, part in page.items():
                if self._loose.get(run) is part and run in there:
                    self._holders[run] = key
                    del self._loose[run]
                else:
                    self._stale.add(key)
                if run not in there:
                    self._loose.pop(run, None)

    def _write_again(self, key: str) -> Flow[None]:
        item: Item | None = yield self._call("get", key)
        segment = None if item is None else _read(item)
        if segment is None:
            return
        with self._lock:
            left = {run for run in segment["parts"] if self._holders.get(run) == key}
            if len(left) < FEWEST:
                for run in left:
                    self._loose[run] = Part.from_dict(segment["parts"][run])
                    del self._holders[run]
                left = set()
        yield from self._reduce(key, segment, left)

    def _reduce(self, key: str, segment: Mapping[str, Any], left: Container[str]) -> Flow[None]:
        """Leave some runs in a segment; it is deleted where none is left."""
        parts = {run: data for run, data in segment["parts"].items() if run in left}
        if not parts:
            yield self._call("delete", key)
        elif len(parts) < len(segment["parts"]):
            yield from self._put(key, parts, segment["embedders"])

    def _put(
        self, key: str, parts: Mapping[str, Any], embedders: Sequence[str], vote: Vote | None = None
    ) -> Flow[None]:
        segment = {"format": FORMAT, "embedders": embedders, "parts": parts, "vote": vote}
        yield self._call("put", key, (yield FunctionStep(_written, segment)), index=False)

    def _items(self) -> Flow[list[SearchItem]]:
        store, namespace = self._store.place
        return (yield from listing(store, (*namespace, SEGMENTS)))

    def _call(self, method: Literal["get", "put", "delete"], *arguments: Any, **options: Any) -> StoreCall:
        store, namespace = self._store.place
        return StoreCall(store, method, ((*namespace, SEGMENTS), *arguments), options)


def _written(segment: Mapping[str, Any]) -> dict[str, str]:
    """A segment as an item's value: one ASCII text, as records are, and the vectors, over which no parser need go."""
    vectors: list[str] = []
    parts: dict[str, Any] = {}
    for run, part in segment["parts"].items():
        contribution = part["contribution"]
        vectors += [contribution["states"] if contribution else "", part["task"] or ""]
        parts[run] = {**part, "contribution": contribution and {**contribution, "states": ""}, "task": None}
    return {"segment": json.dumps({**segment, "parts": parts}), "vectors": " ".join(vectors)}


def _read(item: Item) -> dict[str, Any] | None:
    """What a segment holds; `None` if it is damaged, or of another format."""
    try:
        segment: dict[str, Any] = json.loads(item.value["segment"])
        if segment["format"] != FORMAT:
            return None
        vectors = iter(item.value["vectors"].split(" "))
        for part, states, task in zip(segment["parts"].values(), vectors, vectors, strict=False):
            part["task"] = task or None
            if part["contribution"]:
                part["contribution"]["states"] = states
    except (AttributeError, KeyError, TypeError, ValueError):
        logger.info("The segment %r cannot be read; what it held is made again.", item.key)
        return None
    return segment


def _counts(entries: Mapping[str, RunEntry], run: str, data: Any) -> bool:
    """Whether a part in a segment is of the present version of its record."""
    return isinstance(data, dict) and run in entries and data.get("version") == entries[run].version
