"""SITGraphMiddleware: what is learnt from the agent's own runs, and when."""

import asyncio

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from library_desk import ASKED, FOUND, THREAD, calling, desk_agent, either

from langchain_tooltree import ModelVerdict, SITGraph, SITGraphMiddleware
from langchain_tooltree.experience.verdict import Verdict
from langchain_tooltree.testing import ScriptedChatModel


def learning(graph, verdict, *replies, before=(), **options):
    """An agent that looks at the loans and is done, or works by another script."""
    middleware = [*before, SITGraphMiddleware(graph, verdict=verdict)]
    return desk_agent(
        *(replies or [*FOUND, "It is due."]), middleware=middleware, **options
    )[0]


def went_well(_):
    return True


async def later(trajectory):
    await asyncio.sleep(0)
    return trajectory.calls[-1].tool == "list_loans"


JUDGED = {"reasons": "The day was found.", "verdict": "success"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "verdict",
    [
        went_well,
        later,
        lambda _: 1.0,
        lambda _: Verdict(success=True),
        ScriptedChatModel(replies=[JUDGED] * 2),
        ModelVerdict(ScriptedChatModel(replies=[JUDGED] * 2)),
    ],
    ids=["function", "async function", "reward", "verdict", "model", "model verdict"],
)
def test_a_run_that_went_well_is_part_of_the_graph_at_once(path, verdict):
    graph = SITGraph()

    either(path, learning(graph, verdict, checkpointer=InMemorySaver()))(ASKED, THREAD)

    assert "desk 1" in graph
    assert [each.tool for each in graph.suggest("find_reader")] == ["list_loans"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "verdict",
    [
        None,
        lambda _: False,
        lambda _: None,
        lambda _: 0.5,
        ScriptedChatModel(replies=["Who knows?"] * 4),
    ],
    ids=[
        "nobody asked",
        "it failed",
        "unknown",
        "some reward",
        "a model without a verdict",
    ],
)
def test_any_other_run_is_not(path, verdict):
    graph = SITGraph()

    either(path, learning(graph, verdict))(ASKED)

    assert len(graph) == 0


def test_a_verdict_that_raises_does_not_disturb_the_run(path, caplog):
    def unsure(_):
        msg = "no idea"
        raise LookupError(msg)

    graph = SITGraph()

    assert (
        either(path, learning(graph, unsure))(ASKED)["messages"][-1].text
        == "It is due."
    )
    assert len(graph) == 0
    assert "Nothing was learnt from a run: no idea" in caplog.text


def test_an_interrupted_run_is_judged_when_it_has_come_to_its_end(path):
    judged = []
    approval = HumanInTheLoopMiddleware(interrupt_on={"renew_loan": True})
    graph = SITGraph()
    agent = learning(
        graph,
        lambda trajectory: judged.append(trajectory) or True,
        *(*FOUND, calling("renew_loan"), "Done."),
        before=[approval],
        checkpointer=InMemorySaver(),
    )
    invoke = either(path, agent)

    assert invoke(ASKED, THREAD)["__interrupt__"]
    assert (judged, len(graph)) == ([], 0)
    invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)

    (trajectory,) = judged
    assert [step.tool for step in trajectory.calls] == [
        "find_reader",
        "list_loans",
        "renew_loan",
    ]
    assert "desk 1" in graph


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


def test_an_agent_inside_another_graph_is_told_from_that_graph(path):
    graph = SITGraph()
    host = StateGraph(MessagesState)
    host.add_node("desk", learning(graph, went_well))
    host.add_edge(START, "desk")

    either(path, host.compile(checkpointer=InMemorySaver()))(ASKED, THREAD)

    assert len(graph) == 1
    assert "desk 1" not in graph
