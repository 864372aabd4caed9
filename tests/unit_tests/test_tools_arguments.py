from typing import Annotated

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import (
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    tool,
)
from langgraph.prebuilt import InjectedState, InjectedStore
from pydantic import BaseModel, Field, field_validator

from langchain_tooltree.tools import checked_arguments


def clean_arguments(tool, written):
    """The arguments that are left of those that a model wrote."""
    return checked_arguments(tool, written)[0]


def find_problem(tool, arguments):
    """What is wrong with the arguments of a call."""
    return checked_arguments(tool, arguments)[1]


class Trip(BaseModel):
    city: str
    nights: int = Field(ge=1)

    @field_validator("city")
    @classmethod
    def on_the_map(cls, city):
        if city == "Atlantis":
            msg = "no such city"
            raise ValueError(msg)
        return city


JSON_TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "nights": {"type": "integer", "minimum": 1},
    },
    "required": ["city", "nights"],
    "additionalProperties": False,
}


def stay(city, nights):
    """Book a stay."""


def stay_annotated(city: str, nights: Annotated[int, Field(ge=1)]):
    """Book a stay."""


TOOLS = {
    "pydantic": StructuredTool.from_function(stay, args_schema=Trip),
    "JSON schema": StructuredTool.from_function(stay, args_schema=JSON_TRIP),
    "function": StructuredTool.from_function(stay_annotated),
}


@pytest.mark.parametrize("kind", TOOLS)
def test_valid_arguments_have_no_problem(kind):
    assert find_problem(TOOLS[kind], {"city": "Bern", "nights": 2}) is None


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"nights": 2}, "city"),
        ({"city": "Bern", "nights": "many"}, "nights"),
        ({"city": "Bern", "nights": 0}, "nights"),
    ],
)
def test_a_problem_names_the_argument(kind, arguments, named):
    assert named in find_problem(TOOLS[kind], arguments)


def test_validators_of_a_model_count():
    assert (
        find_problem(TOOLS["pydantic"], {"city": "Atlantis", "nights": 1})
        == "city: Value error, no such city"
    )


def test_nested_places_are_written_with_dots():
    nested = {"type": "object", "properties": {"trip": JSON_TRIP}}
    problem = find_problem(
        StructuredTool.from_function(stay, args_schema=nested),
        {"trip": {"city": "B", "nights": 0}},
    )
    assert problem.startswith("trip.nights: ")


def test_only_the_first_problems_are_told():
    wide = {
        "type": "object",
        "properties": {f"a{n}": {"type": "integer"} for n in range(9)},
    }
    problem = find_problem(
        StructuredTool.from_function(stay, args_schema=wide),
        {f"a{n}": "x" for n in range(9)},
    )
    assert problem.count(";") == 4


def test_a_schema_that_cannot_be_read_is_a_problem_not_a_crash():
    broken = {"type": "object", "properties": {"a": {"type": "no such type"}}}
    problem = find_problem(
        StructuredTool.from_function(stay, args_schema=broken), {"a": 1}
    )
    assert problem.startswith("arguments: ") or "schema cannot be used" in problem


@tool
def injected(
    city: str,
    secret: Annotated[str, InjectedToolArg],
    state: Annotated[dict, InjectedState],
    store: Annotated[object, InjectedStore],
    call_id: Annotated[str, InjectedToolCallId],
    runtime: ToolRuntime,
) -> str:
    """Take much from the host."""


class InjectedModel(BaseModel):
    city: str
    secret: Annotated[str, InjectedToolArg]
    call_id: Annotated[str, InjectedToolCallId]


def test_injected_arguments_are_left_out():
    written = dict.fromkeys(
        ("city", "secret", "state", "store", "call_id", "runtime"), "x"
    )
    assert clean_arguments(injected, written) == {"city": "x"}


def test_injected_fields_of_a_model_are_left_out():
    modelled = StructuredTool.from_function(
        lambda **_: "", name="m", description="m", args_schema=InjectedModel
    )
    assert clean_arguments(
        modelled, dict.fromkeys(("city", "secret", "call_id"), "x")
    ) == {"city": "x"}
    assert find_problem(modelled, {"city": "x"}) is None


def test_injected_arguments_of_a_function_under_a_json_schema_are_left_out():
    def look(
        city: str, runtime: ToolRuntime, call_id: Annotated[str, InjectedToolCallId]
    ) -> str:
        """Look."""

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    looked = StructuredTool.from_function(look, args_schema=schema)
    assert clean_arguments(looked, {"city": "x", "runtime": 1, "call_id": "c"}) == {
        "city": "x"
    }


def test_missing_injected_arguments_are_no_problem():
    assert find_problem(injected, {"city": "Bern"}) is None


def test_arguments_of_the_model_itself_stay_even_where_unknown():
    assert clean_arguments(injected, {"city": "x", "extra": 1}) == {
        "city": "x",
        "extra": 1,
    }
