"""Pictures of figures: sufficient in themselves, readable in light and dark, and one with the tables beside them."""

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks.pictures import draw_compare, draw_next_tool, draw_price, draw_recorded

DOCS = Path(__file__).parents[3] / "cookbook" / "docs"
TABLES = (DOCS / "figures.md").read_text(encoding="utf-8")
SECTIONS = TABLES.split("\n## ")[1:]
PICTURES = sorted((DOCS / "images" / "figures").glob("*.svg"))
DRAWINGS = [DOCS / "images" / f"{name}.svg" for name in ("demo", "paper_tooltree", "learn_from_threads")]
SVG = "{http://www.w3.org/2000/svg}"
DARK = re.compile(r"@media\(prefers-color-scheme:dark\)\{((?:[^{}]*\{[^{}]*\})*)\}")
LEAST_OF_TEXT, LEAST_OF_MARKS = 4.5, 3.0
"""Contrast: WCAG 2.2, 1.4.3 and 1.4.11."""

ROW = {"success": 0.838476, "low": 0.69, "high": 0.77, "calls_over_plain": 1.124}
HIT = {"hit1": 0.662921, "intervals": {"hit1": [0.6, 0.7]}}
LEARNERS = ("sitgraph", "w/o state", "bigram", "trigram", "retrieval3", "knn", "supervised")
DRAWN: dict[str, tuple[Callable[[Path], None], str]] = {
    "price": (
        lambda file: draw_price({"tasks": {"hello": {"plain": _c(1), "balanced": _c(2), "paper": _c(73)}}}, file),
        "hello: plain agent 1 (not solved), with the search 2, settings of the paper 73",
    ),
    "recorded": (
        lambda file: draw_recorded({"policies": {"a-star": ROW}, "sensitivity": {"correlated": {"a-star": ROW}}}, file),
        (
            "good judge, AUC 0.9, A*: 83.8 (69 - 77) % at 1.12; "
            "judge that shares the model's errors, A*: 83.8 (69 - 77) % at 1.12"
        ),
    ),
    "compare": (
        lambda file: draw_compare(
            {"a-star-fused": {"0.95": {"success": {"10": 0.5, "80": 0.931}}}}, ["a-star-fused"], file
        ),
        "judge of AUC 0.95, A*: 50.0 % at 10, 93.1 % at 80; after 80 model calls, A*: 93.1 % at 0.95",
    ),
    "next_tool": (
        lambda file: draw_next_tool(
            {
                "files": {"shop": dict.fromkeys(LEARNERS, HIT)},
                "data": {"shop": {"questions": 9}},
                "calibration": {
                    "shop": {"first": {"error": 0.043, "bins": [{"shares": 9, "said": 0.71, "came": 0.69}]}}
                },
            },
            file,
        ),
        "supervised 66.3 %, shares and what came true: 71.0 % 69.0 %",
    ),
}


def _c(calls: int) -> dict[str, Any]:
    return {"calls": calls, "solved": calls > 1}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_says_its_figures_and_is_the_same_twice(name: str, tmp_path: Path) -> None:
    draw, told = DRAWN[name]
    for file in ("a.svg", "b.svg"):
        draw(tmp_path / file)
    svg = (tmp_path / "a.svg").read_text()
    assert told in words_of(svg)
    assert svg == (tmp_path / "b.svg").read_text()


def test_each_section_of_figures_says_when_it_was_measured() -> None:
    undated = [section.splitlines()[0] for section in SECTIONS if not re.search(r"; 20\d\d-\d\d-\d\d\.", section)]
    assert len(SECTIONS) > 5
    assert undated == []


def test_each_benchmark_with_a_picture_has_one_in_the_page_of_figures() -> None:
    assert [path.stem for path in PICTURES] == sorted(DRAWN)
    assert [path.stem for path in PICTURES if f"](images/figures/{path.name})" not in TABLES] == []


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_committed_picture_stands_alone_and_keeps_its_texts_apart(path: Path) -> None:
    svg = path.read_text()
    assert words_of(svg)
    assert svg.count("http") == 1, "nothing but the name of the format"
    root = ET.fromstring(svg)  # noqa: S314 - of our own making
    wide, high = (float(root.attrib[side]) for side in ("width", "height"))
    boxes = [box_of(text) for text in root.iter(f"{SVG}text")]
    assert [box for box in boxes if box[0] < 0 or box[2] > wide or box[3] > high] == []
    covered = (
        (one, other)
        for one, other in combinations(boxes, 2)
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    )
    in_marks = {box_of(text) for text in root.iter(f"{SVG}text") if "on" in text.attrib["class"].split()}
    assert [pair for pair in covered if not in_marks.issuperset(pair)] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PICTURES + DRAWINGS, ids=lambda path: path.stem)
def test_texts_and_marks_of_a_committed_picture_can_be_seen(path: Path, scheme: str) -> None:
    found = list(contrasts(path.read_text(), scheme))
    assert len(found) > 20
    assert [(what, round(contrast, 2)) for what, contrast, least in found if contrast < least] == []


def test_the_table_of_recorded_runs_is_what_its_picture_shows() -> None:
    told = re.findall(r"[:] ([\d.]+) \((\d+) - (\d+)\) % at ([\d.]+)", words_of(picture("recorded")))
    rows = [re.findall(r"\d+(?:\.\d+)?", line.partition(" | ")[2]) for line in table("turns solved, %")]
    assert len(rows) == 11
    assert [(row[0], row[1], row[2], row[3]) for row in rows] == told[:11]
    assert [(row[4], row[5]) for row in rows] == [(each[0], each[3]) for each in told[11:]]


def test_the_table_of_prices_is_what_its_picture_shows() -> None:
    names = {"SQL": "sql", "RAG": "retrieval", "chain of five calls": "chain_5"}
    told = dict(re.findall(r"(\w+): plain agent ([^;]+)", words_of(picture("price"))))
    for line in table("| task | plain agent"):
        name, *cells = line.strip("| ").split(" | ")
        assert re.findall(r"\d+", told[names.get(name, name)]) == [cell.split(" / ")[0] for cell in cells]


def test_the_table_of_searches_is_what_its_picture_shows() -> None:
    curves = (curve.rpartition(": ") for curve in words_of(picture("compare")).split("; "))
    told = {where: dict(map(reversed, re.findall(r"([\d.]+) % at ([\d.]+)", shares))) for where, _, shares in curves}
    rows = table("| solved, %, after so many")
    assert len(told) == 2 * len(rows)
    for line in rows:
        name, *cells = (cell.strip(" *`") for cell in line.strip("|").split("|"))
        name = re.split(r"`? 0|`? \(| ReAct", name)[0]
        by_calls, by_judge = told[f"judge of AUC 0.95, {name}"], told[f"after 80 model calls, {name}"]
        shown = [*(by_calls[calls] for calls in ("20", "40", "80", "160")), by_judge["0.9"], by_judge["0.85"]]
        assert cells[:6] == [f"{float(share):.0f}" for share in shown]


def test_the_table_of_next_tools_is_what_its_picture_shows() -> None:
    told = [re.findall(r"[\d.]+ %(?=,)", words) for words in words_of(picture("next_tool")).split("; ")]
    rows = [re.findall(r"\| ([\d.]+) / ", line) for line in table("hit@1 / 2 / 3, %")]
    assert [[f"{each} %" for each in column] for column in zip(*rows, strict=True)] == [each[:7] for each in told]


def picture(name: str) -> str:
    return (DOCS / "images" / "figures" / f"{name}.svg").read_text()


def table(heading: str) -> list[str]:
    """The rows of a table of the page, by words of its heading or of what introduces it."""
    lines = TABLES[TABLES.index(heading) :].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("|---"))
    end = next(place for place, line in enumerate(lines) if place > start and not line.startswith("|"))
    return lines[start + 1 : end]


def words_of(svg: str) -> str:
    """What a screen reader says of a picture."""
    root = ET.fromstring(svg)  # noqa: S314 - of our own making
    assert root.findtext(f"{SVG}title")
    return root.findtext(f"{SVG}desc") or ""


def box_of(text: ET.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text, as wide as in a wide font."""
    x, y, size = (float(text.attrib[name]) for name in ("x", "y", "font-size"))
    wide = 0.55 * size * len(text.text or "")
    left = x - wide * {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor", ""), 0.0)
    return left, y - 0.75 * size, left + wide, y + 0.2 * size


def contrasts(svg: str, scheme: str) -> Iterator[tuple[str, float, float]]:
    """Each text and mark with its contrast to what is behind it, and the least that it needs."""
    style = "".join(re.findall(r"<style>(.*?)</style>", svg))
    rules = DARK.sub("", style) + ("".join(DARK.findall(style)) if scheme == "dark" else "")
    looks: dict[str, dict[str, str]] = {}
    for look, declared in re.findall(r"\.([\w-]+)\{([^}]*)\}", rules):
        looks[look] = looks.get(look, {}) | dict(re.findall(r"(fill|stroke):(#\w{6}|none)", declared))
    page = looks["page"]["fill"]
    discs: list[tuple[float, float, float, str]] = []
    for element in ET.fromstring(svg).iter():  # noqa: S314 - of our own making
        names = element.get("class", "").split()
        look: dict[str, str] = {}
        for name in names:
            look |= looks.get(name, {})
        if element.tag == f"{SVG}text":
            x, y = (float(element.attrib[name]) for name in "xy")
            y -= 0.35 * float(element.attrib["font-size"])
            behind = [fill for cx, cy, r, fill in discs if (x - cx) ** 2 + (y - cy) ** 2 < r**2]
            yield element.text or "", contrast(look["fill"], [page, *behind][-1]), LEAST_OF_TEXT
        elif element.tag in {f"{SVG}circle", f"{SVG}path"} and "grid" not in names:
            drawn = look["fill"] if look["fill"] != "none" else look["stroke"]
            yield element.get("class", ""), contrast(drawn, page), LEAST_OF_MARKS
            if element.tag == f"{SVG}circle":
                discs.append((*(float(element.attrib[name]) for name in ("cx", "cy", "r")), look["fill"]))
        elif element.tag == f"{SVG}rect" and "page" not in names and "stroke" in look:
            yield element.get("class", ""), contrast(look["stroke"], page), LEAST_OF_MARKS


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_contrast_is_what_the_standard_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
