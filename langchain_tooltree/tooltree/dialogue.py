"""The conversation as it stands at each node of a search: the dialogue, then the calls of the path, each answered.

Calls that one reply has made stand in one message here, too. Where an operation runs calls and asks on from there, the
tree does not hold what they have brought back yet: these observations are given as `fresh`, by node.
"""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tooltree.conversation import Conversation, calls_in
from langchain_tooltree.errors import EmptyQueryError
from langchain_tooltree.experience.records import ChatMessage, Part, call_key, readable
from langchain_tooltree.text import digest, shortened
from langchain_tooltree.tooltree.result import PlanStep, messages_of, request_of, rounds
from langchain_tooltree.tooltree.search import Node, Observation, Tree

SAID: tuple[Part, ...] = ("request", "summary", "reply", "observation")
"""What the choice of tools depends on; instructions and reference material are about other tasks, too."""

Fresh = Mapping[int, Observation]
"""What calls have brought back that the tree does not hold yet, by node."""

NOTHING: Fresh = {}

SEEN_CHARS = 20_000
"""Characters of a result that judges, and the choice of tools, see: about 5,000 tokens. The agent's own questions and
the messages that come back hold it whole, as without a planner."""


class SoFar(TypedDict):
    """How far the run of a conversation has come before the search."""

    turn_calls: int  # calls since the latest request that brought something back
    last_failed: bool  # whether the latest of them failed


def so_far_in(said: Conversation) -> SoFar:
    """How far the run of a conversation has come."""
    outcomes = [step.outcome.status for step in said.steps if step.outcome]
    return SoFar(turn_calls=len(outcomes), last_failed=outcomes[-1:] == ["error"])


class PathDialogue:
    """One conversation, continued along the paths of a tree; `system` messages are put before it for the models.

    `name` is that of the agent: its messages on the paths bear it, as those in its state do. Judges, and the choice of
    tools, see longer results than `judged_chars` characters without their middle.
    """

    def __init__(
        self,
        tree: Tree,
        messages: Sequence[BaseMessage] | Conversation,
        *,
        system: Sequence[BaseMessage] = (),
        name: str | None = None,
        judged_chars: int = SEEN_CHARS,
    ) -> None:
        said = Conversation.of(messages)
        if not said.goal:
            msg = (
                f"There is no request to plan for: of {len(said.messages)} messages, none is a user message with text, "
                "or the last such message is empty. A node reads them from the state under its `messages_key`."
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
        self._name = name
        self._judged_chars = judged_chars
        self._ids: dict[tuple[str, int], str] = {}
        self._paths: dict[int, list[Node]] = {}
        self._made: dict[tuple[tuple[int, str], ...], list[BaseMessage]] = {}
        self._history: list[dict[str, Any]] | None = None
        self._context: list[str] | None = None

    def prompt_at(self, node: Node, *, fresh: Fresh = NOTHING) -> list[BaseMessage]:
        """What a model asked at a node reads; the calls carry their signed reasoning."""
        return [*self._system, *self._messages, *self._messages_of(self.steps_to(node, fresh), fresh)]

    def chat_at(self, node: Node, *, fresh: Fresh = NOTHING) -> Sequence[ChatMessage]:
        """The dialogue at a node, as a record of the run would have it, without the instructions."""
        made = Conversation(self._messages_of(self.steps_to(node, fresh), fresh))
        return self._said.chat + made.chat

    def _messages_of(self, steps: Sequence[PlanStep], fresh: Fresh = NOTHING) -> list[BaseMessage]:
        """Steps as messages; every prompt below their nodes holds them, so those in the tree are made once."""
        messages: list[BaseMessage] = []
        for made in rounds(steps):
            if made[-1].observation is None or made[-1].node in fresh:
                messages += messages_of(made, name=self._name)
                continue
            key = tuple((step.node, step.call_id) for step in made)
            if key not in self._made:
                self._made[key] = messages_of(made, name=self._name)
            messages += self._made[key]
        return messages

    def history_at(self, node: Node) -> list[dict[str, Any]]:
        """What was said and done until a node as JSON-like data, so that a judge needs no tools bound to read it."""
        if self._history is None:
            self._history = [*(transcript(self._system) if self._system else ()), *transcript(self._said)]
        history = [*self._history]
        for made in rounds(self.steps_to(node)):
            if words := made[0].call.said:
                history.append({"role": "assistant", "text": words})
            for step in made:
                waits = {} if step.observation else {"executed": False}
                history.append(_called(step.call.tool, step.call.arguments) | waits)
            history += [_observed(step.call.tool, step.observation.content) for step in made if step.observation]
        return [self._in_short(entry) for entry in history]

    def _in_short(self, entry: dict[str, Any]) -> dict[str, Any]:
        seen = entry.get("observation")
        return entry if seen is None else {**entry, "observation": shortened(seen, self._judged_chars)}

    def steps_to(self, node: Node, fresh: Fresh = NOTHING) -> tuple[PlanStep, ...]:
        """The calls of the path to a node, with their ids."""
        path = self._path(node)
        return tuple(
            PlanStep(
                call=step.call,
                call_id=call_id,
                observation=step.observation or fresh.get(step.id),
                r_pre=step.r_pre if step.pre_scored else None,
                r_post=step.r_post,
                pre_reason=step.pre_reason,
                post_reason=step.post_reason,
                goal=step.goal,
                node=step.id,
                batched=step.batched,
            )
            for step, call_id in zip(path, self._call_ids(path), strict=True)
            if step.call is not None
        )

    def context_at(self, node: Node, *, fresh: Fresh = NOTHING) -> list[str]:
        """What the choice of tools depends on: all that was said, called and observed."""
        if self._context is None:
            self._context = [_in_words(part, message) for part, message in self._said.parts if part in SAID]
        made = [(step.call.label, step.observation) for step in self.steps_to(node, fresh)]
        seen = [
            f"{label} {shortened(readable(observation.content), self._judged_chars)}"
            for label, observation in made
            if observation
        ]
        return [*self._context, *seen]

    def request_at(self, node: Node) -> tuple[str, list[BaseMessage]]:
        """The id of a node's call, unique in the conversation, and the messages until the call, it included.

        The last message is the reply that made the call, with all its calls, as a tool of an agent finds it.
        """
        reply = self._tree.reply_of(node)
        steps = self.steps_to(reply[-1])
        before, made = steps[: -len(reply)], steps[-len(reply) :]
        messages = [*self._messages, *self._messages_of(before), request_of(made, name=self._name)]
        return made[reply.index(node)].call_id, messages

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
                role = "system" if system else "user" if part == "request" else part
                entries.append({"role": role, "text": text})
    return entries


def _in_words(part: Part, message: BaseMessage) -> str:
    made = [f"{call['name']}({', '.join(map(str, call['args'].values()))})" for call in calls_in(message)]
    named = [message.name] if part == "observation" else []
    return " ".join(filter(None, (*named, readable(message.content), *made)))


def _called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "call": {"tool": tool, "arguments": arguments}}


def _observed(tool: str | None, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool": tool, "observation": readable(content)}
