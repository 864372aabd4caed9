"""Asking a model for candidate calls: what is taken, repaired and dropped."""

from typing import Annotated

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import InjectedToolArg, tool

from langchain_tooltree import SearchConfig, ToolLibrary
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import Meter
from tests.internals.tooltree import ProposalRequest, Proposer, effects_as


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

    async def run(*replies, allowance=9, attempt=1, tried=(), extra_candidates=0, conversation=REQUEST, **settings):
        model = ScriptedChatModel(replies=replies)
        library = ToolLibrary([add, look])
        proposer = Proposer(
            model, library, effects_as({"add": "read"}), SearchConfig(**{"pre_evaluation": "batched", **settings})
        )
        meter = Meter(allowance)
        request = ProposalRequest(
            conversation, library.names, attempt=attempt, tried=tried, extra_candidates=extra_candidates
        )
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
    told = model.calls[1][0].text
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
    proposer = Proposer(model, library, effects_as({"mine": "read"}), SearchConfig())
    proposal = await drive(proposer.propose(ProposalRequest([HumanMessage("Look.")], ["mine"]), Meter(2)))
    assert [call.arguments for call in proposal.calls] == [{"place": "attic"}]


def look_at(place):
    return calls(("look", {"place": place}))


def labels(proposal):
    return [call.label for call in proposal.calls]


async def test_a_proposal_of_one_call_is_topped_up_until_nothing_new_comes(ask):
    proposal, meter, model = await ask(
        look_at("attic"), look_at("desk"), look_at("attic"), look_at("sky"), extra_candidates=4
    )
    assert labels(proposal) == ['look(place="attic")', 'look(place="desk")']
    assert (proposal.gained, proposal.largest_reply, meter.model_calls) == (1, 1, 3)
    first, second, third = (prompt[0].text for prompt in model.calls)
    assert "stand already" not in first
    assert "Offer up to 4 different" in second
    assert 'stand already:\n- look(place="attic")\n' in second
    assert '- look(place="attic")\n- look(place="desk")\n' in third


async def test_topping_up_ends_when_there_are_as_many_as_are_kept(ask):
    proposal, meter, _ = await ask(look_at("a"), look_at("b"), look_at("c"), look_at("d"), extra_candidates=9, top_k=3)
    assert len(labels(proposal)) == meter.model_calls == 3


@pytest.mark.parametrize(("extra_candidates", "allowance", "asked"), [(0, 9, 1), (1, 9, 2), (4, 2, 2)])
async def test_topping_up_stays_within_what_is_granted(ask, extra_candidates, allowance, asked):
    proposal, meter, _ = await ask(*map(look_at, "abcde"), extra_candidates=extra_candidates, allowance=allowance)
    assert len(labels(proposal)) == meter.model_calls == asked
    assert proposal.gained == (None if asked == 1 else 1)


async def test_a_reply_without_a_call_ends_topping_up_but_not_the_state(ask):
    proposal, meter, _ = await ask(look_at("attic"), "There is no other.", look_at("desk"), extra_candidates=4)
    assert (labels(proposal), proposal.gained, meter.model_calls) == (['look(place="attic")'], 0, 2)
    assert not proposal.finished


async def test_a_reply_with_several_calls_ends_topping_up_and_is_told(ask):
    several = calls(("look", {"place": "desk"}), VALID)
    proposal, meter, _ = await ask(look_at("attic"), several, look_at("sky"), extra_candidates=4)
    assert len(labels(proposal)) == 3
    assert (proposal.gained, proposal.largest_reply, meter.model_calls) == (2, 2, 2)


async def test_a_first_reply_with_several_calls_is_not_topped_up(ask):
    proposal, meter, _ = await ask(calls(VALID, ("look", {"place": "desk"})), look_at("sky"), extra_candidates=4)
    assert (len(labels(proposal)), proposal.gained, proposal.largest_reply, meter.model_calls) == (2, None, 2, 1)


async def test_what_was_tried_before_is_nothing_new(ask):
    tried = ['look(place="desk")']
    proposal, _, model = await ask(look_at("attic"), look_at("desk"), attempt=2, tried=tried, extra_candidates=4)
    assert (labels(proposal), proposal.gained) == (['look(place="attic")'], 0)
    assert "This is attempt 2" in model.calls[1][0].text


async def test_a_model_that_fails_when_asked_for_others_keeps_the_call_it_made(ask):
    proposal, meter, _ = await ask(look_at("attic"), ConnectionError("gone"), extra_candidates=4)
    assert (labels(proposal), proposal.gained, proposal.error) == (['look(place="attic")'], None, None)
    assert meter.model_calls == 2


async def test_a_call_that_cannot_be_made_is_repaired_before_anything_is_added(ask):
    proposal, meter, _ = await ask(calls(INVALID), calls(VALID), look_at("attic"), extra_candidates=4)
    assert (labels(proposal), proposal.gained, meter.model_calls) == (["add(a=1, b=2)"], None, 2)


async def test_invalid_calls_among_those_added_are_repaired_like_others(ask):
    proposal, meter, _ = await ask(look_at("attic"), calls(INVALID), "No other.", calls(VALID), extra_candidates=4)
    assert labels(proposal) == ['look(place="attic")', "add(a=1, b=2)"]
    assert (proposal.problems, proposal.gained, meter.model_calls) == ([], 1, 4)


THINKING = {"type": "thinking", "thinking": "attic?", "signature": "c2ln"}


async def test_each_call_keeps_the_reasoning_of_the_reply_that_made_it(ask):
    def thoughtful(thought, place):
        reply = look_at(place)
        return reply.model_copy(update={"content": [{**THINKING, "thinking": thought}]})

    proposal, _, _ = await ask(
        thoughtful("one", "attic"), thoughtful("two", "desk"), look_at("sky"), extra_candidates=4
    )
    frames = [call.signed_reasoning for call in proposal.calls]
    assert [frame and frame.reasoning[0]["thinking"] for frame in frames] == ["one", "two", None]


async def test_the_frame_of_a_call_has_no_injected_arguments(drive):
    @tool
    def mine(place: str, owner: Annotated[str, InjectedToolArg]) -> str:
        """Look."""
        return place + owner

    written = {"place": "attic", "owner": "mallory"}
    block = {"type": "tool_use", "id": "c0", "name": "mine", "input": written}
    reply = calls(("mine", written)).model_copy(update={"content": [THINKING, block]})
    proposer = Proposer(
        ScriptedChatModel(replies=[reply]), ToolLibrary([mine]), effects_as({"mine": "read"}), SearchConfig()
    )
    proposal = await drive(proposer.propose(ProposalRequest([HumanMessage("Look.")], ["mine"]), Meter(2)))
    [call] = proposal.calls
    assert call.signed_reasoning.block == {**block, "input": {"place": "attic"}}


@pytest.mark.parametrize("own_step", [True, False])
@pytest.mark.parametrize("instructions", ["Be Bo.", "call"])
async def test_the_words_of_a_question_name_what_was_recalled_and_do_not_repeat_it(drive, own_step, instructions):
    model, library, meter = ScriptedChatModel(replies=[AIMessage("Done.")]), ToolLibrary([add]), Meter(1)
    said = {"advice": "Eve added 7391.", "hint": "Eve looked first."}
    request = ProposalRequest([SystemMessage(instructions), *REQUEST], library.names, own_step=own_step, **said)
    await drive(Proposer(model, library, effects_as({"add": "read"}), SearchConfig()).propose(request, meter))

    (words,) = meter.asked
    (prompt,) = model.calls
    told = words.removesuffix("\n\n[What was recalled]\n\n[What past runs say here]")
    assert prompt[0].text == f"{told}\n\n{said['advice']}".replace("[The agent's instructions]", instructions)
    assert told.startswith("[The agent's instructions]") is own_step
    assert words.count("[") - told.count("[") == 2
