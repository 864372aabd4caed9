"""Rate limits of model providers: a request refused for its rate is waited out and asked again, within bounds.

A refusal is known by the shape of its error, not by the provider: whatever has a `status_code`, or a `response` that
has one, as the errors of httpx and of the clients built on it do.
"""

import email.utils
import logging
import math
import random
import time
from asyncio import sleep
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.flows import Flow, FlowStep

logger = logging.getLogger(__name__)

MAX_WAIT = 60.0
"""Seconds that one operation of a search (a proposal, a question to the judge) waits for rate limits in all."""

FIRST_BACK_OFF = 1.0
"""Seconds before a request is asked again if the provider does not say when; doubled each time."""

LONGEST_BACK_OFF = 16.0

SHORTEST_WAIT = 0.1
"""Seconds waited at the least: a provider that asks for less is still not asked in a busy loop."""

SLICE = 0.5
"""Seconds slept at a stretch; between two stretches a cancellation is noticed."""

CAUSES = 5
"""Errors of a chain of causes that are searched for a response: some integrations wrap those of their client."""

TOO_MANY_REQUESTS = 429

OVERLOADED = frozenset({503, 529})
"""Also a rate limit if the provider says when to come back; otherwise it is simply down."""

NO_CREDIT = "insufficient_quota"
"""The code of OpenAI's 429 for an account without credit, which no waiting cures."""


def http_status(error: BaseException) -> int | None:
    """The HTTP status that an error reports.

    Args:
        error: What a model raised.

    Returns:
        The status of the response behind it; `None` if there was none, as when the connection broke.
    """
    return _response(error)[0]


def was_refused(error: BaseException) -> bool:
    """Whether the provider would not take the request, so that no model has worked on it: any 4xx, or a rate limit."""
    status = http_status(error)
    return seconds_to_wait(error, 0) is not None or (status is not None and 400 <= status < 500)  # noqa: PLR2004


@dataclass(slots=True)
class Patience:
    """How long an operation may wait for rate limits.

    Args:
        seconds: What may still be waited in all; the time that a client spends on being refused counts, because most
            wait by themselves first.
        deadline: When nothing is waited for any more, on the clock of `time.monotonic`.
        cancelled: Asked while waiting; once true, the wait is over.
    """

    seconds: float = MAX_WAIT
    deadline: float = math.inf
    cancelled: Callable[[], bool] = lambda: False

    def allows(self, seconds: float) -> bool:
        """Whether so much patience is left."""
        return seconds <= self.seconds and time.monotonic() + seconds <= self.deadline and not self.cancelled()

    def wait(self, seconds: float) -> Flow[bool]:
        """Wait, and take it off.

        Args:
            seconds: How long.

        Returns:
            Whether all of it was waited, without a cancellation.
        """
        self.seconds -= seconds
        while seconds > 0 and not self.cancelled():
            yield Wait(min(seconds, SLICE))
            seconds -= SLICE
        return not self.cancelled()


@dataclass(frozen=True, slots=True)
class Wait:
    """Doing nothing for a while, as a step of a flow."""

    seconds: float

    def run(self) -> None:
        """Sleep."""
        time.sleep(self.seconds)

    async def arun(self) -> None:
        """Sleep without blocking the loop."""
        await sleep(self.seconds)


def ask_patiently(request: FlowStep, patience: Patience) -> Flow[Any]:
    """Make a request, and make it again for as long as it is refused for its rate and patience lasts.

    Args:
        request: The request to a model.
        patience: How long may be waited; what is waited is taken off.

    Returns:
        What came of the request.

    Raises:
        Exception: What the request raised, if it is no rate limit or patience is at its end.
    """
    refusals = 0
    while True:
        asked_at = time.monotonic()
        try:
            return (yield request)
        except Exception as error:
            seconds = seconds_to_wait(error, refusals)
            if seconds is None:
                raise
            patience.seconds -= time.monotonic() - asked_at
            if not patience.allows(seconds):
                raise
            logger.info("Rate limit (HTTP status %s); asking again in %.1f s.", http_status(error), seconds)
            if not (yield from patience.wait(seconds)):
                raise
        refusals += 1


def seconds_to_wait(error: BaseException, refusals: int) -> float | None:
    """How long to wait before a refused request is made again.

    Args:
        error: What the request raised.
        refusals: How often it was refused before.

    Returns:
        What the provider asks for, or else exponential back-off with jitter; `None` if it is no rate limit.
    """
    status, headers = _response(error)
    asked = _retry_after(headers)
    limited = status == TOO_MANY_REQUESTS and getattr(error, "code", None) != NO_CREDIT
    if not (limited or (status in OVERLOADED and asked)):
        return None
    back_off = min(FIRST_BACK_OFF * 2**refusals, LONGEST_BACK_OFF) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    return max(asked or back_off, SHORTEST_WAIT)


def _response(error: BaseException) -> tuple[int | None, Mapping[str, str]]:
    """Status and headers, names in lower case, of the response behind an error or one of its causes."""
    link: BaseException | None = error
    for _ in range(CAUSES):
        if link is None:
            break
        response = getattr(link, "response", None)
        status = getattr(link, "status_code", None) or getattr(response, "status_code", None)
        if isinstance(status, int):
            headers = getattr(response, "headers", None) or getattr(link, "headers", None)
            found = headers if isinstance(headers, Mapping) else {}
            return status, {str(name).lower(): str(value) for name, value in found.items()}
        link = link.__cause__
    return None, {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the headers of a response ask to wait; `None` if they do not say, or name no time to come."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) and seconds > 0 else None
    try:
        date = email.utils.parsedate_tz(headers.get("retry-after"))
        seconds = email.utils.mktime_tz(date) - time.time() if date else 0.0
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None
