"""When to doubt an answer, and what to do then. Pure; `tests.benchmarks.recorded` plays these very rules.

The agent's own answer is kept from the moment it is given, and is returned unless a later one is better supported. So a
search can only add: it runs reads that were missing, and has the agent look again at what it left open. Signals that
cost nothing come first: what the answer reports of itself, a turn without any call, a failure that nothing made good.
Once an answer was doubted, all own steps of the turn are asked with a note of what it left open: an agent that merely
goes on after a read stops once more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Move = Literal["accept", "read", "again", "others"]
"""What to do with an answer: accept it, run a read that is named or waits, ask the agent's own step again with what is
missing, or ask for other calls at the weakest state of the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """What is known where the agent has answered without a call."""

    missing: bool  # whether its report, or a judge, says that something is missing: "no" always counts
    has_read: bool  # whether an untried read is named by the report, or waits from an earlier question
    idle: bool  # whether the turn ends without any call although a tool fits the request
    trouble: bool  # whether a call of the path has failed, and none of the same tool has succeeded since
    used: int  # extra model calls so far in this turn
    budget: int  # extra model calls at the most
    stops: int  # how often the agent has answered in this turn, this time included
    again: int  # how often its own step was asked again since
    asked: int  # how often other calls were asked for

    @property
    def is_evident(self) -> bool:
        """Whether the turn itself speaks against its first answer, whatever the answer reports."""
        return (self.idle or self.trouble) and self.stops == 1


def next_move(stop: Stop) -> Move:
    """What to do with an answer, cheapest first.

    A read costs one call, the own step after it; so does asking the own step again, which may take half of the budget.
    Asking for others costs two, and is left for where asking again has brought nothing. An answer is accepted where
    nothing speaks against it, or no model call is left.
    """
    left = stop.budget - stop.used
    if not (stop.missing or stop.is_evident) or left < 1:
        return "accept"
    if stop.has_read:
        return "read"
    if stop.again < max(1, stop.budget // 2):
        return "again"
    if stop.missing and stop.asked == 0 and left > 1:
        return "others"
    return "accept"


def is_trouble(results: Iterable[tuple[str, bool]]) -> bool:
    """Whether a failure stands that nothing has made good: of each result in order, its tool and whether it failed."""
    failures: set[str] = set()
    for tool, has_failed in results:
        if has_failed:
            failures.add(tool)
        else:
            failures.discard(tool)
    return bool(failures)


def admits(*, writes: bool, stops: int, named: bool, evident: bool, resumed: bool) -> bool:
    """Whether an own step goes to the host: the first write after an answer needs two voices.

    One voice is the own step. The other one is a report that names such a write, or the turn itself. A step that is
    not admitted ends the search: the answer that is held stands.

    Args:
        writes: Whether the step holds a call that may change something.
        stops: How often the agent has answered before in this turn.
        named: Whether the report of the latest answer has named a call of the one tool that the step writes with.
        evident: Whether `Stop.is_evident` was true of the latest answer.
        resumed: Whether a write was admitted since the latest answer: the agent is at work again.
    """
    return not writes or stops == 0 or named or evident or resumed


def is_better(*, missing: bool, held_missing: bool, extends: bool) -> bool:
    """Whether a later answer takes the place of the one held.

    It does if it leaves nothing open, or no more than the held one with new results beside all of its path (`extends`).
    """
    return not missing or (held_missing and extends)
