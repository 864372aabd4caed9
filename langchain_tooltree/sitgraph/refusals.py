"""What was tried in past runs and did not work: how often calls were made, and how often refused. Pure.

It is a fold over runs, whether or not they succeeded, and over the attempts that searches gave up: whatever the order
in which they come and go, the same runs give the same counts.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from langchain_tooltree.anomaly.rules import has_failed
from langchain_tooltree.experience.records import ATTEMPT_OF, Record, call_key
from langchain_tooltree.sitgraph.transitions import calls_in_order

LEAST_REFUSED = 3
"""Refusals of a tool from which on they are told: one may be chance, and two one cause."""

MOST_TOLD = 2
"""Tools of which refusals are told, those refused most often: a hint is one short line."""


class _Tried(NamedTuple):
    """A call that a run has made."""

    source: str  # the tool called before, `START` for the first call of a dialogue
    tool: str
    key: str  # what `call_key` says of it
    refused: bool
    run: str  # id of the run, or of the one that the search was part of which has tried it


class Refusals:
    """Counts the calls of runs and those that were refused: by the tool called before, and by the exact call."""

    def __init__(self) -> None:
        self._tried: dict[str, tuple[_Tried, ...]] = {}  # by the id of the record
        self._made = Counter[tuple[str, str]]()  # by the tool called before and the tool
        self._refused = Counter[tuple[str, str]]()
        self._worked = Counter[str]()  # records in which a call has worked, by its key
        self._in_vain = dict[str, dict[str, Counter[str]]]()  # by the tool called before and the key: in which runs

    def __len__(self) -> int:
        return len(self._tried)

    def learn(self, record: Record) -> None:
        """Take a record as the latest version of itself, whatever its verdict."""
        self.remove(record.id)
        if tried := tuple(_tried_in(record)):
            self._tried[record.id] = tried
            self._count(tried, 1)

    def remove(self, id: str) -> None:  # noqa: A002 - the field's name
        """Take back exactly what the record of this id gave."""
        self._count(self._tried.pop(id, ()), -1)

    def after(self, source: str) -> dict[str, tuple[int, int]]:
        """The calls that failed after a tool, by their keys: in how many runs they were tried, in how many in vain.

        A run that tries a call again until it works has not tried it in vain. One in which it worked counts wherever
        that was: what worked once may work again.
        """
        here = list(self._in_vain.get(source, {}).items())  # at once: others may learn meanwhile
        return {key: (self._worked[key] + len(runs), len(runs)) for key, runs in here}

    def told(self, source: str, allowed: Collection[str]) -> str:
        """In words, how often tools were refused after a tool, of those that were more often than not; may be empty."""
        counts = [(self._refused[source, tool], self._made[source, tool], tool) for tool in allowed]
        much = sorted((-refused, made, tool) for refused, made, tool in counts if 2 * refused > made)
        parts = (
            f"{tool}: called here {made} times, refused {-refused}"
            for refused, made, tool in much[:MOST_TOLD]
            if -refused >= LEAST_REFUSED
        )
        return "; ".join(parts)

    def _count(self, tried: Collection[_Tried], sign: int) -> None:
        worked = {each.key for each in tried if not each.refused}
        for each in tried:
            _add(self._made, (each.source, each.tool), sign)
            _add(self._refused, (each.source, each.tool), sign * each.refused)
        for key in worked:
            _add(self._worked, key, sign)
        for source, key, run in {(each.source, each.key, each.run) for each in tried if each.key not in worked}:
            here = self._in_vain.setdefault(source, {})
            _add(here.setdefault(key, Counter()), run, sign)
            if not here[key]:
                del here[key]
            if not here:
                del self._in_vain[source]


def _add(counter: Counter[Any], key: Any, number: int) -> None:
    """Add to a count, of which nothing is left at 0."""
    counter[key] += number
    if not counter[key]:
        del counter[key]


def _tried_in(record: Record) -> Iterator[_Tried]:
    """The calls of a record that brought something back.

    A failed attempt of a search begins as its run or as another attempt does, so its last reply alone counts.
    """
    run = record.metadata.get(ATTEMPT_OF)
    for _, messages in record.dialogues():
        made = list(calls_in_order(messages))
        last = made[-1][1].turn if made else 0
        for source, step in made:
            if step.outcome is not None and (not isinstance(run, str) or step.turn == last):
                key = call_key(step.tool, step.arguments or {})
                yield _Tried(source, step.tool, key, has_failed(step), run if isinstance(run, str) else record.id)
