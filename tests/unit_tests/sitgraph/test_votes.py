"""The vote of stored states: kernel, least squares, and what they are fitted by."""

import math
import threading

import numpy as np
import pytest
from little_runs import called, names, routine, run_of, user

from langchain_tooltree import SITGraph
from langchain_tooltree.sitgraph import sit_graph as sit_graph_module
from langchain_tooltree.sitgraph import suggest as votes_module
from langchain_tooltree.sitgraph.states import (
    DIMENSIONS,
    LABELS,
    StateRows,
    cosines,
    project,
    quantize,
)
from langchain_tooltree.sitgraph.suggest import Fit, fit_vote, gram, kernel, vote

VIEWS = 2
NOWHERE = np.zeros((VIEWS, DIMENSIONS), dtype=np.float32)
FIT = Fit.even(NOWHERE)
ASKED = np.zeros(1, LABELS)


def vectors(count, *, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(count * VIEWS, DIMENSIONS))
    return project(drawn).reshape(count, VIEWS, DIMENSIONS)


def rows_of(states, targets, runs, sources=0):
    labels = np.zeros(len(states), LABELS)
    labels["source"], labels["target"], labels["run"], labels["giver"] = (
        sources,
        targets,
        runs,
        -1,
    )
    return StateRows(labels, quantize(np.asarray(states, dtype=np.float32)))


def kernel_among(rows):
    return kernel(
        np.tensordot(FIT.weights, gram(rows.vectors), 1),
        rows.labels[:, None],
        rows.labels,
    )


def votes_of(rows, asked):
    return vote(
        rows,
        np.arange(len(rows)),
        cosines(rows.numbers, asked, NOWHERE) @ FIT.weights,
        ASKED,
        FIT,
    )


def test_the_kernel_is_one_for_the_same_state_after_the_same_tools_and_less_for_any_other():
    same = kernel_among(rows_of(vectors(3), [1, 2, 3], [0, 1, 2]))
    elsewhere = kernel_among(
        rows_of(vectors(3), [1, 2, 3], [0, 1, 2], sources=[4, 5, 6])
    )

    assert same.diagonal() == pytest.approx(np.ones(3), abs=1e-4)
    assert (same < 1.0001).all()
    assert same[0, 1] - elsewhere[0, 1] == pytest.approx(0.1 / 1.1, abs=1e-5)


def test_votes_are_the_posterior_mean_of_a_gaussian_process():
    states, asked = vectors(20), vectors(1, seed=1)[0]

    ballot = votes_of(rows_of(states, [1, 2] * 10, range(20)), asked)

    whole = kernel_among(
        rows_of(np.concatenate([states, asked[None]]), [1] * 21, range(21))
    )
    expected = np.linalg.solve(whole[:20, :20] + 0.1 * np.eye(20), whole[:20, 20])
    assert ballot.beta == pytest.approx(
        expected, abs=0.02
    )  # the question is not packed into four bits
    assert ballot.scores()[1] == pytest.approx(ballot.beta[::2].sum())


def test_many_copies_of_a_state_count_little_more_than_one():
    one, other = vectors(2)
    asked = (one + other) / np.linalg.norm(one + other, axis=1, keepdims=True)

    scores = votes_of(
        rows_of([one, *[other] * 10], [1, *[2] * 10], range(11)), asked
    ).scores()

    assert scores[2] < 1.3 * scores[1]


def test_runs_that_are_left_out_are_foretold_in_closed_form_as_if_they_had_never_been_there():
    draw = np.random.default_rng(5)
    runs = np.repeat(np.arange(6), 4)
    rows = rows_of(vectors(24), draw.integers(0, 3, 24), runs)
    foretelling = votes_module._Foretelling(rows, rows.labels["target"], NOWHERE)

    scores = foretelling._scores(np.array([0.1, *FIT.weights]))

    among = kernel_among(rows)
    targets, places = votes_module.in_order(rows.labels["target"])
    answers = np.eye(len(targets))[places]
    for run in range(6):
        left, kept = runs == run, runs != run
        foretold = among[np.ix_(left, kept)] @ np.linalg.solve(
            among[np.ix_(kept, kept)] + 0.1 * np.eye(kept.sum()), answers[kept]
        )
        known = np.isfinite(scores[left])
        assert scores[left][known] == pytest.approx(foretold[known], abs=1e-5)
        assert (known == answers[kept].any(axis=0)).all()


@pytest.mark.slow
def test_a_view_that_foretells_what_comes_next_gains_weight():
    draw = np.random.default_rng(3)
    targets = draw.integers(0, 3, 120)
    states = vectors(120, seed=4)
    states[:, 1] = vectors(3, seed=9)[targets, 1] + 0.3 * states[:, 1]

    fit = fit_vote(rows_of(states, targets, np.repeat(np.arange(40), 3)))

    assert fit.weights[1] > 0.6
    assert fit.weights.sum() == pytest.approx(1)
    assert fit.other < 0


def test_runs_that_never_do_the_same_leave_much_for_what_no_run_did():
    apart = [
        routine(str(number), *(f"t{number} {place}" for place in range(4)))
        for number in range(8)
    ]
    alike = [routine(str(number), *"abcd") for number in range(8)]
    asked = [user("Help me."), *called("a")]

    unsure, sure = (
        SITGraph.from_trajectories(each).next_tools(asked) for each in (apart, alike)
    )

    assert unsure.other > 0.2
    assert sure.other < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "text", ["Ich möchte Bücher über Vögel", "我想退票", "🙂🙃", ""]
)
def test_a_handful_of_runs_of_any_text_is_enough(count, text):
    runs = [
        run_of(str(n), user(text), *called("a"), *called("b"), user(text), *called("c"))
        for n in range(count)
    ]
    graph = SITGraph.from_trajectories(runs)

    begun = [user(text), *called("a")]
    for said, last, expected in (
        (begun[:1], None, "a"),
        (begun, "a", "b"),
        ([*begun, *called("b"), user(text)], "b", "c"),
    ):
        assert names(graph.suggest(last, messages=said, k=1)) == [expected]
        known = graph.next_tools(said)
        assert math.fsum(
            [*known.shares.values(), known.done, known.other]
        ) == pytest.approx(1)


def test_one_tool_alone_is_suggested_again():
    runs = [routine(str(number), *["a"] * 4) for number in range(4)]

    assert names(
        SITGraph.from_trajectories(runs).suggest(
            "a", messages=[user("Help me."), *called("a")]
        )
    ) == ["a"]


def test_where_runs_answered_their_users_the_end_has_a_share():
    runs = [
        routine(str(number), "a", "b", request=f"Wish {number}") for number in range(6)
    ]
    graph = SITGraph.from_trajectories(runs)

    begun, ended = (
        graph.next_tools(
            [user("Wish 3"), *(message for tool in tools for message in called(tool))]
        )
        for tools in (["a"], ["a", "b"])
    )

    assert begun.done < 0.3
    assert ended.done > 0.7
    assert ended.ended == 6
    assert "" not in ended.shares
    assert (
        graph.suggest("b", messages=[user("Wish 3"), *called("a"), *called("b")]) == []
    )


@pytest.mark.slow
def test_suggestions_are_the_same_in_whatever_order_runs_were_added():
    runs = [
        routine(
            f"{number}",
            *[["a", "b", "c"], ["a", "c"], ["b", "a"]][number % 3],
            request=f"Wish {number % 4}",
        )
        for number in range(15)
    ]
    forth, back = SITGraph(), SITGraph()
    for run in runs:
        forth.add(run)
    back.add(routine("gone", "c", "a"))
    for run in reversed(runs):
        back.add(run)
        back.suggest("a", messages=[user("Wish 1"), *called("a")])
    back.remove("gone")

    for wish in range(4):
        said = [user(f"Wish {wish}"), *called("a")]
        assert forth.suggest("a", messages=said, k=9) == back.suggest(
            "a", messages=said, k=9
        )
        assert forth.next_tools(said) == back.next_tools(said)


def test_runs_that_end_faster_than_a_vote_is_fitted_start_one_thread(monkeypatch):
    begun, goes_on, started = threading.Event(), threading.Event(), []

    def slowly(rows, sample):
        begun.set()
        assert goes_on.wait(10)
        return fit_vote(rows, sample)

    def in_thread(work, name):
        started.append(threading.Thread(target=work))
        started[-1].start()

    graph = SITGraph.from_trajectories([routine("0", "a", "b")])
    graph.suggest("a", messages=[user("Help me."), *called("a")])
    graph._fit_again_at = 0.0
    monkeypatch.setattr(sit_graph_module, "fit_vote", slowly)
    monkeypatch.setattr(sit_graph_module, "run_in_daemon_thread", in_thread)
    graph.add(routine("first", "a", "b"))
    assert begun.wait(10)

    for number in range(1, 20):
        graph.add(routine(str(number), "a", "b"))
    assert len(started) == 1
    goes_on.set()
    started[0].join()

    assert names(
        graph.suggest("a", messages=[user("Help me."), *called("a")], k=1)
    ) == ["b"]
