"""What a fused call at the desk brings and costs, what judges err by, and that each variant of ours finds its way."""

from statistics import fmean

import pytest
from lamp import TASK

from tests.benchmarks.bfcl_model import gold_arguments
from tests.benchmarks.compare.desk import (
    MODEL_MS,
    Desk,
    Evaluate,
    Fused,
    Propose,
    Run,
    Score,
)
from tests.benchmarks.compare.noise import Noise, usual
from tests.benchmarks.compare.simulation import Simulation
from tests.benchmarks.compare.variants import VARIANTS

GREEN = TASK.gold[0]


def simulation(seed=0, **changes):
    return Simulation(TASK, {}, seed=seed, **changes)


def desk(noise, *, seed=0, fused=None, **changes):
    return Desk(
        simulation(seed, **changes),
        noise,
        100,
        lambda question, answer: 7,
        fused_noise=fused,
    )


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


def scores(noise, call, *, stage="post", asks=(1,), seeds=range(400)):
    """Scores of a call at the start, for each seed those of all asks."""
    found = []
    for seed in seeds:
        world = simulation(seed)
        found.append(
            [
                world.score(world.start, call, ask, stage=stage, noise=noise)
                for ask in asks
            ]
        )
    return found


def test_half_of_the_variance_is_drawn_each_time():
    pairs = scores(Noise(sigma=0.1, right=0.5), GREEN, asks=(1, 2))
    together = fmean((first - 0.5) * (second - 0.5) for first, second in pairs)
    assert together == pytest.approx(0.005, abs=0.001)


def offers(call, **changes):
    worlds = [simulation(seed, **changes) for seed in range(400)]
    return fmean(call in world.propose(world.start, 1) for world in worlds)


def test_the_right_call_is_offered_as_often_as_it_is_said():
    assert offers(GREEN) == pytest.approx(0.9, abs=0.05)
    assert offers(GREEN, offered=0.7) == pytest.approx(0.7, abs=0.06)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("seed", range(5))
def test_a_variant_with_a_perfect_judge_solves_the_task(name, seed):
    desk = Desk(
        Simulation(TASK, gold_arguments([TASK]), seed=seed),
        usual(1.0),
        160,
        lambda question, answer: 0,
    )

    VARIANTS[name](desk)

    assert desk.plan_at(160).done
    assert desk.model_calls < 160
