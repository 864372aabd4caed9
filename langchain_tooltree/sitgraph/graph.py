"""The graph: the weights of its edges (Eq. 1 and 2), and the graph as a fold over runs.

The runs in the graph decide what it is, in whatever order they were added: each gives one `Contribution`, which is
taken back as it was given.
"""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from langchain_tooltree.sitgraph.states import END, States
from langchain_tooltree.sitgraph.transitions import VIEWS
from langchain_tooltree.text import digest

CONTRIBUTION_FORMAT_VERSION = 7  # version of what contributions hold
GIVER = 32  # bits of a voice that tell tasks apart; those above tell whom it came from
SAMPLED = (
    512  # states of the runs that a vote is fitted to: it takes about half a second
)
LONG = (
    SAMPLED // 4
)  # states of a run from which on a vote is not fitted to it: it would be most of the sample
UNKNOWN = -2  # number of a tool that the graph does not know


@dataclass(slots=True)
class Edge:
    """One tool followed another."""

    count: int = 0  # N_ij: how often, in all successful runs
    turns: Counter[int] = field(
        default_factory=Counter
    )  # how many of the runs that contain it have T messages, by T
    voices: Counter[int] = field(
        default_factory=Counter
    )  # how many of them are counted by a voice
    _efficiency: float | None = (
        None  # the sum of 1 / T over these runs, once it is asked for
    )

    @property
    def support(self) -> int:
        """How many distinct voices followed it: tasks of whom runs came from."""
        return len(self.voices)

    @property
    def givers(self) -> int:
        """How many distinct ones these came from."""
        return len({voice >> GIVER for voice in self.voices})

    def raw_weight(self, alpha: float) -> float:
        """Eq. 1 of SIT-Graph (State Integrated Tool Graph).

        The paper leaves open how several runs are summed up. Here each successful run that contains the edge adds its
        1 / T once, however often it follows the edge. The sum is rounded once, so it is the same in any order.
        """
        if (
            self._efficiency is None
        ):  # else it is the same as for the last suggestion, which weighs many edges
            self._efficiency = math.fsum(runs / T for T, runs in self.turns.items())
        # w_ij = N_ij + alpha * sum over successful runs that contain (i, j) of 1 / T
        return self.count + alpha * self._efficiency

    def add(self, contribution: "Contribution", times: int, sign: int) -> None:
        """Add what a run gives that followed the edge so many times; take it back for a sign of -1."""
        self.count += sign * times
        _add(self.turns, max(contribution.turns, 1), sign)
        _add(self.voices, contribution.voice, sign)
        self._efficiency = None


Outgoing = Mapping[
    str, Edge
]  # the edges that leave one tool, by the tools that they lead to


def weights(edges: Outgoing, alpha: float) -> dict[str, float]:
    """Eq. 2 of SIT-Graph: the weights of Eq. 1 as shares of all edges that leave the tool."""
    raw = {target: edge.raw_weight(alpha) for target, edge in edges.items()}
    total = math.fsum(raw.values())
    # w_ij / sum over k of w_ik
    return {target: weight / total for target, weight in raw.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """What one successful run gives to the graph, as data that JSON can hold: lists may stand for the tuples."""

    id: str
    turns: int  # T, its number of assistant messages
    labels: Sequence[
        Sequence[str | None]
    ]  # of states: last tool, the one before it, next one; None at an end
    states: (
        str  # `pack` of their vectors, shape `(len(labels), len(VIEWS), DIMENSIONS)`
    )
    summaries: Sequence[
        tuple[int, str]
    ] = ()  # place of the state that it is of, and text
    summary_vectors: str = (
        ""  # `pack` of theirs, shape `(len(summaries), 1, DIMENSIONS)`
    )
    came_from: str = ""  # whom it came from; empty if that is unknown
    voice: int = (
        0  # what it is counted by: a hash of whom it came from, and one of the task
    )

    @property
    def hash(self) -> int:
        """What the run is known by among states, and the order of runs: as good as random."""
        return int.from_bytes(
            hashlib.blake2b(
                self.id.encode("utf-8", "surrogatepass"), digest_size=8
            ).digest()
        )

    @property
    def transitions(self) -> list[tuple[str, str]]:
        """The names of source and target of each edge that was followed, in order."""
        return [
            (str(source), target)
            for source, _, target in self.labels
            if target is not None
        ]

    @property
    def giver(self) -> int:
        """Whom it came from, as a number; a negative one of its own where that is unknown."""
        giver = self.voice >> GIVER
        return giver if self.came_from else ~giver


class Graph:
    """Nodes, edges, and the states on them."""

    def __init__(self, contributions: Iterable[Contribution] = ()) -> None:
        self.runs: dict[str, Contribution] = {}
        self.names: list[str] = []  # of nodes, by their numbers in the labels of states
        self.states = States(len(VIEWS))
        self.summaries = States(1)
        self._numbers: dict[str, int] = {}
        self._edges: dict[str, dict[str, Edge]] = defaultdict(lambda: defaultdict(Edge))
        self._voices: dict[str, Counter[int]] = defaultdict(
            Counter
        )  # of the edges that leave a tool
        self._ids: dict[int, str] = {}  # of runs, by their hashes
        self._sample: tuple[list[int], str] | None = None
        for contribution in contributions:
            self.add(contribution)

    def __contains__(self, run: str) -> bool:
        return run in self.runs

    def __len__(self) -> int:
        return len(self.runs)

    def add(self, contribution: Contribution) -> None:
        """Add what a run gives, in place of what an earlier version of it has given."""
        self.remove(contribution.id)
        run = contribution.hash
        self.runs[contribution.id] = contribution
        self._ids[run] = contribution.id
        self._count(contribution, 1)
        whose = (run, contribution.voice, contribution.giver)
        labels = [
            (
                *(END if name is None else self._number(name) for name in names),
                place,
                *whose,
            )
            for place, names in enumerate(contribution.labels)
        ]
        self.states.add(run, labels, contribution.states)
        if contribution.summaries:
            summed_up = [
                (*labels[at][:3], place, *whose)
                for place, (at, _) in enumerate(contribution.summaries)
            ]
            self.summaries.add(run, summed_up, contribution.summary_vectors)

    def remove(self, run_id: str) -> bool:
        """Take a run out, as if it had never been added; returns whether it was in the graph."""
        contribution = self.runs.pop(run_id, None)
        if contribution is None:
            return False
        run = contribution.hash
        del self._ids[run]
        self._count(contribution, -1)
        self.states.remove(run)
        self.summaries.remove(run)
        return True

    def _count(self, contribution: Contribution, sign: int) -> None:
        """Count the edges of a run: once more for a sign of 1, once less for -1."""
        self._sample = None
        for (source, target), times in Counter(contribution.transitions).items():
            edges = self._edges[source]
            edge = edges[target]
            edge.add(contribution, times, sign)
            _add(self._voices[source], contribution.voice, sign)
            if not edge.count:
                del edges[target]
            if not edges:
                del self._edges[source], self._voices[source]

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def number(self, name: str) -> int:
        """The number of a tool's node; `UNKNOWN` if there is none."""
        return self._numbers.get(name, UNKNOWN)

    def run_of(self, hash_: int) -> Contribution:
        """The contribution of the run that a state belongs to."""
        return self.runs[self._ids[hash_]]

    def runs_with(self, tool: str | None) -> list[str]:
        """The ids of the runs in which a tool was called; of all runs, without one."""
        every = self.runs.values()
        return [
            each.id
            for each in every
            if tool is None or any(tool in pair for pair in each.transitions)
        ]

    @property
    def sample(self) -> tuple[list[int], str]:
        """The runs that the vote is fitted to, by their hashes, and a digest that changes with them.

        They are the first in the order of their hashes, with some hundred states.
        Those of who gave more than is usual are left out: nobody is to settle for all others how states are compared.
        """
        if self._sample is None:
            givers = Counter(run.giver for run in self.runs.values())
            usual = (
                median_low(givers.values()) if givers else 0
            )  # which no single one can move
            runs: list[Contribution] = []
            left = SAMPLED
            for hash_ in sorted(self._ids):
                run = self.run_of(hash_)
                count = len(run.transitions)
                if count > LONG or givers[run.giver] > usual:
                    continue
                if count > left:
                    break
                runs.append(run)
                left -= count
            whole = digest(
                [(run.id, run.voice, run.turns, *run.labels) for run in runs]
            )
            self._sample = [run.hash for run in runs], whole
        return self._sample

    def outgoing(self, source: str) -> Outgoing:
        """The edges that leave a tool; none for an unknown one."""
        return self._edges.get(source, {})

    def voices(self, source: str) -> int:
        """How many distinct voices went on after a tool."""
        return len(self._voices.get(source, ()))

    def edges(self) -> Iterator[tuple[str, Outgoing]]:
        """The tools that others followed, in alphabetical order, with the edges that leave them."""
        return iter(sorted(self._edges.items()))

    def summaries_by_edge(self) -> dict[tuple[str, str], list[str]]:
        """The summaries on each edge that has any, in the order of the ids of runs."""
        by_edge: dict[tuple[str, str], list[str]] = defaultdict(list)
        for _, run in sorted(self.runs.items()):
            for place, text in run.summaries:
                source, _, target = run.labels[place]
                by_edge[str(source), str(target)].append(text)
        return by_edge


def _add(counter: Counter[Any], key: Any, number: int) -> None:
    """Add to a count, of which nothing is left at 0."""
    if count := counter.get(key, 0) + number:
        counter[key] = count
    else:
        counter.pop(key, None)
