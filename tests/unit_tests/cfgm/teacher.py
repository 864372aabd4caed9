"""What the tests of memory share: attempts at tasks, and a model that answers by what it is shown."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import PrivateAttr

from langchain_tooltree import Trajectory
from langchain_tooltree.cfgm.tips import DEFAULT_COMPARISON_PROMPT
from langchain_tooltree.testing import ScriptedChatModel


def attempt(
    task: str,
    *calls: Any,
    success: bool | None = True,
    id: str | None = None,  # noqa: A002 - the field's name
    number: int | None = None,
    **metadata: Any,
) -> Trajectory:
    """An attempt at a task: its calls as pairs of action and observation, made with the tool `act`."""
    messages: list[Any] = [HumanMessage(task)]
    for place, (action, observation) in enumerate(calls or [("go", "You go.")]):
        call = {"name": "act", "args": {"action": action}, "id": f"call_{place}"}
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage(observation, tool_call_id=call["id"], name="act"),
        ]
    kept = metadata if number is None else {"attempt": number, **metadata}
    run = Trajectory.from_messages(messages, success=success, id=id)
    return replace(run, metadata=kept)


def tip_reply(
    tip: str, when: str = "the pot is full", *, quote: str = "go", **others: Any
) -> dict[str, Any]:
    """A tip as a model writes it; `quote` has to stand in a call of `act`."""
    return {
        "reasoning": "r",
        "bears_out": [{"tool": "act", "quote": quote}],
        "when": when,
        "tip": tip,
        **others,
    }


class Teacher(ScriptedChatModel):
    """Answers questions for tips: one tip by comparison and one from a success, each with the task in it.

    Args:
        silent_on: Tasks on which it says nothing that can be used.
        dies_at: The number of the call, from 1, that ends the process; none if 0.
        followed: The numbers of known tips that it says were followed as well.
    """

    silent_on: Sequence[str] = ()
    dies_at: int = 0
    followed: Sequence[int] = ()
    _documents: list[tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The questions so far: their kind and their task."""
        return [(kind, document["task"]) for kind, document in self._documents]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """What it was shown so far."""
        return [document for _, document in self._documents]

    def _respond(self, messages: Any, tools: Any) -> Any:
        document = json.loads(messages[1].text)
        kind = (
            "comparison"
            if messages[0].text.startswith(DEFAULT_COMPARISON_PROMPT)
            else "success"
        )
        self._documents.append((kind, document))
        if len(self._documents) == self.dies_at:
            raise KeyboardInterrupt
        task = document["task"]
        if task in self.silent_on:
            return "I would rather not."
        tip = f"Only act after {'looking around' if kind == 'comparison' else 'asking twice'}."
        calls = (each for each in document["succeeded"]["record"] if "call" in each)
        action = next(calls)["arguments"]["action"]
        form = tip_reply(
            tip,
            f"asked to {task}",
            quote=action,
            reasoning=f"It went well with {task}.",
        )
        return {
            "tips": [form],
            **({"followed": list(self.followed)} if kind == "success" else {}),
        }
