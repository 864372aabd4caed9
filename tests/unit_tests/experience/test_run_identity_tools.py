"""The tools that models were offered: in OpenAI form whatever the provider's, by name, as JSON gives them back."""

import json
from uuid import UUID

import pytest
from langchain_core.messages import SystemMessage
from langchain_core.tools import StructuredTool, tool

from langchain_tooltree.experience import run_identity
from langchain_tooltree.experience.run_identity import (
    ModelRequests,
    as_metadata,
    tools_in,
)

SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
}
FUNCTION = {"name": "look", "description": "Look somewhere.", "parameters": SCHEMA}


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return place


@pytest.mark.parametrize(
    "offered",
    [
        {"type": "function", "function": FUNCTION},
        {"type": "function", **FUNCTION},
        FUNCTION,
        {"name": "look", "description": "Look somewhere.", "input_schema": SCHEMA},
        {
            "type": "custom",
            "name": "look",
            "description": "Look somewhere.",
            "input_schema": SCHEMA,
        },
        {
            "toolSpec": {
                "name": "look",
                "description": "Look somewhere.",
                "inputSchema": {"json": SCHEMA},
            }
        },
        look,
    ],
    ids=[
        "chat",
        "responses",
        "function",
        "anthropic",
        "anthropic with a type",
        "bedrock",
        "langchain",
    ],
)
def test_tools_of_every_provider_are_kept_in_one_form(offered):
    assert tools_in([offered]) == {"look": {"type": "function", "function": FUNCTION}}


def test_tools_of_the_provider_itself_stay_as_they_are():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    assert tools_in([search, {"type": "code_interpreter"}]) == {
        "web_search": search,
        "code_interpreter": {"type": "code_interpreter"},
    }


@pytest.mark.parametrize(
    "offered",
    [None, "look", 3, {}, [], [None, 3, {}, {"type": "function"}, {"function": {}}]],
)
def test_what_is_no_tool_is_left_out(offered):
    assert tools_in(offered) == {}


def test_what_is_kept_is_as_json_gives_it_back_and_nobody_elses():
    properties = {"place": {"enum": ("shed", UUID(int=1))}}
    given = {
        "type": "function",
        "function": {
            **FUNCTION,
            "parameters": {"type": "object", "properties": properties},
        },
    }
    kept = tools_in([given])
    properties.clear()

    assert json.loads(json.dumps(kept)) == kept
    assert kept["look"]["function"]["parameters"]["properties"]["place"]["enum"] == [
        "shed",
        str(UUID(int=1)),
    ]


def test_the_order_is_that_of_the_names():
    first, second = (
        {"type": "function", "function": {"name": name}} for name in ("a", "b")
    )
    assert (
        as_metadata({"b": second, "a": first})
        == as_metadata({"a": first, "b": second})
        == {"tools": [first, second]}
    )
    assert as_metadata({}) == {}


def called(name):
    return StructuredTool.from_function(
        lambda: "x", name=name, description="Does something."
    )


class Running:
    """What the runtime of a run tells of it."""

    def __init__(self, thread):
        self.execution_info = self
        self.thread_id, self.context = thread, None


def test_a_run_knows_all_tools_that_it_was_offered_under_their_names_and_its_latest_instructions():
    requests = ModelRequests()
    one, two = called("one"), called("two")
    in_openai_form = {"type": "function", "function": {"name": "three"}}
    of_the_provider = {"type": "web_search_20250305", "name": "web_search"}
    requests.add(
        Running("run"),
        [one, in_openai_form, {"strict": True}],
        SystemMessage("Be brief."),
    )
    requests.add(Running("run"), [two, of_the_provider], SystemMessage("Be kind."))
    requests.add(Running("other"), [one], None)

    assert [*requests.of(Running("run")).tools.values()] == [
        one,
        in_openai_form,
        two,
        of_the_provider,
    ]
    assert requests.pop(Running("run")).instructions == "Be kind."
    assert not requests.pop(Running("run")).tools
    assert requests.of(Running("other")).tools == {"one": one}


def test_of_runs_that_never_end_the_latest_are_known(monkeypatch):
    monkeypatch.setattr(run_identity, "MAX_REMEMBERED_RUNS", 10)
    requests = ModelRequests()
    for number in range(12):
        requests.add(Running(str(number)), [called("one")], None)
        requests.add(Running("0"), [called("one")], None)

    known = [number for number in range(12) if requests.of(Running(str(number))).tools]
    assert known == [0, *range(3, 12)]
