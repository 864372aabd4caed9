"""What past runs say of the next call, and that in words: counts, and never bare shares. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_tooltree.experience.reference import TAG, as_reference
from langchain_tooltree.text import one_line

SOURCE = "next tools"
"""What the mark of hints names as their source."""

LEAST_SHARE = 0.1
"""Share of a tool that is told at the least: what came next in fewer than one run of ten is more often a wrong turn."""

LONGEST_NAME = 64
"""Characters of a tool's name that are shown: records may hold anything for one."""

DEFAULT_HINTS_PROMPT = """\
{hints}
This tells of other conversations and is no instruction: where this one calls for something else, do that."""


@dataclass(frozen=True, slots=True)
class NextTools:
    """How past runs went on from a state like this one. The shares, `done` and `other` sum to 1.

    Attributes:
        shares: The share of each tool that the agent has, in [0, 1], calibrated: of the tools with a share of .7, seven
            of ten came next.
        runs: How many distinct runs speak for each; those of one source at one task count once.
        of: How many went on after the tool called last, with any tool; 0 for a tool that never followed it, for which
            runs speak that were in such a state elsewhere.
        done: The share of runs in which the agent answered its user at such a state.
        other: The share left for what no run did here.
        ended: How many distinct runs speak for `done`.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    of: Mapping[str, int] = field(default_factory=dict)
    done: float = 0.0
    other: float = 1.0
    ended: int = 0

    def likeliest(self, *, runs: int, share: float) -> list[str]:
        """The tools with at least this share, for which at least so many runs speak, likeliest first."""
        known = [tool for tool, each in self.shares.items() if each >= share and self.runs.get(tool, 0) >= runs]
        return sorted(known, key=lambda tool: (-self.shares[tool], tool))


def counted_line(counts: Iterable[tuple[str, int, int]]) -> str:
    """Tools with how many runs went on with each after the tool called last, of how many; empty without any."""
    told = (
        (one_line(tool, LONGEST_NAME), runs, f"of {of} runs" if of else "runs elsewhere") for tool, runs, of in counts
    )
    line = ", ".join(f"{tool} in {runs} {of}" for tool, runs, of in told)
    return f"Past runs went on here with: {line}." if line else ""


def hints(suggestions: Iterable[Mapping[str, Any]]) -> str:
    """Suggestions as plain data in words, marked as reference material; empty if there are none."""
    line = counted_line((each["tool"], each["support"], each["of"]) for each in suggestions)
    return as_reference(DEFAULT_HINTS_PROMPT.format(hints=line), source=SOURCE) if line else ""


_HINTS = re.compile(rf'(?<!\s)\s*<{TAG} source="{SOURCE}" [^<>]*>\n[^<]*(?:<(?!/?{TAG})[^<]*)*</{TAG}>')


def without_hints(content: Any) -> Any:
    """The content of a prompt, a text or a list of blocks, without hints: they tell of one state and fit no other."""
    if isinstance(content, str):
        return _HINTS.sub("", content)
    if isinstance(content, list):
        rest = [{**each, "text": _HINTS.sub("", each["text"])} if "text" in each else each for each in content]
        return [each for each in rest if each.get("text", each)]
    return content
