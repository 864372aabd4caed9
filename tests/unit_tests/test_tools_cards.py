from typing import Annotated, Any

import pytest
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
from pydantic import BaseModel

from langchain_tooltree import ToolCard, ToolLibrary
from langchain_tooltree.errors import ToolDefinitionError


class Weather(BaseModel):
    celsius: float


@tool
def forecast(
    city: str, user: Annotated[str, InjectedToolArg], days: int = 1
) -> Weather:
    """Forecast the weather."""


@tool
def note(text: str):
    """Write a note."""


class Horn(BaseTool):
    name: str = "horn"
    description: str = "Blow a horn."

    def _run(self):
        return "toot"


def test_a_card_is_derived_from_a_tool():
    card = ToolCard.from_tool(forecast)
    assert (card.name, card.description, card.domains, card.examples) == (
        "forecast",
        "Forecast the weather.",
        (),
        (),
    )
    assert set(card.input_schema["properties"]) == {"city", "days"}
    assert card.input_schema["required"] == ["city"]
    assert card.output_schema["properties"]["celsius"]["type"] == "number"
    tagged = StructuredTool.from_function(forecast.func, tags=["travel", "weather"])
    assert ToolCard.from_tool(tagged).domains == ("travel", "weather")

    async def count() -> int:
        """Count."""

    assert ToolCard.from_tool(
        StructuredTool.from_function(coroutine=count)
    ).output_schema == {"type": "integer"}


def returns_unknown():
    """Return."""


def returns_anything() -> Any:
    """Return."""


def returns_what_has_no_schema() -> Exception:
    """Return."""


def returns_a_name_nobody_knows() -> "Nowhere":  # noqa: F821 - the point of the test
    """Return."""


@pytest.mark.parametrize(
    "function",
    [
        returns_unknown,
        returns_anything,
        returns_what_has_no_schema,
        returns_a_name_nobody_knows,
    ],
)
def test_an_annotation_that_says_nothing_leaves_the_output_open(function):
    derived = StructuredTool.from_function(
        function, infer_schema=False, args_schema={"type": "object", "properties": {}}
    )
    assert ToolCard.from_tool(derived).output_schema is None


def test_what_a_user_says_on_a_card_wins_and_the_rest_stays():
    library = ToolLibrary(
        [forecast, note],
        [ToolCard("note", "", domains=("office",), examples=("note('hi')",))],
    )
    card = library.card("note")
    assert (card.description, card.domains, card.examples) == (
        "Write a note.",
        ("office",),
        ("note('hi')",),
    )
    assert set(card.input_schema["properties"]) == {"text"}
    replaced = ToolLibrary(
        [note],
        [ToolCard("note", "Keep it.", input_schema={"a": 1}, output_schema={"b": 2})],
    )
    assert replaced.card("note") == ToolCard(
        "note", "Keep it.", input_schema={"a": 1}, output_schema={"b": 2}
    )


def test_a_library_made_of_a_library_keeps_its_cards():
    library = ToolLibrary(ToolLibrary([note], [ToolCard("note", "Keep it.")]))
    assert library.card("note").description == "Keep it."


def test_a_library_is_a_sequence_of_tools():
    library = ToolLibrary([forecast, note])
    assert list(library) == [forecast, note]
    assert (len(library), library[0], library[-1], library.names) == (
        2,
        forecast,
        note,
        ("forecast", "note"),
    )
    assert (library.tool("note"), library.tool("other")) == (note, None)
    with pytest.raises(KeyError):
        library.card("other")


def test_a_card_shows_only_what_it_knows():
    assert ToolCard("a", "Do it.", examples=("x",)).to_dict() == {
        "name": "a",
        "description": "Do it.",
        "examples": ["x"],
    }


@pytest.mark.parametrize(
    ("tools", "cards", "message"),
    [
        ([], [], "There are no tools"),
        ([note, note], [], "Two tools are named 'note'"),
        ([max], [], "max cannot become a tool: "),
        (
            [lambda n: n],
            [],
            "<lambda> cannot become a tool: .*docstring.* Write a function with a name, a docstring",
        ),
        ([{"name": "note"}], [], "Expected a LangChain tool or a function, got dict"),
        ([Horn], [], "Expected a LangChain tool or a function"),
        ([note], [ToolCard("notes", "")], r"names notes, but the tools are note"),
    ],
)
def test_tools_that_cannot_be_used_together_are_refused(tools, cards, message):
    with pytest.raises(ToolDefinitionError, match=message):
        ToolLibrary(tools, cards)


def test_a_function_becomes_the_tool_that_an_agent_makes_of_it():
    def blow(n: int) -> str:
        """Blow a horn."""
        return f"{n} times"

    library = ToolLibrary([note, blow], [ToolCard("blow", "Blow it.")])

    assert library.names == ("note", "blow")
    assert library.tool("blow").invoke({"n": 2}) == "2 times"
    assert library.card("blow").description == "Blow it."


def test_a_card_takes_three_examples():
    assert len(ToolCard("a", "", examples=(1, 2, 3)).examples) == 3
    with pytest.raises(ToolDefinitionError, match="has 4 examples; keep the 3 best"):
        ToolCard("a", "", examples=(1, 2, 3, 4))
    for examples in ("look()", 7, None):
        look = StructuredTool.from_function(
            print, name="look", description="", metadata={"tooltree_examples": examples}
        )
        with pytest.raises(
            ToolDefinitionError,
            match="examples of 'look' must be a sequence of examples, got ",
        ):
            ToolCard.from_tool(look)


def test_what_says_nothing_of_an_output_is_left_out():
    @tool
    def read(name: str) -> str:
        """Read."""

    assert ToolCard.from_tool(read).output_schema == {"type": "string"}
    assert "output" not in ToolCard.from_tool(read).to_dict()
    assert "output" in ToolCard.from_tool(forecast).to_dict()


def test_a_library_knows_what_its_cards_say_beyond_the_tools():
    card = ToolCard(
        "note", "Write a note.", domains=("office",), examples=("note('hi')",)
    )
    library = ToolLibrary([forecast, note], [card])
    told = {"domains": ["office"], "examples": ["note('hi')"]}
    assert (library.additions("note"), library.additions("forecast")) == (told, {})
    again = ToolLibrary(library, [ToolCard("note", "Keep it.", input_schema={"a": 1})])
    assert again.additions("note") == {**told, "description": "Keep it."}
    assert (
        ToolLibrary(
            [forecast, note], [library.card(name) for name in library.names]
        ).additions("note")
        == told
    )
