"""Pictures of figures, in SVG: each draws what its benchmark writes with `--json`, and looks the same each time."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from langchain_tooltree.text import digest, visible

# All lengths are in pixels.
LINE = 1.28  # height of a line in its font's size
BODY = 11.0  # size of a font
MOST_READ = 4_000  # characters of a title
WIDTH = 760.0  # about that of a page's text, so that nothing is scaled
MARGIN = 16.0
HEAD = 62.0  # title and legend, or what the panels below are of
TEXT, SMALL, HEADING = 12.0, 11.0, 14.0  # sizes of fonts
ROW = 20.0
DOT = 4.5  # radius of a mark

SERIES = {
    "ours": ("#b34700", "#ff9b57"),
    "blue": ("#0067a3", "#6cb6ff"),
    "plain": ("#1f2328", "#f0f6fc"),
    "peer": ("#59636e", "#9198a1"),
    "green": ("#1a6e3c", "#56d364"),
    "violet": ("#7a3e9d", "#c297ff"),
    "brown": ("#7a5200", "#e3b341"),
    "pink": ("#a6266b", "#ff8ac4"),
    "teal": ("#00707a", "#4fd1d9"),
}
"""Colours of what is compared, in light and dark: 4.5 or more to the page, as texts have them, too. Nothing depends on
them: what they tell apart has a mark of its own, a number or a label."""

GRID = ("#d8dee4", "#2f353d")
"""Fine lines that a reader may miss."""

MARKS = ("square", "diamond", "triangle")
"""What peers are told apart by, beside their colours."""


COLOURS = {
    "page": ("fill:#ffffff;stroke:#d1d9e0", "fill:#0d1117;stroke:#3d444d"),
    "ink": ("fill:#1f2328", "fill:#f0f6fc"),
    "dim": ("fill:#59636e", "fill:#9198a1"),
    "score": ("fill:#0550ae", "fill:#79c0ff"),
    "good": ("fill:#116329", "fill:#56d364"),
    "open": ("fill:#7d4e00", "fill:#e3b341"),
    "box": ("fill:#f6f8fa;stroke:#848d97", "fill:#151b23;stroke:#656c76"),
    "best": (
        "fill:#dafbe1;stroke:#1a7f37;stroke-width:2.5",
        "fill:#12261e;stroke:#3fb950;stroke-width:2.5",
    ),
    "out": (
        "fill:none;stroke:#848d97;stroke-dasharray:4 3",
        "fill:none;stroke:#656c76;stroke-dasharray:4 3",
    ),
    "line": ("fill:none;stroke:#848d97", "fill:none;stroke:#656c76"),
    "way": ("fill:none;stroke:#1a7f37", "fill:none;stroke:#3fb950"),
    "tip": ("fill:#848d97", "fill:#656c76"),
    "badge": ("fill:#1a7f37", "fill:#3fb950"),
    "on": ("fill:#ffffff", "fill:#0d1117"),
}
"""What each class of elements looks like, in light and in dark. Contrast: 4.5 or more of texts, 3 of lines."""

FONTS = {
    "text": "ui-sans-serif,system-ui,sans-serif",
    ".code": "ui-monospace,monospace",
}


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

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        look: str,
        *,
        round_by: float = 6,
    ) -> None:
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

    def text(
        self,
        x: float,
        y: float,
        text: str,
        look: str,
        *,
        size: float = BODY,
        anchor: str = "start",
    ) -> None:
        """A text of one line, by its baseline; it has to be `visible`, as the lines of `wrapped` are."""
        element = self._add("text", look, x=x, y=y, font_size=size)
        if anchor != "start":
            element.set("text-anchor", anchor)
        element.text = text

    def lines(
        self, x: float, y: float, texts: Iterable[str], look: str, *, size: float = BODY
    ) -> float:
        """Texts below each other from a top edge on; where the next one would begin."""
        for text in texts:
            self.text(x, y + size, text, look, size=size)
            y += size * LINE
        return y

    def _add(self, tag: str, look: str, **numbers: float) -> ET.Element:
        written = {
            name.replace("_", "-"): _number(value) for name, value in numbers.items()
        }
        return ET.SubElement(self._into, tag, {"class": look, **written})

    def to_svg(self, width: float, height: float) -> str:
        """The picture as a text."""
        body = ET.tostring(self._body, encoding="unicode")
        name = f"tt-{digest([self._title, self._description, body], 10)}"  # several may stand in one page
        wide, high = _number(width), _number(height)
        size = {"width": wide, "height": high, "viewBox": f"0 0 {wide} {high}"}
        names = {"class": name, "role": "img", "aria-labelledby": f"{name}-t {name}-d"}
        root = ET.Element(
            "svg", {"xmlns": "http://www.w3.org/2000/svg", **size, **names}
        )
        ET.SubElement(root, "title", {"id": f"{name}-t"}).text = self._title
        ET.SubElement(root, "desc", {"id": f"{name}-d"}).text = self._description
        light, dark = (
            "".join(
                f".{name} .{look}{{{colours[which]}}}"
                for look, colours in COLOURS.items()
            )
            for which in (0, 1)
        )
        fonts = "".join(
            f".{name} {what}{{font-family:{font}}}" for what, font in FONTS.items()
        )
        style = f"{fonts}.{name} .b{{font-weight:600}}{light}@media(prefers-color-scheme:dark){{{dark}}}"
        ET.SubElement(root, "style").text = style
        inside = {
            "x": "0.5",
            "y": "0.5",
            "width": _number(width - 1),
            "height": _number(height - 1),
            "rx": "8",
        }
        ET.SubElement(root, "rect", {"class": "page", **inside})
        root.append(self._body)
        ET.indent(root, space="")
        return ET.tostring(root, encoding="unicode") + "\n"


def _number(value: float) -> str:
    """A number in a tenth of a pixel."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # -0.0 is 0


def path(*parts: str | Point) -> str:
    """An SVG path of its letters and points."""
    return " ".join(
        part if isinstance(part, str) else f"{_number(part[0])} {_number(part[1])}"
        for part in parts
    )


class Chart(Picture):
    """A picture with colours of series, and with the marks and axes of charts.

    Args:
        title: What it shows, as its heading and for screen readers.
        told: All that it shows in words, for screen readers.
    """

    def __init__(self, title: str, told: str) -> None:
        super().__init__(title, told)
        self.text(MARGIN, MARGIN + HEADING, title, "ink b", size=HEADING)

    def write(self, file: Path, height: float) -> None:
        """Write the picture to a file."""
        svg = self.to_svg(WIDTH, height)

        def rules(which: int) -> str:
            looks = "".join(
                f".s-{name}{{fill:{colours[which]}}}.l-{name}{{fill:none;stroke:{colours[which]}}}"
                for name, colours in SERIES.items()
            )
            return f"{looks}.grid{{fill:none;stroke:{GRID[which]}}}"

        style = f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style>"
        file.write_text(svg.replace("</style>", style, 1), encoding="utf-8")

    def mark(
        self, x: float, y: float, series: str, shape: str = "circle", size: float = DOT
    ) -> None:
        """A mark of a series around a point; a `ring` is hollow, a `cross` says that something failed."""
        if shape == "circle":
            self.circle(x, y, size, f"s-{series}")
        elif shape == "cross":
            ends = [
                (x + size * across, y + size * down)
                for across, down in ((-1, -1), (1, 1), (-1, 1), (1, -1))
            ]
            self.line(
                path("M", ends[0], "L", ends[1], "M", ends[2], "L", ends[3]),
                f"l-{series}",
                width=1.8,
            )
        elif shape == "ring":
            left, right, arc = (x - size, y), (x + size, y), f"A {size} {size} 0 0 1"
            self.line(path("M", left, arc, right, arc, left), f"l-{series}", width=1.8)
        else:
            corners = {
                "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
                "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
                "triangle": ((0, -1.2), (1.2, 1), (-1.2, 1)),
            }[shape]
            first, *others = (
                (x + size * across, y + size * down) for across, down in corners
            )
            self.shape(
                path(
                    "M", first, *(part for each in others for part in ("L", each)), "Z"
                ),
                f"s-{series}",
            )

    def legend(self, y: float, entries: Sequence[tuple[str, str, str]]) -> None:
        """Series, marks and names in one line."""
        x = MARGIN
        for series, shape, name in entries:
            self.mark(x + DOT, y - 4, series, shape)
            self.text(x + 3 * DOT, y, name, "ink", size=TEXT)
            x += 3 * DOT + 0.55 * TEXT * len(name) + 2 * MARGIN

    def ticks(
        self, panel: "Panel", x: Mapping[float, str], y: Mapping[float, str]
    ) -> None:
        """Fine lines and numbers at values of both axes."""
        for value, name in x.items():
            at = panel.x(value)
            self.line(
                path("M", (at, panel.top), "L", (at, panel.bottom)), "grid", width=1
            )
            self.text(at, panel.bottom + 15, name, "dim", size=SMALL, anchor="middle")
        for value, name in y.items():
            at = panel.y(value)
            self.line(
                path("M", (panel.left, at), "L", (panel.right, at)), "grid", width=1
            )
            self.text(panel.left - 6, at + 4, name, "dim", size=SMALL, anchor="end")

    def named(self, panel: "Panel", title: str, x: str, y: str = "") -> None:
        """Title of a panel and names of its axes."""
        if title:
            self.text(
                panel.left, panel.top - (24 if y else 10), title, "ink b", size=TEXT
            )
        if y:
            self.text(panel.left, panel.top - 8, y, "dim", size=SMALL)
        self.text(
            (panel.left + panel.right) / 2,
            panel.bottom + 31,
            x,
            "dim",
            size=SMALL,
            anchor="middle",
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a chart with axes; the one of x is logarithmic where `log` says so."""

    left: float
    top: float
    right: float
    bottom: float
    xs: tuple[float, float]
    ys: tuple[float, float]
    log: bool = False

    def x(self, value: float) -> float:
        """Where a value stands from left to right."""
        low, high, value = (
            math.log(each) if self.log else each for each in (*self.xs, value)
        )
        return self.left + (self.right - self.left) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Where a value stands from top to bottom."""
        low, high = self.ys
        return self.bottom - (self.bottom - self.top) * (value - low) / (high - low)


def percent(share: float) -> str:
    """A share in percent, as tables show it."""
    return f"{100 * share:.1f}"


def _numbers(*values: float) -> dict[float, str]:
    return {value: f"{value:g}" for value in values}


PLANNERS = {
    "plain": ("plain", "ring", "plain agent"),
    "balanced": ("ours", "circle", "with the search"),
    "paper": ("blue", "square", "settings of the paper"),
}


def draw_price(told: Mapping[str, Any], file: Path) -> None:
    """The model calls of each task, as `price --json` tells them: plain, the default effort, and the paper's form."""
    tasks = told["tasks"]
    words = "; ".join(
        f"{task}: "
        + ", ".join(
            f"{name} {row[key]['calls']}{'' if row[key]['solved'] else ' (not solved)'}"
            for key, (_, _, name) in PLANNERS.items()
        )
        for task, row in tasks.items()
    )
    chart = Chart("Model calls of one request", words)
    failed = any(not row[key]["solved"] for row in tasks.values() for key in PLANNERS)
    chart.legend(
        HEAD - 14,
        [*PLANNERS.values(), *([("plain", "cross", "not solved")] if failed else [])],
    )
    panel = Panel(
        120,
        HEAD,
        WIDTH - 130,
        HEAD + ROW * len(tasks),
        (0.9, 110),
        (len(tasks), 0),
        log=True,
    )
    chart.ticks(panel, _numbers(1, 2, 5, 10, 20, 50, 100), {})
    chart.named(
        panel, "", "model calls, logarithmic; at the right: plain / search / paper"
    )
    for place, (task, row) in enumerate(tasks.items()):
        y = panel.y(place + 0.5)
        calls = [row[planner]["calls"] for planner in PLANNERS]
        chart.text(
            panel.left - 8,
            y + 4,
            task.replace("_", " "),
            "ink",
            size=TEXT,
            anchor="end",
        )
        chart.line(
            path("M", (panel.x(min(calls)), y), "L", (panel.x(max(calls)), y)), "line"
        )
        for planner, (series, shape, _) in PLANNERS.items():
            drawn = shape if row[planner]["solved"] else "cross"
            chart.mark(
                panel.x(row[planner]["calls"]),
                y,
                series,
                drawn,
                1.5 * DOT if drawn == "ring" else DOT,
            )
        chart.text(
            panel.right + 12, y + 4, " / ".join(map(str, calls)), "ink", size=TEXT
        )
    chart.write(file, panel.bottom + 44)


POLICIES = {
    "plain": ("the agent alone", "plain"),
    "past-the-first-stop": ("others' next step", "peer"),
    "resample": ("one more own step", "peer"),
    "tooltree-frugal": ("frugal", "ours"),
    "tooltree-balanced": ("balanced, the default", "ours"),
    "tooltree-thorough": ("thorough", "ours"),
    "best-first": ("best-first", "peer"),
    "a-star": ("A*", "peer"),
    "lats": ("LATS", "peer"),
    "best-of-3": ("best of 3", "peer"),
    "best-of-7": ("best of 7", "peer"),
}
"""The policies of the picture, with their names there."""

JUDGES = ("good judge, AUC 0.9", "judge that shares the model's errors")


def draw_recorded(told: Mapping[str, Any], file: Path) -> None:
    """Turns solved against model calls, as `recorded --json` tells them, with the good judge and the correlated one."""
    tables = [
        told["policies"],
        *(
            told["sensitivity"][name]
            for name in ("correlated",)
            if name in told["sensitivity"]
        ),
    ]
    judged = {
        judge: [
            (*look, table[name]) for name, look in POLICIES.items() if name in table
        ]
        for judge, table in zip(JUDGES, tables, strict=False)
    }
    words = "; ".join(
        f"{judge}, {shown}: {percent(row['success'])} ({100 * row['low']:.0f} - {100 * row['high']:.0f}) % at "
        f"{row['calls_over_plain']:.2f}"
        for judge, table in judged.items()
        for shown, _, row in table
    )
    chart = Chart("User turns solved against model calls, with 95 % intervals", words)
    wide = (WIDTH - 3 * MARGIN - 30) / 2
    for place, (judge, table) in enumerate(judged.items()):
        left = MARGIN + 26 + place * (wide + MARGIN + 10)
        panel = Panel(
            left,
            HEAD + 22,
            left + wide - 10,
            HEAD + 382,
            (0.93, 9.2),
            (55, 93),
            log=True,
        )
        chart.ticks(panel, _numbers(1, 1.5, 2, 3, 5, 8), _numbers(60, 70, 80, 90))
        chart.named(
            panel,
            judge,
            "model calls, times those of the agent alone, logarithmic",
            "solved, %",
        )
        for _, series, row in table:
            x = panel.x(row["calls_over_plain"])
            ends = ((x, panel.y(100 * row[end])) for end in ("low", "high"))
            chart.line(path("M", next(ends), "L", next(ends)), f"l-{series}", width=1)
        for number, (_, series, row) in enumerate(table, start=1):
            _numbered(
                chart,
                panel.x(row["calls_over_plain"]),
                panel.y(100 * row["success"]),
                number,
                series,
            )
    below = HEAD + 382 + 56
    for place, (name, series, _) in enumerate(judged[JUDGES[0]]):
        x, y = MARGIN + 12 + (place // 4) * 240, below + ROW * (place % 4)
        _numbered(chart, x, y, place + 1, series)
        chart.text(x + 14, y + 4, name, "ink", size=TEXT)
    chart.write(file, below + 4 * ROW)


def _numbered(chart: Chart, x: float, y: float, number: int, series: str) -> None:
    chart.mark(x, y, series, size=7.5)
    chart.text(
        x, y + 3.5, f"{number}", "on b", size=10 if number < 10 else 9, anchor="middle"
    )


METHODS = {
    "tooltree-default": "our search",
    "tooltree-paper": "the paper's settings",
    "a-star": "A*",
    "best-of-n": "best of N",
    "lats": "LATS",
    "treequest-ab-mcts": "AB-MCTS",
}
"""Names in the picture, where they are others than in the figures."""

AUC, BUDGET = "0.95", "80"
LABEL_GAP = 14.0
"""Least distance between two labels."""


def draw_compare(methods: Mapping[str, Any], names: Sequence[str], file: Path) -> None:
    """Tasks solved by the methods of these names, as `compare --json` tells them: by model calls, and by the judge."""
    drawn = {
        _method(name): methods[name] for name in names if AUC in methods.get(name, {})
    }
    halves = (
        (
            f"judge of AUC {AUC}",
            "model calls",
            {name: by[AUC]["success"] for name, by in drawn.items()},
        ),
        (
            f"after {BUDGET} model calls",
            "AUC of the judge",
            {
                name: {auc: row["success"][BUDGET] for auc, row in by.items()}
                for name, by in drawn.items()
            },
        ),
    )
    words = "; ".join(
        f"{title}, {name}: "
        + ", ".join(f"{percent(share)} % at {at}" for at, share in curve.items())
        for title, _, curves in halves
        for name, curve in curves.items()
    )
    chart = Chart(
        "Tasks solved against model calls, and against the quality of the judge", words
    )
    wide = WIDTH / 2
    for place, (title, axis, curves) in enumerate(halves):
        left = MARGIN + 26 + place * (wide - 8)
        steps = list(next(iter(curves.values()), {}))
        panel = Panel(
            left,
            HEAD + 14,
            left + wide - 196,
            HEAD + 314,
            (0, max(1, len(steps) - 1)),
            (0, 100),
        )
        chart.ticks(panel, dict(enumerate(steps)), _numbers(0, 20, 40, 60, 80, 100))
        chart.named(panel, title, axis, "tasks solved, %")
        _curves(chart, panel, curves)
    chart.write(file, HEAD + 314 + 44)


def _method(name: str) -> str:
    plain = name.removesuffix("-fused")
    return METHODS.get(plain, plain)


def _curves(
    chart: Chart, panel: Panel, curves: Mapping[str, Mapping[str, float]]
) -> None:
    """Lines with a label at the end of each; the first one is drawn last, so that nothing covers it."""
    peers = zip(
        cycle(each for each in SERIES if each != "ours"), cycle(MARKS), strict=False
    )
    looks = {
        name: ("ours", "circle") if name == METHODS["tooltree-default"] else next(peers)
        for name in curves
    }
    ends = dict.fromkeys(curves, 0.0)
    for name, curve in reversed(curves.items()):
        series, shape = looks[name]
        points = [
            (panel.x(place), panel.y(100 * share))
            for place, share in enumerate(curve.values())
        ]
        along = path(
            "M", points[0], *(part for each in points[1:] for part in ("L", each))
        )
        chart.line(along, f"l-{series}", width=3 if series == "ours" else 1.4)
        for point in points:
            chart.mark(*point, series, shape, 3.2)
        ends[name] = points[-1][1]
    for name, y in _spread(ends, panel.bottom).items():
        series, shape = looks[name]
        chart.line(
            path("M", (panel.right + 5, ends[name]), "L", (panel.right + 15, y)),
            "grid",
            width=1,
        )
        chart.mark(panel.right + 20, y, series, shape, 3.2)
        chart.text(
            panel.right + 28,
            y + 4,
            name,
            f"s-{series}{' b' if series == 'ours' else ''}",
            size=TEXT,
        )


def _spread(heights: Mapping[str, float], lowest: float) -> dict[str, float]:
    """Heights of labels near the ends of their lines: down until none covers another, then up into view."""
    names = sorted(heights, key=lambda name: heights[name])
    placed: dict[str, float] = {}
    free = -math.inf
    for name in names:
        placed[name] = max(heights[name], free)
        free = placed[name] + LABEL_GAP
    for name in reversed(names):
        placed[name] = min(placed[name], lowest)
        lowest = placed[name] - LABEL_GAP
    return placed


LEARNERS = {
    "sitgraph": ("SIT-Graph, default", "ours", "circle"),
    "w/o state": ("by weight alone", "ours", "ring"),
    "bigram": ("counts of pairs", "peer", "square"),
    "trigram": ("trigram with back-off", "peer", "square"),
    "retrieval3": ("whole runs, top 3", "peer", "square"),
    "knn": ("kNN over TF-IDF", "peer", "square"),
    "supervised": ("supervised", "peer", "square"),
}
"""The learners of the picture, with their names there."""


def draw_next_tool(report: Mapping[str, Any], file: Path) -> None:
    """How often the first suggestion is right, and how far shares come true, as `next_tool --json` tells them."""
    names = list(report["files"])
    words = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{shown} {percent(report['files'][name][key]['hit1'])} %"
            for key, (shown, *_) in LEARNERS.items()
        )
        + ", shares and what came true: "
        + ", ".join(
            f"{percent(each['said'])} % {percent(each['came'])} %"
            for each in report["calibration"][name]["first"]["bins"]
        )
        for name in names
    )
    chart = Chart("Is the first suggestion right, and does its share come true?", words)
    room = (WIDTH - MARGIN - 150) / len(names)
    tall = ROW * len(LEARNERS)
    for place, name in enumerate(names):
        left = MARGIN + 150 + place * room
        right, top = left + room - 2 * MARGIN, HEAD + 2
        panel = Panel(left, top, right, top + tall, (0, 100), (len(LEARNERS), 0))
        chart.ticks(panel, _numbers(0, 20, 40, 60, 80, 100), {})
        chart.named(
            panel,
            f"{name}: {report['data'][name]['questions']} questions",
            "hit@1, %, with 95 % interval",
        )
        _rates(chart, panel, report["files"][name], named=not place)
        side = min(right - left, 240)
        low = Panel(
            left,
            top + tall + 84,
            left + side,
            top + tall + 84 + side,
            (0, 100),
            (0, 100),
        )
        calibration = report["calibration"][name]["first"]
        chart.ticks(
            low, _numbers(0, 20, 40, 60, 80, 100), _numbers(0, 20, 40, 60, 80, 100)
        )
        error = f"calibration error {percent(calibration['error'])} %"
        chart.named(
            low, error, "its share, %; the larger, the more of them", "it came true, %"
        )
        _came_true(chart, low, calibration["bins"])
    chart.write(file, HEAD + 2 + tall + 84 + min(room - 2 * MARGIN, 240) + 44)


def _rates(chart: Chart, panel: Panel, rows: Mapping[str, Any], *, named: bool) -> None:
    for place, (key, (name, series, shape)) in enumerate(LEARNERS.items()):
        y, row = panel.y(place + 0.5), rows[key]
        low, high = (panel.x(100 * end) for end in row["intervals"]["hit1"])
        chart.line(path("M", (low, y), "L", (high, y)), f"l-{series}", width=1.2)
        at = panel.x(100 * row["hit1"])
        chart.mark(at, y, series, shape)
        if named:
            chart.text(
                panel.left - 8,
                y + 4,
                name,
                f"ink{' b' if not place else ''}",
                size=TEXT,
                anchor="end",
            )


def _came_true(chart: Chart, panel: Panel, bins: Sequence[Mapping[str, float]]) -> None:
    """A mark for each bin, the larger the more shares are in it; on the line, what is said comes true."""
    chart.line(
        path("M", (panel.left, panel.bottom), "L", (panel.right, panel.top)),
        "line",
        width=1.2,
    )
    for each in bins:
        size = max(2.5, 0.9 * math.sqrt(each["shares"]))
        chart.mark(
            panel.x(100 * each["said"]), panel.y(100 * each["came"]), "ours", size=size
        )
