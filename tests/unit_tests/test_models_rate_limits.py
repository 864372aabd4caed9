"""Which refusals are rate limits, how long they are waited for, and where patience ends."""

import logging
import math
import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from tests.internals.hall import (
    FIRST_BACK_OFF,
    LONGEST_BACK_OFF,
    MAX_WAIT,
    SHORTEST_WAIT,
    Patience,
    TwinStep,
    ask_patiently,
    http_status,
    seconds_to_wait,
    was_refused,
)


class StatusError(Exception):
    """An error as the clients built on httpx raise it."""

    def __init__(self, status, *, code=None, **headers):
        super().__init__(f"status {status}")
        self.code = code
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = SimpleNamespace(status_code=status, headers=named)


class Request:
    """Gives its outcomes in order, the last one for ever; counts how often it is made."""

    def __init__(self, *outcomes, seconds=0.0):
        self.outcomes, self.seconds, self.made = list(outcomes), seconds, 0

    def run(self):
        time.sleep(self.seconds)
        self.made += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def arun(self):
        return self.run()


def played(flow):
    """Drive a flow without waiting; returns what it returned or raised, and the seconds it would have waited."""
    waits, answer = [], None
    step = next(flow)
    try:
        while True:
            if isinstance(step, TwinStep):  # the request is no such step, so it is a wait
                waits.append(*step.run.args)
                step = flow.send(None)
            else:
                try:
                    answer = step.run()
                except StatusError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
    except StopIteration as stop:
        return stop.value, waits
    except StatusError as error:
        return error, waits


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "2"}, 2),
        ({"Retry_After": "0.25"}, 0.25),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9),
        ({"retry_after": "0.0001"}, SHORTEST_WAIT),
    ],
)
def test_a_rate_limit_is_waited_for_as_long_as_the_provider_asks(headers, seconds):
    assert seconds_to_wait(StatusError(429, **headers), 0) == seconds


def test_a_time_of_day_is_waited_for():
    seconds = seconds_to_wait(StatusError(429, retry_after=formatdate(time.time() + 30, usegmt=True)), 0)
    assert 20 < seconds <= 30


@pytest.mark.parametrize(
    "said", ["0", "-3", "nan", "inf", "later", "", "Mon, 32 Jan 2020", formatdate(0, usegmt=True), "9" * 400]
)
def test_without_a_time_to_come_the_wait_is_doubled_each_time_with_jitter(said):
    for headers in ({"retry_after": said}, {}):
        for refusals in range(12):
            longest = min(FIRST_BACK_OFF * 2**refusals, LONGEST_BACK_OFF)
            assert longest / 2 <= seconds_to_wait(StatusError(429, **headers), refusals) <= longest


def test_the_jitter_keeps_waits_apart():
    assert len({seconds_to_wait(StatusError(429), 0) for _ in range(9)}) > 1


@pytest.mark.parametrize("status", [503, 529])
def test_an_overloaded_provider_is_waited_for_if_it_says_when_to_come_back(status):
    assert seconds_to_wait(StatusError(status, retry_after="3"), 0) == 3
    assert seconds_to_wait(StatusError(status), 0) is None


@pytest.mark.parametrize(
    "error",
    [
        StatusError(400, retry_after="3"),
        StatusError(500, retry_after="3"),
        StatusError(429, code="insufficient_quota"),
        ConnectionError("busy"),
        TimeoutError(),
    ],
)
def test_other_errors_are_not_waited_for(error):
    assert seconds_to_wait(error, 0) is None


def test_the_status_is_found_at_the_error_its_response_or_its_cause():
    plain = ValueError("429")
    plain.status_code = 429
    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = StatusError(429)
    circular = RuntimeError("odd")
    circular.__cause__ = circular
    aws = RuntimeError("slow down")
    aws.response = {"ResponseMetadata": {"HTTPStatusCode": 429}}
    found = [http_status(error) for error in (plain, StatusError(429), wrapped, circular, aws)]
    assert found == [429, 429, 429, None, None]


def test_what_no_model_has_worked_on_counts_as_refused():
    refused = [StatusError(status) for status in (400, 401, 404, 429)] + [StatusError(503, retry_after="3")]
    assert all(map(was_refused, refused))
    assert not any(map(was_refused, [StatusError(500), StatusError(503), ConnectionError("busy")]))


def test_a_request_is_made_again_until_it_is_taken():
    request = Request(StatusError(429, retry_after="0.3"), StatusError(503, retry_after="1.2"), "taken")
    outcome, waits = played(ask_patiently(request, Patience()))
    assert (outcome, request.made) == ("taken", 3)
    assert sum(waits) == pytest.approx(1.5)


def test_all_waits_together_are_bounded():
    request, patience = Request(StatusError(429, retry_after="7")), Patience()
    outcome, waits = played(ask_patiently(request, patience))
    assert isinstance(outcome, StatusError)
    assert sum(waits) == pytest.approx(7 * (MAX_WAIT // 7))
    assert played(ask_patiently(request, patience))[1] == []


def test_what_would_take_too_long_is_not_waited_for_at_all():
    request = Request(StatusError(429, retry_after=str(MAX_WAIT + 1)))
    outcome, waits = played(ask_patiently(request, Patience()))
    assert isinstance(outcome, StatusError)
    assert (waits, request.made) == ([], 1)


def test_nothing_is_waited_for_beyond_the_deadline():
    request = Request(StatusError(429, retry_after="2"))
    late, early = Patience(deadline=time.monotonic() + 1), Patience(deadline=time.monotonic() + 3)
    assert played(ask_patiently(request, late))[1] == []
    assert sum(played(ask_patiently(request, early))[1]) >= 2


def test_the_time_that_a_client_waits_by_itself_counts():
    request = Request(StatusError(429, retry_after="0.5"), "taken", seconds=0.2)
    assert isinstance(played(ask_patiently(request, Patience(seconds=0.6)))[0], StatusError)


def test_other_errors_come_out_at_once():
    request = Request(StatusError(500), "taken")
    outcome, waits = played(ask_patiently(request, Patience()))
    assert isinstance(outcome, StatusError)
    assert (waits, request.made) == ([], 1)


def test_a_cancellation_ends_the_wait():
    asked = iter([False, False, False, True, True])
    request = Request(StatusError(429, retry_after="30"), "taken")
    outcome, waits = played(ask_patiently(request, Patience(cancelled=lambda: next(asked))))
    assert isinstance(outcome, StatusError)
    assert (len(waits), request.made) == (2, 1)


async def test_the_wait_is_real_on_either_path(drive):
    began = time.monotonic()
    assert await drive(ask_patiently(Request(StatusError(429, retry_after="0.2"), "taken"), Patience())) == "taken"
    assert time.monotonic() - began >= 0.2


def test_a_wait_is_logged(caplog):
    with caplog.at_level(logging.INFO, "langchain_tooltree"):
        played(ask_patiently(Request(StatusError(429, retry_after="2"), "taken"), Patience()))
    assert caplog.messages == ["Rate limit (HTTP status 429); asking again in 2.0 s."]


def test_patience_is_a_minute_without_a_deadline_unless_told_otherwise():
    assert (Patience().seconds, Patience().deadline) == (MAX_WAIT, math.inf) == (60, math.inf)
