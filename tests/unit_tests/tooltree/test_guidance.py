"""Past runs in a search: what was tried in vain is not proposed for ever, and trouble is helped with once."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, SearchConfig, ToolTreeNode, Trajectory, search
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.experience import MARK, NextTools, as_reference, call_key
from tests.internals.tooltree import REFUSED_ENOUGH, Planner, Turn, searched

QUESTION = "Where is the key?"
ANSWER = 'On the shelf. {"missing": "nothing"}'
WAY_OUT = {
    "key_information": {"objective": "The key.", "initial_environment": "A house.", "progress": "None."},
    "questions": [],
    "next_step": "Look at the shelf.",
}
EFFECTS = {"look": "read"}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return "A key." if place == "shelf" else f"Error: there is no {place}."


def looking(*places):
    return AIMessage("", tool_calls=[{"name": "look", "args": {"place": place}, "id": place} for place in places])


def offering(*places):
    """Candidates, each with a confidence, and how things stand."""
    calls = [{"name": "look", "args": {"place": place, "confidence": 0.9}, "id": place} for place in places]
    return AIMessage("", tool_calls=calls)


def last_of(prompt):
    return str(prompt[-1].content)


class Told:
    """A guide that says what it was made with, and keeps what it is told."""

    advice = ""

    def __init__(self, known=None, *, remedy=""):
        self.known, self.help = known, remedy
        self.attempts, self.asked = [], []

    def next_tools(self, dialogue, allowed):
        return self.known
        yield

    def remedy(self, said, tools, meter):
        if not said.observations[-1].text.startswith("Error"):
            return ""
        self.asked.append((said.observations[-1].text, [each.name for each in tools], meter.left))
        return self.help
        yield

    def failed(self, attempts):
        self.attempts += attempts
        return
        yield


async def found_with(drive, guide, *replies, messages=QUESTION, **options):
    model = ScriptedChatModel(replies=list(replies))
    planner = Planner(model, [look], effects=EFFECTS, **options)
    messages = [HumanMessage(messages)] if isinstance(messages, str) else messages
    return await drive(searched(Turn(planner=planner, messages=messages, guide=guide))), model


REMEDY = as_reference("Look at the shelf.", source="review")


async def test_trouble_on_the_way_is_helped_with_once_and_the_next_question_holds_the_help(drive):
    guide = Told(remedy=REMEDY)

    result, model = await found_with(drive, guide, looking("desk"), looking("attic"), looking("shelf"), ANSWER)

    assert guide.asked == [("Error: there is no desk.", ["look"], 1)]
    helped = [REMEDY in last_of(prompt) for prompt in model.calls]
    assert helped == [False, True, False, False]
    assert [call.arguments["place"] for call in result.calls] == ["desk", "attic", "shelf"]
    assert not any(MARK in str(message.content) for message in result.messages)
    run = Trajectory.from_messages([HumanMessage(QUESTION), *result.messages])
    assert run.metadata["advised"] == [{"at": 3, "text": "Look at the shelf."}]
    assert "Look at" not in repr(run.messages)


async def test_how_past_runs_went_on_is_noted_beside_each_step_and_rare_ways_are_not(drive):
    known = NextTools(shares={"look": 0.8, "ask": 0.04}, runs={"look": 4, "ask": 1}, other=0.16)

    result, _ = await found_with(drive, Told(known), looking("shelf"), ANSWER)

    noted = [message.response_metadata["tooltree"]["suggested"] for message in (result.messages[0], result.answer)]
    assert noted == [[{"tool": "look", "share": 0.8, "runs": 4}]] * 2


async def test_the_help_stands_where_other_calls_are_asked_for_and_not_behind_those_it_advised(drive):
    guide, left = Told(remedy=REMEDY), 'There is none. {"missing": "the key"}'
    config = SearchConfig(max_proposals=2, effort="thorough")

    result, model = await found_with(
        drive, guide, looking("desk"), left, left, offering("shelf"), ANSWER, config=config
    )

    helped = [(len(prompt), REMEDY in last_of(prompt)) for prompt in model.calls]
    assert helped == [(2, False), (4, True), (4, True), (2, True), (4, False)]
    assert [call.arguments["place"] for call in result.calls] == ["shelf"]


async def test_trouble_before_the_search_is_helped_with_at_once(drive):
    guide = Told(remedy=REMEDY)
    before = [HumanMessage(QUESTION), looking("desk"), ToolMessage("Error: no desk.", tool_call_id="desk")]

    _, model = await found_with(drive, guide, looking("shelf"), ANSWER, messages=before)

    assert [REMEDY in last_of(prompt) for prompt in model.calls] == [True, False]


@pytest.mark.parametrize("reviewed", [{"reflected": True}, None])
async def test_trouble_that_was_helped_with_before_is_not_asked_about_again(drive, reviewed):
    guide = Told(remedy=REMEDY)
    told = {"tooltree": {"search": "1", "node": 1, "calls": {"own_step": 1, "reflect": 1}}}
    call = looking("desk") if reviewed else looking("desk").model_copy(update={"response_metadata": told})
    mark = {"tooltree": reviewed} if reviewed else {}
    before = [call, ToolMessage("Error: no desk.", tool_call_id="desk", response_metadata=mark)]

    await found_with(drive, guide, looking("shelf"), ANSWER, messages=[HumanMessage(QUESTION), *before])

    assert guide.asked == []


async def test_where_all_is_well_nobody_is_asked_and_the_help_is_there_for_later_trouble(drive):
    guide = Told(remedy=REMEDY)

    await found_with(drive, guide, looking("shelf"), looking("desk"), ANSWER)

    assert [text for text, *_ in guide.asked] == ["Error: there is no desk."]


async def test_help_that_says_nothing_is_not_asked_for_again(drive):
    guide = Told()
    reply = {"reflect": 1}

    def silent(said, tools, meter):
        if said.observations[-1].text.startswith("Error"):
            guide.asked.append(said.observations[-1].text)
            meter.calls.update(reply)
        return ""
        yield

    guide.remedy = silent
    result, _ = await found_with(drive, guide, looking("desk"), looking("attic"), looking("shelf"), ANSWER)

    assert guide.asked == ["Error: there is no desk."]
    assert result.cost.calls == {"own_step": 4, "reflect": 1}


async def test_with_one_call_left_the_question_itself_is_asked(drive):
    guide = Told(remedy=REMEDY)

    await found_with(drive, guide, looking("desk"), ANSWER, config=SearchConfig(max_model_calls=3))

    assert guide.asked == []


def vain(tried=REFUSED_ENOUGH, runs=REFUSED_ENOUGH, place="desk"):
    return NextTools(refused={call_key("look", {"place": place}): (tried, runs)}, text="look: refused")


async def test_an_own_step_that_past_runs_tried_in_vain_is_asked_for_again_with_that_said(drive):
    result, model = await found_with(drive, Told(vain()), looking("desk"), looking("shelf"), ANSWER)

    assert [call.arguments["place"] for call in result.calls] == ["shelf"]
    assert "desk" not in str(model.calls[0])
    assert f'look(place="desk") was refused in all {REFUSED_ENOUGH} past runs' in last_of(model.calls[1])
    assert MARK in last_of(model.calls[1])


async def test_an_agent_that_was_told_and_insists_makes_the_call(drive):
    result, model = await found_with(drive, Told(vain()), looking("desk"), looking("desk"), looking("shelf"), ANSWER)

    assert [call.arguments["place"] for call in result.calls] == ["desk", "shelf"]
    assert len(model.calls) == 4


async def test_an_answer_that_only_names_such_a_call_is_not_asked_for_again(drive):
    named = (
        'On the shelf. {"calls_maybe_needed": [{"tool": "look", "arguments": {"place": "desk"}, "confidence": 0.3}]}'
    )
    result, model = await found_with(drive, Told(vain()), named, *["Nothing."] * 5)

    assert not any("was refused in all" in last_of(prompt) for prompt in model.calls)
    assert "was refused in all" in result.tree.root.dropped[0]
    assert not result.tree.root.children


@pytest.mark.parametrize(("more", "fewer"), [(-1, 1), (1, 0)])
async def test_a_call_that_few_runs_tried_or_that_worked_once_is_made_like_any_other(drive, more, fewer):
    known = vain(REFUSED_ENOUGH + more, REFUSED_ENOUGH - fewer)
    result, model = await found_with(drive, Told(known), looking("desk"), looking("shelf"), ANSWER)

    assert [call.arguments["place"] for call in result.calls] == ["desk", "shelf"]
    assert len(model.calls) == 3


async def test_among_candidates_it_is_dropped_with_its_reason(drive):
    result, _ = await found_with(
        drive,
        Told(vain()),
        offering("desk", "shelf"),
        offering("shelf"),
        ANSWER,
        ANSWER,
        ANSWER,
        config=SearchConfig(proposals="together", max_model_calls=6),
    )

    root = result.tree[0]
    assert [result.tree[child].call.arguments["place"] for child in root.children] == ["shelf"]
    assert root.dropped == [
        f'look(place="desk"): was refused in all {REFUSED_ENOUGH} past runs that tried it at this point'
    ]


def refusing(experience, times):
    """So many runs of an agent that looks at the desk first, and then gives up."""
    for _ in range(times):
        model = ScriptedChatModel(replies=[looking("desk"), 'There is none. {"missing": "nothing"}'])
        search(QUESTION, [look], model=model, effects=EFFECTS, experience=experience)


def test_the_same_refused_call_is_not_proposed_for_ever_across_runs():
    experience = Experience(InMemoryStore(), verdict=lambda _: False, namespace=("all",))
    refusing(experience, REFUSED_ENOUGH)

    model = ScriptedChatModel(replies=[looking("desk"), looking("shelf"), ANSWER])
    result = search(QUESTION, [look], model=model, effects=EFFECTS, experience=experience)

    assert [call.arguments["place"] for call in result.calls] == ["shelf"]
    assert f"look: called here {REFUSED_ENOUGH} times, refused {REFUSED_ENOUGH}" in last_of(model.calls[0])
    one = next(run.id for run in experience.store.trajectories() if run.steps[0].arguments == {"place": "desk"})
    experience.store.delete(one)
    model = ScriptedChatModel(replies=[looking("desk"), looking("shelf"), ANSWER])
    result = search(QUESTION, [look], model=model, effects=EFFECTS, experience=experience)
    assert [call.arguments["place"] for call in result.calls] == ["desk", "shelf"]


class PowerCut(BaseException):
    """Ends a run as a kill does, past every handler."""


async def test_help_that_was_kept_is_not_asked_for_again_after_a_kill(path):
    def cut(_):
        raise PowerCut

    helper = ScriptedChatModel(replies=[WAY_OUT])
    saver, store = InMemorySaver(), InMemoryStore()
    thread = {"configurable": {"thread_id": "1"}}

    def graph(model):
        experience = Experience(store, model=helper, namespace=("all",))
        state = StateGraph(MessagesState)
        state.add_node("model", ToolTreeNode(model, [look], effects=EFFECTS, experience=experience))
        return state.add_edge(START, "model").compile(checkpointer=saver)

    cut_short = graph(ScriptedChatModel(replies=[looking("desk"), looking("shelf"), cut]))
    with pytest.raises(PowerCut):
        cut_short.invoke({"messages": [("user", QUESTION)]}, thread)
    rest = graph(ScriptedChatModel(replies=[ANSWER]))
    out = await rest.ainvoke(None, thread) if path == "async" else rest.invoke(None, thread)

    assert len(helper.calls) == 1
    assert out["messages"][-1].response_metadata["tooltree"]["calls"] == {"own_step": 3, "reflect": 1}
    assert [message.content for message in out["messages"] if isinstance(message, ToolMessage)] == [
        "Error: there is no desk.",
        "A key.",
    ]


async def test_without_a_guide_nobody_is_asked_and_nothing_is_kept(drive):
    result, model = await found_with(drive, None, looking("desk"), looking("shelf"), ANSWER)

    assert result.cost.calls == {"own_step": 3}
    assert not any(MARK in str(prompt) for prompt in model.calls)
