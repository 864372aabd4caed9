"""Journal: what is kept of an attempt under way, so that nothing that was answered is asked again after a kill.

Each reply is a record of its own, written before anything is done about it. It is found again by what had been said
before it: where the world does not repeat itself, what was replied to something else does not match and is left alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tooltree.experience.formats import EXTRAS, to_chat
from langchain_tooltree.experience.shelf import Shelf
from langchain_tooltree.flows import Flow

SHELF = "attempts"
"""Label under which journals stand in the namespace of the experience."""

ENDED = "ended"
"""Key of the record of an attempt that has ended and is not yet stored as experience."""

SEPARATOR = "/"

Records = dict[str, dict[str, Any]]


class Journal:
    """The journal of one attempt.

    Args:
        shelf: Where it is kept.
        attempt: Id of the attempt.
        records: What was kept of it before.
    """

    def __init__(self, shelf: Shelf, attempt: str, records: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._shelf = shelf
        self._attempt = attempt
        self._records = dict(records or {})
        self._kept = dict.fromkeys(self._records)
        self._used = {ENDED}

    def recorded(self, key: str) -> Mapping[str, Any] | None:
        """What was kept under a key before this process; `None` if nothing was."""
        self._used.add(key)
        return self._records.get(key)

    def keeping(self, key: str, record: Mapping[str, Any]) -> Flow[None]:
        """Keep a record, as a flow; it is safe when the flow has ended."""
        self._kept[key] = None
        yield from self._shelf.putting(f"{self._attempt}{SEPARATOR}{key}", record)

    def clearing(self) -> Flow[None]:
        """Delete all that was kept of the attempt, as a flow."""
        for key in list(self._kept):
            yield from self._shelf.deleting(f"{self._attempt}{SEPARATOR}{key}")
            del self._kept[key]

    @property
    def holds(self) -> bool:
        """Whether anything is kept."""
        return bool(self._kept)

    @property
    def unused(self) -> int:
        """How many earlier records have not been asked for."""
        return len(self._records.keys() - self._used)


def journals(shelf: Shelf) -> Flow[dict[str, Records]]:
    """All that is kept of attempts under way, as a flow.

    Args:
        shelf: Where it is kept.

    Returns:
        The records of each attempt, by the attempt's id and their keys.

    Raises:
        StoreError: If something stored there is no such record.
    """
    found: dict[str, Records] = {}
    for name, record in (yield from shelf.reading()).items():
        attempt, _, key = name.partition(SEPARATOR)
        found.setdefault(attempt, {})[key] = record
    return found


def place(*parts: Any) -> str:
    """A short name for what had been said at some point: the same one whenever the same was said.

    Args:
        *parts: Data, with messages among it. Of messages counts what was said and called, not their ids; of other
            objects that JSON has no form for, their type alone.

    Returns:
        The name.
    """
    written = json.dumps(_plain(parts), sort_keys=True, default=lambda other: type(other).__qualname__)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def said(message: BaseMessage) -> dict[str, Any]:
    """A message in the OpenAI chat format, without what only LangChain knows, such as its id."""
    return {key: value for key, value in to_chat(message).items() if key != EXTRAS}


def _plain(data: Any) -> Any:
    if isinstance(data, BaseMessage):
        return said(data) if data.type != "remove" else {"removed": True}
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return [_plain(value) for value in data]
    return data
