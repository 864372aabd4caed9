"""Asking a model for candidate calls: what is taken, repaired and dropped."""

from typing import Annotated

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import InjectedToolArg, tool

from langchain_tooltree import SearchConfig, ToolLibrary
from langchain_tooltree.models import Meter
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.actions import ProposalRequest, Proposer


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def look(place: str) -> str:
    """Look."""
    return place


REQUEST = (HumanMessage("Do it."),)


def calls(*written, broken=()):
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(written)],
        invalid_tool_calls=[{"name": name, "args": args, "id": "x", "error": ""} for name, args in broken],
    )


@pytest.fixture
def ask(drive):
    """Asks a scripted model for calls; returns the proposal, the meter and the model."""

    async def run(*replies, allowance=9, attempt=1, tried=(), conversation=REQUEST, **settings):
        model = ScriptedChatModel(replies=replies)
        library = ToolLibrary([add, look])
        proposer = Proposer(model, library, {"add": "read", "look": "write"}, SearchConfig(**settings))
        meter = Meter(allowance)
        request = ProposalRequest(conversation, library.names, attempt=attempt, tried=tried)
        return await drive(proposer.propose(request, meter)), meter, model

    return run


VALID, INVALID = ("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": "two"})


async def test_valid_calls_are_taken_in_their_order_with_their_effects(ask):
    proposal, meter, _ = await ask(calls(VALID, ("look", {"place": "attic"})))
    assert [(call.label, call.effect) for call in proposal.calls] == [
        ("add(a=1, b=2)", "read"),
        ('look(place="attic")', "write"),
    ]
    assert (proposal.problems, proposal.finished, proposal.error, meter.model_calls) == ([], False, None, 1)


async def test_a_reply_without_calls_finishes_the_state(ask):
    proposal, _, _ = await ask("All is done.")
    assert proposal.finished
    assert proposal.calls == []


async def test_invalid_arguments_are_repaired_once(ask):
    proposal, meter, model = await ask(calls(INVALID, ("look", {"place": "attic"})), calls(VALID))
    assert [call.label for call in proposal.calls] == ['look(place="attic")', "add(a=1, b=2)"]
    assert (proposal.problems, meter.model_calls) == ([], 2)
    told = model.calls[1][-1].text
    assert 'add(a=1, b="two"): b: ' in told


async def test_what_stays_invalid_is_dropped_with_the_reason(ask):
    proposal, meter, _ = await ask(calls(INVALID), calls(INVALID))
    assert (proposal.calls, meter.model_calls) == ([], 2)
    [problem] = proposal.problems
    assert str(problem).startswith('add(a=1, b="two"): b: ')
    assert not proposal.finished


async def test_a_call_that_the_repair_leaves_out_stays_a_problem(ask):
    proposal, _, _ = await ask(calls(INVALID, ("look", {})), calls(VALID))
    assert [call.label for call in proposal.calls] == ["add(a=1, b=2)"]
    assert [problem.tool for problem in proposal.problems] == ["look"]


async def test_a_repair_that_fails_leaves_the_reasons_as_they_were(ask):
    proposal, meter, _ = await ask(calls(INVALID), ConnectionError("gone"))
    assert [problem.tool for problem in proposal.problems] == ["add"]
    assert (proposal.error, meter.model_calls) == (None, 2)


async def test_without_budget_there_is_no_repair(ask):
    proposal, meter, _ = await ask(calls(INVALID), calls(VALID), allowance=1)
    assert (proposal.calls, len(proposal.problems), meter.model_calls) == ([], 1, 1)


async def test_an_unknown_tool_is_named_with_those_there_are(ask):
    proposal, _, _ = await ask(calls(("fly", {"to": "Rome"})), calls(("fly", {"to": "Rome"})))
    [problem] = proposal.problems
    assert str(problem) == "fly({'to': 'Rome'}): there is no tool of this name; the tools are add, look"


async def test_arguments_that_are_no_json_are_repaired_or_dropped(ask):
    proposal, _, _ = await ask(calls(broken=[("add", '{"a": 1,')]), calls(VALID))
    assert [call.label for call in proposal.calls] == ["add(a=1, b=2)"]
    dropped, _, _ = await ask(calls(broken=[("add", '{"a": 1,')]), calls(broken=[("add", '{"a": 1,')]))
    assert [str(problem) for problem in dropped.problems] == ['add({"a": 1,): the arguments are not valid JSON']


async def test_a_model_that_cannot_be_reached_is_asked_once_more(ask):
    proposal, meter, _ = await ask(ConnectionError("busy"), calls(VALID))
    assert (len(proposal.calls), proposal.error, meter.model_calls) == (1, None, 2)


async def test_a_model_that_stays_away_is_an_error(ask):
    proposal, meter, _ = await ask(ConnectionError("busy"), ConnectionError("gone"))
    assert proposal.error == "the model failed: ConnectionError: gone"
    assert not proposal.finished
    assert meter.model_calls == 2


async def test_a_model_that_offers_far_too_many_calls_is_cut_short(ask):
    many = calls(*(("look", {"place": str(n)}) for n in range(50)))
    proposal, _, _ = await ask(many, top_k=3)
    assert len(proposal.calls) == 6


async def test_in_the_papers_form_each_tool_gets_a_draft_of_its_own(ask):
    proposal, meter, model = await ask(calls(VALID), calls(("look", {"place": "attic"})), proposals="per_tool")
    assert [call.tool for call in proposal.calls] == ["add", "look"]
    assert meter.model_calls == 2
    assert ["`add`" in prompt[0].text for prompt in model.calls] == [True, False]


async def test_a_draft_can_only_be_of_its_own_tool(ask):
    stray = calls(("look", {"place": "attic"}))
    proposal, _, _ = await ask(stray, "nothing", "nothing", proposals="per_tool")
    assert proposal.calls == []
    assert "the tools are add" in str(proposal.problems[0])


async def test_a_draft_that_fails_does_not_take_the_others_along(ask):
    proposal, _, _ = await ask(ConnectionError("busy"), calls(("look", {"place": "attic"})), proposals="per_tool")
    assert [call.tool for call in proposal.calls] == ["look"]
    assert proposal.error is None
    proposal, _, _ = await ask(calls(VALID), ConnectionError("busy"), proposals="per_tool")
    assert [call.tool for call in proposal.calls] == ["add"]
    assert proposal.error is None


async def test_drafts_stop_where_the_budget_ends(ask):
    proposal, meter, _ = await ask(calls(VALID), calls(), allowance=1, proposals="per_tool")
    assert (len(proposal.calls), meter.model_calls) == (1, 1)


async def test_a_second_attempt_tells_what_was_tried(ask):
    _, _, model = await ask("No.", attempt=2, tried=['look(place="attic")'])
    assert "This is attempt 2" in model.calls[0][0].text
    assert '- look(place="attic")' in model.calls[0][0].text


async def test_the_agents_own_system_prompt_stays_in_force(ask):
    _, _, model = await ask("No.", conversation=(SystemMessage("Speak like a pirate."), HumanMessage("Do it.")))
    system, request = model.calls[0]
    assert system.text.endswith("Speak like a pirate.")
    assert request.text == "Do it."


async def test_injected_arguments_written_by_a_model_are_thrown_away(drive):
    @tool
    def mine(place: str, owner: Annotated[str, InjectedToolArg]) -> str:
        """Look."""
        return place + owner

    library = ToolLibrary([mine])
    model = ScriptedChatModel(replies=[calls(("mine", {"place": "attic", "owner": "mallory"}))])
    proposer = Proposer(model, library, {"mine": "read"}, SearchConfig())
    proposal = await drive(proposer.propose(ProposalRequest([HumanMessage("Look.")], ["mine"]), Meter(2)))
    assert [call.arguments for call in proposal.calls] == [{"place": "attic"}]
