"""The cookbook's recorded model answers as the model did that it was recorded of."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from cookbook.offline_model import OfflineChatModel
from cookbook.recorded_model import AnswerRecorder, RecordedChatModel
from langchain_tooltree import create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.errand import Errand

CALL = {"name": "alpha", "args": {"n": 1}, "id": "c1", "type": "tool_call"}


def test_an_agent_is_answered_as_it_was_by_another_model(numbered_tools, tmp_path):
    path = str(tmp_path / "answers" / "errand.jsonl")
    recorder = AnswerRecorder(path, {"model": "an errand"})
    said = []
    for recorded in (False, True):
        model = (
            RecordedChatModel(path)
            if recorded
            else OfflineChatModel(policy=Errand(1, 2), callbacks=[recorder])
        )
        agent = create_tooltree_agent(
            model, numbered_tools("alpha"), effects={"alpha": "read"}
        )
        messages = agent.invoke({"messages": [HumanMessage("Go.")]})["messages"]
        said.append(
            [
                (each.type, each.text, getattr(each, "usage_metadata", None))
                for each in messages
            ]
        )
    assert said[0] == said[1]
    assert len(said[0]) == 6
    assert (model.left, model.unmatched) == ([], [])


def test_a_report_and_the_answer_that_it_held_back_are_recorded(
    numbered_tools, tmp_path
):
    path = tmp_path / "answers.jsonl"
    other = {**CALL, "args": {"n": 2}, "id": "c2"}
    given = [
        AIMessage("", tool_calls=[CALL]),
        '{"missing": "two"}\nOne.',
        AIMessage("", tool_calls=[other]),
        "Both.",
    ]
    answers = []
    for make in (
        lambda: ScriptedChatModel(replies=given, callbacks=[AnswerRecorder(path)]),
        lambda: RecordedChatModel(path),
    ):
        model = make()
        agent = create_tooltree_agent(
            model, numbered_tools("alpha"), effects={"alpha": "read"}
        )
        answers.append(
            agent.invoke({"messages": [HumanMessage("Count to two.")]})["messages"][
                -1
            ].text
        )
    replies = [
        line["reply"]["text"]
        for line in map(json.loads, path.read_text().splitlines())
        if "reply" in line
    ]
    assert replies == ["", given[1], "", "Both."]
    assert answers == ["Both."] * 2
    assert (model.left, model.unmatched) == ([], [])


def test_what_nobody_recorded_is_refused_with_the_nearest_and_the_remedy(tmp_path):
    path = tmp_path / "answers.jsonl"
    recording = ScriptedChatModel(
        replies=["Yes.", "No."], callbacks=[AnswerRecorder(path)]
    )
    recording.batch(["Is it raining?", "Why?"], {"max_concurrency": 1})
    model = RecordedChatModel(path)
    with pytest.raises(
        LookupError,
        match=r"(?s)Is it snowing.*nearest.*line 4\).*Is it raining.*`AnswerRecorder`",
    ):
        model.invoke("Is it snowing?")
    assert [model.invoke(text).text for text in ("Why?", "Is it raining?")] == [
        "No.",
        "Yes.",
    ]
    with pytest.raises(LookupError, match="Every recorded answer was given already"):
        model.invoke("Why?")
    assert len(model.unmatched) == 2


def test_a_document_is_known_again_by_what_it_tells_whatever_id_a_call_has_now(
    tmp_path,
):
    path = tmp_path / "answers.jsonl"
    recording = ScriptedChatModel(
        replies=["Open it."], callbacks=[AnswerRecorder(path)]
    )
    recording.invoke(json.dumps({"noticed": "closed", "call_id": "call_4f"}))
    model = RecordedChatModel(path)
    with pytest.raises(LookupError):
        model.invoke(json.dumps({"noticed": "open", "call_id": "call_4f"}))
    assert (
        model.invoke(json.dumps({"noticed": "closed", "call_id": "call_9"})).text
        == "Open it."
    )
