"""Segments: what runs give to the fold of their namespace, kept in the store, so that no process reads them all again.

A segment is one item with the parts of some hundred runs, each with the version of the record that it was made of.
Segments are a cache: what is damaged or missing is made again of the records, and nothing of a run that was forgotten
or has changed stays in one.
"""

import base64
import json
import logging
import threading
import zlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice
from typing import Any, Literal

import numpy as np
from langgraph.store.base import Item, SearchItem
from numpy.typing import NDArray

from langchain_tooltree.experience.store import ExperienceStore, RunEntry, StoreCall, listing
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

FORMAT = 3
"""Version of what stands in a segment, contributions included; what has another one is ignored."""

VOTE = "vote"
"""Key of an item without parts that holds the settings of the graph's vote: fitting them takes about a second."""

LEVEL = 3
"""Of compression: six sevenths of what vectors take are gone, and twice the effort takes away a hundredth more."""

Vote = Mapping[str, Any]


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
    task: NDArray[np.floating[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """The parts of some runs, by their ids, and what has made the vectors in them."""

    embedders: Sequence[str]
    parts: Mapping[str, Part] = field(default_factory=dict)
    vote: Vote | None = None

    def written(self) -> dict[str, str]:
        """The segment as an item's value: one ASCII text, as records are, and the vectors, compressed."""
        parts: dict[str, Any] = {}
        vectors: list[bytes] = []
        for run, part in self.parts.items():
            given = part.contribution
            states = b"" if given is None else given.states.tobytes()
            task = b"" if part.task is None else part.task.astype(np.float16).tobytes()
            vectors += [states, task]
            contribution = None if given is None else {**given.to_dict(), "states": ""}
            parts[run] = {"version": part.version, "contribution": contribution, "bytes": [len(states), len(task)]}
        text = json.dumps({"format": FORMAT, "embedders": self.embedders, "parts": parts, "vote": self.vote})
        return {"segment": text, "vectors": base64.b64encode(zlib.compress(b"".join(vectors), LEVEL)).decode()}

    @classmethod
    def read(cls, item: Item) -> "Segment | None":
        """What an item holds; `None` if it is damaged, or of another format."""
        try:
            data = json.loads(item.value["segment"])
            if data["format"] != FORMAT:
                return None
            vectors = zlib.decompress(base64.b64decode(item.value["vectors"]))
            parts, place = {}, 0
            for run, part in data["parts"].items():
                contribution, (_, middle, end) = part["contribution"], accumulate(part["bytes"], initial=place)
                if contribution is not None:
                    contribution = Contribution.from_dict({**contribution, "states": vectors[place:middle]})
                task = np.frombuffer(vectors[middle:end], np.float16) if end > middle else None
                parts[run], place = Part(part["version"], contribution, task), end
            return cls(data["embedders"], parts, data["vote"])
        except Exception as error:  # noqa: BLE001 - however it is damaged, the records are still there
            logger.info("The segment %r cannot be read; what it held is made again: %r", item.key, error)
            return None


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
            segment = Segment.read(item)
            if segment is None or segment.embedders != self._embedders:
                continue
            self.vote = segment.vote or self.vote
            for run, part in segment.parts.items():
                if run in parts or not _counts(entries, run, part):
                    self._stale.add(item.key)
                else:
                    parts[run], self._holders[run] = part, item.key
        return parts

    def write(self, vote: Vote | None) -> Flow[None]:
        """Write new segments of parts that are enough for one, and old ones without what does not count any more."""
        while len(self._loose) >= SEGMENT:
            yield from self._write_next()
        while self._stale:
            yield from self._write_again(self._stale.pop())
        if self._holders and vote != self.vote:
            self.vote = vote
            yield from self._put(VOTE, Segment(self._embedders, vote=vote))

    def erase(self, entries: Mapping[str, RunEntry]) -> Flow[None]:
        """Leave nothing in any segment of runs that have no entry, or another version, whoever has written it."""
        for item in (yield from self._items()):
            segment = (yield FunctionStep(Segment.read, item)) or Segment(())
            left = {run for run, part in segment.parts.items() if _counts(entries, run, part)}
            yield from self._reduce(item.key, segment, left)

    def _write_next(self) -> Flow[None]:
        with self._lock:
            page = dict(islice(self._loose.items(), SEGMENT))
        vectors = yield from self._store.vectors(list(page))
        parts = {run: replace(part, task=vectors.get(run)) for run, part in page.items()}
        # Of two processes that have come across the same runs, one overwrites what the other has written.
        key = digest([self._embedders, sorted((run, part.version) for run, part in page.items())])
        yield from self._put(key, Segment(self._embedders, parts))
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
        segment = None if item is None else Segment.read(item)
        if segment is None:
            return
        with self._lock:
            left = {run for run in segment.parts if self._holders.get(run) == key}
            if len(left) < FEWEST:
                for run in left:
                    self._loose[run] = segment.parts[run]
                    del self._holders[run]
                left = set()
        yield from self._reduce(key, segment, left)

    def _reduce(self, key: str, segment: Segment, left: Container[str]) -> Flow[None]:
        """Leave some runs in a segment; it is deleted where none is left."""
        parts = {run: part for run, part in segment.parts.items() if run in left}
        if not parts:
            yield self._call("delete", key)
        elif len(parts) < len(segment.parts):
            yield from self._put(key, Segment(segment.embedders, parts))

    def _put(self, key: str, segment: Segment) -> Flow[None]:
        yield self._call("put", key, (yield FunctionStep(Segment.written, segment)), index=False)

    def _items(self) -> Flow[list[SearchItem]]:
        store, namespace = self._store.place
        return (yield from listing(store, (*namespace, SEGMENTS)))

    def _call(self, method: Literal["get", "put", "delete"], *arguments: Any, **options: Any) -> StoreCall:
        store, namespace = self._store.place
        return StoreCall(store, method, ((*namespace, SEGMENTS), *arguments), options)


def _counts(entries: Mapping[str, RunEntry], run: str, part: Part) -> bool:
    """Whether a part in a segment is of the present version of its record."""
    return run in entries and part.version == entries[run].version
