"""An experience as a whole: the simulated model, the player, and what is learnt of gold."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from langchain_tooltree import SearchConfig
from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec
from tests.benchmarks.recorded.model import Readers
from tests.benchmarks.recorded.ours import OwnSearch
from tests.benchmarks.recorded.runs import STOP
from tests.benchmarks.together.arms import Row, figures
from tests.benchmarks.together.guided import GuidedSearch, Help, by_itself
from tests.benchmarks.together.learnt import Learnt, hint
from tests.benchmarks.together.model import FATAL, HARMLESS, NEXT, TOO_EARLY, Advice, Reaction, SimulatedModel
from tests.benchmarks.together.path import inside_a_search
from tests.benchmarks.together.targets import targets
from tests.benchmarks.together.world import ANSWER, GOLD, Played


class Kettle:
    """Boils what it holds, once; `pwd` looks, and counts as a read."""

    def __init__(self):
        self.water = 0
        self.hot = False
        self.empty = False

    def fill(self, cups):
        self.water += cups
        return f"{self.water} cups"

    def boil(self):
        self.hot = self.water > 0
        return f"hot: {self.hot}"

    def spill(self):
        self.empty = True
        return "spilt"

    def pwd(self):
        return "in the kitchen"


TOOLS = tuple(ToolSpec(name, "Kettle", "", {}) for name in ("fill", "boil", "spill", "pwd"))
FILL, BOIL = PlainCall("fill", {"cups": 2}), PlainCall("boil", {})
POOL = {"fill": [{"cups": 3}]}


@pytest.fixture
def played():
    task = Task(
        id="tea",
        request="Fill two cups. Boil them.",
        tools=TOOLS,
        gold=(FILL, BOIL),
        gold_turns=((FILL,), (BOIL,)),
        make_objects=lambda: {"Kettle": Kettle()},
        same_state=lambda found, wanted: vars(found["Kettle"]) == vars(wanted["Kettle"]),
    )
    return Played(task, ["Fill two cups.", "Boil them."])


def model_of(scene, seed=0):
    return SimulatedModel(scene.turn, "simulated", Readers(), seed, pool=POOL)


def steps(scene, *advice):
    """How often a model's first step is what, over many seeds."""
    found = Counter()
    for seed in range(2_000):
        model = model_of(scene, seed)
        model.advice = advice
        found[model.own_step(model.start, ())[0]] += 1
    return found


def test_gold_is_a_run_turn_by_turn_with_what_it_observed(played):
    messages = played.trajectory().messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"] * 2
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["2 cups", "hot: True"]
    assert messages[-1]["content"] == ANSWER
    assert played.scenes[1].before == [*messages[:4], {"role": "user", "content": "Boil them."}]


def test_steps_err_as_often_as_those_of_recorded_models(played):
    scene = played.scenes[0]
    found = steps(scene)
    right = scene.turn.ways[GOLD][0][1]
    every = NEXT + HARMLESS + FATAL + TOO_EARLY
    assert found[right] / 2_000 == pytest.approx(NEXT / every, abs=0.03)
    assert found[STOP] / 2_000 == pytest.approx(TOO_EARLY / every, abs=0.02)
    assert found["pwd({})",] / 2_000 == pytest.approx(HARMLESS / every, abs=0.03)


@pytest.mark.slow
def test_a_hint_that_is_right_mends_and_one_that_is_wrong_misleads_as_often_as_is_supposed(played):
    scene = played.scenes[0]
    right = scene.turn.ways[GOLD][0][1]
    assert steps(scene, Advice(["fill"], Reaction(heeds=1.0))) == {right: 2_000}
    assert right not in steps(scene, Advice(["pwd"], Reaction(misled=1.0)))
    assert steps(scene, Advice([], Reaction(heeds=1.0, misled=1.0))) == steps(scene)
    assert steps(scene, Advice(["fill"], Reaction(heeds=1.0).times(0))) == steps(scene)


def test_without_help_a_search_is_the_search_without_experience(played):
    scene = played.scenes[0]
    search = OwnSearch(SearchConfig(), 20)
    always = Reaction(heeds=1.0, misled=1.0)
    nothing = Help(learnt=Learnt([]), prior=True, suggestions=always, recalled=always)
    for seed in range(20):
        alone, helped = model_of(scene, seed), model_of(scene, seed)
        end, _, spent = GuidedSearch(search, nothing)(helped, scene)
        assert search(alone) is end
        assert spent.model_calls == alone.calls


def test_tokens_are_those_of_all_requests(played):
    scene = played.scenes[0]
    _, _, spent = by_itself(model_of(scene), scene)
    assert spent.characters >= spent.model_calls * scene.tool_characters > 0


def test_a_task_succeeds_where_all_its_turns_do():
    rows = [
        Row("none", 0, 0, 0, (True, True), 4, 0, 100),
        Row("none", 0, 1, 0, (True, False), 6, 2, 300),
    ]
    assert figures(rows) == {
        "success": 0.5,
        "turn_success": 0.75,
        "model_calls": 5,
        "judge_calls": 1,
        "tokens": 200,
    }


def test_what_was_learnt_says_what_came_next_and_names_it(played):
    runs = [replace(played.trajectory(), id=f"run {number}") for number in range(3)]
    learnt = Learnt(runs)
    scene = played.scenes[0]
    text, named = hint(learnt.next_tools(scene.before, scene.tools))
    assert "fill" in named
    assert "fill" in text
    assert hint(None) == ("", [])
    assert learnt.recalled(scene.requests).tools == {"fill", "boil"}


def test_what_is_inside_a_search_is_what_is_outside(tmp_path, played):
    lines = [{"id": str(number), "task_id": str(number), "messages": played.gold, "reward": 1.0} for number in range(8)]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    found = inside_a_search(path)
    assert found["questions"] == 8
    assert found["hit1"] == found["hit1_outside"] == 1


def test_a_target_that_is_missed_says_by_what():
    row = {"success": 0.5, "model_calls": 10}
    told = {
        "arms": {"none": row, "all": {"success": 0.5, "model_calls": 7.5}},
        "curve": {"0": row, "100": {"success": 0.6, "model_calls": 10}},
        "generations": [row, {"success": 0.4, "model_calls": 9}],
        "two_processes": {"learnt": 2, "known": 2},
        "inside_a_search": {"telecom.gz": {"hit2": 0.96, "hit2_outside": 0.96}},
    }
    found = targets(told)
    assert [bool(missed) for missed in found.values()] == [True, False, True, False, True]
    told["arms"]["all"] = {"success": 0.55, "model_calls": 10}
    assert not next(iter(targets(told).values()))
