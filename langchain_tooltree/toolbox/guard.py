"""What all tools share: how they refuse, and the bounds of folders and sizes. Time is bounded in `process`."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from langchain_tooltree.errors import described, did_you_mean
from langchain_tooltree.text import cut, whole_characters

MAX_FILE = 50_000_000  # bytes of a file: more than a long scanned PDF has
MAX_FILES = 2_000  # files of the folder that are listed or searched
MAX_RESULT = 20_000  # characters of a result, about 5,000 tokens


class RefusedError(Exception):
    """What a tool will not or cannot do, in words for the model; it becomes a `ToolException`."""


def refuse(reason: str) -> NoReturn:
    """Raise a `RefusedError`."""
    raise RefusedError(reason)


def perform(function: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    """The result of a function; a `RefusedError` where it fails in any way."""
    try:
        return function(**arguments)
    except RefusedError:
        raise
    except Exception as error:  # noqa: BLE001 - a library's own, of which there are many
        refuse(f"{function.__name__} failed: {described(error)}")


def limit_result(result: str) -> str:
    """A result, cut where it is too long, in characters that every provider takes."""
    result = whole_characters(result).replace("\0", "")
    more = f"\n[cut: {MAX_RESULT:,} of {len(result):,} characters; ask for a smaller part]"
    return f"{result[:MAX_RESULT]}{more * (len(result) > MAX_RESULT)}"


def inside(folder: str, name: str) -> Path:
    """The path of a file by its name in the folder; refused if it leads out, is hidden, no plain file, or too large."""
    root = Path(folder).resolve()
    try:
        path = (root / name).resolve()
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        is_file = path.is_file()
    except (OSError, RuntimeError, ValueError):  # too long; a loop of links; outside, or with a \0
        refuse(f"{name!r} is not a name in the folder. Give a path relative to it, such as 'reports/2024.pdf'.")
    if hidden:
        refuse(f"{name!r} is hidden, and hidden files are not opened. Choose another file.")
    if not is_file:
        names = names_in(folder)
        nearest = did_you_mean(name, names) or f" Files: {cut(', '.join(names) or 'none', 500)}."
        refuse(f"There is no file {name!r} in the folder.{nearest}")
    if (size := path.stat().st_size) > MAX_FILE:
        refuse(f"{name!r} has {size:,} bytes; at most {MAX_FILE:,} are read. Choose a smaller file.")
    return path


def names_in(folder: str, endings: tuple[str, ...] = ("",)) -> list[str]:
    """At most `MAX_FILES` visible files with these endings, relative to the folder. Links are left out."""
    names: list[str] = []
    for place, folders, files in os.walk(folder):  # follows no links
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        paths = [Path(place, each) for each in sorted(files) if each.lower().endswith(endings) and each[0] != "."]
        names += [path.relative_to(folder).as_posix() for path in paths if not path.is_symlink()]
    return names[:MAX_FILES]
