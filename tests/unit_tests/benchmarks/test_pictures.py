"""Pictures of figures: well-formed, told to screen readers, sufficient in themselves, and the same each time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

pictures = pytest.importorskip("tests.benchmarks.pictures", reason="needs the extra `benchmarks`", exc_type=ImportError)

IMAGES = Path(__file__).parents[3] / "cookbook" / "docs" / "images" / "figures"
COSTS = {"hello": {"plain": {"calls": 1}, "balanced": {"calls": 2}, "paper": {"calls": 73}}}
ROWS = {"plain": {"success": 0.7329, "low": 0.69, "high": 0.77, "calls_over_plain": 1.0}}
DRAWN: list[tuple[Callable[[Any, Path], None], Any, str]] = [
    (pictures.draw_price, COSTS, "1 / 2 / 73"),
    (pictures.draw_recorded, {"policies": ROWS, "sensitivity": {"realist": ROWS}}, "the agent alone  73.3 at 1.00"),
]


def check(svg: str) -> str:
    """The texts of a picture that has what each must have."""
    root = ET.fromstring(svg)  # noqa: S314 - of our own making
    space = "{http://www.w3.org/2000/svg}"
    assert all(root.findtext(f"{space}{name}") for name in ("title", "desc"))
    assert "<!DOCTYPE" not in svg
    assert "metadata" not in svg
    assert svg.count("http") == svg.count("http://www.w3.org/") == svg.count("xmlns")
    return "\n".join("".join(text.itertext()) for text in root.iter(f"{space}text"))


@pytest.mark.parametrize(("draw", "told", "shown"), DRAWN)
def test_a_picture_shows_its_figures_and_is_the_same_twice(
    draw: Callable[[Any, Path], None], told: Any, shown: str, tmp_path: Path
) -> None:
    for name in ("a.svg", "b.svg"):
        draw(told, tmp_path / name)
    svg = (tmp_path / "a.svg").read_text()
    assert " ".join(shown.split()) in " ".join(check(svg).split())
    assert svg == (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.stem)
def test_a_committed_picture_has_the_common_form(path: Path) -> None:
    assert check(path.read_text())
