"""Token counts of the comparison are those of the planner's own prompts."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree import ToolCard
from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec
from tests.benchmarks.compare.desk import Evaluate, Fused, FusedReply, Propose, Run, Score
from tests.benchmarks.compare.simulation import Simulation
from tests.benchmarks.compare.tokens import CANDIDATE_ID, REASON, PromptTokens, TokenCounter, as_tool, text_tokens
from tests.internals.hall import document_prompt
from tests.internals.tooltree import (
    DEFAULT_POST_JUDGE_PROMPT,
    DEFAULT_PRE_JUDGE_PROMPT,
    PROPOSE_PROMPT,
    CandidateScores,
    ObservationScore,
    propose_messages,
    transcript,
)

ITEM = {"type": "object", "properties": {"item": {"type": "string", "description": "What to add."}}}
NONE = {"type": "object", "properties": {}}


class Shelf:
    def __init__(self):
        self.things = []

    def add(self, item):
        self.things.append(item)
        return {"added": item}

    def count(self):
        return len(self.things)


TASK = Task(
    id="shelf",
    request='Add "bread" and salt to the shelf,\nthen count what is there.',
    tools=(ToolSpec("add", "Shelf", "Add an item.", ITEM), ToolSpec("count", "Shelf", "Count all items.", NONE)),
    gold=(PlainCall("add", {"item": "bread"}), PlainCall("add", {"item": "salt"}), PlainCall("count", {})),
    make_objects=lambda: {"Shelf": Shelf()},
    same_state=lambda found, wanted: found["Shelf"].things == wanted["Shelf"].things,
)
TOOLS = [as_tool(spec) for spec in TASK.tools]


@pytest.fixture
def simulation():
    return Simulation(TASK, {}, seed=0)


@pytest.fixture
def counter():
    return TokenCounter(PromptTokens(TASK.request, TASK.tools, proposals=5), lists_tried=True)


def dialogue(state):
    messages = [HumanMessage(TASK.request)]
    for step in state.path():
        call = {"name": step.call.tool, "args": step.call.arguments, "id": f"call_{step.depth}"}
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage(step.observation, tool_call_id=call["id"], name=step.call.tool),
        ]
    return messages


def tokens_of(messages, *others):
    calls = [call for message in messages for call in getattr(message, "tool_calls", ())]
    texts = [message.content for message in messages] + [written(call["name"], call["args"]) for call in calls]
    return sum(map(text_tokens, [*texts, *others])) + 3 * len(messages)


def written(tool, arguments):
    return tool + json.dumps(arguments)


def judged(call):
    return {"id": CANDIDATE_ID, "tool": call.tool, "arguments": call.arguments}


def test_a_proposal_costs_its_messages_its_tools_and_its_calls(simulation, counter):
    state = simulation.run(simulation.start, TASK.gold[0])
    calls = simulation.propose(state, 1)
    instruction = PROPOSE_PROMPT.format(count=5)
    messages = propose_messages(dialogue(state), instruction=instruction, attempt=1, tried=())
    tools = (json.dumps(convert_to_openai_tool(tool)) for tool in TOOLS)
    replies = (written(call.tool, call.arguments) for call in calls)
    assert counter(Propose(state), calls) == pytest.approx(tokens_of(messages, *tools, *replies), rel=0.02)


def test_asking_again_costs_the_list_of_what_was_offered(simulation, counter):
    first = counter(Propose(simulation.start), list(TASK.gold))
    again = counter(Propose(simulation.start), list(TASK.gold))
    instruction = PROPOSE_PROMPT.format(count=5)
    tried = ['add(item="bread")', 'add(item="salt")', "count()"]
    once, twice = (
        tokens_of(propose_messages([], instruction=instruction, attempt=attempt, tried=tried if attempt > 1 else ()))
        for attempt in (1, 2)
    )
    assert again - first == pytest.approx(twice - once, abs=2)


def test_a_fused_question_costs_little_more_than_one_for_calls_and_far_less_than_three(simulation):
    counter = TokenCounter(PromptTokens(TASK.request, TASK.tools, proposals=5))
    state = simulation.run(simulation.start, TASK.gold[0])
    calls = simulation.propose(state, 1)
    separate = [counter(Propose(state), calls), counter(Score(state, calls), []), counter(Evaluate(state), (0.7, 0.2))]
    alone = counter(Fused(state), FusedReply(0.7, 0.2, calls, [0.5] * len(calls)))
    assert separate[0] < alone < sum(separate) / 2
    unscored = counter(Fused(state), FusedReply(0.7, 0.2, [], []))
    without_calls = counter(Propose(state), [])
    assert alone - separate[0] - (unscored - without_calls) == pytest.approx(
        len(calls) * text_tokens('{"confidence": 0.75}'), abs=2
    )


def test_a_peer_that_asks_again_lists_nothing(simulation):
    counter = TokenCounter(PromptTokens(TASK.request, TASK.tools, proposals=5))
    assert len({counter(Propose(simulation.start), list(TASK.gold)) for _ in range(3)}) == 1


def test_scoring_calls_costs_the_judges_document_and_its_reply(simulation, counter):
    state = simulation.run(simulation.start, TASK.gold[0])
    document = {
        "history": transcript(dialogue(state)),
        "tools": [ToolCard.from_tool(tool).to_dict() for tool in TOOLS],
        "tool_names": ["add", "count"],
        "candidates": [judged(call) for call in TASK.gold[1:]],
    }
    form = json.dumps(CandidateScores.model_json_schema())
    reply = json.dumps({"scores": [{"id": CANDIDATE_ID, "reason": REASON, "score": 0.75}] * 2})
    whole = tokens_of(document_prompt(DEFAULT_PRE_JUDGE_PROMPT, document), form, reply)
    assert counter(Score(state, TASK.gold[1:]), [0.7, 0.3]) == pytest.approx(whole, rel=0.03)


def test_evaluating_a_call_costs_the_judges_document_and_its_reply(simulation, counter):
    before = simulation.run(simulation.start, TASK.gold[0])
    state = simulation.run(before, TASK.gold[1])
    document = {
        "history": transcript(dialogue(before)),
        "tools": [ToolCard.from_tool(TOOLS[0]).to_dict()],
        "tool_names": ["add", "count"],
        "call": judged(TASK.gold[1]),
        "observation": state.observation,
    }
    form = json.dumps(ObservationScore.model_json_schema())
    reply = json.dumps({"reason": REASON, "score": 0.75, "goal": 0.75})
    whole = tokens_of(document_prompt(DEFAULT_POST_JUDGE_PROMPT, document), form, reply)
    assert counter(Evaluate(state), (0.7, 0.3)) == pytest.approx(whole, rel=0.03)


def test_running_a_tool_is_no_question_to_a_model(simulation, counter):
    with pytest.raises(TypeError, match="Run is no question"):
        counter(Run(simulation.start, TASK.gold[0]), simulation.start)
