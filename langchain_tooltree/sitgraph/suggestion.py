"""What the graph suggests, and why. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["episodic", "contextual", "procedural"]
"""By the agent's own summary of the state, by the state as it can be read off the dialogue, or by weight alone."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A stored state that speaks for a suggestion.

    Attributes:
        trajectory: Id of the successful trajectory that it comes from.
        similarity: How similar it is to the state now, at most 1.
        summary: The summary that was written there; empty where none was.
    """

    trajectory: str
    similarity: float
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A tool that often came next.

    Attributes:
        tool: Its name.
        score: Its share among the tools that may come next, in [0, 1]; all shares sum to 1.
        mode: How it was found.
        support: How often it came next in successful trajectories.
        evidence: The stored states that speak most for it, best first; empty in procedural mode.
    """

    tool: str
    score: float
    mode: Mode
    support: int
    evidence: tuple[Evidence, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as plain data, for the state of a graph and for events.

        Returns:
            A dict of strings, numbers and lists.
        """
        seen = [
            {"trajectory": each.trajectory, "similarity": each.similarity, "summary": each.summary}
            for each in self.evidence
        ]
        return {
            "tool": self.tool,
            "score": self.score,
            "mode": self.mode,
            "support": self.support,
            "evidence": seen,
        }


def as_text(suggestions: Sequence[Suggestion | Mapping[str, Any]]) -> str:
    """Suggestions in words, for a prompt or the terminal.

    Args:
        suggestions: Suggestions, or what their `to_dict` returned.

    Returns:
        One line each, best first; empty if there are none.
    """
    lines = []
    for each in suggestions:
        given = each.to_dict() if isinstance(each, Suggestion) else each
        times = "once" if given["support"] == 1 else f"{given['support']} times"
        lines.append(f"- {given['tool']}: {given['score']:.0%}, came next {times}")
        lines += [f'  when: "{seen["summary"]}"' for seen in given["evidence"][:1] if seen["summary"]]
    return "\n".join(lines)
