"""The graph: the weights of its edges (Eq. 1 and 2), and the graph as a fold over runs. Pure.

`Outgoing.raw_weights` is Eq. 1 of SIT-Graph, `Outgoing.weights` is Eq. 2. The runs in the graph decide what it is, in
whatever order they were added.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.errors import GraphFileError
from langchain_tooltree.sitgraph.states import DIMENSIONS, END, Codes, Rows, States, sketched
from langchain_tooltree.sitgraph.transitions import VIEWS
from langchain_tooltree.sitgraph.votes import SAMPLED, Fit

INVERSE_TURN = 1 << 40  # stands for 1 in sums of 1 / T: whole numbers give the same sum in any order, floats do not

GIVER = 32  # bits of a voice that tell tasks apart; those above tell whom it came from

LONG = SAMPLED // 4  # states of a run from which on a vote is not fitted to it: it would be most of the sample
UNKNOWN = -3  # number of a tool that the graph does not know
MOST = 1 << 64  # above the place of every run in the order of `_order`

CONTRIBUTION_FORMAT = 1  # version of `Contribution.to_dict`; another one is refused, since it can be made again

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The edges that leave one tool."""

    targets: Numbers  # the tools they lead to, by the numbers of their nodes, ascending
    counts: NDArray[np.int64]  # N_ij, how often each was followed
    inverse_turns: NDArray[np.int64]  # sum of 1 / T over the runs that contain it, in units of 1 / `INVERSE_TURN`
    support: NDArray[np.int64]  # how many distinct voices followed each: tasks of whom runs came from
    givers: NDArray[np.int64]  # how many distinct ones these came from

    def taken(self, places: NDArray[np.bool_] | slice) -> "Outgoing":
        """Some of the edges."""
        return Outgoing(*(getattr(self, each.name)[places] for each in fields(self)))

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


@dataclass(frozen=True, slots=True)
class Voices:
    """Who speaks for edges: edge `i` has the voices from `offsets[i]` on, each with its number of runs."""

    offsets: NDArray[np.int64]
    voices: NDArray[np.uint64]
    runs: NDArray[np.int64]

    def of(self, edge: int) -> dict[int, int]:
        """The voices for one edge; no `Counter`, which takes three times as long to make."""
        here = slice(int(self.offsets[edge]), int(self.offsets[edge + 1]))
        return dict(zip(self.voices[here].tolist(), self.runs[here].tolist(), strict=True))


class Edges:
    """All edges, as sums over the runs that were added. Tool `i` has those from `offsets[i]` on in `stored`."""

    def __init__(self, offsets: NDArray[np.int64], stored: Outgoing, voices: Voices) -> None:
        self._offsets = offsets
        self._stored = stored
        self._voices = voices
        self._changed: dict[int, dict[int, tuple[list[int], dict[int, int]]]] = {}
        self._ready: dict[int, Outgoing] = {}

    @classmethod
    def of(
        cls,
        sources: Numbers,
        targets: Numbers,
        runs: Numbers,
        *,
        turns: Numbers,
        voices: NDArray[np.uint64],
        nodes: int,
    ) -> Self:
        """Sum up transitions, given as one array each of sources, targets and runs.

        `turns` holds T of each run, and `voices` what it is counted by.
        """
        pairs = sources.astype(np.int64) * nodes + targets
        edges, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        visits = np.unique(place.astype(np.int64) * max(len(turns), 1) + runs)
        edge, run = np.divmod(visits, max(len(turns), 1))
        inverse_turns = np.zeros(len(edges), dtype=np.int64)
        np.add.at(inverse_turns, edge, _inverse(turns[run]))
        offsets = np.searchsorted(edges, np.arange(nodes + 1, dtype=np.int64) * nodes)
        known, voice = np.unique(voices, return_inverse=True)
        spoken, times = np.unique(edge * max(len(known), 1) + voice[run], return_counts=True)
        for_edge, by_voice = np.divmod(spoken, max(len(known), 1))
        begins = np.searchsorted(for_edge, np.arange(len(edges) + 1))
        kept = (edges % max(nodes, 1)).astype(np.int32)
        # In order, so the voices of one giver for an edge stand together.
        first = np.diff(for_edge, prepend=-1).astype(bool) | np.diff(known[by_voice] >> GIVER, prepend=0).astype(bool)
        givers = np.bincount(for_edge[first], minlength=len(edges)).astype(np.int64)
        stored = Outgoing(kept, counts.astype(np.int64), inverse_turns, np.diff(begins).astype(np.int64), givers)
        return cls(offsets, stored, Voices(begins.astype(np.int64), known[by_voice], times.astype(np.int64)))

    def outgoing(self, source: int) -> Outgoing:
        """The edges that leave a tool, by the number of its node; none for a tool that nothing followed."""
        if source not in self._changed:
            return self._read(source)
        if source not in self._ready:
            changed = self._changed[source].items()
            edges = sorted(
                (target, *sums, len(voices), len({voice >> GIVER for voice in voices}))
                for target, (sums, voices) in changed
            )
            targets, *columns = np.array(edges, dtype=np.int64).reshape(-1, 5).T
            self._ready[source] = Outgoing(targets.astype(np.int32), *columns)
        return self._ready[source]

    def sources(self) -> Iterable[int]:
        """The tools that were ever followed by another."""
        stored = np.flatnonzero(np.diff(self._offsets)).tolist()
        return sorted({*stored, *self._changed})

    def add(self, transitions: Iterable[tuple[int, int]], turns: int, voice: int, *, sign: int = 1) -> None:
        """Add the transitions of a run of `turns` messages, or take them back with a `sign` of -1."""
        seen = set()
        for source, target in transitions:
            edges = self._changed.get(source)
            if edges is None:
                edges = self._changed[source] = self._taken_up(source)
            sums, voices = edges.setdefault(target, ([0, 0], {}))
            sums[0] += sign
            if (source, target) not in seen:
                seen.add((source, target))
                sums[1] += sign * int(_inverse(np.int64(turns)))
                voices[voice] = voices.get(voice, 0) + sign
                if not voices[voice]:
                    del voices[voice]
            if not sums[0]:
                del edges[target]
            self._ready.pop(source, None)

    def _taken_up(self, source: int) -> dict[int, tuple[list[int], dict[int, int]]]:
        """The stored edges of a tool, to be changed."""
        kept = self._read(source)
        first = int(self._offsets[source]) if len(kept.targets) else 0
        columns = zip(kept.targets.tolist(), kept.counts.tolist(), kept.inverse_turns.tolist(), strict=True)
        return {
            target: ([count, inverse], self._voices.of(edge))
            for edge, (target, count, inverse) in enumerate(columns, start=first)
        }

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
    voices: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # what each run is counted by
    giver_of: Numbers = field(default_factory=_nothing)  # place in `givers` of whom each run came from, or -1
    givers: tuple[str, ...] = ()  # in alphabetical order
    toolset_of: Numbers = field(default_factory=_nothing)  # place of each run's toolset in `toolsets`, or -1
    toolsets: tuple[Mapping[str, str], ...] = ()  # hash of the schema by name
    run_offsets: NDArray[np.int64] = field(default_factory=_start)  # of the transitions of each run
    sources: Numbers = field(default_factory=_nothing)  # where each transition comes from
    targets: Numbers = field(default_factory=_nothing)  # where it leads
    states: Rows = field(default_factory=lambda: Rows.empty(len(VIEWS)))  # derived from dialogues, by key
    total: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(VIEWS), DIMENSIONS), np.int64))  # their sum
    summaries: Rows = field(default_factory=lambda: Rows.empty(1))  # vectors of what agents wrote, by key
    summary_texts: Texts = field(default_factory=lambda: Texts.of(()))  # in the same order


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one successful run gives to the graph."""

    id: str
    turns: int  # T, its number of assistant messages
    version: int  # a hash of its content
    transitions: Sequence[tuple[str, str]]  # names of source and target, in order
    befores: Sequence[str]  # the tool before the source, for each transition and then for each end
    ends: Sequence[str]  # the last tool at each reply of the agent to its user
    states: Codes  # packed, of each transition and then of each end; shape (..., len(VIEWS), DIMENSIONS // 2)
    summaries: Sequence[tuple[int, str, Codes]] = ()  # place of the transition, text, packed vector
    toolset: Mapping[str, str] | None = None  # the tools that the agent had, as hash of the schema by name
    known_by: Sequence[str] = ()  # a digest of all that each state tells of
    came_from: str = ""  # whom it came from; empty if that is not known
    voice: int = 0  # what it is counted by: a hash of whom it came from, and one of the task

    def to_dict(self) -> dict[str, Any]:
        """The contribution as plain data, to be kept; vectors are base64."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        summaries = [(place, text, _text_of(codes)) for place, text, codes in self.summaries]
        return {**data, "states": _text_of(self.states), "summaries": summaries, "format": CONTRIBUTION_FORMAT}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The contribution that `to_dict` has made plain data of, or JSON of that.

        Raises:
            GraphFileError: If another version of this package has made it; make it again from its run.
        """
        if data.get("format") != CONTRIBUTION_FORMAT:
            msg = (
                f"A contribution to a graph has the format {data.get('format')!r}, and this version reads "
                f"{CONTRIBUTION_FORMAT}. Make it again: SITGraph.contribution(trajectory)."
            )
            raise GraphFileError(msg)
        return cls(
            **{
                **{each.name: data[each.name] for each in fields(cls)},
                "transitions": [(source, target) for source, target in data["transitions"]],
                "states": _codes_of(data["states"], len(VIEWS)),
                "summaries": [(place, text, _codes_of(codes, 1)) for place, text, codes in data["summaries"]],
            }
        )


def _text_of(codes: Codes) -> str:
    return base64.b64encode(codes.tobytes()).decode()


def _codes_of(text: str, views: int) -> Codes:
    """The vectors of states, or of one summary."""
    codes = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    return codes.reshape(-1, DIMENSIONS // 2) if views == 1 else codes.reshape(-1, views, DIMENSIONS // 2)


@dataclass(frozen=True, slots=True)
class MadeBefore:
    """What need not be made again of a run that goes on: packed vectors, by what they are known by."""

    states: Mapping[str, Codes] = field(default_factory=dict)
    summaries: Mapping[str, Codes] = field(default_factory=dict)  # by their text


@dataclass(frozen=True, slots=True)
class _StoredRun:
    turns: int
    version: int
    transitions: Sequence[tuple[int, int]]
    toolset: Mapping[str, str]
    known_by: Sequence[str] = ()  # its states; not known of runs from files


class Graph:
    """Nodes, edges, and the states on them."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = kept = snapshot or Snapshot()
        self.names = list(kept.names)
        self._numbers = {name: number for number, name in enumerate(kept.names)}
        self._run_numbers = {each: number for number, each in enumerate(kept.run_ids)}
        self.run_ids = list(kept.run_ids)  # by the numbers of runs in rows
        self._free: list[int] = []  # numbers of runs that were taken out: the next ones get them, as runs come and go
        self._added: dict[int, _StoredRun] = {}
        run_of = np.repeat(np.arange(len(kept.run_ids), dtype=np.int32), np.diff(kept.run_offsets))
        self._edges = Edges.of(
            kept.sources, kept.targets, run_of, turns=kept.turns, voices=kept.voices, nodes=len(kept.names)
        )
        self._voice_of: list[int] = kept.voices.tolist()  # by the numbers of runs
        # By the numbers of runs, too; empty for a run of somebody of its own.
        self._giver_of = ["" if giver < 0 else kept.givers[giver] for giver in kept.giver_of.tolist()]
        self._given = Counter(self._giver_of)  # how many runs there are of each
        self.states = States(len(VIEWS), kept.states, kept.total)
        self.summaries = States(1, kept.summaries)
        self._texts: dict[int, str] = {}
        self.fit: Fit | None = None  # of the vote of states; `None` if the runs that it goes by have changed
        self.changes = 0  # of the runs so far
        self._fitted_to = MOST  # the last of those runs, by its place in the order of `_order`
        self._fitted_each = 0  # the most runs that the giver of one of them has

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
        number = self._run_numbers[contribution.id] = self._place()
        self.run_ids[number] = contribution.id
        transitions = tuple((self._number(source), self._number(target)) for source, target in contribution.transitions)
        turns, toolset = contribution.turns, contribution.toolset or {}
        self._added[number] = _StoredRun(turns, contribution.version, transitions, toolset, contribution.known_by)
        self._voice_of[number] = contribution.voice
        self._giver_of[number] = contribution.came_from
        self._given[contribution.came_from] += 1
        self._edges.add(transitions, turns, contribution.voice)
        sources = [*(source for source, _ in transitions), *(self._number(each) for each in contribution.ends)]
        befores = [self._number(each) for each in contribution.befores]
        targets = [*(target for _, target in transitions), *(END for _ in contribution.ends)]
        keys = [_key(contribution.id, "state", place) for place in range(len(sources))]
        tools = list(zip(sources, befores, targets, strict=True))
        self.states.add(_rows(tools, number, keys, contribution.states))
        for order, (place, text, codes) in enumerate(contribution.summaries):
            key = _key(contribution.id, "summary", order)
            self._texts[key] = text
            self.summaries.add(_rows([tools[place]], number, [key], codes[None]))
        self._changed(contribution.id, number, len(transitions))
        return True

    def remove(self, run_id: str) -> bool:
        """Take a run out, as if it had never been added; returns whether it was in the graph."""
        number = self._run_numbers.pop(run_id, None)
        if number is None:
            return False
        run = self._run(number)
        self._added.pop(number, None)
        self._edges.add(run.transitions, run.turns, self._voice_of[number], sign=-1)
        giver = self._giver_of[number]
        self._given[giver] -= 1
        if not self._given[giver]:
            del self._given[giver]
        self.states.remove(number)
        for key in self.summaries.remove(number):
            self._texts.pop(key, None)
        self._changed(run_id, number, len(run.transitions))
        self.run_ids[number] = self._giver_of[number] = ""
        self._free.append(number)
        return True

    def _place(self) -> int:
        """The number of a new run."""
        if self._free:
            return self._free.pop()
        self.run_ids.append("")
        self._voice_of.append(0)
        self._giver_of.append("")
        return len(self.run_ids) - 1

    def from_giver(self, name: str) -> list[str]:
        """The runs that came from somebody, in the order of their ids."""
        return sorted(run for run, number in self._run_numbers.items() if name and self._giver_of[number] == name)

    @property
    def is_of_one(self) -> bool:
        """Whether all runs came from one giver, whom nobody can second."""
        return self._given[""] + len(self._given) - ("" in self._given) <= 1

    def givers(self, runs: Numbers) -> Numbers:
        """Whom runs came from, by numbers; a run of nobody known has one of its own."""
        places: dict[str, int] = {}
        given = ((run, self._giver_of[run]) for run in runs.tolist())
        numbers = [places.setdefault(name, len(places)) if name else -1 - run for run, name in given]
        return np.array(numbers, dtype=np.int32)

    def voices(self, runs: Numbers) -> NDArray[np.uint64]:
        """What runs are counted by."""
        return np.array([self._voice_of[run] for run in runs.tolist()], dtype=np.uint64)

    def _runs_with(self, number: int) -> int:
        """How many runs came from whom this one came from."""
        giver = self._giver_of[number]
        return self._given[giver] if giver else 1

    def _usual(self) -> int:
        """How many runs the giver in the middle has, of all by their number of runs: no single one can move it."""
        alone = self._given[""]
        named = sorted(count for giver, count in self._given.items() if giver)
        middle = (alone + len(named)) // 2
        return 1 if middle < alone else named[middle - alone] if named else 1

    def known(self, run_id: str) -> MadeBefore:
        """What a run has given, for its next version; nothing of one that was never in the graph, or is from a file."""
        number = self._run_numbers.get(run_id)
        known_by = () if number is None else self._run(number).known_by
        if number is None or not known_by:
            return MadeBefore()
        states, summaries = self.states.of_runs([number]), self.summaries.of_runs([number])
        places = {key: place for place, key in enumerate(states.keys.tolist())}
        codes = {name: states.codes[places[_key(run_id, "state", at)]] for at, name in enumerate(known_by)}
        texts = zip(map(self.summary_text, summaries.keys.tolist()), summaries.codes, strict=True)
        return MadeBefore(codes, dict(texts))

    def runs_with(self, tool: str | None) -> list[str]:
        """The ids of the runs in which a tool was called; of all runs, without one."""
        number = self.number("" if tool is None else tool)
        runs = ((run, self._run(place).transitions) for run, place in self._run_numbers.items())
        return [run for run, pairs in runs if tool is None or any(number in pair for pair in pairs)]

    def sample(self) -> Rows:
        """The states of whole runs that the vote is fitted to: the first in the order of a hash of their ids.

        Those of who gave more than is usual are left out: nobody is to settle for all others how states are compared.
        """
        first, left = [], SAMPLED
        self._fitted_to, self._fitted_each = MOST, self._usual()
        for run in sorted(self._run_numbers, key=_order):
            number = self._run_numbers[run]
            count = len(self._run(number).transitions)
            if count > LONG or self._runs_with(number) > self._fitted_each:
                continue
            if count > left:
                self._fitted_to = _order(run)
                break
            first.append(number)
            left -= count
        return self.states.of_runs(first)

    def _changed(self, run: str, number: int, count: int) -> None:
        self.changes += 1
        is_fitted_to = count <= LONG and _order(run) <= self._fitted_to
        joins_or_leaves = bool(self._giver_of[number]) and 0 <= self._runs_with(number) - self._fitted_each <= 1
        if is_fitted_to or joins_or_leaves or self._usual() != self._fitted_each:
            self.fit = None

    def outgoing(self, source: str) -> Outgoing:
        """The edges that leave a tool; none for an unknown one."""
        return self._edges.outgoing(self._numbers.get(source, len(self.names)))

    def edges(self) -> Iterator[tuple[str, Outgoing]]:
        """The tools that others followed, in alphabetical order, with the edges that leave them."""
        for source in sorted(self._edges.sources(), key=self.names.__getitem__):
            outgoing = self._edges.outgoing(source)
            if len(outgoing.targets):
                yield self.names[source], outgoing

    def number(self, name: str) -> int:
        """The number of a tool's node; `UNKNOWN` if there is none."""
        return self._numbers.get(name, UNKNOWN)

    def numbers(self, names: Iterable[str]) -> list[int]:
        """The numbers of those of some tools that the graph knows."""
        return [self._numbers[name] for name in names if name in self._numbers]

    def summary_text(self, key: int) -> str:
        """The text of a summary by its key in rows."""
        if key in self._texts:
            return self._texts[key]
        kept = self._snapshot
        return kept.summary_texts[int(np.searchsorted(kept.summaries.keys, np.uint64(key)))]

    def behind(self, most: int) -> dict[tuple[int, int], tuple[int, dict[str, int]]]:
        """How many runs followed each edge, and how often those did whose ids come first, `most` at the most."""
        counts: Counter[tuple[int, int]] = Counter()
        named: dict[tuple[int, int], dict[str, int]] = {}
        for run in sorted(self._run_numbers):
            for pair, times in Counter(self._run(self._run_numbers[run]).transitions).items():
                counts[pair] += 1
                if counts[pair] <= most:
                    named.setdefault(pair, {})[run] = times
        return {pair: (count, named[pair]) for pair, count in counts.items()}

    def summaries_behind(self, most: int) -> dict[tuple[int, int], tuple[int, list[str]]]:
        """How many summaries there are on each edge that has any, and some of those that differ."""
        rows = self.summaries.rows()
        found: dict[tuple[int, int], tuple[int, list[str]]] = {}
        for source, target, key in zip(rows.sources.tolist(), rows.targets.tolist(), rows.keys.tolist(), strict=True):
            count, texts = found.get((source, target), (0, []))
            if len(texts) < most and (text := self.summary_text(key)) not in texts:
                texts.append(text)
            found[source, target] = count + 1, texts
        return found

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
        states, summaries = self.states.rows(), self.summaries.rows()
        # A tool that was only tried, and failed, is the last one of a state and at no edge.
        reached = np.unique(np.concatenate([states.sources, states.befores])).tolist()
        used = sorted({number for run in runs for pair in run.transitions for number in pair}.union(reached))
        kept = tuple(sorted({renamed[number] for number in used}))
        places = {name: place for place, name in enumerate(kept)}
        number_of = np.array([places.get(name, -1) for name in renamed], dtype=np.int32)
        run_of = np.full(len(self.run_ids), -1, dtype=np.int32)
        run_of[run_numbers] = np.arange(len(runs))
        pairs = np.array([pair for run in runs for pair in run.transitions], dtype=np.int64).reshape(-1, 2)
        known = [_renamed(run.toolset, names) for run in runs]
        toolsets = sorted({toolset for toolset in known if toolset})
        given = [self._giver_of[number] for number in run_numbers]
        giver_places = {name: place for place, name in enumerate(sorted(set(filter(None, given))))}
        toolset_places = {toolset: place for place, toolset in enumerate(toolsets)}
        stored = self._snapshot
        texts = {int(key): stored.summary_texts[place] for place, key in enumerate(stored.summaries.keys)} | self._texts
        return Snapshot(
            names=kept,
            run_ids=tuple(run_ids),
            turns=np.array([run.turns for run in runs], dtype=np.int32),
            versions=np.array([run.version for run in runs], dtype=np.uint64),
            voices=np.array([self._voice_of[number] for number in run_numbers], dtype=np.uint64),
            giver_of=np.array([giver_places.get(name, -1) for name in given], dtype=np.int32),
            givers=tuple(giver_places),
            toolset_of=np.array([toolset_places.get(toolset, -1) for toolset in known], dtype=np.int32),
            toolsets=tuple(map(dict, toolsets)),
            run_offsets=np.cumsum([0, *(len(run.transitions) for run in runs)], dtype=np.int64),
            sources=number_of[pairs[:, 0]],
            targets=number_of[pairs[:, 1]],
            states=_renumbered(states, number_of, run_of),
            total=self.states.total.copy(),
            summaries=_renumbered(summaries, number_of, run_of),
            summary_texts=Texts.of([texts[key] for key in summaries.keys.tolist()]),
        )

    def renamed(self, names: Mapping[str, str]) -> "Graph":
        """A graph of its own with the same content under new names."""
        return Graph(self.snapshot(names))

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


def _renumbered(rows: Rows, number_of: Numbers, run_of: Numbers) -> Rows:
    """The rows of a table under the new numbers of nodes and runs."""
    targets = np.where(rows.targets == END, END, number_of[rows.targets])
    sources, befores = number_of[rows.sources], number_of[rows.befores]
    return replace(rows, sources=sources, befores=befores, targets=targets, runs=run_of[rows.runs])


def _renamed(toolset: Mapping[str, str], names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({names.get(name, name): schema for name, schema in sorted(toolset.items())}.items()))


def _key(run: str, kind: str, place: int) -> int:
    """What a row is ordered by; as good as random, and unique to its run and place."""
    text = f"{kind} {place} {run}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _order(run: str) -> int:
    """The place of a run among all: as good as random, and the same whatever else is there."""
    return int.from_bytes(hashlib.blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _rows(tools: Sequence[tuple[int, int, int]], run: int, keys: Sequence[int], codes: Codes) -> Rows:
    """Rows of one run; `tools` are the last one, the one before and the next one of each state."""
    sources, befores, targets = np.array(tools, dtype=np.int32).reshape(-1, 3).T
    return Rows(
        sources=sources,
        befores=befores,
        targets=targets,
        runs=np.full(len(targets), run, dtype=np.int32),
        keys=np.array(keys, dtype=np.uint64),
        codes=codes,
        sketches=sketched(codes),
    )


def _slice(offsets: NDArray[np.int64], place: int) -> slice:
    return slice(int(offsets[place]), int(offsets[place + 1]))
