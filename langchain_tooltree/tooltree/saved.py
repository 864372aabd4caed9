"""Searches as files: how they are written and read, and a folder in which each search has its file.

A file is written while its search runs, so that one can look on, and at its end. It appears whole or not at all.
"""

import asyncio
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.flows import Flow, TwinStep
from langchain_tooltree.text import digest, one_line, plain
from langchain_tooltree.tooltree.result import SearchResult

logger = logging.getLogger(__name__)

FORM = 1
"""Version of a search that is written as JSON: what `SearchResult.to_dict()` gives, and this number as `version`."""

SEARCHING = "searching"
"""The `stop_reason` of a search that had not ended when it was written."""

PAUSE = 1.0
"""Seconds between two writes of a search that runs: who looks on sees it move."""

SHARE = 0.05
"""Part of a search's time that writing it may take: one with much text is written more seldom."""

KEPT_FILES = 1_000
"""Searches that a folder keeps, the latest: some hundred megabytes, at 0.1 to 0.3 MB each."""

PLAIN_THREAD = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
"""A thread whose id names a file as it is: a UUID. Others may be anything, an address of a mail or a path, too."""

_OWN = re.compile(r"\.?\d{8}T\d{9}Z-[0-9a-f-]+\.json(\.\w+)?")
"""Names of the files of a folder, and of those that a process has not finished writing when it ended."""

_failing: set[Path] = set()
"""Folders that could not be written to, so that each is told of once."""


def as_saved(result: SearchResult) -> dict[str, Any]:
    """A search as data for a file."""
    return {"version": FORM, "answer": result.answer.text if result.answer else None, **result.to_dict()}


def read_search(path: Path) -> dict[str, Any] | None:
    """A search that was written as JSON; `None` if it is something else.

    Raises:
        ConfigurationError: If it has another form than this version reads, or lacks what is always there. The rest is
            seen where it is used: see `undamaged`.
    """
    found = search_in(path)
    if found is not None and found.setdefault("version", FORM) != FORM:
        msg = f"{path} holds a search in form {found['version']!r}; this version reads form {FORM}. Search again."
        raise ConfigurationError(msg)
    if found is not None:
        with undamaged(path):
            ends = [found["nodes"][node]["id"] for node in (0, *found["best"])]
            for value, kind in ((found["query"], str), (found["stop_reason"], str), *((each, int) for each in ends)):
                if not isinstance(value, kind):
                    msg = f"{value!r:.40} is no {kind.__name__}"
                    raise TypeError(msg)
            if any(node["parent"] is not None and node["parent"] >= node["id"] for node in found["nodes"]):
                msg = "a call comes before the one that it follows"
                raise ValueError(msg)
            dict(found["cost"])
    return found


def search_in(path: Path) -> dict[str, Any] | None:
    """What looks like a search in a file; `None` if nothing does."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline()
            # A document on many lines is read whole, but not a large file with a run on each line.
            found = json.loads(first + (file.read() if first.strip() == "{" else ""))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"nodes", "best"} <= found.keys() else None


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Says in words what is wrong with a search that cannot be shown: a file may hold anything.

    Raises:
        ConfigurationError: In place of what reading a damaged search raises.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        msg = f"{path} is no search as SearchResult.to_dict() gives it ({described(error)})."
        raise ConfigurationError(one_line(msg, 300)) from error


def folder_named(folder: str | os.PathLike[str] | None) -> Path | None:
    """The folder that searches are recorded in, if they are."""
    if folder is not None and not isinstance(folder, str | os.PathLike):
        msg = f"record_searches must be the path of a folder, got {type(folder).__name__} {folder!r:.80}."
        raise ConfigurationError(msg)
    return Path(folder) if folder else None


class SearchFile:
    """The file of one search. What cannot be written is told once, and breaks no search."""

    def __init__(self, folder: Path, *, began: float, key: str, thread: str = "") -> None:
        self._began = datetime.fromtimestamp(began, UTC)
        self._thread = thread
        when = f"{self._began:%Y%m%dT%H%M%S}{self._began.microsecond // 1000:03}Z"
        named = thread if PLAIN_THREAD.fullmatch(thread) else digest(thread, 8)
        self.path = folder / "-".join(filter(None, (when, thread and named, f"{digest(key, 8)}.json")))
        self._next = 0.0
        self._is_new = True

    def follow(self, found: Callable[[], SearchResult], *, ended: bool = False) -> Flow[None]:
        """Write what is found so far, if the last time is long enough ago, or at the end."""
        if ended or time.monotonic() >= self._next:
            write = partial(self._write, found, ended=ended)
            yield TwinStep(write, partial(asyncio.to_thread, write))

    def _write(self, found: Callable[[], SearchResult], *, ended: bool) -> None:
        began = time.monotonic()
        try:
            data = as_saved(found())
            if not ended:
                data["stop_reason"] = SEARCHING
            written = datetime.now(UTC).isoformat(timespec="seconds")
            began_at = self._began.isoformat(timespec="seconds")
            data["recorded"] = {"began": began_at, "written": written, "thread": self._thread or None}
            self._replace(json.dumps(plain(data)))
        except Exception as error:  # noqa: BLE001 - a disk, a result that cannot be written: the agent goes on
            if self.path.parent not in _failing:
                _failing.add(self.path.parent)
                logger.warning("Searches cannot be recorded in %s: %s", self.path.parent, described(error))
        else:
            _failing.discard(self.path.parent)
        self._next = time.monotonic() + max(PAUSE, (time.monotonic() - began) / SHARE)

    def _replace(self, text: str) -> None:
        """Put a text into the file, for its owner alone to read."""
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        if self._is_new:
            self._is_new = False
            own = [each for each in folder.iterdir() if _OWN.fullmatch(each.name)]
            for oldest in sorted(own, key=lambda each: each.name.lstrip("."))[:-KEPT_FILES]:
                with suppress(OSError):  # another process may be at it, too
                    oldest.unlink()
