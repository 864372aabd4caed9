"""What an entry of the toolbox is: a function with a domain, examples, needs and limits; and what they share."""

import os
import re
import stat
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from itertools import islice
from operator import attrgetter
from pathlib import Path
from shutil import which
from typing import Any

from langchain_tooltree.errors import described, did_you_mean
from langchain_tooltree.text import cut, whole_characters

MAX_TEXT = 200_000
"""Characters of a text that is given as an argument: about a book of 100 pages."""

MAX_FILE = 50_000_000
"""Bytes of a file that is opened: more than a long scanned PDF has."""

MAX_RESULT = 20_000
"""Characters of a result: about 5,000 tokens. What is longer is cut, and the result says so."""

MAX_REFUSAL = 2_000
"""Characters of a refusal, which may quote an argument."""

MAX_FILES = 2_000
"""Files of the kind that is wanted that are taken from a folder."""

MAX_LOOKED = 100_000
"""Files and folders that are looked at for them, which takes a quarter of a second."""

MORE_FILES = "[not all files of the folder were looked at: list_files with an ending may find others]"

NAMED = 10
"""Files that a refusal names."""

DOMAINS = ("maths", "units", "tables", "text", "documents", "images", "knowledge")
"""The domains, each a module of this folder."""


class RefusedError(Exception):
    """What a tool will not or cannot do, in words for the model; it becomes a `ToolException`."""


@dataclass(frozen=True)
class Entry:
    """One tool of the toolbox.

    Keyword-only parameters of the function are what the user configures; all others are the model's arguments.
    """

    function: Callable[..., Any]
    domain: str
    packages: tuple[str, ...] = ()
    program: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    bounded: bool = True

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.function.__name__

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Arguments of `toolbox` that this tool needs."""
        parameters = signature(self.function).parameters.values()
        return tuple(each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY)

    def lacks(self, given: Mapping[str, Any]) -> tuple[str, str] | None:
        """What is missing, as a kind (package, program or setting) and its names; `None` if the tool can be used."""
        if lacking := next((each for each in self.packages if find_spec(each) is None), None):
            return "package", lacking
        if self.program and which(self.program) is None:
            return "program", self.program
        missing = [name for name in self.settings if given.get(name) in (None, "")]  # "" as of an unset variable
        return ("setting", ", ".join(f"{name}=" for name in sorted(missing))) if missing else None


def entry(
    domain: str,
    *examples: Mapping[str, Any],
    packages: tuple[str, ...] = (),
    program: str | None = None,
    bounded: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function an entry of the toolbox. `bounded` ones run in a process that is ended when their time is up."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        ENTRIES[function.__name__] = Entry(function, domain, packages, program, examples, bounded)
        return function

    return add


ENTRIES: dict[str, Entry] = {}
DESCRIPTORS, HELD, MAX_HELD = Path("/proc/self/fd"), deque[int](), 32
"""The files that were opened last; one call opens fewer."""


def all_entries() -> dict[str, Entry]:
    """The entries of all domains, by name."""
    for domain in DOMAINS:
        import_module(f"langchain_tooltree.toolbox.{domain}")
    return {
        name: each for domain in DOMAINS for name, each in ENTRIES.items() if each.domain == domain and name[0] != "_"
    }


def perform(name: str, arguments: Mapping[str, Any], passed: tuple[type[Exception], ...] = (RefusedError,)) -> str:
    """Run an entry, with a text for each failure but those that are to pass."""
    try:
        result: str = ENTRIES[name].function(**arguments)
    except passed:
        raise
    except MemoryError as error:
        msg = f"{name} needs more memory than it may have. Ask for less."
        raise RefusedError(msg) from error
    except RecursionError as error:
        msg = f"{name} was given something that is nested too deeply."
        raise RefusedError(msg) from error
    except Exception as error:
        own = "search" in ENTRIES[name].settings  # whose words may hold a key
        said = f"{type(error).__name__}. Try again later, or another tool." if own else cut(described(error), 500)
        msg = f"{name} failed: {said}"
        raise RefusedError(msg) from error
    if name.startswith("_"):
        return result
    if not (said := shown(result)).strip():
        msg = f"{name} has no answer."  # such as a model's empty one
        raise RefusedError(msg)
    return said


def shown(result: str) -> str:
    """A result, cut where it is too long, in characters that every provider takes."""
    result = whole_characters(result).replace("\0", "")
    if len(result) <= MAX_RESULT:
        return result
    return f"{result[:MAX_RESULT]}\n[cut: {MAX_RESULT:,} of {len(result):,} characters; ask for a smaller part]"


def refusal(error: RefusedError, folder: str | None) -> str:
    """What a refusal says to the model: bounded, and without where the folder lies on this machine."""
    text = whole_characters(str(error)).replace("\0", "")
    return cut(text.replace(f"{folder}{os.sep}", "") if folder else text, MAX_REFUSAL)


def check_text(name: str, text: str, most: int = MAX_TEXT) -> str:
    """A text argument, refused where it is too long."""
    if len(text) > most:
        msg = f"{name} has {len(text):,} characters; at most {most:,} are taken."
        raise RefusedError(msg)
    return text


def inside(folder: str, name: str) -> Path:
    """A file of the user's folder; whatever leads out of it, is hidden or is no plain file is refused.

    On Linux it is the opened file, since somebody may exchange it, or a folder, for a link.
    """
    root = Path(folder).resolve()
    with suppress(ValueError):
        name = str(Path(name).relative_to(root))  # of a whole path, as a user may have told it
    parts = Path(name).parts
    drive = os.name == "nt" and ":" in name  # C:x is no absolute path
    if Path(name).is_absolute() or drive or ".." in parts or not parts or not _is_printable(name):
        msg = f"{name!r} is not a name in the folder. Give a path relative to it, such as 'reports/2024.pdf'."
        raise RefusedError(msg)
    if any(part.startswith(".") for part in parts):
        msg = f"{name!r} is hidden, and hidden files are not opened."
        raise RefusedError(msg)
    try:
        path = (root / name).resolve(strict=True)
        about = path.stat()
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError in Python 3.11 and 3.12
        names, others = names_in(folder)
        number = f"{'over ' * bool(others)}{len(names) - NAMED:,}"
        more = f" and {number} more: list_files with an ending names them" if len(names) > NAMED else ""
        there = f" There are: {', '.join(names[:NAMED]) or 'none'}{more}."
        msg = f"There is no file {name!r} in the folder.{did_you_mean(name, names) or there}"
        raise RefusedError(msg) from error
    if not path.is_relative_to(root) or any(part.startswith(".") for part in path.relative_to(root).parts):
        msg = f"{name!r} leads out of the folder."
        raise RefusedError(msg)
    if not stat.S_ISREG(about.st_mode):
        msg = f"{name!r} is not a file."
        raise RefusedError(msg)
    if about.st_size > MAX_FILE:
        msg = f"{name!r} has {about.st_size:,} bytes; at most {MAX_FILE:,} are read."
        raise RefusedError(msg)
    if not DESCRIPTORS.is_dir():
        return path
    while len(HELD) >= MAX_HELD:
        os.close(HELD.popleft())
    HELD.append(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    held = DESCRIPTORS / str(HELD[-1])
    if held.readlink() != path:
        msg = f"{name!r} was exchanged for another file meanwhile."
        raise RefusedError(msg)
    return held


def _is_printable(name: str) -> bool:
    """Whether a name is one line of text that a model can read and give back."""
    return not any(unicodedata.category(each) in {"Cc", "Cs", "Zl", "Zp"} for each in name)


def names_in(folder: str, endings: tuple[str, ...] = ("",)) -> tuple[list[str], list[str]]:
    """The visible files of a folder with these endings, relative to it, and a note where there may be more.

    Links and names that are no text are left out.
    """
    root, left, folders = Path(folder).resolve(), MAX_LOOKED, [""]
    found: list[str] = []
    while folders and left >= 0 and len(found) <= MAX_FILES:
        place = folders.pop()
        with suppress(OSError), os.scandir(root / place) as entries:
            some = list(islice(entries, left + 1))  # of a folder that may hold millions
            left -= len(some)
            visible = (each for each in some if each.name[0] != "." and _is_printable(each.name))
            seen = sorted(visible, key=attrgetter("name"))
            files = [f"{place}{each.name}" for each in seen if each.is_file(follow_symlinks=False)]
            found += [name for name in files if name.lower().endswith(endings)]
            inner = [each for each in seen if each.is_dir(follow_symlinks=False)]  # a junction is a link of Windows
            folders += [f"{place}{each.name}/" for each in reversed(inner) if not getattr(each, "is_junction", bool)()]
    return found[:MAX_FILES], [MORE_FILES] * (left < 0 or len(found) > MAX_FILES)


def choice(name: str, value: str, known: Iterable[str]) -> str:
    """One of some known words, refused with the nearest where it is none."""
    known = list(known)
    value = " ".join(re.split(r"[-_\s]+", value.lower())).replace("center", "centre")
    if value not in known:
        msg = f"{name} must be one of {', '.join(known)}, not {value!r}.{did_you_mean(value, known)}"
        raise RefusedError(msg)
    return value
