"""What a fused call at the desk brings and costs, and what the judges err by. Nothing is downloaded."""

from dataclasses import replace
from statistics import fmean

import pytest

from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec
from tests.benchmarks.compare.desk import MODEL_MS, Desk, Evaluate, Fused, Propose, Run, Score
from tests.benchmarks.compare.noise import Noise, usual
from tests.benchmarks.compare.simulation import Simulation


class Lamp:
    def __init__(self):
        self.history = []

    def turn(self, to):
        self.history.append(to)
        return {"now": to}


GREEN, RED, OFF, BLUE = (PlainCall("turn", {"to": to}) for to in ("green", "red", "off", "blue"))
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TASK = Task(
    id="lamp",
    request="Turn the lamp green, then red, then off; neither blue nor white nor pink nor grey nor brown.",
    tools=(ToolSpec("turn", "Lamp", "Turn the lamp.", SCHEMA),),
    gold=(GREEN, RED, OFF),
    make_objects=lambda: {"Lamp": Lamp()},
    same_state=lambda found, wanted: found["Lamp"].history == wanted["Lamp"].history,
)


def simulation(seed=0, **changes):
    return Simulation(TASK, {}, seed=seed, **changes)


def desk(noise, *, seed=0, fused=None, **changes):
    return Desk(simulation(seed, **changes), noise, 100, lambda question, answer: 7, fused_noise=fused)


def ask(place, question):
    return place.ask(question)[0]


def test_a_fused_call_is_one_model_call_and_brings_what_the_separate_questions_bring():
    fused, separate = desk(usual(0.9)), desk(usual(0.9))
    reply, took = fused.ask(Fused(ask(fused, Run(fused.start, GREEN))))
    state = ask(separate, Run(separate.start, GREEN))
    calls = ask(separate, Propose(state))

    assert (fused.model_calls, fused.tokens, took) == (1, 7, MODEL_MS)
    assert reply.calls == calls
    assert reply.scores == ask(separate, Score(state, calls))
    assert (reply.reward, reply.goal) == ask(separate, Evaluate(state))


def test_a_fused_call_at_the_start_has_nothing_to_look_back_at():
    place = desk(usual(0.9))
    reply = ask(place, Fused(place.start))
    assert (reply.reward, reply.goal) == (None, None)
    assert len(reply.calls) == len(reply.scores) == 5


def test_a_fused_call_draws_afresh_each_time():
    place = desk(usual(0.9))
    state = ask(place, Run(place.start, GREEN))
    first, second = ask(place, Fused(state)), ask(place, Fused(state))
    assert first.reward != second.reward
    assert first.calls != second.calls


def test_fused_calls_may_have_a_judge_of_their_own():
    place = desk(usual(1.0), fused=Noise(right=0.1))
    state = ask(place, Run(place.start, GREEN))
    assert ask(place, Fused(state)).reward == 0.1
    assert ask(place, Evaluate(state))[0] == 0.72


def scores(noise, call, *, stage="post", asks=(1,), seeds=range(400)):
    """Scores of a call at the start, for each seed those of all asks."""
    found = []
    for seed in seeds:
        world = simulation(seed)
        found.append([world.score(world.start, call, ask, stage=stage, noise=noise) for ask in asks])
    return found


def test_half_of_the_variance_is_drawn_each_time():
    pairs = scores(Noise(sigma=0.1, right=0.5), GREEN, asks=(1, 2))
    together = fmean((first - 0.5) * (second - 0.5) for first, second in pairs)
    assert together == pytest.approx(0.005, abs=0.001)


def test_errors_that_repeat_are_the_same_before_and_after():
    noise = Noise(sigma=0.1, repeats=True)
    assert scores(noise, GREEN, stage="pre", asks=(1, 2)) == scores(noise, GREEN, stage="post", asks=(3, 4))


def test_a_call_of_a_later_step_is_scored_in_between_where_it_is_a_class_of_its_own():
    world = simulation()
    noise = Noise(right=0.93, early=0.61, wrong=0.38)
    found = [world.score(world.start, call, 1, stage="pre", noise=noise) for call in (GREEN, RED, OFF, BLUE)]
    assert found == [0.93, 0.61, 0.61, 0.38]
    after = world.run(world.start, GREEN)
    found = [world.score(after, call, 1, stage="post", noise=noise) for call in (GREEN, RED, OFF)]
    assert found == [0.38, 0.93, 0.61]


def test_errors_in_the_logit_leave_the_median_where_it_is():
    found = sorted(score for (score,) in scores(Noise(right=0.93, sigma=1.0, logit=True), GREEN))
    assert found[len(found) // 2] == pytest.approx(0.93, abs=0.015)
    assert 0 < found[0] < found[-1] < 1


def test_a_tool_has_its_bias_in_common():
    world, noise = simulation(), Noise(right=0.5, wrong=0.5, tool_bias=0.1)
    found = {world.score(world.start, call, 1, stage="pre", noise=noise) for call in (GREEN, RED, BLUE)}
    assert len(found) == 1
    assert found != {0.5}


def test_coarse_scores_have_few_values():
    found = {score for (score,) in scores(replace(usual(0.85), levels=2), GREEN)}
    assert found == {0.0, 0.5, 1.0}


def test_right_calls_may_vary_more_than_others():
    noise = Noise(right=0.5, right_sigma=0.1, wrong=0.5)
    assert {score for (score,) in scores(noise, BLUE)} == {0.5}
    assert fmean((score - 0.5) ** 2 for (score,) in scores(noise, GREEN)) == pytest.approx(0.01, rel=0.2)


def offers(call, **changes):
    worlds = [simulation(seed, **changes) for seed in range(400)]
    return fmean(call in world.propose(world.start, 1) for world in worlds)


def test_the_right_call_is_offered_as_often_as_it_is_said():
    assert offers(GREEN) == pytest.approx(0.9, abs=0.05)
    assert offers(GREEN, offered=0.7) == pytest.approx(0.7, abs=0.06)


def test_calls_of_later_steps_are_offered_too_early_where_it_is_said():
    assert offers(OFF, early_offers=0.9) > offers(OFF) + 0.2
