"""Token counts of the comparison are those of the planner's own prompts."""

import json

import pytest
from lamp import TASK
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree import ToolCard
from langchain_tooltree.conversation import transcript
from langchain_tooltree.models import document_prompt
from langchain_tooltree.tooltree.prompts import (
    DEFAULT_POST_JUDGE_PROMPT,
    DEFAULT_PRE_JUDGE_PROMPT,
    PROPOSE_PROMPT,
    CandidateScores,
    ObservationScore,
)
from tests.benchmarks.compare.desk import Evaluate, Propose, Score
from tests.benchmarks.compare.simulation import Simulation
from tests.benchmarks.compare.tokens import (
    CANDIDATE_ID,
    REASON,
    PromptTokens,
    TokenCounter,
    as_tool,
    text_tokens,
)
from tests.internals.tooltree import propose_messages

TOOLS = [as_tool(spec) for spec in TASK.tools]


@pytest.fixture
def simulation():
    return Simulation(TASK, {}, seed=0)


@pytest.fixture
def counter():
    return TokenCounter(
        PromptTokens(TASK.request, TASK.tools, proposals=5), lists_tried=True
    )


def dialogue(state):
    messages = [HumanMessage(TASK.request)]
    for step in state.path():
        call = {
            "name": step.call.tool,
            "args": step.call.arguments,
            "id": f"call_{step.depth}",
        }
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage(step.observation, tool_call_id=call["id"], name=step.call.tool),
        ]
    return messages


def tokens_of(messages, *others):
    calls = [
        call for message in messages for call in getattr(message, "tool_calls", ())
    ]
    texts = [message.content for message in messages] + [
        written(call["name"], call["args"]) for call in calls
    ]
    return sum(map(text_tokens, [*texts, *others])) + 3 * len(messages)


def written(tool, arguments):
    return tool + json.dumps(arguments)


def judged(call):
    return {"id": CANDIDATE_ID, "tool": call.tool, "arguments": call.arguments}


def test_a_proposal_costs_its_messages_its_tools_and_its_calls(simulation, counter):
    state = simulation.run(simulation.start, TASK.gold[0])
    calls = simulation.propose(state, 1)
    instruction = PROPOSE_PROMPT.format(count=5)
    messages = propose_messages(
        dialogue(state), instruction=instruction, attempt=1, tried=()
    )
    tools = (json.dumps(convert_to_openai_tool(tool)) for tool in TOOLS)
    replies = (written(call.tool, call.arguments) for call in calls)
    assert counter(Propose(state), calls) == pytest.approx(
        tokens_of(messages, *tools, *replies), rel=0.02
    )


def test_scoring_calls_costs_the_judges_document_and_its_reply(simulation, counter):
    state = simulation.run(simulation.start, TASK.gold[0])
    document = {
        "history": transcript(dialogue(state)),
        "tools": [ToolCard.from_tool(tool).to_dict() for tool in TOOLS],
        "tool_names": ["dim", "turn"],
        "candidates": [judged(call) for call in TASK.gold[1:]],
    }
    form = json.dumps(CandidateScores.model_json_schema())
    reply = json.dumps(
        {"scores": [{"id": CANDIDATE_ID, "reason": REASON, "score": 0.75}] * 2}
    )
    whole = tokens_of(document_prompt(DEFAULT_PRE_JUDGE_PROMPT, document), form, reply)
    assert counter(Score(state, TASK.gold[1:]), [0.7, 0.3]) == pytest.approx(
        whole, rel=0.03
    )


def test_evaluating_a_call_costs_the_judges_document_and_its_reply(simulation, counter):
    before = simulation.run(simulation.start, TASK.gold[0])
    state = simulation.run(before, TASK.gold[1])
    document = {
        "history": transcript(dialogue(before)),
        "tools": [ToolCard.from_tool(TOOLS[0]).to_dict()],
        "tool_names": ["dim", "turn"],
        "call": judged(TASK.gold[1]),
        "observation": state.observation,
    }
    form = json.dumps(ObservationScore.model_json_schema())
    reply = json.dumps({"reason": REASON, "score": 0.75, "goal": 0.75})
    whole = tokens_of(document_prompt(DEFAULT_POST_JUDGE_PROMPT, document), form, reply)
    assert counter(Evaluate(state), (0.7, 0.3)) == pytest.approx(whole, rel=0.03)
