"""The edges of the graph and their weights. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

INVERSE_TURN = 1 << 40
"""What stands for 1 in sums of 1 / T: as whole numbers they are the same in any order."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The edges that leave one tool.

    Attributes:
        targets: The tools they lead to, by the numbers of their nodes, ascending.
        counts: N_ij, how often each was followed.
        inverse_turns: Sum of 1 / T over the runs that contain it, in units of 1 / `INVERSE_TURN`.
    """

    targets: NDArray[np.int32]
    counts: NDArray[np.int64]
    inverse_turns: NDArray[np.int64]

    def taken(self, places: NDArray[np.bool_] | slice) -> "Outgoing":
        """Some of the edges."""
        return Outgoing(self.targets[places], self.counts[places], self.inverse_turns[places])

    def raw_weights(self, alpha: float) -> NDArray[np.float64]:
        """The weights of Eq. 1 of SIT-Graph: `N_ij + alpha * sum of 1 / T`.

        T is the number of assistant messages of a run. The paper leaves open how several runs are summed up; here each
        successful run that contains the edge counts once, however often it follows the edge.

        Args:
            alpha: How much runs of few messages count for more.

        Returns:
            One weight an edge.
        """
        return self.counts + alpha * (self.inverse_turns / INVERSE_TURN)

    def weights(self, alpha: float) -> NDArray[np.float64]:
        """The weights of Eq. 2: those of Eq. 1, divided by their sum."""
        # Summed up as whole numbers: the edges may stand in another order, and the weights are to be the same.
        total = int(self.counts.sum()) + alpha * (int(self.inverse_turns.sum()) / INVERSE_TURN)
        return self.raw_weights(alpha) / max(total, 1)


class Edges:
    """All edges, as sums over the runs that were added.

    Args:
        offsets: Where the edges of each tool begin in `stored`; one more at the end.
        stored: The edges of all tools, one tool after the other.
    """

    def __init__(self, offsets: NDArray[np.int64], stored: Outgoing) -> None:
        self._offsets = offsets
        self._stored = stored
        self._changed: dict[int, dict[int, list[int]]] = {}
        self._ready: dict[int, Outgoing] = {}

    @classmethod
    def of(
        cls,
        sources: NDArray[np.int32],
        targets: NDArray[np.int32],
        runs: NDArray[np.int32],
        turns: NDArray[np.int32],
        nodes: int,
    ) -> Self:
        """Sum up transitions.

        Args:
            sources: Where each comes from, by the number of the node.
            targets: Where it leads.
            runs: The run it belongs to.
            turns: T of each run.
            nodes: Number of nodes.

        Returns:
            The edges.
        """
        pairs = sources.astype(np.int64) * nodes + targets
        edges, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        visits = np.unique(place.astype(np.int64) * max(len(turns), 1) + runs)
        edge, run = np.divmod(visits, max(len(turns), 1))
        inverse_turns = np.zeros(len(edges), dtype=np.int64)
        np.add.at(inverse_turns, edge, _inverse(turns[run]))
        offsets = np.searchsorted(edges, np.arange(nodes + 1, dtype=np.int64) * nodes)
        return cls(offsets, Outgoing((edges % max(nodes, 1)).astype(np.int32), counts.astype(np.int64), inverse_turns))

    def outgoing(self, source: int) -> Outgoing:
        """The edges that leave a tool.

        Args:
            source: The number of its node.

        Returns:
            Its edges; none for a tool that nothing followed.
        """
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
        """Add the transitions of a run, or take them back.

        Args:
            transitions: Source and target of each.
            turns: T of the run.
            sign: 1 to add, -1 to take back.
        """
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
