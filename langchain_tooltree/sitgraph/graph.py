"""The graph: the weights of its edges (Eq. 1 and 2), and the graph as a fold over runs. Pure.

`Outgoing.raw_weights` is Eq. 1 of SIT-Graph, `Outgoing.weights` is Eq. 2. The runs in the graph decide what it is, in
whatever order they were added.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.states import Codes, Rows, SourceStates, sketched
from langchain_tooltree.sitgraph.transitions import VIEWS

INVERSE_TURN = 1 << 40  # stands for 1 in sums of 1 / T: whole numbers give the same sum in any order, floats do not

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The edges that leave one tool."""

    targets: Numbers  # the tools they lead to, by the numbers of their nodes, ascending
    counts: NDArray[np.int64]  # N_ij, how often each was followed
    inverse_turns: NDArray[np.int64]  # sum of 1 / T over the runs that contain it, in units of 1 / `INVERSE_TURN`

    def taken(self, places: NDArray[np.bool_] | slice) -> "Outgoing":
        """Some of the edges."""
        return Outgoing(self.targets[places], self.counts[places], self.inverse_turns[places])

    def raw_weights(self, alpha: float) -> NDArray[np.float64]:
        """Eq. 1 of SIT-Graph (State Integrated Tool Graph): `w_ij = N_ij + alpha * sum over runs of 1 / T`.

        N_ij is how often successful runs followed the edge, T the number of assistant messages of a run. The paper
        leaves open how several runs are summed up. Here each successful run that contains the edge adds its 1 / T
        once, however often it follows the edge.
        """
        return self.counts + alpha * (self.inverse_turns / INVERSE_TURN)

    def weights(self, alpha: float) -> NDArray[np.float64]:
        """Eq. 2 of SIT-Graph: the weights of Eq. 1, divided by their sum over all edges that leave the tool."""
        # The sum is over whole numbers, so it is the same in whatever order the edges stand.
        total = int(self.counts.sum()) + alpha * (int(self.inverse_turns.sum()) / INVERSE_TURN)
        return self.raw_weights(alpha) / max(total, 1)


class Edges:
    """All edges, as sums over the runs that were added. Tool `i` has those from `offsets[i]` on in `stored`."""

    def __init__(self, offsets: NDArray[np.int64], stored: Outgoing) -> None:
        self._offsets = offsets
        self._stored = stored
        self._changed: dict[int, dict[int, list[int]]] = {}
        self._ready: dict[int, Outgoing] = {}

    @classmethod
    def of(cls, sources: Numbers, targets: Numbers, runs: Numbers, turns: Numbers, nodes: int) -> Self:
        """Sum up transitions, given as one array each of sources, targets and runs; `turns` holds T of each run."""
        pairs = sources.astype(np.int64) * nodes + targets
        edges, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        visits = np.unique(place.astype(np.int64) * max(len(turns), 1) + runs)
        edge, run = np.divmod(visits, max(len(turns), 1))
        inverse_turns = np.zeros(len(edges), dtype=np.int64)
        np.add.at(inverse_turns, edge, _inverse(turns[run]))
        offsets = np.searchsorted(edges, np.arange(nodes + 1, dtype=np.int64) * nodes)
        return cls(offsets, Outgoing((edges % max(nodes, 1)).astype(np.int32), counts.astype(np.int64), inverse_turns))

    def outgoing(self, source: int) -> Outgoing:
        """The edges that leave a tool, by the number of its node; none for a tool that nothing followed."""
        if source not in self._changed:
            return self._read(source)
        if source not in self._ready:
            edges = sorted((target, *sums) for target, sums in self._changed[source].items())
            columns = np.array(edges, dtype=np.int64).reshape(-1, 3).T
            self._ready[source] = Outgoing(columns[0].astype(np.int32), columns[1], columns[2])
        return self._ready[source]

    def sources(self) -> Iterable[int]:
        """The tools that were ever followed by another."""
        stored = np.flatnonzero(np.diff(self._offsets)).tolist()
        return sorted({*stored, *self._changed})

    def add(self, transitions: Iterable[tuple[int, int]], turns: int, *, sign: int = 1) -> None:
        """Add the transitions of a run of `turns` messages, or take them back with a `sign` of -1."""
        seen = set()
        for source, target in transitions:
            edges = self._changed.get(source)
            if edges is None:
                kept = self._read(source)
                columns = zip(kept.targets.tolist(), kept.counts.tolist(), kept.inverse_turns.tolist(), strict=True)
                edges = self._changed[source] = {each: [count, inverse] for each, count, inverse in columns}
            sums = edges.setdefault(target, [0, 0])
            sums[0] += sign
            if (source, target) not in seen:
                seen.add((source, target))
                sums[1] += sign * int(_inverse(np.int64(turns)))
            if not sums[0]:
                del edges[target]
            self._ready.pop(source, None)

    def _read(self, source: int) -> Outgoing:
        known = source + 1 < len(self._offsets)
        return self._stored.taken(slice(*self._offsets[source : source + 2].tolist()) if known else slice(0))


def _inverse(turns: NDArray[np.integer] | np.int64) -> NDArray[np.int64]:
    return np.asarray(np.rint(INVERSE_TURN / np.maximum(turns, 1)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one after the other in UTF-8, and where each begins: a file of them need not be read to find one."""

    offsets: NDArray[np.int64]
    characters: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Store texts."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))

    def __getitem__(self, place: int) -> str:
        here = self.characters[self.offsets[place] : self.offsets[place + 1]]
        return here.tobytes().decode("utf-8", "surrogatepass")


_nothing: Callable[[], Any] = partial(np.zeros, 0, np.int32)
_start: Callable[[], Any] = partial(np.zeros, 1, np.int64)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A graph in columns, by default one without runs. Offsets say where each begins, with one more at the end."""

    names: tuple[str, ...] = ()  # of the nodes, in alphabetical order; a node's number is its place here
    run_ids: tuple[str, ...] = ()  # in alphabetical order
    turns: Numbers = field(default_factory=_nothing)  # T of each run
    versions: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # hash of each run's content
    toolset_of: Numbers = field(default_factory=_nothing)  # place of each run's toolset in `toolsets`, or -1
    toolsets: tuple[Mapping[str, str], ...] = ()  # hash of the schema by name
    run_offsets: NDArray[np.int64] = field(default_factory=_start)  # of the transitions of each run
    sources: Numbers = field(default_factory=_nothing)  # where each transition comes from
    targets: Numbers = field(default_factory=_nothing)  # where it leads
    state_offsets: NDArray[np.int64] = field(default_factory=_start)  # of the states of each node
    states: Rows = field(default_factory=lambda: Rows.empty(len(VIEWS)))  # derived from dialogues, by source and key
    summary_offsets: NDArray[np.int64] = field(default_factory=_start)  # of the summaries of each node
    summaries: Rows = field(default_factory=lambda: Rows.empty(1))  # vectors of what agents wrote, by source and key
    summary_texts: Texts = field(default_factory=lambda: Texts.of(()))  # in the same order


def offsets_of(numbers: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Where each number begins in an ascending list of numbers below `count`; one more at the end."""
    return np.searchsorted(numbers, np.arange(count + 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one successful run gives to the graph."""

    id: str
    turns: int  # T, its number of assistant messages
    version: int  # a hash of its content
    transitions: Sequence[tuple[str, str]]  # names of source and target, in order
    states: Codes  # packed, shape (len(transitions), len(VIEWS), DIMENSIONS // 2)
    summaries: Sequence[tuple[int, str, Codes]] = ()  # place of the transition, text, packed vector
    toolset: Mapping[str, str] | None = None  # the tools that the agent had, as hash of the schema by name


@dataclass(frozen=True, slots=True)
class _StoredRun:
    turns: int
    version: int
    transitions: Sequence[tuple[int, int]]
    toolset: Mapping[str, str]


class Graph:
    """Nodes, edges, and the states on them. At most `max_states` states an edge are compared; `None` for all."""

    def __init__(self, snapshot: Snapshot | None = None, *, max_states: int | None) -> None:
        self._snapshot = kept = snapshot or Snapshot()
        self._max_states = max_states
        self.names = list(kept.names)
        self._numbers = {name: number for number, name in enumerate(kept.names)}
        self._run_numbers = {each: number for number, each in enumerate(kept.run_ids)}
        self.run_ids = list(kept.run_ids)  # by the numbers of runs in rows
        self._added: dict[int, _StoredRun] = {}
        run_of = np.repeat(np.arange(len(kept.run_ids), dtype=np.int32), np.diff(kept.run_offsets))
        self._edges = Edges.of(kept.sources, kept.targets, run_of, kept.turns, len(kept.names))
        self._tables: dict[tuple[int, str], SourceStates] = {}
        self._texts: dict[int, str] = {}

    def __contains__(self, run: str) -> bool:
        return run in self._run_numbers

    def __len__(self) -> int:
        return len(self._run_numbers)

    def add(self, contribution: Contribution) -> bool:
        """Add a run; returns whether the graph has changed.

        Of two versions of the same run the one with more turns counts, and of two of equal length the one with the
        larger version number. So their order does not matter.
        """
        known = self._run_numbers.get(contribution.id)
        if known is not None:
            kept = self._run(known)
            if (kept.turns, kept.version) >= (contribution.turns, contribution.version):
                return False
            self.remove(contribution.id)
        number = self._run_numbers[contribution.id] = len(self.run_ids)
        self.run_ids.append(contribution.id)
        transitions = tuple((self._number(source), self._number(target)) for source, target in contribution.transitions)
        turns, toolset = contribution.turns, contribution.toolset or {}
        self._added[number] = _StoredRun(turns, contribution.version, transitions, toolset)
        self._edges.add(transitions, turns)
        places: dict[int, list[int]] = {}
        for place, (source, _) in enumerate(transitions):
            places.setdefault(source, []).append(place)
        for source, here in places.items():
            targets = [transitions[place][1] for place in here]
            keys = [_key(contribution.id, "state", place) for place in here]
            self._table(source, "states").add(_rows(targets, number, keys, contribution.states[here]))
        for order, (place, text, codes) in enumerate(contribution.summaries):
            source, target = transitions[place]
            key = _key(contribution.id, "summary", order)
            self._texts[key] = text
            self._table(source, "summaries").add(_rows([target], number, [key], codes[None]))
        return True

    def remove(self, run_id: str) -> bool:
        """Take a run out, as if it had never been added; returns whether it was in the graph."""
        number = self._run_numbers.pop(run_id, None)
        if number is None:
            return False
        run = self._run(number)
        self._added.pop(number, None)
        self._edges.add(run.transitions, run.turns, sign=-1)
        for source in {source for source, _ in run.transitions}:
            self._table(source, "states").remove(number)
            for key in self._table(source, "summaries").remove(number):
                self._texts.pop(key, None)
        return True

    def outgoing(self, source: str) -> Outgoing:
        """The edges that leave a tool; none for an unknown one."""
        return self._edges.outgoing(self._numbers.get(source, len(self.names)))

    def edges(self) -> Iterator[tuple[str, Outgoing]]:
        """The tools that others followed, in alphabetical order, with the edges that leave them."""
        for source in sorted(self._edges.sources(), key=self.names.__getitem__):
            outgoing = self._edges.outgoing(source)
            if len(outgoing.targets):
                yield self.names[source], outgoing

    def numbers(self, names: Iterable[str]) -> list[int]:
        """The numbers of those of some tools that the graph knows."""
        return [self._numbers[name] for name in names if name in self._numbers]

    def states(self, source: str) -> SourceStates:
        """The states derived from dialogues at the edges that leave a known tool."""
        return self._table(self._numbers[source], "states")

    def summaries(self, source: str) -> SourceStates:
        """The summaries at the edges that leave a known tool."""
        return self._table(self._numbers[source], "summaries")

    def summary_text(self, source: str, key: int) -> str:
        """The text of a summary by its key in rows."""
        if key in self._texts:
            return self._texts[key]
        kept = self._snapshot
        here = _slice(kept.summary_offsets, self._numbers[source])
        return kept.summary_texts[here.start + int(np.searchsorted(kept.summaries.keys[here], np.uint64(key)))]

    def toolsets(self) -> Iterator[Mapping[str, str]]:
        """The tools of each run for which they are known, as hash of the schema by name."""
        for number in self._run_numbers.values():
            if toolset := self._run(number).toolset:
                yield toolset

    def snapshot(self, names: Mapping[str, str] | None = None) -> Snapshot:
        """Everything in an order that depends on the runs alone. Nodes that get the same name become one."""
        names = names or {}
        renamed = [names.get(name, name) for name in self.names]
        run_ids = sorted(self._run_numbers)
        run_numbers = [self._run_numbers[each] for each in run_ids]
        runs = [self._run(number) for number in run_numbers]
        used = sorted({number for run in runs for pair in run.transitions for number in pair})
        kept = tuple(sorted({renamed[number] for number in used}))
        places = {name: place for place, name in enumerate(kept)}
        number_of = np.array([places.get(name, -1) for name in renamed], dtype=np.int32)
        run_of = np.full(len(self.run_ids), -1, dtype=np.int32)
        run_of[run_numbers] = np.arange(len(runs))
        pairs = np.array([pair for run in runs for pair in run.transitions], dtype=np.int64).reshape(-1, 2)
        known = [_renamed(run.toolset, names) for run in runs]
        toolsets = sorted({toolset for toolset in known if toolset})
        toolset_places = {toolset: place for place, toolset in enumerate(toolsets)}
        state_sources, states = self._gathered("states", used, number_of, run_of)
        summary_sources, summaries = self._gathered("summaries", used, number_of, run_of)
        stored = self._snapshot
        texts = {int(key): stored.summary_texts[place] for place, key in enumerate(stored.summaries.keys)} | self._texts
        return Snapshot(
            names=kept,
            run_ids=tuple(run_ids),
            turns=np.array([run.turns for run in runs], dtype=np.int32),
            versions=np.array([run.version for run in runs], dtype=np.uint64),
            toolset_of=np.array([toolset_places.get(toolset, -1) for toolset in known], dtype=np.int32),
            toolsets=tuple(map(dict, toolsets)),
            run_offsets=np.cumsum([0, *(len(run.transitions) for run in runs)], dtype=np.int64),
            sources=number_of[pairs[:, 0]],
            targets=number_of[pairs[:, 1]],
            state_offsets=offsets_of(state_sources, len(kept)),
            states=states,
            summary_offsets=offsets_of(summary_sources, len(kept)),
            summaries=summaries,
            summary_texts=Texts.of([texts[key] for key in summaries.keys.tolist()]),
        )

    def renamed(self, names: Mapping[str, str]) -> "Graph":
        """A graph of its own with the same content under new names."""
        graph = Graph(self.snapshot(names), max_states=self._max_states)
        for source in range(len(graph.names)):
            graph._table(source, "states").spread()  # an edge may have become of two
        return graph

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def _run(self, number: int) -> _StoredRun:
        if number in self._added:
            return self._added[number]
        kept = self._snapshot
        here = _slice(kept.run_offsets, number)
        pairs = zip(kept.sources[here].tolist(), kept.targets[here].tolist(), strict=True)
        toolset = int(kept.toolset_of[number])
        tools = kept.toolsets[toolset] if toolset >= 0 else {}
        return _StoredRun(int(kept.turns[number]), int(kept.versions[number]), tuple(pairs), tools)

    def _table(self, source: int, kind: Literal["states", "summaries"]) -> SourceStates:
        """The states or the summaries at the edges that leave a tool, read from the snapshot when first used."""
        if (source, kind) not in self._tables:
            kept = self._snapshot
            if kind == "states":
                rows, offsets, most = kept.states, kept.state_offsets, self._max_states
            else:
                rows, offsets, most = kept.summaries, kept.summary_offsets, None
            stored = rows.taken(_slice(offsets, source) if source < len(kept.names) else slice(0))
            self._tables[source, kind] = SourceStates(rows.codes.shape[1], max_states=most, stored=stored)
        return self._tables[source, kind]

    def _gathered(
        self, kind: Literal["states", "summaries"], sources: Iterable[int], number_of: Numbers, run_of: Numbers
    ) -> tuple[Numbers, Rows]:
        """The rows of all tools under their new numbers, by source and key, and the source of each."""
        parts = [(number_of[source], self._table(source, kind).rows()) for source in sources]
        nothing: Rows = getattr(self._snapshot, kind).taken(slice(0))
        rows = Rows.joined([nothing, *(part for _, part in parts)])
        rows = replace(rows, targets=number_of[rows.targets], runs=run_of[rows.runs])
        origin = np.repeat([source for source, _ in parts], [len(part) for _, part in parts]).astype(np.int32)
        order = np.lexsort((rows.keys, origin))
        return origin[order], rows.taken(order)


def _renamed(toolset: Mapping[str, str], names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({names.get(name, name): schema for name, schema in sorted(toolset.items())}.items()))


def _key(run: str, kind: str, place: int) -> int:
    """What a row is ordered by; as good as random, and unique to its run and place."""
    text = f"{kind} {place} {run}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _rows(targets: Sequence[int], run: int, keys: Sequence[int], codes: Codes) -> Rows:
    return Rows(
        targets=np.array(targets, dtype=np.int32),
        runs=np.full(len(targets), run, dtype=np.int32),
        keys=np.array(keys, dtype=np.uint64),
        weights=np.ones(len(targets), dtype=np.int32),
        codes=codes,
        sketches=sketched(codes),
    )


def _slice(offsets: NDArray[np.int64], place: int) -> slice:
    return slice(int(offsets[place]), int(offsets[place + 1]))
