"""What the name of a tool says about its effect. Pure."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_tooltree.text import (
    digest,
    words_of,
)

if TYPE_CHECKING:
    pass
from langchain_tooltree.text import get_call_key

EFFECTS_KEY = "effects"
"""Key of a record's metadata under which it may be declared which tools write: `{"pay": "write", "find": "read"}`.

Where that goes by the arguments, a list names the calls of the tool that were reads, each by its `call_digest`.
"""


READING_VERBS = frozenset(
    words_of(
        "browse calculate compute count describe estimate fetch find get grep inspect list load lookup look ls open "
        "peek query read recall retrieve scan search see select show tail think verify view"
    )
)
"""How the names of tools begin that only look something up. `check` is not among them (`check_in`, `checkout`),
and not `summarize`: a write of a user's own may be called as the package's `summarize_state`."""


WRITING_VERBS = frozenset(
    words_of(
        "book buy cancel create delete edit modify pay post purchase refund remove send transfer update write"
    )
)
"""Verbs of tools that act: those of the tau benchmarks' shop and airline (book, cancel, modify, send, transfer and
update), of files and databases (create, delete, edit, remove, write), of requests (post), and of what costs money."""


_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_of_name(name: str) -> list[str]:
    """The words of the name of a tool or an argument, in order: `shop__searchItems` has three."""
    return [word.lower() for word in _WORD_OF_NAME.findall(name)]


def call_digest(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """What tells a call from any other, in 64 bits: two of a million are mistaken with a chance of 3e-8."""
    return digest(get_call_key(tool, arguments or {}), 16)


def is_read(
    tool: str,
    effects: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> bool:
    """Whether a call only looks something up: as declared, or else by the name of its tool.

    A record does not show what a call changes. Names of functions begin with what they do, so `get_order` and
    `shop__searchItems` are reads. All others count as writes: a read taken for a write costs a line of a review, while
    a write taken for a read would not be reviewed.
    """
    declared = (effects or {}).get(tool)
    if declared in ("read", "write"):
        return bool(declared == "read")
    if isinstance(declared, list):
        return call_digest(tool, arguments) in declared
    words = words_of_name(re.split(r"__|[./:]", tool)[-1])
    return bool(words) and words[0] in READING_VERBS


def verb_of_write(tool: str) -> str | None:
    """The word in the name of a tool that says that it acts: of `get_book` and `list_transfers`, there is none."""
    return (
        None
        if is_read(tool)
        else next((word for word in words_of_name(tool) if word in WRITING_VERBS), None)
    )
