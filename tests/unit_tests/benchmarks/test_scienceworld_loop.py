"""The simulated models of the loop benchmark, and its figures. No Java is run."""

import pytest

from langchain_tooltree import Reflector
from langchain_tooltree.anomaly.rules import Anomaly
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.scienceworld_loop import POSSIBLE, Played, by_type, loop_figures
from tests.benchmarks.scienceworld_players import (
    Assumptions,
    Player,
    ReflectingModel,
    Way,
)
from tests.benchmarks.scienceworld_recall import memory_of, recall_figures, trajectory
from tests.benchmarks.scienceworld_world import PERFECT, Taken, Task, dialogue

TASK = Task("boil", 0)
WAY = Way(
    TASK,
    (
        "open door to kitchen",
        "go to kitchen",
        "look around",
        "pick up thermometer",
        "0",
    ),
)
NEVER = Assumptions(derails=0, derails_shown=0)


def taken(*actions, answer="Fine."):
    return [Taken(action, answer) for action in actions]


def test_the_agent_follows_the_gold_path_to_its_end():
    player = Player(WAY, NEVER)
    for place, action in enumerate(WAY.gold):
        assert player.next_action(taken(*WAY.gold[:place])) == action
    assert player.next_action(taken(*WAY.gold)) is None


ANOMALY = Anomaly("phrase", "No.", 0.9, recoverable=True, tool="act")


@pytest.mark.parametrize(("right", "word"), [(1, WAY.gold[1]), (0, "look around")])
def test_the_reflecting_model_is_right_at_its_rate(right, word):
    model = ReflectingModel(
        WAY, Assumptions(right=right), lambda: taken(WAY.gold[0], "dance")
    )
    reflector = Reflector(ScriptedChatModel(replies=[model.reply]))
    reflection = reflector.reflect(
        dialogue("Boil water.", taken(WAY.gold[0], "dance")), ANOMALY
    )
    assert f'"{word}"' in reflection.next_step
    assert reflection.key_information.progress


def test_figures_are_means_of_each_arm():
    played = [
        Played("nothing", TASK, success=True, steps=10),
        Played("nothing", Task("melt", 1), success=False, steps=30),
        Played("both", TASK, success=True, steps=12, reflections=3),
        Played(POSSIBLE, TASK, success=True, steps=11),
    ]
    figures = loop_figures(played)
    assert list(figures) == ["nothing", "both", POSSIBLE]
    assert figures["nothing"] == {
        "success": 0.5,
        "steps": 20,
        "reflections": 0,
        "shown": 0,
        "runs": 2,
    }
    assert figures["both"]["reflections"] == 3
    assert by_type(played) == {
        "boil": {"nothing": 1, "both": 1, POSSIBLE: 1},
        "melt": {"nothing": 0},
    }


def test_recall_counts_runs_of_the_same_task_type():
    known = {
        Task("boil", 0): "Your task is to boil water.",
        Task("boil", 1): "Your task is to boil gallium.",
        Task("find", 0): "Your task is to find an animal.",
        Task("find", 1): "Your task is to find a plant.",
    }
    done = [Taken("wait1", "You wait.", PERFECT, done=True)]
    memory = memory_of(trajectory(task, text, done) for task, text in known.items())
    asked = {
        Task("boil", 7): "Your task is to boil lead.",
        Task("mix", 1): "Your task is to find a recipe.",
    }
    figures = recall_figures(memory, asked)
    assert (figures["recall_at_1"], figures["recall_at_2"], figures["variations"]) == (
        0.5,
        0.5,
        2,
    )
    assert figures["types"]["boil"]["recall_at_2"] == 1
    assert [(each["task"], each["recalled"]) for each in figures["missed"]] == [
        ("mix/1", ["find", "find"])
    ]
