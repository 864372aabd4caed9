"""The look of all pictures of figures: SVG with text that is text, on a page of its own, the same bytes each time."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, PAPER, PLAIN, PEER = "#B34700", "#0067A3", "#1F1F1F", "#5F5F5F"
"""Colours that colour-blind readers can tell apart, each with a contrast of more than 4.5 to the white page."""

FAINT = "#DDDDDD"

STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "svg.hashsalt": "langchain-tooltree",
    "svg.fonttype": "none",
}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
HEAD = re.compile(r"<!DOCTYPE.*?>\s*|<metadata>.*?</metadata>\s*", re.DOTALL)
"""What names other addresses, or when and by what a picture was made."""


@contextmanager
def picture(path: Path, title: str, told: str, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure to draw on, written to `path` at the end; `title` and `told` are what a screen reader says of it."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        if path.suffix != ".svg":
            figure.savefig(path, dpi=160)
            return
        figure.savefig(path, metadata=NO_METADATA)
    path.write_text(labelled(path.read_text(encoding="utf-8"), title, told), encoding="utf-8")


def labelled(svg: str, title: str, told: str) -> str:
    """The picture with a title and a description in it, and without what refers elsewhere."""
    words = f'\n <title id="title">{escape(title)}</title>\n <desc id="desc">{escape(told)}</desc>'
    role = ' role="img" aria-labelledby="title desc"'
    text = re.sub(r"<svg([^>]*)>", lambda found: f"<svg{found[1]}{role}>{words}", HEAD.sub("", svg), count=1)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def draw_price(tasks: Mapping[str, Mapping[str, Mapping[str, Any]]], path: Path) -> None:
    """The model calls of each task, as `price --json` tells them: plain, the default effort, and the paper's form."""
    drawn = {"plain": (PLAIN, "o"), "balanced": (OURS, "D"), "paper": (PAPER, "s")}
    names = {"plain": "plain agent", "balanced": "with the search", "paper": "settings of the paper"}
    told = "; ".join(
        f"{task}: " + ", ".join(f"{names[name]} {row[name]['calls']}" for name in drawn) for task, row in tasks.items()
    )
    title = "Model calls of one request: plain agent, search, and settings of the paper"
    with picture(path, title, told, (8.5, 1.6 + 0.26 * len(tasks))) as figure:
        axes = figure.subplots()
        places = range(len(tasks))
        for place, row in zip(places, tasks.values(), strict=True):
            calls = [row[name]["calls"] for name in drawn]
            axes.plot([min(calls), max(calls)], [place, place], color=FAINT, linewidth=2, zorder=1)
            axes.annotate(" / ".join(map(str, calls)), (1.02, place), xycoords=("axes fraction", "data"), va="center")
        for name, (colour, marker) in drawn.items():
            hollow = name == "plain"
            axes.plot(
                [row[name]["calls"] for row in tasks.values()],
                list(places),
                marker,
                color=colour,
                markersize=9 if hollow else 5,
                markerfacecolor="none" if hollow else colour,
                label=names[name],
            )
        axes.set_xscale("log")
        axes.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        axes.minorticks_off()
        axes.set_yticks(places, [task.replace("_", " ") for task in tasks])
        axes.invert_yaxis()
        axes.grid(axis="x", color=FAINT)
        axes.set_axisbelow(True)
        axes.set(xlabel="model calls, logarithmic; at the right: plain / search / paper", title=title)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)


SHOWN = {
    "plain": ("the agent alone", PLAIN),
    "past-the-first-stop": ("past its first stop", PEER),
    "tooltree-frugal": ("frugal", OURS),
    "tooltree-balanced": ("balanced (default)", OURS),
    "tooltree-thorough": ("thorough", OURS),
    "tooltree-before": ("without own steps", PEER),
    "best-first": ("best-first", PEER),
    "a-star": ("A*", PEER),
    "lats": ("LATS", PEER),
    "best-of-3": ("best of 3", PEER),
    "best-of-7": ("best of 7", PEER),
}
"""The policies of the picture, with their names there."""


def draw_recorded(told: Mapping[str, Any], path: Path) -> None:
    """Turns solved against model calls, as `recorded --json` tells them, with the usual judge and with the realist."""
    panels = {"judge of AUC 0.9": told["policies"]}
    if realist := told["sensitivity"].get("realist"):
        panels["realist: AUC 0.85, shares the model's errors"] = realist
    words = "; ".join(
        f"{label}, {_name(name)}: {100 * row['success']:.1f} % at {row['calls_over_plain']:.2f}"
        for label, rows in panels.items()
        for name, row in rows.items()
        if name in SHOWN
    )
    title = "Turns solved against model calls, with 95 % intervals"
    with picture(path, title, words, (6 * len(panels), 5)) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for each, (label, rows) in zip(axes, panels.items(), strict=True):
            _scatter(each, {name: rows[name] for name in SHOWN if name in rows})
            each.set(title=label, xlabel="model calls, times those of the agent alone, logarithmic")
        axes[0].set_ylabel("user turns solved, %")


def _name(policy: str) -> str:
    return SHOWN[policy][0]


def _scatter(axes: Axes, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Points with intervals; each policy has a number in both panels, as the points are too close for names."""
    lines = []
    for place, (name, row) in enumerate(rows.items(), start=1):
        label, colour = SHOWN[name]
        solved, calls = 100 * row["success"], row["calls_over_plain"]
        reach = [[solved - 100 * row["low"]], [100 * row["high"] - solved]]
        axes.errorbar(calls, solved, yerr=reach, color=colour, linewidth=0.8, alpha=0.5)
        axes.plot(calls, solved, "o", color=colour, markersize=13)
        axes.annotate(f"{place}", (calls, solved), color="white", ha="center", va="center", fontsize=8)
        lines.append((f"{place:>2}  {label}  {solved:.1f} at {calls:.2f}", colour))
    for place, (line, colour) in enumerate(reversed(lines)):
        axes.annotate(line, (0.02, 0.02 + 0.048 * place), xycoords="axes fraction", color=colour)
    axes.set_xscale("log")
    axes.set_xticks([1, 1.5, 2, 3, 5, 8], ["1", "1.5", "2", "3", "5", "8"])
    axes.minorticks_off()
    axes.set_ylim(20, 95)
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
