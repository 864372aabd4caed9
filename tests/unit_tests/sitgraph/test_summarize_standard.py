"""The tool summarize_state passes the standard tests for tools of LangChain, in each of its forms."""

from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from library_desk import RENEWABLE, desk_graph

from langchain_tooltree import create_summarize_state_tool
from langchain_tooltree.testing import ScriptedChatModel


class Alone:
    """The agent writes the summary."""

    @property
    def tool_constructor(self):
        return create_summarize_state_tool()

    @property
    def tool_invoke_params_example(self):
        return {"summary": RENEWABLE}


class WithAGraph(Alone):
    """It gets suggestions for it."""

    @property
    def tool_constructor(self):
        return create_summarize_state_tool(desk_graph())


class WithAModel:
    """A model writes it."""

    @property
    def tool_constructor(self):
        return create_summarize_state_tool(
            desk_graph(), model=ScriptedChatModel(replies=[RENEWABLE])
        )

    @property
    def tool_invoke_params_example(self):
        return {"next_step": "Renew it."}


class TestAlone(Alone, ToolsUnitTests):
    """Its form."""


class TestAloneInUse(Alone, ToolsIntegrationTests):
    """Its use."""


class TestWithAGraph(WithAGraph, ToolsUnitTests):
    """Its form."""


class TestWithAGraphInUse(WithAGraph, ToolsIntegrationTests):
    """Its use."""


class TestWithAModel(WithAModel, ToolsUnitTests):
    """Its form."""


class TestWithAModelInUse(WithAModel, ToolsIntegrationTests):
    """Its use."""
