"""How past runs went on from a state, as shares of all that may come next."""

import asyncio
import math
import threading

import pytest
from little_runs import called, routine, run_of, says, user

from langchain_tooltree import SITGraph
from langchain_tooltree.sitgraph import sit_graph as sit_graph_module

REFUND = [user("I want a refund."), *called("a")]


def learnt():
    return SITGraph.from_trajectories(
        [
            *(
                routine(f"refund {n}", "a", "pay", request="I want a refund.")
                for n in range(3)
            ),
            *(
                routine(f"room {n}", "a", "book", request="I want a room.")
                for n in range(3)
            ),
            routine("odd", "a", "call", request="Is anybody there?"),
        ]
    )


def test_shares_of_tools_the_end_and_the_unseen_sum_to_one():
    known = learnt().next_tools(REFUND)

    assert max(known.shares, key=known.shares.get) == "pay"
    assert 0 < known.other < 0.5
    assert math.fsum(
        [*known.shares.values(), known.done, known.other]
    ) == pytest.approx(1)


def test_runs_say_how_many_went_on_with_a_tool():
    known = learnt().next_tools(REFUND)

    assert {tool: known.runs[tool] for tool in ("pay", "book", "call")} == {
        "pay": 3,
        "book": 3,
        "call": 1,
    }


def test_tools_that_the_agent_does_not_have_have_no_share():
    known = learnt().next_tools(REFUND, allowed=["book"])

    assert set(known.shares) == {"book"}


def test_where_the_graph_knows_nothing_there_is_nothing_to_say():
    assert SITGraph().next_tools(REFUND) is None
    assert learnt().next_tools(REFUND, allowed=["unknown"]) is None


def test_both_paths_say_the_same():
    assert asyncio.run(learnt().anext_tools(REFUND)) == learnt().next_tools(REFUND)


def test_where_runs_began_with_a_greeting_the_turn_ends_before_anything_is_said():
    greeting = says("Hello. What can I do for you?")
    runs = [
        run_of(str(number), greeting, user("Refund."), *called("a"), says("Done."))
        for number in range(4)
    ]

    assert SITGraph.from_trajectories(runs).next_tools([]).done > 0.5


@pytest.mark.slow
def test_no_search_waits_until_the_vote_is_fitted_to_what_was_learnt_just_now(
    monkeypatch,
):
    graph, may_go_on = learnt(), threading.Event()
    graph.next_tools(REFUND)
    fitted = sit_graph_module.fit_vote

    def slow(*given):
        assert may_go_on.wait(20)
        return fitted(*given)

    monkeypatch.setattr(sit_graph_module, "fit_vote", slow)
    more = routine("refund more", "a", "pay", request="I want a refund.")
    graph.add(more)

    assert graph.next_tools(REFUND).runs["pay"] == 4
    may_go_on.set()
    graph.suggest("a", messages=REFUND)  # waits until it is
    again = learnt()
    again.add(more)
    assert graph.next_tools(REFUND) == again.next_tools(REFUND)
