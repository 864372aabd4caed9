"""CFGM in ScienceWorld, a real environment: as a reset / step environment, and as an agent with tools. Needs Java."""

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
from tests.benchmarks.scienceworld_detection import runs_of, tallied
from tests.benchmarks.scienceworld_injections import KINDS
from tests.benchmarks.scienceworld_players import Assumptions, Player, ReflectingModel, Way
from tests.benchmarks.scienceworld_world import PERFECT, Task, World, tools_of

pytestmark = pytest.mark.skipif(bool(scienceworld_world.missing()), reason=scienceworld_world.missing() or "-")

TASK = Task("find-animal", 0)
MOST_STEPS = 60


@pytest.fixture(scope="module")
def world():
    with World() as opened:
        yield opened


@pytest.fixture(scope="module")
def way(world):
    return Way(TASK, tuple(world.gold(TASK)))


def test_experience_is_collected_from_it_as_a_reset_step_environment(world, way):
    text = world.describe(TASK)
    calls = [AIMessage("", tool_calls=[{"name": "act", "args": {"action": each}, "id": each}]) for each in way.gold]
    memory = CFGMMemory(ScriptedChatModel(replies=calls), InMemoryStore())
    report = memory.collect(world, [TrainingTask(text, id=str(TASK), data=TASK)], None)
    assert [(outcome.success, len(outcome.trajectories)) for outcome in report.outcomes] == [(True, 1)]
    (kept,) = memory.experience.trajectories()
    assert [step.arguments["action"] for step in kept.steps] == list(way.gold)[: len(kept.steps)]
    assert kept.metadata["reward"] == pytest.approx(1)
    assert memory.recall(text).runs[0] == kept


def agent_in(world, way, *middleware):
    """An agent that goes astray on its way, and stays there until it is told the right step."""
    player = Player(way, Assumptions(derails=1))
    return create_agent(
        ScriptedChatModel(replies=[player.reply] * MOST_STEPS),
        tools_of(world),
        middleware=[ModelCallLimitMiddleware(run_limit=MOST_STEPS, exit_behavior="end"), *middleware],
    )


async def played(agent, text, path):
    given, config = {"messages": [("user", text)]}, {"recursion_limit": 1_000}
    result = agent.invoke(given, config) if path == "sync" else await agent.ainvoke(given, config)
    return result["messages"]


async def test_an_agent_that_is_helped_comes_back_on_course(world, way, path):
    reflecting = ReflectingModel(way, Assumptions(right=1), lambda: world.taken)
    model = ScriptedChatModel(replies=[reflecting.reply] * MOST_STEPS)
    helped = agent_in(world, way, CFGMMiddleware(model, patience=0, cooldown=1, max_reflections=MOST_STEPS))
    messages = await played(helped, world.begin(TASK), path)
    assert world.last.score == PERFECT
    corrected = [message for message in messages if message.type == "tool" and "Next step: " in message.text]
    assert len(corrected) == len(model.calls) > 0
    assert all(text.startswith(answer) for text, answer in _texts_and_answers(messages, world))


def _texts_and_answers(messages, world):
    """What the conversation says came of each action, beside what did."""
    texts = [message.text for message in messages if message.type == "tool"]
    return zip(texts, [taken.answer for taken in world.taken], strict=True)


def test_what_goes_wrong_is_noticed_and_what_goes_right_is_left_alone(world):
    tally = tallied(runs_of(world, TASK, copies=1, seed=0), AnomalyDetector(pollers=("wait",)).check)
    assert tally.false == []
    assert {kind for kind in KINDS if tally.steps[kind]} == set(KINDS)
    assert [each for each in tally.missed if each["injected"] != "repeated no-op"] == []


def test_nothing_is_left_of_a_world_that_was_closed():
    world = World()
    process = world._environment._gateway.java_process
    world.close()
    assert process.returncode == 0
    del world
    gc.collect()
