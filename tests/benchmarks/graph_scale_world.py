"""A large graph out of nothing: tools that are used by Zipf's law, and states that are alike within a topic."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tests.internals.sitgraph import DIMENSIONS, VIEWS, Codes, Floats, Rows, Snapshot, packed, sketched, summed

RUN_LENGTH = 10
TOPICS = 2_000
NOISE = 0.8
CHUNK = 20_000


@dataclass(frozen=True)
class World:
    """Who calls what.

    Args:
        tools: Number of tools.
        states: Number of states that can be compared, after the cap.
        max_states: The cap an edge.
        seed: Of everything random.
    """

    tools: int
    states: int
    max_states: int
    seed: int = 0

    def snapshot(self) -> Snapshot:
        """The graph: as much traffic as it takes until so many states are stored."""
        draw = np.random.default_rng(self.seed)
        sources, targets = self._traffic(draw)
        stored = self._under_the_cap(sources, targets)
        runs = np.arange(len(sources), dtype=np.int32) // RUN_LENGTH
        count = int(runs[-1]) + 1
        keys = draw.integers(0, 2**63, size=len(stored), dtype=np.uint64)
        order = np.argsort(keys)
        rows = replace(
            Rows.empty(len(VIEWS)),
            targets=targets[stored][order],
            runs=runs[stored][order],
            keys=keys[order],
            sources=sources[stored][order],
            befores=np.zeros(len(stored), dtype=np.int32),
            **self._vectors(draw, len(stored)),
        )
        return replace(
            Snapshot(),
            names=tuple(f"tool_{number:05}" for number in range(self.tools)),
            run_ids=tuple(f"run_{number:08}" for number in range(count)),
            turns=np.full(count, RUN_LENGTH, dtype=np.int32),
            versions=np.zeros(count, dtype=np.uint64),
            voices=np.arange(count, dtype=np.uint64) << np.uint64(32),
            giver_of=np.full(count, -1, dtype=np.int32),
            toolset_of=np.full(count, -1, dtype=np.int32),
            run_offsets=np.searchsorted(runs, np.arange(count + 1)).astype(np.int64),
            sources=sources,
            targets=targets,
            states=rows,
            total=sum(summed(rows.codes[begin : begin + CHUNK]) for begin in range(0, len(rows), CHUNK)),
        )

    def questions(self, count: int) -> Iterator[tuple[str, Floats]]:
        """Tools, drawn as they are used, each with a state."""
        draw = np.random.default_rng(self.seed + 1)
        prototypes = self._prototypes()
        for source in _zipf(draw, self.tools, count):
            yield f"tool_{source:05}", self._states(draw, prototypes, 1)[0]

    def contributions(self, count: int) -> Iterator[tuple[list[tuple[str, str]], Codes]]:
        """Transitions and packed states of new runs."""
        draw = np.random.default_rng(self.seed + 2)
        prototypes = self._prototypes()
        for _ in range(count):
            sources = _zipf(draw, self.tools, RUN_LENGTH)
            targets = self._followers(draw, sources)
            named = [
                (f"tool_{source:05}", f"tool_{target:05}") for source, target in zip(sources, targets, strict=True)
            ]
            yield named, packed(self._states(draw, prototypes, RUN_LENGTH))

    def _traffic(self, draw: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        sources, targets = np.zeros((2, 0), dtype=np.int32)
        while len(self._under_the_cap(sources, targets)) < self.states:
            more = _zipf(draw, self.tools, max(self.states // 8, 1_000))
            sources = np.concatenate([sources, more])
            targets = np.concatenate([targets, self._followers(draw, more)])
        enough = self._under_the_cap(sources, targets)[self.states - 1] + 1
        return sources[:enough], targets[:enough]

    def _under_the_cap(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.intp]:
        """The places of the first `max_states` transitions of each edge."""
        edges = sources.astype(np.int64) * self.tools + targets
        order = np.argsort(edges, kind="stable")
        first = np.searchsorted(edges[order], edges[order])
        return np.sort(order[np.arange(len(edges)) - first < self.max_states])

    def _followers(self, draw: np.random.Generator, sources: NDArray[np.int32]) -> NDArray[np.int32]:
        """What follows each tool: by Zipf's law as well, in another order for each tool."""
        ranks = _zipf(draw, self.tools, len(sources)).astype(np.int64)
        return ((ranks * (2 * sources.astype(np.int64) + 7919) + 31 * sources) % self.tools).astype(np.int32)

    def _prototypes(self) -> Floats:
        draw = np.random.default_rng(self.seed + 3)
        return draw.standard_normal((TOPICS, len(VIEWS), DIMENSIONS), dtype=np.float32)

    def _states(self, draw: np.random.Generator, prototypes: Floats, count: int) -> Floats:
        """States near a topic, of unit length in every view."""
        states = prototypes[draw.integers(TOPICS, size=count)]
        states = states + np.float32(NOISE) * draw.standard_normal(states.shape, dtype=np.float32)
        return (states / np.linalg.norm(states, axis=2, keepdims=True)).astype(np.float32)

    def _vectors(self, draw: np.random.Generator, count: int) -> dict[str, NDArray[np.generic]]:
        empty = Rows.empty(len(VIEWS), count)
        prototypes = self._prototypes()
        for begin in range(0, count, CHUNK):
            here = slice(begin, min(begin + CHUNK, count))
            empty.codes[here] = packed(self._states(draw, prototypes, here.stop - begin))
            empty.sketches[here] = sketched(empty.codes[here])
        return {"codes": empty.codes, "sketches": empty.sketches}


def _zipf(draw: np.random.Generator, tools: int, count: int) -> NDArray[np.int32]:
    """Ranks drawn by Zipf's law with exponent 1."""
    shares = 1 / np.arange(1, tools + 1)
    return np.searchsorted(np.cumsum(shares / shares.sum()), draw.random(count)).clip(0, tools - 1).astype(np.int32)
