"""The cascade: what each rule has to say about a call and its observation, surest rule first. Pure."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from langchain_tooltree.cfgm.anomaly.error_fields import Fields, error_in, fields_of
from langchain_tooltree.cfgm.anomaly.loops import Loop, rendered
from langchain_tooltree.cfgm.anomaly.phrases import Phrase
from langchain_tooltree.cfgm.anomaly.signals import quoted, said, signals_in
from langchain_tooltree.experience.records import Step

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
"""Characters of an observation that are read."""

_UP_TO_THE_AGENT = re.compile(
    r"\b(?:log|sign)(?:ged)?[- ]?(?:in|on)\b(?! (?:failed|attempt|credentials))|not (?:yet )?authenticated\b|"
    r"authenticate first|access token|session (?:has )?expired",
    re.IGNORECASE,
)
_CREDENTIALS = (
    (
        r"\b(?:invalid|incorrect|wrong|bad|missing|expired|revoked|no|unknown) (?:api[ _-]?key|credentials?|password|"
        r"passphrase|auth(?:entication|orization)?[ _-]token|client[ _-]secret|license)\b"
    ),
    (
        r"\b(?:api[ _-]?key|credentials?|password|license)\b[^.\n]{0,40}\b(?:invalid|incorrect|wrong|missing|expired|"
        r"revoked|not valid|required|rejected|disabled|not (?:set|provided|found|configured))\b"
    ),
    r"\bauthentication (?:failed|failure|error|is required|required)",
    r"\b(?:AuthenticationError|PermissionDeniedError)\b",
    r"\b40[13]\b[^\w\n]{0,3}\s*(?:unauthori[sz]ed|forbidden|client error)",
    r"^\W*(?:unauthori[sz]ed|forbidden)\b",
    r"\bpermission denied \(publickey",
    r"\b(?:account|user)\b[^.\n]{0,20}\b(?:suspended|deactivated|banned|disabled)\b",
)
_QUOTAS = (
    (
        r"\b(?:quota|insufficient_quota|(?:usage|credit|monthly|daily|request) limit|rate[ _-]?limit(?:s|ed|ing)?|"
        r"RateLimitError|too many requests|resource[ _]exhausted)\b"
    ),
    r"\bthrottl\w+",
    r"\bcall limit (?:exceeded|reached)",
)
_PAYMENTS = (
    r"\bpayment (?:required|declined|failed|was declined|method (?:was )?declined)",
    r"\bcard (?:was |has been )?(?:declined|expired)",
    r"\bbilling\b",
    r"\bcredits?(?: balance)?\b[^.\n]{0,30}\b(?:too low|exhausted|insufficient|expired)\b|\binsufficient credits?\b",
    r"\bsubscription\b[^.\n]{0,30}\b(?:required|expired|inactive|ended|cancell?ed)\b",
)
_SERVICES = (
    r"\bstatus(?:[ _]?code)?\W{0,5}(?:401|402|403|429|502|503|504|529)\b",
    r"\b(?:http|code|error)\b\W{0,5}(?:401|402|403|429|502|503|504|529)\b",
    r"\bservice\b[^.\n]{0,30}\b(?:unavailable|down|offline|out of service)\b",
    (
        r"\b(?:server|host|site|system|api|backend|database)\b[^.\n]{0,20}\b(?:is|are|was) (?:currently |temporarily )?"
        r"(?:down|offline|unavailable|overloaded|unreachable|under maintenance)\b"
    ),
    r"\b(?:temporarily unavailable|bad gateway|gateway time-?out|overloaded(?:_error)?|(?:under|for) maintenance)\b",
    r"\bconnection (?:was )?(?:refused|reset|timed out|timeout|aborted)",
    r"\bConnect(?:ion)?(?:Error|Timeout)\b|\bECONN(?:REFUSED|RESET)",
    r"\b(?:name or service not known|could not resolve host|no space left on device)",
    r"\b(?:network|host) is (?:unreachable|down)",
)
_OUT_OF_REACH = re.compile("|".join((*_CREDENTIALS, *_QUOTAS, *_PAYMENTS, *_SERVICES)), re.IGNORECASE)


def is_recoverable(text: str) -> bool:
    """Whether an agent can do something about a failure.

    Args:
        text: What the failed call brought back.

    Returns:
        `False` where it tells of wrong credentials, a spent quota, a payment or a service that is down or limits its
        rate: the same would happen to any other call. A call for logging in is up to the agent.
    """
    words = text[:READ]
    return _OUT_OF_REACH.search(words) is None or _UP_TO_THE_AGENT.search(words) is not None


LONGEST_CALL = 120
LISTED_TOOLS = 20
SHORTEST_ECHO = 8

_REJECTED = re.compile(r"\s*(?:user rejected the tool call|the user rejected this call of)\b", re.IGNORECASE)
_NO_SUCH_TOOL = re.compile(r"\s*(?:error:\s*)?\S{1,128} is not a valid tool\b", re.IGNORECASE)
_BY_TOOL_NODE = re.compile(
    r"\s*(?:error (?:executing|invoking) tool '|error: .{1,1500}\n\s*please fix your mistakes\.|"
    r"tool '[^']{1,128}' failed after \d+ attempt)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ObservedCall:
    """A call with its observation, read once for all rules.

    Args:
        step: The call.
    """

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
    """A call of a tool that is not there.

    The observation decides: what brings back a result is there, be it in no list. Agents get tools at run time, and
    some calls are answered by somebody else than the tools node.

    Args:
        seen: The call.
        tools: Names of the tools that there are; `None` if they are not known. A call of another one must have failed.
        worked_before: Whether a tool has worked earlier in the conversation.

    Returns:
        `drift` if the tool was there before, `unknown_tool` if it never was; `None` if it is there.
    """
    step, text = seen.step, seen.text
    told = bool(_NO_SUCH_TOOL.match(text[:300]))
    failed = step.outcome is not None and step.outcome.status == "error"
    absent = failed and tools is not None and step.tool not in tools
    if not step.tool or not (told or absent):
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
    """A call whose observation says in words that it did not work."""
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
    text = rendered(step)
    return f"`{text if len(text) <= LONGEST_CALL else text[:LONGEST_CALL] + '…'}`"


def _anomaly(kind: AnomalyKind, step: Step, evidence: str, confidence: float, *, recoverable: bool) -> Anomaly:
    return Anomaly(kind, evidence, confidence, recoverable, step.tool, step.call_id)


def classified(step: Step, reason: str, confidence: float) -> Anomaly:
    """What a classifier holds for off, as an anomaly."""
    text = ObservedCall(step).text
    seen = quoted(text) if text.strip() else "nothing"
    verdict = f"says: {reason}" if reason else "takes it for an anomaly."
    evidence = f"{_call(step)} brought {seen}. The classifier {verdict}"
    return _anomaly("classified", step, evidence, confidence, recoverable=is_recoverable(text))
