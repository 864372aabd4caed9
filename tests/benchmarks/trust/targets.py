"""What the figures have to be."""

from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Mapping[str, Any]], bool]

TARGETS: dict[str, tuple[str, Test]] = {
    "replies": (
        "no reply crashes a reader, and each of up to 1 MB is read in under 50 ms",
        lambda found: (
            found["tried"] >= 20_000
            and not found["crashed"]
            and found["slowest_ms"] < 50
        ),
    ),
    "agents": (
        "no reply ends a run that the plain agent does not end, and none holds a loop for 100 ms longer than there",
        lambda found: (
            found["tried"] >= 20_000
            and not found["crashed"]
            and found["slowest_ms"] < 100
        ),
    ),
    "writes": (
        "none of at least 400 attacks makes a write run that nobody approved",
        lambda found: found["attacks"] >= 400 and not found["unapproved"],
    ),
    "tenants": (
        "none of at least 50 attacks reads or writes what is another tenant's",
        lambda found: found["attacks"] >= 50 and not found["crossed"],
    ),
    "poison": (
        "20 poisoned runs of one source change the first suggestion in at most 2 of 50 tasks; hit@2 loses 1 point",
        lambda found: (
            found["first_changed_of_50"] <= 2 and found["honest_hit2_loss"] <= 1
        ),
    ),
    "identities": (
        "with quarantine, 100 poisoned runs under as many names change nothing that is said",
        lambda found: (
            not any(
                sum(row.values())
                for name, row in found.items()
                if name.endswith("quarantine")
            )
        ),
    ),
    "erase": ("no text is left after erasing", lambda found: found["texts_left"] == 0),
    "kills": (
        "no acknowledged record is lost or kept twice, and none is half there",
        lambda found: (
            not found["lost"] and not found["duplicated"] and not found["orphans"]
        ),
    ),
    "load": (
        "200 agents at once: the loop lags at most twice as much as with plain agents, and no turn is lost silently",
        lambda found: (
            found["ours_async_lag_p99_ms"] <= 2 * found["plain_async_lag_p99_ms"]
            and not found["lost_silently"]
        ),
    ),
    "graph_folder": (
        "no damage of a graph folder passes silently",
        lambda found: not found["silent"],
    ),
}
"""What each part has to show, in words, and the test of it."""


def targets(told: Mapping[str, Any]) -> dict[str, bool]:
    """Which of the targets hold, of the parts that were measured."""
    return {
        words: test(told[part])
        for part, (words, test) in TARGETS.items()
        if part in told
    }
