"""Searches as files: how they are written and read, and a folder in which each search has its file."""

import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import LC_AUTO_PREFIX

from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.secrets import masked
from langchain_tooltree.text import digest, one_line, plain

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.result import SearchResult
    from langchain_tooltree.tooltree.search import Node, Observation

logger = logging.getLogger(__name__)

FORM = 1  # version of a search as JSON: what `SearchResult.to_dict()` gives, and this number as `version`
KEPT_FILES = 1_000  # searches that a folder keeps, the latest: some hundred megabytes, at 0.1 to 0.3 MB each

_TIME = "%Y%m%dT%H%M%S%fZ"
_OWN = re.compile(r"\.?\d{8}T\d{12}Z-[0-9a-f]{16}\.json(\.\w+)?")  # also what a process did not finish writing
_failing: set[Path] = set()  # folders that could not be written to: the log names each once


def as_saved(result: "SearchResult") -> dict[str, Any]:
    """A search as data for a file, without secrets."""
    return masked({"version": FORM, "answer": result.answer.text if result.answer else None, **result.to_dict()})


def as_data(result: "SearchResult", alternatives: Sequence[int]) -> dict[str, Any]:
    """A search as JSON-like data, without ids of calls and times; in the nodes `alternatives` other paths end."""
    nodes = [_node_to_dict(node) for node in result.tree.nodes]
    best = [step.node for step in result.steps]
    if result.answer is not None and not result.waiting:
        nodes[best[-1] if best else 0]["answer"] = result.answer.text
    return {
        "query": result.query,
        "stop_reason": result.stop_reason,
        "best": best,
        "cost": result.cost.counts(),
        "nodes": nodes,
        "history": [asdict(change) for change in result.tree.history],
        "alternatives": [*alternatives],
    }


def _node_to_dict(node: "Node") -> dict[str, Any]:
    reasons = {name: why for name, why in (("r_pre", node.pre_reason), ("r_post", node.post_reason)) if why}
    call = node.call and {"tool": node.call.tool, "arguments": dict(node.call.arguments), "effect": node.call.effect}
    return {
        "id": node.id,
        "parent": node.parent,
        "call": call,
        "world": node.world,
        "r_pre": node.r_pre,
        "r_post": node.r_post,
        "goal": node.goal,
        "scored": [node.pre_scored, node.post_scored],
        "observation": _observation_to_dict(node.observation) if node.observation else None,
        "N": node.visits,
        "Q": round(node.value, 12),
        "proposals": node.proposals,
        "dropped": node.dropped,
        "pruned": node.pruned,
        "closed": node.closed,
        **({"batched": True} if node.batched else {}),
        **({"reasons": reasons} if reasons else {}),
        **({"missing": [*node.missing]} if node.missing else {}),
    }


def _observation_to_dict(observation: "Observation") -> dict[str, Any]:
    """An observation as JSON-like data; made-up identifiers of content blocks, new in each run, are left out."""
    content: Any = observation.content
    if isinstance(content, list):
        content = [_without_made_up_id(block) if isinstance(block, dict) else block for block in content]
    kind = {"kind": observation.kind} if observation.kind != "ok" else {}
    return {"content": content, **kind, **({"transient": True} if observation.transient else {})}


def _without_made_up_id(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if not (key == "id" and str(value).startswith(LC_AUTO_PREFIX))}


def read_search(path: Path) -> dict[str, Any] | None:
    """A search that was written as JSON; `None` if it is something else.

    Raises:
        ConfigurationError: If it has another form than this version reads. Other damage is seen where it is used: see
            `undamaged`.
    """
    search = search_in(path)
    if search is None:
        return None
    if search.setdefault("version", FORM) != FORM:
        msg = f"{path} holds a search in form {search['version']!r}; this version reads form {FORM}. Search again."
        raise ConfigurationError(msg)
    with undamaged(path):
        for node in (search["nodes"][place] for place in search["best"]):
            int(node["id"])
        if any(node["parent"] is not None and node["parent"] >= node["id"] for node in search["nodes"]):
            msg = "a call comes before the one that it follows"
            raise ValueError(msg)
    return search


def search_in(path: Path) -> dict[str, Any] | None:
    """What looks like a search in a file; `None` if nothing does."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline()
            # A document on many lines is read whole, but not a large file with a run on each line.
            data = json.loads(first + (file.read() if first.strip() == "{" else ""))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and {"nodes", "best"} <= data.keys() else None


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Turn what reading a damaged search raises into a `ConfigurationError` in words: a file may hold anything."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        msg = f"{path} is no search as SearchResult.to_dict() gives it ({described(error)})."
        raise ConfigurationError(one_line(msg, 300)) from error


def record(folder: Path, search: Mapping[str, Any], *, key: str, thread: str = "") -> None:
    """Write a search to its file in a folder: whole or not at all, and for its owner alone to read.

    What cannot be written is logged once, and breaks nothing. The call blocks: on an event loop, make it in a thread.
    Where a killed process is repeated, the `key` of a search, and its `thread`, have its file be written again.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name, now = digest([thread, key], 16), datetime.now(UTC)
        path = next(folder.glob(f"*-{name}.json"), folder / f"{now:{_TIME}}-{name}.json")
        recorded = {"written": now.isoformat(timespec="seconds"), "thread": thread or None}
        _replace(path, json.dumps(masked(plain({"version": FORM, **search, "recorded": recorded}))))
        own = [each for each in folder.iterdir() if _OWN.fullmatch(each.name)]
        for oldest in sorted(own, key=lambda each: each.name.lstrip("."))[:-KEPT_FILES]:
            with suppress(OSError):  # another process may be at it, too
                oldest.unlink()
    except Exception as error:  # noqa: BLE001 - a disk, a result that cannot be written: the agent goes on
        if folder not in _failing:
            _failing.add(folder)
            logger.warning("Searches cannot be recorded in %s: %s", folder, described(error))
    else:
        _failing.discard(folder)


def _replace(path: Path, text: str) -> None:
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # which its owner alone may read
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)
