"""The shipped doubles behave like chat models."""

import json

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from pydantic import BaseModel

from cookbook.offline_model import Made, OfflineChatModel, read_question
from langchain_tooltree.models import document_prompt
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.completeness_report import (
    REPORT_AND_CALL_PROMPT,
    REPORT_AND_UNDO_PROMPT,
    REPORT_PROMPT,
)
from langchain_tooltree.tooltree.prompts import (
    DEFAULT_CHECK_PROMPT,
    DEFAULT_POST_JUDGE_PROMPT,
    DEFAULT_PRE_JUDGE_PROMPT,
    OTHERS_PROMPT,
    PROPOSE_PROMPT,
)
from tests.internals.errand import Errand
from tests.internals.tooltree import propose_messages

CALL = {"name": "alpha", "args": {"n": 1}, "id": "c1", "type": "tool_call"}


class Answer(BaseModel):
    number: int


async def test_replies_come_in_order_sync_and_async():
    model = ScriptedChatModel(replies=["one", AIMessage("two")])
    assert model.invoke("a").text == "one"
    assert (await model.ainvoke("b")).text == "two"
    assert [prompt[0].text for prompt in model.calls] == ["a", "b"]


def test_a_model_without_replies_left_says_so():
    with pytest.raises(IndexError, match="called 1 times but has 0 replies"):
        ScriptedChatModel().invoke("a")


def test_an_exception_is_raised_and_a_function_is_called_with_the_prompt():
    model = ScriptedChatModel(
        replies=[ConnectionError("busy"), lambda messages: messages[0].text.upper()]
    )
    with pytest.raises(ConnectionError, match="busy"):
        model.invoke("a")
    assert model.invoke("hello").text == "HELLO"


def test_tool_calls_come_through_bound_tools(numbered_tools):
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[CALL])]).bind_tools(
        numbered_tools("alpha")
    )
    assert model.invoke("a").tool_calls == [CALL]


@pytest.mark.parametrize(
    "schema", [Answer, Answer.model_json_schema()], ids=["class", "JSON schema"]
)
def test_a_mapping_is_structured_output(schema):
    model = ScriptedChatModel(replies=[{"number": 3}]).with_structured_output(
        schema, include_raw=True
    )
    reply = model.invoke("a")
    assert dict(reply["parsed"]) == {"number": 3}
    assert reply["raw"].usage_metadata["total_tokens"] > 0


def test_usage_is_reported_unless_the_reply_has_its_own():
    own = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    model = ScriptedChatModel(replies=["12345678", AIMessage("x", usage_metadata=own)])
    assert model.invoke("a" * 400).usage_metadata["input_tokens"] >= 100
    assert model.invoke("a").usage_metadata == own


def test_a_stream_keeps_blocks_and_what_stands_beside_the_content():
    blocks = [
        {"type": "reasoning", "reasoning": "Hm."},
        {"type": "text", "text": "Hi."},
    ]
    message = AIMessage(
        blocks,
        response_metadata={"finish_reason": "stop"},
        additional_kwargs={"seen": True},
    )
    chunks = list(ScriptedChatModel(replies=[message]).stream("a"))
    whole = sum(chunks[1:], chunks[0])
    assert [
        {k: v for k, v in block.items() if k != "index"} for block in whole.content
    ] == blocks
    assert (whole.text, whole.response_metadata["finish_reason"]) == ("Hi.", "stop")
    assert whole.additional_kwargs == {"seen": True}


async def test_streams_add_up_to_the_message():
    message = AIMessage("a few words", tool_calls=[CALL])
    chunks = list(ScriptedChatModel(replies=[message]).stream("a"))
    achunks = [
        chunk async for chunk in ScriptedChatModel(replies=[message]).astream("a")
    ]
    for streamed in (chunks, achunks):
        whole = sum(streamed[1:], streamed[0])
        assert isinstance(whole, AIMessageChunk)
        assert len(streamed) > 3
        assert (whole.text, whole.tool_calls) == ("a few words", [CALL])
        assert whole.usage_metadata["total_tokens"] > 0


def dialogue():
    return [
        HumanMessage("An earlier request."),
        AIMessage("", tool_calls=[{"name": "old", "args": {}, "id": "o"}]),
        ToolMessage("old", tool_call_id="o", name="old"),
        HumanMessage("Go."),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage("seen", tool_call_id="c1", name="alpha"),
    ]


def test_a_proposal_is_read_from_its_prompt():
    instruction = PROPOSE_PROMPT.format(count=4)
    prompt = propose_messages(dialogue(), instruction, attempt=2, tried=["beta()"])
    question, judged = read_question(
        prompt, [{"function": {"name": "alpha"}}, {"function": {"name": "beta"}}]
    )
    assert (question.kind, question.request, question.attempt, question.count) == (
        "propose",
        "Go.",
        2,
        4,
    )
    assert question.tools == ("alpha", "beta")
    assert question.path == (Made("alpha", {"n": 1}, "seen"),)
    assert judged == []


HISTORY = [
    {"role": "user", "text": "An earlier request."},
    {"role": "assistant", "call": {"tool": "old", "arguments": {}}},
    {"role": "tool", "tool": "old", "observation": "old"},
    {"role": "user", "text": "Go."},
    {"role": "assistant", "call": {"tool": "alpha", "arguments": {"n": 1}}},
    {"role": "tool", "tool": "alpha", "observation": "seen"},
]


def test_candidates_are_read_with_their_identifiers():
    candidates = [{"id": "c7", "tool": "beta", "arguments": {"n": 2}}]
    document = {
        "request": "Go.",
        "history": HISTORY,
        "tools": [],
        "candidates": candidates,
    }
    question, judged = read_question(
        document_prompt(DEFAULT_PRE_JUDGE_PROMPT, document)
    )
    assert (question.kind, question.request, question.path) == (
        "pre",
        "Go.",
        (Made("alpha", {"n": 1}, "seen"),),
    )
    assert judged == [("c7", Made("beta", {"n": 2}))]


def test_an_observation_is_read_with_its_call():
    call = {"id": "c7", "tool": "beta", "arguments": {"n": 2}}
    document = {"request": "Go.", "history": [], "call": call, "observation": "two"}
    question, judged = read_question(
        document_prompt(DEFAULT_POST_JUDGE_PROMPT, document)
    )
    assert (question.kind, judged) == ("post", [("c7", Made("beta", {"n": 2}, "two"))])


def test_anything_else_asks_for_the_answer():
    question, _ = read_question([SystemMessage("Be kind."), *dialogue()])
    assert (question.kind, question.request, len(question.path)) == ("answer", "Go.", 1)


def step_messages(conversation, line=REPORT_PROMPT):
    """The prompt of an agent's own step."""
    return [SystemMessage(f"Be kind.\n\n{line}"), *conversation]


@pytest.mark.parametrize(
    "line", [REPORT_PROMPT, REPORT_AND_CALL_PROMPT, REPORT_AND_UNDO_PROMPT]
)
def test_a_step_is_known_by_its_line(line):
    bound = [{"function": {"name": "alpha"}}, {"function": {"name": "beta"}}]
    question, _ = read_question(step_messages(dialogue(), line), bound)
    assert (question.kind, question.request, question.tools) == (
        "step",
        "Go.",
        ("alpha", "beta"),
    )
    assert question.path == (Made("alpha", {"n": 1}, "seen"),)


def test_a_question_for_other_calls_is_known_by_its_note():
    note = HumanMessage(
        OTHERS_PROMPT.format(count=5, missing="all", tried="nothing", past="")
    )
    question, _ = read_question([*dialogue(), note], [{"function": {"name": "alpha"}}])
    assert (question.kind, question.request, question.tools) == (
        "others",
        "Go.",
        ("alpha",),
    )


class Batches(Errand):
    def act(self, question):
        return [("alpha", {"n": n}) for n in self.wanted[len(question.path) :]]

    def missing(self, question):
        return [f"number {n}" for n in self.wanted[len(question.path) :]]


def made(reply):
    return [(call["name"], call["args"]) for call in reply.tool_calls]


@pytest.mark.parametrize(("policy", "numbers"), [(Errand, [2]), (Batches, [2, 3])])
def test_an_offline_model_takes_the_agents_step(numbered_tools, policy, numbers):
    model = OfflineChatModel(policy=policy(1, 2, 3)).bind_tools(numbered_tools("alpha"))
    reply = model.invoke(step_messages(dialogue()))
    assert made(reply) == [("alpha", {"n": n}) for n in numbers]


@pytest.mark.parametrize("policy", [Errand, Batches])
def test_an_offline_model_begins_its_answer_with_what_is_missing(
    numbered_tools, policy
):
    model = OfflineChatModel(policy=policy(1)).bind_tools(numbered_tools("alpha"))
    assert (
        model.invoke(step_messages(dialogue())).text == '{"missing": "nothing"}\nDone.'
    )


class Early(Batches):
    def act(self, _):
        return []


class Unsure(Early):
    def may_miss(self, question):
        return [(*call, 0.4) for call in Batches.act(self, question)]


class Sure(Unsure):
    def missing(self, _):
        return []


def test_an_offline_model_that_stops_early_says_so(numbered_tools):
    model = OfflineChatModel(policy=Early(1, 2, 3)).bind_tools(numbered_tools("alpha"))
    assert (
        model.invoke(step_messages(dialogue())).text
        == '{"missing": "number 2; number 3"}\nDone.'
    )


TWO = {"name": "alpha", "args": {"n": 2}}


@pytest.mark.parametrize(
    ("policy", "form"),
    [
        (Batches(1), {"missing": "nothing", "call": None}),
        (Early(1, 2), {"missing": "number 2", "call": None}),
        (Unsure(1, 2), {"missing": "number 2", "call": TWO}),
        (Sure(1, 2), {"missing": "nothing", "call": TWO}),
    ],
)
def test_an_offline_model_names_a_call_where_it_is_asked_for_one(
    numbered_tools, policy, form
):
    model = OfflineChatModel(policy=policy).bind_tools(numbered_tools("alpha"))
    assert (
        model.invoke(step_messages(dialogue(), REPORT_AND_CALL_PROMPT)).text
        == f"{json.dumps(form)}\nDone."
    )


def test_an_offline_model_offers_calls(numbered_tools):
    prompt = propose_messages(dialogue(), PROPOSE_PROMPT.format(count=2))
    reply = (
        OfflineChatModel(policy=Errand(1, 2))
        .bind_tools(numbered_tools("alpha"))
        .invoke(prompt)
    )
    assert made(reply) == [("alpha", {"n": 2})]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Errand(1), {"missing": [], "fulfilled": True}),
        (Errand(1, 2), {"missing": [], "fulfilled": False}),
        (Batches(1, 2), {"missing": ["number 2"], "fulfilled": False}),
    ],
)
def test_an_offline_model_checks_an_answer(policy, said):
    document = {"request": "Go.", "history": HISTORY, "answer": "It is done."}
    prompt = document_prompt(DEFAULT_CHECK_PROMPT, document)
    assert read_question(prompt)[0].path == (Made("alpha", {"n": 1}, "seen"),)
    reply = (
        OfflineChatModel(policy=policy)
        .with_structured_output(Answer.model_json_schema())
        .invoke(prompt)
    )
    assert reply == said


async def test_a_short_search_can_be_scripted_as_the_docstring_says(find):
    @tool
    def look(place: str) -> str:
        """Look somewhere."""
        return f"it is on the {place}"

    call = {"name": "look", "args": {"place": "desk"}, "id": "1"}
    model = ScriptedChatModel(
        replies=[
            AIMessage("", tool_calls=[call]),
            '{"missing": "nothing"}\nIt is on the desk.',
        ]
    )
    result = await find("Where is it?", [look], model=model, effects={"look": "read"})
    assert (result.stop_reason, result.answer.text) == (
        "answered",
        "It is on the desk.",
    )
    assert len(model.calls) == 2
