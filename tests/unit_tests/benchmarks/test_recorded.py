"""Recorded runs as a graph of states, and the policies that play them."""

import pytest

from tests.benchmarks import together
from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec
from tests.benchmarks.recorded import ours
from tests.benchmarks.recorded.__main__ import CONTROL, DEFAULT, figures, play, verdict
from tests.benchmarks.recorded.model import Readers, RecordedModel, separation
from tests.benchmarks.recorded.ours import Loop
from tests.benchmarks.recorded.policies import past_the_first_stop, plain
from tests.benchmarks.recorded.runs import STOP, digest, turns_of
from tests.benchmarks.together import rows_of

SURE = Readers(judge=1.0)


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
        (found["Lamp"].on, found["Lamp"].broken)
        == (wanted["Lamp"].on, wanted["Lamp"].broken)
    ),
)


def run(name, *turns):
    return {
        "id": "lamps",
        "run": name,
        "turns": [
            [
                [{"name": each.tool, "arguments": each.arguments} for each in step]
                for step in turn
            ]
            for turn in turns
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
def turns(monkeypatch):
    monkeypatch.setattr(ours, "READ_ONLY", frozenset({"look"}))
    return list(turns_of([TASK], RUNS))


def test_a_turn_passes_with_golds_world_and_all_of_golds_results(turns):
    first, second = turns
    assert {name: first.passed(name) for name in first.ways} == {
        "a/1": False,
        "a/2": True,
        "b/1": True,
        "b/2": False,
    }
    assert {name: second.passed(name) for name in second.ways} == {
        "a/2": True,
        "b/1": True,
    }
    assert (first.counts, second.counts) == (True, False)


def test_a_step_is_good_if_some_recorded_way_leads_from_it_to_a_passing_end(turns):
    first, _ = turns
    start = first.starts["a/1"]
    assert first.is_good(start, (HALL.key,))
    assert not first.is_good(start, (call("smash").key,))
    lit, _ = first.take(start, (HALL.key,))
    assert not first.is_good(lit, STOP)
    assert first.is_good(first.take(lit, (ROOF.key,))[0], STOP)


def test_plain_plays_the_recorded_run_and_the_control_goes_on_past_its_first_stop(
    turns,
):
    first, _ = turns
    for name in first.ways:
        model = RecordedModel(first, name, SURE)
        assert plain(model).passing == first.passed(name)
        assert model.calls == len(first.ways[name])
    assert past_the_first_stop(RecordedModel(first, "a/1", SURE)).passing


def test_our_policy_costs_what_plain_costs_where_all_is_right_and_mends_a_stop_that_came_too_early(
    turns,
):
    first, _ = turns
    right = RecordedModel(first, "b/1", SURE)
    assert Loop(4)(right).passing
    assert right.calls == len(first.ways["b/1"])
    mended = [
        Loop(4)(RecordedModel(first, "a/1", SURE, seed=seed)).passing
        for seed in range(40)
    ]
    assert sum(mended) > 30
    early = RecordedModel(first, "a/1", SURE)
    assert early.report(first.take(early.start, (HALL.key,))[0]).call == ROOF.key
    assert Loop(4, obeys=True)(early).passing
    assert (
        early.calls == len(first.ways["a/1"]) + 2
    )  # the write that it named, and the answer after it


def row(success, calls, lost=0.0, gain_high=0.1):
    return {
        "success": success,
        "calls_over_plain": calls,
        "lost": lost,
        "gain": 0.0,
        "gain_low": -0.1,
        "gain_high": gain_high,
    }


TABLE = {
    CONTROL: row(0.8, 1.34),
    "tooltree-frugal": row(0.85, 1.2),
    DEFAULT: row(0.87, 1.3),
    "tooltree-thorough": row(0.89, 1.9),
}


def test_targets_hold_and_policies_that_were_not_played_miss_nothing():
    assert [
        each for each in verdict({"good": TABLE, "correlated": TABLE}).values() if each
    ] == []
    assert [each for each in verdict({"good": {}, "coin": {}}).values() if each] == []


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (
            {"tooltree-frugal": row(0.7, 1.2, gain_high=-0.01)},
            "at each judge no effort",
        ),
        ({DEFAULT: row(0.87, 1.3, lost=2.3)}, "at each judge the default loses"),
        ({DEFAULT: row(0.85, 1.3)}, "good: at least .86"),
        ({DEFAULT: row(0.79, 1.3)}, "correlated"),
        ({DEFAULT: row(0.87, 1.34)}, "correlated"),
        ({"tooltree-thorough": row(0.84, 1.9)}, "at each judge thorough"),
    ],
)
def test_verdict_names_the_target_that_is_missed(changed, missed):
    told = verdict({"good": TABLE | changed, "correlated": TABLE | changed})
    assert [each for target, each in told.items() if target.startswith(missed)] != [[]]


def test_turns_that_plain_had_and_a_policy_lost_are_counted_by_their_cause(turns):
    first, _ = turns

    def smashes(model):
        return first.take(plain(model), (call("smash").key,))[0]

    rows = [play(policy, turns[:1], SURE, draws=2) for policy in (smashes, plain)]
    told = figures(*rows, ceiling=1.0)
    assert (
        told["success"],
        told["lost"],
        told["lost_by_write"],
        told["lost_by_read"],
    ) == (0.0, 1000.0, 1000.0, 0.0)
    assert told["gain"] == -0.5
    assert told["gain_high"] <= 0 <= figures(rows[1], rows[1], ceiling=1.0)["gain_high"]


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


def test_a_verdict_says_which_part_of_experience_pays():
    row = {"gain": 0.0, "gain_low": -0.01, "gain_high": 0.01, "calls": 1.3}
    rows = {name: dict(row) for name in rows_of([])}
    rows["experience, followed .5"] |= {
        "gain": 0.04,
        "gain_low": 0.01,
        "gain_high": 0.06,
    }
    rows["paper, followed .5"] |= {"gain_low": -0.05, "gain_high": -0.01}
    lines = "\n".join(together.verdict({"good": rows}))
    assert lines.startswith("holds")
    assert "experience, followed .5: +0.040 at +0.00 calls: pays" in lines
    assert "paper, followed .5: +0.000 at +0.00 calls: costs" in lines
    assert "graph, followed .5: +0.000 at +0.00 calls: changes nothing" in lines
    rows["experience, followed .5"]["calls"] = 1.4
    assert together.verdict({"good": rows})[0].startswith("missed")
