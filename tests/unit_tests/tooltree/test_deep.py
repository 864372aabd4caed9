"""Deep search on both paths: what runs, what waits, and that nothing a model, judge or tool does breaks it."""

import asyncio
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from cookbook.offline_model import OfflineChatModel
from langchain_tooltree import ConfigurationError, ObjectSandbox, SearchConfig
from langchain_tooltree.errors import EmptyQueryError
from langchain_tooltree.flows import arun_flow, run_flow
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.search.config import KernelConfig
from tests.internals.tooltree import deep_search

REQUEST = [HumanMessage("Send the letter that is in the drawer.")]
READS = {"look": "read"}
PLACES = {"desk": "a key", "drawer": "the letter"}
DEEP = SearchConfig(selection="posterior")


class LetterPolicy:
    """Knows that the key is on the desk and the letter in the drawer; the roof is a wrong idea."""

    def propose(self, question):
        places = [made.arguments.get("place") for made in question.path]
        if "drawer" in places:
            return [("send", {"what": "the letter"})]
        if "desk" in places:
            return [("look", {"place": "drawer"}), ("look", {"place": "roof"})]
        return [("look", {"place": "roof"}), ("look", {"place": "desk"})]

    def score_call(self, _, call):
        return 0.1 if call.arguments.get("place") == "roof" else 0.9

    def score_observation(self, _, call):
        return (0.1, 0.0) if call.observation == "nothing" else (0.9, 0.1)

    def missing(self, question):
        return (
            []
            if any(made.tool == "send" for made in question.path)
            else ["send the letter"]
        )

    def answer(self, _):
        return "Done."


@pytest.fixture
def looked():
    return []


@pytest.fixture
def tools(looked):
    @tool
    def look(place: str) -> str:
        """Look at a place."""
        looked.append(place)
        return PLACES.get(place, "nothing")

    @tool
    def send(what: str) -> str:
        """Send something."""
        pytest.fail(f"a search has sent {what}")

    return [look, send]


@pytest.fixture(params=["sync", "async"])
def run(request):
    """Runs a search on either path."""

    def perform(model, tools, messages=REQUEST, **options):
        flow = deep_search(model, tools, messages, **options)
        return (
            run_flow(flow) if request.param == "sync" else asyncio.run(arun_flow(flow))
        )

    return perform


def labels(result):
    return [step.call.label for step in result.steps]


PLAN = ['look(place="desk")', 'look(place="drawer")', 'send(what="the letter")']


@pytest.mark.parametrize(
    "config",
    [
        DEEP,
        SearchConfig(selection="smoothed", max_rollouts=8),
        KernelConfig(selection="smoothed", coarse_planner=True, proposals="per_tool"),
        SearchConfig.paper(max_rollouts=8),
    ],
    ids=["posterior", "smoothed", "drafts", "paper"],
)
def test_a_search_reads_and_leaves_the_write_to_the_agent(run, tools, looked, config):
    result = run(
        OfflineChatModel(policy=LetterPolicy()), tools, effects=READS, config=config
    )
    assert labels(result) == PLAN
    assert {"desk", "drawer"} <= set(looked)
    assert result.waiting[0].call.tool == "send"
    *_, seen, waiting = result.messages
    assert (seen.content, [call["name"] for call in waiting.tool_calls]) == (
        "the letter",
        ["send"],
    )
    assert waiting.response_metadata["tooltree"]["search"] == result.search_id


def test_both_paths_grow_the_same_tree_and_tell_the_same_events(tools):
    model, options = (
        OfflineChatModel(policy=LetterPolicy()),
        {"effects": READS, "config": DEEP},
    )
    events, aevents = [], []
    result = run_flow(
        deep_search(model, tools, REQUEST, **options, sinks=[events.append])
    )
    other = asyncio.run(
        arun_flow(deep_search(model, tools, REQUEST, **options, sinks=[aevents.append]))
    )
    assert result.to_dict() == other.to_dict()
    assert events == aevents
    assert (events[0]["type"], events[-1]["type"]) == ("start", "stop")


def test_eq_1_prunes_a_bad_candidate_before_it_runs_and_a_bad_result_after(
    run, tools, looked
):
    class Misled(LetterPolicy):
        def score_call(self, question, call):
            return (
                0.6
                if call.arguments.get("place") == "cellar"
                else super().score_call(question, call)
            )

        def propose(self, question):
            return [("look", {"place": "cellar"}), *super().propose(question)]

    config = KernelConfig(selection="smoothed", max_rollouts=8, value_threshold=1.0)
    result = run(OfflineChatModel(policy=Misled()), tools, effects=READS, config=config)
    pruned = {
        (node.call.arguments.get("place"), node.pruned)
        for node in result.tree.nodes
        if node.pruned
    }
    assert pruned == {("roof", "pre_evaluation"), ("cellar", "post_evaluation")}
    assert "roof" not in looked
    assert labels(result) == PLAN
    assert (result.cost.pruned_before > 0, result.cost.pruned_after > 0) == (True, True)


class Box:
    def __init__(self):
        self.things = []

    def put(self, thing: str) -> str:
        """Put a thing into the box."""
        self.things.append(thing)
        return f"In the box: {', '.join(self.things)}."

    def count(self) -> int:
        """Count the things in the box."""
        return len(self.things)


class BoxPolicy:
    def propose(self, question):
        made = [each.tool for each in question.path]
        if made.count("put") < 2:
            return [
                ("put", {"thing": "ab"[made.count("put")]}),
                ("put", {"thing": "z"}),
            ]
        return [] if "count" in made else [("count", {})]

    def score_call(self, _, call):
        return 0.1 if call.arguments.get("thing") == "z" else 0.9

    def score_observation(self, _, call):
        return 0.9, 0.95 if call.tool == "count" else 0.1

    def answer(self, _):
        return "Two."


def test_writes_of_a_sandbox_are_tried_in_forks_and_wait_in_the_world(run):
    box = Box()
    sandbox = ObjectSandbox.of_methods(box)
    model, request = (
        OfflineChatModel(policy=BoxPolicy()),
        [HumanMessage("Put a and b into the box and count.")],
    )
    result = run(
        model,
        sandbox.tools,
        request,
        effects={"count": "read"},
        config=DEEP,
        sandbox=sandbox,
    )
    assert labels(result) == ['put(thing="a")', 'put(thing="b")', "count()"]
    assert [step.observation.content for step in result.steps] == [
        "In the box: a.",
        "In the box: a, b.",
        "2",
    ]
    assert box.things == []
    [waiting] = result.messages
    assert waiting.tool_calls[0]["args"] == {"thing": "a"}
    assert [
        call.partition("(")[0] for call in waiting.response_metadata["tooltree"]["plan"]
    ] == ["put", "count"]


@pytest.mark.parametrize(
    "verdict", [RuntimeError("down"), "rubbish", [7.0, -1], None], ids=repr
)
def test_a_judge_that_fails_keeps_no_plan_and_raises_nothing(run, tools, verdict):
    def judge(_):
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    model = OfflineChatModel(policy=LetterPolicy())
    result = run(
        model,
        tools,
        effects=READS,
        config=SearchConfig(selection="smoothed"),
        judge=judge,
    )
    assert result.stop_reason == "judge_failed"
    assert (result.steps, "judge" in result.fallback) == ((), True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [
        AIMessage("", tool_calls=[{"name": "fly", "args": {}, "id": "1"}]),
        AIMessage("", tool_calls=[{"name": "look", "args": {"where": 3}, "id": "1"}]),
        AIMessage(
            "",
            invalid_tool_calls=[
                {"name": "look", "args": "{", "id": "1", "error": "bad"}
            ],
        ),
        AIMessage(
            "",
            tool_calls=[
                {"name": "assess", "args": {"fulfilled": "perhaps"}, "id": "1"}
            ],
        ),
        ValueError("the server is down"),
    ],
    ids=["no such tool", "wrong arguments", "no JSON", "no form", "failure"],
)
def test_a_model_that_answers_rubbish_ends_without_a_plan(run, tools, reply, looked):
    model = ScriptedChatModel(replies=[reply] * 50)
    result = run(
        model,
        tools,
        effects=READS,
        config=SearchConfig(selection="posterior", max_model_calls=9),
    )
    assert (result.steps, looked) == ((), [])
    assert result.cost.model_calls <= 9


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
@pytest.mark.parametrize("selection", ["posterior", "smoothed"])
def test_model_calls_are_never_more_than_allowed(run, tools, limit, selection):
    config = SearchConfig(selection=selection, max_model_calls=limit)
    result = run(
        OfflineChatModel(policy=LetterPolicy()), tools, effects=READS, config=config
    )
    assert result.cost.model_calls <= limit - 1, "one is kept back for the answer"


def test_what_tools_raise_are_observations(run):
    @tool
    def look(place: str) -> str:
        """Look at a place."""
        raise OSError(place)

    config = SearchConfig(selection="posterior", max_rollouts=2)
    result = run(
        OfflineChatModel(policy=LetterPolicy()), [look], effects=READS, config=config
    )
    assert {
        node.observation.kind for node in result.tree.nodes if node.observation
    } == {"exception"}


def test_when_the_time_is_up_nothing_new_is_launched(tools):
    model = ScriptedChatModel(replies=[lambda _: time.sleep(0.1) or "Nothing."] * 3)
    config = SearchConfig(selection="posterior", max_seconds=0.05)
    result = run_flow(deep_search(model, tools, REQUEST, effects=READS, config=config))
    assert (result.stop_reason, len(model.calls)) == ("max_seconds", 1)


def test_signed_reasoning_goes_back_with_its_call_alone(run, tools):
    thought = {"type": "thinking", "thinking": "The desk first.", "signature": "s1g"}
    calls = [
        {
            "name": "look",
            "args": {"place": place, "confidence": score},
            "id": f"toolu_{place}",
        }
        for place, score in (("desk", 0.9), ("roof", 0.1))
    ]
    blocks = [
        {"type": "tool_use", "name": c["name"], "input": c["args"], "id": c["id"]}
        for c in calls
    ]
    model = ScriptedChatModel(
        replies=[
            AIMessage([thought, *blocks], tool_calls=calls),
            *[AIMessage("Nothing more to do.")] * 20,
        ]
    )
    result = run(
        model,
        tools,
        effects=READS,
        config=SearchConfig(selection="posterior", max_rollouts=1),
    )
    asked = next(
        prompt
        for prompt in model.calls[1:]
        if any(isinstance(each, ToolMessage) for each in prompt)
    )
    reply = next(message for message in asked if isinstance(message, AIMessage))
    assert reply.content == [thought, {**blocks[0], "input": {"place": "desk"}}]
    assert [call["id"] for call in reply.tool_calls] == ["toolu_desk"]
    assert asked[-1].tool_call_id == "toolu_desk"
    assert result.messages[0].content == reply.content


def test_a_conversation_without_a_request_and_settings_of_the_loop_are_refused(
    run, tools
):
    model = OfflineChatModel(policy=LetterPolicy())
    with pytest.raises(EmptyQueryError, match="There is no request"):
        run(model, tools, [AIMessage("Hello.")], effects=READS, config=DEEP)
    with pytest.raises(
        ConfigurationError, match="selection='doubt' searches in the agent's own loop"
    ):
        run(model, tools, effects=READS, config=SearchConfig())


def test_a_fork_that_is_no_sandbox_ends_the_search_with_a_clear_error(run):
    class Torn(ObjectSandbox):
        def fork(self):
            return None

    sandbox = Torn(Box(), lambda box: [box.put])
    model = OfflineChatModel(policy=BoxPolicy())
    with pytest.raises(
        ConfigurationError,
        match=r"fork\(\) of Torn must return a sandbox, got NoneType",
    ):
        run(model, sandbox.tools, effects=READS, config=DEEP, sandbox=sandbox)
