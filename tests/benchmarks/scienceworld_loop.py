"""The loop on ScienceWorld: agents of `create_agent` with `CFGMMiddleware` play the real environment.

The models are simulated (`scienceworld_players`), so the figures show that each part does its job in a real
environment, and are no claim about any model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware

from langchain_tooltree import AnomalyDetector, CFGMMemory, CFGMMiddleware, Reflector
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.scienceworld_players import (
    Assumptions,
    Player,
    ReflectingModel,
    Way,
    is_shown,
    read_recalled,
)
from tests.benchmarks.scienceworld_world import PERFECT, WAITING, Task, World, tools_of

SPARE = 20
"""Steps that an agent has beyond twice the length of the gold path."""

FINDS_BACK = 3
"""Wrong actions after which the agent finds the way by itself, where it is asked what is possible at all."""

SUPERSTEPS = 10
"""More than the steps of the graph that one model call and its tool call take."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What an agent is given.

    Attributes:
        recall: Whether experience is recalled.
        reflect: Whether anomalies are reflected upon.
    """

    recall: bool = False
    reflect: bool = False


ARMS = {
    "nothing": Arm(),
    "recall": Arm(recall=True),
    "reflection": Arm(reflect=True),
    "both": Arm(recall=True, reflect=True),
}

POSSIBLE = "possible"
"""What could be reached: the agent goes astray as with nothing, and finds back by itself."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of one arm.

    Attributes:
        arm: Its name.
        task: The task.
        success: Whether the environment gave the full score.
        steps: Actions that were taken.
        reflections: How often there was a reflection.
        shown: For how many steps of the gold path, as a share, its prompt showed that kind of action in another run.
    """

    arm: str
    task: Task
    success: bool
    steps: int
    reflections: int = 0
    shown: float = 0.0


def steps_allowed(gold: Sequence[str]) -> int:
    """How many actions an agent may take."""
    return 2 * len(gold) + SPARE


def play(
    world: World, way: Way, arm: str, memory: CFGMMemory, assumptions: Assumptions
) -> Played:
    """Have an agent play a task.

    Args:
        world: Where it plays.
        way: The way through the task, for the simulated models.
        arm: Name of the arm.
        memory: What is recalled from.
        assumptions: What the simulated models do.

    Returns:
        What came of it.
    """
    limit = steps_allowed(way.gold)
    text = world.begin(way.task)
    player = ScriptedChatModel(replies=[Player(way, assumptions).reply] * limit)
    reflecting = ScriptedChatModel(
        replies=[ReflectingModel(way, assumptions, lambda: world.taken).reply] * limit
    )
    middleware: list[AgentMiddleware[Any, Any, Any]] = [
        ModelCallLimitMiddleware(run_limit=limit, exit_behavior="end")
    ]
    agent = create_agent(
        player,
        tools_of(world),
        middleware=[*middleware, *_given(ARMS[arm], reflecting, memory)],
    )
    agent.invoke(
        {"messages": [("user", text)]}, {"recursion_limit": SUPERSTEPS * limit}
    )
    recalled = read_recalled(player.calls[0])
    return Played(
        arm,
        way.task,
        success=world.last.score == PERFECT,
        steps=len(world.taken),
        reflections=len(reflecting.calls),
        shown=mean(is_shown(action, recalled) for action in way.gold),
    )


def play_alone(world: World, way: Way, assumptions: Assumptions) -> Played:
    """Play a task with an agent that goes astray and finds back by itself, to see what is possible at all."""
    player = Player(way, assumptions, finds_back=FINDS_BACK)
    world.begin(way.task)
    while (action := player.next_action(world.taken)) is not None and len(
        world.taken
    ) < steps_allowed(way.gold):
        world.take(action)
    return Played(POSSIBLE, way.task, world.last.score == PERFECT, len(world.taken))


def _given(
    arm: Arm, reflecting: ScriptedChatModel, memory: CFGMMemory
) -> list[CFGMMiddleware]:
    if not arm.recall and not arm.reflect:
        return []
    reflector = Reflector(reflecting)
    detector = AnomalyDetector(pollers=(WAITING,))
    return [
        CFGMMiddleware(
            reflector,
            memory,
            patience=0,
            detector=detector,
            recall=arm.recall,
            reflect=arm.reflect,
            record=False,
        )
    ]


def loop_figures(played: Iterable[Played]) -> dict[str, dict[str, float]]:
    """What came of each arm: shares and means over its runs."""
    by_arm: dict[str, list[Played]] = {}
    for each in played:
        by_arm.setdefault(each.arm, []).append(each)
    return {arm: _figures(by_arm[arm]) for arm in (*ARMS, POSSIBLE) if arm in by_arm}


def _figures(played: Sequence[Played]) -> dict[str, float]:
    return {
        "success": mean(each.success for each in played),
        "steps": mean(each.steps for each in played),
        "reflections": mean(each.reflections for each in played),
        "shown": mean(each.shown for each in played),
        "runs": len(played),
    }


def by_type(played: Iterable[Played]) -> Mapping[str, Mapping[str, float]]:
    """The success of each arm, task type by task type."""
    found: dict[str, dict[str, list[bool]]] = {}
    for each in played:
        found.setdefault(each.task.name, {}).setdefault(each.arm, []).append(
            each.success
        )
    return {
        name: {arm: mean(successes) for arm, successes in arms.items()}
        for name, arms in sorted(found.items())
    }
