"""Trying a call out: for real if it only reads, in a fork of the world if the sandbox binds its tool."""

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.tooltree.arguments import injected_names
from langchain_tooltree.tooltree.dialogue import Dialogue
from langchain_tooltree.tooltree.execute import ToolStep, observe
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.sandbox import Sandbox, Worlds, snapshot_of
from langchain_tooltree.tooltree.tree import Node, Observation, Tree


class CallTrial:
    """Runs the calls of one search.

    Args:
        planner: Supplies tools, effects, sandbox and limits.
        tree: The tree of the search.
        dialogue: Supplies messages and ids of tool calls.
        state: Graph state for injected arguments.
        messages_key: Where in it the messages stand; they are replaced by those of the path.
    """

    def __init__(
        self, planner: Planner, tree: Tree, dialogue: Dialogue, *, state: Mapping[str, Any], messages_key: str
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
