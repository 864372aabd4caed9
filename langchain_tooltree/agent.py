"""create_tooltree_agent: LangChain's `create_agent` with the planner in, and with experience where wanted."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.tools import BaseTool

from langchain_tooltree.cfgm.agents import CFGMMiddleware
from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.effects import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.guide import Learner
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.learning.guide import Parts
from langchain_tooltree.models import resolve_model
from langchain_tooltree.review import PlanReviewMiddleware
from langchain_tooltree.sandbox import Sandbox, names_bound_by
from langchain_tooltree.sitgraph.agents import SITGraphMiddleware
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.tools import ToolLibrary, as_tools, check_effects
from langchain_tooltree.tooltree.judge import Judge
from langchain_tooltree.tooltree.middleware import BranchCleanup, ToolTreeMiddleware
from langchain_tooltree.tooltree.search.config import SearchConfig

if TYPE_CHECKING:
    from langchain.agents.middleware.types import (
        AgentState,
        ContextT,
        InputAgentState,
        OutputAgentState,
        ResponseT,
        StateT_co,
    )
    from langchain.agents.structured_output import ResponseFormat
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import SystemMessage
    from langgraph.cache.base import BaseCache
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore
    from langgraph.types import Checkpointer

    AnyTools = Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None

AnyExperience = Experience | SITGraph | CFGMMemory | Sequence[SITGraph | CFGMMemory]
"""What an agent learns with: an `Experience`, or a part of one, or both parts."""


class AgentOptions(TypedDict, total=False):
    """What an agent with a planner takes by name: the planner's own, and `create_agent`'s that are of no type."""

    judge: str | BaseChatModel | Judge | None
    config: SearchConfig | None
    effects: Effects | None
    sandbox: Sandbox | None
    record_searches: str | None
    review: bool
    experience: AnyExperience | None
    verdict: AnyVerdict | None
    system_prompt: str | SystemMessage | None
    checkpointer: Checkpointer | None
    store: BaseStore | None
    interrupt_before: list[str] | None
    interrupt_after: list[str] | None
    debug: bool
    name: str | None
    cache: BaseCache[Any] | None
    transformers: Sequence[Any] | None


OWN_OPTIONS = (
    AgentOptions.__annotations__.keys()
    - inspect.signature(create_agent).parameters.keys()
)
"""What `create_tooltree_agent` takes and `create_agent` does not."""


# As LangChain types `create_agent`: without a response format, by a schema as a dict, and by a class.
@overload
def create_tooltree_agent(
    model: str | BaseChatModel,
    tools: AnyTools = None,
    *,
    middleware: Sequence[AgentMiddleware[StateT_co, ContextT]] = (),
    response_format: None = None,
    state_schema: None = None,
    context_schema: type[ContextT] | None = None,
    **options: Unpack[AgentOptions],
) -> CompiledStateGraph[
    AgentState[Any], ContextT, InputAgentState, OutputAgentState[Any]
]: ...


@overload
def create_tooltree_agent(
    model: str | BaseChatModel,
    tools: AnyTools = None,
    *,
    middleware: Sequence[AgentMiddleware[StateT_co, ContextT]] = (),
    response_format: dict[str, Any],
    state_schema: type[AgentState[dict[str, Any]]] | None = None,
    context_schema: type[ContextT] | None = None,
    **options: Unpack[AgentOptions],
) -> CompiledStateGraph[
    AgentState[dict[str, Any]],
    ContextT,
    InputAgentState,
    OutputAgentState[dict[str, Any]],
]: ...


@overload
def create_tooltree_agent(
    model: str | BaseChatModel,
    tools: AnyTools = None,
    *,
    middleware: Sequence[AgentMiddleware[StateT_co, ContextT]] = (),
    response_format: ResponseFormat[ResponseT] | type[ResponseT] | None = None,
    state_schema: type[AgentState[ResponseT]] | None = None,
    context_schema: type[ContextT] | None = None,
    **options: Unpack[AgentOptions],
) -> CompiledStateGraph[
    AgentState[ResponseT], ContextT, InputAgentState, OutputAgentState[ResponseT]
]: ...


def create_tooltree_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None = None,
    *,
    judge: str | BaseChatModel | Judge | None = None,
    config: SearchConfig | None = None,
    effects: Effects | None = None,
    sandbox: Sandbox | None = None,
    record_searches: str | None = None,
    review: bool = False,
    experience: AnyExperience | None = None,
    verdict: AnyVerdict | None = None,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    **create_agent_arguments: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Create an agent that notices where its answer is doubtful and tries other calls; takes what `create_agent` does.

    ```python
    agent = create_tooltree_agent("openai:gpt-4.1-mini", tools, effects={"search_flights": "read"})
    agent.invoke({"messages": [{"role": "user", "content": "Which flight to Oslo is cheapest?"}]})
    ```

    The agent's own loop runs every call, so all of `middleware` works as without the planner. See
    `ToolTreeMiddleware`, which does the work and stands last in the list.

    Args:
        model: The agent's model.
        tools: As for `create_agent`, or a `ToolLibrary`.
        judge: Scores candidates before they run and what calls brought back, and checks answers; the model's own report
            if left out. For a second judge, or other prompts, give `ToolTreeMiddleware` to `create_agent`.
        config: The settings.
        effects: Which tools only `"read"`, or, by a function of the arguments, which of their calls do. Only those are
            tried by a search.
        sandbox: A world that can be forked, in which writes are tried before they are made.
        record_searches: A folder in which each search leaves a file, for `langchain-tooltree view`.
        review: Whether a person approves each call that is not declared a read, with what it rests on before them: see
            `PlanReviewMiddleware`. It needs a checkpointer where such a call is made.
        experience: What the agent has been through: an `Experience`, which speaks where there is doubt, and grows with
            each run. Or a part of one, or a list of both: a `SITGraph`, which knows what came next in past runs and
            learns if there is a verdict, and a `CFGMMemory`, which has runs and tips and keeps the agent's runs. To
            have these speak at each step, put a `SITGraphMiddleware` or a `CFGMMiddleware` into `middleware`.
        verdict: Says whether a run succeeded, for `experience`: a function (see `VerdictFunction`), a chat model, the
            name of one, or a `ModelVerdict`.
        middleware: The agent's other middleware.
        **create_agent_arguments: Everything else that `create_agent` takes: `system_prompt`, `response_format`,
            `checkpointer`, `store`, `context_schema`, `name`, and so on.

    Returns:
        The compiled graph of the agent.

    Raises:
        ConfigurationError: If the parts do not fit together; so do not a deep search and an approval, or another guard,
            before a tool that it would run by itself.
        ToolDefinitionError: If `effects` or the sandbox names a tool that the agent does not have.
        ImportError: If a model is a name and its provider's package is not installed.
    """
    middleware = list(middleware)
    declared = CallEffects.declared_as(effects)
    tools = as_tools(() if tools is None else tools, provider_side=True)
    own_tools = [tool for tool in tools if isinstance(tool, BaseTool)]
    middleware_tools = [
        tool for entry in middleware for tool in getattr(entry, "tools", ())
    ]
    by_name = {
        tool.name: tool for tool in middleware_tools if isinstance(tool, BaseTool)
    }
    by_name |= (
        ToolLibrary(own_tools).by_name if own_tools else {}
    )  # refuses two of one name
    planner = ToolTreeMiddleware(
        judge=judge,
        config=config,
        effects=declared,
        sandbox=sandbox,
        record_searches=record_searches,
        experience=_learner(middleware, experience, verdict),
    )
    all_effects = declared.among(
        [*own_tools, *middleware_tools]
    )  # of two tools that share a name, calls are writes
    if by_name or declared.entries or sandbox is not None:
        check_effects(ToolLibrary(by_name.values()), declared, names_bound_by(sandbox))
        all_effects.check_arguments()
    if review:
        # `after_model` hooks run last to first: whatever others make of a call, a person sees what will run.
        middleware.insert(0, PlanReviewMiddleware(all_effects))
    if config is not None and config.is_deep:
        _refuse_guards(middleware, create_agent_arguments, sorted(all_effects.reads))
    if any(map(_may_end_a_run, middleware)):
        middleware.append(BranchCleanup())
    return create_agent(
        resolve_model(model),
        tools,
        middleware=[*middleware, planner],
        **create_agent_arguments,
    )


def _refuse_guards(
    middleware: Iterable[AgentMiddleware[Any, Any]],
    create_agent_arguments: dict[str, Any],
    reads: Sequence[str],
) -> None:
    """A deep search runs reads by itself, past approvals, breakpoints and whatever stands around the agent's tools."""
    guards = {type(entry).__name__: _guarded_by(entry, reads) for entry in middleware}
    for option in ("interrupt_before", "interrupt_after"):
        if "tools" in (create_agent_arguments.get(option) or ()):
            guards[f"{option}=['tools']"] = reads
    for guard, guarded in guards.items():
        if guarded:
            msg = (
                f"A deep search runs {', '.join(guarded)} by itself, and {guard} stands before them in the agent's "
                "loop. Do not declare them reads, leave that out, or use selection='doubt'."
            )
            raise ConfigurationError(msg)


def _guarded_by(
    entry: AgentMiddleware[Any, Any], reads: Sequence[str]
) -> Sequence[str]:
    """The reads whose calls a middleware may stop or change."""
    if isinstance(entry, HumanInTheLoopMiddleware):
        return [name for name in reads if name in entry.interrupt_on]
    kind = type(entry)
    is_around = any(
        getattr(kind, hook) is not getattr(AgentMiddleware, hook)
        for hook in ("wrap_tool_call", "awrap_tool_call")
    )
    return (
        reads
        if is_around and not kind.__module__.startswith("langchain_tooltree.")
        else ()
    )


def _may_end_a_run(entry: AgentMiddleware[Any, Any]) -> bool:
    """Whether a middleware may end the run in the middle of a search: a hook of its jumps."""
    hooks = ("before_model", "abefore_model", "after_model", "aafter_model")
    return any(
        getattr(getattr(type(entry), hook), "__can_jump_to__", ()) for hook in hooks
    )


def _learner(
    middleware: Sequence[AgentMiddleware[Any, Any]],
    experience: AnyExperience | None,
    verdict: AnyVerdict | None,
) -> Learner | None:
    """What the agent learns with: an experience, a graph, a memory, or the last two; `None` if there is nothing."""
    if isinstance(experience, Experience):
        if verdict is not None:
            msg = f"verdict={verdict!r:.80} judges runs for a graph or a memory. Pass it to Experience(..., verdict=)."
            raise ConfigurationError(msg)
        if not experience.has_verdict:
            warnings.warn(_NOTHING_LEARNT.format("experience"), stacklevel=3)
        return experience
    if experience is None and verdict is not None:
        msg = f"verdict={verdict!r:.80} judges runs for an experience. Pass one: experience=."
        raise ConfigurationError(msg)
    parts: list[Any] = (
        [*experience] if isinstance(experience, list | tuple) else [experience]
    )
    graphs = [part for part in parts if isinstance(part, SITGraph)]
    memories = [part for part in parts if isinstance(part, CFGMMemory)]
    if (
        len(graphs) > 1
        or len(memories) > 1
        or (experience is not None and len(parts) > len(graphs) + len(memories))
    ):
        msg = (
            f"experience must be an Experience, or a SITGraph, a CFGMMemory or one of each, got {experience!r:.80}. "
            "Make one: Experience(store)."
        )
        raise ConfigurationError(msg)
    for part, kind in ((graphs, SITGraphMiddleware), (memories, CFGMMiddleware)):
        if part and any(isinstance(entry, kind) for entry in middleware):
            msg = f"middleware holds a {kind.__name__} already; leave it out, or leave that part out of experience=."
            raise ConfigurationError(msg)
    if memories and verdict is None:
        warnings.warn(_NOTHING_LEARNT.format("memory"), stacklevel=3)
    return (
        Parts(next(iter(graphs), None), next(iter(memories), None), verdict=verdict)
        if graphs or memories
        else None
    )


_NOTHING_LEARNT = (
    "Runs are kept in {} without a verdict, and only those that succeeded are learnt from. Pass verdict=: a function "
    "from a Trajectory to a bool, or the name of a chat model."
)
