"""SITGraphNode: suggestions from past runs as a LangGraph node, in front of the model node of a graph of your own."""

from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tooltree.conversation import conversation
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.sitgraph.drift import Tools, toolset_of
from langchain_tooltree.sitgraph.hints import DEFAULT_K, Suggester
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.streaming import current_writer


class SITGraphNode(Runnable[Any, dict[str, list[dict[str, Any]]]]):
    """Writes into the state which tools came next in past runs, for the model node after it.

    ```python
    class State(MessagesState):
        suggestions: list[dict]

    def call_model(state: State):
        prompt = with_suggestions(state["messages"], state["suggestions"])
        return {"messages": [model.bind_tools(tools).invoke(prompt)]}

    graph.add_node("suggest", SITGraphNode(sit_graph, tools=tools))
    graph.add_edge(START, "suggest")
    graph.add_edge("suggest", "model")
    graph.add_edge("tools", "suggest")
    ```

    The messages stay as they are. Where `summarize_state` was called since the last other tool, the suggestions are
    those for the state that was described; otherwise they go by the course of the dialogue, without a model call. Each
    is also an event: `{"type": "suggest", ...}` in `stream_mode="custom"`.

    Args:
        graph: Knows what came next in past runs.
        k: How many tools to suggest at the most.
        tools: The tools that the model has, or their names. Others are not suggested.
        messages_key: Where in the state the conversation stands.
        suggestions_key: Where in the state the suggestions go.

    Raises:
        ConfigurationError: If an argument is invalid.
    """

    def __init__(
        self,
        graph: SITGraph,
        *,
        k: int = DEFAULT_K,
        tools: Tools | None = None,
        messages_key: str = "messages",
        suggestions_key: str = "suggestions",
    ) -> None:
        self.name = "SITGraphNode"
        self._suggester = Suggester(graph, k)
        self._tools = None if tools is None else list(tools)
        toolset_of(self._tools or ())  # what is no tool is told now, and not at every step
        self._messages_key = messages_key
        self._suggestions_key = suggestions_key

    def invoke(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,  # noqa: ARG002 - part of the interface
        **_: Any,
    ) -> dict[str, list[dict[str, Any]]]:
        """Suggest what to call next.

        Args:
            input: The graph state, a mapping or an object, or just a list of messages.
            config: Run configuration, supplied by LangGraph.

        Returns:
            The suggestions as plain data under `suggestions_key`, best first; an empty list if there are none.
        """
        return run_flow(self._suggest(input))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,  # noqa: ARG002 - part of the interface
        **_: Any,
    ) -> dict[str, list[dict[str, Any]]]:
        """The async twin of `invoke`."""
        return await arun_flow(self._suggest(input))

    def _suggest(self, state: Any) -> Flow[dict[str, list[dict[str, Any]]]]:
        messages = conversation(state, self._messages_key)
        suggestions = yield from self._suggester.suggest(messages, allowed=self._tools, writer=current_writer())
        return {self._suggestions_key: [suggestion.to_dict() for suggestion in suggestions]}
