"""The toolbox: what is chosen, what is left out, and that each tool is one that any host understands."""

import logging
from pathlib import Path

import pytest
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_tooltree import ConfigurationError, ToolLibrary
from langchain_tooltree.errors import MissingExtraError
from langchain_tooltree.toolbox import toolbox
from langchain_tooltree.toolbox.library import TOOL_TABLE
from tests.unit_tests.toolbox.conftest import SERVICES, model_that_says

NAMES = [name for _, name, *_ in TOOL_TABLE]
GUIDE = Path(__file__).parents[3] / "cookbook" / "docs" / "how-to" / "toolbox.md"


@pytest.fixture(scope="module")
def everything(files):
    return toolbox(folder=files, vision=model_that_says(), **SERVICES)


class TestEachTool(ToolsUnitTests):
    """LangChain's own tests, over all tools, with the card's first example."""

    @property
    def tool_constructor(self):
        return toolbox("convert_units").tool("convert_units")

    @property
    def tool_invoke_params_example(self):
        return dict(self.card.examples[0])

    @pytest.fixture(params=NAMES)
    def tool(self, everything, request):
        self.card = everything.card(request.param)
        return everything.tool(request.param)


def test_all_of_them_are_fifteen_reads_with_cards(everything):
    assert isinstance(everything, ToolLibrary)
    assert everything.left_out == {}
    assert everything.names == tuple(NAMES)
    assert len(NAMES) == 15
    assert everything.effects == dict.fromkeys(NAMES, "read")
    for name in NAMES:
        card = everything.card(name)
        assert card.domains
        assert len(card.description) > 20
        properties = card.input_schema["properties"]
        assert [
            field for field in properties.values() if not field["description"]
        ] == []
        assert not {"folder", "vision", "seconds", *SERVICES} & set(properties)
        for example in card.examples:
            everything.tool(name).get_input_schema()(**example)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("math", "no tool 'math' in the toolbox. Domains: maths, units"),
        (["maths", "units"], r"no tool \['maths', 'units'\] in the toolbox"),
    ],
)
def test_an_unknown_domain_is_refused_with_those_there_are(domain, message):
    with pytest.raises(ConfigurationError, match=message):
        toolbox(domain)


def test_the_guide_names_the_arguments_of_each_tool(everything):
    text = GUIDE.read_text()
    for name in NAMES:
        schema = everything.card(name).input_schema
        need = [
            key for key in schema["properties"] if key in schema.get("required", ())
        ]
        may = [
            f"{key}={each.get('default')!r}"
            for key, each in schema["properties"].items()
            if key not in need
        ]
        assert f"`{name}({', '.join([*need, *may])})`" in text


def test_what_lacks_something_is_left_out_and_logged_once(caplog):
    with caplog.at_level(logging.WARNING):
        box = toolbox("tables", "maths")
    assert box.left_out == {
        "describe_tables": "describe_tables needs folder=.",
        "query_tables": "query_tables needs folder=.",
    }
    assert len(caplog.records) == 1
    assert "query_tables needs folder=." in caplog.text


def test_what_lacks_something_is_refused_where_it_is_named():
    with pytest.raises(ConfigurationError, match="query_tables needs folder="):
        toolbox("query_tables")
    with pytest.raises(ConfigurationError, match="ask_image needs vision=, folder="):
        toolbox("ask_image")
    with pytest.raises(
        ConfigurationError,
        match="None of these tools can be used: search_encyclopaedia needs ency",
    ):
        toolbox("knowledge")


def test_a_missing_package_names_its_remedy(monkeypatch):
    monkeypatch.setattr(
        "langchain_tooltree.toolbox.library.find_spec",
        lambda name: None if name == "sympy" else name,
    )
    assert list(toolbox("maths", "units").left_out) == ["calculator", "solve_equations"]
    with pytest.raises(
        MissingExtraError,
        match=r"needs sympy: pip install 'langchain-tooltree\[toolbox\]'",
    ):
        toolbox("calculator")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": "/no/such/folder"}, "folder must be a folder"),
        ({"folder": ""}, "folder must be a folder"),
        ({"seconds": 0}, "seconds must be"),
        ({"wikidata": "query.wikidata.org"}, "wikidata must be the address"),
        ({"vision": 7}, "must be a chat model"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        toolbox("maths", **settings)
