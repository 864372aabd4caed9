"""The rules: what each of them says about a call and its observation, surest rule first. Pure."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from langchain_tooltree.cfgm.anomaly.error_fields import Fields, error_in, fields_of
from langchain_tooltree.cfgm.anomaly.loops import Loop, rendered
from langchain_tooltree.cfgm.anomaly.phrases import Phrase, phrase_book
from langchain_tooltree.cfgm.anomaly.signals import quoted, said, signals_in
from langchain_tooltree.experience.records import Step
from langchain_tooltree.text import cut

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


READ = 2_000
"""Characters of an observation in which a reason is looked for that is out of the agent's reach: a refusal is short."""


def is_recoverable(text: str) -> bool:
    """Whether an agent can do something about a failure, going by what the failed call brought back.

    It cannot do anything about wrong credentials, a spent quota, a payment, or a service that is down or limits its
    rate: the same would happen to any other call. A call for logging in is up to the agent.
    """
    words, book = text[:READ], phrase_book()
    return book.out_of_reach.search(words) is None or book.up_to_the_agent.search(words) is not None


LONGEST_CALL = 120
"""Characters of a call that evidence shows: the tool and its first arguments, on a line or two."""

LISTED_TOOLS = 20
"""Tools that evidence names; an agent with more finds them in its own request."""

SHORTEST_ECHO = 8
"""Characters from which on a sentence in a call's arguments is the agent's own; shorter ones match by chance."""

_REJECTED = re.compile(r"\s*(?:user rejected the tool call|the user rejected this call of)\b", re.IGNORECASE)
_NO_SUCH_TOOL = re.compile(r"\s*(?:error:\s*)?\S{1,128} is not a valid tool\b", re.IGNORECASE)
_BY_TOOL_NODE = re.compile(
    r"\s*(?:error (?:executing|invoking) tool '|error: .{1,1500}\n\s*please fix your mistakes\.|"
    r"tool '[^']{1,128}' failed after \d+ attempt)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ObservedCall:
    """A call with its observation, read once for all rules."""

    step: Step

    @cached_property
    def text(self) -> str:
        """The observation as text, without what this package has added to it."""
        return said(self.step.outcome.content) if self.step.outcome is not None else ""

    @cached_property
    def fields(self) -> Fields | None:
        """Its fields, if it is structured."""
        return fields_of(self.text)

    @property
    def is_rejection(self) -> bool:
        """Whether a person has rejected the call: an instruction, and nothing that went wrong."""
        return _REJECTED.match(self.text[:200]) is not None


def missing_tool(
    seen: ObservedCall, tools: Collection[str] | None, worked_before: Callable[[str], bool]
) -> Anomaly | None:
    """A call of a tool that is not there: `drift` if it was there before, `unknown_tool` if it never was.

    The observation decides: a tool that brings back a result is there, also if it is not in `tools`. Agents get tools
    at run time, and some calls are answered by something else than the tools node.
    """
    step, text = seen.step, seen.text
    refused = bool(_NO_SUCH_TOOL.match(text[:300]))
    failed = step.outcome is not None and step.outcome.status == "error"
    absent = failed and tools is not None and step.tool not in tools
    if not step.tool or not (refused or absent):
        return None
    known = worked_before(step.tool)
    there = "" if tools is None else f" There are {_listed(tools)}."
    before = "worked earlier in this conversation and is gone now" if known else "is no tool of this agent"
    evidence = f"`{step.tool}` {before}.{there} The answer was {quoted(text) if text.strip() else 'empty'}."
    return _anomaly("drift" if known else "unknown_tool", step, evidence, 1.0, recoverable=True)


def error(seen: ObservedCall) -> Anomaly | None:
    """A call whose observation is marked as an error, or is what a tools node makes of an exception."""
    step, text = seen.step, seen.text
    failed = step.outcome is not None and step.outcome.status == "error"
    if not failed and not _BY_TOOL_NODE.match(text[:2_000]):
        return None
    evidence = f"{_call(step)} failed: {quoted(text) if text.strip() else 'no reason was given'}."
    return _anomaly("error", step, evidence, 1.0 if failed else 0.95, recoverable=is_recoverable(text))


def error_field(seen: ObservedCall) -> Anomaly | None:
    """A call whose observation has a field that says that something went wrong."""
    step, text = seen.step, seen.text
    found = error_in(seen.fields) if seen.fields is not None else None
    if found is None:
        return None
    evidence = f"The observation of {_call(step)} says {quoted(found[0])}."
    return _anomaly("error_field", step, evidence, found[1], recoverable=is_recoverable(text))


def phrase(seen: ObservedCall, phrases: Sequence[Phrase]) -> Anomaly | None:
    """A call whose observation says in words that it did not work. What the agent wrote itself does not count."""
    step = seen.step
    for part in (seen.text, *(seen.fields.texts() if seen.fields is not None else ())):
        observation = signals_in(part)
        for each in phrases:
            if seen.fields is not None and part is seen.text and each.place != "anywhere":
                continue  # the sentences of structured output are those in its fields
            sentence = each.found_in(observation)
            if sentence is not None and not _is_echo(sentence, step):
                recoverable = is_recoverable(part) if each.recoverable is None else each.recoverable
                evidence = f"{_call(step)} was answered with {quoted(sentence)}."
                return _anomaly("phrase", step, evidence, each.confidence, recoverable=recoverable)
    return None


def loop(found: Loop) -> Anomaly:
    """What a loop is as an anomaly."""
    latest = found.steps[-1]
    outcome = ObservedCall(latest).text
    brought = quoted(outcome) if outcome.strip() else "nothing"
    match found.kind:
        case "repetition":
            evidence = f"{_call(latest)} was called {found.times} times in a row and brought {brought} each time."
            return _anomaly("repetition", latest, evidence, 0.9, recoverable=True)
        case "cycle":
            calls = ", ".join(_call(step) for step in found.steps)
            evidence = f"The calls {calls} came {found.times} times in a row, with the same outcomes each time."
            return _anomaly("cycle", latest, evidence, 0.85, recoverable=True)
        case "stagnation":
            different = list(dict.fromkeys(_call(step) for step in found.steps))
            shown = f"{', '.join(different[:3])}{', …' if len(different) > 3 else ''}"  # noqa: PLR2004 - examples
            evidence = f"{found.times} calls in a row ({shown}) brought the same: {brought}."
            return _anomaly("stagnation", latest, evidence, 0.75, recoverable=True)


def _listed(tools: Collection[str]) -> str:
    names = sorted(tools)
    shown = ", ".join(names[:LISTED_TOOLS])
    return f"{shown}{', …' if len(names) > LISTED_TOOLS else ''}" if names else "no tools"


def _is_echo(sentence: str, step: Step) -> bool:
    """Whether the agent itself wrote this in the call, as in a ticket that is created and shown."""
    return len(sentence) >= SHORTEST_ECHO and any(
        isinstance(value, str) and sentence in value for value in (step.arguments or {}).values()
    )


def _call(step: Step) -> str:
    return f"`{cut(rendered(step), LONGEST_CALL)}`"


def _anomaly(kind: AnomalyKind, step: Step, evidence: str, confidence: float, *, recoverable: bool) -> Anomaly:
    return Anomaly(kind, evidence, confidence, recoverable, step.tool, step.call_id)


def classified(step: Step, reason: str, confidence: float) -> Anomaly:
    """What a classifier takes for an anomaly, as one."""
    text = ObservedCall(step).text
    seen = quoted(text) if text.strip() else "nothing"
    verdict = f"says: {reason}" if reason else "takes it for an anomaly."
    evidence = f"{_call(step)} brought {seen}. The classifier {verdict}"
    return _anomaly("classified", step, evidence, confidence, recoverable=is_recoverable(text))
