"""Running the calls of a search, for real or in a fork of the world, and turning the results into observations."""

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import LC_AUTO_PREFIX, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.prebuilt import ToolNode

from langchain_tooltree._langgraph import ToolInvocationError, tool_node_input
from langchain_tooltree.conversation import is_observation
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.text import shortened
from langchain_tooltree.tooltree.dialogue import PathDialogue
from langchain_tooltree.tooltree.host_hooks import HostHooks
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.sandbox import Sandbox, Worlds, snapshot_of
from langchain_tooltree.tooltree.search.tree import Call, Node, Observation, Tree
from langchain_tooltree.tooltree.tools import injected_names

GRACE = 0.5
"""Seconds that an async tool gets to notice, on the sync path, that its time is up."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool call, as a step of a flow.

    The call goes through a LangGraph `ToolNode`, so state, store and runtime are injected as in the user's own graph.

    Args:
        tool: The tool. A sync-only one runs in a thread on the async path; an async-only one gets an event loop of
            its own on the sync path.
        call: The call.
        call_id: Its tool call id.
        state: The graph state that injected arguments are read from.
        timeout: Seconds it may take, `None` for no limit. A sync tool cannot be stopped: its thread is left behind.
        config: Run configuration of the call.
        guards: What the host puts around its tool calls.
    """

    tool: BaseTool
    call: Call
    call_id: str
    state: Mapping[str, Any]
    timeout: float | None
    config: RunnableConfig
    guards: HostHooks = field(default_factory=HostHooks)

    def run(self) -> Any:
        """Run the tool.

        Raises:
            TimeoutError: If it takes too long.
        """
        if _is_async_only(self.tool):
            patience = None if self.timeout is None else self.timeout + GRACE
            return self._in_thread(lambda: asyncio.run(self.arun())).result(patience)
        return self._in_thread(self._invoke).result(self.timeout)

    async def arun(self) -> Any:
        """Run the tool without blocking the loop.

        Raises:
            TimeoutError: If it takes too long.
        """
        if _is_sync_only(self.tool) and self.guards.awrap is None:
            return await asyncio.wait_for(asyncio.wrap_future(self._in_thread(self._invoke)), self.timeout)
        return await asyncio.wait_for(self._ainvoke(), self.timeout)

    def _in_thread(self, work: Callable[[], Any]) -> Future[Any]:
        """Start work on a thread of its own, so that a tool that hangs takes no place of others in a pool."""
        outcome: Future[Any] = Future()
        context = copy_context()

        def run() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            try:
                outcome.set_result(context.run(work))
            except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
                outcome.set_exception(error)

        threading.Thread(target=run, name=f"tooltree-{self.call.tool}", daemon=True).start()
        return outcome

    def _invoke(self) -> Any:
        return self._node().invoke(self._input(), self._run_config())

    async def _ainvoke(self) -> Any:
        return await self._node().ainvoke(self._input(), self._run_config())

    def _node(self) -> ToolNode:
        return ToolNode(
            [self.tool],
            handle_tool_errors=False,
            wrap_tool_call=self.guards.wrap,
            awrap_tool_call=self.guards.awrap,
        )

    def _input(self) -> dict[str, Any]:
        arguments = copy.deepcopy(self.call.arguments)  # a tool may change what it gets
        return tool_node_input(self.call.tool, arguments, self.call_id, self.state)

    def _run_config(self) -> RunnableConfig:
        merged = merge_configs(ensure_config(), self.config)
        # Merging passes over a limit that is the default, but the search's own graph has set another.
        if "recursion_limit" in self.config:
            merged["recursion_limit"] = self.config["recursion_limit"]
        return merged


def _is_async_only(tool: BaseTool) -> bool:
    return isinstance(tool, StructuredTool) and tool.func is None


def _is_sync_only(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool):
        return tool.coroutine is None and type(tool)._arun is StructuredTool._arun  # noqa: SLF001 - is it overridden?
    return type(tool)._arun is BaseTool._arun  # noqa: SLF001 - as above


def observe(step: ToolStep, *, max_chars: int) -> Flow[Observation]:
    """Run a call; an error is an observation too.

    Args:
        step: The call.
        max_chars: Longer content is cut in the middle.

    Returns:
        What the tool brought back, or which way it failed.
    """
    try:
        output = yield step
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is something to learn from
        return _failure(step, error, max_chars)
    message = _tool_message(output)
    if message is None:
        return Observation(
            content=f"{step.call.tool} returned a Command, which only the graph itself can apply. "
            "Declare the tool a write.",
            kind="unsupported",
        )
    return Observation(
        content=clip(message.content, max_chars),
        kind="ok" if message.status == "success" else "exception",
        artifact=_storable(message.artifact, max_chars),
    )


def _failure(step: ToolStep, error: Exception, max_chars: int) -> Observation:
    text = clip(f"{type(error).__name__}: {error}", max_chars)
    match error:
        case TimeoutError():
            limit = f"no answer within {step.timeout} s" if not str(error) else str(error)
            return Observation(content=f"TimeoutError: {limit}", kind="timeout", transient=True)
        case ToolInvocationError():
            return Observation(content=text, kind="invalid_arguments")
        case NotImplementedError():
            return Observation(
                content=f"{text} (an async-only tool may need the async path: ainvoke, astream or asearch)",
                kind="unsupported",
            )
        case ToolException():
            return Observation(content=text, kind="exception")
        case _:
            status = getattr(error, "status_code", None)
            transient = isinstance(error, ConnectionError) or status in TRANSIENT_STATUS
            return Observation(content=text, kind="exception", transient=transient)


def _tool_message(output: Any) -> ToolMessage | None:
    messages = output.get("messages") if isinstance(output, dict) else None
    return next(filter(is_observation, messages or ()), None)


def clip(content: Any, max_chars: int) -> Any:
    """Cut message content to a length.

    Identifiers that LangChain makes up for blocks are left out, so that equal results are equal.

    Args:
        content: A string, or LangChain content blocks.
        max_chars: Characters to keep of a string, or of each block; a longer block that is not text is replaced.

    Returns:
        The content, with a note where something was left out.
    """
    if isinstance(content, str):
        return shortened(content, max_chars)
    return [_clip_block(block, max_chars) for block in content]


def _clip_block(block: Any, max_chars: int) -> Any:
    if isinstance(block, str):
        return shortened(block, max_chars)
    if str(block.get("id", "")).startswith(LC_AUTO_PREFIX):
        block = {key: value for key, value in block.items() if key != "id"}
    if isinstance(block.get("text"), str):
        return {**block, "text": shortened(block["text"], max_chars)}
    size = len(json.dumps(block, default=str))
    if size <= max_chars:
        return block
    return {"type": "text", "text": f"[{block.get('type', 'content')} of {size} characters left out]"}


def _storable(artifact: Any, max_chars: int) -> Any:
    """An artifact that a checkpointer can keep at a reasonable size, or `None`."""
    try:
        return artifact if len(json.dumps(artifact)) <= max_chars else None
    except (TypeError, ValueError):
        return None


class ToolExecutor:
    """Runs the calls of one search.

    Args:
        planner: Supplies tools, effects, sandbox and limits.
        tree: The tree of the search.
        dialogue: Supplies messages and ids of tool calls.
        state: Graph state for injected arguments.
        messages_key: Where in it the messages stand; they are replaced by those of the path.
    """

    def __init__(
        self, planner: Planner, tree: Tree, dialogue: PathDialogue, *, state: Mapping[str, Any], messages_key: str
    ) -> None:
        self._planner = planner
        self._tree = tree
        self._dialogue = dialogue
        self._state = state
        self._messages_key = messages_key
        self._worlds = Worlds(planner.sandbox) if planner.sandbox else None

    def run(self, node: Node, config: RunnableConfig) -> Flow[tuple[Observation, int]]:
        """Run the call of a node.

        Args:
            node: The node; its call is not a deferred write.
            config: Run configuration of the call.

        Returns:
            What it brought back, and how many calls were repeated to rebuild a fork.

        Raises:
            ConfigurationError: If the sandbox or the graph state cannot be copied.
        """
        call = node.call
        if call is None or call.effect == "write":
            msg = f"{node.label} must not run while searching."
            raise AssertionError(msg)
        if self._worlds is None or (call.effect == "read" and call.tool not in self._planner.bound_tools):
            return (yield from self._observe(self._planner.library.tool(call.tool), node, config)), 0
        parent = self._parent(node)
        try:
            replayed = yield from self._rebuild(self._worlds, parent, config)
            world = yield FunctionStep(self._worlds.fork, parent.world)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a sandbox may live behind a network
            problem = f"the sandbox could not be forked: {type(error).__name__}: {error}"
            return Observation(content=problem, kind="exception", transient=True), 0
        observation = yield from self._observe(_bound(world, node), node, config)
        # A call that timed out may still be at work in its fork, so that fork stands for no known world.
        if node.world != parent.world and not observation.transient:
            self._worlds.keep(node.world, world)
            snapshot = yield FunctionStep(snapshot_of, world)
            observation = observation.model_copy(update={"snapshot": snapshot})
        return observation, replayed

    def _rebuild(self, worlds: Worlds, node: Node, config: RunnableConfig) -> Flow[int]:
        """Make the world after a node known again, by its snapshot or by repeating the writes that led to it.

        Needed after a resume, because results are persisted and forks are not, and when a fork was forgotten.

        Returns:
            How many calls were repeated.
        """
        if worlds.knows(node.world):
            return 0
        replayed = 0
        version = ""
        for step in self._tree.path(node):
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
        step = ToolStep(
            tool=tool,
            call=node.call,
            call_id=self._dialogue.call_id(node),
            state=self._injected_state(tool, node),
            timeout=self._planner.config.tool_timeout,
            config=config,
            guards=self._planner.guards,
        )
        return (yield from observe(step, max_chars=self._planner.config.max_observation_chars))

    def _injected_state(self, tool: BaseTool, node: Node) -> dict[str, Any]:
        """The graph state for injected arguments: a copy, because what a search tries must not reach the host's."""
        parent = self._parent(node)
        request = self._dialogue.steps_to(node)[-1].request()  # in an agent, the call's own message stands last
        state = {**self._state, self._messages_key: [*self._dialogue.messages_at(parent), request]}
        if not injected_names(tool):
            return state
        try:
            return copy.deepcopy(state)
        except Exception as error:
            if node.world == parent.world:
                return state  # declared a read
            msg = f"{tool.name!r} has the graph state injected, which cannot be copied for a fork: {error}."
            raise ConfigurationError(msg) from error

    def _parent(self, node: Node) -> Node:
        return self._tree.parent(node) or self._tree.root


def _bound(world: Sandbox, node: Node) -> BaseTool | None:
    """The tool of a node's call that acts on a fork."""
    name = node.call.tool if node.call else None
    return next((tool for tool in world.tools if tool.name == name), None)
