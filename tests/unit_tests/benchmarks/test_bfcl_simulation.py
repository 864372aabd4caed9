"""The benchmark's arithmetic, on a task small enough to check by hand. Nothing is downloaded."""

from dataclasses import replace
from itertools import pairwise
from statistics import correlation, mean

import pytest

from langchain_tooltree.testing import Made, Question
from tests.benchmarks.bfcl import summary
from tests.benchmarks.bfcl_data import json_schema, parse_call
from tests.benchmarks.bfcl_model import Oracle, SimulatedPolicy, gold_arguments, noise_level
from tests.benchmarks.bfcl_run import Simulation, run_task
from tests.benchmarks.bfcl_world import PlainCall, RecordedSandbox, Task, ToolSpec
from tests.internals.tooltree import KernelConfig


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
        ToolSpec("put", "Shelf", "Put items.", {"type": "object", "properties": {"items": {"type": "array"}}}),
        ToolSpec(
            "add", "Shelf", "Add an item.", {"type": "object", "properties": {"item": ITEM}, "required": ["item"]}
        ),
        ToolSpec("count", "Shelf", "Count all items.", {"type": "object", "properties": {}}),
    ),
    gold=(PlainCall("put", {"items": ["bread", "salt"]}), PlainCall("add", {"item": "tea"}), PlainCall("count", {})),
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


def test_a_method_that_keeps_its_argument_cannot_change_the_call():
    TASK.replay(TASK.gold)
    assert PUT.arguments == {"items": ["bread", "salt"]}


def test_a_harmless_wrong_call_leaves_the_same_call_right():
    assert Oracle(TASK).right_call((PUT, COUNT)) == ADD


def test_after_a_harmful_call_nothing_is_right():
    oracle = Oracle(TASK)
    assert oracle.right_call((PUT, PUT)) is None
    assert oracle.right_call((PUT, PUT, ADD)) is None


def test_a_solved_task_is_done_and_gets_no_more_proposals():
    assert Oracle(TASK).done(TASK.gold)
    assert policy().propose(question(*TASK.gold)) == []


@pytest.mark.slow
def test_the_right_call_is_offered_as_often_as_hit_says_and_first_half_of_the_time():
    offers = [keys(policy(hit=0.8, seed=seed).propose(question(PUT))) for seed in range(1500)]
    hits = [offer for offer in offers if ADD.key in offer]
    assert len(hits) / len(offers) == pytest.approx(0.8, abs=0.04)
    assert mean(offer[0] == ADD.key for offer in hits) == pytest.approx(0.5, abs=0.05)
    assert {offer.index(ADD.key) for offer in hits} == {0, 1, 2, 3, 4}
    assert all(len(set(offer)) == len(offer) for offer in offers)


def test_without_a_hit_the_right_call_is_never_among_the_wrong_ones():
    assert all(ADD.key not in keys(policy(hit=0, seed=seed).propose(question(PUT))) for seed in range(200))


def test_only_tools_that_are_shown_are_proposed():
    offered = [call for seed in range(50) for call in policy(seed=seed).propose(question(PUT, tools=("put", "count")))]
    assert {tool for tool, _ in offered} == {"put", "count"}


def test_asking_a_state_again_is_a_fresh_draw():
    model = policy(hit=0.5)
    draws = [ADD.key in keys(model.propose(question(PUT, attempt=attempt))) for attempt in range(1, 400)]
    assert mean(draws) == pytest.approx(0.5, abs=0.08)


@pytest.mark.slow
def test_a_right_call_outranks_a_wrong_one_with_probability_auc():
    models = [policy(auc=0.8, seed=seed) for seed in range(3000)]
    asked = question(kind="pre")
    wins = [model.score_call(asked, made(PUT)) > model.score_call(asked, made(COUNT)) for model in models]
    assert mean(wins) == pytest.approx(0.8, abs=0.025)


def test_a_perfect_judge_has_no_noise():
    asked = question(PUT, kind="post")
    assert policy().score_observation(asked, made(ADD)) == (0.72, 0.25)
    assert policy().score_observation(asked, made(COUNT)) == (0.32, 0.25)
    assert policy().score_observation(question(PUT, ADD, kind="post"), made(COUNT)) == (0.72, 0.75)


@pytest.mark.slow
def test_half_of_the_noise_is_fixed_and_half_is_fresh():
    # A narrow noise, so that clipping to [0, 1] does not disturb the correlation.
    models = [policy(auc=0.99, seed=seed) for seed in range(1500)]
    first, again = ([m.score_call(question(kind="pre", attempt=n), made(PUT)) for m in models] for n in (1, 2))
    after = [m.score_observation(question(kind="post"), made(PUT))[0] for m in models]
    assert correlation(first, again) == pytest.approx(0.5, abs=0.08)
    assert correlation(first, after) == pytest.approx(0.5, abs=0.08)


def test_answers_do_not_depend_on_the_order_of_questions():
    asked = [question(*path, attempt=n) for path in ((), (PUT,), (PUT, COUNT), (COUNT, PUT)) for n in (1, 2)]
    forwards, backwards = policy(auc=0.8, hit=0.7), policy(auc=0.8, hit=0.7)

    def answers(model, questions):
        return [
            (model.propose(q), model.score_call(q, made(ADD)), model.score_observation(q, made(ADD))) for q in questions
        ]

    assert answers(forwards, asked) == answers(backwards, asked[::-1])[::-1]


@pytest.mark.parametrize("auc", [0.5, 0.2, 1.1])
def test_an_auc_that_no_noise_can_give_is_refused(auc):
    with pytest.raises(ValueError, match=r"auc must be above 0\.5"):
        noise_level(auc)


def test_less_auc_means_more_noise():
    levels = [noise_level(auc) for auc in (1.0, 0.95, 0.9, 0.7)]
    assert levels[0] == 0
    assert all(less < more for less, more in pairwise(levels))


def test_gold_calls_are_read_with_positional_arguments_named():
    assert parse_call("add('tea')", {"add": Shelf}) == ADD
    assert parse_call("put(items=['bread', 'salt'])", {"put": Shelf}) == PUT


@pytest.mark.parametrize("text", ["add(__import__('os'))", "Shelf().add('tea')", "1 + 1"])
def test_a_gold_call_that_is_no_plain_call_is_refused_and_not_evaluated(text):
    with pytest.raises(ValueError, match=r"gold call|malformed"):
        parse_call(text, {"add": Shelf})


def test_function_documents_become_json_schema_and_a_property_called_type_survives():
    document = {
        "type": "dict",
        "properties": {"type": {"type": "float"}, "all": {"type": "array", "items": {"type": "dict"}}},
    }
    assert json_schema(document) == {
        "type": "object",
        "properties": {"type": {"type": "number"}, "all": {"type": "array", "items": {"type": "object"}}},
    }


def test_the_sandbox_knows_the_world_behind_a_plan_and_leaves_the_original_alone():
    sandbox = RecordedSandbox(TASK)
    before = sandbox.original.fingerprint()
    fork = sandbox.fork()
    fork.tools[0].invoke({"items": ["bread", "salt"]})
    world = sandbox.world_after([PUT])
    assert world is not None
    assert world.objects["Shelf"].boxes == [["bread", "salt"]]
    assert sandbox.world_after([PUT, ADD]) is None
    assert sandbox.original.fingerprint() == before
    sandbox.tools[0].invoke({"items": []})
    assert sandbox.original.fingerprint() != before


def test_with_a_perfect_model_the_search_solves_the_task_without_touching_the_original():
    report = run_task(TASK, gold_arguments([TASK]), Simulation(), KernelConfig())
    assert report.search.solved
    assert report.search.calls == len(TASK.gold)
    assert not report.touched_originals
    assert report.replayed_alike


@pytest.mark.slow
def test_greedy_fails_where_its_first_proposal_does_harm():
    reports = [
        run_task(TASK, gold_arguments([TASK]), Simulation(seed=seed), KernelConfig(max_depth=6)) for seed in range(8)
    ]
    figures = summary(reports, seconds=0)
    assert figures["tasks"] == figures["solved"] == 8
    assert figures["greedy_solved"] < 8
    assert figures["touched_originals"] == figures["replay_mismatches"] == 0
    assert figures["rollouts"] == sum(report.search.rollouts for report in reports) > 0
