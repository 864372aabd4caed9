"""The rules: what each of them says about a call and its observation, surest rule first. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from langchain_tooltree.cfgm.anomaly.loops import Loop, rendered
from langchain_tooltree.cfgm.anomaly.phrases import Phrase, phrase_book, quoted, said, signals_in
from langchain_tooltree.experience.records import Step
from langchain_tooltree.text import cut

SCANNED = 2_000
"""Characters of an observation that are read: fields that report an error stand at its beginning, or are its last."""

LONGEST_VALUE = 2_000
"""Characters of a value that are kept."""

LONGEST_NAME = 40
"""Characters of a name that are kept; no name below is longer."""

DEEPEST = 4
"""Levels that are read: a list around everything, the result, a wrapper, and what an error has in it."""

WRAPPERS = re.compile(
    "results?|response|output|data|body|returned|return|payload|content|value|reply|answer|toolresult|structuredcontent|"
    "details?|errors?|meta|status|state|outcome"
)
"""Names below which a result is wrapped again; underscores have no part in names."""

TEXTS = re.compile(
    "message|msg|details?|reason|result|response|observation|obs|feedback|stderr|output|errordescription|errormessage|"
    "statusmessage"
)
"""Names of fields that say in words what happened, so that words are looked for in them."""

CONTENTS = re.compile("text|content|value|data|reply|answer|return")
"""Names of fields that do so where there is hardly anything else; in a record, they hold what somebody wrote."""

AUTHORS = re.compile("sender|from|to|author|subject|recipient|receiver|user|username|speaker")
"""Names of fields beside which a text was written by somebody, to somebody."""

MOST_BESIDE = 2
"""Fields of an object that says hardly anything else."""

MOST_IN_ANSWER = 6
"""Fields of an object that answers a call; a record of something has more."""

_ERRORS = re.compile("(?:error|err)(?:s|message|msg|code|type|description|details?)?|exceptions?|fault")
_SUCCESSES = re.compile("(?:is|was)?(?:success|successful)|ok|succeeded")
_FAILURES = re.compile("(?:is|has)errors?|failed|failure|erroroccurred")
_STATES = re.compile("status|state|outcome|result|type|kind")
_STATUS_CODES = re.compile("(?:http)?statuscode|http(?:status|code)")
_EXIT_CODES = re.compile("exit(?:code|status)|returncode")
_EXPLAINING = re.compile("message|msg|details?|reason|errors?|description|errormessage|title|hint|statusmessage")
_FAILED = frozenset({"error", "err", "failure", "fail", "exception"})
_EMPTY = re.compile(r"\s*(?:none|null|nil|false|0|ok|success|n/a|-|\[\]|\{\}|no errors?|none\.)?\s*", re.IGNORECASE)
_HTTP_ERRORS = frozenset({*range(400, 419), *range(421, 427), 428, 429, 431, 451, *range(500, 512), 529})
_SHELL_CANNOT = frozenset({126, 127})

_FENCE = re.compile(r"\s*```[a-z]{0,10}\s*")
_TOKEN = re.compile(
    r"""(?P<open>[{\[(])|(?P<close>[}\])])|(?P<colon>:)|(?P<comma>,)
       |"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"?|'(?P<single>[^'\\]*(?:\\.[^'\\]*)*)'?
       |(?P<bare>[^\s{}\[\](),:"']+)""",
    re.VERBOSE | re.DOTALL,
)
_LAST_FIELD = re.compile(
    r"""["'](\w{2,24})["']\s*:\s*("[^"\n]{0,300}"|'[^'\n]{0,300}'|[\w.+-]{1,20})\s*\}\s*(?:```)?\s*$"""
)


@dataclass(slots=True)
class Fields:
    """The first two levels of a structured observation; names are in lower case, without underscores."""

    values: dict[str, Any] = field(default_factory=dict)  # scalars as they are, and `_Entries` for what is none
    children: dict[str, "Fields"] = field(default_factory=dict)

    def texts(self) -> Iterator[str]:
        """What the fields say in words."""
        answers, sparse = len(self.values) <= MOST_IN_ANSWER, len(self.values) <= MOST_BESIDE
        if any(AUTHORS.fullmatch(name) for name in self.values):
            return
        for name, value in self.values.items():
            says = (answers and TEXTS.fullmatch(name)) or (sparse and CONTENTS.fullmatch(name))
            if says and isinstance(value, str):
                yield value
        for name, child in self.children.items():
            if WRAPPERS.fullmatch(name):
                yield from child.texts()


@dataclass(frozen=True, slots=True)
class _Entries:
    """An object or a list, by the number of its entries."""

    count: int


def fields_of(text: str) -> Fields | None:
    """Read the fields of an observation: JSON, or the text of a Python object, whole or cut off in the middle.

    `None` if it is no object, nor a list of a single one.
    """
    fence = _FENCE.match(text)
    begin = fence.end() if fence else len(text) - len(text.lstrip())
    if text[begin : begin + 1] not in {"{", "[", "("}:
        return None
    fields = _read(text[begin : begin + SCANNED])
    if fields is not None and len(text) > begin + SCANNED and (last := _LAST_FIELD.search(text[-400:])):
        # The last field stands at the first level, whatever was left out before it.
        written = last[2]
        value = written[1:-1] if written[0] in "\"'" else _scalar(written)
        fields.values.setdefault(last[1].lower().replace("_", ""), value)
    return fields


def error_in(fields: Fields) -> tuple[str, float] | None:
    """The field that says that something went wrong, as text, and how sure this is, in [0, 1]; `None` if none does."""
    found = _error_at(fields)
    if found is not None:
        return found
    for name, child in fields.children.items():
        if WRAPPERS.fullmatch(name) and (found := _error_at(child)) is not None:
            return f"{name}.{found[0]}", found[1]
    return None


def _error_at(fields: Fields) -> tuple[str, float] | None:
    values = fields.values
    explained = any(_EXPLAINING.fullmatch(name) and not _is_empty(value) for name, value in values.items())
    for name, value in values.items():
        confidence = _confidence(name, value, values, explained=explained)
        if confidence:
            return f"{name}: {_shown(name, fields)}", confidence
    return None


def _confidence(name: str, value: Any, values: dict[str, Any], *, explained: bool) -> float:
    """How surely a field says that something went wrong; 0 if it does not."""
    sure = 0.0
    if _SUCCESSES.fullmatch(name):
        sure = 0.95 * (value is False or value == "false")
    elif _FAILURES.fullmatch(name):
        sure = 0.95 * (value is True or value == "true")
    elif _STATUS_CODES.fullmatch(name):
        sure = 0.95 * (_code(value) in _HTTP_ERRORS)
    elif name in {"code", "status", "cod"} and _code(value) in _HTTP_ERRORS:
        sure = 0.9 * (explained or name == "status")
    elif _STATES.fullmatch(name) and isinstance(value, str):
        # A record may tell of something that failed; an answer that failed says little else.
        answers = name != "type" and (explained or len(values) <= MOST_BESIDE)
        sure = 0.9 if value.lower() in _FAILED else 0.85 * (value.lower() == "failed" and answers)
    elif _EXIT_CODES.fullmatch(name):
        complains = not _is_empty(values.get("stderr"))
        sure = 0.85 * (_code(value) in _SHELL_CANNOT or bool(_code(value) and complains))
    elif _ERRORS.fullmatch(name) and not _is_empty(value):
        number = isinstance(value, int | float) and not isinstance(value, bool)  # it may well be measured
        sure = 0.95 if not number else 0.9 * (value in _HTTP_ERRORS)
    return sure


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return _EMPTY.fullmatch(value) is not None
    return value.count == 0 if isinstance(value, _Entries) else not value


def _shown(name: str, fields: Fields) -> str:
    value = fields.values[name]
    if isinstance(value, _Entries):
        texts = [str(each) for each in fields.children[name].values.values()] if name in fields.children else []
        return ", ".join(text for text in texts if not text.startswith("_Entries")) or f"{value.count} entries"
    said = next((text for text in fields.texts() if text != value), "")
    return (
        f"{value} ({said})" if said and not (isinstance(value, str) and len(value) > len("exception")) else str(value)
    )


def _code(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 3 else None  # noqa: PLR2004 - HTTP


def _scalar(word: str) -> Any:
    known = {"true": True, "false": False, "null": None, "none": None, "undefined": None, "nan": None}
    lowered = word.lower()
    if lowered in known:
        return known[lowered]
    try:
        return int(word) if len(word) <= 20 else word  # noqa: PLR2004 - longer ones are no codes
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


class _OpenValue:
    """An object or a list that is being read."""

    __slots__ = ("count", "fields", "is_object", "key", "name", "value_next")

    def __init__(self, name: str, fields: Fields | None, *, is_object: bool) -> None:
        self.name = name
        self.fields = fields
        self.is_object = is_object
        self.key = ""
        self.value_next = not is_object
        self.count = 0

    def child(self, depth: int, *, is_object: bool) -> "_OpenValue":
        """The frame of what opens within this one."""
        self.count += 1
        if self.fields is None or depth > DEEPEST:
            return _OpenValue("", None, is_object=is_object)
        if not self.is_object:  # what a list holds stands for the list
            return _OpenValue("", self.fields if is_object and self.count == 1 else None, is_object=is_object)
        if not self.value_next:
            return _OpenValue("", None, is_object=is_object)
        return _OpenValue(self.key, self.fields.children.setdefault(self.key, Fields()), is_object=is_object)

    def close(self, child: "_OpenValue") -> None:
        """Note that what opened within this one has come to its end."""
        self.value_next = not self.is_object
        if self.fields is None or not child.name:
            return
        self.fields.values.setdefault(child.name, _Entries(child.count))
        if not child.is_object and child.count > 1 and not _ERRORS.fullmatch(child.name):
            self.fields.children.pop(child.name, None)  # records

    def take(self, word: str, *, bare: bool) -> None:
        """Note a key or a value."""
        if self.is_object and not self.value_next:
            self.key = word[:LONGEST_NAME].lower().replace("_", "")
            return
        self.count += 1
        if self.is_object and self.fields is not None:
            value = _scalar(word) if bare else _unescaped(word[:LONGEST_VALUE])
            self.fields.values.setdefault(self.key, value)


def _read(text: str) -> Fields | None:
    """Read the first two levels from the tokens, without recursion and without a complaint about what is cut off."""
    outermost = _OpenValue("", Fields(), is_object=False)
    stack = [outermost]
    for token in _TOKEN.finditer(text):
        if _step(stack, token):
            break
        if outermost.count > 1 or (len(stack) > 1 and not stack[1].is_object and stack[1].count > 1):
            return None  # a list of records
    while len(stack) > 1:  # the text was cut off
        stack[-2].close(stack.pop())
    fields = outermost.fields
    return fields if fields is not None and (fields.values or fields.children) else None


def _step(stack: list[_OpenValue], token: re.Match[str]) -> bool:
    """Take in a token; whether it closes what was opened first."""
    frame = stack[-1]
    match token.lastgroup:
        case "open":
            stack.append(frame.child(len(stack), is_object=token[0] == "{"))
            if len(stack) == 2 and not stack[-1].is_object:  # noqa: PLR2004 - a list around everything
                stack[-1].fields = stack[0].fields
        case "close":
            if len(stack) > 1:
                stack[-2].close(stack.pop())
            return len(stack) == 1
        case "colon":
            frame.value_next = True
        case "comma":
            frame.value_next = not frame.is_object
        case kind:
            frame.take(token[kind or 0], bare=kind == "bare")
    return False


def _unescaped(word: str) -> str:
    return word.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'") if "\\" in word else word


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


def found_in(
    latest: Sequence[ObservedCall],
    tools: Collection[str] | None,
    worked_before: Callable[[str], bool],
    phrases: Sequence[Phrase],
) -> Anomaly | None:
    """What the surest rule finds in the latest calls; the rules stand in this order."""
    checks: tuple[Callable[[ObservedCall], Anomaly | None], ...] = (
        lambda seen: missing_tool(seen, tools, worked_before),
        error,
        error_field,
        lambda seen: phrase(seen, phrases),
    )
    return next((found for check in checks for seen in latest if (found := check(seen))), None)


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
