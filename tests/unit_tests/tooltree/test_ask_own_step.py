"""The agent's own step: asked as the agent itself would be asked, and taken as the agent would take it."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import Field

from langchain_tooltree import SearchConfig, ToolLibrary
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import Meter
from tests.internals.tooltree import (
    DEFAULT_STEP_CALLS_PROMPT,
    DEFAULT_STEP_PROMPT,
    SAID_DONE,
    SAID_OPEN,
    ProposalRequest,
    Proposer,
    effects_as,
)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def look(place: str) -> str:
    """Look."""
    return place


@tool
def send(to: str) -> str:
    """Send."""
    return to


def calls(*written, broken=()):
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(written)],
        invalid_tool_calls=[{"name": name, "args": args, "id": "x", "error": ""} for name, args in broken],
    )


class Bound(ScriptedChatModel):
    """Keeps what is bound to it."""

    bindings: list = Field(default_factory=list)

    def bind_tools(self, tools, **settings):
        self.bindings.append((list(tools), settings))
        return super().bind_tools(tools, **settings)


CONVERSATION = [
    SystemMessage("Be kind."),
    HumanMessage("Look, then send."),
    AIMessage("", tool_calls=[{"name": "look", "args": {"place": "attic"}, "id": "o1"}]),
    ToolMessage("dust", tool_call_id="o1", name="look"),
]


@pytest.fixture
def step(drive):
    """Asks a scripted model for the agent's own step; returns the proposal, the meter and the model."""

    async def run(*replies, allowance=9, conversation=CONVERSATION, settings=None, **asked):
        model = Bound(replies=replies)
        library = ToolLibrary([add, look, send])
        effects = effects_as({"add": "read", "look": "read"})
        proposer = Proposer(model, library, effects, SearchConfig(), settings)
        meter = Meter(allowance)
        request = ProposalRequest(conversation, library.names, own_step=True, **asked)
        return await drive(proposer.propose(request, meter)), meter, model

    return run


VALID, INVALID = ("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": "two"})
ATTIC, DESK, MAIL = ("look", {"place": "attic"}), ("look", {"place": "desk"}), ("send", {"to": "Ann"})


def labels(proposal):
    return [[call.label for call in action] for action in proposal.actions]


async def test_the_agents_own_question_is_asked_with_one_line_more(step):
    _, meter, model = await step(calls(ATTIC), settings={"temperature": 0.2})
    [prompt] = model.calls
    assert prompt == [SystemMessage(f"Be kind.\n\n{DEFAULT_STEP_PROMPT}"), *CONVERSATION[1:]]
    [(tools, settings)] = model.bindings
    assert [each.name for each in tools] == ["add", "look", "send"]
    assert all(bound is own for bound, own in zip(tools, (add, look, send), strict=True))
    assert settings == {"temperature": 0.2}
    assert meter.model_calls == 1


async def test_what_was_tried_and_is_missing_does_not_change_the_agents_own_question(step):
    _, _, plain = await step("Done.")
    _, _, later = await step("Done.", attempt=2, tried=["look()"], missing=["the mail"])
    assert later.calls == plain.calls


async def test_what_the_agent_says_with_its_calls_goes_with_the_first_of_them(step):
    reply = calls(MAIL, ATTIC)
    reply.content = "I look first.\n\nMissing: the mail"
    proposal, _, _ = await step(reply)
    [batch] = proposal.actions
    assert [(call.tool, call.said) for call in batch] == [("look", "I look first."), ("send", "")]


async def test_all_calls_of_a_reply_are_one_action(step):
    proposal, _, _ = await step(calls(ATTIC, VALID))
    assert labels(proposal) == [['look(place="attic")', "add(a=1, b=2)"]]
    assert (proposal.finished, proposal.answer, proposal.goal, proposal.confidences) == (False, None, None, [None])


async def test_a_reply_has_no_bound_of_candidates(step):
    proposal, _, _ = await step(calls(*(("look", {"place": str(n)}) for n in range(20))))
    assert len(proposal.calls) == 20
    many, _, _ = await step(calls(*(("look", {"place": str(n)}) for n in range(99))))
    assert len(many.calls) == 32
    assert many.dropped == ["67 calls: only 32 of one reply are read"]


async def test_within_a_reply_a_call_is_made_once_and_writes_come_last(step):
    proposal, _, _ = await step(calls(MAIL, ATTIC, ATTIC, DESK, MAIL))
    assert labels(proposal) == [['look(place="attic")', 'look(place="desk")', 'send(to="Ann")']]


async def test_a_reply_without_calls_is_the_answer_and_says_what_is_missing(step):
    done, meter, _ = await step("It is sent.\n\nMissing: nothing")
    assert (done.finished, done.answer.text, done.goal, done.missing) == (True, "It is sent.", SAID_DONE, ())
    assert (done.actions, done.problems, done.error, meter.model_calls) == ([], [], None, 1)
    early, _, _ = await step("There is dust.\nMissing: send the mail")
    assert (early.finished, early.answer.text, early.goal, early.missing) == (
        True,
        "There is dust.",
        SAID_OPEN,
        ("send the mail",),
    )
    silent, _, _ = await step("It is sent.")
    assert (silent.finished, silent.answer.text, silent.goal, silent.missing) == (True, "It is sent.", None, ())


LONG = [SystemMessage(f"Be kind. {'x' * 1_000}"), *CONVERSATION[1:]]


def stop(*named, done=True):
    """An answer that ends with the full form."""
    keys = ("tool", "args", "likely")
    form = {"done": done, "calls_maybe_needed": [dict(zip(keys, each, strict=False)) for each in named]}
    return f"There is dust.\n{json.dumps(form)}"


async def test_a_request_that_is_large_enough_asks_for_calls_that_may_still_be_needed(step):
    for conversation, line in ((CONVERSATION, DEFAULT_STEP_PROMPT), (LONG, DEFAULT_STEP_CALLS_PROMPT)):
        _, _, model = await step(calls(INVALID), "Done.", conversation=conversation)
        assert all(line in prompt[0].text for prompt in model.calls)


async def test_an_answer_brings_calls_that_may_still_be_needed(step):
    proposal, _, _ = await step(stop((*DESK, 0.2), (*MAIL, 0.6), done=False), conversation=LONG)
    assert (labels(proposal), proposal.confidences) == ([['send(to="Ann")'], ['look(place="desk")']], [0.6, 0.2])
    assert [call.effect for call in proposal.calls] == ["write", "read"]
    assert (proposal.finished, proposal.answer.text, proposal.goal) == (True, "There is dust.", SAID_OPEN)
    assert (proposal.problems, proposal.largest_reply) == ([], 0)


@pytest.mark.parametrize(("confidence", "done"), [(0.4, True), (0.9, True), (0.1, False)])
async def test_a_real_write_is_not_taken_from_an_answer_that_does_not_ask_for_it(step, confidence, done):
    proposal, _, _ = await step(stop((*DESK, 0.2), (*MAIL, confidence), done=done), conversation=LONG)
    assert labels(proposal) == [['look(place="desk")']]


async def test_named_calls_without_a_score_are_taken_without_one(step):
    proposal, _, _ = await step(stop(MAIL, MAIL, done=False))
    assert (labels(proposal), proposal.confidences, proposal.goal) == ([['send(to="Ann")']], [None], SAID_OPEN)


@pytest.mark.parametrize(("done", "hints"), [(False, ('fly(to="Rome")', 'add(a=1, b="two")')), (True, ())])
async def test_a_named_call_that_cannot_be_made_is_a_hint_unless_all_is_done(step, done, hints):
    proposal, meter, _ = await step(stop(("fly", {"to": "Rome"}, 0.3), (*INVALID, 0.3), (*DESK, 0.3), done=done))
    assert (labels(proposal), proposal.missing) == ([['look(place="desk")']], hints)
    assert (proposal.problems, meter.model_calls) == ([], 1)


@pytest.mark.parametrize("value", ["<address of Ann>", "{{to}}", "[her address]", "?", "...", "TBD"])
async def test_a_named_call_with_a_place_to_be_filled_in_is_only_a_hint(step, value):
    proposal, _, _ = await step(stop(("send", {"to": value}, 0.9), ("send", {"to": "Ann <ann@x.org>"}, 0.5), done="no"))
    assert labels(proposal) == [['send(to="Ann <ann@x.org>")']]
    assert (proposal.missing, proposal.goal) == ((f'send(to="{value}")',), SAID_OPEN)


async def test_a_step_that_asks_the_user_brings_no_calls(step):
    proposal, _, _ = await step(stop((*MAIL, 0.9), done="ask user"))
    assert (proposal.finished, proposal.actions, proposal.goal, proposal.missing) == (True, [], None, ())


async def test_other_calls_of_a_step_go_before_calls_that_an_answer_only_names(step):
    proposal, _, _ = await step(calls(ATTIC, INVALID), stop((*MAIL, 0.4)))
    assert (labels(proposal), proposal.finished) == ([['look(place="attic")']], False)


async def test_what_is_said_beside_calls_is_no_answer(step):
    reply = calls(ATTIC).model_copy(update={"content": "Let me look.\nMissing: nothing"})
    proposal, _, _ = await step(reply)
    assert (proposal.answer, proposal.goal, proposal.finished) == (None, None, False)


async def test_a_step_with_a_call_that_cannot_be_made_is_asked_for_again_as_a_whole(step):
    proposal, meter, model = await step(calls(INVALID, ATTIC), calls(VALID, DESK))
    assert labels(proposal) == [["add(a=1, b=2)", 'look(place="desk")']]
    assert (proposal.problems, meter.model_calls) == ([], 2)
    [dropped] = proposal.dropped
    assert dropped.startswith('add(a=1, b="two"): b: ')
    again = model.calls[1]
    assert again[1:] == CONVERSATION[1:]
    assert again[0].text.startswith(model.calls[0][0].text)
    assert 'add(a=1, b="two"): b: ' in again[0].text


@pytest.mark.parametrize(
    "second",
    [calls(INVALID), calls(INVALID, broken=[("look", "{")]), "I cannot.", ConnectionError("gone")],
    ids=["invalid", "broken", "no call", "down"],
)
async def test_the_other_calls_are_made_if_one_stays_invalid(step, second):
    proposal, meter, _ = await step(calls(ATTIC, INVALID), second)
    assert labels(proposal) == [['look(place="attic")']]
    assert [problem.tool for problem in proposal.problems] == ["add"]
    assert (proposal.finished, proposal.error, meter.model_calls) == (False, None, 2)


async def test_only_what_is_still_invalid_in_the_second_reply_is_dropped(step):
    proposal, _, _ = await step(calls(ATTIC, INVALID), calls(DESK, ("fly", {"to": "Rome"})))
    assert labels(proposal) == [['look(place="desk")']]
    [problem] = proposal.problems
    assert [each.partition("(")[0] for each in proposal.dropped] == ["add", "fly"]
    assert str(problem) == "fly({'to': 'Rome'}): there is no tool of this name; the tools are add, look, send"


async def test_a_step_that_stays_invalid_offers_nothing_and_is_no_stop(step):
    proposal, _, _ = await step(calls(INVALID), calls(broken=[("add", "{")]))
    assert (proposal.actions, proposal.finished, proposal.answer) == ([], False, None)
    assert [str(problem) for problem in proposal.problems] == ["add({): the arguments are not valid JSON"]


async def test_a_model_that_answers_instead_of_correcting_its_only_call_has_answered(step):
    proposal, _, _ = await step(calls(INVALID), "Two of what?\nMissing: the second number")
    assert (proposal.finished, proposal.answer.text, proposal.problems) == (True, "Two of what?", [])
    assert proposal.missing == ("the second number",)


async def test_without_budget_nothing_is_asked_again(step):
    proposal, meter, _ = await step(calls(ATTIC, INVALID), calls(VALID), allowance=1)
    assert labels(proposal) == [['look(place="attic")']]
    assert (len(proposal.problems), meter.model_calls) == (1, 1)


async def test_a_model_that_cannot_be_reached_is_asked_once_more(step):
    proposal, meter, _ = await step(ConnectionError("busy"), calls(ATTIC))
    assert (labels(proposal), proposal.error, meter.model_calls) == ([['look(place="attic")']], None, 2)
    down, _, _ = await step(ConnectionError("busy"), ConnectionError("gone"))
    assert (down.error, down.finished, down.answer) == ("the model failed: ConnectionError: gone", False, None)


async def test_each_call_of_a_batch_keeps_the_reasoning_before_it(step):
    thinking = {"type": "thinking", "thinking": "attic?", "signature": "c2ln"}
    uses = [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": args} for n, (name, args) in enumerate((MAIL, ATTIC))
    ]
    reply = calls(MAIL, ATTIC).model_copy(update={"content": [thinking, *uses]})
    proposal, _, _ = await step(reply)
    looked, sent = (call.signed_reasoning for call in proposal.calls)
    assert (looked.reasoning, looked.block) == ((thinking,), uses[1])
    assert (sent.reasoning, sent.block) == ((thinking,), uses[0])
