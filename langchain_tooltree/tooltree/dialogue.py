"""The conversation as it stands at each node of a search: the dialogue, then the calls of the path, each answered."""

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tooltree.conversation import Conversation, calls_in
from langchain_tooltree.errors import EmptyQueryError
from langchain_tooltree.experience.records import readable
from langchain_tooltree.text import digest
from langchain_tooltree.tooltree.result import PlanStep
from langchain_tooltree.tooltree.search import Node, Tree, call_key

RECENT_MESSAGES = 3
"""User messages that the choice of tools depends on, latest last."""


class PathDialogue:
    """One conversation, continued along the paths of a tree; `system` messages are put before it for the models."""

    def __init__(self, tree: Tree, messages: Sequence[BaseMessage], *, system: Sequence[BaseMessage] = ()) -> None:
        said = Conversation.of(messages)
        if not said.goal:
            msg = (
                f"There is no request to plan for: of {len(messages)} messages, none is a user message with text, or "
                "the last such message is empty. A node reads them from the state under its `messages_key`."
            )
            raise EmptyQueryError(msg)
        self.query = said.goal
        # Unique to this search and the same when it is resumed; the ids of tool calls derive from it.
        self.run_key = uuid.uuid4().hex
        self.requests = said.wanted
        self._said, self._messages, self._used_ids = said, said.messages, said.call_ids
        # How often a call, by its key, has failed since the latest request.
        failed = (step for step in said.steps if step.outcome and step.outcome.status == "error")
        self.failures = Counter(call_key(step.tool, step.arguments or {}) for step in failed)
        self._tree = tree
        self._system = list(system)
        self._ids: dict[tuple[str, int], str] = {}
        self._paths: dict[int, list[Node]] = {}
        self._made: dict[tuple[int, str, bool], list[BaseMessage]] = {}
        self._history: list[dict[str, Any]] | None = None

    def messages_at(self, node: Node, *, signed: bool = True) -> list[BaseMessage]:
        """What a tool called at a node finds in the graph state; the calls carry their signed reasoning, or not."""
        path = (message for step in self.steps_to(node) for message in self._messages_of(step, signed=signed))
        return [*self._messages, *path]

    def prompt_at(self, node: Node, *, signed: bool = True) -> list[BaseMessage]:
        """What a model asked at a node reads; only the one that made the calls has a use for signed reasoning."""
        return [*self._system, *self.messages_at(node, signed=signed)]

    def _messages_of(self, step: PlanStep, *, signed: bool) -> list[BaseMessage]:
        """A step as messages; every prompt below its node holds them, so they are made once."""
        if step.observation is None:
            return step.messages(signed=signed)
        key = (step.node, step.call_id, signed and step.call.signed_reasoning is not None)
        if key not in self._made:
            self._made[key] = step.messages(signed=signed)
        return self._made[key]

    def history_at(self, node: Node) -> list[dict[str, Any]]:
        """What was said and done until a node as JSON-like data, so that a judge needs no tools bound to read it."""
        if self._history is None:
            self._history = [*(transcript(self._system) if self._system else ()), *transcript(self._said)]
        history = [*self._history]
        for step in self._path(node):
            if step.call:
                history.append(_called(step.call.tool, step.call.arguments))
            if step.call and step.observation:
                history.append(_observed(step.call.tool, step.observation.content))
        return history

    def steps_to(self, node: Node) -> tuple[PlanStep, ...]:
        """The calls of the path to a node, with their ids."""
        path = self._path(node)
        return tuple(
            PlanStep(step.call, call_id, step.observation, step.r_pre or 0.0, step.r_post, step.goal, step.id)
            for step, call_id in zip(path, self._call_ids(path), strict=True)
            if step.call is not None
        )

    def context_at(self, node: Node) -> list[str]:
        """What the choice of tools depends on: the latest requests, then the calls and observations of the path."""
        seen = [f"{step.label} {readable(step.observation.content)}" for step in self._path(node) if step.observation]
        return self.requests[-RECENT_MESSAGES:] + seen

    def request_at(self, node: Node) -> tuple[str, list[BaseMessage]]:
        """The id of a node's call, unique in the conversation, and the messages until the call, it included."""
        *before, made = self.steps_to(node)
        path = (message for step in before for message in self._messages_of(step, signed=True))
        return made.call_id, [*self._messages, *path, made.request()]

    def _path(self, node: Node) -> list[Node]:
        """The path to a node; a tree only grows, so it stays what it is."""
        if node.id not in self._paths:
            self._paths[node.id] = self._tree.path(node)
        return self._paths[node.id]

    def _call_ids(self, path: Sequence[Node]) -> list[str]:
        """An id for each call of a path: the provider's own where its signed reasoning goes with it."""
        ids: list[str] = []
        for node in path:
            key = (self.run_key, node.id)
            if key not in self._ids:
                own = node.call.signed_reasoning.call_id if node.call and node.call.signed_reasoning else None
                taken = own in self._used_ids or own in ids
                # Otherwise an id in a form that every provider accepts.
                self._ids[key] = f"call_{digest(f'{self.run_key}:{node.id}', 24)}" if own is None or taken else own
            ids.append(self._ids[key])
        return ids


def transcript(conversation: Sequence[BaseMessage] | Conversation) -> list[dict[str, Any]]:
    """A conversation as JSON-like data: one entry for each text, call and observation, in order."""
    entries: list[dict[str, Any]] = []
    for part, message in list(Conversation.of(conversation).parts):
        match part:
            case "observation":
                entries.append(_observed(message.name, message.content))
            case "reply":
                if message.text:
                    entries.append({"role": "assistant", "text": message.text})
                entries.extend(_called(call["name"], call["args"]) for call in calls_in(message))
            case _:
                system = isinstance(message, SystemMessage)
                text = message.text if system else readable(message.content)
                entries.append({"role": "system" if system else "user", "text": text})
    return entries


def _called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "call": {"tool": tool, "arguments": arguments}}


def _observed(tool: str | None, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool": tool, "observation": readable(content)}
