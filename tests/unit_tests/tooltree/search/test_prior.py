"""What past runs add to the posterior: as likelihood ratios of calls, and as the prior of "done"."""

import math
from types import SimpleNamespace

import pytest

from tests.internals.tooltree import (
    FEWEST_WRITE_RUNS,
    KEPT_SHARES,
    OWN_SAME_TOOL,
    RARE_ENDS,
    RUNS_ASSUMED,
    SAME_TOOL,
    STRONGEST_SHARE,
    SURE_RUNS,
    USUAL_ENDS,
    Prior,
    Spent,
    WarmStart,
    Work,
)

ONE = {kind: Spent(model_calls=1) for kind in ("propose", "score", "evaluate")}
MANY = 30
"""Runs, far above every bound."""


def known(shares, runs=MANY, *, done=0.0, ended=0):
    """What past runs say, each share by so many of them."""
    counted = dict.fromkeys(shares, runs) if isinstance(runs, int) else runs
    return SimpleNamespace(shares=shares, runs=counted, done=done, other=1 - done - sum(shares.values()), ended=ended)


def prior(shares, runs=MANY, *, tools=10, called=(), **more):
    return Prior.of(known(shares, runs, **more), called=called, tools=tools)


def test_the_shares_of_the_tools_called_are_kept_and_the_largest_others():
    shares = {f"t{place}": 0.1 - place / 100 for place in range(8)}
    kept = prior(shares, called=["t7", "never"], tools=10)
    assert list(kept.shares) == [f"t{place}" for place in range(KEPT_SHARES)] + ["never", "t7"]
    other = 1 - sum(shares.values())
    assert kept.shares["never"] == pytest.approx(other / 2), "two of ten tools have no share"
    assert "never" not in kept.runs


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_what_is_no_share_and_no_count_says_nothing(wrong):
    said = SimpleNamespace(shares={"a": wrong}, runs={"a": -RUNS_ASSUMED}, done=wrong, other=wrong, ended=-1)
    kept = Prior.of(said, called=["a"], tools=4)
    assert kept == Prior(shares={"a": 0.25}, tools=4)
    assert (kept.ratio({"a": False}), kept.done_or(0.1), kept.agrees({"a": False})) == (1.0, 0.1, False)


def test_a_share_against_chance_by_hand():
    said = prior({"a": 0.5, "b": 0.1, "c": 0.02}, {"a": 6, "b": 1, "c": 1}, called=["d"])
    for own, same in ((False, SAME_TOOL), (True, OWN_SAME_TOOL)):
        speaks_for = 0.5 / (same * 0.5 + (1 - same) * 0.1)
        assert said.ratio({"a": False}, own_step=own) == pytest.approx(speaks_for ** (6 / (6 + RUNS_ASSUMED)))
        assert said.ratio({"b": False}, own_step=own) == pytest.approx(1.0), "as by chance"
        against = 0.02 / (same * 0.02 + (1 - same) * 0.1)
        assert said.ratio({"c": False}, own_step=own) == pytest.approx(against ** (8 / (8 + RUNS_ASSUMED)))
    together = math.sqrt(said.ratio({"a": False}) * said.ratio({"c": False}))
    assert said.ratio({"a": False, "c": False}) == pytest.approx(together)


def test_a_share_is_one_of_the_runs_that_went_on():
    going_on, alone = prior({"a": 0.05}, 40, done=0.9, ended=360), prior({"a": 0.5}, 40)
    assert going_on.ratio({"a": False}) == pytest.approx(alone.ratio({"a": False}))


def test_no_share_is_proof():
    assert prior({"a": 1.0}, 10**6, tools=10**6).ratio({"a": False}) < 1 / SAME_TOOL
    assert prior({"a": 1.0}, 10**6, called=["b"]).ratio({"b": False}) == pytest.approx(math.exp(-STRONGEST_SHARE))


@pytest.mark.parametrize("runs", range(1, FEWEST_WRITE_RUNS + 1))
def test_few_runs_say_nothing_for_a_write_and_may_speak_against_it(runs):
    said = prior({"pay": 0.9}, runs)
    assert (said.ratio({"pay": True}) > 1) is (runs >= FEWEST_WRITE_RUNS)
    assert said.agrees({"pay": True}) is (runs >= FEWEST_WRITE_RUNS)
    assert said.agrees({"pay": False}) is (runs >= SURE_RUNS)
    assert prior({"pay": 0.9}, runs, called=["sell"]).ratio({"sell": True}) < 1


def test_calls_made_together_are_agreed_with_if_each_has_its_part():
    said = prior({"a": 0.45, "b": 0.4})
    assert said.agrees({"a": False, "b": False})
    assert not said.agrees({"a": False})
    assert not said.agrees({"a": False, "c": False})


@pytest.mark.parametrize(("done", "ended"), [(0.6, 30), (0.02, 1)])
def test_the_share_of_ends_takes_the_place_of_the_constant_as_far_as_runs_speak(done, ended):
    said = prior({"a": 0.95 - done}, 50 - ended, done=done, ended=ended)
    share = done + 0.05 * 0.15
    ratio = share / (USUAL_ENDS * share + (1 - USUAL_ENDS) * 0.15)
    odds = said.done_or(0.15) / (1 - said.done_or(0.15))
    assert odds == pytest.approx(0.15 / 0.85 * (ratio if done > 0.15 else ratio**RARE_ENDS))
    few = prior({}, 0, done=done, ended=1)
    assert abs(few.done_or(0.15) - 0.15) < abs(said.done_or(0.15) - 0.15), "one run says less"


def test_nobody_knows_for_sure_what_is_done():
    always, never = prior({}, 0, done=1.0, ended=10**6), prior({"a": 1.0}, 10**6)
    assert always.done_or(0.15) < 0.15 / 0.85 / USUAL_ENDS
    assert never.done_or(0.15) == 0.15, "that no run ended here may be because nobody counts the ends"
    assert Prior().done_or(0.1) == pytest.approx(0.1)


# --- in the posterior ---


def test_odds_of_a_call_are_those_of_its_scores_times_those_of_its_share(sketch):
    a, b = sketch.offer(sketch.tree.root, 0.5, 0.5)
    first = sketch.root().work
    b.odds = 20.0
    assert (first, sketch.root().work) == (Work("execute", a), Work("execute", b))


def test_where_ends_are_common_an_answer_is_believed_and_where_they_are_rare_it_is_not(sketch_with):
    standing = {}
    for done in (0.8, None, 0.02):
        own = sketch_with(proposals="own_step", pre_evaluation="fused")
        [call] = own.offer(own.tree.root, None)
        own.stop(own.run(call))
        call.prior = done and prior({"a": 0.95 - done}, done=done, ended=MANY)
        standing[done] = own.root().solution
    assert standing[0.8] > 0.7 > standing[None] > 0.5 > standing[0.02]


def test_the_root_has_its_share_of_ends_too(own):
    own.stop(own.tree.root)
    before = own.root().solution
    own.tree.root.prior = prior({"a": 0.1}, done=0.85, ended=MANY)
    assert own.root().solution > before + 0.1


# --- in a search ---


def says(*shares, runs=MANY, done=0.0, ended=0):
    """What past runs say in a state: of these tools in even parts, if no share is given."""
    return known(dict(shares), runs, done=done, ended=ended)


CHAIN = {(): "a", ("a",): "b", ("a", "b"): ""}
USUAL = {
    (): says(("a", 0.9)),
    ("a",): says(("b", 0.9)),
    ("a", "b"): says(("c", 0.05), done=0.9, ended=MANY),
}


def questions(search, launched):
    return [
        ("own" if each.own_step else each.kind, search.tree[each.node].label.removesuffix("()")) for each in launched
    ]


@pytest.mark.parametrize("judged", [False, True], ids=["fused", "a separate judge"])
def test_where_past_runs_agree_with_the_agent_a_search_costs_what_the_agent_costs(own_in, judged):
    settings = {"pre_evaluation": "batched"} if judged else {}
    launched = []
    search = own_in({"offers": CHAIN, "past": USUAL, "spent": ONE}, watch=launched.extend, **settings)
    models = [question for question in questions(search, launched) if question[0] != "execute"]
    assert models == [("own", "root"), ("own", "a"), ("own", "b")]
    assert (search.stop_reason, search.budget.spent.model_calls) == ("solved", 3)
    alone = own_in({"offers": CHAIN, "spent": ONE}, **settings)
    assert alone.budget.spent.model_calls > 3


def test_an_answer_where_runs_seldom_ended_is_doubted(own_in):
    unusual = {**USUAL, ("a", "b"): says(("c", 0.97), done=0.01, ended=1)}
    offers = {**CHAIN, ("a", "b"): ["", "c"], ("a", "b", "c"): ""}
    tables = {"offers": offers, "checks": {"b": 0.5}, "goal": {"c": 0.95}}
    launched = []
    search = own_in({**tables, "past": unusual}, watch=launched.extend)
    assert [step.call.tool for step in search.tree.path(search.best())] == ["a", "b", "c"]


@pytest.mark.parametrize(("runs", "seen"), [(FEWEST_WRITE_RUNS, False), (FEWEST_WRITE_RUNS - 1, True)])
def test_a_judge_sees_a_write_that_few_runs_made(own_in, runs, seen):
    tables = {"offers": {(): "pay"}, "effects": {"pay": "write"}, "spent": ONE}
    launched = []
    past = {(): says(("pay", 0.9), runs=runs)}
    search = own_in({**tables, "past": past}, watch=launched.extend, pre_evaluation="batched")
    assert (search.stop_reason, search.best().call.tool) == ("solved", "pay")
    assert any(each.kind in {"score", "evaluate"} for each in launched) is seen


@pytest.mark.parametrize(("offered", "confidence"), [("pay", 1.0), ("look+pay", 0.7)])
def test_no_judge_sees_a_write_that_past_runs_made_alone_or_after_a_read(own_in, offered, confidence):
    tables = {"offers": {(): offered}, "effects": {"pay": "write"}, "spent": ONE}
    past = {(): says(("pay", 0.5), ("look", 0.45))}
    launched = []
    search = own_in(
        {**tables, "past": past},
        watch=launched.extend,
        pre_evaluation="batched",
        confidence=confidence,
        max_proposals=1,
    )
    assert [each.kind for each in launched if each.kind != "execute"] == ["propose"]
    assert search.best().call.tool == "pay"
    assert search.rollouts == len(launched) - 1, "a call is tried once"


def test_scores_that_the_judge_need_not_give_come_from_shares_and_the_models_own_order(own_in, likely_in):
    launched = []
    past = {(): says(("a", 0.9))}
    search = own_in({"offers": {(): "a"}, "past": past}, watch=launched.extend, pre_evaluation="batched")
    assert "score" not in [each.kind for each in launched]
    assert (search.tree[1].r_pre > 0.97, search.tree[1].pre_scored) == (True, False)
    unusual = own_in({"offers": {(): "b"}, "past": past}, pre_evaluation="batched")
    assert unusual.tree[1].pre_scored, "the model does what past runs did not"
    several = likely_in({"offers": {(): "a b"}, "past": past})
    assert several.tree[1].pre_scored, "a first candidate is less sure than the agent's own step"


def test_under_eq_1_past_runs_change_nothing(search_in, picture):
    tables = {"offers": {(): "a b", ("a",): "b"}}
    assert picture(search_in({**tables, "past": USUAL})) == picture(search_in(tables))


def test_what_past_runs_say_of_a_state_is_said_of_the_root_of_a_later_search(own_in):
    search = own_in({"offers": CHAIN, "past": USUAL})
    below = WarmStart.below(search.tree, search.tree[1], carried_out=False)
    assert below.nodes[0].prior == search.tree[1].prior
    assert WarmStart.model_validate(below.model_dump()).nodes[0].prior == search.tree[1].prior


def test_a_judge_sees_a_write_that_the_agent_did_not_take_for_its_step(own_in):
    launched = []
    offers = {(): ["", "pay"]}
    past = {(): says(("pay", 0.95))}
    own_in(
        {"offers": offers, "effects": {"pay": "write"}, "past": past, "spent": ONE, "checks": {"root": 0.1}},
        watch=launched.extend,
        pre_evaluation="batched",
    )
    assert "score" in [each.kind for each in launched]
