"""Pictures of figures: sufficient in themselves, readable in light and dark, and one with the tables beside them."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

DOCS = Path(__file__).parents[3] / "cookbook" / "docs"
TABLES = (DOCS / "figures.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def test_the_table_of_recorded_runs_is_what_its_picture_shows() -> None:
    told = re.findall(
        r"[:] ([\d.]+) \((\d+) - (\d+)\) % at ([\d.]+)", words_of(picture("recorded"))
    )
    rows = [
        re.findall(r"\d+(?:\.\d+)?", line.partition(" | ")[2])
        for line in table("turns solved, %")
    ]
    assert len(rows) == 11
    assert [(row[0], row[1], row[2], row[3]) for row in rows] == told[:11]
    assert [(row[4], row[5]) for row in rows] == [
        (each[0], each[3]) for each in told[11:]
    ]


def test_the_table_of_prices_is_what_its_picture_shows() -> None:
    names = {"SQL": "sql", "RAG": "retrieval", "chain of five calls": "chain_5"}
    told = dict(re.findall(r"(\w+): plain agent ([^;]+)", words_of(picture("price"))))
    for line in table("| task | plain agent"):
        name, *cells = line.strip("| ").split(" | ")
        assert re.findall(r"\d+", told[names.get(name, name)]) == [
            cell.split(" / ")[0] for cell in cells
        ]


def test_the_table_of_searches_is_what_its_picture_shows() -> None:
    curves = (
        curve.rpartition(": ") for curve in words_of(picture("compare")).split("; ")
    )
    told = {
        where: dict(map(reversed, re.findall(r"([\d.]+) % at ([\d.]+)", shares)))
        for where, _, shares in curves
    }
    rows = table("| solved, %, after so many")
    assert len(told) == 2 * len(rows)
    for line in rows:
        name, *cells = (cell.strip(" *`") for cell in line.strip("|").split("|"))
        name = re.split(r"`? 0|`? \(| ReAct", name)[0]
        by_calls, by_judge = (
            told[f"judge of AUC 0.95, {name}"],
            told[f"after 80 model calls, {name}"],
        )
        shown = [
            *(by_calls[calls] for calls in ("20", "40", "80", "160")),
            by_judge["0.9"],
            by_judge["0.85"],
        ]
        assert cells[:6] == [f"{float(share):.0f}" for share in shown]


def test_the_table_of_next_tools_is_what_its_picture_shows() -> None:
    told = [
        re.findall(r"[\d.]+ %(?=,)", words)
        for words in words_of(picture("next_tool")).split("; ")
    ]
    rows = [re.findall(r"\| ([\d.]+) / ", line) for line in table("hit@1 / 2 / 3, %")]
    assert [[f"{each} %" for each in column] for column in zip(*rows, strict=True)] == [
        each[:7] for each in told
    ]


def picture(name: str) -> str:
    return (DOCS / "images" / "figures" / f"{name}.svg").read_text()


def table(heading: str) -> list[str]:
    """The rows of a table of the page, by words of its heading or of what introduces it."""
    lines = TABLES[TABLES.index(heading) :].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("|---"))
    end = next(
        place
        for place, line in enumerate(lines)
        if place > start and not line.startswith("|")
    )
    return lines[start + 1 : end]


def words_of(svg: str) -> str:
    """What a screen reader says of a picture."""
    root = ET.fromstring(svg)  # noqa: S314 - of our own making
    assert root.findtext(f"{SVG}title")
    return root.findtext(f"{SVG}desc") or ""
