"""What people see of a search: a page, a picture in SVG, a Mermaid chart, and a tree for the terminal.

They are drawn of a search as plain data (`SearchResult.to_dict()`), so that one that was saved looks like a live one.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_tooltree.experience.trajectory import readable
from langchain_tooltree.pages.page import page
from langchain_tooltree.svg import BODY, HEADING, LINE, NAME, SMALL, Picture, path, visible_lines, wrapped
from langchain_tooltree.text import LONGEST_TEXT, counted, mermaid_text, one_line, shortened

if TYPE_CHECKING:
    from rich.tree import Tree

REASONS = {"pre_evaluation": "pruned before", "top_k": "pruned before: not in top k", "post_evaluation": "pruned after"}
MAX_LABEL = 60  # characters of a call in a picture: one line of a box
MAX_OBSERVATION = 70  # characters of an observation in a terminal: with its indentation, it stays on one line of 100
MAX_ON_PAGE = 200  # characters of a call in one line of a page, where its arguments stand beside it
MOST_DROPPED = 20  # proposals that came to nothing and are named on a page
MOST_DRAWN = 150  # calls that a person can follow; of a larger search, the plan and those that were proposed first
LINES = {"best": ("way", 3.5), "box": ("line", 1.2), "out": ("out", 1.2)}  # looks and widths
# Lengths in pixels. With four columns, as in the demo, a picture is as wide as the text of a README.
MARGIN, PADDING, BOX, START = 16.0, 8.0, 178.0, 68.0
GAP_ACROSS, GAP_DOWN = 24.0, 8.0
LEAST_WIDTH = 560.0  # the legend needs it
TIP = 6.0  # length of an arrow's tip
MEANING = "r_pre: score before the call · r_post: score of its result · Q: mean reward of N rollouts · goal: task done?"


def to_mermaid(search: Mapping[str, Any]) -> str:
    """A search as a Mermaid flowchart, the nodes of the best path marked."""
    nodes, best = search["nodes"], search["best"]
    lines, links = ["flowchart TD", '  n0(["request"])'], list[str]()
    for node in nodes[1:]:
        shown = (mermaid_text(one_line(label(node), MAX_LABEL)), figures(node), mermaid_text(status(node)))
        text = "<br/>".join(filter(None, shown))
        left, right = ("[/", "/]") if node["call"]["effect"] == "write" else ("[", "]")
        lines.append(f'  n{node["id"]}{left}"{text}"{right}')
        arrow = "==>" if node["id"] in best else "-.->" if node["pruned"] else "-->"
        links.append(f"  n{node['parent']} {arrow} n{node['id']}")
    lines += [*links, "  classDef best fill:#d3f9d8,stroke:#2b8a3e,stroke-width:2px"]
    lines.append("  classDef pruned fill:#f1f3f5,stroke:#adb5bd,color:#868e96")
    for look, ids in (("best", best), ("pruned", [node["id"] for node in nodes if node["pruned"]])):
        if ids:
            lines.append(f"  class {','.join(f'n{each}' for each in ids)} {look}")
    return "\n".join(lines)


def to_rich(search: Mapping[str, Any]) -> "Tree":
    """A search as a tree that `rich.print` shows, the nodes of the best path marked."""
    from rich.markup import escape  # noqa: PLC0415 - only who looks at a search in a terminal needs it
    from rich.tree import Tree  # noqa: PLC0415 - as above

    branches = {0: Tree("[bold]request[/bold]", guide_style="dim")}
    for node in search["nodes"][1:]:
        is_best = node["id"] in search["best"]
        style = "bold green" if is_best else "dim" if node["pruned"] else "default"
        scores, fate = figures(node), status(node)
        notes = (f"[cyan]{scores}[/]" if scores else "", f"[yellow]{escape(fate)}[/]" if fate else "")
        lines = (
            f"[{style}]{'✔ ' if is_best else ''}{escape(one_line(label(node), MAX_LABEL))}[/]",
            f"[dim]{escape(one_line(seen(node), MAX_OBSERVATION))}[/]" if node["observation"] else "",
            "  ".join(filter(None, notes)),
        )
        text = visible_lines("\n".join(filter(None, lines)))  # whatever console prints it
        branches[node["id"]] = branches[node["parent"]].add(text)
    return branches[0]


def to_html(search: Mapping[str, Any]) -> str:
    """A search as one page without references to elsewhere."""
    data = {
        "query": shortened(search["query"], 20 * LONGEST_TEXT),
        "stop_reason": search["stop_reason"],
        "cost": search["cost"],
        "plan": search["best"],
        "alternatives": search["alternatives"],
        "history": search["history"],
        "nodes": [_on_page(node) for node in search["nodes"]],
    }
    return page("search", f"Search: {one_line(search['query'], MAX_ON_PAGE)}", data)


def _on_page(node: Mapping[str, Any]) -> dict[str, Any]:
    call, observation = node["call"], node["observation"]
    shown: dict[str, Any] = {"id": node["id"], "parent": node["parent"]}
    if call:
        arguments = json.dumps(call["arguments"], indent=2, default=str, ensure_ascii=False)
        shown |= {"tool": shortened(call["tool"], MAX_ON_PAGE), "arguments": arguments, "effect": call["effect"]}
        shown["label"] = one_line(label(node), MAX_ON_PAGE)
    if observation:
        shown |= {"seen": seen(node), "kind": observation.get("kind", "ok")}
    scored = zip(("r_pre", "r_post", "goal"), (*node["scored"], True), strict=True)
    shown["scores"] = {name: node[name] for name, given in scored if given and node[name] is not None}
    if node["N"]:
        shown["scores"] |= {"Q": node["Q"], "N": node["N"]}
    dropped = Counter(node["dropped"][:MOST_DROPPED])
    extra = {
        "figures": figures(node),
        "fate": fate(node),
        "pruned": node["pruned"],
        "reasons": node.get("reasons"),
        "missing": node.get("missing"),
        "dropped": [f"{text} ({times} times)" if times > 1 else text for text, times in dropped.items()],
    }
    answer = {"answer": node["answer"]} if "answer" in node else {}
    return {**shown, **answer, **{name: value for name, value in extra.items() if value}}


def to_svg(search: Mapping[str, Any]) -> str:
    """A search as an SVG picture: each call a box, the plan one line through them from left to right."""
    nodes, plan = search["nodes"], [search["nodes"][place] for place in search["best"]]
    calls = ", then ".join(map(label, plan)) or "none"
    answer = f" The answer there: {plan[-1]['answer']}" if plan and "answer" in plan[-1] else ""
    model_calls, stop = search["cost"].get("model_calls"), search["stop_reason"]
    parts = [
        f"{counted(len(nodes) - 1, 'call')} considered",
        f"{sum(node['observation'] is not None for node in nodes)} run",
        f"{sum(node['pruned'] is not None for node in nodes)} pruned",
        f"{model_calls} model calls" if model_calls else "",
        f"stopped: {stop}" if stop else "",
    ]
    summary = " · ".join(filter(None, parts))
    picture = Picture(f"Search tree: {search['query'] or 'request'}", f"{summary}. The plan: {calls}.{answer}")
    boxes = _boxes(search)
    width = max(LEAST_WIDTH, *(box.x + box.width + MARGIN for box in boxes))
    room = width - 2 * MARGIN
    top = picture.lines(MARGIN, MARGIN, wrapped(search["query"], room, 2, size=HEADING), "ink b", size=HEADING)
    top = picture.lines(MARGIN, top + 1, wrapped(summary, room, 2), "dim") + 12
    high = GAP_DOWN + max(box.height for box in boxes)
    for box in boxes:
        box.middle = top + (box.row + 0.5) * high - GAP_DOWN / 2
    picture.group()
    for box in sorted(boxes, key=lambda box: LINES[box.look][1]):  # the plan above the others
        if box.before:
            _draw_line(picture, box.before, box)
    for box in boxes:
        _draw_box(picture, box)
    picture.group()
    legend = f"Green: the plan, in order. {MEANING if any(map(figures, nodes)) else ''}"
    bottom = max(box.middle + box.height / 2 for box in boxes) + 14
    bottom = picture.lines(MARGIN, bottom, wrapped(legend, room, 3, size=SMALL), "dim", size=SMALL)
    return picture.to_svg(width, bottom + MARGIN)


@dataclass(slots=True)
class _Box:
    """A call in the picture, or the request, which has none before it."""

    rows: Sequence[tuple[str, str, float]]  # texts, looks and sizes of fonts
    look: str
    title: str
    badge: str = ""
    before: "_Box | None" = None
    x: float = MARGIN
    row: float = 0.0  # on the way down; each is as high as the highest box
    middle: float = 0.0

    @property
    def width(self) -> float:
        return BOX if self.before else START

    @property
    def height(self) -> float:
        return sum(size * LINE for _, _, size in self.rows) + 2 * PADDING - 2


def _boxes(search: Mapping[str, Any]) -> list[_Box]:
    """The request and the calls, parents first. Each leaf has a row of its own; the plan is one level line."""
    steps = {place: step for step, place in enumerate(search["best"], start=1)}
    boxes = {0: _Box([("request", "ink b", NAME)], "best", "The request")}
    below = defaultdict[int, list[int]](list)
    for node in search["nodes"][1:]:
        place, before, step = node["id"], boxes.get(node["parent"]), steps.get(node["id"], 0)
        if before and (step or len(boxes) <= MOST_DRAWN):
            reasons = "".join(f" {name}: {reason}" for name, reason in node.get("reasons", {}).items())
            title = f"{f'Plan, step {step}: ' if step else ''}{label(node)}{reasons}"[:400]
            look = "best" if step else "out" if node["pruned"] else "box"
            x = before.x + before.width + GAP_ACROSS
            boxes[place] = _Box(_rows(node, step), look, title, str(step or ""), before, x)
            below[node["parent"]].append(place)
    order, waiting = list[int](), [0]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(below[order[-1]])
    row = sum(not below[place] for place in order)
    for place in reversed(order):
        beside = [each for each in below[place] if each in steps] or [*below[place][:1], *below[place][-1:]]
        row -= not beside
        boxes[place].row = sum(boxes[each].row for each in beside) / len(beside) if beside else row
    return [*boxes.values()]


def _draw_line(picture: Picture, before: _Box, box: _Box) -> None:
    look, thickness = LINES[box.look]
    (x1, y1), (x2, y2) = (before.x + before.width, before.middle), (box.x - TIP, box.middle)
    bend = (x1 + x2) / 2
    picture.line(path("M", (x1, y1), "C", (bend, y1), (bend, y2), (x2, y2)), look, width=thickness)
    wide = (TIP + thickness) / 2
    tip = path("M", (x2, y2 + wide), "L", (box.x, y2), (x2, y2 - wide), "Z")
    picture.shape(tip, "badge" if look == "way" else "tip")


def _draw_box(picture: Picture, box: _Box) -> None:
    picture.group(box.title)
    top = box.middle - box.height / 2
    picture.box(box.x, top, box.width, box.height, box.look, round_by=6 if box.before else 14)
    if box.badge:
        x, y = box.x + box.width - PADDING - 6, top + PADDING + 6
        picture.circle(x, y, 8, "badge")
        picture.text(x, y + 3.5, box.badge, "on b", size=SMALL, anchor="middle")
    y = top + PADDING - 2
    for text, look, size in box.rows:
        y = picture.lines(box.x + PADDING, y, [text], look, size=size)


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


def label(node: Mapping[str, Any]) -> str:
    """The call of a node in one line."""
    arguments = node["call"]["arguments"].items()
    written = (f"{name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in arguments)
    return f"{node['call']['tool']}({', '.join(written)})"


def seen(node: Mapping[str, Any]) -> str:
    """What a call has brought back, as text."""
    return readable(node["observation"]["content"]) if node["observation"] else ""


def figures(node: Mapping[str, Any]) -> str:
    """Q, N, r_pre, r_post and goal score of a node; a score that nobody gave is left out."""
    pre_scored, post_scored = node["scored"]
    given = (("r_pre", pre_scored), ("r_post", post_scored), ("goal", True))
    parts = [f"{name}={node[name]:.2f}" for name, scored in given if scored and node[name] is not None]
    return " ".join([f"Q={node['Q']:.2f} N={node['N']}", *parts] if node["N"] else parts)


def status(node: Mapping[str, Any]) -> str:
    """What became of a node, if that is worth a word."""
    missing = "; ".join(node.get("missing", ()))
    answered = one_line(f"answered, missing: {missing}" if missing else "answered", MAX_LABEL)
    return ", ".join(filter(None, (fate(node), answered if "answer" in node else "")))


def fate(node: Mapping[str, Any]) -> str:
    """What became of the call of a node, answers aside."""
    notes = [
        "in the same reply" if node.get("batched") else "",
        "write, not run" if node["call"] and node["call"]["effect"] == "write" else "",
        REASONS[node["pruned"]] if node["pruned"] else (node["observation"] or {}).get("kind", ""),
    ]
    return ", ".join(filter(None, notes))
