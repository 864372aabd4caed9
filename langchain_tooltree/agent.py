"""create_tooltree_agent: LangChain's `create_agent` with the planner in, and with experience where wanted."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from langchain_tooltree.cfgm.memory import CFGMMemory, check_memory
from langchain_tooltree.cfgm.middleware import CFGMMiddleware
from langchain_tooltree.effects.calls import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError, check_arguments
from langchain_tooltree.experience.guide import Learner
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.learning.guide import Parts
from langchain_tooltree.models import resolve_model
from langchain_tooltree.review.review import PlanReviewMiddleware
from langchain_tooltree.sandbox import Sandbox, names_bound_by
from langchain_tooltree.sitgraph.middleware import SITGraphMiddleware
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.tools import ToolLibrary, as_tools, check_effects
from langchain_tooltree.tooltree.judge import Judge
from langchain_tooltree.tooltree.middleware import BranchCleanup, ToolTreeMiddleware
from langchain_tooltree.tooltree.search import SearchConfig


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
    experience: Experience | None = None,
    verdict: AnyVerdict | None = None,
    graph: SITGraph | None = None,
    memory: CFGMMemory | None = None,
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
        experience: What the agent has been through: it speaks where there is doubt, and grows with each run. It is the
            ordinary way; `graph` and `memory` are parts of it for those who want one.
        verdict: Says whether a run succeeded, for `experience`, `graph` and `memory`: a function (see
            `VerdictFunction`), a chat model, the name of one, or a `ModelVerdict`.
        graph: A part of an experience: what came next in past runs. It speaks where there is doubt, and learns from the
            agent's runs if there is a verdict. To have it speak before each call, put a `SITGraphMiddleware` into
            `middleware`.
        memory: A part of an experience: runs and tips. It speaks where there is doubt, and keeps the agent's runs. To
            have it speak in each prompt, and reflect on anomalies at once, put a `CFGMMiddleware` into `middleware`.
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
    names = {*inspect.signature(create_agent).parameters, *create_tooltree_agent.__annotations__}
    check_arguments("create_tooltree_agent", create_agent_arguments, names, SearchConfig)
    middleware = list(middleware)
    for entry in middleware:
        if not isinstance(entry, AgentMiddleware):
            msg = (
                f"middleware must hold the middleware given to create_agent, got {type(entry).__name__} {entry!r:.80}."
            )
            raise ConfigurationError(msg)
    if any(isinstance(entry, ToolTreeMiddleware) for entry in middleware):
        msg = "create_tooltree_agent adds a ToolTreeMiddleware itself; leave it out of middleware, or use create_agent."
        raise ConfigurationError(msg)
    declared = CallEffects.declared_as(effects)
    if experience is not None:
        learner: Learner | None = _with_verdict(experience, verdict, graph, memory)
    else:
        learner = _parts(middleware, graph, memory, verdict)
    tools = as_tools(() if tools is None else tools, provider_side=True)
    own = [tool for entry in middleware for tool in getattr(entry, "tools", ())]
    by_name = {tool.name: tool for tool in (*own, *tools) if isinstance(tool, BaseTool)}
    declared = declared.told_apart((*own, *tools))
    planner = ToolTreeMiddleware(
        judge=judge,
        config=config,
        effects=declared,
        sandbox=sandbox,
        record_searches=record_searches,
        experience=learner,
    )
    if by_name or declared.entries or sandbox is not None:
        check_effects(ToolLibrary(by_name.values()), declared, names_bound_by(sandbox))
        declared.among(by_name.values()).check_arguments()
    if review:
        _refuse_second(middleware, PlanReviewMiddleware, "set review=False")
        if create_agent_arguments.get("checkpointer") is False:
            msg = "review=True stops the run until somebody has answered, so it needs a checkpointer, got False."
            raise ConfigurationError(msg)
        # `after_model` hooks run last to first: whatever others make of a call, a person sees what will run.
        middleware.insert(0, PlanReviewMiddleware(declared.among(by_name.values())))
    if config is not None and config.is_deep:
        _refuse_guards(middleware, create_agent_arguments, sorted(declared.among(by_name.values()).reads))
    if any(map(_may_end_a_run, middleware)):
        middleware.append(BranchCleanup())
    return create_agent(resolve_model(model), tools, middleware=[*middleware, planner], **create_agent_arguments)


def _refuse_guards(
    middleware: Iterable[AgentMiddleware[Any, Any]], create_agent_arguments: dict[str, Any], reads: Sequence[str]
) -> None:
    """A deep search runs reads by itself, past approvals, breakpoints and whatever stands around the agent's tools."""
    for entry in middleware:
        kind = type(entry)
        guarded = list(reads)
        if isinstance(entry, PlanReviewMiddleware):
            guarded = []
        elif isinstance(entry, HumanInTheLoopMiddleware):
            guarded = [name for name in reads if name in entry.interrupt_on]
        elif (kind.wrap_tool_call, kind.awrap_tool_call) == (
            AgentMiddleware.wrap_tool_call,
            AgentMiddleware.awrap_tool_call,
        ) or kind.__module__.startswith("langchain_tooltree."):
            guarded = []
        if guarded:
            msg = (
                f"A deep search runs {', '.join(guarded)} by itself, and {kind.__name__} stands before them in the "
                "agent's loop. Do not declare them reads, leave out the middleware, or use selection='doubt'."
            )
            raise ConfigurationError(msg)
    for option in ("interrupt_before", "interrupt_after"):
        if reads and "tools" in (create_agent_arguments.get(option) or ()):
            msg = (
                f"{option} names 'tools', but a deep search runs {', '.join(reads)} by itself. Leave 'tools' out, do "
                "not declare them reads, or use selection='doubt'."
            )
            raise ConfigurationError(msg)


def _may_end_a_run(entry: AgentMiddleware[Any, Any]) -> bool:
    """Whether a middleware may end the run in the middle of a search: a hook of its jumps."""
    hooks = ("before_model", "abefore_model", "after_model", "aafter_model")
    return any(getattr(getattr(type(entry), hook), "__can_jump_to__", ()) for hook in hooks)


def _refuse_second(middleware: Sequence[AgentMiddleware[Any, Any]], kind: type, remedy: str) -> None:
    if any(isinstance(entry, kind) for entry in middleware):
        msg = f"middleware holds a {kind.__name__} already; leave it out, or {remedy}."
        raise ConfigurationError(msg)


def _with_verdict(
    experience: Experience, verdict: AnyVerdict | None, graph: SITGraph | None, memory: CFGMMemory | None
) -> Experience:
    if not isinstance(experience, Experience):
        msg = f"experience must be an Experience, got {type(experience).__name__}. Make one: Experience(store)."
        raise ConfigurationError(msg)
    for name, part in (("graph", graph), ("memory", memory)):
        if part is not None:
            msg = f"An Experience has a {name} of its own, but {name}= was passed, too. Leave one of them out."
            raise ConfigurationError(msg)
    if verdict is not None:
        experience = experience.judged_by(verdict)
    if not experience.has_verdict:
        warnings.warn(_NOTHING_LEARNT.format("experience"), stacklevel=3)
    return experience


_NOTHING_LEARNT = (
    "Runs are kept in {} without a verdict, and only those that succeeded are learnt from. Pass verdict=: a function "
    "from a Trajectory to a bool, or the name of a chat model."
)


def _parts(
    middleware: Sequence[AgentMiddleware[Any, Any]],
    graph: SITGraph | None,
    memory: CFGMMemory | None,
    verdict: AnyVerdict | None,
) -> Parts | None:
    check_memory(memory)
    if graph is not None and not isinstance(graph, SITGraph):
        msg = f"graph must be a SITGraph, got {type(graph).__name__}. Make one: SITGraph.from_trajectories(...)."
        raise ConfigurationError(msg)
    if graph is None and memory is None:
        if verdict is None:
            return None
        msg = f"verdict={verdict!r:.80} judges runs for an experience, a graph or a memory. Pass one: experience=."
        raise ConfigurationError(msg)
    if memory is not None:
        _refuse_second(middleware, CFGMMiddleware, "leave out memory=")
        judges = any(isinstance(entry, SITGraphMiddleware) for entry in middleware)
        if verdict is None and not judges:
            warnings.warn(_NOTHING_LEARNT.format("memory"), stacklevel=3)
    if graph is not None:
        _refuse_second(middleware, SITGraphMiddleware, "leave out graph=")
    return Parts(graph, memory, verdict=verdict)
