"""Running the calls of a search, for real or in a fork of the world, and turning the results into observations."""

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce, wraps
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, HumanInTheLoopMiddleware, PIIMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.errors import is_invalid_resume
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError, msg_content_output
from langgraph.runtime import get_runtime
from langgraph.types import Command
from pydantic import ValidationError

from langchain_tooltree._langgraph import node_injects, tool_node_input, why_not_kept
from langchain_tooltree.conversation import is_observation
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.flows import Flow, FunctionStep, containing, in_thread
from langchain_tooltree.text import as_text, is_plain, plain, shortened
from langchain_tooltree.tooltree.dialogue import PathDialogue
from langchain_tooltree.tooltree.review import PlanReviewMiddleware
from langchain_tooltree.tooltree.sandbox import Sandbox, Worlds
from langchain_tooltree.tooltree.search import Call, Node, Observation, SearchConfig, Tree
from langchain_tooltree.tooltree.tools import injected_names

logger = logging.getLogger(__name__)

GRACE = 0.5
"""Seconds that an async tool gets to notice, on the sync path, that its time is up: enough to clean up, and a hanging
one does not block for long."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses of servers that are busy, starting or briefly out of reach: the same call may succeed next time."""

ERROR_CHARS = 20_000
"""Characters of an exception's text that are kept, about 5,000 tokens; without a planner it would end the run."""

Execute = Callable[[ToolCallRequest], Any]
Wrapper = Callable[[ToolCallRequest, Execute], Any]
"""What stands around a tool call; on the async path both return awaitables."""


@dataclass(frozen=True, slots=True)
class HostHooks:
    """What a host agent puts around its tool calls: approval, `wrap_tool_call` middleware, redaction of results.

    A searched call runs before the agent's own tools node sees it, and its result is read before the agent's next
    step. So that swapping the planner takes nothing away, such a call passes through the same middleware, as one
    wrapper or its async twin, and a tool that waits for approval is held back: it counts as a write.
    """

    wrap: Wrapper | None = None
    awrap: Wrapper | None = None
    held_back: frozenset[str] = frozenset()

    @classmethod
    def of(cls, middleware: Iterable[AgentMiddleware[Any, Any, Any]]) -> "HostHooks":
        """Read a host's middleware, in the order given to `create_agent`."""
        entries = list(middleware)
        for entry in entries:
            if not isinstance(entry, AgentMiddleware):
                got = f"{type(entry).__name__} {entry!r}"
                msg = f"host_middleware must hold the middleware given to create_agent, got {got}."
                raise ConfigurationError(msg)
        approving = [entry for entry in entries if isinstance(entry, HumanInTheLoopMiddleware)]
        # An agent redacts what its tools node brings back before the next step, the first entry first.
        guards = [entry for entry in reversed(entries) if isinstance(entry, PIIMiddleware)]
        redacting = [entry for entry in guards if entry.apply_to_tool_results]
        # Nobody is asked about a call that is only tried out, such as a write in a fork of the sandbox.
        asking = (HumanInTheLoopMiddleware, PlanReviewMiddleware)
        wrapping = [entry for entry in entries if _wraps_tool_calls(entry) and not isinstance(entry, asking)]
        wraps: list[Wrapper] = [*map(_redaction, redacting), *(entry.wrap_tool_call for entry in wrapping)]
        awraps: list[Wrapper] = [*map(_aredaction, redacting), *(entry.awrap_tool_call for entry in wrapping)]
        return cls(
            wrap=reduce(_inside, wraps) if wraps else None,
            awrap=reduce(_inside, awraps) if awraps else None,
            held_back=frozenset(name for entry in approving for name in entry.interrupt_on),
        )

    def holding_back(self, names: Iterable[str]) -> "HostHooks":
        """The same, with more tools that are left to the host: by `return_direct`, their result ends its run."""
        return replace(self, held_back=self.held_back.union(names))


def _wraps_tool_calls(entry: AgentMiddleware[Any, Any, Any]) -> bool:
    own, base = type(entry), AgentMiddleware
    return own.wrap_tool_call is not base.wrap_tool_call or own.awrap_tool_call is not base.awrap_tool_call


def _redaction(entry: AgentMiddleware[Any, Any, Any]) -> Wrapper:
    def redacted(request: ToolCallRequest, execute: Execute) -> Any:
        result = execute(request)
        state = AgentState[Any](messages=[AIMessage(""), result])
        update = entry.before_model(state, get_runtime()) if is_observation(result) else None
        return update["messages"][-1] if update else result

    return redacted


def _aredaction(entry: AgentMiddleware[Any, Any, Any]) -> Wrapper:
    async def redacted(request: ToolCallRequest, execute: Execute) -> Any:
        result = await execute(request)
        state = AgentState[Any](messages=[AIMessage(""), result])
        update = await entry.abefore_model(state, get_runtime()) if is_observation(result) else None
        return update["messages"][-1] if update else result

    return redacted


def _inside(outer: Wrapper, inner: Wrapper) -> Wrapper:
    """Two wrappers as one, of functions as well as of coroutine functions: what comes back is only handed on."""
    return lambda request, execute: outer(request, lambda passed_on: inner(passed_on, execute))


async def _contained(request: ToolCallRequest, execute: Execute) -> Any:
    """Run a call so that nothing it raises ends the loop: a SystemExit does so from any task of asyncio."""
    with containing():
        return await execute(request.override(tool=_tame(request.tool)) if request.tool else request)


def _tame(tool: BaseTool) -> BaseTool:
    """A copy of a tool whose coroutine raises nothing that ends the loop; LangChain runs it in a task of its own."""
    if _is_sync_only(tool) or "_arun" in vars(tool):
        return tool
    run = tool._arun  # noqa: SLF001 - what its task runs

    @wraps(run)
    async def tamed(*args: Any, **kwargs: Any) -> Any:
        with containing():
            return await run(*args, **kwargs)

    copied = tool.model_copy()
    vars(copied)["_arun"] = tamed
    return copied


class ToolNodes:
    """The `ToolNode`s through which the tools of a search run, each made once.

    A `ToolNode` injects state, store and runtime and lets the host's hooks in. Where there is nothing of either, a tool
    is invoked directly: the node's executor and its copies of the configuration cost more than the rest of the call.
    """

    def __init__(self, host_hooks: HostHooks | None = None) -> None:
        self._hooks = host_hooks or HostHooks()
        self._nodes: dict[str, ToolNode] = {}
        # What is found out once for a name holds in every fork, where a tool takes the same arguments.
        self._given: dict[str, bool] = {}
        self._alone: set[str] = set()

    @property
    def wrap_async(self) -> bool:
        """Whether calls on the async path pass through hooks, which are coroutine functions."""
        return self._hooks.awrap is not None

    def gives(self, tool: BaseTool) -> bool:
        """Whether the host injects anything into a tool."""
        if tool.name not in self._given:
            self._given[tool.name] = bool(injected_names(tool))
        return self._given[tool.name]

    def around(self, tool: BaseTool) -> ToolNode | None:
        """The node of a tool; `None` if it can be invoked directly."""
        wrap, awrap = self._hooks.wrap, self._hooks.awrap
        is_free = wrap is None and awrap is None
        if is_free and tool.name in self._alone:
            return None
        node = self._nodes.get(tool.name)
        if node is None or node.tools_by_name[tool.name] is not tool:  # that of another fork
            awrap = _contained if awrap is None else _inside(_contained, _inside(awrap, _contained))
            node = ToolNode([tool], handle_tool_errors=False, wrap_tool_call=wrap, awrap_tool_call=awrap)
            if is_free and not node_injects(node, tool.name):
                self._alone.add(tool.name)
                return None
            self._nodes[tool.name] = node
        return node


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool call, as a step of a flow.

    State, store and runtime are injected, and the host's hooks called, as in the user's own graph; see `ToolNodes`.

    A sync-only tool runs in a thread on the async path; an async-only one gets an event loop of its own on the sync
    path. `timeout` is in seconds, `None` for no limit; a sync tool cannot be stopped: its thread is left behind.
    Injected arguments are read from `state`.
    """

    tool: BaseTool
    call: Call
    call_id: str
    state: Mapping[str, Any]
    timeout: float | None
    config: RunnableConfig
    nodes: ToolNodes = field(default_factory=ToolNodes)

    def run(self) -> Any:
        """Run the tool; one that takes too long raises `TimeoutError`."""
        if isinstance(self.tool, StructuredTool) and self.tool.func is None:  # it is async only
            patience = None if self.timeout is None else self.timeout + GRACE
            return self._in_thread(lambda: asyncio.run(self.arun())).result(patience)
        return self._in_thread(self._invoke).result(self.timeout)

    async def arun(self) -> Any:
        """Run the tool without blocking the loop; one that takes too long raises `TimeoutError`."""
        async with asyncio.timeout(self.timeout):
            if _is_sync_only(self.tool) and not self.nodes.wrap_async:
                return await asyncio.wrap_future(self._in_thread(self._invoke))
            return await self._ainvoke()

    def _in_thread(self, work: Callable[[], Any]) -> Future[Any]:
        """A tool that hangs takes no place of others in a pool."""
        return in_thread(work, f"tooltree-{self.call.tool}")

    def _invoke(self) -> Any:
        call, config = self._prepared()
        with containing():
            if node := self.nodes.around(self.tool):
                return node.invoke(tool_node_input(call, self.state), config)
            with _refused_arguments(call):
                return _told(self.tool.invoke(call, config), call)

    async def _ainvoke(self) -> Any:
        call, config = self._prepared()
        if node := self.nodes.around(self.tool):
            return await node.ainvoke(tool_node_input(call, self.state), config)
        with _refused_arguments(call):
            return _told(await _tame(self.tool).ainvoke(call, config), call)

    def _prepared(self) -> tuple[ToolCall, RunnableConfig]:
        merged = merge_configs(ensure_config(), self.config)
        # Merging passes over a limit that is the default, but the search's own graph has set another.
        if "recursion_limit" in self.config:
            merged["recursion_limit"] = self.config["recursion_limit"]
        arguments = copy.deepcopy(self.call.arguments)  # a tool may change what it gets
        return ToolCall(name=self.call.tool, args=arguments, id=self.call_id, type="tool_call"), merged


@contextmanager
def _refused_arguments(call: ToolCall) -> Iterator[None]:
    """Raise what a `ToolNode` raises for arguments that the tool does not take."""
    try:
        yield
    except ValidationError as error:
        if is_invalid_resume(error):
            raise
        located = [problem for problem in error.errors() if problem["loc"]]
        raise ToolInvocationError(call["name"], error, call["args"], located) from error


def _told(returned: Any, call: ToolCall) -> dict[str, Any] | None:
    """What a `ToolNode` makes of what a tool returned: messages for the state; `None` where there is a Command."""
    messages = returned if isinstance(returned, list) else [returned]
    if any(isinstance(message, Command) for message in messages):
        return None
    for message in messages:
        if not is_observation(message):
            msg = f"Tool {call['name']} returned unexpected type: {type(returned)}"
            raise TypeError(msg)
        message.content = cast("Any", msg_content_output(message.content))
    return {"messages": messages}


def _is_sync_only(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool):
        return tool.coroutine is None and type(tool)._arun is StructuredTool._arun  # noqa: SLF001 - is it overridden?
    return type(tool)._arun is BaseTool._arun  # noqa: SLF001 - as above


def observe(step: ToolStep) -> Flow[Observation]:
    """Run a call; an error is an observation too."""
    try:
        output = yield step
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is something to learn from
        return _failure(step, error)
    messages = output.get("messages") if isinstance(output, dict) else None
    told: list[ToolMessage] = [*filter(is_observation, messages or ())]
    if not told:
        problem = "returned a Command, which only the graph itself can apply. Declare the tool a write."
        return Observation(content=f"{step.call.tool} {problem}", kind="unsupported")
    return _told_by(next((each for each in told if each.tool_call_id == step.call_id), told[0]), step, others=told[1:])


def _told_by(message: ToolMessage, step: ToolStep, others: Sequence[BaseMessage]) -> Observation:
    """What a tool's message says; what of it the checkpointer refuses is left out, since the host would fail on it."""
    own: ToolMessage | None = message.model_copy(update={"content": "", "artifact": None})
    if own == ToolMessage("", tool_call_id=message.tool_call_id, name=step.call.tool, status=message.status):
        own = None
    parts = {"artifact": message.artifact, "message": own}
    refused = {name: problem for name, part in parts.items() if part is not None and (problem := why_not_kept(part))}
    lost = [f"{name} ({type(parts[name]).__name__}): {problem}" for name, problem in refused.items()]
    if others:
        lost.append(f"{len(others)} messages beside the answer to the call, which only the graph itself can add")
    if lost:
        logger.warning("Of what %s brought back, this is lost: %s", step.call.tool, "; ".join(lost))
    return Observation(
        content=message.content if is_plain(message.content) else cast("Any", plain(message.content)),
        kind="ok" if message.status == "success" else "exception",
        lost="; ".join(lost),
        **{name: part for name, part in parts.items() if name not in refused},
    )


def _failure(step: ToolStep, error: Exception) -> Observation:
    text = shortened(described(error), ERROR_CHARS)
    if not isinstance(error, TimeoutError | ToolInvocationError):  # which an agent's tools node would raise
        logger.warning("%s raised while searching, and its result says so: %s", step.call.tool, text, exc_info=error)
    match error:
        case TimeoutError():
            limit = as_text(error) or f"no answer within {step.timeout} s"
            return Observation(content=f"TimeoutError: {limit}", kind="timeout", transient=True)
        case ToolInvocationError():
            return Observation(content=text, kind="invalid_arguments")
        case NotImplementedError():
            advice = "an async-only tool may need the async path: ainvoke, astream or asearch"
            return Observation(content=f"{text} ({advice})", kind="unsupported")
        case ToolException():
            return Observation(content=text, kind="exception")
        case _:
            status = getattr(error, "status_code", None)
            transient = isinstance(error, ConnectionError) or status in TRANSIENT_STATUS
            return Observation(content=text, kind="exception", transient=transient)


@dataclass(slots=True)
class ToolExecutor:
    """Runs the calls of one search, for real or in forks of the sandbox."""

    tree: Tree
    dialogue: PathDialogue
    tools: Mapping[str, BaseTool]
    sandbox: Sandbox | None
    bound_tools: frozenset[str]  # those of the sandbox, by name
    host_hooks: HostHooks
    config: SearchConfig
    state: Mapping[str, Any]  # the graph state for injected arguments
    messages_key: str  # where in it the messages stand that those of the path replace
    _worlds: Worlds | None = field(init=False)
    _nodes: ToolNodes = field(init=False)

    def __post_init__(self) -> None:
        self._nodes = ToolNodes(self.host_hooks)
        self._worlds = Worlds(self.sandbox) if self.sandbox is not None else None

    def run(self, node: Node, config: RunnableConfig) -> Flow[tuple[Observation, int]]:
        """Run the call of a node, which is no deferred write, and say how many calls were repeated for its fork."""
        call = node.call
        if call is None or call.effect == "write":
            msg = f"{node.label} must not run while searching."
            raise AssertionError(msg)
        if self._worlds is None or (call.effect == "read" and call.tool not in self.bound_tools):
            return (yield from self._observe(self.tools.get(call.tool), node, config)), 0
        parent = self.tree.state_before(node)
        writes = node.world != parent.world
        try:
            replayed = yield from self._rebuild(self._worlds, parent, config)
            world = yield FunctionStep(self._worlds.fork, parent.world)
            before = yield FunctionStep(partial(self._worlds.mark, parent.world), world)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a sandbox may live behind a network
            problem = f"the sandbox could not be forked: {described(error)}"
            return Observation(content=problem, kind="exception", transient=True), 0
        observation = yield from self._observe(_bound(world, node), node, config)
        # A call that timed out may still be at work in its fork, so that fork stands for no known world.
        if writes and not observation.transient:
            self._worlds.keep(node.world, world)
            snapshot, after = yield FunctionStep(partial(self._worlds.written_down, node.world), world)
            unchanged = before is not None and before == after
            observation = observation.model_copy(update={"snapshot": snapshot, "unchanged": unchanged})
        elif call.effect == "read" and before is not None:
            # What comes after it is tried in a world that is built anew: calls of one reply run side by side.
            wrote = yield FunctionStep(partial(self._worlds.changed, parent.world), world)
            observation = observation.model_copy(update={"wrote": wrote})
        return observation, replayed

    def _rebuild(self, worlds: Worlds, node: Node, config: RunnableConfig) -> Flow[int]:
        """Make the world after a node known again, by its snapshot or by repeating the writes that led to it.

        Needed after a resume, because results are persisted and forks are not, and when a fork was forgotten. Returns
        how many calls were repeated.
        """
        if worlds.knows(node.world):
            return 0
        replayed = 0
        version = ""
        for step in self.tree.path(node):
            if step.world == version:
                continue
            snapshot = step.observation.snapshot if step.observation else None
            if snapshot is not None:
                yield FunctionStep(partial(worlds.restore, step.world), snapshot)
            elif not worlds.knows(step.world):
                world = yield FunctionStep(worlds.fork, version)
                yield from self._observe(_bound(world, step), step, config)
                worlds.keep(step.world, world)
                replayed += 1
            version = step.world
        return replayed

    def _observe(self, tool: BaseTool | None, node: Node, config: RunnableConfig) -> Flow[Observation]:
        if tool is None or node.call is None:
            return Observation(content=f"There is no tool to run {node.label}.", kind="unsupported")
        call_id, messages = self.dialogue.request_at(node)  # in an agent, the call's own message stands last
        step = ToolStep(
            tool=tool,
            call=node.call,
            call_id=call_id,
            state=self._injected_state(tool, node, messages),
            timeout=self.config.tool_timeout,
            config=config,
            nodes=self._nodes,
        )
        return (yield from observe(step))

    def _injected_state(self, tool: BaseTool, node: Node, messages: list[BaseMessage]) -> dict[str, Any]:
        """The graph state for injected arguments: a copy, because what a search tries must not reach the host's."""
        state = {**self.state, self.messages_key: messages}
        if not self._nodes.gives(tool):
            return state
        try:
            return copy.deepcopy(state)
        except Exception as error:
            if node.world == self.tree.state_before(node).world:
                return state  # declared a read
            msg = f"{tool.name!r} has the graph state injected, which cannot be copied for a fork: {error}."
            raise ConfigurationError(msg) from error


def _bound(world: Sandbox, node: Node) -> BaseTool | None:
    """The tool of a node's call that acts on a fork."""
    name = node.call.tool if node.call else None
    return next((tool for tool in world.tools if tool.name == name), None)
