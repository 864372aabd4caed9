"""ScienceWorld, a real environment: for CFGM, by reset and step and by tools, and as a live bench. Needs Java."""

import gc

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import AnomalyDetector, CFGMMemory, CFGMMiddleware
from langchain_tooltree.cfgm.collect import Task as TrainingTask
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks import scienceworld_world
from tests.benchmarks.live import bench_scienceworld
from tests.benchmarks.live.episode import Options, Setting
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import converse
from tests.benchmarks.scienceworld_detection import runs_of, tallied
from tests.benchmarks.scienceworld_injections import KINDS
from tests.benchmarks.scienceworld_players import (
    Assumptions,
    Player,
    ReflectingModel,
    Way,
)
from tests.benchmarks.scienceworld_world import PERFECT, Task, World, tools_of

pytestmark = pytest.mark.skipif(
    bool(scienceworld_world.missing()), reason=scienceworld_world.missing() or "-"
)

TASK = Task("find-animal", 0)
MOST_STEPS = 60
CHEAP_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles and collects garbage in as few threads as it can: it runs for some seconds."""


@pytest.fixture(scope="module")
def world():
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_TOOL_OPTIONS", CHEAP_START)
        opened = World()
    process = opened._environment._gateway.java_process
    yield opened
    opened.close()
    assert process.returncode == 0
    del opened
    gc.collect()  # what was left open would warn


@pytest.fixture(scope="module")
def way(world):
    return Way(TASK, tuple(world.gold(TASK)))


def calling(actions):
    return [
        AIMessage(
            "", tool_calls=[{"name": "act", "args": {"action": each}, "id": each}]
        )
        for each in actions
    ]


def test_experience_is_collected_from_it_as_a_reset_step_environment(world, way):
    text = world.describe(TASK)
    memory = CFGMMemory(ScriptedChatModel(replies=calling(way.gold)), InMemoryStore())
    report = memory.collect(world, [TrainingTask(text, id=str(TASK), data=TASK)], None)
    assert [
        (outcome.success, len(outcome.trajectories)) for outcome in report.outcomes
    ] == [(True, 1)]
    (kept,) = memory.experience.trajectories()
    assert [step.arguments["action"] for step in kept.calls] == list(way.gold)[
        : len(kept.calls)
    ]
    assert kept.metadata["reward"] == pytest.approx(1)
    assert memory.recall(text).runs[0] == kept


def agent_in(world, way, *middleware):
    """An agent that goes astray on its way, and stays there until it is told the right step."""
    player = Player(way, Assumptions(derails=1))
    return create_agent(
        ScriptedChatModel(replies=[player.reply] * MOST_STEPS),
        tools_of(world),
        middleware=[
            ModelCallLimitMiddleware(run_limit=MOST_STEPS, exit_behavior="end"),
            *middleware,
        ],
    )


async def played(agent, text, path):
    given, config = {"messages": [("user", text)]}, {"recursion_limit": 1_000}
    result = (
        agent.invoke(given, config)
        if path == "sync"
        else await agent.ainvoke(given, config)
    )
    return result["messages"]


async def test_an_agent_that_is_helped_comes_back_on_course(world, way, path):
    reflecting = ReflectingModel(way, Assumptions(right=1), lambda: world.taken)
    model = ScriptedChatModel(replies=[reflecting.reply] * MOST_STEPS)
    helped = agent_in(
        world,
        way,
        CFGMMiddleware(model, patience=0, cooldown=1, max_reflections=MOST_STEPS),
    )
    messages = await played(helped, world.begin(TASK), path)
    assert world.last.score == PERFECT
    corrected = [
        message
        for message in messages
        if message.type == "tool" and "Next step: " in message.text
    ]
    assert len(corrected) == len(model.calls) > 0
    assert [
        (text, answer)
        for text, answer in _texts_and_answers(messages, world)
        if not text.startswith(answer)
    ] == []


def _texts_and_answers(messages, world):
    """What the conversation says came of each action, beside what did."""
    texts = [message.text for message in messages if message.type == "tool"]
    return zip(texts, [taken.answer for taken in world.taken], strict=True)


def test_what_goes_wrong_is_noticed_and_what_goes_right_is_left_alone(world):
    tally = tallied(
        runs_of(world, TASK, copies=1, seed=0), AnomalyDetector(pollers=("wait",)).check
    )
    assert tally.false == []
    assert {kind for kind in KINDS if tally.steps[kind]} == set(KINDS)
    assert [each for each in tally.missed if each["injected"] != "repeated no-op"] == []


def test_in_the_live_bench_gold_is_a_success_and_a_part_of_it_is_none(
    world, monkeypatch
):
    monkeypatch.setattr(bench_scienceworld, "World", lambda: world)
    process = bench_scienceworld.Process()
    monkeypatch.setattr(bench_scienceworld, "_process", lambda _: process)
    [task] = bench_scienceworld.ScienceWorldBench().tasks(
        Options(category="lifespan-longest-lived", tasks=1)
    )

    def played(actions):
        model = ScriptedChatModel(replies=[*calling(actions), AIMessage("Done.")])
        return converse(task, METHODS["react"][0], Setting(model=model, steps=30), None)

    gold = world.gold(task.task)
    messages, outcome = played(gold)
    assert "longest life span" in messages[0].text
    assert (outcome.success, outcome.score) == (True, 1.0)
    _, outcome = played(gold[:2])
    assert not outcome.success
    assert 0 < outcome.score < 1
