"""The reference has all that is public, each error is explained, and what pages say of our own addresses is there."""

import inspect
import json
import re

import langchain_tooltree
from langchain_tooltree import ToolTreeError, errors, testing
from tests.unit_tests.documentation import pages

REFERENCE = "\n".join(
    text
    for page, text in pages.PAGES.items()
    if "/api/" in page or page.endswith("errors.md")
)
DOCUMENTED = set(
    re.findall(r"^(?:::: langchain_tooltree\.|### )([\w.]+)$", REFERENCE, re.MULTILINE)
)
ERRORS = {
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, ToolTreeError)
}
EXPLAINED = re.compile(r"^### (\w+)$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
REPOSITORY = re.compile(
    r"https://github\.com/langchain-tooltree/langchain-tooltree/(?:blob|tree|raw|edit)/\w+/([^)\"#\s]+)"
)
SITE = re.compile(
    r"https://langchain-tooltree\.github\.io/langchain-tooltree/([^)\"#\s]*)"
)
NOTEBOOKS = {
    path.name: "".join(
        "".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]
    )
    for path in sorted((pages.ROOT / "cookbook").glob("*.ipynb"))
}


def test_the_reference_has_every_public_name():
    assert sorted(set(langchain_tooltree.__all__) - DOCUMENTED) == []
    assert {
        "effects.sql_reads",
        "effects.http_reads",
        "events",
        "toolbox.toolbox",
    } <= DOCUMENTED
    assert {f"testing.{name}" for name in testing.__all__} <= DOCUMENTED


def test_each_error_says_what_causes_it_and_what_to_do():
    page = pages.PAGES["cookbook/docs/errors.md"]
    explained = dict(EXPLAINED.findall(page))
    assert sorted(ERRORS ^ set(explained)) == []
    assert [
        name
        for name, text in explained.items()
        if "| common cause | what to do |" not in text
    ] == ["ToolTreeError"]


def test_absolute_links_to_our_own_home_lead_somewhere():
    for page, text in {**pages.PAGES, **NOTEBOOKS}.items():
        assert [
            path
            for path in REPOSITORY.findall(text)
            if not (pages.ROOT / path).exists()
        ] == [], page
        assert [path for path in SITE.findall(text) if not is_page(path)] == [], page


RELATIVE = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def test_relative_links_lead_to_files_of_the_repository():
    for page, text in pages.PAGES.items():
        place = (pages.ROOT / page).parent
        assert [
            link for link in RELATIVE.findall(text) if not (place / link).exists()
        ] == [], page


ON_THE_SITE_ALONE = re.compile(
    r"--8 ?<|^(?:!!!|\?\?\?|===) |\{#|\]\[langchain_tooltree", re.MULTILINE
)
"""What GitHub shows as it stands, and what a formatter of Markdown has broken before."""


def test_a_page_reads_well_on_github_too():
    for page, text in pages.PAGES.items():
        assert ON_THE_SITE_ALONE.findall(text) == [], page
        if re.search(r"^::: |<!-- include: ", text, re.MULTILINE):
            assert (
                "<!-- on GitHub -->" in text or "](../../.github/SECURITY.md)" in text
            ), page


def test_each_picture_is_shown_somewhere():
    shown = "\n".join([*pages.PAGES.values(), *NOTEBOOKS.values()])
    assert [
        path.name for path in pages.DOCS.glob("images/*") if path.name not in shown
    ] == []


def is_page(path):
    name = path.strip("/")
    places = (pages.DOCS / f"{name}.md", pages.DOCS / name / "index.md")
    notebook = name.removeprefix("notebooks/") + ".ipynb"
    return any(place.exists() for place in places) or (
        name.startswith("notebooks/") and notebook in NOTEBOOKS
    )
