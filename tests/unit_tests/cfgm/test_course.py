"""The course of a conversation: requests, rounds of calls, and where a run begins."""

import pytest
from boiler_room import TASK, call, failed, gauged
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.internals.cfgm import earlier_rounds, first_task_in, latest_observations, request_in, task_of
from tests.internals.experience import as_reference
from tests.internals.hall import conversation

RECALLED = HumanMessage(as_reference("Turn the green valve.", source="memory"))
ASKED = HumanMessage(TASK)


def together(*names):
    """Calls made in parallel, and what they brought back."""
    calls = [{"name": "read_gauge", "args": {"gauge": name}, "id": name} for name in names]
    return [AIMessage("", tool_calls=calls), *(ToolMessage(name, tool_call_id=name) for name in names)]


def ids(rounds):
    return [[message.tool_call_id for message in observations] for observations in rounds]


def test_the_latest_observations_are_those_of_one_message_in_order():
    messages = [ASKED, *gauged(), *together("a", "b", "c")]

    assert ids([latest_observations(messages)]) == [["a", "b", "c"]]


@pytest.mark.parametrize("last", [ASKED, AIMessage("Done."), call("read_gauge"), SystemMessage("Go on.")])
def test_where_something_else_was_said_there_are_none(last):
    assert latest_observations([ASKED, *gauged(), last]) == []
    assert latest_observations([]) == []


def test_the_rounds_before_come_latest_first_back_to_the_request():
    messages = [ASKED, *failed(1), AIMessage("Done."), ASKED, *gauged(1), *together("a", "b"), *gauged(2), *failed(2)]

    assert ids(earlier_rounds(messages)) == [["read_gauge 2"], ["a", "b"], ["read_gauge 1"]]


def test_what_memory_says_is_no_request():
    messages = [ASKED, *gauged(1), RECALLED, *gauged(2)]

    assert request_in(messages) is ASKED
    assert task_of(messages) == TASK
    assert ids(earlier_rounds(messages)) == [["read_gauge 1"]]


@pytest.mark.parametrize("content", [TASK, [{"type": "text", "text": TASK}], f"{TASK}\n\n{RECALLED.content}"])
def test_the_task_is_the_text_of_the_latest_request(content):
    assert task_of([HumanMessage("Hello."), AIMessage("Hello."), HumanMessage(content), *gauged()]) == TASK


def test_without_a_request_there_is_no_task():
    assert request_in([]) is None
    assert task_of([AIMessage("Hello."), RECALLED]) == ""


def test_a_long_conversation_is_not_copied():
    messages = [ASKED, *gauged()]

    assert conversation({"said": messages}, "said") is messages
    assert conversation(messages, "said") is messages


def test_other_forms_of_messages_are_read():
    assert conversation({"said": [("user", TASK)]}, "said") == [ASKED]
    assert conversation([{"role": "user", "content": TASK}], "said") == [ASKED]


def test_a_summary_is_no_request():
    summary = HumanMessage("Here is a summary.", additional_kwargs={"lc_source": "summarization"})

    assert request_in([summary, *gauged()]) is None
    assert request_in([ASKED, summary, *gauged()]) is ASKED
    assert first_task_in([summary, RECALLED, ASKED, HumanMessage("And now?")]) == TASK


def test_messages_of_any_form_are_read_from_the_end():
    said = [("user", "Hello."), ("user", TASK), *gauged(1), *gauged(2)]

    assert task_of(said) == TASK
    assert ids(earlier_rounds(said)) == [["read_gauge 1"]]
