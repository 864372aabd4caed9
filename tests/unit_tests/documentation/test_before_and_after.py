"""What the page on `create_agent` counts and shows of its apps is what differs in them.

That both run, and end alike, is tested with them in `integration_tests/test_documentation_examples.py`.
"""

import re
from difflib import SequenceMatcher
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "cookbook" / "docs"
PAGE = (DOCS / "migrate" / "create-agent.md").read_text()
APPS = sorted(
    path.stem.removesuffix("_before") for path in (DOCS / "apps").glob("*_before.py")
)


def changes(app: str) -> list[tuple[list[str], list[str]]]:
    """What was taken out of an app, and what was put in its place."""
    before, after = (
        (DOCS / "apps" / f"{app}_{when}.py").read_text().splitlines()
        for when in ("before", "after")
    )
    found = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(before[a:b], after[c:d]) for kind, a, b, c, d in found if kind != "equal"]


@pytest.mark.parametrize("app", APPS)
def test_the_page_counts_and_shows_the_lines_that_change(app):
    changed = sum(max(len(old), len(new)) for old, new in changes(app))
    assert changed > 0
    assert re.search(
        rf"^\| {app}[^|]* \| {changed} \|", PAGE, re.MULTILINE | re.IGNORECASE
    ), f"{app}: {changed} lines"
    shown = [
        sign + line
        for old, new in changes(app)
        for sign, lines in (("-", old), ("+", new))
        for line in lines
    ]
    assert "```diff\n" + "\n".join(shown) + "\n```" in PAGE
    assert f"(../apps/{app}_after.py)" in PAGE


def test_there_are_the_four_apps():
    assert APPS == ["rag", "sql", "supervisor", "weather"]
