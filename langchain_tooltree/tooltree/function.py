"""search(): a request answered by the planner, without an agent of one's own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from langchain_core.callbacks import Callbacks
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, EmptyQueryError
from langchain_tooltree.events import Event
from langchain_tooltree.experience.guide import Learner
from langchain_tooltree.flows import Flow, TwinStep, async_twin, current_runtime, driven
from langchain_tooltree.tools import ToolLibrary, with_sync_form
from langchain_tooltree.tooltree.branches import KEY
from langchain_tooltree.tooltree.host import PlannerOptions
from langchain_tooltree.tooltree.node import ToolTreeNode, mark_in
from langchain_tooltree.tooltree.result import SearchResult, made_since, result_of_path, search_result

Query = str | BaseMessage | Sequence[BaseMessage | dict[str, Any] | tuple[str, str]]
"""A request, or a conversation in any form that LangChain understands."""

MODEL, TOOLS = "model", "tools"

MOST_STEPS = 100
"""Super-steps of a search at the most, two for each call of the model: more than a request takes, unless the model has
lost its way."""


@driven
def search(
    query: Query,
    tools: Iterable[BaseTool | Callable[..., Any]],
    *,
    model: str | BaseChatModel,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    experience: Learner | None = None,
    **options: Unpack[PlannerOptions],
) -> Flow[SearchResult]:
    """Answer a request with the planner; calls that may change something are left to you.

    It is a graph of a `ToolTreeNode` and a tools node. The model's own steps and the reads that the search tries are
    run; where the model makes a call that is not declared a read, the search ends, and the call waits.

    Args:
        query: The request, or a conversation.
        tools: LangChain tools or functions, or a `ToolLibrary` with cards.
        model: A chat model with tool calling, or a name for `init_chat_model`.
        judge: Scores candidates before they run, and checks answers: a chat model, the name of one, or a function. The
            model's own report if left out.
        post_judge: Scores what calls brought back, and checks answers; the judge if left out.
        config: The settings. With `selection` other than `"doubt"`, a deep search plans before anything is answered.
        effects: Which tools only `"read"`, or, by a function of the arguments, which of their calls do: see `sql_reads`
            in `langchain_tooltree.effects`. Pairs are taken, too, so that a tool itself can be named. Every other call
            is a `"write"`, which a search never makes by itself.
        sandbox: A world that can be forked, in which writes are tried before they are made.
        prompts: What judges and deep searches ask models, where it differs from the default `Prompts`.
        record_searches: A folder in which each search leaves a file, for `langchain-tooltree view`. It holds the
            request and all results; the latest 1,000 files are kept.
        on_event: Called with every progress event, on the thread that searches.
        callbacks: LangChain callback handlers.
        experience: What was done before, as an `Experience` keeps it: it speaks where there is doubt, and a search that
            ends in an answer is kept in it.

    Returns:
        The calls made with their results, the tree, the cost, and the answer unless a write has to be carried out
        first.

    Raises:
        ConfigurationError: If the parts do not fit together.
        EmptyQueryError: If there is no request.
    """
    if isinstance(query, Mapping) or not isinstance(query, str | BaseMessage | Sequence):
        msg = f"query must be a text, a message or a list of messages, got {type(query).__name__} {query!r:.80}."
        raise ConfigurationError(msg)
    messages = Conversation([query] if isinstance(query, str | BaseMessage) else query).messages
    if not Conversation(messages).goal:
        msg = "There is nothing to plan for: pass a request, or a conversation with a user message."
        raise EmptyQueryError(msg)
    library = ToolLibrary(tools)
    node = ToolTreeNode(model, library, experience=experience, sinks=[on_event] if on_event else (), **options)
    graph = _compiled(node, library)
    config: RunnableConfig = {"callbacks": callbacks} if callbacks else {}
    if current_runtime() is None:  # inside a graph, its own limit holds
        config["recursion_limit"] = MOST_STEPS
    state: Any = {"messages": list(messages)}
    end = yield TwinStep(partial(graph.invoke, state, config), partial(graph.ainvoke, state, config))
    last = end["messages"][-1]
    searched = isinstance(last, AIMessage) and "search" in (last.response_metadata.get(KEY) or {})
    result = search_result(last) if searched else result_of_path(end["messages"], node.is_read, mark_in([last]).plan)
    is_deep = (config_given := options.get("config")) is not None and config_given.is_deep
    return result if is_deep else made_since(result, messages, end["messages"])


asearch = async_twin(search)
"""`search`, to be awaited."""


def _compiled(node: ToolTreeNode, library: ToolLibrary) -> Any:
    """The graph of a search: it ends where a call waits that is not declared a read."""

    def route(state: MessagesState) -> str:
        reply = state["messages"][-1]
        calls = reply.tool_calls if isinstance(reply, AIMessage) else []
        return TOOLS if calls and all(node.is_read(call["name"], call["args"]) for call in calls) else END

    graph = StateGraph(MessagesState)
    graph.add_node(MODEL, node)
    graph.add_node(TOOLS, ToolNode([*map(with_sync_form, library)], handle_tool_errors=True))
    graph.add_edge(START, MODEL)
    graph.add_conditional_edges(MODEL, route, [TOOLS, END])
    graph.add_edge(TOOLS, MODEL)
    return graph.compile(name="tooltree.search")
