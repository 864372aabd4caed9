"""What past runs say while a search goes on: to whom it is said, where, and what the search takes in of it."""

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tooltree import SearchConfig, ToolTreeNode, search_result
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.experience import NextTools, as_reference
from tests.internals.tooltree import (
    MANY_QUESTIONS,
    OWN_STEP,
    Planner,
    Prior,
    SearchSession,
    Turn,
    searched,
    with_reference,
)

ADVICE = as_reference("Ask for the size first.", source="experience")
HINT = "Past runs went on with measure."


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"a shelf at {place}"


@tool
def measure(thing: str) -> str:
    """Measure a thing."""
    return f"{thing} is 80 cm wide"


TOOLS = [look, measure]
READS = {"look": "read", "measure": "read"}


@dataclass
class Memory:
    """A guide that always says the same, and keeps what it was asked."""

    said: NextTools | None
    advice: str = ADVICE
    asked: list = field(default_factory=list)

    def next_tools(self, dialogue, allowed):
        yield from ()
        self.asked.append(([(message["role"], message.get("content")) for message in dialogue], sorted(allowed)))
        return self.said

    def remedy(self, said, tools, meter):
        yield from ()
        return ""

    def failed(self, attempts):
        yield from ()


def says(**shares):
    other = 1 - sum(shares.values()) - 0.1
    return NextTools(shares, dict.fromkeys(shares, 20), done=0.1, other=other, ended=3, text=HINT)


def calls(*names):
    made = [{"name": name, "args": {"place": "desk"}, "id": f"{name}_1"} for name in names]
    return AIMessage("", tool_calls=made)


DONE = 'It is on the shelf. {"missing": "nothing"}'


@pytest.fixture
def plan(drive):
    """Searches with a guide: the result, and the model."""

    async def run(replies, guide, *, config=None, judge=None, system=()):
        model = ScriptedChatModel(replies=replies)
        planner = Planner(model, TOOLS, effects=READS, config=config, judge=judge)
        turn = Turn(planner=planner, messages=[HumanMessage("Where is it?")], system=system, guide=guide)
        return await drive(searched(turn)), model

    return run


def told(model):
    """What each question holds: the text of its instructions, and of its last message."""
    return [(str(messages[0].content), str(messages[-1].content)) for messages in model.calls]


async def test_the_hint_ends_the_last_message_of_each_question_and_the_advice_its_instructions(plan):
    result, model = await plan([calls("look"), DONE], Memory(says(look=0.6)), system=[SystemMessage("Be brief.")])
    assert [(step.call.tool, step.observation.content) for step in result.steps] == [("look", "a shelf at desk")]
    first, second = told(model)
    marked = as_reference(HINT, source="past runs")
    assert (first[1], second[1]) == (f"Where is it?\n\n{marked}", f"a shelf at desk\n\n{marked}")
    assert first[0] == second[0], "the instructions stay what they are, so that prompt caches hold"
    assert first[0].startswith("Be brief.")
    assert first[0].endswith(ADVICE)
    assert "past runs" not in str([message.content for message in result.messages])


async def test_past_runs_are_asked_about_the_dialogue_of_each_state(plan):
    memory = Memory(says(look=0.6))
    await plan([calls("look"), DONE], memory, system=[SystemMessage("Be brief.")])
    (first, _), (second, tools) = memory.asked
    assert first == [("user", "Where is it?")]
    assert [role for role, _ in second] == ["user", "assistant", "tool"]
    assert second[-1] == ("tool", "a shelf at desk")
    assert tools == ["look", "measure"]


async def test_candidates_and_repairs_are_asked_with_it_too(plan):
    wrong = AIMessage("", tool_calls=[{"name": "look", "args": {"where": 1}, "id": "1"}])
    replies = [wrong, calls("look"), 'No idea. {"missing": "the width"}', *["Nothing."] * 12]
    _, model = await plan(replies, Memory(says(look=0.6)), config=SearchConfig(**OWN_STEP))
    questions = [pair for pair in told(model) if "You check" not in pair[0]]
    assert len(questions) > 3
    assert all(HINT in last and ADVICE in instructions for instructions, last in questions)
    assert any("confidence" in instructions for instructions, _ in questions), "candidates were asked for"


@pytest.mark.parametrize("config", [SearchConfig(**MANY_QUESTIONS), SearchConfig(**OWN_STEP)], ids=["judge", "check"])
async def test_neither_the_judge_nor_the_check_is_told(plan, config):
    judge = ScriptedChatModel(replies=[{"fulfilled": False, "missing": ["the width"], "scores": [], "goal": 0.5}] * 40)
    result, _ = await plan([calls("look"), "On the shelf.", *["Nothing."] * 30], Memory(says(measure=0.6)), judge=judge)
    assert result.cost.model_calls > 2
    assert judge.calls
    assert not any(HINT in str(messages) or "size first" in str(messages) for messages in judge.calls)


async def test_the_search_takes_in_plain_numbers(plan):
    result, _ = await plan([calls("look"), DONE], Memory(says(measure=0.6)))
    prior = result.tree.root.prior
    assert prior.shares == pytest.approx({"measure": 0.6, "look": 0.3}), "of the tools called, and of others"
    assert (prior.runs, prior.done, prior.known, prior.tools) == ({"measure": 20}, 0.1, 23, 2)


@pytest.mark.parametrize("guide", [None, Memory(None, advice=""), Memory(NextTools(), advice="")])
async def test_who_knows_nothing_changes_nothing(plan, guide):
    result, model = await plan([calls("look"), DONE], guide)
    plain, alone = await plan([calls("look"), DONE], None)
    assert result.to_dict() == plain.to_dict()
    assert [[message.content for message in asked] for asked in model.calls] == [
        [message.content for message in asked] for asked in alone.calls
    ]


async def test_under_eq_1_past_runs_are_not_asked(plan):
    memory = Memory(says(look=0.6))
    await plan(
        [calls("look"), *["Nothing."] * 20], memory, config=SearchConfig.paper(max_rollouts=2), judge=lambda _: 0.5
    )
    assert memory.asked == []


def test_the_hint_stands_in_no_message_of_the_agents_own():
    asked = [SystemMessage("Be brief."), HumanMessage("Go."), AIMessage("Going.")]
    *before, last = with_reference(asked, advice="", hint="a hint")
    assert (before, last.type, last.content) == (asked, "human", "a hint")
    blocks = ToolMessage([{"type": "text", "text": "seen"}], tool_call_id="1")
    assert with_reference([blocks], advice="", hint="a hint")[-1].content[1:] == [
        {"type": "text", "text": "\n\na hint"}
    ]
    assert with_reference(asked, advice="", hint="") is asked


# --- what other nodes have left in the state ---


def suggestion(name, share, support=7):
    return {"tool": name, "score": share, "mode": "contextual", "support": support, "evidence": []}


SUGGESTED = [suggestion("measure", 0.7), suggestion("dismissed", 0.2), suggestion("look", 0.1, 2)]
STATE = {"messages": [HumanMessage("Where is it?")]}


@pytest.fixture
def visit(either):
    """Lets a node plan in a state: its messages, and the model."""

    async def run(state, **options):
        model = ScriptedChatModel(replies=[calls("look"), DONE])
        node = ToolTreeNode(model, TOOLS, **{"effects": READS, **options})
        return (await either(node.invoke, node.ainvoke)(state))["messages"], model

    return run


async def test_a_node_reads_what_others_have_left_in_the_state(visit):
    messages, model = await visit({**STATE, "suggestions": SUGGESTED, "recalled": ADVICE})
    first, second = told(model)
    assert "measure 70% (7 runs), look 10% (2 runs); something else 20%." in first[1]
    assert "dismissed" not in first[1], "it has no such tool"
    assert second[1] == "a shelf at desk", "by then the suggestions are out of date"
    assert first[0].endswith(ADVICE)
    assert second[0].endswith(ADVICE)
    prior = search_result(messages[-1]).tree.root.prior
    assert prior.shares == pytest.approx({"measure": 0.7, "look": 0.1})
    assert prior.runs == {"measure": 7, "look": 2}


@pytest.mark.parametrize(
    "left",
    [
        {},
        {"suggestions": [], "recalled": ""},
        {"suggestions": ["measure"], "recalled": "a note of the user's own"},
        {"suggestions": None, "recalled": None},
        {"suggestions": [{"tool": "measure"}]},
        {"hints": SUGGESTED, "notes": ADVICE},
    ],
)
async def test_what_is_not_theirs_changes_nothing(visit, left):
    _, model = await visit({**STATE, **left})
    _, alone = await visit(STATE)
    assert told(model) == told(alone)


async def test_suggestions_of_what_past_runs_seldom_did_are_not_told_and_are_weighed_all_the_same(visit):
    messages, model = await visit({**STATE, "suggestions": [suggestion("measure", 0.3), suggestion("look", 0.1)]})
    assert told(model)[0][1] == "Where is it?"
    assert search_result(messages[-1]).tree.root.prior.shares == pytest.approx({"measure": 0.3, "look": 0.1})


@pytest.mark.parametrize(("share", "runs"), [(float("inf"), 7), (float("nan"), 7), (0.7, -2), (-0.7, 7)])
async def test_numbers_that_are_no_shares_do_no_harm(visit, share, runs):
    messages, model = await visit({**STATE, "suggestions": [suggestion("measure", share, runs)]})
    assert told(model)[0][1] == "Where is it?"
    assert [message.name for message in messages if message.type == "tool"] == ["look"]


@pytest.mark.parametrize(("runs", "is_told"), [(1, False), (2, True)])
async def test_neither_a_write_of_a_single_run_nor_what_hardly_any_run_did_is_told(visit, runs, is_told):
    left = [suggestion("measure", 0.7, runs), suggestion("look", 0.02)]
    _, model = await visit({**STATE, "suggestions": left}, effects={"look": "read"})
    assert ("measure 70%" in told(model)[0][1]) is is_told
    assert "look" not in told(model)[0][1]


async def test_the_keys_may_be_others(visit):
    _, model = await visit(
        {**STATE, "hints": SUGGESTED, "notes": ADVICE}, suggestions_key="hints", recalled_key="notes"
    )
    assert "measure 70%" in told(model)[0][1]
    assert told(model)[0][0].endswith(ADVICE)


# --- resume ---


class Learnt:
    """What an agent has been through, as one guide sees it."""

    def __init__(self, mind):
        self._mind = mind

    def begun(self, said, known=None):
        yield from ()
        return {"namespace": {}, "first": said.task, "request": None, "runs": [], "tips": []}

    def guide(self, *_):
        yield from ()
        return self._mind

    def ended(self, messages, remembered, **_):
        yield from ()


class Killed(BaseException):
    """As a kill does, it ends everything."""


def kill(_):
    raise Killed


def measuring(**more):
    return AIMessage("", tool_calls=[{"name": "measure", "args": {"thing": "shelf", **more}, "id": "measure_1"}])


GIVES_UP = 'No idea. {"missing": "the width"}'
BEFORE, AFTER = says(look=0.5), says(measure=0.8)


def plans_on(replies, given, saver, mind):
    """Runs a graph with a planner, to its end or to the kill: its messages, and the model."""
    model = ScriptedChatModel(replies=replies)
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, TOOLS, effects=READS, experience=Learnt(mind)))
    graph.add_edge(START, "model")
    with suppress(Killed):
        return graph.compile(checkpointer=saver).invoke(given, {"configurable": {"thread_id": "1"}})["messages"], model
    return None, model


def test_a_search_goes_on_from_a_kill_with_past_runs_that_say_something_else_by_then():
    """What was said before the kill stays, what comes after it is said anew, and nobody is asked twice."""
    saver, old, new = InMemorySaver(), Memory(BEFORE), Memory(AFTER, advice="")
    none, model = plans_on([calls("look"), GIVES_UP, kill], STATE, saver, old)
    assert (none, len(model.calls)) == (None, 3)
    messages, model = plans_on([measuring(confidence=0.9), DONE], None, saver, new)
    assert [message.name for message in messages if message.type == "tool"] == ["look", "measure"]
    assert len(model.calls) == 2
    assert not any(ADVICE in str(asked) for asked in model.calls)
    tree = search_result(messages[-1]).tree
    assert tree.root.prior == prior_of(BEFORE, {"look"})
    assert tree[1].prior == prior_of(AFTER, {"measure"}), "it was asked again"
    assert len(new.asked) == 2, "those replayed are not asked about"


def prior_of(said, called):
    return Prior.of(said, called=called, tools=len(TOOLS))


async def test_a_search_with_past_runs_replays_without_them(plan, drive):
    """The same outcomes give the same tree, whoever is there to be asked."""
    memory = Memory(says(measure=0.8))
    replies = [calls("look"), GIVES_UP, measuring(confidence=0.9), DONE]
    planner = Planner(ScriptedChatModel(replies=replies), TOOLS, effects=READS)
    turn = Turn(planner=planner, messages=STATE["messages"], guide=memory)
    first, kept = SearchSession(turn), []
    waiting, _ = first.advance(None, 99)
    while waiting:
        kept.append(await drive(first.perform(waiting.pop(0))))
        waiting += first.advance(kept[-1], 99)[0]
    again = SearchSession(replace(turn, guide=None))
    for outcome in (None, *kept):
        again.advance(json.loads(json.dumps(outcome)), 99)
    assert again.search.finished
    assert again.result().to_dict() == first.result().to_dict()
    assert [node.prior for node in again.search.tree.nodes] == [node.prior for node in first.search.tree.nodes]
    assert again.search.tree.root.prior is not None
