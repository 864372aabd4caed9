"""The planner as a LangGraph node, in place of the model node of a ReAct graph; and `search`, a graph around it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Unpack, cast

from langchain_core.callbacks import Callbacks
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langchain_tooltree.errors import ConfigurationError, EmptyQueryError
from langchain_tooltree.events import Event
from langchain_tooltree.experience.guide import Learner, checked_experience, hints
from langchain_tooltree.flows import CallStep, arun_flow, run_flow
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import looks_like_reference, remark_reference
from langchain_tooltree.messages.visible_messages import SEARCH_STATE_KEY
from langchain_tooltree.models import bind_tools, extended, quiet, resolve_model
from langchain_tooltree.streaming import EventSink, get_current_runtime
from langchain_tooltree.text import get_mapping
from langchain_tooltree.tools import ToolLibrary, check_effects
from langchain_tooltree.tooltree.branches import KEY, Mark, VisitResult
from langchain_tooltree.tooltree.deep import with_sync_form
from langchain_tooltree.tooltree.gate import gated
from langchain_tooltree.tooltree.host import Planner, PlannerHost, PlannerOptions
from langchain_tooltree.tooltree.planner import guide_of, keep_turn, visit
from langchain_tooltree.tooltree.result import (
    SearchResult,
    result_of_path,
    search_result,
)


class ToolTreeNode(Runnable[Any, dict[str, list[BaseMessage]]]):
    """Asks the model for the next step, and searches on where its answer is doubtful.

    Put it where the model node of a ReAct graph stands; `tools_condition` and the tools node stay as they are. It
    returns the agent's own step, a call of the search, or the answer, with the removal of branches that led nowhere.
    The state has to hold messages by `add_messages`, as `MessagesState` does; with another reducer, which cannot
    remove messages, the model's answers are taken as they are.

    ```python
    graph.add_node("model", ToolTreeNode(model, tools, effects={"search_flights": "read"}))
    ```

    Args:
        model: A chat model with tool calling, or a name for `init_chat_model`.
        tools: LangChain tools or functions, or a `ToolLibrary` with cards.
        **options: As for `search`.
        system_prompt: The agent's own system prompt, put before the conversation.
        messages_key: Where in the state the conversation stands.
        suggestions_key: Where in the state a `SITGraphNode` before this one leaves its suggestions, if there is one.
        recalled_key: Where in the state a `CFGMRecallNode` before this one leaves what it recalled, if there is one.
        experience: What the agent has been through, as an `Experience` keeps it: it speaks where there is doubt, and a
            turn is kept in it when it ends here, in an answer.
        sinks: Functions that are called with every progress event.

    Raises:
        ConfigurationError: If the parts do not fit together; the message names the value and the remedy.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        tools: Iterable[BaseTool | Callable[..., Any]],
        *,
        system_prompt: str | None = None,
        messages_key: str = "messages",
        suggestions_key: str = "suggestions",
        recalled_key: str = "recalled",
        experience: Learner | None = None,
        sinks: Sequence[EventSink] = (),
        **options: Unpack[PlannerOptions],
    ) -> None:
        self.name = "ToolTreeNode"
        self._planner = Planner(**options)
        library = ToolLibrary(tools)
        check_effects(library, self._planner.effects, self._planner.bound_tools)
        self._offering = self._planner.offering(library)
        self._keys = messages_key, suggestions_key, recalled_key
        self._system = SystemMessage(system_prompt) if system_prompt else None
        self._experience = checked_experience(experience)
        self._sinks = sinks
        self._model = resolve_model(model)
        self._models = tuple(
            bind_tools(each, list(library))
            for each in (gated(self._model), quiet(self._model))
        )

    @property
    def tools_by_name(self) -> Mapping[str, BaseTool]:
        """The tools that the model is offered; a picture of the graph names them, as those of a `ToolNode`."""
        return {tool.name: tool for tool in self._offering.tools}

    def is_read(self, name: str, args: Any) -> bool:
        """Whether a call only reads."""
        return self._offering.effects.of(name, args) == "read"

    def invoke(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Make the next step of a conversation: a graph state, a mapping or an object, or just a list of messages.

        Returns the update of the state, under `messages_key`. Raises `EmptyQueryError` if the state has no such key.
        """
        return run_flow(self.invoke_flow(input, config, **_))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Async version of `invoke`."""
        return await arun_flow(self.invoke_flow(input, config, **_))

    async def invoke_flow(
        self,
        input: Any,  # noqa: A002 - the name in Runnable
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Flow of `invoke` and `ainvoke`; other flows await it."""
        key = self._keys[0]
        values = self._values(input)
        conversation = Conversation.of(values, key)
        messages = conversation.messages
        mark = mark_in(messages)
        branches = self._planner.branches(messages, mark, self._offering)
        host = _NodeHost(
            self._planner,
            self._offering,
            guide=partial(guide_of, self._experience, messages)
            if self._experience
            else None,
            sinks=self._sinks,
            model=self._model,
            system=self._system,
            state=values,
            messages_key=key,
            models=self._models,
            config=config or {},
            bare=self._instructions(values),
            line=self._planner.report_prompt(self._system, self._offering),
        )
        outcome = await visit(host, branches)
        update = _update(messages, outcome, host.reply)
        if self._experience is not None and not update[-1].tool_calls:
            await keep_turn(
                self._experience, [*branches.path(), update[-1]], outcome.ended, host
            )
        return {key: update}

    def _values(self, state: Any) -> Mapping[str, Any]:
        key, *_ = self._keys
        if isinstance(state, list):
            return {key: state}
        values = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
        if key not in values:
            msg = f"The state has no {key!r}, only {', '.join(values)}: see messages_key=."
            raise EmptyQueryError(msg)
        return values

    def _instructions(self, values: Mapping[str, Any]) -> SystemMessage | None:
        """The system prompt with what a `SITGraphNode` suggests, and what a `CFGMRecallNode` has recalled."""
        _, suggestions_key, recalled_key = self._keys
        system, recalled, suggested = (
            self._system,
            values.get(recalled_key),
            values.get(suggestions_key),
        )
        suggestions = (
            [each for each in suggested if self._is_suggestion(each)]
            if isinstance(suggested, list | tuple)
            else []
        )
        if isinstance(recalled, str) and looks_like_reference(recalled):
            system = extended(system, remark_reference(recalled, source="memory"))
        return extended(system, hints(suggestions)) if suggestions else system

    def _is_suggestion(self, entry: Any) -> bool:
        """Whether a state holds a suggestion of a tool that is there: anybody may write a state."""
        match entry:
            case {"tool": str(tool), "support": int(), "of": int()}:
                return tool in self._offering.names
        return False


@dataclass(slots=True)
class _NodeHost(PlannerHost):
    """Asks the node's own model."""

    models: tuple[Any, ...] = ()
    config: RunnableConfig = field(default_factory=RunnableConfig)
    bare: SystemMessage | None = None

    async def ask(
        self, messages: Sequence[BaseMessage], *, line: str = "", silent: bool = True
    ) -> AIMessage:
        """The model with its tools."""
        shown, quiet_model = self.models
        model = quiet_model if silent else shown
        system = self.instructions_for(self.bare, messages)
        system = extended(system, line) if line else system
        prompt = [*([system] if system else ()), *messages]
        ask, aask = (
            partial(model.invoke, prompt, self.config),
            partial(model.ainvoke, prompt, self.config),
        )
        return cast("AIMessage", (await CallStep(ask, aask)))


def mark_in(messages: Sequence[BaseMessage]) -> Mark:
    """The mark that the newest message of the model's holds."""
    newest = next(
        (message for message in reversed(messages) if isinstance(message, AIMessage)),
        None,
    )
    return (
        Mark.from_dict(_notes(newest).get(SEARCH_STATE_KEY))
        if newest is not None
        else Mark()
    )


def _notes(message: BaseMessage) -> Mapping[str, Any]:
    return get_mapping(message.response_metadata, KEY)


def _update(
    messages: Sequence[BaseMessage], outcome: VisitResult, own: AIMessage
) -> list[Any]:
    """The messages to add, to remove, and to put back without their marks once a search is over."""
    message = own if outcome.message is None else outcome.message
    if outcome.mark is not None and (mark := outcome.mark.to_dict()):
        metadata = {
            **message.response_metadata,
            KEY: {**_notes(message), SEARCH_STATE_KEY: mark},
        }
        return [
            *outcome.before,
            message.model_copy(update={"response_metadata": metadata}),
        ]
    abandoned = set(outcome.remove)
    bare = [
        _without_mark(each)
        for each in messages
        if each.id not in abandoned and SEARCH_STATE_KEY in _notes(each)
    ]
    return [
        *(RemoveMessage(id=each) for each in outcome.remove),
        *bare,
        *outcome.before,
        message,
    ]


def _without_mark(message: BaseMessage) -> BaseMessage:
    rest = {
        key: value for key, value in _notes(message).items() if key != SEARCH_STATE_KEY
    }
    others = {
        key: value for key, value in message.response_metadata.items() if key != KEY
    }
    return message.model_copy(
        update={"response_metadata": {**others, KEY: rest} if rest else others}
    )


# --- search() ---

Query = str | BaseMessage | Sequence[BaseMessage | dict[str, Any] | tuple[str, str]]
"""A request, or a conversation in any form that LangChain understands."""

MAX_SEARCH_STEPS = 100
"""Super-steps of a search at the most, two for each call of the model: more than a request takes, unless the model has
lost its way."""


def search(
    query: Query,
    tools: Iterable[BaseTool | Callable[..., Any]],
    *,
    model: str | BaseChatModel,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    experience: Learner | None = None,
    **options: Unpack[PlannerOptions],
) -> SearchResult:
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
    return run_flow(
        search_flow(
            query,
            tools,
            model=model,
            on_event=on_event,
            callbacks=callbacks,
            experience=experience,
            **options,
        )
    )


async def asearch(
    query: Query,
    tools: Iterable[BaseTool | Callable[..., Any]],
    *,
    model: str | BaseChatModel,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    experience: Learner | None = None,
    **options: Unpack[PlannerOptions],
) -> SearchResult:
    """Async version of `search`."""
    return await arun_flow(
        search_flow(
            query,
            tools,
            model=model,
            on_event=on_event,
            callbacks=callbacks,
            experience=experience,
            **options,
        )
    )


async def search_flow(
    query: Query,
    tools: Iterable[BaseTool | Callable[..., Any]],
    *,
    model: str | BaseChatModel,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    experience: Learner | None = None,
    **options: Unpack[PlannerOptions],
) -> SearchResult:
    """Flow of `search` and `asearch`; other flows await it."""
    if isinstance(query, Mapping) or not isinstance(
        query, str | BaseMessage | Sequence
    ):
        msg = f"query must be a text, a message or a list of messages, got {type(query).__name__} {query!r:.80}."
        raise ConfigurationError(msg)
    messages = Conversation(
        [query] if isinstance(query, str | BaseMessage) else query
    ).messages
    if not Conversation(messages).goal:
        msg = "There is nothing to plan for: pass a request, or a conversation with a user message."
        raise EmptyQueryError(msg)
    library = ToolLibrary(tools)
    node = ToolTreeNode(
        model,
        library,
        experience=experience,
        sinks=[on_event] if on_event else (),
        **options,
    )
    graph = _compile_search_graph(node, library)
    config: RunnableConfig = {"callbacks": callbacks} if callbacks else {}
    if get_current_runtime() is None:  # inside a graph, its own limit holds
        config["recursion_limit"] = MAX_SEARCH_STEPS
    state: Any = {"messages": list(messages)}
    end = await CallStep(
        partial(graph.invoke, state, config), partial(graph.ainvoke, state, config)
    )
    last = end["messages"][-1]
    searched = isinstance(last, AIMessage) and "search" in (
        last.response_metadata.get(KEY) or {}
    )
    return (
        search_result(last)
        if searched
        else result_of_path(end["messages"], node.is_read, mark_in([last]).plan)
    )


"""`search`, to be awaited."""


def _compile_search_graph(node: ToolTreeNode, library: ToolLibrary) -> Any:
    """The graph of a search: it ends where a call waits that is not declared a read."""

    def route(state: MessagesState) -> str:
        reply = state["messages"][-1]
        calls = reply.tool_calls if isinstance(reply, AIMessage) else []
        return (
            "tools"
            if calls and all(node.is_read(call["name"], call["args"]) for call in calls)
            else END
        )

    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.add_node(
        "tools", ToolNode([*map(with_sync_form, library)], handle_tool_errors=True)
    )
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(name="tooltree.search")
