"""The pages that say where each statement of a paper stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "cookbook" / "docs" / "papers").glob("*.md"))
STATES = {"as printed", "on purpose", "partly", "not had"}


def rows(page):
    """The cells of each numbered row."""
    lines = [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| \d+ \|", line)
    ]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_exist_and_whatever_is_not_as_printed_has_its_reason(page):
    table = rows(page)
    assert [int(row[0]) for row in table] == [*range(1, len(table) + 1)]
    for number, what, where, state, *why in table:
        for file in re.findall(r"`([^`]+)`", where):
            assert (ROOT / file).is_file() or (
                ROOT / "langchain_tooltree" / file
            ).is_file(), (number, file)
        assert state in STATES, number
        assert state == "as printed" or why[0], (number, what)
