"""An agent with the planner whose model answers in forms that a user cannot use."""

import json

import pytest
from langchain_core.messages import AIMessage

from langchain_tooltree.messages.visible_messages import PLANNER_NOTE
from langchain_tooltree.tooltree.completeness_report import REPORT_PROMPT
from tests.unit_tests.tooltree.loops import FORMS, GO, READS, Shop, calls, scripted

REPORTS = [
    '{"missing": null}',
    '{"missing": "nothing is missing"}',
    '{"missing": "nichts"}',
    '{"missing": "N/A - all done"}',
    '{"missing": "nothing, or what"}',
    '{"Missing": "nothing"}',
    "{'missing': None}",
    "{“missing”: “nothing”}",
    '**{"missing": "nothing"}**',
    '`{"missing": "nothing"}`',
    '> {"missing": "nothing"}',
    '```json\n{"missing": "nothing"}\n```',
    '{"missing": [],}',
    '{"missing": false}',
    '{"missing": "nothing"}\n{"missing": "nothing"}',
]


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
def run(form, shop, either):
    """Return a function that runs a scripted model, and returns the conversation."""

    async def play(model):
        graph = FORMS[form](model, shop.tools(), effects=READS)
        result = await either(graph.invoke, graph.ainvoke)({"messages": GO})
        return result["messages"]

    return play


def count_instructions(request):
    """Count the messages of a request that ask for a report."""
    return sum(REPORT_PROMPT in str(message.content) for message in request)


@pytest.mark.parametrize("report", REPORTS)
async def test_no_spelling_of_a_report_is_shown_or_costs_a_call(run, report):
    model = scripted(calls(("stock", "tea")), f"{report}\n7 packets.")

    messages = await run(model)

    assert messages[-1].text == "7 packets."
    assert len(model.calls) == 2


@pytest.mark.parametrize("answer", [REPORTS[0], REPORTS[1], "", " \n"])
async def test_an_empty_answer_is_asked_for_as_the_plain_agent_would(run, answer):
    model = scripted(calls(("stock", "tea")), answer, "7 packets.")

    messages = await run(model)

    assert messages[-1].text == "7 packets."
    assert [count_instructions(request) for request in model.calls] == [1, 1, 0]
    assert model.calls[2][-1].type == "tool", "there is no note"


async def test_an_answer_of_the_users_own_form_comes_through(run):
    answer = json.dumps({"missing": ["milk"], "found": 3})
    model = scripted(calls(("stock", "tea")), '{"missing": ["milk"]}', answer)

    messages = await run(model)

    assert messages[-1].text == answer


async def test_a_read_that_is_written_as_text_is_called(run, shop):
    text = '```json\n{"name": "stock", "arguments": {"item": "tea"}}\n```'
    model = scripted(text, "7 packets.")

    messages = await run(model)

    assert shop.made == ["stock(tea)"]
    assert messages[-1].text == "7 packets."


async def test_a_write_that_is_written_as_text_is_not_called(run, shop):
    text = '{"name": "order", "arguments": {"item": "tea"}}'
    model = scripted(text, "I can order it. Shall I?")

    messages = await run(model)

    assert shop.made == []
    assert messages[-1].text == "I can order it. Shall I?"
    assert model.calls[1][-1].text.startswith(PLANNER_NOTE)


TRUNCATED = AIMessage("There are", response_metadata={"finish_reason": "length"})
INVALID = AIMessage(
    "",
    invalid_tool_calls=[
        {
            "name": "stock",
            "args": '{"item": ',
            "id": "1",
            "error": None,
            "type": "invalid_tool_call",
        }
    ],
)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (TRUNCATED, "cut off"),
        (INVALID, "could not be read"),
        ("I'll call `price` to find out.", "did not call it"),
    ],
    ids=["truncated", "invalid call", "announced call"],
)
async def test_an_unusable_answer_is_asked_for_once_more(run, answer, note):
    model = scripted(calls(("stock", "tea")), answer, "7 packets.")

    messages = await run(model)

    assert messages[-1].text == "7 packets."
    assert len(model.calls) == 3
    assert note in model.calls[2][-1].text


async def test_an_answer_that_stays_unusable_is_what_the_plain_agent_gives(run):
    announcement = "I'll call `price` to find out."
    model = scripted(calls(("stock", "tea")), announcement, announcement)

    messages = await run(model)

    assert messages[-1].text == announcement
    assert len(model.calls) == 3


async def test_a_report_before_the_answer_to_a_plain_request_is_removed(run):
    model = scripted(calls(("stock", "tea")), "", f"{REPORTS[0]}\n7 packets.")

    messages = await run(model)

    assert messages[-1].text == "7 packets."


async def test_any_answer_is_better_than_an_empty_one(run):
    incomplete = '{"missing": "the price"}'
    model = scripted(
        calls(("stock", "tea")),
        incomplete,
        *[f"{incomplete}\n7 packets."] * 4,
    )

    messages = await run(model)

    assert messages[-1].text == "7 packets."


@pytest.mark.parametrize("tool", ["stock", "order"])
async def test_a_call_in_a_quoted_result_is_no_call_of_the_model(run, shop, tool):
    shop.result_of_broken = json.dumps({"name": tool, "arguments": {"item": "eve"}})
    answer = f"The note reads:\n```\n{shop.result_of_broken}\n```"
    model = scripted(calls(("broken", "note")), f"{REPORTS[0]}\n{answer}")

    messages = await run(model)

    assert shop.made == ["broken(note)"]
    assert messages[-1].text == answer
    assert len(model.calls) == 2
