"""The agents: LangChain's own, the same told to think step by step, and the planner."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from langchain_tooltree import (
    CFGMMiddleware,
    Prompts,
    SearchConfig,
    SITGraphMiddleware,
    ToolTreeMiddleware,
    create_tooltree_agent,
)
from tests.benchmarks.live.episode import Episode, Method, Setting, system_text

THINK = "Before each reply, think step by step: what is asked, what is known, what is missing, what to do next."

NODES_A_STEP = 20
"""LangGraph's own limit counts nodes, hooks of middleware included; it is set so far off that `steps` decides."""


def react(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """LangChain's agent."""
    return _plain(setting, episode, messages)


def cot(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """LangChain's agent, told to think step by step."""
    return _plain(setting, episode, messages, THINK)


def tooltree(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The planner as it comes."""
    return _planning(setting, episode, messages, setting.config)


def tooltree_deep(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The planner that searches before it acts, by the posterior."""
    # A path may be as long as a turn: a search that meets its greatest depth asks everywhere before it goes on.
    config = replace(setting.config, selection="posterior", max_depth=setting.steps)
    return _planning(setting, episode, messages, config)


def zero_shot(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """All calls in one reply, before any result is seen."""
    return _plain(replace(setting, steps=1), episode, messages)


def mcts(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The paper's search without pruning, before or after a call, and without r_pre: Monte Carlo tree search."""
    return _as_printed(
        setting,
        episode,
        messages,
        pre_threshold=0.0,
        post_threshold=0.0,
        proposals="together",
    )


def tooltree_paper(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The planner as the paper has it."""
    return _as_printed(setting, episode, messages)


def tooltree_acl(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The planner as the ACL-format version has it."""
    return _as_printed(setting, episode, messages, form="acl")


METHODS: dict[str, tuple[Method, float]] = {
    "zero_shot": (zero_shot, 0.5),
    "react": (react, 1.0),
    "cot": (cot, 1.0),
    "tooltree": (tooltree, 1.3),
    "tooltree-deep": (tooltree_deep, 2.0),
    "mcts": (mcts, 20.0),
    "tooltree-paper": (tooltree_paper, 20.0),
    "tooltree-acl": (tooltree_acl, 20.0),
}
"""Each with its model calls relative to those of `react`, for the estimate. Typical of the multi-turn tasks here; a
model that is often in doubt makes the search ask more."""


def middleware_of(setting: Setting) -> list[AgentMiddleware[Any, Any]]:
    """The graph and the memory of a setting; what is learnt is learnt by the runner, once the benchmark has judged."""
    middleware: list[AgentMiddleware[Any, Any]] = []
    memory, graph = setting.experience.memory, setting.experience.graph
    if memory is not None:
        middleware.append(
            CFGMMiddleware(
                memory.model, memory, record=False, **setting.experience.reflecting
            )
        )
    if graph is not None:
        middleware.append(SITGraphMiddleware(graph))
    return middleware


def run_agent(
    agent: CompiledStateGraph[Any, Any, Any, Any],
    messages: Sequence[BaseMessage],
    steps: int,
) -> list[BaseMessage]:
    """Let an agent work on a user turn; what it appends, up to the results of its `steps`-th reply with calls."""
    # The calls of one reply act on one world: in their order, not at once.
    config = {
        "configurable": {"thread_id": "turn"},
        "recursion_limit": NODES_A_STEP * steps,
        "max_concurrency": 1,
    }
    appended: list[BaseMessage] = []
    for state in agent.stream(
        {"messages": list(messages)}, config, stream_mode="values"
    ):
        appended = state["messages"][len(messages) :]
        if _is_over(appended, steps):
            break
    return appended


def _is_over(appended: Sequence[BaseMessage], steps: int) -> bool:
    """Whether so many replies with calls were made, and the last of them has its results."""
    replies = [
        message
        for message in appended
        if isinstance(message, AIMessage) and message.tool_calls
    ]
    return len(replies) > steps and not isinstance(appended[-1], AIMessage)


def _plain(
    setting: Setting,
    episode: Episode,
    messages: Sequence[BaseMessage],
    *more: str,
    planner: ToolTreeMiddleware | None = None,
) -> list[BaseMessage]:
    agent = create_agent(
        setting.model,
        list(episode.tools),
        system_prompt=system_text(setting, episode, *more) or None,
        middleware=[*middleware_of(setting), *([planner] if planner else [])],
        checkpointer=InMemorySaver(),
    )
    return run_agent(agent, messages, setting.steps)


def _planning(
    setting: Setting,
    episode: Episode,
    messages: Sequence[BaseMessage],
    config: SearchConfig,
) -> list[BaseMessage]:
    agent = create_tooltree_agent(
        setting.model,
        list(episode.tools),
        config=config,
        effects=dict(episode.effects),
        sandbox=episode.sandbox,
        system_prompt=system_text(setting, episode) or None,
        middleware=middleware_of(setting),
        checkpointer=InMemorySaver(),
    )
    return run_agent(agent, messages, setting.steps)


def _as_printed(
    setting: Setting, episode: Episode, messages: Sequence[BaseMessage], **changes: Any
) -> list[BaseMessage]:
    """The planner with the paper's settings and judging; a path may be as long as a turn."""
    config = SearchConfig.paper(
        **{"seed": setting.seed, "max_depth": setting.steps, **changes}
    )
    planner = ToolTreeMiddleware(
        config=config,
        prompts=Prompts.paper(),
        post_judge=setting.judge,
        effects=dict(episode.effects),
        sandbox=episode.sandbox,
    )
    return _plain(setting, episode, messages, planner=planner)
