"""The toolbox: what is chosen, what is left out, and that each tool is one that any host understands."""

import logging
from pathlib import Path

import pytest
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_tooltree import ConfigurationError, ToolLibrary
from langchain_tooltree.errors import MissingExtraError
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.toolbox import toolbox
from tests.internals.toolbox import all_entries
from tests.unit_tests.toolbox.conftest import SERVICES

NAMES = list(all_entries())
GUIDE = Path(__file__).parents[3] / "cookbook" / "docs" / "how-to" / "toolbox.md"


@pytest.fixture(scope="module")
def everything(files):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("langchain_tooltree.toolbox.entries.which", lambda name: name)
        model = ScriptedChatModel(replies=[])
        return toolbox(folder=files, model=model, vision=model, search=str.upper, **SERVICES)


class TestEachTool(ToolsUnitTests):
    """LangChain's own tests, over all tools, with the card's first example."""

    @property
    def tool_constructor(self):
        return toolbox("count_words").tool("count_words")

    @property
    def tool_invoke_params_example(self):
        return dict(self.card.examples[0])

    @pytest.fixture(params=NAMES)
    def tool(self, everything, request):
        self.card = everything.card(request.param)
        return everything.tool(request.param)


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_goes_in_and_how(everything, name):
    card = everything.card(name)
    assert card.domains
    assert len(card.examples) <= 3
    assert len(card.description) > 20
    assert all(field["description"] for field in card.input_schema["properties"].values())
    assert not {"folder", "vision", "model", "run", "seconds", *SERVICES} & set(card.input_schema["properties"])
    for example in card.examples:
        everything.tool(name).get_input_schema()(**example)


def test_all_of_them_are_more_than_thirty_reads(everything):
    assert isinstance(everything, ToolLibrary)
    assert everything.left_out == {}
    assert len(everything) == len(NAMES) > 30
    assert everything.effects == dict.fromkeys(NAMES, "read")


def test_a_domain_brings_its_tools_and_a_name_one():
    assert set(toolbox("math", "calculator").names) == set(toolbox("maths").names)
    assert toolbox("convert_units", "calculator").names == ("convert_units", "calculator")


def test_an_unknown_domain_is_refused_with_the_nearest():
    with pytest.raises(ConfigurationError, match=r"'txt'.*Did you mean 'text'"):
        toolbox("txt")
    with pytest.raises(ConfigurationError, match="Did you mean 'calculator'"):
        toolbox("maths", "calculater")
    with pytest.raises(ConfigurationError, match=r'Write toolbox\("maths", "units"\)'):
        toolbox(["maths", "units"])


def test_a_library_says_what_it_is():
    assert repr(toolbox("text", "units")) == "<Toolbox: 8 tools of text, units, 1 left out>"
    assert repr(ToolLibrary([abs_of])) == "<ToolLibrary: 1 tool>"


def abs_of(number: float) -> float:
    """A number without its sign."""
    return abs(number)


def test_the_guide_names_the_arguments_of_each_tool(everything):
    said = GUIDE.read_text()
    for name in NAMES:
        schema = everything.card(name).input_schema
        need = [key for key in schema["properties"] if key in schema.get("required", ())]
        may = [f"{key}={each.get('default')!r}" for key, each in schema["properties"].items() if key not in need]
        assert f"`{name}({', '.join([*need, *may])})`" in said


def test_what_lacks_something_is_left_out_and_said_once(caplog):
    with caplog.at_level(logging.WARNING):
        box = toolbox("text", "tables", "maths")
    assert box.left_out == {
        "summarise_text": "needs model=",
        "describe_tables": "needs folder=",
        "query_tables": "needs folder=",
    }
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "query_tables (needs folder=)" in caplog.text


def test_what_lacks_something_is_refused_where_it_is_named(files):
    with pytest.raises(ConfigurationError, match="query_tables needs folder"):
        toolbox("query_tables")
    with pytest.raises(ConfigurationError, match=r"toolbox\('caption_image', folder=\.\.\., vision=\.\.\.\)"):
        toolbox("caption_image")
    with pytest.raises(ConfigurationError, match="ask_wolfram_alpha needs wolfram="):
        toolbox("ask_wolfram_alpha", wolfram="")
    with pytest.raises(ConfigurationError, match=r"None of these tools can be used: search_web: needs search="):
        toolbox("knowledge")


def test_a_missing_package_or_program_names_its_remedy(files, monkeypatch):
    monkeypatch.setattr("langchain_tooltree.toolbox.entries.find_spec", lambda name: None)
    assert toolbox("maths").left_out["calculator"] == "needs the package sympy"
    with pytest.raises(MissingExtraError, match=r"pip install 'langchain-tooltree\[toolbox\]'"):
        toolbox("calculator")
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="needs the program tesseract"):
        toolbox("read_image_text", folder=files)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"folder": "/no/such/folder"}, "folder must be a folder"),
        ({"folder": ""}, "folder must be a folder"),
        ({"search": "https://example.org"}, "search must be a function"),
        ({"seconds": 0}, "seconds must be"),
        ({"seconds": True}, "seconds must be"),
        ({"wikidata": "query.wikidata.org"}, "wikidata must be the address"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(settings, said):
    with pytest.raises(ConfigurationError, match=said):
        toolbox("maths", **settings)
