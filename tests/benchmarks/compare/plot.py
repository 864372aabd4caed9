"""The figures as one picture: success against model calls, and against the judge's noise."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from tests.benchmarks.compare.names import DEFAULT, PAPER
from tests.benchmarks.pictures import FAINT, picture

TITLE = "Tasks solved against model calls, and against the quality of the judge"
AUC = "0.95"
BUDGET = "80"

OURS = {DEFAULT: ("#D55E00", 3.0), PAPER: ("#E69F00", 2.0)}
PEER_COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#000000", "#7F7F7F", "#8A6D00", "#5D3A9B")
"""Of the palette of Okabe and Ito, which colour-blind readers can tell apart, and some darker ones; the labels stand
at the lines, so that no reader depends on colour."""

MARKERS = "os^Dv<>P"
TOP = 1.05
LABEL_GAP = 0.05
"""Least distance between two labels."""

LABEL_ROOM = 0.4
"""Width left for labels, as a part of that of the lines."""


def plot(methods: Mapping[str, Any], names: Sequence[str], path: Path) -> None:
    """Draw the methods of these names and write the picture; the suffix of the path says in which format."""
    drawn = [name for name in names if AUC in methods.get(name, {})]
    told = f"{', '.join(drawn)}: share of tasks solved by model calls, and by the AUC of the judge."
    with picture(path, TITLE, told, (11, 4.6)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, {name: methods[name][AUC]["success"] for name in drawn})
        left.set(xlabel="model calls", ylabel="share of tasks solved", title=f"Judge with AUC {AUC}")
        by_auc = {name: {auc: row["success"][BUDGET] for auc, row in methods[name].items()} for name in drawn}
        _draw(right, by_auc)
        right.set(xlabel="AUC of the judge", title=f"{BUDGET} model calls")
        left.set_ylim(0, TOP)


def _draw(axes: Axes, curves: Mapping[str, Mapping[str, float]]) -> None:
    ticks = list(next(iter(curves.values()), {}))
    peers = [name for name in curves if name not in OURS]
    ends: dict[str, float] = {}
    colours: dict[str, str] = {}
    for name, curve in curves.items():
        place = peers.index(name) if name in peers else 0
        colour, width = OURS.get(name, (PEER_COLOURS[place % len(PEER_COLOURS)], 1.3))
        marker = "o" if name in OURS else MARKERS[place % len(MARKERS)]
        places = [ticks.index(tick) for tick in curve]
        axes.plot(
            places,
            list(curve.values()),
            color=colour,
            linewidth=width,
            marker=marker,
            markersize=4,
            zorder=3 if name in OURS else 2,
        )
        ends[name], colours[name] = list(curve.values())[-1], colour
    for name, height in _spread(ends).items():
        axes.annotate(
            name,
            (len(ticks) - 1, ends[name]),
            (len(ticks) - 1 + 0.04 * len(ticks), height),
            color=colours[name],
            va="center",
            fontweight="bold" if name == DEFAULT else "normal",
            annotation_clip=False,
        )
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlim(-0.1, (len(ticks) - 1) + LABEL_ROOM * len(ticks))
    axes.grid(axis="y", color=FAINT)


def _spread(heights: Mapping[str, float]) -> dict[str, float]:
    """Heights of labels near the ends of their lines: up until none covers another, then down into view."""
    names = sorted(heights, key=lambda name: heights[name])
    placed: dict[str, float] = {}
    lowest = 0.0
    for name in names:
        placed[name] = max(heights[name], lowest)
        lowest = placed[name] + LABEL_GAP
    highest = TOP
    for name in reversed(names):
        placed[name] = min(placed[name], highest)
        highest = placed[name] - LABEL_GAP
    return placed
