"""Suggestions for a running conversation: as a LangGraph node, and as text at the end of a system prompt."""

import logging
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tooltree.conversation import Conversation, visible_path
from langchain_tooltree.errors import ConfigurationError, check_count, described
from langchain_tooltree.experience.guide import LEAST_SHARE, Learner, hints
from langchain_tooltree.experience.recorder import RunRecorder
from langchain_tooltree.experience.run_identity import USERS, GivenTools, labels_in, names_of
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.flows import Flow, Writer, async_twin, current_writer, driven, emit, flow_of
from langchain_tooltree.models import extended
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.suggest import Suggestion, plain
from langchain_tooltree.sitgraph.transitions import moment_of

logger = logging.getLogger(__name__)


def with_suggestions(
    messages: Sequence[BaseMessage], suggestions: Sequence[Suggestion | Mapping[str, Any]]
) -> list[BaseMessage]:
    """A prompt with suggestions in it, for the model node of a graph of your own; see `SITGraphNode`.

    The suggestions are what a `SITGraphNode` has written or `SITGraph.suggest` returned. They stand at the end of the
    system message of a new list, which is made if there is none. Without suggestions, these are the same messages.
    """
    text = hints(map(plain, suggestions))
    if not text:
        return list(messages)
    system = messages[0] if messages and isinstance(messages[0], SystemMessage) else None
    return [extended(system, text), *messages[0 if system is None else 1 :]]


def figures_of(suggestions: Sequence[Suggestion]) -> list[dict[str, Any]]:
    """Suggestions as they are noted in a record: without the words of other runs, which are erased with these."""
    return [{"tool": each.tool, "share": round(each.score, 2), "runs": each.support} for each in suggestions]


DEFAULT_K = 2  # tools that are suggested, as in the paper


class GraphOfEach(Learner, Protocol):
    """What has a graph for each namespace, such as an `Experience`: what one user did is suggested to no other."""

    def graph_here(self) -> Flow[SITGraph]:
        """The graph of the namespace of the running graph, as a flow; `ConfigurationError` if it is not known."""

    def judged_by(self, verdict: AnyVerdict) -> Self:
        """The same with this verdict."""


@dataclass(frozen=True, slots=True)
class Suggester:
    """Suggests the next tool of a running conversation."""

    graph: SITGraph | GraphOfEach
    k: int = DEFAULT_K

    def __post_init__(self) -> None:
        if not isinstance(self.graph, SITGraph) and not callable(getattr(self.graph, "graph_here", None)):
            msg = (
                f"graph must be a SITGraph or an Experience, got {self.graph!r:.80}. "
                "Make one: SITGraph.from_trajectories(...)."
            )
            raise ConfigurationError(msg)
        check_count("k", self.k)

    def suggest(
        self,
        messages: Sequence[Any] | Conversation,
        *,
        allowed: GivenTools | None = None,
        summary: str | None = None,
        writer: Writer | None = None,
    ) -> Flow[list[Suggestion]]:
        """Suggest what to call next. It is only a hint: if none can be made, that is logged and not raised."""
        graph = self.graph if isinstance(self.graph, SITGraph) else (yield from self.graph.graph_here())
        try:
            dialogue = Conversation.of(messages).chat
            moment, written = moment_of(dialogue)
            last_tool = moment.last_tool or None
            suggestions = yield from flow_of(graph.suggest)(
                last_tool, state=summary or written, messages=dialogue, k=self.k, allowed=allowed
            )
            # The paper, which has no contextual mode, tells the top two whatever their shares.
            suggestions = [each for each in suggestions if each.mode != "contextual" or each.score >= LEAST_SHARE]
        except Exception as error:  # noqa: BLE001 - the embedder may be down, and the agent can do without
            logger.warning("No tool could be suggested: %s", described(error))
            return []
        if suggestions:
            given = [suggestion.to_dict() for suggestion in suggestions]
            yield from emit([{"type": "suggest", "last_tool": last_tool, "suggestions": given}], writer)
        return suggestions


def learn_run(graph: SITGraph, recorder: RunRecorder, messages: Sequence[BaseMessage], runtime: Any) -> Flow[None]:
    """Have a run judged that has come to its end, and let a graph learn from it that all users share."""
    trajectory = recorder.trajectory(messages, runtime)
    judged = yield from recorder.judge(trajectory, next(reversed(messages), None))
    if not labels_in(None, USERS):
        yield from flow_of(graph.learn)(judged)
    elif graph not in _WARNED:
        _WARNED.add(graph)
        logger.warning(
            "A SITGraph is shared by all users, so it learns nothing from runs of one who is known. Pass an "
            "Experience, which has a graph for each; with namespace=('tooltree',), all share that."
        )


_WARNED: "weakref.WeakSet[SITGraph]" = weakref.WeakSet()


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

    Where `summarize_state` was called since the last other tool, the suggestions are those for the state that was
    described; otherwise they go by the course of the dialogue, without a model call. Beside a `ToolTreeNode`, that is
    the path that the model sees, and the node finds the suggestions in the state by itself. Each is also an event:
    `{"type": "suggest", ...}` in `stream_mode="custom"`.

    Args:
        graph: Knows what came next in past runs: a `SITGraph`, which all users of this node share, or an `Experience`,
            whose graph is that of the user whom the running graph is for.
        k: How many tools to suggest at the most.
        tools: The tools that the model has, or their names. Others are not suggested.
        messages_key: Where in the state the conversation stands.
        suggestions_key: Where in the state the suggestions go.
    """

    def __init__(
        self,
        graph: SITGraph | GraphOfEach,
        *,
        k: int = DEFAULT_K,
        tools: GivenTools | None = None,
        messages_key: str = "messages",
        suggestions_key: str = "suggestions",
    ) -> None:
        self.name = "SITGraphNode"
        self._suggester = Suggester(graph, k)
        self._tools = None if tools is None else list(tools)
        names_of(self._tools or ())  # raises now for what is no tool, and not at every step
        self._messages_key = messages_key
        self._suggestions_key = suggestions_key

    @driven
    def invoke(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,  # noqa: ARG002 - part of the interface
        **_: Any,
    ) -> Flow[dict[str, list[dict[str, Any]]]]:
        """Suggest what to call next, for a graph state or just a list of messages.

        Returns:
            The suggestions as plain data under `suggestions_key`, best first; an empty list if there are none.
        """
        path = visible_path(input, key=self._messages_key)
        suggestions = yield from self._suggester.suggest(path, allowed=self._tools, writer=current_writer())
        return {self._suggestions_key: [suggestion.to_dict() for suggestion in suggestions]}

    ainvoke = async_twin(invoke)  # type: ignore[arg-type] # mypy takes `self` from the declaration in Runnable
