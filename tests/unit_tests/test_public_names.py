"""Everything that users may write down stands in a list, so that no name or argument goes or comes unnoticed.

TOOLTREE_RECORD_NAMES=1 python -m pytest tests/unit_tests/test_public_names.py    # writes it anew
"""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import langchain_tooltree
from langchain_tooltree import effects, errors, events, testing, toolbox

PINNED = Path(__file__).with_name("public_names.txt")


def public_names() -> Iterator[str]:
    for module in (langchain_tooltree, effects, errors, events, testing, toolbox):
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        ]
        for name in sorted(name for name in names if not name.startswith("_")):
            yield from listed(
                f"{module.__name__}.{name}".removeprefix("langchain_tooltree."),
                getattr(module, name),
            )


def listed(name: str, value: Any) -> Iterator[str]:
    """A name with its arguments and, of a class, the members that this package gives it."""
    yield f"{name}{arguments(value)}"
    if not inspect.isclass(value):
        return
    ours = [
        each
        for each in value.__mro__
        if each.__module__.startswith("langchain_tooltree")
    ]
    fields = {field for each in ours for field in inspect.get_annotations(each)}
    members = {member for each in ours for member in vars(each)} | fields
    for member in sorted(members):
        # Flows are for other flows of this package, see `langchain_tooltree.flows`.
        if member.startswith("_") or member.endswith("_flow"):
            continue
        found = inspect.getattr_static(value, member, None)
        found = (
            found.__func__ if isinstance(found, classmethod | staticmethod) else found
        )
        yield f"  .{member}{arguments(found) if inspect.isfunction(found) else ''}"


def arguments(value: Any) -> str:
    if not callable(value):
        return ""
    try:
        taken = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown = [
        f"{each}".split(":")[0].split("=")[0].strip()
        for each in taken
        if each.name not in {"self", "cls"}
    ]
    return f"({', '.join(shown)})"


def test_names_and_arguments_are_those_of_the_list():
    names = "\n".join(public_names()) + "\n"
    if os.environ.get("TOOLTREE_RECORD_NAMES"):
        PINNED.write_text(names, encoding="utf-8")
    pinned = PINNED.read_text(encoding="utf-8").splitlines()
    gone = sorted(set(pinned) - set(names.splitlines()))
    come = sorted(set(names.splitlines()) - set(pinned))
    assert names.splitlines() == pinned, (
        f"gone: {gone}; come: {come}; if that is meant, write the list anew"
    )
