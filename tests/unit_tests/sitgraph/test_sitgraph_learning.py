"""SITGraphMiddleware: what is learnt from the agent's own runs, and when."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from library_desk import ASKED, FOUND, THREAD, calling, desk_agent, either

from langchain_tooltree import SITGraph, SITGraphMiddleware


def learning(graph, verdict, *replies, **options):
    """An agent that looks at the loans and is done, or works by another script."""
    middleware = [SITGraphMiddleware(graph, verdict=verdict)]
    return desk_agent(
        *(replies or [*FOUND, "It is due."]), middleware=middleware, **options
    )[0]


def went_well(_):
    return True


def test_a_run_that_went_well_is_part_of_the_graph_at_once(path):
    graph = SITGraph()

    either(path, learning(graph, went_well, checkpointer=InMemorySaver()))(
        ASKED, THREAD
    )

    assert "desk 1" in graph
    assert [each.tool for each in graph.suggest("find_reader")] == ["list_loans"]


@pytest.mark.parametrize(
    "verdict",
    [None, lambda _: False, lambda _: None],
    ids=["nobody asked", "it failed", "unknown"],
)
def test_any_other_run_is_not(path, verdict):
    graph = SITGraph()

    either(path, learning(graph, verdict))(ASKED)

    assert len(graph) == 0


@pytest.mark.parametrize("last_word", [False, None])
def test_a_conversation_that_fails_after_all_is_taken_out_again(path, last_word):
    graph, verdicts = SITGraph(), [True, last_word]
    script = (*FOUND, "It is due.", calling("renew_loan", 2), "It cannot be renewed.")
    agent = learning(
        graph, lambda _: verdicts.pop(0), *script, checkpointer=InMemorySaver()
    )

    either(path, agent)(ASKED, THREAD)
    assert "desk 1" in graph
    either(path, agent)({"messages": [("user", "Renew it.")]}, THREAD)

    assert len(graph) == 0
