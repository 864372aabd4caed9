"""A search as an SVG picture: each call a box, the plan one line through them, from left to right or, if long, down."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_tooltree.svg import LINE, Picture, level_curve, path, wrapped
from langchain_tooltree.tooltree.draw import REASONS, fate, figures, label, seen
from langchain_tooltree.tooltree.search.tree import ROOT

# All lengths are in pixels. With four columns, as in the demo, a picture is as wide as the text of a README.
MARGIN = 16.0
BOX = 178.0
PADDING = 8.0
GAP_ACROSS = 24.0
GAP_DOWN = 8.0
INDENT = 28.0  # of what follows, where calls stand below each other
START_WIDTH = 12.0  # of the dot that stands for the request
LEAST_WIDTH = 560.0  # the legend needs it
NAME = 12.0  # size of the font of a tool's name
BODY = 11.0
SMALL = 10.0
HEADING = 14.0

MOST_DRAWN = 150
"""Calls in a picture: about the most that a person follows. Of a larger search the most promising are drawn."""

MOST_STEPS = 6
"""Steps up to which calls stand from left to right. A picture of more would be too wide to read as part of a page, so
that its calls stand below each other, the plan first, in boxes twice as wide."""

UNBROKEN = 40
"""Characters from which on a word is no word of a language, and may be of capitals throughout."""

CAPITALS = 1.5
"""How much wider bold capitals are than `EM_IN_TEXT`, on average."""

MEANING = (
    "r_pre: score before the call · r_post: score of its result · Q: mean reward of N rollouts "
    "· goal: is the task done?"
)


@dataclass(slots=True)
class _CallBox:
    """A call in the picture."""

    node: Mapping[str, Any]  # as in `SearchResult.to_dict()`
    step: int  # its place in the plan, from 1; 0 if it is not in it
    rows: list[tuple[str, str, float]]  # texts, looks and sizes of fonts
    children: list["_CallBox"] = field(default_factory=list)
    hidden: int = 0  # calls below it that are not drawn
    other: bool = False  # part of an alternative that was tried
    wide: float = BOX
    x: float = 0.0
    middle: float = 0.0  # on the way down

    @property
    def height(self) -> float:
        return sum(size * LINE for _, _, size in self.rows) + 2 * PADDING - 2 if self.rows else START_WIDTH

    @property
    def width(self) -> float:
        return self.wide if self.rows else START_WIDTH


def to_svg(found: Mapping[str, Any]) -> str:
    """A search as an SVG picture: scores, what became of each call, the plan marked."""
    picture = Picture(f"Search tree: {found['query'] or 'request'}", _described(found))
    root = _boxes(found)
    width = max(LEAST_WIDTH, *(box.x + box.width + MARGIN for box in _all(root)))
    room = (width - 2 * MARGIN) / (CAPITALS if any(len(word) > UNBROKEN for word in found["query"].split()) else 1)
    top = picture.lines(MARGIN, MARGIN, wrapped(found["query"], room, 2, size=HEADING), "ink b", size=HEADING)
    top = picture.lines(MARGIN, top + 1, wrapped(_summed_up(found), width - 2 * MARGIN, 2), "dim")
    upright = _is_upright(found)
    bottom = top + 12 + (_placed_upright if upright else _placed)(root, top + 12)
    _draw_lines(picture, root, upright=upright)
    for box in _all(root):
        _draw(picture, box)
    return picture.to_svg(width, _legend(picture, bottom + 14, width, _all(root)[1:]) + MARGIN)


def _is_upright(found: Mapping[str, Any]) -> bool:
    depth = {ROOT: 0}
    for node in found["nodes"][1:]:
        depth[node["id"]] = depth[node["parent"]] + 1
    return max(depth.values()) > MOST_STEPS


def _tried(node: Mapping[str, Any]) -> bool:
    """Whether a call was run, or judged without being run, as writes are."""
    return node["observation"] is not None or node["r_post"] is not None


def _described(found: Mapping[str, Any]) -> str:
    plan = [found["nodes"][place] for place in found["best"]]
    named = ", then ".join(map(label, plan)) or "none"
    said = f" The answer there: {plan[-1]['answer']}" if plan and "answer" in plan[-1] else ""
    return f"{_summed_up(found)}. The plan: {named}.{said}"


def _summed_up(found: Mapping[str, Any]) -> str:
    pruned = sum(node["pruned"] is not None for node in found["nodes"])
    ran = sum(node["observation"] is not None for node in found["nodes"])
    calls = len(found["nodes"]) - 1
    told = [f"{calls} call{'s' if calls != 1 else ''} considered", f"{ran} run", f"{pruned} pruned"]
    if model_calls := found["cost"].get("model_calls"):
        told.append(f"{model_calls} model calls")
    if found["stop_reason"]:
        told.append(f"stopped: {found['stop_reason']}")
    return " · ".join(told)


def _boxes(found: Mapping[str, Any]) -> _CallBox:
    """The request and the boxes below it, the most promising ones where there are too many."""
    children = defaultdict[int, list[Mapping[str, Any]]](list)
    for node in found["nodes"][1:]:
        children[node["parent"]].append(node)
    steps = {place: step for step, place in enumerate(found["best"], start=1)}
    others = set()
    for place in filter(lambda end: _tried(found["nodes"][end]), found.get("alternatives", ())):
        while place != ROOT:
            others.add(place)
            place = found["nodes"][place]["parent"]  # noqa: PLW2901 - up to the request
    upright = _is_upright(found)
    wide = 2 * BOX if upright else BOX
    root = _CallBox(found["nodes"][ROOT], 0, [], x=MARGIN)
    open_boxes = [((0, 0.0, ROOT), root)]
    kept: list[_CallBox] = []
    while open_boxes and len(kept) <= MOST_DRAWN:
        _, box = heapq.heappop(open_boxes)
        kept.append(box)
        for node in children[box.node["id"]]:
            planned = node["id"] in steps
            below = _CallBox(node, steps.get(node["id"], 0), _rows(node, wide - 2 * PADDING, planned=planned))
            below.wide, below.other = wide, node["id"] in others and not planned
            below.x = box.x + (INDENT if upright else box.width + GAP_ACROSS)
            box.children.append(below)
            unlikely = 0 if node["id"] in steps else 2 if node["pruned"] else 1
            heapq.heappush(open_boxes, ((unlikely, -max(node["Q"], node["r_pre"] or 0.0), node["id"]), below))
    shown = {box.node["id"] for box in kept}
    for box in kept:
        box.hidden = sum(below.node["id"] not in shown for below in box.children)
        box.children = [below for below in box.children if below.node["id"] in shown]
        if box.hidden and box.rows:
            box.rows.append((f"and {box.hidden} more calls", "dim", SMALL))
    return root


def _rows(node: Mapping[str, Any], room: float, *, planned: bool) -> list[tuple[str, str, float]]:
    tool, called = node["call"]["tool"], label(node)
    missing = "; ".join(node.get("missing", ()))
    name, ink = ("dim", "dim") if node["pruned"] else ("ink", "ink")
    told: Sequence[tuple[str, str, float, int]] = (
        (tool, f"code b {name}", NAME, 1),
        (called[len(tool) + 1 : -1], f"code {ink}", BODY, 3),
        (f"→ {seen(node)}" if node["observation"] else "", "code dim", BODY, 2),
        (figures(node), "dim" if node["pruned"] else "score", SMALL, 2),
        (fate(node), "dim" if node["pruned"] or node.get("batched") else "open", SMALL, 2),
        (f"answer: {node['answer']}" if "answer" in node else "", "open" if missing else "good", SMALL, 3),
        (f"missing: {missing}" if missing else "", "open", SMALL, 3),
    )
    rows = []
    for place, (text, look, size, lines) in enumerate(told):
        narrower = 2 * PADDING if planned and place == 0 else 0.0  # the number of the step stands there
        fitting = wrapped(text, room - narrower, lines, size=size, code="code" in look)
        rows += [(line, look, size) for line in fitting]
    return rows


def _all(box: _CallBox) -> list[_CallBox]:
    """A box and those below it, from top to bottom."""
    found, waiting = [], [box]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(found[-1].children)
    return found


def _placed(root: _CallBox, top: float) -> float:
    """Give each box its place on the way down, as near to the others as it can be; the height of all of them."""
    boxes = _all(root)
    outlines: dict[int, list[tuple[float, float]]] = {}  # top and bottom of what is below a box, for each column
    below: dict[int, float] = {}  # how far a box is below its parent
    for box in reversed(boxes):
        packed: list[tuple[float, float]] = []
        for child in box.children:
            outline = outlines.pop(child.node["id"])
            pairs = zip(packed, outline, strict=False)
            at = below[child.node["id"]] = max(
                (last - first + GAP_DOWN for (_, last), (first, _) in pairs), default=0.0
            )
            shifted = [(first + at, last + at) for first, last in outline]
            joined = [(above[0], beneath[1]) for above, beneath in zip(packed, shifted, strict=False)]
            packed = joined + packed[len(joined) :] + shifted[len(joined) :]
        middle = 0.0
        if box.children:  # the plan is a straight line
            on_plan = [below[child.node["id"]] for child in box.children if child.step]
            middle = on_plan[0] if on_plan else (below[box.children[-1].node["id"]]) / 2
            for child in box.children:
                below[child.node["id"]] -= middle
        own = (-box.height / 2, box.height / 2)
        outlines[box.node["id"]] = [own, *((first - middle, last - middle) for first, last in packed)]
    whole = outlines[root.node["id"]]
    highest = min(first for first, _ in whole)
    root.middle = top - highest
    for box in boxes:
        for child in box.children:
            child.middle = box.middle + below[child.node["id"]]
    return max(last for _, last in whole) - highest


def _placed_upright(root: _CallBox, top: float) -> float:
    """Give each box its place below the one before it, those of the plan first; the height of all of them."""
    boxes = _all(root)
    for box in boxes:
        box.children.sort(key=lambda child: not child.step)
    y = top
    for box in _all(root):
        box.middle = y + box.height / 2
        y += box.height + GAP_DOWN
    return y - GAP_DOWN - top


def _draw_lines(picture: Picture, root: _CallBox, *, upright: bool) -> None:
    """The lines below all boxes, those of the plan above the others."""
    pairs = [(box, child) for box in _all(root) for child in box.children]
    picture.group()
    for box, child in sorted(pairs, key=lambda pair: (bool(pair[1].step), pair[1].other)):
        way = level_curve((box.x + box.width, box.middle), (child.x, child.middle))
        if upright:
            x = box.x + START_WIDTH / 2
            way = path("M", (x, box.middle + box.height / 2), "L", (x, child.middle), (child.x, child.middle))
        look, width = ("way", 3.5) if child.step else ("second", 2.4) if child.other else ("line", 1.2)
        picture.line(way, "out" if child.node["pruned"] and look == "line" else look, width=width)


def _draw(picture: Picture, box: _CallBox) -> None:
    top = box.middle - box.height / 2
    if not box.rows:
        picture.group("The request")
        picture.circle(box.x + START_WIDTH / 2, box.middle, START_WIDTH / 2, "badge" if box.children else "dim")
        return
    node = box.node
    reasons = "".join(f" {name}: {reason}" for name, reason in node.get("reasons", {}).items())
    picture.group(f"{'Plan, step ' + str(box.step) + ': ' if box.step else ''}{label(node)}{reasons}"[:400])
    look = _look(box)
    picture.box(box.x, top, box.width, box.height, look)
    if box.step:
        x, y = box.x + box.width - PADDING - 6, top + PADDING + 6
        picture.circle(x, y, 8, "badge")
        picture.text(x, y + 3.5, str(box.step), "on b", size=SMALL, anchor="middle")
    y = top + PADDING - 2
    for text, row, size in box.rows:
        y = picture.lines(box.x + PADDING, y, [text], row, size=size)


def _look(box: _CallBox) -> str:
    return "best" if box.step else "other" if box.other else "out" if box.node["pruned"] else "box"


def _legend(picture: Picture, top: float, width: float, boxes: Sequence[_CallBox]) -> float:
    """What boxes and figures mean, of those that are drawn; where it ends."""
    picture.group()
    considered = [box.node for box in boxes if _look(box) == "box"]
    meanings = {
        "best": "the plan, in order",
        "other": "alternative",
        "box": "considered" if any(map(_tried, considered)) else "considered, not run",
        "out": f"{REASONS['pre_evaluation'].partition(' ')[0]}, with the reason",
    }
    x, drawn = MARGIN, set(map(_look, boxes))
    for look, text in meanings.items():
        if look in drawn:
            picture.box(x + 1, top + 1, 20, 11, look, round_by=3)
            picture.text(x + 28, top + 10.5, text, "ink", size=SMALL)
            x += 46 + len(text) * SMALL * 0.55
    return picture.lines(MARGIN, top + 19, wrapped(MEANING, width - 2 * MARGIN, 3, size=SMALL), "dim", size=SMALL)
