"""Pictures in SVG: texts that fit and harm nobody, boxes, lines, and colours for light and dark. Pure.

They refer to nothing outside themselves, and the same picture has the same bytes.
"""

import re
import unicodedata
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from langchain_tooltree.text import GAP, digest

EM, EM_CODE = 0.55, 0.61
"""Width of a character in its font's size: of a wide font such as DejaVu Sans, and of the usual fixed-width ones."""

LINE = 1.28
"""Height of a line in its font's size."""

HEADING, NAME, BODY, SMALL = 14.0, 12.0, 11.0, 10.0
"""Sizes of fonts in pixels."""

MOST_READ = 4_000
"""Characters of a text that are looked at for a label, which shows far fewer: a text may have a million."""

STANDS_FOR = "\N{REPLACEMENT CHARACTER}"
"""What is shown for a character that XML refuses, or that would change how others are read."""

_JOINERS = {"\N{ZERO WIDTH JOINER}", "\N{ZERO WIDTH NON-JOINER}"}  # emoji and Persian need them
_REFUSED = {"Cc", "Cf", "Cs", "Co"}  # control, format, lone surrogates, private
_NONE = {"\ufffe", "\uffff"}  # no characters, and XML refuses them; other unassigned ones may be of a newer Unicode

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
    "halo": ("stroke:#ffffff;stroke-width:4;paint-order:stroke", "stroke:#0d1117;stroke-width:4;paint-order:stroke"),
}
"""What each class of elements looks like, in light and in dark. Contrast: 4.5 or more of texts, 3 of lines."""

FONTS = {"text": "ui-sans-serif,system-ui,sans-serif", ".code": "ui-monospace,monospace"}


def visible(text: str) -> str:
    """A text as everybody sees it: what XML refuses, is invisible or turns the direction of others is marked."""
    return "".join(STANDS_FOR if _refused(each) else each for each in text)


def visible_lines(text: str) -> str:
    """The same of a text that may have several lines, such as a terminal shows: line ends and tabs stay."""
    return text if text.isprintable() else re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)


def _refused(character: str) -> bool:
    return character in _NONE or (unicodedata.category(character) in _REFUSED and character not in _JOINERS)


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
