"""Collecting: attempts, reflections, evaluation, limits, and going on after something was missing."""

import asyncio
import threading

import numpy as np
import pytest
from langchain.agents import create_agent
from langgraph.graph import StateGraph
from langgraph.store.memory import InMemoryStore
from little_worlds import (
    LESSON,
    Corridor,
    FullStore,
    Walker,
    contents,
    door_tool,
    empty_store,
)
from typing_extensions import TypedDict

from langchain_tooltree import CFGMMemory, ConfigurationError, ExperienceStore
from langchain_tooltree.cfgm.collect import Task


@pytest.fixture
def gather(either):
    """Collects on either path: `await gather(model, experience, agent, tasks, evaluate, ...)`."""

    def collect(model, experience, *arguments, **options):
        memory = CFGMMemory(model, experience)
        return either(memory.collect, memory.acollect)(*arguments, **options)

    return collect


def fresh(_):
    return Corridor()


async def test_a_failed_attempt_is_reflected_on_and_the_next_one_reads_it(gather):
    model, experience = Walker(), empty_store()
    report = await gather(
        model, experience, fresh, ["leave"], None, focus_points=["Doors have locks."]
    )

    first, second = experience.trajectories()
    assert (first.success, second.success) == (False, True)
    assert first.metadata["reflection"] == f"The door was locked.\n{LESSON}"
    assert [each.metadata["attempt"] for each in (first, second)] == [1, 2]
    assert [each.metadata["reward"] for each in (first, second)] == [0.0, 1.0]
    assert "Doors have locks." in model.prompts[0]
    assert LESSON not in model.prompts[0]
    assert LESSON in model.prompts[-1]
    assert "Doors have locks." in model.prompts[-1]
    assert report.successes == 1


async def test_advice_stands_in_front_of_the_task_and_is_not_mined_again(gather):
    model, experience = Walker(), empty_store()
    await gather(
        model, experience, fresh, ["leave"], None, focus_points=["Doors have locks."]
    )

    told = model.calls[-1][1].text
    assert told.startswith("<reference_material")
    assert told.endswith("leave\n\nA corridor. You are to leave.")
    for trajectory in experience.trajectories():
        assert trajectory.task == "leave"
        assert (
            trajectory.messages[0]["content"]
            == "leave\n\nA corridor. You are to leave."
        )
        assert [step.tool for step in trajectory.calls] == ["act"] * 3


async def test_a_task_gets_no_more_attempts_than_allowed(gather):
    model, experience = (
        Walker(reflections={"what_went_wrong": "Who knows.", "next_time": "Try."}),
        empty_store(),
    )
    report = await gather(model, experience, fresh, ["leave"], None, max_retries=2)
    assert [each.success for each in experience.trajectories()] == [False] * 3
    (outcome,) = report.outcomes
    assert (outcome.success, len(outcome.trajectories)) == (False, 3)
    assert outcome.trajectories == tuple(each.id for each in experience.trajectories())


async def test_a_collection_that_is_complete_costs_nothing_when_it_is_run_again(gather):
    model, experience = Walker(), empty_store()
    await gather(model, experience, fresh, ["leave", "enter"], None)
    asked, stored = model.asked, contents(experience)
    report = await gather(model, experience, fresh, ["leave", "enter"], None)
    assert model.asked == asked
    assert contents(experience) == stored
    assert report.cost.model_calls == 0


async def test_an_attempt_is_kept_without_a_reflection_if_the_model_is_down(gather):
    model, experience = Walker(down_at=(4, 5)), empty_store()
    await gather(model, experience, fresh, ["leave"], None, max_retries=0)
    (stored,) = experience.trajectories()
    assert stored.metadata["reflection"] == ""
    assert stored.success is False


@pytest.mark.parametrize(
    ("said", "success"),
    [(True, True), (np.True_, True), (1, True), (np.float32(0.5), False)],
)
async def test_evaluate_says_whether_it_succeeded_or_gives_a_reward(
    gather, said, success
):
    experience = empty_store()
    seen = []

    def evaluate(task, result):
        seen.append(
            (task, result["done"], result["reward"], result["messages"][0].type)
        )
        return said

    task = Task("leave", id="t1", data=object())
    await gather(Walker(), experience, fresh, [task], evaluate, max_retries=0)
    (stored,) = experience.trajectories()
    assert stored.success is success
    assert seen == [(task, True, 0.0, "human")]


@pytest.mark.parametrize(
    "outcome", [ValueError("no data"), "yes", None, float("nan"), 10**400]
)
async def test_a_task_whose_evaluation_fails_is_unfinished_and_the_others_go_on(
    gather, outcome
):
    model, experience = Walker(), empty_store()

    def evaluate(task, result):
        if task == "leave":
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return True

    report = await gather(model, experience, fresh, ["leave", "enter"], evaluate)
    assert [each.success for each in report.outcomes] == [None, True]
    assert (
        "no data" if isinstance(outcome, Exception) else "evaluate returned"
    ) in report.outcomes[0].problem
    assert [each.task for each in experience.trajectories()] == ["enter"]
    report = await gather(model, experience, fresh, ["leave", "enter"], lambda *_: True)
    assert report.successes == 2


async def test_an_attempt_that_spends_its_steps_has_failed(gather):
    experience = empty_store()
    await gather(
        Walker(steps=9),
        experience,
        fresh,
        ["leave"],
        lambda *_: True,
        max_steps=2,
        max_retries=0,
    )
    (stored,) = experience.trajectories()
    assert stored.success is False
    assert "limit of 2 steps" in stored.reasons
    assert [step.result is not None for step in stored.calls] == [True, True, False]


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
    assert [
        "no worlds left" in report.outcomes[0].problem,
        "division" in report.outcomes[1].problem,
    ] == [True, True]
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
    report = await gather(
        Walker(), experience, make, ["a", "b", "c", "d"], None, max_retries=0
    )
    assert len(worlds) == 4
    assert [world for world in worlds if not world.closed] == []
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


async def test_one_world_takes_one_attempt_at_a_time_and_stays_open(gather):
    world = Corridor()
    report = await gather(
        Walker(), empty_store(), world, ["a", "b", "c"], None, max_concurrency=3
    )
    assert report.successes == 3
    assert not world.closed


async def test_each_namespace_collects_for_itself(gather):
    store = InMemoryStore()
    experience = ExperienceStore(store, namespace=("tooltree", "{user_id}"))
    for user in ("ada", "bob"):
        report = await gather(
            Walker(),
            experience,
            fresh,
            ["leave"],
            None,
            config={"configurable": {"user_id": user}},
        )
        assert report.successes == 1
        assert len(list(experience.within(user_id=user).trajectories())) == 2
    with pytest.raises(ConfigurationError, match="user_id"):
        await gather(Walker(), experience, fresh, ["leave"], None)


async def test_a_store_that_fails_stops_the_collection_and_nothing_is_lost(gather):
    worlds = []

    def make(_):
        worlds.append(Corridor())
        return worlds[-1]

    model, experience = Walker(), ExperienceStore(FullStore(2))
    with pytest.raises(OSError, match="disk full"):
        await gather(model, experience, make, ["leave"], None)
    assert [world for world in worlds if not world.closed] == []
    await gather(model, experience, make, ["leave"], None)
    assert [each.success for each in experience.trajectories()] == [False, True]


def test_an_interrupt_begins_nothing_new_and_what_ended_is_kept():
    model, experience, begun = Walker(), empty_store(), []

    class Rude(Corridor):
        def reset(self, task):
            begun.append(task)
            if task == "b":
                raise KeyboardInterrupt
            return super().reset(task)

    memory = CFGMMemory(model, experience)
    with pytest.raises(KeyboardInterrupt):
        memory.collect(lambda _: Rude(), ["a", "b", "c", "d"], None, max_concurrency=1)
    assert begun == ["a", "a", "b"]
    assert [each.task for each in experience.trajectories()] == ["a", "a"]
    report = memory.collect(fresh, ["a", "b", "c", "d"], None)
    assert report.successes == 4
    assert model.asked == 4 * 7


@pytest.mark.slow
def test_after_an_interrupt_the_others_stop_at_their_next_step():
    model, experience = Walker(), empty_store()
    both = threading.Barrier(2)

    class Busy(Corridor):
        def step(self, action):
            if len(self.actions) == 1:
                if both.wait(60) == 0:
                    raise KeyboardInterrupt
                assert stopping.wait(60)
            return super().step(action)

    stopping = threading.Event()
    memory = CFGMMemory(model, experience)

    threading.Timer(1.0, stopping.set).start()
    with pytest.raises(KeyboardInterrupt):
        memory.collect(lambda _: Busy(), ["a", "b", "c", "d"], None, max_concurrency=2)
    assert list(experience.trajectories()) == []
    assert model.asked == 2 * 2


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

    memory = CFGMMemory(model, experience)
    running = asyncio.create_task(memory.acollect(make, ["a"], None))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list(experience.trajectories()) == []
    report = await memory.acollect(fresh, ["a"], None)
    assert report.successes == 1
    assert model.asked == 2 + 7


def test_the_report_can_be_read():
    def evaluate(task, result):
        if task == "stay":
            raise ValueError("who can tell")
        return task == "leave"

    report = CFGMMemory(Walker(), empty_store()).collect(
        fresh, ["leave", "enter", "stay"], evaluate, max_retries=1
    )
    text = str(report)
    assert text.startswith(
        "3 tasks: 1 succeeded, 1 failed, 1 unfinished\n3 attempts are stored. This run took "
    )
    assert "who can tell" in text
    assert report.cost.input_tokens > report.cost.output_tokens > 0
    assert [len(each.trajectories) for each in report.outcomes] == [1, 2, 0]


class OtherState(TypedDict):
    """A state."""

    text: str


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"max_retries": -1}, "max_retries.*-1"),
        ({"max_steps": 0}, "max_steps.*0"),
        ({"max_concurrency": 0}, "max_concurrency.*0"),
        ({"tasks": []}, "tasks is empty"),
        ({"tasks": ["leave", "leave"]}, "same"),
        ({"tasks": [" "]}, "says something"),
        ({"agent": 7}, "int"),
        ({"agent": StateGraph(OtherState)}, "compile"),
        ({"evaluate": 7}, "evaluate.*7"),
        ({"focus_points": "look"}, "focus_points"),
        ({"agent": create_agent(Walker(), [door_tool(Corridor())])}, "evaluate"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_asked(changed, words):
    given = {"agent": fresh, "tasks": ["leave"], "evaluate": None, **changed}
    with pytest.raises(ConfigurationError, match=words):
        CFGMMemory(Walker(), empty_store()).collect(**given)


async def test_what_makes_worlds_has_to_make_worlds(gather):
    with pytest.raises(ConfigurationError, match="returned int"):
        await gather(Walker(), empty_store(), lambda _: 7, ["leave"], None)


def test_tasks_with_the_same_text_are_told_apart_by_their_ids():
    tasks = [Task("leave", id="1"), Task("leave", id="2"), "leave"]
    experience = empty_store()
    CFGMMemory(Walker(), experience).collect(fresh, tasks, None, max_retries=0)
    assert len({each.id for each in experience.trajectories()}) == 3
    assert sorted(each.metadata["task_id"] for each in experience.trajectories()) == [
        "",
        "1",
        "2",
    ]
