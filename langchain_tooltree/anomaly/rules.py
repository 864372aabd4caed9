"""The rules: what each of them says about a call and its observation, surest rule first. Pure."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, Literal

from langchain_tooltree.anomaly.phrases import Phrase, phrase_book, quoted, signals_in
from langchain_tooltree.experience.records import Step
from langchain_tooltree.text import cut, digest, mentions

SCANNED = 2_000
"""Characters of an observation that are read: fields that report an error stand at its beginning, or are its last."""

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

MOST_BESIDE = 2  # fields of an object that says hardly anything else
MOST_IN_ANSWER = 6  # fields of an object that answers a call; a record of something has more

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
    r"""(?P<open>[{\[(])|(?P<close>[}\])])
       |(?:"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"?|'(?P<single>[^'\\]*(?:\\.[^'\\]*)*)'?
          |(?P<bare>[^\s{}\[\](),:"']+))(?P<is_key>\s*:)?""",
    re.VERBOSE | re.DOTALL,
)
_LAST_FIELD = re.compile(
    r"""["'](\w{2,24})["']\s*:\s*("[^"\n]{0,300}"|'[^'\n]{0,300}'|[\w.+-]{1,20})\s*\}\s*(?:```)?\s*$"""
)


_BARE_WORDS = {"true": True, "false": False, "null": None, "none": None, "undefined": None, "nan": None}

Fields = dict[str, Any]
"""What a structured observation says: names in lower case, without underscores, and plain values."""


def fields_of(text: str) -> Fields | None:
    """Read the fields of an observation: JSON, or the text of a Python object, whole or cut off in the middle.

    `None` if it is no object, nor a list of a single one.
    """
    fence = _FENCE.match(text)
    begin = fence.end() if fence else len(text) - len(text.lstrip())
    if text[begin : begin + 1] not in {"{", "[", "("}:
        return None
    fields = _read(text[begin : begin + SCANNED])
    if isinstance(fields, list):
        fields = fields[0] if len(fields) == 1 else None
    if not isinstance(fields, dict) or not fields:
        return None
    if len(text) > begin + SCANNED and (last := _LAST_FIELD.search(text[-400:])):
        # The last field stands at the first level, whatever was left out before it.
        written = last[2]
        fields.setdefault(_name(last[1]), written[1:-1] if written[0] in "\"'" else _scalar(written))
    return fields


def texts_in(fields: Fields) -> Iterator[str]:
    """What the fields say in words."""
    answers, sparse = len(fields) <= MOST_IN_ANSWER, len(fields) <= MOST_BESIDE
    if any(AUTHORS.fullmatch(name) for name in fields):
        return
    for name, value in fields.items():
        says = (answers and TEXTS.fullmatch(name)) or (sparse and CONTENTS.fullmatch(name))
        if says and isinstance(value, str):
            yield value
    for _, below in _wrapped(fields):
        yield from texts_in(below)


def error_in(fields: Fields) -> tuple[str, float] | None:
    """The field that says that something went wrong, as text, and how sure this is, in [0, 1]; `None` if none does."""
    places = [("", fields), *((f"{name}.", below) for name, below in _wrapped(fields))]
    return next(((before + found[0], found[1]) for before, each in places if (found := _error_at(each))), None)


def _wrapped(fields: Fields) -> Iterator[tuple[str, Fields]]:
    for name, value in fields.items():
        if WRAPPERS.fullmatch(name) and (below := _object_in(name, value)) is not None:
            yield name, below


def _object_in(name: str, value: Any) -> Fields | None:
    """The object that a field holds, alone or in a list; several are records, unless they are errors."""
    if isinstance(value, list) and value and (len(value) == 1 or _ERRORS.fullmatch(name)):
        value = value[0]
    return value if isinstance(value, dict) else None


def _error_at(fields: Fields) -> tuple[str, float] | None:
    explained = any(_EXPLAINING.fullmatch(name) and not _is_empty(value) for name, value in fields.items())
    for name, value in fields.items():
        if confidence := _confidence(name, value, fields, explained=explained):
            return f"{name}: {_shown(name, fields)}", confidence
    return None


def _confidence(name: str, value: Any, fields: Fields, *, explained: bool) -> float:
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
        answers = name != "type" and (explained or len(fields) <= MOST_BESIDE)
        sure = 0.9 if value.lower() in _FAILED else 0.85 * (value.lower() == "failed" and answers)
    elif _EXIT_CODES.fullmatch(name):
        complains = not _is_empty(fields.get("stderr"))
        sure = 0.85 * (_code(value) in _SHELL_CANNOT or bool(_code(value) and complains))
    elif _ERRORS.fullmatch(name) and not _is_empty(value):
        number = isinstance(value, int | float) and not isinstance(value, bool)  # it may well be measured
        sure = 0.95 if not number else 0.9 * (value in _HTTP_ERRORS)
    return sure


def _is_empty(value: Any) -> bool:
    return _EMPTY.fullmatch(value) is not None if isinstance(value, str) else not value


def _shown(name: str, fields: Fields) -> str:
    value = fields[name]
    if isinstance(value, dict | list):
        below = _object_in(name, value) or {}
        said = ", ".join(str(each) for each in below.values() if not isinstance(each, dict | list))
        return said or f"{len(value)} entries"
    said = next((text for text in texts_in(fields) if text != value), "")
    explains_itself = isinstance(value, str) and len(value) > len("exception")
    return f"{value} ({said})" if said and not explains_itself else str(value)


def _code(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 3 else None  # noqa: PLR2004 - HTTP


def _read(text: str) -> Any:
    """Read a value from its tokens, without recursion and without a complaint about what is cut off.

    `json` and `ast` read no part of what is cut off, and no object that holds another Python object.
    """
    outermost: list[Any] = []
    stack: list[Any] = [outermost]  # what is open
    names: list[str | None] = [None]  # the field that is read in each
    for token in _TOKEN.finditer(text):
        if token["open"]:
            value: Any = {} if token[0] == "{" else []
            _put(stack[-1], names[-1], value)
            stack.append(value if len(stack) <= DEEPEST else type(value)())  # deeper down, all are empty
            names.append(None)
        elif token["close"]:
            stack.pop()
            names.pop()
            if len(stack) == 1:
                break
        else:
            word = token["bare"] or token["double"] or token["single"] or ""
            if token["is_key"] and isinstance(stack[-1], dict):
                names[-1] = _name(word)
            else:
                plain = word.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
                _put(stack[-1], names[-1], _scalar(word) if token["bare"] else plain)
    return outermost[0]


def _put(holder: Any, name: str | None, value: Any) -> None:
    if isinstance(holder, list):
        holder.append(value)
    elif name is not None:
        holder.setdefault(name, value)  # the first says it


def _name(written: str) -> str:
    return written.lower().replace("_", "")


def _scalar(word: str) -> Any:
    if word.lower() in _BARE_WORDS:
        return _BARE_WORDS[word.lower()]
    for number in (int, float):
        with suppress(ValueError):
            return number(word)
    return word


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


LONGEST_CALL = 120  # characters of a call that evidence shows: the tool and its first arguments
LISTED_TOOLS = 20  # tools that evidence names; an agent with more finds them in its own request
SHORTEST_NAME = 3  # characters of a name in a call; a shorter text stands in others by chance
SHORTEST_ECHO = 8  # characters of a sentence that is the agent's own if its call has it; shorter ones match by chance

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
        return self.step.outcome.text if self.step.outcome is not None else ""

    @cached_property
    def fields(self) -> Fields | None:
        """Its fields, if it is structured."""
        return fields_of(self.text)

    @property
    def failed(self) -> bool:
        """Whether the observation is marked as an error."""
        return self.step.outcome is not None and self.step.outcome.status == "error"

    @property
    def is_rejection(self) -> bool:
        """Whether a person has rejected the call: an instruction, and nothing that went wrong."""
        return _REJECTED.match(self.text[:200]) is not None

    @property
    def call(self) -> str:
        """The call as evidence shows it."""
        return f"`{cut(rendered(self.step), LONGEST_CALL)}`"

    @property
    def quoted(self) -> str:
        """The observation as evidence shows it; empty if it says nothing."""
        return quoted(self.text) if self.text.strip() else ""

    def anomaly(
        self, kind: AnomalyKind, evidence: str, confidence: float, *, recoverable: bool | None = None
    ) -> Anomaly:
        """Say that the call is anomalous; by its observation, the agent can do something about it or not."""
        recoverable = is_recoverable(self.text) if recoverable is None else recoverable
        return Anomaly(kind, evidence, confidence, recoverable, self.step.tool, self.step.call_id)


def rendered(step: Step) -> str:
    """A call as text: `tool(value, value)`, texts as they are and other values as JSON, in the order of the call."""
    arguments = step.arguments or {}
    values = (value if isinstance(value, str) else json.dumps(value, default=str) for value in arguments.values())
    return f"{step.tool}({', '.join(values)})"


def observed(steps: Iterable[Step]) -> list[ObservedCall]:
    """Calls with their observations; those that a person has rejected are left out."""
    return [each for each in map(ObservedCall, steps) if not each.is_rejection]


def found_in(
    latest: Sequence[ObservedCall],
    tools: Collection[str] | None,
    worked_before: Callable[[str], bool],
    phrases: Sequence[Phrase],
) -> Anomaly | None:
    """What the surest rule finds in the latest calls; the rules stand in this order."""
    missing = partial(missing_tool, tools=tools, worked_before=worked_before)
    checks = (missing, error, error_field, partial(phrase, phrases=phrases))
    return next((found for check in checks for seen in latest if (found := check(seen))), None)


SURE = 0.85
"""Confidence, in [0, 1], from which on a call counts as failed. Below it are words that may be good news: a seat that
"is booked" is taken, or yours."""


LOOKED_AT = 20_000
"""Calls of which it is kept whether they failed, at some 150 bytes: the calls of 20 long threads that go on."""

_failed: dict[str, bool] = {}


def has_failed(step: Step) -> bool:
    """Whether a call surely failed or was refused, by what it brought back alone.

    Looking for all phrases takes far longer than telling that a call was looked at before, as nearly all calls of a
    thread were when it is learnt again.
    """
    if step.outcome is None:
        return False
    if step.outcome.status == "error":
        return True
    call = digest([step.tool, step.arguments, step.outcome.content])
    if (known := _failed.get(call)) is not None:
        return known
    found = found_in([ObservedCall(step)], None, lambda _: False, phrase_book().packs["default"])
    failed = found is not None and found.confidence >= SURE
    if len(_failed) >= LOOKED_AT:
        _failed.clear()  # in one step, so that threads need no lock
    _failed[call] = failed
    return failed


WEAK = 0.5
"""How sure it is that something is off where there is nothing under a name that the user gave: they may be mistaken."""

_ABSENT = re.compile(
    r"\b(?:not (?:be )?found|no such|(?:does|do|did)(?: not|n't) exist|(?:no|not any) (?:[\w'-]+ ){1,4}found)\b",
    re.IGNORECASE,
)


def is_absent(step: Step) -> bool:
    """Whether a call brought back that there is no such thing as it asked for."""
    return step.outcome is not None and _ABSENT.search(step.outcome.text[:SCANNED]) is not None


def asks_for(step: Step, wanted: str) -> bool:
    """Whether a call asks for something by a name that stands in a text."""
    given = [each.casefold() for each in (step.arguments or {}).values() if isinstance(each, str)]
    return mentions(wanted.casefold(), [each for each in given if len(each) >= SHORTEST_NAME])


def missing_tool(
    seen: ObservedCall, tools: Collection[str] | None, worked_before: Callable[[str], bool]
) -> Anomaly | None:
    """A call of a tool that is not there: `drift` if it was there before, `unknown_tool` if it never was.

    The observation decides: a tool that brings back a result is there, also if it is not in `tools`. Agents get tools
    at run time, and some calls are answered by something else than the tools node.
    """
    tool = seen.step.tool
    absent = seen.failed and tools is not None and tool not in tools
    if not tool or not (absent or _NO_SUCH_TOOL.match(seen.text[:300])):
        return None
    known = worked_before(tool)
    there = "" if tools is None else f" There are {_listed(tools)}."
    before = "worked earlier in this conversation and is gone now" if known else "is no tool of this agent"
    evidence = f"`{tool}` {before}.{there} The answer was {seen.quoted or 'empty'}."
    return seen.anomaly("drift" if known else "unknown_tool", evidence, 1.0, recoverable=True)


def error(seen: ObservedCall) -> Anomaly | None:
    """A call whose observation is marked as an error, or is what a tools node makes of an exception."""
    if not seen.failed and not _BY_TOOL_NODE.match(seen.text[:2_000]):
        return None
    evidence = f"{seen.call} failed: {seen.quoted or 'no reason was given'}."
    return seen.anomaly("error", evidence, 1.0 if seen.failed else 0.95)


def error_field(seen: ObservedCall) -> Anomaly | None:
    """A call whose observation has a field that says that something went wrong."""
    found = error_in(seen.fields or {})
    if found is None:
        return None
    return seen.anomaly("error_field", f"The observation of {seen.call} says {quoted(found[0])}.", found[1])


def phrase(seen: ObservedCall, phrases: Sequence[Phrase]) -> Anomaly | None:
    """A call whose observation says in words that it did not work. What the agent wrote itself does not count."""
    for part in (seen.text, *texts_in(seen.fields or {})):
        observation = signals_in(part)
        for each in phrases:
            if seen.fields is not None and part is seen.text and each.place != "anywhere":
                continue  # the sentences of structured output are those in its fields
            sentence = each.found_in(observation)
            if sentence is not None and not _is_echo(sentence, seen.step):
                recoverable = is_recoverable(part) if each.recoverable is None else each.recoverable
                evidence = f"{seen.call} was answered with {quoted(sentence)}."
                return seen.anomaly("phrase", evidence, each.confidence, recoverable=recoverable)
    return None


def classified(step: Step, reason: str, confidence: float) -> Anomaly:
    """What a classifier takes for an anomaly, as one."""
    seen = ObservedCall(step)
    verdict = f"says: {reason}" if reason else "takes it for an anomaly."
    evidence = f"{seen.call} brought {seen.quoted or 'nothing'}. The classifier {verdict}"
    return seen.anomaly("classified", evidence, confidence)


def _listed(tools: Collection[str]) -> str:
    names = sorted(tools)
    return ", ".join(names[:LISTED_TOOLS]) + (", …" if len(names) > LISTED_TOOLS else "") if names else "no tools"


def _is_echo(sentence: str, step: Step) -> bool:
    """Whether the agent itself wrote this in the call, as in a ticket that is created and shown."""
    values = (step.arguments or {}).values()
    return len(sentence) >= SHORTEST_ECHO and any(isinstance(each, str) and sentence in each for each in values)
