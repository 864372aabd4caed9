"""A tool graph as an SVG picture: from left to right as runs went, lines as thick as what often came next. Pure."""

import math
import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx

from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.svg import Picture, path, wrapped
from langchain_tooltree.text import counted

# All lengths are in pixels.
MARGIN = 16.0
BOX = 192.0
START_BOX = 64.0
BOX_HEIGHT = 40.0
ACROSS = 96.0  # between columns: the shares stand there
DOWN = 26.0
LEAST_WIDTH = 560.0  # the legend needs it
NAME = 12.0  # size of the font of a tool's name
SMALL = 10.0
HEADING = 14.0
THINNEST, THICKEST = 1.0, 7.0  # lines; the thickest, of a tool that always came next
TIP = 6.0  # length of an arrow's tip
BEND = 34.0  # how far a line between tools of one column leaves it, at least
LABEL_WIDTH = 28.0  # of a share
LABELS = (0.5, 0.62, 0.38, 0.72, 0.28, 0.8, 0.2, 0.88, 0.12)  # where on its line it may stand, the best place first
PORTS = 0.8  # part of a box's side where lines begin and end

THICK = 0.5
"""Share from which on a line is marked: the tool came next more often than all others together."""

SWEEPS = 8
"""Times that columns are put in the order of their neighbours. In graphs of 20 tools, four bring all that is gained."""

MEANING = "% beside a line: how often this tool came next, of all that came after the one before it"

Edge = tuple[str, str, Mapping[str, float]]
Point = tuple[float, float]


class _Line(NamedTuple):
    """A line from box to box, and in which direction it arrives."""

    start: Point
    near_start: Point
    near_end: Point
    end: Point
    towards: int  # 1 to the right, -1 to the left

    def at(self, t: float) -> Point:
        """A point of it, by its part of the way."""
        shares = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
        x, y = (sum(map(operator.mul, shares, each)) for each in zip(*self[:4], strict=True))
        return x, y


@dataclass(slots=True)
class _ToolBox:
    name: str
    column: int
    x: float = 0.0
    middle: float = 0.0

    @property
    def width(self) -> float:
        return BOX if self.name != START else START_BOX

    @property
    def right(self) -> float:
        return self.x + self.width


def to_svg(edges: Sequence[Edge], runs: int, *, max_edges: int) -> str:
    """A graph, given as its edges with `weight` and `count`, as a picture of those that were followed most often."""
    every = sorted(edges, key=lambda edge: (-edge[2]["count"], edge[0], edge[1]))
    shown = sorted(every[:max_edges], key=lambda edge: (edge[2]["weight"], edge[0], edge[1]))
    told = f"{counted(len({edge[1] for edge in every}), 'tool')}, {counted(runs, 'run')}, {counted(len(every), 'edge')}"
    if left_out := len(every) - len(shown):
        told += f", of which {left_out} that were followed less often are left out"
    picture = Picture("Tool graph: which tool came next", _described(told, shown))
    top = picture.lines(MARGIN, MARGIN, ["Which tool came next"], "ink b", size=HEADING)
    top = picture.lines(MARGIN, top + 1, [told], "dim") + 14
    columns = _columns(every, shown)
    boxes = _placed(columns, MARGIN, top)
    lines = _lines(boxes, shown)
    lowest = max((box.middle + BOX_HEIGHT / 2 for box in boxes.values()), default=top)
    width = max([LEAST_WIDTH, *(box.right + MARGIN for box in boxes.values())])
    _draw_lines(picture, shown, lines, boxes)
    for name, box in boxes.items():
        again = next((figures["weight"] for source, target, figures in shown if source == target == name), 0.0)
        _draw(picture, box, int(sum(figures["count"] for _, target, figures in every if target == name)), again)
    return picture.to_svg(width, _legend(picture, lowest + 20, width) + MARGIN)


def _described(told: str, shown: Sequence[Edge]) -> str:
    first = sorted(shown, key=lambda edge: (-edge[2]["count"], edge[0], edge[1]))
    ways = (f"{source or 'start'} to {target} {figures['weight']:.0%}" for source, target, figures in first)
    return f"{told}. {'; '.join(ways)}."


def _columns(every: Sequence[Edge], shown: Sequence[Edge]) -> list[list[str]]:
    """The tools by how many steps from the start they are on the way that is most probable, in a good order."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for source, target, figures in every:
        graph.add_edge(source, target, far=-math.log(max(figures["weight"], 1e-12)))
    steps = nx.single_source_dijkstra_path(graph, START, weight="far") if START in graph else {}
    column_of = {name: len(way) for name, way in steps.items()}
    found: dict[int, list[str]] = defaultdict(list)
    for name in sorted({name for source, target, _ in shown for name in (source, target)}):
        found[column_of.get(name, 1)].append(name)
    columns = [found[number] for number in sorted(found)]
    pulls: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for source, target, figures in shown:
        pulls[source].append((target, figures["weight"]))
        pulls[target].append((source, figures["weight"]))
    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            height = {name: place - (len(names) - 1) / 2 for names in columns for place, name in enumerate(names)}

            def pulled(name: str, height: Mapping[str, float] = height) -> tuple[float, str]:
                total = sum(weight for _, weight in pulls[name])
                return sum(height[other] * weight for other, weight in pulls[name]) / total, name

            column.sort(key=pulled)
    return columns


def _placed(columns: Sequence[Sequence[str]], left: float, top: float) -> dict[str, _ToolBox]:
    tallest = max(map(len, columns), default=1)
    boxes = {}
    for number, names in enumerate(columns):
        above = (tallest - len(names)) * (BOX_HEIGHT + DOWN) / 2
        for row, name in enumerate(names):
            boxes[name] = _ToolBox(name, number, left, top + above + row * (BOX_HEIGHT + DOWN) + BOX_HEIGHT / 2)
        left += max(boxes[name].width for name in names) + ACROSS
    return boxes


def _lines(boxes: Mapping[str, _ToolBox], shown: Sequence[Edge]) -> dict[tuple[str, str], _Line]:
    """The way of each line. Those at one side of a box stand beside each other, in the order of where they lead."""
    ends = [(source, target) for source, target, _ in shown if source != target]
    at_side = defaultdict[tuple[str, bool], list[tuple[float, str, bool]]](list)  # by box and whether to its right
    for source, target in ends:
        to, back = boxes[target].column >= boxes[source].column, boxes[target].column <= boxes[source].column
        # The last part is such that the two lines between tools that lead to each other do not cross.
        at_side[source, to].append((boxes[target].middle, target, to))
        at_side[target, back].append((boxes[source].middle, source, not back))
    for ports in at_side.values():
        ports.sort()

    def port(name: str, other: str, *, leaves: bool, to_the_right: bool) -> Point:
        box, ports = boxes[name], at_side[name, to_the_right]
        place = (ports.index((boxes[other].middle, other, leaves == to_the_right)) + 0.5) / len(ports) - 0.5
        return box.right if to_the_right else box.x, box.middle + BOX_HEIGHT * PORTS * place

    lines = {}
    for source, target in ends:
        onward, back = (boxes[target].column - boxes[source].column >= 0, boxes[target].column <= boxes[source].column)
        start = port(source, target, leaves=True, to_the_right=onward)
        x, y = port(target, source, leaves=False, to_the_right=back)
        end = (x + TIP, y) if back else (x - TIP, y)
        level = onward and back
        reach = BEND + abs(start[1] - end[1]) / 6 if level else max(abs(end[0] - start[0]) / 2, BEND)
        near_start = start[0] + (reach if onward else -reach), start[1]
        near_end = end[0] + (reach if back else -reach), end[1]
        lines[source, target] = _Line(start, near_start, near_end, end, -1 if back else 1)
    return lines


def _draw_lines(
    picture: Picture, shown: Sequence[Edge], lines: Mapping[tuple[str, str], _Line], boxes: Mapping[str, _ToolBox]
) -> None:
    """The lines, the thickest above the others, and above them all the shares, where there is room."""
    picture.group()
    drawn = [(lines[source, target], figures["weight"]) for source, target, figures in shown if source != target]
    for line, weight in drawn:
        look = "way" if weight >= THICK else "line"
        width = THINNEST + (THICKEST - THINNEST) * weight
        picture.line(path("M", line.start, "C", line.near_start, line.near_end, line.end), look, width=width)
        (x, y), wide = line.end, TIP / 2 + width / 2
        corners = (x, y + wide), (x + line.towards * TIP, y), (x, y - wide)
        picture.shape(path("M", corners[0], "L", *corners[1:], "Z"), "badge" if weight >= THICK else "tip")
    taken = [(box.x + box.width / 2, box.middle, box.width / 2, BOX_HEIGHT / 2) for box in boxes.values()]
    for line, weight in reversed(drawn):
        free = [line.at(t) for t in LABELS if not _overlaps(line.at(t), taken)]
        x, y = free[0] if free else line.at(LABELS[0])
        taken.append((x, y, LABEL_WIDTH / 2, SMALL / 2))
        look = "halo ink b" if weight >= THICK else "halo dim"
        picture.text(x, y + 3.5, f"{weight:.0%}", look, size=SMALL, anchor="middle")


def _overlaps(point: Point, taken: Sequence[tuple[float, float, float, float]]) -> bool:
    """Whether a share at a point would stand upon a box or another share, given by middles and half sizes."""
    return any(
        abs(point[0] - x) < half_width + LABEL_WIDTH / 2 and abs(point[1] - y) < half_height + SMALL / 2
        for x, y, half_width, half_height in taken
    )


def _draw(picture: Picture, box: _ToolBox, count: int, again: float) -> None:
    top = box.middle - BOX_HEIGHT / 2
    picture.group(box.name or "Where runs begin")
    if box.name == START:
        picture.box(box.x, box.middle - 14, box.width, 28, "best", round_by=14)
        picture.text(box.x + box.width / 2, box.middle + 4, "start", "ink b", size=NAME, anchor="middle")
        return
    picture.box(box.x, top, box.width, BOX_HEIGHT, "box")
    y = picture.lines(
        box.x + 8, top + 4, wrapped(box.name, box.width - 16, size=NAME, code=True), "code b ink", size=NAME
    )
    called = f"{count} time{'s' if count != 1 else ''}" + (f", {again:.0%} again at once" if again else "")
    picture.lines(box.x + 8, y, wrapped(called, box.width - 16, size=SMALL), "dim", size=SMALL)


def _legend(picture: Picture, top: float, width: float) -> float:
    """What lines mean; where it ends."""
    picture.group()
    picture.line(path("M", (MARGIN, top + 6), "L", (MARGIN + 26, top + 6)), "way", width=5)
    picture.text(MARGIN + 34, top + 10, "at least half of the time", "ink", size=SMALL)
    picture.line(path("M", (MARGIN + 180, top + 6), "L", (MARGIN + 206, top + 6)), "line", width=1.5)
    picture.text(MARGIN + 214, top + 10, "less often", "ink", size=SMALL)
    return picture.lines(MARGIN, top + 19, wrapped(MEANING, width - 2 * MARGIN, 3, size=SMALL), "dim", size=SMALL)
