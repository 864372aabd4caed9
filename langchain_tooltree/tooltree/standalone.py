"""`search()` and `asearch()`: planning outside a graph of one's own."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.tools import BaseTool

from langchain_tooltree.events import Event
from langchain_tooltree.tooltree.config import SearchConfig
from langchain_tooltree.tooltree.effects import DeclaredEffect
from langchain_tooltree.tooltree.judge import Judge
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.sandbox import Sandbox
from langchain_tooltree.tooltree.turn import Turn

Query = str | Sequence[BaseMessage | dict[str, Any] | tuple[str, str]]
"""A request, or a conversation in any form that LangChain understands."""


def search(
    query: Query,
    tools: Iterable[BaseTool],
    *,
    model: str | BaseChatModel,
    judge: str | BaseChatModel | Judge | None = None,
    post_judge: str | BaseChatModel | Judge | None = None,
    config: SearchConfig | None = None,
    effects: Mapping[str, DeclaredEffect] | None = None,
    sandbox: Sandbox | None = None,
    embeddings: Embeddings | None = None,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    cancel: threading.Event | None = None,
) -> SearchResult:
    """Search for the tool calls that fulfil a request, and answer from them.

    Works outside a graph, inside a node, and inside a task. Inside, it is persisted and resumed with its host.

    Args:
        query: The request, or a conversation.
        tools: LangChain tools, or a `ToolLibrary` with cards.
        model: Proposes calls and writes the answer.
        judge: Scores calls; the model itself if left out.
        post_judge: Scores observations; the judge if left out.
        config: The settings.
        effects: Which tools only `"read"`; every other tool is never run, unless the sandbox binds it.
        sandbox: A forkable world, in which the writes of its tools are tried out.
        embeddings: Ranks tools where there are many; `HashingEmbeddings` if left out.
        on_event: Called with every progress event, on the thread that searches.
        callbacks: LangChain callback handlers.
        cancel: Once set, from any thread, nothing more is launched and the best plan so far is returned.

    Returns:
        The best trajectory, the tree, the cost, and the answer unless a write has to be carried out first.

    Raises:
        ConfigurationError: If the parts do not fit together.
        EmptyQueryError: If there is no request.
    """
    planner = Planner(
        model,
        tools,
        judge=judge,
        post_judge=post_judge,
        config=config,
        effects=effects,
        sandbox=sandbox,
        embeddings=embeddings,
    )
    return _turn(planner, query, on_event, callbacks, cancel).plan()


async def asearch(
    query: Query,
    tools: Iterable[BaseTool],
    *,
    model: str | BaseChatModel,
    judge: str | BaseChatModel | Judge | None = None,
    post_judge: str | BaseChatModel | Judge | None = None,
    config: SearchConfig | None = None,
    effects: Mapping[str, DeclaredEffect] | None = None,
    sandbox: Sandbox | None = None,
    embeddings: Embeddings | None = None,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    cancel: threading.Event | None = None,
) -> SearchResult:
    """The async twin of `search`, with the same arguments.

    Cancelling the asyncio task raises `CancelledError` as usual; set `cancel` to get the best plan so far instead.
    """
    planner = Planner(
        model,
        tools,
        judge=judge,
        post_judge=post_judge,
        config=config,
        effects=effects,
        sandbox=sandbox,
        embeddings=embeddings,
    )
    return await _turn(planner, query, on_event, callbacks, cancel).aplan()


def _turn(
    planner: Planner,
    query: Query,
    on_event: Callable[[Event], None] | None,
    callbacks: Callbacks,
    cancel: threading.Event | None,
) -> Turn:
    return Turn(
        planner=planner,
        messages=[HumanMessage(query)] if isinstance(query, str) else convert_to_messages(list(query)),
        config={"callbacks": callbacks} if callbacks else {},
        cancelled=cancel.is_set if cancel else None,
        sinks=[on_event] if on_event else [],
    )
