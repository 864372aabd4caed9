"""The problems that a final answer of a model can have.

A final answer is a model response without tool calls.
"""

from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import ToolCall

ProblemKind = Literal[
    "empty",
    "truncated",
    "invalid_tool_call",
    "tool_call_as_text",
    "announced_tool_call",
    "repeated_call",
    "missing",
    "failed_read",
    "no_tool_call",
]

FORM_PROBLEMS: frozenset[ProblemKind] = frozenset(
    {
        "empty",
        "truncated",
        "invalid_tool_call",
        "tool_call_as_text",
        "announced_tool_call",
    }
)
"""The problems that can be seen from the answer alone."""

TURN_PROBLEMS: frozenset[ProblemKind] = frozenset({"failed_read", "no_tool_call"})
"""The problems that can be seen from the tool calls before the answer."""


@dataclass(frozen=True)
class AnswerProblem:
    """A reason not to accept a final answer at once.

    Attributes:
        kind: The kind of the problem, which decides about its remedies.
        explanation: A short explanation for the model. If the kind is `missing`, it
            is the description of what is missing, in the model's own words.
        tool_call: The tool call that the answer proposes or contains, if there is one.
    """

    kind: ProblemKind
    explanation: str
    tool_call: ToolCall | None = None
