"""Anomaly: an observation that shows that something is off, and why. Pure."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

AnomalyKind = Literal[
    "error", "error_field", "phrase", "repetition", "cycle", "stagnation", "unknown_tool", "drift", "classified"
]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is off, and how one can tell.

    Attributes:
        kind: Which rule found it: the tool raised or reported an `error`; an `error_field` of structured output; a
            `phrase` by which environments refuse an action; a `repetition` of the same call with the same outcome; a
            `cycle` of several calls; `stagnation`, where arguments vary and the outcome does not; an `unknown_tool`;
            `drift`, where a tool used earlier is gone; or the user's classifier (`classified`).
        evidence: The part of the conversation that shows it, in words.
        confidence: How sure the rule is, in [0, 1].
        recoverable: Whether the agent itself can do something about it; it cannot about a wrong password.
        tool: Name of the tool whose observation it is.
        call_id: Id of the call whose observation it is; `None` where there is no id.
    """

    kind: AnomalyKind
    evidence: str
    confidence: float
    recoverable: bool
    tool: str
    call_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The anomaly as plain data."""
        return asdict(self)
