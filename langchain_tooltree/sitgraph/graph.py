"""The graph: the weights of its edges (Eq. 1 and 2), and the graph as a fold over runs. Pure.

The runs in the graph decide what it is, in whatever order they were added: each gives one `Contribution`, which is
taken back as it was given.
"""

import base64
import hashlib
import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from langchain_tooltree.errors import GraphFileError
from langchain_tooltree.sitgraph.states import DIMENSIONS, END, Codes, Rows, States
from langchain_tooltree.sitgraph.transitions import VIEWS

FORMAT = 5  # version of what contributions hold; another one is refused, since they can be made again of their runs
GIVER = 32  # bits of a voice that tell tasks apart; those above tell whom it came from
SAMPLED = 512  # states of the runs that a vote is fitted to: it takes about half a second
LONG = SAMPLED // 4  # states of a run from which on a vote is not fitted to it: it would be most of the sample
UNKNOWN = -2  # number of a tool that the graph does not know


@dataclass(slots=True)
class Edge:
    """One tool followed another."""

    count: int = 0  # N_ij: how often, in all successful runs
    turns: Counter[int] = field(default_factory=Counter)  # how many of the runs that contain it have T messages, by T
    voices: Counter[int] = field(default_factory=Counter)  # how many of them are counted by a voice

    @property
    def support(self) -> int:
        """How many distinct voices followed it: tasks of whom runs came from."""
        return len(self.voices)

    @property
    def givers(self) -> int:
        """How many distinct ones these came from."""
        return len({voice >> GIVER for voice in self.voices})

    def raw_weight(self, alpha: float) -> float:
        """Eq. 1 of SIT-Graph (State Integrated Tool Graph): `w_ij = N_ij + alpha * sum over runs of 1 / T`.

        N_ij is how often successful runs followed the edge, T the number of assistant messages of a run. The paper
        leaves open how several runs are summed up. Here each successful run that contains the edge adds its 1 / T
        once, however often it follows the edge. The sum is rounded once, so it is the same in any order.
        """
        return self.count + alpha * math.fsum(runs / turns for turns, runs in self.turns.items())


Outgoing = Mapping[str, Edge]
"""The edges that leave one tool, by the tools that they lead to."""


def weights(edges: Outgoing, alpha: float) -> dict[str, float]:
    """Eq. 2 of SIT-Graph: the weights of Eq. 1, divided by their sum over all edges that leave the tool."""
    raw = {target: edge.raw_weight(alpha) for target, edge in edges.items()}
    total = math.fsum(raw.values())
    return {target: weight / total for target, weight in raw.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """What one successful run gives to the graph."""

    id: str
    turns: int  # T, its number of assistant messages
    version: int  # orders versions of equal length by how much they hold
    transitions: Sequence[tuple[str, str]]  # names of source and target, in order
    befores: Sequence[str]  # the tool before the source, for each transition and then for each end
    ends: Sequence[str]  # the last tool at each reply of the agent to its user
    states: Codes  # packed, of each transition and then of each end; shape `(n, len(VIEWS), DIMENSIONS // 2)`
    summaries: Sequence[tuple[int, str, Codes]] = ()  # place of the transition, text, packed vector
    digests: Sequence[str] = ()  # of all that each state tells of, so that it is not made again
    came_from: str = ""  # whom it came from; empty if that is not known
    voice: int = 0  # what it is counted by: a hash of whom it came from, and one of the task

    @property
    def hash(self) -> int:
        """What the run is known by among states, and the order of runs: as good as random."""
        return int.from_bytes(hashlib.blake2b(self.id.encode("utf-8", "surrogatepass"), digest_size=8).digest())

    @property
    def edition(self) -> tuple[int, int, str]:
        """Says which of two versions of a run counts: the larger one."""
        return self.turns, self.version, self.id

    @property
    def giver(self) -> int:
        """Whom it came from, as a number; a negative one of its own where that is not known."""
        giver = self.voice >> GIVER
        return giver if self.came_from else ~giver

    def to_dict(self) -> dict[str, Any]:
        """The contribution as plain data, to be kept; vectors are base64."""
        data = {name: getattr(self, name) for name in _FIELDS}
        summaries = [(place, text, _text_of(vector)) for place, text, vector in self.summaries]
        return {**data, "states": _text_of(self.states), "summaries": summaries, "format": FORMAT}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The contribution that `to_dict` has made plain data of, or JSON of that; `states` may also be bytes.

        Raises:
            GraphFileError: If another version of this package has made it; make it again of its run.
        """
        if data.get("format") != FORMAT:
            msg = (
                f"A contribution to a graph has the format {data.get('format')!r}, and this version reads {FORMAT}. "
                "Make it again: SITGraph.contribution(trajectory)."
            )
            raise GraphFileError(msg)
        given = {name: data[name] for name in _FIELDS}
        given["transitions"] = [*map(tuple, data["transitions"])]
        given["states"] = _codes_of(data["states"], len(VIEWS))
        given["summaries"] = [(place, text, _codes_of(code)[0]) for place, text, code in data["summaries"]]
        return cls(**given)


_FIELDS = tuple(each.name for each in fields(Contribution))


def _text_of(codes: Codes) -> str:
    return base64.b64encode(codes.tobytes()).decode()


def _codes_of(given: str | bytes, *shape: int) -> Codes:
    held = base64.b64decode(given) if isinstance(given, str) else given
    return np.frombuffer(held, dtype=np.uint8).reshape(-1, *shape, DIMENSIONS // 2)


class Graph:
    """Nodes, edges, and the states on them."""

    def __init__(self, contributions: Iterable[Contribution] = ()) -> None:
        self.runs: dict[str, Contribution] = {}
        self.names: list[str] = []  # of nodes, by their numbers in the labels of states
        self.states = States(len(VIEWS))
        self.summaries = States(1)
        self._numbers: dict[str, int] = {}
        self._edges: dict[str, dict[str, Edge]] = defaultdict(lambda: defaultdict(Edge))
        self._voices: dict[str, Counter[int]] = defaultdict(Counter)  # of those who went on after a tool
        self._ids: dict[int, str] = {}  # of runs, by their hashes
        self._order: list[int] = []  # these hashes, ascending
        self._given = Counter[str]()  # how many runs there are of each giver
        self._sample: tuple[Contribution, ...] | None = None
        for contribution in contributions:
            self.add(contribution)

    def __contains__(self, run: str) -> bool:
        return run in self.runs

    def __len__(self) -> int:
        return len(self.runs)

    def add(self, given: Contribution) -> bool:
        """Add what a run gives; returns whether the graph has changed.

        Of two versions of the same run the one with more turns counts, and of two of equal length the one with the
        larger version number. So their order does not matter.
        """
        kept = self.runs.get(given.id)
        if kept is not None:
            if kept.edition >= given.edition:
                return False
            self.remove(given.id)
        run = given.hash
        self.runs[given.id] = given
        self._ids[run] = given.id
        insort(self._order, run)
        self._count(given, 1)
        ways = [*given.transitions, *((last, None) for last in given.ends)]
        tools = [
            (self._number(source), self._number(before), END if target is None else self._number(target))
            for (source, target), before in zip(ways, given.befores, strict=True)
        ]
        self.states.add([(*tools[at], at, run, given.voice, given.giver) for at in range(len(tools))], given.states)
        if given.summaries:
            labels = [
                (*tools[place], at, run, given.voice, given.giver) for at, (place, *_) in enumerate(given.summaries)
            ]
            self.summaries.add(labels, np.array([vector for *_, vector in given.summaries])[:, None])
        return True

    def remove(self, run_id: str) -> bool:
        """Take a run out, as if it had never been added; returns whether it was in the graph."""
        given = self.runs.pop(run_id, None)
        if given is None:
            return False
        run = given.hash
        del self._ids[run], self._order[bisect_left(self._order, run)]
        self._count(given, -1)
        self.states.remove(run)
        self.summaries.remove(run)
        return True

    def _count(self, given: Contribution, sign: int) -> None:
        self._sample = None
        _add(self._given, given.came_from, sign)
        for source in {source for source, _ in given.transitions}:
            _add(self._voices[source], given.voice, sign)
            if not self._voices[source]:
                del self._voices[source]
        for (source, target), times in Counter(given.transitions).items():
            edges = self._edges[source]
            edge = edges[target]
            edge.count += sign * times
            _add(edge.turns, max(given.turns, 1), sign)
            _add(edge.voices, given.voice, sign)
            if not edge.count:
                del edges[target]
            if not edges:
                del self._edges[source]

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def number(self, name: str) -> int:
        """The number of a tool's node; `UNKNOWN` if there is none."""
        return self._numbers.get(name, UNKNOWN)

    def run_of(self, hash_: int) -> Contribution:
        """What the run has given that a state belongs to."""
        return self.runs[self._ids[hash_]]

    def from_giver(self, name: str) -> list[str]:
        """The runs that came from somebody, in the order of their ids."""
        return sorted(given.id for given in self.runs.values() if name and given.came_from == name)

    def runs_with(self, tool: str | None) -> list[str]:
        """The ids of the runs in which a tool was called; of all runs, without one."""
        every = self.runs.values()
        return [each.id for each in every if tool is None or any(tool in pair for pair in each.transitions)]

    @property
    def is_of_one(self) -> bool:
        """Whether all runs came from one giver, whom nobody can second."""
        return self._given[""] + len(self._given) - ("" in self._given) <= 1

    @property
    def sample(self) -> tuple[Contribution, ...]:
        """The runs that the vote is fitted to: the first in the order of their hashes, with some hundred states.

        Those of who gave more than is usual are left out: nobody is to settle for all others how states are compared.
        """
        if self._sample is None:
            sample, left, usual = [], SAMPLED, self._usual()
            for run in self._order:
                given = self.run_of(run)
                count = len(given.transitions)
                if count > LONG or (given.came_from and self._given[given.came_from] > usual):
                    continue
                if count > left:
                    break
                sample.append(given)
                left -= count
            self._sample = tuple(sample)
        return self._sample

    def states_of(self, sample: Iterable[Contribution]) -> Rows:
        """The states of some runs."""
        return self.states.of_runs([each.hash for each in sample])

    def _usual(self) -> int:
        """How many runs the giver in the middle has, of all by their number of runs: no single one can move it."""
        alone = self._given[""]
        named = sorted(count for giver, count in self._given.items() if giver)
        middle = (alone + len(named)) // 2
        return 1 if middle < alone else named[middle - alone] if named else 1

    def outgoing(self, source: str) -> Outgoing:
        """The edges that leave a tool; none for an unknown one."""
        return self._edges.get(source, {})

    def voices_after(self, source: str) -> int:
        """How many distinct voices went on after a tool, with whatever tool."""
        return len(self._voices.get(source, ()))

    def edges(self) -> Iterator[tuple[str, Outgoing]]:
        """The tools that others followed, in alphabetical order, with the edges that leave them."""
        return iter(sorted(self._edges.items()))

    def summaries_by_edge(self) -> dict[tuple[str, str], list[str]]:
        """The summaries on each edge that has any, in the order of the ids of runs."""
        found: dict[tuple[str, str], list[str]] = {}
        for _, given in sorted(self.runs.items()):
            for place, text, _ in given.summaries:
                found.setdefault(given.transitions[place], []).append(text)
        return found


def _add(counter: Counter[Any], key: Any, number: int) -> None:
    """Add to a count, of which nothing is left at 0."""
    counter[key] += number
    if not counter[key]:
        del counter[key]
