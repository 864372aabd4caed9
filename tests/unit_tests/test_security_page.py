"""SECURITY.md names only what there is: a promise about something that was renamed promises nothing."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import langchain_tooltree
from langchain_tooltree import SearchConfig, effects

PAGE = Path(__file__).parents[2].joinpath(".github", "SECURITY.md").read_text()
NAMED = sorted(set(re.findall(r"`([^`]+)`", PAGE)))

OTHERS = {"configurable", "tool_call_id"}
"""Names of LangChain and LangGraph."""


def parameters() -> set[str]:
    """The names of the arguments of all that is public."""
    found = {each.name for each in fields(SearchConfig)}
    for name in langchain_tooltree.__all__:
        public = getattr(langchain_tooltree, name)
        if callable(public) and not (
            inspect.isclass(public) and issubclass(public, Exception)
        ):
            found |= set(inspect.signature(public).parameters)
    return found


def exists(name: str, known: set[str]) -> bool:
    head, *rest = name.split(".")
    holder = next(
        (
            getattr(each, head)
            for each in (langchain_tooltree, effects)
            if hasattr(each, head)
        ),
        None,
    )
    if holder is None:
        return not rest and (head in known or head in OTHERS)
    return all(hasattr(holder, each) for each in rest)


def test_each_name_on_the_page_exists():
    known = parameters()
    assert [name for name in NAMED if not exists(name, known)] == []
    assert len(NAMED) > 10
    assert not exists("Experience.vanish", known)
    assert not exists("vanish", known)
