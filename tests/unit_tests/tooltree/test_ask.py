"""Asking a model for candidates: repair, servers that refuse tools with fields for scores, and one call a reply."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from langchain_tooltree import ToolLibrary
from langchain_tooltree.models import Meter
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.deep import ProposalRequest, Proposer
from langchain_tooltree.tooltree.judge import SAID_OPEN
from langchain_tooltree.tooltree.search.config import KernelConfig


@tool
def look(place: str) -> str:
    """Look at a place."""
    return place


@tool
def wait(minutes: int) -> str:
    """Wait."""
    return str(minutes)


def reply(*calls, content=""):
    return AIMessage(
        content,
        tool_calls=[
            {"name": name, "args": args, "id": f"id_{name}"} for name, args in calls
        ],
    )


@pytest.fixture
def propose(drive):
    """Has a scripted model propose calls: `await propose(reply, ..., selection="smoothed")`."""

    async def run(*replies, calls=2, model=None, **settings):
        double = model or ScriptedChatModel(replies=replies)
        proposer = Proposer(
            double,
            ToolLibrary([look, wait]),
            lambda *_: "read",
            KernelConfig(**settings),
        )
        meter = Meter(calls)
        request = ProposalRequest([HumanMessage("Find it.")], ["look", "wait"])
        proposal = await drive(proposer.propose(request, meter))
        assert meter.model_calls <= calls
        return proposal, double

    return run


def labels(proposal):
    return [call.label for call in proposal.calls]


SEEN = ("look", {"place": "desk", "confidence": 0.9})
ASSESSED = ("assess", {"missing": ["the key"], "fulfilled": False})


async def test_candidates_come_with_their_scores_and_how_the_request_stands(propose):
    proposal, model = await propose(
        reply(SEEN, ("wait", {"minutes": 1, "confidence": 7}), ASSESSED)
    )
    assert labels(proposal) == ['look(place="desk")', "wait(minutes=1)"]
    assert proposal.confidences == [0.9, None]
    assert (proposal.goal, proposal.missing) == (SAID_OPEN, ("the key",))
    assert [call.reply for call in proposal.calls] == [None, None]
    assert len(model.calls) == 1


async def test_invalid_calls_are_written_again_once_and_what_is_still_invalid_stays_a_problem(
    propose,
):
    first = reply(SEEN, ("wait", {"minutes": "soon", "confidence": 0.4}), ("fly", {}))
    second = reply(("wait", {"minutes": 2, "confidence": 0.6}), ("fly", {}))
    proposal, model = await propose(first, second)
    assert labels(proposal) == ['look(place="desk")', "wait(minutes=2)"]
    assert proposal.confidences == [0.9, 0.6]
    assert [problem.partition(":")[0] for problem in proposal.dropped] == [
        'wait(minutes="soon")',
        "fly()",
        "fly()",
    ]
    told = model.calls[1][0].text
    assert "Write each of them again" in told
    assert '- wait(minutes="soon")' in told


async def test_a_model_that_makes_one_call_a_reply_is_asked_again_where_that_said_what_is_missing(
    propose,
):
    proposal, model = await propose(reply(ASSESSED), reply(SEEN))
    assert (labels(proposal), proposal.confidences) == (['look(place="desk")'], [0.9])
    assert proposal.goal == SAID_OPEN
    assert "assess" not in model.calls[1][0].text


async def test_a_model_that_is_done_is_not_asked_again(propose):
    proposal, model = await propose(
        reply(("assess", {"missing": [], "fulfilled": True}))
    )
    assert (proposal.finished, proposal.missing, len(model.calls)) == (True, (), 1)


async def test_each_tool_gets_a_draft_and_those_beyond_the_budget_are_an_error(propose):
    settings = {"selection": "smoothed", "proposals": "per_tool"}
    proposal, model = await propose(
        reply(("look", {"place": "desk"})), "Waiting does not help.", **settings
    )
    assert (labels(proposal), proposal.error, len(model.calls)) == (
        ['look(place="desk")'],
        None,
        2,
    )
    proposal, _ = await propose("Looking does not help.", calls=1, **settings)
    assert (proposal.calls, proposal.error) == ([], "the budget left no question")


async def test_a_model_that_cannot_be_reached_is_an_error_of_the_proposal(propose):
    proposal, model = await propose(ConnectionError("down"))
    assert (proposal.calls, proposal.error) == (
        [],
        "the model failed: ConnectionError: down",
    )
    assert len(model.calls) == 1, "the client retries, and the search asks again later"


async def test_nothing_is_repaired_without_budget(propose):
    proposal, model = await propose(reply(("fly", {})), calls=1)
    assert (labels(proposal), len(model.calls)) == ([], 1)
    assert not proposal.finished
