"""The benchmark's arithmetic, on a task small enough to check by hand. Nothing is downloaded."""

from dataclasses import replace
from statistics import mean

import pytest

from cookbook.offline_model import Made, Question
from langchain_tooltree.tooltree.search import KernelConfig
from tests.benchmarks.bfcl import summary
from tests.benchmarks.bfcl_data import parse_call
from tests.benchmarks.bfcl_model import Oracle, SimulatedPolicy, gold_arguments
from tests.benchmarks.bfcl_run import Simulation, run_task
from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec


class Shelf:
    def __init__(self):
        self.boxes = []

    def put(self, items):
        self.boxes.append(items)
        return {"boxes": len(self.boxes)}

    def add(self, item):
        self.boxes[-1].append(item)
        return self.boxes

    def count(self):
        return sum(map(len, self.boxes))


ITEM = {"type": "string"}
TASK = Task(
    id="shelf",
    request="Put bread and salt on the shelf, add tea, and count what is there.",
    tools=(
        ToolSpec(
            "put",
            "Shelf",
            "Put items.",
            {"type": "object", "properties": {"items": {"type": "array"}}},
        ),
        ToolSpec(
            "add",
            "Shelf",
            "Add an item.",
            {"type": "object", "properties": {"item": ITEM}, "required": ["item"]},
        ),
        ToolSpec(
            "count", "Shelf", "Count all items.", {"type": "object", "properties": {}}
        ),
    ),
    gold=(
        PlainCall("put", {"items": ["bread", "salt"]}),
        PlainCall("add", {"item": "tea"}),
        PlainCall("count", {}),
    ),
    make_objects=lambda: {"Shelf": Shelf()},
    same_state=lambda found, wanted: found["Shelf"].boxes == wanted["Shelf"].boxes,
)
PUT, ADD, COUNT = TASK.gold
TOOLS = ("put", "add", "count")


def policy(*, auc=1.0, hit=1.0, seed=0):
    return SimulatedPolicy(TASK, gold_arguments([TASK]), auc=auc, hit=hit, seed=seed)


def question(*path, tools=TOOLS, attempt=1, kind="propose"):
    made = tuple(Made(call.tool, call.arguments) for call in path)
    return Question(kind, TASK.request, made, tools, attempt, count=5)


def keys(proposals):
    return [PlainCall(tool, arguments).key for tool, arguments in proposals]


def made(call):
    return Made(call.tool, call.arguments)


def test_the_gold_calls_solve_the_task_and_fewer_do_not():
    assert TASK.solved(TASK.replay(TASK.gold))
    assert not TASK.solved(TASK.replay([PUT, ADD]))


def test_each_gold_result_must_be_observed_as_often_as_gold_observes_it():
    twice = replace(TASK, gold=(PUT, COUNT, COUNT))
    assert not twice.solved(twice.replay([PUT, COUNT]))
    assert twice.solved(twice.replay([PUT, COUNT, COUNT]))


def test_a_harmless_wrong_call_leaves_the_same_call_right():
    assert Oracle(TASK).right_call((PUT, COUNT)) == ADD


def test_after_a_harmful_call_nothing_is_right():
    oracle = Oracle(TASK)
    assert oracle.right_call((PUT, PUT)) is None
    assert oracle.right_call((PUT, PUT, ADD)) is None


def test_a_solved_task_is_done_and_gets_no_more_proposals():
    assert Oracle(TASK).done(TASK.gold)
    assert policy().propose(question(*TASK.gold)) == []


def test_the_right_call_is_offered_as_often_as_hit_says_and_first_half_of_the_time():
    offers = [
        keys(policy(hit=0.8, seed=seed).propose(question(PUT))) for seed in range(1500)
    ]
    hits = [offer for offer in offers if ADD.key in offer]
    assert len(hits) / len(offers) == pytest.approx(0.8, abs=0.04)
    assert mean(offer[0] == ADD.key for offer in hits) == pytest.approx(0.5, abs=0.05)
    assert {offer.index(ADD.key) for offer in hits} == {0, 1, 2, 3, 4}
    assert all(len(set(offer)) == len(offer) for offer in offers)


def test_a_right_call_outranks_a_wrong_one_with_probability_auc():
    models = [policy(auc=0.8, seed=seed) for seed in range(3000)]
    asked = question(kind="pre")
    wins = [
        model.score_call(asked, made(PUT)) > model.score_call(asked, made(COUNT))
        for model in models
    ]
    assert mean(wins) == pytest.approx(0.8, abs=0.025)


def test_a_perfect_judge_has_no_noise():
    asked = question(PUT, kind="post")
    assert policy().score_observation(asked, made(ADD)) == (0.72, 0.25)
    assert policy().score_observation(asked, made(COUNT)) == (0.32, 0.25)
    assert policy().score_observation(question(PUT, ADD, kind="post"), made(COUNT)) == (
        0.72,
        0.75,
    )


@pytest.mark.parametrize(
    "text", ["add(__import__('os'))", "Shelf().add('tea')", "1 + 1"]
)
def test_a_gold_call_that_is_no_plain_call_is_refused_and_not_evaluated(text):
    with pytest.raises(ValueError, match=r"gold call|malformed"):
        parse_call(text, {"add": Shelf})


def test_with_a_perfect_model_the_search_solves_the_task_without_touching_the_original():
    report = run_task(TASK, gold_arguments([TASK]), Simulation(), KernelConfig())
    assert report.search.solved
    assert report.search.calls == len(TASK.gold)
    assert not report.touched_originals
    assert report.replayed_alike


def test_greedy_fails_where_its_first_proposal_does_harm():
    reports = [
        run_task(
            TASK,
            gold_arguments([TASK]),
            Simulation(seed=seed),
            KernelConfig(max_depth=6),
        )
        for seed in range(8)
    ]
    figures = summary(reports, seconds=0)
    assert figures["tasks"] == figures["solved"] == 8
    assert figures["greedy_solved"] < 8
    assert figures["touched_originals"] == figures["replay_mismatches"] == 0
    assert figures["rollouts"] == sum(report.search.rollouts for report in reports) > 0
