"""A search as an SVG picture: each call a box, the plan one line through them, from left to right or, if long, down."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_tooltree.pages.draw import fate, figures, label, seen
from langchain_tooltree.svg import LINE, Picture, level_curve, path, wrapped

# All lengths are in pixels. With four columns, as in the demo, a picture is as wide as the text of a README.
MARGIN, PADDING, BOX, START = 16.0, 8.0, 178.0, 12.0  # `START` is the width of the dot that stands for the request
GAP_ACROSS, GAP_DOWN, INDENT = 24.0, 8.0, 28.0  # `INDENT` is that of what follows, where calls stand below each other
LEAST_WIDTH = 560.0  # the legend needs it
HEADING, NAME, BODY, SMALL = 14.0, 12.0, 11.0, 10.0  # sizes of fonts

MOST_DRAWN = 150  # calls that a person can follow; of a larger search the most promising are drawn
MOST_STEPS = 6  # from left to right; the calls of a longer way stand below each other, in boxes twice as wide
LINES = {"best": ("way", 3.5), "other": ("second", 2.4), "box": ("line", 1.2), "out": ("out", 1.2)}  # looks and widths
MEANING = "r_pre: score before the call · r_post: score of its result · Q: mean reward of N rollouts · goal: task done?"


@dataclass(slots=True)
class _CallBox:
    """A call in the picture; the request is one without rows."""

    node: Mapping[str, Any]  # as in `SearchResult.to_dict()`
    look: str  # its class of colours: plan, alternative, pruned, or none of them
    step: int = 0  # its place in the plan, from 1; 0 if it is not in it
    rows: list[tuple[str, str, float]] = field(default_factory=list)  # texts, looks and sizes of fonts
    children: list["_CallBox"] = field(default_factory=list)
    width: float = START
    x: float = 0.0
    middle: float = 0.0  # on the way down

    @property
    def height(self) -> float:
        return sum(size * LINE for _, _, size in self.rows) + 2 * PADDING - 2 if self.rows else START


def to_svg(search: Mapping[str, Any]) -> str:
    """A search, as `SearchResult.to_dict()` gives it, as an SVG picture: scores, fates, the plan marked."""
    nodes, plan = search["nodes"], [search["nodes"][place] for place in search["best"]]
    named = ", then ".join(map(label, plan)) or "none"
    answer = f" The answer there: {plan[-1]['answer']}" if plan and "answer" in plan[-1] else ""
    about = f"{_summary(search)}. The plan: {named}.{answer}"
    depth = {nodes[0]["id"]: 0}
    for node in nodes[1:]:
        depth[node["id"]] = depth[node["parent"]] + 1
    upright = max(depth.values()) > MOST_STEPS
    picture = Picture(f"Search tree: {search['query'] or 'request'}", about)
    root = _boxes(search, upright=upright)
    width = max(LEAST_WIDTH, *(box.x + box.width + MARGIN for box in _all(root)))
    room = width - 2 * MARGIN
    top = picture.lines(MARGIN, MARGIN, wrapped(search["query"], room, 2, size=HEADING), "ink b", size=HEADING)
    top = picture.lines(MARGIN, top + 1, wrapped(_summary(search), room, 2), "dim") + 12
    bottom = (_place_upright if upright else _place)(root, top)
    _draw_lines(picture, root, upright=upright)
    for box in _all(root):
        _draw(picture, box)
    return picture.to_svg(width, _legend(picture, bottom + 14, room, _all(root)[1:]) + MARGIN)


def _summary(search: Mapping[str, Any]) -> str:
    pruned = sum(node["pruned"] is not None for node in search["nodes"])
    ran = sum(node["observation"] is not None for node in search["nodes"])
    calls = len(search["nodes"]) - 1
    parts = [f"{calls} call{'s' if calls != 1 else ''} considered", f"{ran} run", f"{pruned} pruned"]
    if model_calls := search["cost"].get("model_calls"):
        parts.append(f"{model_calls} model calls")
    if search["stop_reason"]:
        parts.append(f"stopped: {search['stop_reason']}")
    return " · ".join(parts)


def _tried(node: Mapping[str, Any]) -> bool:
    """Whether a call was run, or judged without being run, as writes are."""
    return node["observation"] is not None or node["r_post"] is not None


def _boxes(search: Mapping[str, Any], *, upright: bool) -> _CallBox:
    """The request and the boxes below it, the most promising ones where there are too many."""
    nodes = search["nodes"]
    children = defaultdict[int, list[Mapping[str, Any]]](list)
    for node in nodes[1:]:
        children[node["parent"]].append(node)
    steps = {place: step for step, place in enumerate(search["best"], start=1)}
    others, width = _in_alternatives(search), 2 * BOX if upright else BOX
    root = _CallBox(nodes[0], "badge" if len(nodes) > 1 else "dim", x=MARGIN)
    promising = [((0, 0.0, 0), root, root)]
    for _ in range(MOST_DRAWN + 1):
        if not promising:
            break
        _, parent, box = heapq.heappop(promising)
        if box is not root:
            parent.children.append(box)
        for node in children[box.node["id"]]:
            place, step = node["id"], steps.get(node["id"], 0)
            look = "best" if step else "other" if place in others else "out" if node["pruned"] else "box"
            x = box.x + (INDENT if upright else box.width + GAP_ACROSS)
            below = _CallBox(node, look, step, _rows(node, width - 2 * PADDING, step), width=width, x=x)
            unlikely = 0 if step else 2 if node["pruned"] else 1
            heapq.heappush(promising, ((unlikely, -max(node["Q"], node["r_pre"] or 0.0), place), box, below))
    hidden = defaultdict[int, int](int)
    for _, parent, _ in promising:
        hidden[parent.node["id"]] += 1
    for box in _all(root):
        box.children.sort(key=lambda below: below.node["id"])
        if box.rows and (more := hidden[box.node["id"]]):
            box.rows.append((f"and {more} more calls", "dim", SMALL))
    return root


def _in_alternatives(search: Mapping[str, Any]) -> set[int]:
    """The calls of alternatives that were tried."""
    nodes, calls = search["nodes"], set()
    for end in search["alternatives"]:
        node = nodes[end] if _tried(nodes[end]) else nodes[0]
        while node["parent"] is not None:
            calls.add(node["id"])
            node = nodes[node["parent"]]
    return calls


def _rows(node: Mapping[str, Any], room: float, step: int) -> list[tuple[str, str, float]]:
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
        narrower = 2 * PADDING if step and place == 0 else 0.0  # the number of the step stands there
        fitting = wrapped(text, room - narrower, lines, size=size, code="code" in look)
        rows += [(line, look, size) for line in fitting]
    return rows


def _all(box: _CallBox) -> list[_CallBox]:
    """A box and those below it, parents first."""
    boxes, waiting = [], [box]
    while waiting:
        boxes.append(waiting.pop())
        waiting += reversed(boxes[-1].children)
    return boxes


def _place(root: _CallBox, top: float) -> float:
    """Give each box its place on the way down: the plan is one level line. Where the picture's lowest box ends."""
    extents: dict[int, tuple[float, float]] = {}  # how far a box and what is below it reach up and down
    offsets: dict[int, float] = {}  # how far a box is below its parent
    for box in reversed(_all(root)):
        y, ids = -GAP_DOWN, [child.node["id"] for child in box.children]
        for each in ids:
            offsets[each] = y + GAP_DOWN + extents[each][0]
            y = offsets[each] + extents[each][1]
        planned = [child.node["id"] for child in box.children if child.step] or [*ids[:1], *ids[-1:]]
        middle = sum(offsets[each] for each in planned) / max(len(planned), 1)
        for each in ids:
            offsets[each] -= middle
        extents[box.node["id"]] = max(box.height / 2, middle), max(box.height / 2, y - middle)
    above, below = extents[root.node["id"]]
    root.middle = top + above
    for box in _all(root):
        for child in box.children:
            child.middle = box.middle + offsets[child.node["id"]]
    return root.middle + below


def _place_upright(root: _CallBox, top: float) -> float:
    """Give each box its place below the one before it, those of the plan first. Where the last one ends."""
    for box in _all(root):
        box.children.sort(key=lambda child: not child.step)
    for box in _all(root):
        box.middle = top + box.height / 2
        top += box.height + GAP_DOWN
    return top - GAP_DOWN


def _draw_lines(picture: Picture, root: _CallBox, *, upright: bool) -> None:
    """The lines below all boxes, those of the plan above the others."""
    pairs = [(box, child) for box in _all(root) for child in box.children]
    picture.group()
    for box, child in sorted(pairs, key=lambda pair: LINES[pair[1].look][1]):
        way = level_curve((box.x + box.width, box.middle), (child.x, child.middle))
        if upright:
            x = box.x + START / 2
            way = path("M", (x, box.middle + box.height / 2), "L", (x, child.middle), (child.x, child.middle))
        look, width = LINES[child.look]
        picture.line(way, look, width=width)


def _draw(picture: Picture, box: _CallBox) -> None:
    if not box.rows:
        picture.group("The request")
        picture.circle(box.x + START / 2, box.middle, START / 2, box.look)
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


def _legend(picture: Picture, top: float, room: float, boxes: Sequence[_CallBox]) -> float:
    """What boxes and figures mean, of those that are drawn; where it ends."""
    picture.group()
    meanings = {"best": "the plan, in order", "other": "alternative", "box": "considered, not run"}
    if any(_tried(box.node) for box in boxes if box.look == "box"):
        meanings["box"] = "considered"
    x, drawn = MARGIN, {box.look for box in boxes}
    for look, text in {**meanings, "out": "pruned, with the reason"}.items():
        if look in drawn:
            picture.box(x + 1, top + 1, 20, 11, look, round_by=3)
            picture.text(x + 28, top + 10.5, text, "ink", size=SMALL)
            x += 46 + len(text) * SMALL * 0.55
    meaning = MEANING if any(figures(box.node) for box in boxes) else ""
    return picture.lines(MARGIN, top + 19, wrapped(meaning, room, 3, size=SMALL), "dim", size=SMALL)
