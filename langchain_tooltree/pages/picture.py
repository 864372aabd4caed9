"""Pictures in SVG: of a search, and the boxes, lines and texts that they are made of, in light and dark.

They refer to nothing outside themselves, and the same picture has the same bytes. All lengths are in pixels.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from langchain_tooltree.pages.search import fate, figures, label, seen
from langchain_tooltree.text import GAP, counted, digest, visible

EM, EM_CODE = 0.55, 0.61  # width of a character in its font's size: of a wide font such as DejaVu Sans, and of code
LINE = 1.28  # height of a line in its font's size
HEADING, NAME, BODY, SMALL = 14.0, 12.0, 11.0, 10.0  # sizes of fonts
MOST_READ = 4_000  # characters of a text that are looked at for a label, which shows far fewer
MOST_DRAWN = 150  # calls that a person can follow; of a larger search, the plan and those that were proposed first
MARGIN, PADDING, BOX, START = 16.0, 8.0, 178.0, 68.0  # with four columns, a picture is as wide as the text of a README
GAP_ACROSS, GAP_DOWN = 24.0, 8.0
LEAST_WIDTH = 560.0  # the legend needs it
TIP = 6.0  # length of an arrow's tip
LINES = {"best": ("way", 3.5), "box": ("line", 1.2), "out": ("out", 1.2)}  # looks and widths
MEANING = "r_pre: score before the call · r_post: score of its result · Q: mean reward of N rollouts · goal: task done?"

COLOURS = {
    "page": ("fill:#ffffff;stroke:#d1d9e0", "fill:#0d1117;stroke:#3d444d"),
    "ink": ("fill:#1f2328", "fill:#f0f6fc"),
    "dim": ("fill:#59636e", "fill:#9198a1"),
    "score": ("fill:#0550ae", "fill:#79c0ff"),
    "good": ("fill:#116329", "fill:#56d364"),
    "open": ("fill:#7d4e00", "fill:#e3b341"),
    "box": ("fill:#f6f8fa;stroke:#848d97", "fill:#151b23;stroke:#656c76"),
    "best": ("fill:#dafbe1;stroke:#1a7f37;stroke-width:2.5", "fill:#12261e;stroke:#3fb950;stroke-width:2.5"),
    "out": ("fill:none;stroke:#848d97;stroke-dasharray:4 3", "fill:none;stroke:#656c76;stroke-dasharray:4 3"),
    "line": ("fill:none;stroke:#848d97", "fill:none;stroke:#656c76"),
    "way": ("fill:none;stroke:#1a7f37", "fill:none;stroke:#3fb950"),
    "tip": ("fill:#848d97", "fill:#656c76"),
    "badge": ("fill:#1a7f37", "fill:#3fb950"),
    "on": ("fill:#ffffff", "fill:#0d1117"),
}
"""What each class of elements looks like, in light and in dark. Contrast: 4.5 or more of texts, 3 of lines."""

FONTS = {"text": "ui-sans-serif,system-ui,sans-serif", ".code": "ui-monospace,monospace"}


# --- what pictures are made of ---


def wrapped(text: str, width: float, lines: int = 1, *, size: float = BODY, code: bool = False) -> list[str]:
    """A text in so many lines at the most of so many pixels, with `…` where something is left out.

    A line ends behind a word if it can. `code` is set in a fixed-width font.
    """
    room = max(2, int(width / (size * (EM_CODE if code else EM))))
    left = visible(" ".join(text[:MOST_READ].split()))
    if any(unicodedata.east_asian_width(each) in "WF" for each in left):  # which are two characters wide
        room = max(2, room // 2)
    made: list[str] = []
    while left and len(made) < lines:
        line = left[:room]
        if line != left and len(made) < lines - 1:
            at = left.rfind(" ", 0, room + 1)
            line = left[:at] if at > 1 else line  # an arrow alone is no line
        elif line != left or len(text) > MOST_READ:
            line = left[: room - 1].rstrip() + GAP
        made.append(line)
        left = left[len(line) :].lstrip()
    return made


Point = tuple[float, float]


class Picture:
    """An SVG picture on a page of its own colour, so that it is readable wherever it is shown."""

    def __init__(self, title: str, description: str) -> None:
        self._title = visible(title[:MOST_READ])
        self._description = visible(description[:MOST_READ])
        self._body = ET.Element("g")
        self._into = self._body

    def group(self, title: str = "") -> None:
        """Begin a new group, whose title readers and pointers find."""
        self._into = ET.SubElement(self._body, "g")
        if title:
            ET.SubElement(self._into, "title").text = visible(title[:MOST_READ])

    def box(self, x: float, y: float, width: float, height: float, look: str, *, round_by: float = 6) -> None:
        """A box with rounded corners."""
        self._add("rect", look, x=x, y=y, width=width, height=height, rx=round_by)

    def circle(self, x: float, y: float, radius: float, look: str) -> None:
        """A filled circle."""
        self._add("circle", look, cx=x, cy=y, r=radius)

    def line(self, along: str, look: str, *, width: float = 1.2) -> None:
        """A line along an SVG path."""
        self._add("path", look, stroke_width=width).set("d", along)

    def shape(self, around: str, look: str) -> None:
        """What an SVG path surrounds."""
        self._add("path", look).set("d", around)

    def text(self, x: float, y: float, text: str, look: str, *, size: float = BODY, anchor: str = "start") -> None:
        """A text of one line, by its baseline; it has to be `visible`, as the lines of `wrapped` are."""
        element = self._add("text", look, x=x, y=y, font_size=size)
        if anchor != "start":
            element.set("text-anchor", anchor)
        element.text = text

    def lines(self, x: float, y: float, texts: Iterable[str], look: str, *, size: float = BODY) -> float:
        """Texts below each other from a top edge on; where the next one would begin."""
        for text in texts:
            self.text(x, y + size, text, look, size=size)
            y += size * LINE
        return y

    def _add(self, tag: str, look: str, **numbers: float) -> ET.Element:
        written = {name.replace("_", "-"): _number(value) for name, value in numbers.items()}
        return ET.SubElement(self._into, tag, {"class": look, **written})

    def to_svg(self, width: float, height: float) -> str:
        """The picture as a text."""
        body = ET.tostring(self._body, encoding="unicode")
        name = f"tt-{digest([self._title, self._description, body], 10)}"  # several may stand in one page
        wide, high = _number(width), _number(height)
        size = {"width": wide, "height": high, "viewBox": f"0 0 {wide} {high}"}
        names = {"class": name, "role": "img", "aria-labelledby": f"{name}-t {name}-d"}
        root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, **names})
        ET.SubElement(root, "title", {"id": f"{name}-t"}).text = self._title
        ET.SubElement(root, "desc", {"id": f"{name}-d"}).text = self._description
        light, dark = (
            "".join(f".{name} .{look}{{{colours[which]}}}" for look, colours in COLOURS.items()) for which in (0, 1)
        )
        fonts = "".join(f".{name} {what}{{font-family:{font}}}" for what, font in FONTS.items())
        style = f"{fonts}.{name} .b{{font-weight:600}}{light}@media(prefers-color-scheme:dark){{{dark}}}"
        ET.SubElement(root, "style").text = style
        inside = {"x": "0.5", "y": "0.5", "width": _number(width - 1), "height": _number(height - 1), "rx": "8"}
        ET.SubElement(root, "rect", {"class": "page", **inside})
        root.append(self._body)
        ET.indent(root, space="")
        return ET.tostring(root, encoding="unicode") + "\n"


def _number(value: float) -> str:
    """A number in a tenth of a pixel."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # -0.0 is 0


def path(*parts: str | Point) -> str:
    """An SVG path of its letters and points."""
    return " ".join(part if isinstance(part, str) else f"{_number(part[0])} {_number(part[1])}" for part in parts)


# --- a search ---


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
