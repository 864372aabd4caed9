"""One question that brings candidates, their scores, and how things stand."""

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import Field

from langchain_tooltree import Prompts, SearchConfig, ToolCard, ToolLibrary
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import Meter
from tests.internals.tooltree import SAID_DONE, SAID_OPEN, ProposalRequest, Proposer, effects_as


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def look(place: str) -> str:
    """Look."""
    return place


@tool
def vote(confidence: float) -> str:
    """Vote."""
    return str(confidence)


def calls(*written):
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(written)]
    )


class Bound(ScriptedChatModel):
    """Keeps what is bound to it."""

    bindings: list = Field(default_factory=list)

    def bind_tools(self, tools, **settings):
        self.bindings.append(list(tools))
        return super().bind_tools(tools, **settings)


class RefusedError(Exception):
    """The model's server would not take the request."""

    def __init__(self, status):
        super().__init__(f"HTTP {status}")
        self.response = httpx.Response(status)


REQUEST = [HumanMessage("Find it.")]
OBSERVED = [
    *REQUEST,
    AIMessage("", tool_calls=[{"name": "look", "args": {"place": "attic"}, "id": "o1"}]),
    ToolMessage("dust", tool_call_id="o1", name="look"),
]
DESK = ("look", {"place": "desk", "confidence": 0.8})
SHED = ("look", {"place": "shed", "confidence": 0.4})


def assess(result, *missing, fulfilled=False):
    return "assess", {"last_result": result, "missing": list(missing), "fulfilled": fulfilled}


@pytest.fixture
def ask(drive):
    """Asks a scripted model for scored candidates; returns the proposal, the meter and the model."""

    async def run(*replies, allowance=9, conversation=OBSERVED, settings=None, model=None, **asked):
        model = model or Bound(replies=replies)
        library = ToolLibrary([add, look, vote])
        config = SearchConfig(proposals="own_step", pre_evaluation="fused", top_k=3)
        proposer = Proposer(model, library, effects_as(dict.fromkeys(library.names, "read")), config, settings)
        meter = Meter(allowance)
        request = ProposalRequest(conversation, library.names, **asked)
        return await drive(proposer.propose(request, meter)), meter, model

    return run


def labels(proposal):
    return [call.label for (call,) in proposal.actions]


async def test_one_reply_brings_calls_their_scores_and_how_things_stand(ask):
    proposal, meter, model = await ask(calls(DESK, SHED, assess(0.3, "the place of the key")))
    assert labels(proposal) == ['look(place="desk")', 'look(place="shed")']
    assert proposal.confidences == [0.8, 0.4]
    assert (proposal.reward, proposal.goal, proposal.missing) == (0.3, SAID_OPEN, ("the place of the key",))
    assert (proposal.finished, proposal.answer, proposal.problems, meter.model_calls) == (False, None, [], 1)
    system = model.calls[0][0].text
    assert "Offer up to 3 different" in system
    assert "`confidence`" in system
    assert "`assess`" in system


async def test_a_reply_that_only_says_that_all_is_done_finishes_the_state(ask):
    proposal, meter, _ = await ask(calls(assess(0.9, fulfilled=True)))
    assert (proposal.finished, proposal.reward, proposal.goal, meter.model_calls) == (True, 0.9, SAID_DONE, 1)
    told, _, _ = await ask("All is done.")
    assert (told.finished, told.reward, told.goal) == (True, None, None)


async def test_a_reply_that_says_done_may_still_name_calls(ask):
    proposal, _, _ = await ask(calls(SHED, assess(0.9, fulfilled=True)))
    assert (labels(proposal), proposal.goal, proposal.finished) == (['look(place="shed")'], SAID_DONE, False)


async def test_a_tool_with_such_an_argument_has_no_score(ask):
    proposal, _, model = await ask(calls(("vote", {"confidence": 0.7}), DESK))
    assert [call.arguments for call in proposal.calls] == [{"confidence": 0.7}, {"place": "desk"}]
    assert proposal.confidences == [None, 0.8]
    assert model.bindings[0][2] is vote


async def test_without_any_confidence_none_is_told(ask):
    proposal, meter, _ = await ask(
        calls(("look", {"place": "desk"}), ("look", {"place": "shed", "confidence": "high"}))
    )
    assert (len(proposal.actions), proposal.confidences, meter.model_calls) == (2, [None, None], 1)


async def test_what_was_tried_and_is_missing_is_named_where_there_is_something(ask):
    _, _, model = await ask("No.", attempt=2, tried=["look()"], missing=["the key", "the door"])
    system = model.calls[0][0].text
    assert "calls that stand together:\n- look()" in system
    assert "- the key\n- the door" in system
    _, _, bare = await ask("No.", attempt=2)
    assert "- " not in bare.calls[0][0].text
    assert "not done yet" not in bare.calls[0][0].text


async def test_before_any_result_none_is_asked_about(ask):
    _, _, model = await ask(calls(DESK), conversation=REQUEST)
    assert "last_result" not in str(model.bindings[0][-1])
    _, _, later = await ask(calls(DESK))
    assert "last_result" in str(later.bindings[0][-1])


async def test_invalid_candidates_are_repaired_with_their_scores(ask):
    wrong = ("add", {"a": 1, "b": "two", "confidence": 0.9})
    proposal, meter, model = await ask(
        calls(DESK, wrong, assess(0.3, "it")), calls(("add", {"a": 1, "b": 2, "confidence": 0.6}))
    )
    assert labels(proposal) == ['look(place="desk")', "add(a=1, b=2)"]
    assert (proposal.confidences, proposal.missing, meter.model_calls) == ([0.8, 0.6], ("it",), 2)
    assert 'add(a=1, b="two"): b: ' in model.calls[1][0].text


async def test_a_model_that_makes_one_call_is_asked_again_without_the_assessment(ask):
    proposal, meter, model = await ask(calls(assess(0.3, "it")), calls(DESK))
    assert (labels(proposal), proposal.confidences) == (['look(place="desk")'], [0.8])
    assert (proposal.reward, proposal.goal, proposal.missing) == (0.3, SAID_OPEN, ("it",))
    assert meter.model_calls == 2
    assert "assess" not in str(model.bindings[1])
    assert "assess" not in model.calls[1][0].text
    bounded, once, _ = await ask(calls(assess(0.3, "it")), calls(DESK), allowance=1)
    assert (bounded.finished, once.model_calls) == (True, 1)


async def test_an_agent_whose_calls_come_one_by_one_gets_no_second_tool(ask):
    proposal, _, model = await ask(calls(DESK), settings={"parallel_tool_calls": False})
    assert proposal.confidences == [0.8]
    assert "assess" not in str(model.bindings[0])


@pytest.mark.parametrize("status", [400, 422])
async def test_what_a_provider_refuses_is_asked_without_scores_from_then_on(ask, status):
    plain = calls(("look", {"place": "desk"}))
    model = Bound(replies=[RefusedError(status), plain, plain])
    proposal, meter, _ = await ask(model=model)
    assert (labels(proposal), proposal.confidences, proposal.error) == (['look(place="desk")'], [None], None)
    assert meter.model_calls == 1
    again, _, _ = await ask(model=model)
    assert labels(again) == ['look(place="desk")']
    scored, *plainly = model.bindings
    assert len(scored) == 4
    assert plainly == [[add, look, vote]] * 2
    assert "confidence" not in model.calls[-1][0].text


async def test_a_client_that_takes_no_other_tools_than_the_agents_is_asked_without_scores(ask):
    class Narrow(Bound):
        def bind_tools(self, tools, **settings):
            return super().bind_tools([add, look, vote] if [tool.name for tool in tools] else [], **settings)

    proposal, meter, model = await ask(model=Narrow(replies=[calls(("look", {"place": "desk"}))]))
    assert (labels(proposal), proposal.confidences, proposal.error) == (['look(place="desk")'], [None], None)
    assert (len(model.calls), meter.model_calls) == (1, 1)


async def test_a_request_that_is_refused_in_any_form_says_nothing_about_the_model(ask):
    model = Bound(replies=[RefusedError(400), RefusedError(400), calls(DESK)])
    proposal, meter, _ = await ask(model=model)
    assert proposal.error == "the model failed: RefusedError: HTTP 400"
    assert (proposal.finished, meter.model_calls) == (False, 0)
    again, _, _ = await ask(model=model)
    assert again.confidences == [0.8]


@pytest.mark.parametrize("failure", [ConnectionError("busy"), RefusedError(500)])
async def test_a_failure_that_is_no_refusal_is_tried_again_in_the_same_form(ask, failure):
    proposal, meter, _ = await ask(failure, calls(DESK))
    assert (proposal.confidences, meter.model_calls) == ([0.8], 2)


async def test_the_frame_of_a_call_has_no_confidence(ask):
    thinking = {"type": "thinking", "thinking": "desk?", "signature": "c2ln"}
    block = {"type": "tool_use", "id": "c0", "name": "look", "input": DESK[1]}
    judged = {"type": "tool_use", "id": "c1", "name": "assess", "input": {}}
    reply = calls(DESK, assess(0.3)).model_copy(update={"content": [thinking, block, judged]})
    proposal, _, _ = await ask(reply)
    [call] = proposal.calls
    assert call.signed_reasoning.block == {**block, "input": {"place": "desk"}}
    assert call.signed_reasoning.reasoning == (thinking,)


async def test_what_cards_say_beyond_the_tools_is_told_with_a_question_for_candidates_only(drive):
    card = ToolCard("look", "Look.", domains=("house",), examples=("look(place='attic')",))
    library = ToolLibrary([add, look], [card])
    model = Bound(replies=[calls(DESK), "At home.", calls(DESK)])
    told = Prompts(cards="Cards:\n{cards}", candidates="Up to {count}.")
    effects = effects_as(dict.fromkeys(library.names, "read"))
    proposer = Proposer(model, library, effects, SearchConfig(), prompts=told)
    for own_step, shown in ((False, library.names), (True, library.names), (False, ["add"])):
        await drive(proposer.propose(ProposalRequest(OBSERVED, shown, own_step=own_step), Meter(1)))
    candidates, own, others = (prompt[0].text for prompt in model.calls)
    assert candidates.startswith("Up to 5.")
    assert 'Cards:\n- look: {"domains":["house"],"examples":["look(place=\'attic\')"]}' in candidates
    assert "Cards:" not in own
    assert "Cards:" not in others
