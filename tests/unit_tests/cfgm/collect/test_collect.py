"""Collecting: attempts, reflections, evaluation, limits, and going on after something was missing."""

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from langchain.agents import create_agent
from langgraph.graph import StateGraph
from langgraph.store.memory import InMemoryStore
from little_worlds import LESSON, Corridor, FullStore, Walker, contents, door_tool, empty_store, journal_of
from typing_extensions import TypedDict

from langchain_tooltree import ConfigurationError, ExperienceStore
from tests.internals.cfgm import Task, acollect, collect, named
from tests.internals.hall import run_flow


@pytest.fixture
def gather(either):
    """Collects on either path: `await gather(model, experience, agent, tasks, evaluate, ...)`."""
    return either(collect, acollect)


def fresh(_):
    return Corridor()


def attempt_id(task):
    return named([task])[0].attempt_id(1)


async def test_a_failed_attempt_is_reflected_on_and_the_next_one_reads_it(gather):
    model, experience = Walker(), empty_store()
    report = await gather(model, experience, fresh, ["leave"], None, focus_points=["Doors have locks."])

    first, second = experience.trajectories()
    assert (first.success, second.success) == (False, True)
    assert first.metadata["reflection"] == f"The door was locked.\n{LESSON}"
    assert [each.metadata["attempt"] for each in (first, second)] == [1, 2]
    assert [each.metadata["reward"] for each in (first, second)] == [0.0, 1.0]
    assert "Doors have locks." in model.prompts[0]
    assert LESSON not in model.prompts[0]
    assert LESSON in model.prompts[-1]
    assert "Doors have locks." in model.prompts[-1]
    assert (report.tasks, report.attempts, report.made, report.successes) == (1, 2, 2, 1)


async def test_advice_stands_in_front_of_the_task_and_is_not_mined_again(gather):
    model, experience = Walker(), empty_store()
    await gather(model, experience, fresh, ["leave"], None, focus_points=["Doors have locks."])

    told = model.calls[-1][1].text
    assert told.startswith("<reference_material")
    assert told.endswith("leave\n\nA corridor. You are to leave.")
    for trajectory in experience.trajectories():
        assert trajectory.task == "leave"
        assert trajectory.messages[0]["content"] == "leave\n\nA corridor. You are to leave."
        assert [step.tool for step in trajectory.steps] == ["act"] * 3


async def test_a_task_gets_no_more_attempts_than_allowed(gather):
    model, experience = Walker(reflections={"what_went_wrong": "Who knows.", "next_time": "Try."}), empty_store()
    report = await gather(model, experience, fresh, ["leave"], None, max_retries=2)
    assert [each.success for each in experience.trajectories()] == [False] * 3
    (outcome,) = report.outcomes
    assert (outcome.success, outcome.attempts) == (False, 3)
    assert outcome.trajectories == tuple(each.id for each in experience.trajectories())


async def test_more_retries_later_go_on_where_the_others_ended(gather):
    model, experience = Walker(reflections={"what_went_wrong": "Who knows.", "next_time": "Try."}), empty_store()
    await gather(model, experience, fresh, ["leave"], None, max_retries=0)
    asked = model.asked
    report = await gather(model, experience, fresh, ["leave"], None, max_retries=1)
    assert (report.attempts, report.made) == (2, 1)
    assert report.cost.model_calls == model.asked - asked
    assert report.total.model_calls == model.asked


async def test_a_collection_that_is_complete_costs_nothing_when_it_is_run_again(gather):
    model, experience = Walker(), empty_store()
    before = await gather(model, experience, fresh, ["leave", "enter"], None)
    asked, stored = model.asked, contents(experience)
    report = await gather(model, experience, fresh, ["leave", "enter"], None)
    assert model.asked == asked
    assert contents(experience) == stored
    assert (report.made, report.cost.model_calls) == (0, 0)
    assert report.total == before.total == before.cost
    assert report.attempts == 4


async def test_a_collection_in_which_nothing_was_tried_says_so(gather, caplog):
    experience = empty_store()
    await gather(Walker(), experience, fresh, ["leave"], None)
    assert "Nothing was tried" not in caplog.text
    report = await gather(Walker(), experience, fresh, ["leave"], lambda *_: False, max_steps=1)
    assert (report.made, report.successes) == (0, 1)
    assert "Nothing was tried: all 2 attempts were stored before" in caplog.text


async def test_what_another_version_has_kept_is_read_as_far_as_it_can_be(gather):
    experience, model = empty_store(), Walker(down_at=(3,))
    await gather(model, experience, fresh, ["leave"], None, max_retries=0)
    for namespace, key in contents(experience):
        shelf = experience.collection(namespace[-1])
        kept = run_flow(shelf.getting(key))
        run_flow(shelf.putting(key, {**kept, "usage": {"model_calls": 1, "cents": 7}}))
    ended = Task("enter")
    run_flow(experience.collection("attempts").putting(f"{attempt_id(ended)}/ended", {"messages": 7}))
    report = await gather(model, experience, fresh, ["leave", ended], None, max_retries=0)
    assert (report.attempts, report.unfinished) == (2, ())
    assert report.total.model_calls == 8


@pytest.mark.parametrize("down_at", range(1, 9))
async def test_what_was_answered_before_an_outage_is_not_asked_again(gather, down_at):
    whole = empty_store()
    await gather(steady := Walker(), whole, fresh, ["leave"], None)

    experience = empty_store()
    model = Walker(down_at=(down_at,))
    report = await gather(model, experience, fresh, ["leave"], None)
    if down_at == 4:  # the reflection, which is asked again at once
        assert report.successes == 1
        return
    if down_at < 8:
        (unfinished,) = report.unfinished
        assert "DownError" in unfinished.problem
        report = await gather(model, experience, fresh, ["leave"], None)
        assert model.asked == steady.asked + 1
    assert report.successes == 1
    assert journal_of(experience) == []
    assert contents(experience) == contents(whole)


async def test_an_attempt_goes_on_live_where_the_world_does_not_repeat_itself(gather):
    class Moody(Corridor):
        moods = iter("ab")

        def __init__(self):
            super().__init__()
            self.mood = next(self.moods)

        def step(self, action):
            seen, *rest = super().step(action)
            return f"{seen} {self.mood if len(self.actions) > 1 else ''}", *rest

    model, experience = Walker(down_at=(3,)), empty_store()
    await gather(model, experience, lambda _: Moody(), ["leave"], None, max_retries=0)
    assert len(journal_of(experience)) == 2
    report = await gather(model, experience, lambda _: Moody(), ["leave"], None, max_retries=0)
    assert report.outcomes[0].success is False
    assert model.asked == 3 + 1 + 1  # the third reply, then the reflection
    (stored,) = experience.trajectories()
    assert [step.outcome.text.strip() for step in stored.steps] == ["You walk 0.", "You walk 1. b", "You walk 2. b"]


async def test_replies_to_other_observations_are_dropped_and_said_so(gather, caplog):
    class Counting(Corridor):
        worlds = 0

        def __init__(self):
            super().__init__()
            Counting.worlds += 1
            self.number = Counting.worlds

        def step(self, action):
            seen, *rest = super().step(action)
            return f"{seen} In world {self.number}.", *rest

    model, experience = Walker(down_at=(3,)), empty_store()
    await gather(model, experience, lambda _: Counting(), ["leave"], None, max_retries=0)
    caplog.set_level("INFO")
    await gather(model, experience, lambda _: Counting(), ["leave"], None, max_retries=0)
    assert "1 replies are dropped" in caplog.text
    assert journal_of(experience) == []
    (stored,) = experience.trajectories()
    assert stored.steps[2].outcome.text == "You walk 2. In world 2."
    assert stored.metadata["usage"]["model_calls"] == 3 + 1


async def test_an_attempt_is_kept_without_a_reflection_if_the_model_is_down(gather):
    model, experience = Walker(down_at=(4, 5)), empty_store()
    await gather(model, experience, fresh, ["leave"], None, max_retries=0)
    (stored,) = experience.trajectories()
    assert stored.metadata["reflection"] == ""
    assert stored.success is False


@pytest.mark.parametrize(("said", "success"), [(True, True), (np.True_, True), (1, True), (np.float32(0.5), False)])
async def test_evaluate_says_whether_it_succeeded_or_gives_a_reward(gather, said, success):
    experience = empty_store()
    seen = []

    def evaluate(task, result):
        seen.append((task, result["done"], result["reward"], result["messages"][0].type))
        return said

    task = Task("leave", id="t1", data=object())
    await gather(Walker(), experience, fresh, [task], evaluate, max_retries=0)
    (stored,) = experience.trajectories()
    assert stored.success is success
    assert seen == [(task, True, 0.0, "human")]


async def test_evaluate_may_be_async(gather):
    async def evaluate(task, result):
        await asyncio.sleep(0)
        return result["reward"]

    report = await gather(Walker(), empty_store(), fresh, ["leave"], evaluate)
    assert report.successes == 1


@pytest.mark.parametrize("outcome", [ValueError("no data"), "yes", None, float("nan"), 10**400, 1j])
async def test_a_task_whose_evaluation_fails_is_unfinished_and_the_others_go_on(gather, outcome):
    model, experience = Walker(), empty_store()

    def evaluate(task, result):
        if task == "leave":
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return True

    report = await gather(model, experience, fresh, ["leave", "enter"], evaluate)
    assert [each.success for each in report.outcomes] == [None, True]
    assert "leave" in report.outcomes[0].problem
    assert "evaluate" in report.outcomes[0].problem
    assert [each.task for each in experience.trajectories()] == ["enter"]
    asked = model.asked
    report = await gather(model, experience, fresh, ["leave", "enter"], lambda *_: True)
    assert report.successes == 2
    assert model.asked == asked


async def test_an_attempt_that_spends_its_steps_has_failed(gather):
    experience = empty_store()
    await gather(Walker(steps=9), experience, fresh, ["leave"], lambda *_: True, max_steps=2, max_retries=0)
    (stored,) = experience.trajectories()
    assert stored.success is False
    assert "limit of 2 steps" in stored.reasons
    assert len(stored.steps) == 2


async def test_a_world_that_cannot_be_made_or_reset_leaves_the_task_unfinished(gather):
    def make(task):
        if task == "leave":
            msg = "no worlds left"
            raise OSError(msg)
        world = Corridor()
        if task == "enter":
            world.reset = lambda _: 1 / 0
        return world

    experience = empty_store()
    report = await gather(Walker(), experience, make, ["leave", "enter", "stay"], None)
    assert ["no worlds left" in report.outcomes[0].problem, "division" in report.outcomes[1].problem] == [True, True]
    assert report.outcomes[2].success is True


async def test_worlds_are_closed_whatever_comes_of_them(gather):
    worlds = []

    class Async(Corridor):
        close = None

        async def aclose(self):
            self.closed = True

    class Broken(Corridor):
        def step(self, action):
            msg = "stuck"
            raise RuntimeError(msg)

    class Unclosable(Corridor):
        def close(self):
            super().close()
            msg = "stuck"
            raise RuntimeError(msg)

    def make(task):
        worlds.append({"a": Corridor, "b": Async, "c": Broken, "d": Unclosable}[task]())
        return worlds[-1]

    experience = empty_store()
    report = await gather(Walker(), experience, make, ["a", "b", "c", "d"], None, max_retries=0)
    assert len(worlds) == 4
    assert all(world.closed for world in worlds)
    assert not report.unfinished
    assert "RuntimeError: stuck" in report.outcomes[2].reasons


async def test_a_world_may_be_async(gather):
    class Async:
        def __init__(self):
            self.corridor = Corridor()

        async def reset(self, task):
            return self.corridor.reset(task), {}

        async def step(self, action):
            seen, reward, done = self.corridor.step(action)
            return seen, reward, done, False, {}

    async def make(task):
        return Async()

    report = await gather(Walker(), empty_store(), make, ["leave"], None)
    assert report.successes == 1


async def test_a_class_makes_worlds(gather):
    class Own(Corridor):
        def __init__(self, task):
            super().__init__()

    report = await gather(Walker(), empty_store(), Own, ["leave"], None)
    assert report.successes == 1


async def test_one_world_takes_one_attempt_at_a_time(gather):
    class Shared(Corridor):
        def __init__(self):
            super().__init__()
            self.busy = False

        def reset(self, task):
            assert not self.busy
            self.busy = True
            return super().reset(task)

        def step(self, action):
            time.sleep(0.001)
            seen, reward, done = super().step(action)
            self.busy = not done
            return seen, reward, done

    world = Shared()
    report = await gather(Walker(), empty_store(), world, ["a", "b", "c"], None, max_concurrency=3)
    assert report.successes == 3
    assert not world.closed


@pytest.mark.slow
async def test_fresh_worlds_run_side_by_side_up_to_the_limit(gather):
    lock, running, most = threading.Lock(), set(), []

    class Slow(Corridor):
        def reset(self, task):
            with lock:
                running.add(task)
                most.append(len(running))
            return super().reset(task)

        def step(self, action):
            time.sleep(0.01)
            return super().step(action)

        def close(self):
            with lock:
                running.clear() if len(running) == 1 else running.pop()

    one, two = empty_store(), empty_store()
    tasks = ["a", "b", "c", "d"]
    await gather(Walker(), one, lambda _: Slow(), tasks, None, max_concurrency=2)
    assert max(most) == 2
    await gather(Walker(), two, lambda _: Slow(), tasks[::-1], None, max_concurrency=1)
    assert contents(one) == contents(two)


async def test_each_namespace_collects_for_itself(gather):
    store = InMemoryStore()
    experience = ExperienceStore(store, namespace=("tooltree", "{user_id}"))
    for user in ("ada", "bob"):
        report = await gather(Walker(), experience, fresh, ["leave"], None, config={"configurable": {"user_id": user}})
        assert report.made == 2
        assert len(list(experience.within(user_id=user).trajectories())) == 2
    with pytest.raises(ConfigurationError, match="user_id"):
        await gather(Walker(), experience, fresh, ["leave"], None)


async def test_a_store_that_fails_stops_the_collection_and_nothing_is_lost(gather):
    worlds = []

    def make(_):
        worlds.append(Corridor())
        return worlds[-1]

    model, experience = Walker(), ExperienceStore(FullStore(3))
    with pytest.raises(OSError, match="disk full"):
        await gather(model, experience, make, ["leave"], None)
    assert all(world.closed for world in worlds)
    await gather(model, experience, make, ["leave"], None)
    whole = empty_store()
    await gather(Walker(), whole, fresh, ["leave"], None)
    assert contents(experience) == contents(whole)
    assert model.asked == 7 + 1  # the reply that could not be kept


async def test_an_attempt_that_has_ended_is_neither_repeated_nor_evaluated_again(gather):
    model, experience, made, judged = Walker(), ExperienceStore(FullStore(1, "trajectories")), [], []

    def make(task):
        made.append(task)
        return Corridor()

    def evaluate(task, result):
        judged.append(task)
        return result["reward"]

    with pytest.raises(OSError, match="disk full"):  # after the first attempt, when it is put among the experience
        await gather(model, experience, make, ["leave"], evaluate)
    assert (len(made), len(judged)) == (1, 1)
    report = await gather(model, experience, make, ["leave"], evaluate)
    assert report.successes == 1
    assert (len(made), len(judged)) == (2, 2)


def test_an_interrupt_lets_running_steps_be_kept_and_begins_nothing_new():
    model, experience = Walker(), empty_store()
    worlds = []

    class Rude(Corridor):
        def step(self, action):
            if len(self.actions) == 1:
                raise KeyboardInterrupt
            return super().step(action)

    def make(task):
        worlds.append(Rude())
        return worlds[-1]

    with pytest.raises(KeyboardInterrupt):
        collect(model, experience, make, ["a", "b", "c"], None, max_concurrency=1)
    assert [world.closed for world in worlds] == [True]
    assert len(journal_of(experience)) == 2
    report = collect(model, experience, fresh, ["a", "b", "c"], None)
    assert report.successes == 3
    assert model.asked == 3 * 7


@pytest.fixture
def hears_interrupts():
    """Shells start background jobs with interrupts ignored; a person at a terminal has them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_interrupts")
def test_an_interrupt_of_the_main_thread_stops_all_others(monkeypatch):
    model, experience = Walker(), empty_store()
    both, stopping = threading.Barrier(2), threading.Event()
    shutdown = ThreadPoolExecutor.shutdown

    def shut_down(pool, *args, **kwargs):
        stopping.set()  # the main thread has been interrupted, and has told the others
        shutdown(pool, *args, **kwargs)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shut_down)

    class Busy(Corridor):
        def step(self, action):
            if len(self.actions) == 1:
                if both.wait(60) == 0:
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                assert stopping.wait(60)
            return super().step(action)

    with pytest.raises(KeyboardInterrupt):
        collect(model, experience, lambda _: Busy(), ["a", "b", "c", "d"], None, max_concurrency=2)
    assert list(experience.trajectories()) == []
    assert model.asked == 2 * 2
    assert len(journal_of(experience)) == 2 * 2
    report = collect(model, experience, fresh, ["a", "b", "c", "d"], None)
    assert report.successes == 4
    assert model.asked == 4 * 7


async def test_a_cancelled_collection_closes_its_worlds_and_can_go_on():
    model, experience = Walker(), empty_store()
    reached = asyncio.Event()
    worlds = []

    class Endless(Corridor):
        async def step(self, action):
            if len(self.actions) == 1:
                reached.set()
                await asyncio.sleep(60)
            return Corridor.step(self, action)

    def make(_):
        worlds.append(Endless())
        return worlds[-1]

    running = asyncio.create_task(acollect(model, experience, make, ["a"], None))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [world.closed for world in worlds] == [True]
    report = await acollect(model, experience, fresh, ["a"], None)
    assert report.successes == 1
    assert model.asked == 7


@pytest.mark.parametrize("shown", [True, False, None])
def test_the_progress_bar_goes_to_standard_error_where_it_is_wanted(capsys, shown):
    collect(Walker(), empty_store(), fresh, ["leave"], None, progress=shown)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("1/1 tasks, 2 attempts, 1 successes, 7 model calls" in " ".join(err.split())) is (shown is True)


def test_the_report_can_be_read():
    def evaluate(task, result):
        if task == "stay":
            raise ValueError("who can tell")
        return task == "leave"

    report = collect(Walker(), empty_store(), fresh, ["leave", "enter", "stay"], evaluate, max_retries=1)
    text = str(report)
    assert text.startswith("3 tasks: 1 succeeded, 1 failed, 1 unfinished\n3 attempts, 3 of them in this run\n")
    assert "who can tell" in text
    assert report.cost.input_tokens > report.cost.output_tokens > 0
    assert report.seconds > 0
    assert [each.attempts for each in report.outcomes] == [1, 2, 0]


class OtherState(TypedDict):
    """A state."""

    text: str


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"max_retries": -1}, "max_retries.*-1"),
        ({"max_retries": True}, "max_retries.*True"),
        ({"max_steps": 0}, "max_steps.*0"),
        ({"max_concurrency": 0}, "max_concurrency.*0"),
        ({"tasks": []}, "tasks is empty"),
        ({"tasks": "leave"}, "list"),
        ({"tasks": ["leave", "leave"]}, "same"),
        ({"tasks": [Task("a", id="1"), Task("b", id="1")]}, "same"),
        ({"tasks": [" "]}, "says something"),
        ({"tasks": [7]}, "7"),
        ({"agent": 7}, "int"),
        ({"agent": StateGraph(OtherState)}, "compile"),
        ({"evaluate": 7}, "evaluate.*7"),
        ({"evaluate": lambda task: True}, "task and a result"),
        ({"evaluate": lambda task, result, world: True}, "task and a result"),
        ({"focus_points": None}, "focus_points"),
        ({"focus_points": 3}, "focus_points"),
        ({"experience": InMemoryStore()}, "ExperienceStore"),
        ({"model": 7}, "model"),
        ({"focus_points": "look"}, "focus_points"),
        ({"agent": create_agent(Walker(), [door_tool(Corridor())])}, "evaluate"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_asked(changed, words):
    given = {
        "model": Walker(),
        "experience": empty_store(),
        "agent": fresh,
        "tasks": ["leave"],
        "evaluate": None,
        **changed,
    }
    with pytest.raises(ConfigurationError, match=words):
        collect(**given)


async def test_what_makes_worlds_has_to_make_worlds(gather):
    with pytest.raises(ConfigurationError, match=r"int.*leave"):
        await gather(Walker(), empty_store(), lambda _: 7, ["leave"], None)


def test_tasks_with_the_same_text_are_told_apart_by_their_ids():
    tasks = [Task("leave", id="1"), Task("leave", id="2"), "leave"]
    experience = empty_store()
    report = collect(Walker(), experience, fresh, tasks, None, max_retries=0)
    assert len({each.id for each in experience.trajectories()}) == report.attempts == 3
    assert sorted(each.metadata["task_id"] for each in experience.trajectories()) == ["", "1", "2"]
