"""Which tool should come next: shares of the edges that leave a tool, by weight and by state. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.states import Likeness
from langchain_tooltree.sitgraph.suggestion import Mode

BANDWIDTH = 0.05
"""How quickly a stored state loses its vote as it grows less similar: by a factor of e for this difference."""

PRIOR = 0.1
"""Share of the weights of Eq. 2 beside the votes of the states."""

EVIDENCE = 3
"""Stored states shown for a suggestion."""

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Shares of the tools that may come next.

    Attributes:
        shares: One for each of the targets that were asked about; they sum to 1.
        mode: How they were found.
        likeness: The states that were compared.
        evidence: For the place of a target, the rows of `likeness` that speak most for it, best first.
    """

    shares: Shares
    mode: Mode
    likeness: Likeness | None = None
    evidence: Mapping[int, list[int]] = field(default_factory=dict)


def procedural(weights: Shares) -> Ranking:
    """Rank by weight.

    Args:
        weights: The weights of the targets (Eq. 2).

    Returns:
        The weights as shares.
    """
    return Ranking(weights, "procedural")


def contextual(targets: NDArray[np.int32], weights: Shares, likeness: Likeness, *, prior: float = PRIOR) -> Ranking:
    """Rank by a vote of the stored states, near ones counting for more (Nadaraya 1964, Watson 1964).

    Args:
        targets: The tools that may come next, by the numbers of their nodes, ascending.
        weights: Their weights (Eq. 2).
        likeness: The stored states, with the centred similarity of each view; their mean is what counts.
        prior: Share of the weights beside the votes.

    Returns:
        Their shares; by weight alone where there are no states.
    """
    rows, place = _among(targets, likeness)
    if not len(rows):
        return procedural(weights)
    near = likeness.similarities.mean(axis=1, dtype=np.float64)[rows]
    votes = likeness.rows.weights[rows] * np.exp((near - near.max()) / BANDWIDTH)
    shares = np.bincount(place, votes, minlength=len(targets)) / votes.sum()
    mixed = (1 - prior) * shares + prior * weights
    return Ranking(mixed, "contextual", likeness, _evidence(rows, place, near))


def most_similar(targets: NDArray[np.int32], likeness: Likeness) -> Shares:
    """How similar the most similar state of each edge is, by whichever of its views.

    Args:
        targets: The tools that may come next, ascending.
        likeness: The stored states.

    Returns:
        One similarity a target, at least 0; 0 where there is no state.
    """
    rows, place = _among(targets, likeness)
    best = np.zeros(len(targets))
    if len(rows):
        np.maximum.at(best, place, likeness.similarities[rows].max(axis=1))
    return best


def episodic(targets: NDArray[np.int32], similar: Shares, likeness: Likeness) -> Ranking | None:
    """Rank by the similarity of the agent's summary.

    Args:
        targets: The tools that may come next, ascending.
        similar: The similarity of each, at least 0.
        likeness: The stored summaries, for evidence.

    Returns:
        Their shares; `None` where nothing is similar.
    """
    if not similar.any():
        return None
    rows, place = _among(targets, likeness)
    near = likeness.similarities[rows].max(axis=1, initial=0.0).astype(np.float64)
    votes = np.exp((similar - similar.max()) / BANDWIDTH)
    return Ranking(votes / math.fsum(votes), "episodic", likeness, _evidence(rows, place, near))


def _among(targets: NDArray[np.int32], likeness: Likeness) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The states that lead to one of the targets, and the place of it."""
    rows = np.flatnonzero(np.isin(likeness.rows.targets, targets))
    return rows, np.searchsorted(targets, likeness.rows.targets[rows])


def _evidence(rows: NDArray[np.intp], place: NDArray[np.intp], near: Shares) -> dict[int, list[int]]:
    """The most similar of the given rows for each place."""
    evidence: dict[int, list[int]] = {}
    for each in np.argsort(-near, kind="stable").tolist():
        seen = evidence.setdefault(int(place[each]), [])
        if len(seen) < EVIDENCE:
            seen.append(int(rows[each]))
    return evidence
