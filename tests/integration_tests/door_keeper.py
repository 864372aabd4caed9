"""A locked door, and a model that learns to open it: one that keeps to forms, or to none of them.

The world of memory and reflection, in the process and over HTTP.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException, tool
from pydantic import Field

from langchain_tooltree.cfgm.collect import DEFAULT_FAILURE_PROMPT
from langchain_tooltree.cfgm.focus import DEFAULT_FOCUS_PROMPT
from langchain_tooltree.cfgm.online import REFLECTION_PROMPT
from langchain_tooltree.cfgm.tips import (
    DEFAULT_COMPARISON_PROMPT,
    DEFAULT_SUCCESS_PROMPT,
)
from langchain_tooltree.models import CORRECTION
from langchain_tooltree.testing import ScriptedChatModel

LESSON = "Turn the brass key before you open the door."
LOCKED = "Error: the door is locked."
POINTS = ["Look for what locks a way.", "Try a key before a door."]
TIPS = {
    "comparison": "Use act to turn the key first.",
    "success": "Leave through the door once it is open.",
}
REASON = "Only then it opened."


def _tip(source: str, when: str) -> dict[str, Any]:
    shown = [{"tool": "act", "quote": "turn"}]
    return {"reasoning": REASON, "bears_out": shown, "when": when, "tip": TIPS[source]}


ANSWERS: dict[str, dict[str, Any]] = {
    DEFAULT_FOCUS_PROMPT: {
        "focus_points": [
            {"reasoning": "Doors differ.", "focus_point": point} for point in POINTS
        ]
    },
    DEFAULT_FAILURE_PROMPT: {
        "what_went_wrong": "The door was locked.",
        "next_time": LESSON,
    },
    DEFAULT_COMPARISON_PROMPT: {"tips": [_tip("comparison", "a door is locked")]},
    DEFAULT_SUCCESS_PROMPT: {
        "tips": [_tip("success", "a way is free")],
        "followed": [],
    },
    REFLECTION_PROMPT: {
        "key_information": {
            "objective": "To get out.",
            "initial_environment": "A door and a brass key.",
            "progress": "The door is locked.",
        },
        "questions": [{"question": "Why did it not open?", "answer": "It is locked."}],
        "next_step": LESSON,
    },
}


WAYS: dict[str, Callable[[Mapping[str, Any], bool], Any]] = {
    "as asked": lambda answer, _: answer,
    "fenced": lambda answer, _: f"```json\n{json.dumps(answer, indent=1)}\n```",
    "empty first": lambda answer, again: answer if again else "",
    "prose first": lambda answer, again: (
        answer if again else "I would have to think about that."
    ),
    "nonsense first": lambda answer, again: answer if again else {"forty-two": 42},
    "never": lambda *_: "I would rather not say.",
}


class DoorKeeper(ScriptedChatModel):
    """Opens a door, and turns the key first only if something in its prompt says so; the rest it says its own way.

    Args:
        way: How it answers questions that ask for a form.
        heeds_recall: Whether it also turns the key first where recalled runs tell of a locked door.
        failures: Raised in place of a reply, by the number of messages that it is shown.
    """

    way: str = "as asked"
    heeds_recall: bool = False
    failures: dict[int, Exception] = Field(default_factory=dict)

    def _respond(self, messages: Any, tools: Any) -> Any:
        answer = next(
            (
                said
                for prompt, said in ANSWERS.items()
                if messages[0].text.startswith(prompt)
            ),
            None,
        )
        if answer is not None:
            return WAYS[self.way](
                answer, any(message.text == CORRECTION for message in messages)
            )
        done = [
            call["args"]["action"]
            for message in messages
            for call in getattr(message, "tool_calls", ())
        ]
        if messages[-1].type == "tool" and "The door is open." in messages[-1].text:
            return "I am out."
        if failure := self.failures.pop(len(messages), None):
            raise failure
        told = any(
            LESSON in message.text
            for message in messages
            if message.type in {"human", "tool"}
        )
        told |= self.heeds_recall and LOCKED in messages[0].text
        action = "turn key" if told and "turn key" not in done else "open door"
        call = {
            "name": tools[0]["function"]["name"],
            "args": {"action": action},
            "id": f"call_{len(messages)}",
        }
        return AIMessage("", tool_calls=[call])


class Door:
    """An environment, and a tool for an agent: a door that opens once the key is turned."""

    def __init__(self) -> None:
        self.locked = True

    def reset(self, _: Any) -> str:
        self.locked = True
        return "You stand before a door. A brass key is in it."

    def step(self, action: str) -> tuple[str, float, bool]:
        if action == "turn key":
            self.locked = False
            return "The key turns.", 0.0, False
        return (LOCKED, 0.0, False) if self.locked else ("The door is open.", 1.0, True)

    def tool(self) -> Any:
        """The tool `act`, which fails where the door is locked."""

        @tool
        def act(action: str) -> str:
            """Take one action."""
            observation, _, _ = self.step(action)
            if observation == LOCKED:
                raise ToolException(observation)
            return observation

        act.handle_tool_error = True
        return act
