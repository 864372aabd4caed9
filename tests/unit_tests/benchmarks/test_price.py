"""What a search costs beside the plain agent: the counting, the tasks, and the form of the figures."""

import asyncio
from itertools import islice

import pytest

from tests.benchmarks.price.__main__ import EFFORTS, Price, measure, verdict
from tests.benchmarks.price.clock import VirtualLoop
from tests.benchmarks.price.model import CountingModel, Worker
from tests.benchmarks.price.tasks import tasks

TASKS = tasks()

PLAIN_CALLS = {
    "hello": 1,
    "weather": 2,
    "retrieval": 2,
    "sql": 4,
    "chain_3": 4,
    "chain_5": 6,
    **{f"reads_{count}": 3 for count in range(1, 7)},
    "mail": 3,
    "four_writes": 5,
    "two_writes": 3,
    "three_writes": 4,
    "errs_call": 5,
    "errs_sql": 5,
    "errs_stop_chain": 4,
    "errs_stop_reads": 2,
    "errs_stop_mail": 2,
    "errs_stop_writes": 2,
    "errs_write": 4,
}
DETOURS = {"errs_call", "errs_sql"}


def on_clock(work):
    """Runs `work`; returns how long that took on the virtual clock, and whether the clock can be trusted."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)
        loop = runner.get_loop()
        return loop.time(), loop.single_threaded


def test_model_counts_its_calls_and_tokens():
    model = CountingModel(policy=Worker(TASKS["hello"]))
    said = []

    async def work():
        said.extend(
            await asyncio.gather(model.ainvoke("Hello!"), model.ainvoke("Hello!"))
        )
        said.append(await model.ainvoke("Hello!"))

    assert on_clock(work()) == (2, True)
    assert model.calls == 3
    assert model.tokens == sum(each.usage_metadata["total_tokens"] for each in said)


@pytest.mark.parametrize("name", TASKS)
def test_plain_agent_solves_what_its_model_is_right_in(name):
    price = measure(TASKS[name], "plain")
    assert (price.calls, price.latencies) == (PLAIN_CALLS[name],) * 2
    assert price.solved == (not name.startswith("errs") or name in DETOURS)


def test_every_effort_holds_the_targets():
    planners = ("plain", *EFFORTS)
    tasks = islice(TASKS.items(), 0, None, 2)  # the command measures all
    prices = {
        name: {planner: measure(task, planner) for planner in planners}
        for name, task in tasks
    }
    assert [each for each in verdict(prices, {}).values() if each] == []


def test_verdict_names_what_misses_a_target():
    right, dear, failed = (
        Price(3, 100, 3, True),
        Price(8, 116, 8, True),
        Price(7, 1000, 7, False),
    )
    sure, erring = dict.fromkeys(EFFORTS, dear), dict.fromkeys(EFFORTS, failed)
    cpu = {
        "mail": {"plain": 10.0, "balanced": 13.0},
        "three_writes": {"plain": 10.0, "balanced": 12.0},
        "after many messages": {"plain": 10.0, "balanced": 15.0},
    }
    told = [
        *verdict(
            {"mail": {"plain": right, **sure}, "errs_mail": {"plain": right, **erring}},
            cpu,
        ).values()
    ]
    assert [len(missed) for missed in told] == [3, 3, 2, 0, 3]
    assert told[0][0] == "mail, frugal: 8 for 3"
    assert told[2] == ["all: 1.30", "after many messages: 1.50"]
