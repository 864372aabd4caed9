"""A search as an SVG picture: each call a box, the plan one line through them, from left to right."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.pages.draw import fate, figures, label, seen
from langchain_tooltree.svg import LINE, Picture, path, wrapped
from langchain_tooltree.text import counted

# All lengths are in pixels. With four columns, as in the demo, a picture is as wide as the text of a README.
MARGIN, PADDING, BOX, START = 16.0, 8.0, 178.0, 12.0  # `START` is the width of the dot that stands for the request
GAP_ACROSS, GAP_DOWN = 24.0, 8.0
LEAST_WIDTH = 560.0  # the legend needs it
HEADING, NAME, BODY, SMALL = 14.0, 12.0, 11.0, 10.0  # sizes of fonts

MOST_DRAWN = 150  # calls that a person can follow; of a larger search, the plan and those that were proposed first
LINES = {"best": ("way", 3.5), "box": ("line", 1.2), "out": ("out", 1.2)}  # looks and widths
MEANING = "r_pre: score before the call · r_post: score of its result · Q: mean reward of N rollouts · goal: task done?"


@dataclass(slots=True)
class _Box:
    """A call in the picture; the request is one without rows."""

    node: Mapping[str, Any]  # as in `SearchResult.to_dict()`
    step: int  # its place in the plan, from 1; 0 if it is not in it
    rows: Sequence[tuple[str, str, float]]  # texts, looks and sizes of fonts
    x: float
    middle: float = 0.0  # on the way down

    @property
    def look(self) -> str:
        return "best" if self.step else "out" if self.node["pruned"] else "box"

    @property
    def width(self) -> float:
        return BOX if self.rows else START

    @property
    def height(self) -> float:
        return sum(size * LINE for _, _, size in self.rows) + 2 * PADDING - 2 if self.rows else START


def to_svg(search: Mapping[str, Any]) -> str:
    """A search, as `SearchResult.to_dict()` gives it, as an SVG picture: scores, fates, the plan marked."""
    nodes, plan = search["nodes"], [search["nodes"][place] for place in search["best"]]
    calls = ", then ".join(map(label, plan)) or "none"
    answer = f" The answer there: {plan[-1]['answer']}" if plan and "answer" in plan[-1] else ""
    summary = _summary(search)
    picture = Picture(f"Search tree: {search['query'] or 'request'}", f"{summary}. The plan: {calls}.{answer}")
    boxes = _boxes(search)
    width = max(LEAST_WIDTH, *(box.x + box.width + MARGIN for box in boxes.values()))
    room = width - 2 * MARGIN
    top = picture.lines(MARGIN, MARGIN, wrapped(search["query"], room, 2, size=HEADING), "ink b", size=HEADING)
    top = picture.lines(MARGIN, top + 1, wrapped(summary, room, 2), "dim") + 12
    bottom = _place(boxes, top)
    picture.group()
    for box in sorted(boxes.values(), key=lambda box: LINES[box.look][1]):  # the plan above the others
        if (above := boxes.get(box.node["parent"])) is not None:
            x, middle = above.x + above.width, (above.x + above.width + box.x) / 2
            way = path("M", (x, above.middle), "C", (middle, above.middle), (middle, box.middle), (box.x, box.middle))
            look, thickness = LINES[box.look]
            picture.line(way, look, width=thickness)
    for box in boxes.values():
        _draw(picture, box)
    meaning = f"Green: the plan, in order. {MEANING if any(map(figures, nodes)) else ''}"
    bottom = picture.lines(MARGIN, bottom + 14, wrapped(meaning, room, 3, size=SMALL), "dim", size=SMALL)
    return picture.to_svg(width, bottom + MARGIN)


def _summary(search: Mapping[str, Any]) -> str:
    nodes, model_calls = search["nodes"], search["cost"].get("model_calls")
    parts = [
        f"{counted(len(nodes) - 1, 'call')} considered",
        f"{sum(node['observation'] is not None for node in nodes)} run",
        f"{sum(node['pruned'] is not None for node in nodes)} pruned",
        f"{model_calls} model calls" if model_calls else "",
        f"stopped: {search['stop_reason']}" if search["stop_reason"] else "",
    ]
    return " · ".join(filter(None, parts))


def _boxes(search: Mapping[str, Any]) -> dict[int, _Box]:
    """The request and the calls, parents first."""
    steps = {place: step for step, place in enumerate(search["best"], start=1)}
    boxes: dict[int, _Box] = {}
    for node in search["nodes"]:
        above, step = boxes.get(node["parent"]), steps.get(node["id"], 0)
        if not boxes:
            boxes[node["id"]] = _Box(node, step, (), MARGIN)
        elif above and (step or len(boxes) <= MOST_DRAWN):
            boxes[node["id"]] = _Box(node, step, _rows(node, step), above.x + above.width + GAP_ACROSS)
    return boxes


def _rows(node: Mapping[str, Any], step: int) -> list[tuple[str, str, float]]:
    tool, missing, pruned = node["call"]["tool"], "; ".join(node.get("missing", ())), bool(node["pruned"])
    ink = "dim" if pruned else "ink"
    texts: Sequence[tuple[str, str, float, int]] = (
        (tool, f"code b {ink}", NAME, 1),
        (label(node)[len(tool) + 1 : -1], f"code {ink}", BODY, 3),
        (f"→ {seen(node)}" if node["observation"] else "", "code dim", BODY, 2),
        (figures(node), "dim" if pruned else "score", SMALL, 2),
        (fate(node), "dim" if pruned or node.get("batched") else "open", SMALL, 2),
        (f"answer: {node['answer']}" if "answer" in node else "", "open" if missing else "good", SMALL, 3),
        (f"missing: {missing}" if missing else "", "open", SMALL, 3),
    )
    rows = []
    for place, (text, look, size, lines) in enumerate(texts):
        room = BOX - 2 * PADDING * (2 if step and place == 0 else 1)  # the number of the step stands there
        rows += [(line, look, size) for line in wrapped(text, room, lines, size=size, code="code" in look)]
    return rows


def _place(boxes: Mapping[int, _Box], top: float) -> float:
    """Give each box its place on the way down: the plan is one level line. Where the picture's lowest box ends."""
    below = defaultdict[int, list[_Box]](list)
    for box in boxes.values():
        below[box.node["parent"]].append(box)
    order, waiting = [], [boxes[0]]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(below[order[-1].node["id"]])
    high = GAP_DOWN + max(box.height for box in boxes.values())
    lowest = sum(not below[box.node["id"]] for box in order)
    y = bottom = top + lowest * high
    for box in reversed(order):  # each leaf has a row of its own; others stand beside the plan, or in the middle
        children = below[box.node["id"]]
        beside = [each for each in children if each.step] or [*children[:1], *children[-1:]]
        if beside:
            box.middle = sum(each.middle for each in beside) / len(beside)
        else:
            box.middle = y - (high + GAP_DOWN) / 2
            y -= high
    return bottom - GAP_DOWN


def _draw(picture: Picture, box: _Box) -> None:
    if not box.rows:
        picture.group("The request")
        picture.circle(box.x + START / 2, box.middle, START / 2, "badge")
        return
    reasons = "".join(f" {name}: {reason}" for name, reason in box.node.get("reasons", {}).items())
    picture.group(f"{f'Plan, step {box.step}: ' if box.step else ''}{label(box.node)}{reasons}"[:400])
    top = box.middle - box.height / 2
    picture.box(box.x, top, box.width, box.height, box.look)
    if box.step:
        x, y = box.x + box.width - PADDING - 6, top + PADDING + 6
        picture.circle(x, y, 8, "badge")
        picture.text(x, y + 3.5, str(box.step), "on b", size=SMALL, anchor="middle")
    y = top + PADDING - 2
    for text, look, size in box.rows:
        y = picture.lines(box.x + PADDING, y, [text], look, size=size)
