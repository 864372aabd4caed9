"""create_tooltree_agent: LangChain's `create_agent` with the planner in, and with experience where wanted."""

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from langchain_tooltree._langgraph import draw_planner
from langchain_tooltree.cfgm.memory import CFGMMemory, check_memory
from langchain_tooltree.cfgm.middleware import CFGMMiddleware
from langchain_tooltree.effects.calls import CallEffects, Effects, ToolKey, names_in
from langchain_tooltree.errors import ConfigurationError, check_arguments
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.models import resolve_model
from langchain_tooltree.sitgraph.middleware import SITGraphMiddleware
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.tooltree.driver import with_option_docs
from langchain_tooltree.tooltree.judge import Judge
from langchain_tooltree.tooltree.middleware import ToolTreeMiddleware
from langchain_tooltree.tooltree.prompts import Prompts
from langchain_tooltree.tooltree.retrieval import Retriever
from langchain_tooltree.tooltree.review import PlanReviewMiddleware
from langchain_tooltree.tooltree.sandbox import Sandbox
from langchain_tooltree.tooltree.search import SearchConfig
from langchain_tooltree.tooltree.tool_executor import HostHooks
from langchain_tooltree.tooltree.tools import ToolLibrary, as_tools


@with_option_docs
def create_tooltree_agent(  # noqa: D417 - the options are described by `search`
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None = None,
    *,
    judge: str | BaseChatModel | Judge | None = None,
    post_judge: str | BaseChatModel | Judge | None = None,
    config: SearchConfig | None = None,
    effects: Effects | None = None,
    approve_reads: Iterable[ToolKey] | None = None,
    sandbox: Sandbox | None = None,
    same: Callable[[ToolMessage, ToolMessage], bool] | None = None,
    embeddings: Embeddings | str | None = None,
    retriever: Retriever | None = None,
    prompts: Prompts | None = None,
    record_searches: str | os.PathLike[str] | None = None,
    when: Callable[[ModelRequest[Any]], bool] | None = None,
    review: bool = False,
    experience: Experience | None = None,
    verdict: AnyVerdict | None = None,
    graph: SITGraph | None = None,
    memory: CFGMMemory | None = None,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    **create_agent_arguments: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Create an agent that plans its tool calls; takes and returns what `create_agent` does.

    ```python
    agent = create_tooltree_agent("openai:gpt-4.1-mini", tools, effects={"search_flights": "read"})
    agent.invoke({"messages": [{"role": "user", "content": "Which flight to Oslo is cheapest?"}]})
    ```

    Searched calls pass through the `wrap_tool_call` hooks of `middleware`, and tools under `interrupt_on` of a
    `HumanInTheLoopMiddleware` in it are never run while searching. See `ToolTreeMiddleware`, which does the work.

    Args:
        model: The agent's model: it proposes calls and writes the answers.
        tools: As for `create_agent`, or a `ToolLibrary` with cards.
        **options: As for `search`.
        when: Decides which model calls deserve a search; see `ToolTreeMiddleware`.
        review: Whether a person approves every write, and what is under `approve_reads`, with the plan and its
            alternatives before them; see `PlanReviewMiddleware`. Needs a checkpointer: `checkpointer=`, that of a graph
            around the agent, or that of a server.
        experience: What the agent has been through: recalled before a turn, asked at each step of a search, and made
            richer by each run. It is the ordinary way; `graph` and `memory` are parts of it for those who want one.
        verdict: Says whether a run succeeded, for `experience`, `graph` and `memory`: a function (see
            `VerdictFunction`), a chat model, the name of one, or a `ModelVerdict`. Nothing is learnt without, so that
            `experience` or `memory` without any verdict is warned of.
        graph: Tells the agent which tools came next in past runs, and learns from its own runs if there is a verdict.
        memory: Recalls experiences and tips for the task, reflects where a tool's result is anomalous, with its own
            model, and keeps the run. For other settings, put a `CFGMMiddleware` into `middleware` instead.
        middleware: The agent's other middleware.
        **create_agent_arguments: Everything else that `create_agent` takes: `system_prompt`, `response_format`,
            `checkpointer`, `store`, `context_schema`, `name`, and so on.

    Returns:
        The compiled graph of the agent.

    Raises:
        ConfigurationError: If the parts do not fit together; so do not a breakpoint at `"tools"` and reads that are
            searched, which would run without it, unless `review` is true.
        ToolDefinitionError: If `effects` or the sandbox names a tool that the agent does not have.
        ImportError: If a model is a name and its provider's package is not installed.
    """
    known = {*inspect.signature(create_agent).parameters, *create_tooltree_agent.__annotations__}
    check_arguments("create_tooltree_agent", create_agent_arguments, known, SearchConfig)
    middleware = list(middleware)
    if any(isinstance(entry, ToolTreeMiddleware) for entry in middleware):
        msg = "create_tooltree_agent adds a ToolTreeMiddleware itself; leave it out of middleware, or use create_agent."
        raise ConfigurationError(msg)
    declared = CallEffects.declared_as(effects)
    if experience is not None:
        experience = _with_verdict(experience, verdict, graph, memory)
    else:
        _add_parts(middleware, graph, memory, verdict, declared)
    cards = [tools.card(name) for name in tools.names] if isinstance(tools, ToolLibrary) else ()
    tools = as_tools(() if tools is None else tools, provider_side=True)
    provided = [each for entry in middleware for each in getattr(entry, "tools", ())]
    declared = declared.told_apart((*provided, *tools))
    planner = ToolTreeMiddleware(
        judge=judge,
        post_judge=post_judge,
        config=config,
        effects=declared,
        approve_reads=approve_reads,
        sandbox=sandbox,
        same=same,
        embeddings=embeddings,
        retriever=retriever,
        prompts=prompts,
        record_searches=record_searches,
        cards=cards,
        when=when,
        host_middleware=middleware,
        experience=experience,
    )
    model = resolve_model(model)
    others = any(_wraps_model(entry) for entry in middleware)
    by_name = {each.name: each for each in (*provided, *tools) if isinstance(each, BaseTool)}
    searched: Mapping[str, BaseTool] = {}
    if by_name or declared.entries or sandbox is not None:
        searched = planner.prepare(model, list(by_name.values()))
        forked = {each.name for each in sandbox.tools} if sandbox is not None else set[str]()
        if not review:
            _refuse_breakpoint_at_tools(create_agent_arguments, sorted(searched.keys() - forked))
    if (asking := names_in(approve_reads)) and not review:
        msg = f"{', '.join(sorted(asking))} under approve_reads would run without a question. Pass review=True."
        raise ConfigurationError(msg)
    if review:
        _refuse_second(middleware, PlanReviewMiddleware, "set review=False")
        if create_agent_arguments.get("checkpointer") is False:
            msg = "review=True stops the run until somebody has answered, so it needs a checkpointer, got False."
            raise ConfigurationError(msg)
        reviewer = PlanReviewMiddleware(declared.among((*provided, *tools)), approve_reads=asking)
        reviewer.know((*provided, *tools), all_of_them=not others)  # which may offer more for a single model call
        if twice := sorted(filter(reviewer.reviews, HostHooks.of(middleware).held_back)):
            reviewers = "review=True and interrupt_on of HumanInTheLoopMiddleware"
            msg = f"{', '.join(twice)} would be approved twice, under {reviewers}. Choose one of them."
            raise ConfigurationError(msg)
        # `after_model` hooks run last to first: whatever others make of a call, a person sees what will run.
        middleware.insert(0, reviewer)
    agent = create_agent(model, tools, middleware=[*middleware, planner], **create_agent_arguments)
    draw_planner(agent, searched, loops=others or create_agent_arguments.get("response_format") is not None)
    return agent


def _refuse_breakpoint_at_tools(create_agent_arguments: Mapping[str, Any], reads: Sequence[str]) -> None:
    """A breakpoint before the tools is an approval of calls, and those of a search run in the model node."""
    for option in ("interrupt_before", "interrupt_after"):
        if reads and "tools" in (create_agent_arguments.get(option) or ()):
            msg = (
                f"{option} names 'tools', but {', '.join(reads)} may run while searching, within the node 'model', and "
                f"nothing stops there. Leave 'tools' out of {option}, and have writes approved with review=True, and "
                f"reads with approve_reads=[{reads[0]!r}]; or do not declare these reads."
            )
            raise ConfigurationError(msg)


def _wraps_model(entry: AgentMiddleware[Any, Any]) -> bool:
    """Whether somebody else's middleware stands around the model, and may send the run back to it."""
    kind = type(entry)
    changed = (kind.wrap_model_call, kind.awrap_model_call) != (
        AgentMiddleware.wrap_model_call,
        AgentMiddleware.awrap_model_call,
    )
    return changed and not kind.__module__.startswith("langchain_tooltree.")


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


def _add_parts(
    middleware: list[AgentMiddleware[Any, Any]],
    graph: SITGraph | None,
    memory: CFGMMemory | None,
    verdict: AnyVerdict | None,
    effects: CallEffects,
) -> None:
    check_memory(memory)
    if verdict is not None and graph is None and memory is None:
        msg = f"verdict={verdict!r:.80} judges runs for an experience, a graph or a memory. Pass one: experience=."
        raise ConfigurationError(msg)
    if memory is not None:
        _refuse_second(middleware, CFGMMiddleware, "leave out memory=")
        judges = any(isinstance(entry, SITGraphMiddleware) for entry in middleware)
        if verdict is None and not judges:
            warnings.warn(_NOTHING_LEARNT.format("memory"), stacklevel=3)
        middleware.append(CFGMMiddleware(memory.model, memory, verdict=verdict))
    if graph is not None:
        _refuse_second(middleware, SITGraphMiddleware, "leave out graph=")
        middleware.append(SITGraphMiddleware(graph, verdict=verdict, effects=effects))
