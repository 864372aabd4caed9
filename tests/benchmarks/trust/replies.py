"""Rubbish over all readers: what crashes, and how long the slowest takes."""

import gc
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from langchain_tooltree.errors import ReplyError
from tests.benchmarks.trust.rubbish import (
    LARGEST,
    PARROT,
    READERS,
    random_reply,
    worst_replies,
)

REPLIES, QUICK = 20_000, 1_000
"""Replies that are tried, each by one reader or more."""

READERS_OF_ONE = 2
"""Readers that get a random reply: in turn, so that each gets its share."""

SAID = ReplyError
"""Errors by which a reader says that a reply holds nothing."""


def attempts(count: int, seed: int = 0) -> Iterator[tuple[str, AIMessage]]:
    """Readers with replies for them: the worst cases of the largest size for each, then random ones in turn."""
    worst = list(worst_replies(LARGEST))
    yield from ((name, reply) for reply in worst for name in READERS)
    names = list(READERS)
    for number in range(count):
        reply = random_reply(random.Random(f"{seed}:{number}"))  # noqa: S311 - no secret
        yield from (
            (names[(READERS_OF_ONE * number + more) % len(names)], reply)
            for more in range(READERS_OF_ONE)
        )


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Try replies, and time each reader's processor time on each: other processes of the machine do not count."""
    for read in READERS.values():
        _seconds(read, AIMessage("A first one."))  # imports, caches
    gc.collect()
    gc.freeze()  # what was there before is no reply's doing
    slowest, crashes, tried = ("", 0.0), Counter[str](), 0
    for name, reply in attempts(QUICK if quick else REPLIES):
        crash, seconds = _seconds(READERS[name], reply)
        tried += 1
        if crash:
            crashes[f"{name}: {crash}"] += 1
        slowest = max(slowest, (name, seconds), key=lambda each: each[1])
    figures = {
        "tried": tried,
        "crashed": crashes.total(),
        "slowest_ms": round(slowest[1] * 1_000, 1),
    }
    return {
        "replies": {**figures, "slowest_reader": slowest[0], "crashes": dict(crashes)}
    }


def _seconds(read: Any, reply: AIMessage) -> tuple[str, float]:
    """Why it crashed, if it did, and the seconds for each time that the reply was given: some ask again."""
    crash = ""
    PARROT.learn(reply)
    began = time.thread_time()
    try:
        read(reply)
    except SAID:
        pass
    except Exception as error:  # noqa: BLE001 - what crashes is counted
        crash = type(error).__name__
    return crash, (time.thread_time() - began) / max(1, PARROT.given)
