"""The simulated models of the loop benchmark, and its figures. No Java is run."""

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, SystemMessage

from langchain_tooltree import Reflector
from langchain_tooltree.anomaly.rules import Anomaly
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.scienceworld_loop import POSSIBLE, Played, by_type, loop_figures
from tests.benchmarks.scienceworld_players import (
    Assumptions,
    Player,
    ReflectingModel,
    Way,
    astray,
    kind_of_action,
    read_taken,
)
from tests.benchmarks.scienceworld_recall import memory_of, recall_figures, trajectory
from tests.benchmarks.scienceworld_world import PERFECT, Taken, Task, dialogue

TASK = Task("boil", 0)
WAY = Way(TASK, ("open door to kitchen", "go to kitchen", "look around", "pick up thermometer", "0"))
SURE = Assumptions(derails=1, derails_shown=0)
NEVER = Assumptions(derails=0, derails_shown=0)


def taken(*actions, answer="Fine."):
    return [Taken(action, answer) for action in actions]


def test_the_agent_follows_the_gold_path_to_its_end():
    player = Player(WAY, NEVER)
    for place, action in enumerate(WAY.gold):
        assert player.next_action(taken(*WAY.gold[:place])) == action
    assert player.next_action(taken(*WAY.gold)) is None


def test_an_agent_that_goes_astray_stays_there():
    player = Player(WAY, SURE)
    done = []
    for _ in range(10):
        action = player.next_action(done)
        assert action not in {None, WAY.gold[0]}
        done += taken(action, answer="No known action matches that input.")


def test_it_comes_back_when_its_prompt_names_the_needed_action_and_no_other():
    player = Player(WAY, SURE)
    wrong = taken("go to moon", answer='No. Next step: Call look: "look around".')
    assert player.next_action(wrong) != WAY.gold[0]
    assert player.next_action([*wrong, *taken("dance", answer=f'Next step: Call act: "{WAY.gold[0]}".')]) == WAY.gold[0]


def test_what_it_recalls_keeps_it_on_course_where_it_shows_that_kind_of_action():
    player = Player(WAY, SURE)
    assert player.next_action([], recalled="act(open door to bedroom)") == WAY.gold[0]
    assert player.next_action([], recalled="act(open cupboard)") != WAY.gold[0]


def test_it_takes_an_action_again_that_came_while_the_environment_waited_for_an_answer():
    told = taken("look at door", answer=f'"{WAY.gold[0]}"')
    ignored = taken(WAY.gold[0], answer="Unknown action.  Type 'help'")
    assert Player(WAY, NEVER).next_action([*told, *ignored]) == WAY.gold[0]


def test_an_answer_to_the_environment_is_never_a_temptation():
    assert Player(WAY, SURE).next_action(taken(*WAY.gold[:4])) == "0"


def test_left_alone_it_finds_back_after_so_many_wrong_actions():
    player = Player(WAY, SURE, finds_back=2)
    assert player.next_action(taken("dance")) != WAY.gold[0]
    assert player.next_action(taken("dance", "sing")) == WAY.gold[0]


def test_the_agent_is_a_function_of_its_prompt():
    player = Player(WAY, SURE)
    prompt = [SystemMessage("act(look around)"), *dialogue("Boil water.", taken(*WAY.gold[:2]))]
    assert read_taken(prompt) == taken(*WAY.gold[:2])
    assert player.reply(prompt) == player.reply(list(prompt))
    assert player.reply(prompt).tool_calls[0]["name"] == "look"
    assert player.reply(dialogue("Boil water.", taken(*WAY.gold))) == AIMessage("The task is done.")


def test_the_temptations_are_a_matter_of_seed_task_and_place_alone():
    rates = replace(SURE, derails=0.5)
    ways = [Way(TASK, ("a", "b", "c", "d", "e", "f"), seed) for seed in range(40)]
    astray_at = [
        [Player(way, rates).next_action(taken(*way.gold[:place])) != way.gold[place] for place in range(6)]
        for way in ways
    ]
    assert 0.4 < sum(map(sum, astray_at)) / 240 < 0.6
    assert len({tuple(each) for each in astray_at}) > 10


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("seed", range(20))
def test_a_wrong_action_is_never_the_right_one(place, seed):
    way = replace(WAY, seed=seed)
    assert all(astray(way, place, number) != way.gold[place] for number in range(4))


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("open door to kitchen", "open door"),
        ("go to kitchen", "go to kitchen"),
        ("pick up thermometer", "pick up thermometer"),
        ("move apple seed in seed jar to flower pot 3", "move apple seed"),
        ("look at flower pot 3", "look at flower pot"),
        ("use thermometer in inventory on substance in metal pot", "use thermometer"),
        ("wait1", "wait1"),
    ],
)
def test_the_kind_of_an_action_is_its_verb_and_the_first_thing(action, kind):
    assert kind_of_action(action) == kind


ANOMALY = Anomaly("phrase", "No.", 0.9, recoverable=True, tool="act")


@pytest.mark.parametrize(("right", "word"), [(1, WAY.gold[1]), (0, "look around")])
def test_the_reflecting_model_is_right_at_its_rate(right, word):
    model = ReflectingModel(WAY, Assumptions(right=right), lambda: taken(WAY.gold[0], "dance"))
    reflector = Reflector(ScriptedChatModel(replies=[model.reply]))
    reflection = reflector.reflect(dialogue("Boil water.", taken(WAY.gold[0], "dance")), ANOMALY)
    assert f'"{word}"' in reflection.next_step
    assert reflection.progress


def test_figures_are_means_of_each_arm():
    played = [
        Played("nothing", TASK, success=True, steps=10),
        Played("nothing", Task("melt", 1), success=False, steps=30),
        Played("both", TASK, success=True, steps=12, reflections=3),
        Played(POSSIBLE, TASK, success=True, steps=11),
    ]
    figures = loop_figures(played)
    assert list(figures) == ["nothing", "both", POSSIBLE]
    assert figures["nothing"] == {"success": 0.5, "steps": 20, "reflections": 0, "shown": 0, "runs": 2}
    assert figures["both"]["reflections"] == 3
    assert by_type(played) == {"boil": {"nothing": 1, "both": 1, POSSIBLE: 1}, "melt": {"nothing": 0}}


def test_recall_counts_runs_of_the_same_task_type():
    known = {
        Task("boil", 0): "Your task is to boil water.",
        Task("boil", 1): "Your task is to boil gallium.",
        Task("find", 0): "Your task is to find an animal.",
        Task("find", 1): "Your task is to find a plant.",
    }
    done = [Taken("wait1", "You wait.", PERFECT, done=True)]
    memory = memory_of(trajectory(task, text, done) for task, text in known.items())
    asked = {Task("boil", 7): "Your task is to boil lead.", Task("mix", 1): "Your task is to find a recipe."}
    figures = recall_figures(memory, asked)
    assert (figures["recall_at_1"], figures["recall_at_2"], figures["variations"]) == (0.5, 0.5, 2)
    assert figures["types"]["boil"]["recall_at_2"] == 1
    assert [(each["task"], each["recalled"]) for each in figures["missed"]] == [("mix/1", ["find", "find"])]
