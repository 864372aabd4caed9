"""Recorded runs as a graph of states, and the policies that play them."""

from datetime import UTC, datetime

import pytest

from langchain_tooltree import SearchConfig
from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec
from tests.benchmarks.recorded.__main__ import READERS, figures, play, verdict
from tests.benchmarks.recorded.model import Readers, RecordedModel, separation
from tests.benchmarks.recorded.ours import OwnSearch
from tests.benchmarks.recorded.policies import EFFORTS, POLICIES, past_the_first_stop, plain
from tests.benchmarks.recorded.runs import STOP, digest, turns_of

SURE = Readers(own=1.0, judge=1.0)


class Lamp:
    """Two lamps and a lock; what is broken stays broken."""

    def __init__(self):
        self.on = []
        self.broken = False
        self._looked = 0

    def light(self, place):
        self.on = sorted({*self.on, place})
        return f"{place} is lit"

    def smash(self):
        self.broken = True
        return "broken"

    def look(self):
        return f"lit: {self.on}"


def call(tool, **arguments):
    return PlainCall(tool, arguments)


HALL, ROOF = call("light", place="hall"), call("light", place="roof")
TASK = Task(
    id="lamps",
    request="Light the hall and the roof. Then look.",
    tools=tuple(ToolSpec(name, "Lamp", "", {}) for name in ("light", "smash", "look")),
    gold=(HALL, ROOF, call("look")),
    gold_turns=((HALL, ROOF), (call("look"),)),
    make_objects=lambda: {"Lamp": Lamp()},
    same_state=lambda found, wanted: (
        (found["Lamp"].on, found["Lamp"].broken) == (wanted["Lamp"].on, wanted["Lamp"].broken)
    ),
)


def run(name, *turns):
    return {
        "id": "lamps",
        "run": name,
        "turns": [
            [[{"name": each.tool, "arguments": each.arguments} for each in step] for step in turn] for turn in turns
        ],
    }


LOOKED = [[call("look")], []]
RUNS = [
    run("a/1", [[HALL], []], [[]]),  # stops too early
    run("a/2", [[HALL], [call("look")], [ROOF], []], LOOKED),
    run("b/1", [[ROOF, HALL], []], LOOKED),  # both in one reply
    run("b/2", [[call("smash")], [HALL], [ROOF], []], LOOKED),  # a fatal call
]


@pytest.fixture
def turns():
    return list(turns_of([TASK], RUNS))


def test_a_turn_passes_with_golds_world_and_all_of_golds_results(turns):
    first, second = turns
    assert {name: first.passed(name) for name in first.ways} == {"a/1": False, "a/2": True, "b/1": True, "b/2": False}
    assert {name: second.passed(name) for name in second.ways} == {"a/2": True, "b/1": True}
    assert (first.counts, second.counts) == (True, False)


def test_runs_that_meet_in_a_state_share_it_whatever_else_they_have_read(turns):
    first, _ = turns
    (_, start), (at, step), *_ = [(None, first.starts["a/1"]), *first.ways["a/2"][1:]]
    assert start is first.starts["a/2"]
    assert step == (call("look").key,)
    assert first.take(at, step)[0] is at


def test_a_step_is_good_if_some_recorded_way_leads_from_it_to_a_passing_end(turns):
    first, _ = turns
    start = first.starts["a/1"]
    assert first.is_good(start, (HALL.key,))
    assert not first.is_good(start, (call("smash").key,))
    lit, _ = first.take(start, (HALL.key,))
    assert not first.is_good(lit, STOP)
    assert first.is_good(first.take(lit, (ROOF.key,))[0], STOP)


def test_a_models_own_step_is_what_its_run_did_there_and_else_the_most_common_one(turns):
    first, _ = turns
    model = RecordedModel(first, "a/1", SURE)
    lit, _ = first.take(model.start, (HALL.key,))
    assert model.own_step(model.start, ())[0] == (HALL.key,)
    assert model.own_step(lit, ())[0] == STOP
    roof, _ = first.take(model.start, (ROOF.key,))
    assert model.own_step(roof, ())[0] != STOP  # nobody was here: a call of the turn that is not made yet
    assert model.calls == 3


def test_plain_plays_the_recorded_run_and_the_control_goes_on_past_its_first_stop(turns):
    first, _ = turns
    for name in first.ways:
        model = RecordedModel(first, name, SURE)
        assert plain(model).passing == first.passed(name)
        assert model.calls == len(first.ways[name])
    assert past_the_first_stop(RecordedModel(first, "a/1", SURE)).passing


def test_every_policy_ends_and_finds_the_passing_end_with_sure_readers(turns):
    first, _ = turns
    for name, policy in POLICIES.items():
        if name not in {"plain", "vote"}:
            assert policy(RecordedModel(first, "a/1", SURE)).passing, name


def test_own_steps_cost_what_plain_costs_where_all_is_right_and_branch_where_it_stops_too_early(turns):
    first, _ = turns
    search = OwnSearch(SearchConfig())
    right, early = RecordedModel(first, "b/1", SURE), RecordedModel(first, "a/1", SURE)
    assert search(right).passing
    assert right.calls == len(first.ways["b/1"])
    assert search(early).passing
    assert early.calls == len(first.ways["a/1"]) + 1  # the call that was named at the stop, and the next own step
    unnamed = RecordedModel(first, "a/1", SURE)
    assert OwnSearch(SearchConfig(), named=0)(unnamed).passing
    assert unnamed.calls == early.calls + 1  # a question for candidates


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in {"plain", "vote"}])
def test_no_policy_reads_how_sure_the_model_is_of_its_own_steps(turns, name):
    asked = []
    for own in (0.5, 0.9):
        readers = Readers(own=own)
        asked.append([(each.passed, each.calls) for each in play(POLICIES[name], turns, readers)])
    assert asked[0] == asked[1]


def test_sensitivity_holds_the_table_and_the_realist():
    first, *others = READERS.values()
    assert first in others
    assert any(each.realist for each in others)


def row(success, calls):
    return {"success": success, "calls_over_plain": calls}


OURS = dict(
    zip((f"tooltree-{effort}" for effort in EFFORTS), (row(0.85, 1.2), row(0.87, 1.4), row(0.89, 1.9)), strict=True)
)
TABLE = {"plain": row(0.73, 1.0), "past-the-first-stop": row(0.83, 1.3), "lats": row(0.88, 4.0), **OURS}


def test_targets_hold():
    assert not any(verdict(TABLE, {"realist": TABLE}).values())


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"tooltree-frugal": row(0.85, 1.35)}, "at least 0.84 at 1.3"),
        ({"tooltree-thorough": row(0.87, 1.9)}, "at least 0.88 at 2.0"),
        ({"past-the-first-stop": row(0.865, 1.3)}, "above the control"),
        ({"lats": row(0.87, 1.4)}, "no peer"),
        ({"plain": row(0.86, 1.0)}, "never below plain"),
        ({"plain": row(0.81, 1.0)}, "the realist"),
    ],
)
def test_verdict_names_the_target_that_is_missed(changed, missed):
    told = verdict(TABLE | changed, {"realist": TABLE | changed})
    assert [each for target, each in told.items() if target.startswith(missed)] != [[]]


def test_a_task_passes_if_all_its_turns_do(turns):
    played = play(plain, turns, SURE)
    row = figures(played, played, ceiling=1.0)
    assert row["success"] == 0.5
    assert row["task_success"] == 0.5
    assert (row["calls_over_plain"], row["headroom"]) == (1.0, 0.0)


def test_scores_tell_good_from_bad_as_often_as_they_say(turns):
    first, _ = turns
    good, bad = [], []
    for seed in range(1500):
        model = RecordedModel(first, "a/1", Readers(judge=0.9), seed=seed)
        right, wrong = model.judge(model.start, [(HALL.key,), (call("smash").key,)])
        good.append(right)
        bad.append(wrong)
    auc = sum(right > wrong for right, wrong in zip(good, bad, strict=True)) / len(good)
    assert auc == pytest.approx(0.9, abs=0.025)
    assert separation(0.5) == pytest.approx(0)


def test_equal_worlds_have_equal_digests_and_random_generators_count_by_their_state():
    import random  # noqa: PLC0415 - of this test alone

    worlds = [{"Lamp": Lamp()} for _ in range(3)]
    for world, seed in zip(worlds, (1, 1, 2), strict=True):
        world["Lamp"].chance = random.Random(seed)  # noqa: S311 - no secret
    first, second, third = map(digest, worlds)
    assert first == second != third


def test_when_something_was_changed_tells_no_world_from_another():
    worlds = [{"Lamp": Lamp()} for _ in range(2)]
    for world, year in zip(worlds, (2025, 2026), strict=True):
        world["Lamp"].changed = datetime(year, 1, 1, tzinfo=UTC)
    assert digest(worlds[0]) == digest(worlds[1])
