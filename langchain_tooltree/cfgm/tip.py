"""Tip: a piece of advice taken from experience, with where it comes from. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Tip:
    """A piece of advice for tasks like one that was tried before.

    Attributes:
        text: The advice.
        reasoning: Why it holds, from what happened.
        source: Whether failed attempts were compared with a successful one (first part of CFGM's Alg. 2), or a success
            was looked at alone (second part).
        task: The task that was tried.
        tools: Names of the tools that it names.
        trajectories: Ids of the trajectories that it was taken from.
    """

    text: str
    reasoning: str
    source: Literal["comparison", "success"]
    task: str
    tools: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The tip as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tip":
        """The tip that `to_dict` wrote down, be it that of another version; what is not there is empty."""
        return cls(
            text=str(data.get("text") or ""),
            reasoning=str(data.get("reasoning") or ""),
            source="comparison" if data.get("source") == "comparison" else "success",
            task=str(data.get("task") or ""),
            tools=tuple(data.get("tools") or ()),
            trajectories=tuple(data.get("trajectories") or ()),
        )
