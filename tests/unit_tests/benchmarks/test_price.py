"""What a search costs beside the plain agent: the counting, the tasks, and the form of the figures."""

import asyncio
import json
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from langchain_tooltree.testing import Made, Question
from tests.benchmarks.price import __main__ as price_module
from tests.benchmarks.price.__main__ import EFFORTS, PLANNERS, Price, main, measure, verdict
from tests.benchmarks.price.clock import VirtualLoop
from tests.benchmarks.price.model import LATER, NOW, WRONG, CountingModel, Worker
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


def made(task, *keys):
    """The first calls of a task's steps, as a path with results."""
    calls = [call for step in task.steps for call in step]
    return tuple(Made(call.tool, call.arguments, "result") for call in calls[slice(*keys)])


def test_clock_counts_waits_one_after_the_other_and_those_at_once_only_once():
    async def work():
        await asyncio.gather(asyncio.sleep(1), asyncio.sleep(1), asyncio.to_thread(len, "runs at once"))
        await asyncio.sleep(2)

    assert on_clock(work()) == (3, True)


def test_clock_notices_a_thread_that_it_does_not_wait_for():
    async def work():
        done = asyncio.Event()
        threading.Thread(target=asyncio.get_running_loop().call_soon_threadsafe, args=(done.set,)).start()
        await done.wait()

    assert on_clock(work()) == (0, False)


def test_model_counts_its_calls_and_tokens():
    model = CountingModel(policy=Worker(TASKS["hello"]))
    said = []

    async def work():
        said.extend(await asyncio.gather(model.ainvoke("Hello!"), model.ainvoke("Hello!")))
        said.append(await model.ainvoke("Hello!"))

    assert on_clock(work()) == (2, True)
    assert model.calls == 3
    assert model.tokens == sum(each.usage_metadata["total_tokens"] for each in said)


@pytest.mark.parametrize("name", TASKS)
def test_plain_agent_solves_what_its_model_is_right_in(name):
    price = measure(TASKS[name], "plain")
    assert (price.calls, price.latencies) == (PLAIN_CALLS[name],) * 2
    assert price.solved == (not name.startswith("errs") or name in DETOURS)


def test_judge_tells_right_calls_from_early_and_wrong_ones():
    worker, task = Worker(TASKS["reads_2"]), TASKS["reads_2"]
    first, second, mail = made(task, 0, 3)
    start, both = Question("pre", task.request), Question("pre", task.request, (first, second))
    assert [worker.score_call(start, call) for call in (first, second, mail)] == [NOW, NOW, LATER]
    assert [worker.score_call(both, call) for call in (first, mail)] == [WRONG, NOW]
    assert worker.score_observation(start, first) == (NOW, WRONG)
    assert worker.score_observation(both, mail) == (NOW, NOW)


def test_model_errs_once():
    task = TASKS["errs_stop_mail"]
    worker, path = Worker(task), made(task, 0, 1)
    assert worker.next_calls(()) == list(task.steps[0])
    assert worker.next_calls(path) == []
    assert worker.next_calls(path) == list(task.steps[1])


def test_nothing_is_right_after_a_fatal_call():
    task = TASKS["errs_write"]
    worker, before = Worker(task), made(task, 0, 2)
    (wrong,) = worker.next_calls(before)
    path = (*before, Made(wrong.tool, wrong.arguments, "Deleted."))
    assert worker.next_calls(path) == []
    [(tool, arguments)] = worker.propose(Question("propose", task.request, path, count=5))
    assert worker.score_call(Question("pre", task.request, path), Made(tool, arguments)) == WRONG
    assert worker.next_calls(before) == list(task.steps[2])


def test_model_that_stops_too_early_says_what_is_missing_when_it_is_asked():
    task = TASKS["errs_stop_mail"]
    worker, path = Worker(task), made(task, 0, 1)
    assert worker.act(Question("step", task.request, path, ("mail",))) == []
    assert len(worker.missing(Question("step", task.request, path))) == 1
    assert worker.missing(Question("step", task.request, made(task, 0, 2))) == []


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_solves_a_read(planner):
    price = measure(TASKS["weather"], planner)
    assert price.solved
    assert price.calls >= price.latencies >= PLAIN_CALLS["weather"]


def test_figures_are_the_same_each_time():
    assert measure(TASKS["weather"], "balanced") == measure(TASKS["weather"], "balanced")


@pytest.mark.slow
def test_every_effort_holds_the_targets():
    planners = ("plain", *EFFORTS)
    prices = {name: {planner: measure(task, planner) for planner in planners} for name, task in TASKS.items()}
    assert not any(verdict(prices, {}).values())


def test_verdict_names_what_misses_a_target():
    right, dear, failed = Price(3, 100, 3, True), Price(8, 116, 8, True), Price(7, 1000, 7, False)
    sure, erring = dict.fromkeys(EFFORTS, dear), dict.fromkeys(EFFORTS, failed)
    cpu = {
        "mail": {"plain": 10.0, "balanced": 13.0},
        "three_writes": {"plain": 10.0, "balanced": 12.0},
        "after many messages": {"plain": 10.0, "balanced": 15.0},
    }
    told = [*verdict({"mail": {"plain": right, **sure}, "errs_mail": {"plain": right, **erring}}, cpu).values()]
    assert [len(missed) for missed in told] == [3, 3, 2, 0, 3]
    assert told[0][0] == "mail, frugal: 8 for 3"
    assert told[2] == ["all: 1.30", "after many messages: 1.50"]


def test_figures_are_written_by_task_and_planner(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(price_module, "cpu_ms", partial(price_module.cpu_ms, repeats=1))
    monkeypatch.setattr(price_module, "gc", SimpleNamespace(collect=lambda: None))  # of a whole suite it takes a second
    file = tmp_path / "out.json"
    main(["--json", str(file), "--plot", str(tmp_path / "out.svg"), "--tasks", "hello", "errs_stop_writes"])
    written = json.loads(file.read_text())
    prices, cpu = written["tasks"], written["cpu_ms"]
    assert list(cpu) == ["hello"], "CPU is that of runs in which the model is right"
    assert cpu["hello"].keys() == {"plain", "balanced"}
    assert list(prices) == ["hello", "errs_stop_writes"]
    assert all(list(row) == list(PLANNERS) for row in prices.values())
    assert {*prices["hello"]["plain"]} == {"calls", "tokens", "latencies", "solved"}
    assert prices["errs_stop_writes"]["plain"]["solved"] is False
    assert "errs_stop_writes: plain agent 2 (not solved)" in (tmp_path / "out.svg").read_text()
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("hello", "all right and sure", "all erring once", "holds", *PLANNERS))
