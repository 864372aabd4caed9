"""The rules: what each of them says about a call and its observation, surest rule first. Pure."""

import ast
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import islice, takewhile
from typing import Any, Literal

from langchain_tooltree.anomaly.phrases import Phrase, phrase_book, quoted, signals_in
from langchain_tooltree.effects.names import is_read
from langchain_tooltree.experience.trajectory import Step
from langchain_tooltree.text import cut, digest, mentions

SCANNED = 2_000
"""Characters of an observation in which words are looked for that say that there is nothing, or why: both are short."""

LONGEST_DATA = 20_000
"""Characters of structured output that is read: one that reports an error is short."""

DEEPEST = 4
"""Levels that are read: a list around everything, the result, a wrapper, and what an error has in it."""

MOST_BESIDE = 2  # fields of an object that says hardly anything else
MOST_IN_ANSWER = 6  # fields of an object that answers a call; a record of something has more

_FAILED = frozenset({"error", "err", "failure", "fail", "exception"})
_HTTP_ERRORS = frozenset({*range(400, 419), *range(421, 427), 428, 429, 431, 451, *range(500, 512), 529})
_SHELL_CANNOT = frozenset({126, 127})

Fields = dict[str, Any]
"""What a structured observation says: names in lower case, without underscores, and plain values."""


def data_in(text: str) -> Any:
    """What an observation holds as JSON, or as the text of a Python object; `None` if it is neither, or very long."""
    if len(text) > LONGEST_DATA:
        return None
    text = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    if text[:1] in {"{", "[", "("}:
        # Escapes that Python does not know would be warned of.
        readers: list[Callable[[str], Any]] = [json.loads, *([] if "\\" in text else [ast.literal_eval])]
        for read in readers:
            with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                return read(text)
    return None


def fields_of(text: str) -> Fields | None:
    """The fields of an observation; `None` if it is no object, nor a list of a single one."""
    data = data_in(text)
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    return _named(data) if isinstance(data, dict) and data else None


def _named(data: dict[Any, Any], levels: int = DEEPEST) -> Fields:
    """Fields by plain names; of several objects in a list the first, and nothing from too deep."""
    named: Fields = {}
    for name, value in data.items() if levels else ():
        listed = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
        below = [_named(value[0], levels - 1), *value[1:]] if listed else value
        plain = str(name).lower().replace("_", "")
        named.setdefault(plain, _named(value, levels - 1) if isinstance(value, dict) else below)
    return named


def _is(kind: str, name: str) -> bool:
    """Whether a field is of a kind, by its name."""
    return phrase_book().patterns[kind].fullmatch(name) is not None


def texts_in(fields: Fields) -> Iterator[str]:
    """What the fields say in words."""
    answers, sparse = len(fields) <= MOST_IN_ANSWER, len(fields) <= MOST_BESIDE
    if any(_is("author", name) for name in fields):
        return
    for name, value in fields.items():
        if isinstance(value, str) and ((answers and _is("text", name)) or (sparse and _is("content", name))):
            yield value
    for _, below in _wrapped(fields):
        yield from texts_in(below)


def error_in(fields: Fields) -> tuple[str, float] | None:
    """The field that says that something went wrong, as text, and how sure this is, in [0, 1]; `None` if none does."""
    for before, each in [("", fields), *((f"{name}.", below) for name, below in _wrapped(fields))]:
        explained = any(_is("explaining", name) and not _is_nothing(value) for name, value in each.items())
        for name, value in each.items():
            if confidence := _confidence(name, value, each, explained=explained):
                return f"{before}{name}: {_shown(name, each)}", confidence
    return None


def _wrapped(fields: Fields) -> Iterator[tuple[str, Fields]]:
    for name, value in fields.items():
        if _is("wrapper", name) and (below := _object_in(name, value)) is not None:
            yield name, below


def _object_in(name: str, value: Any) -> Fields | None:
    """The object that a field holds, alone or in a list; several are records, unless they are errors."""
    if isinstance(value, list) and value and (len(value) == 1 or _is("error", name)):
        value = value[0]
    return value if isinstance(value, dict) else None


def _confidence(name: str, value: Any, fields: Fields, *, explained: bool) -> float:
    """How surely a field says that something went wrong; 0 if it does not."""
    code = int(value) if str(value).isdecimal() and not isinstance(value, bool) and len(str(value)) <= 3 else None  # noqa: PLR2004 - HTTP
    sure = 0.0
    if _is("succeeded", name):
        sure = 0.95 * (value in (False, "false") and code is None)
    elif _is("failed", name):
        sure = 0.95 * (value in (True, "true") and code is None)
    elif _is("status_code", name):
        sure = 0.95 * (code in _HTTP_ERRORS)
    elif name in {"code", "status", "cod"} and code in _HTTP_ERRORS:
        sure = 0.9 * (explained or name == "status")
    elif _is("state", name) and isinstance(value, str):
        # A record may tell of something that failed; an answer that failed says little else.
        answers = name != "type" and (explained or len(fields) <= MOST_BESIDE)
        sure = 0.9 if value.lower() in _FAILED else 0.85 * (value.lower() == "failed" and answers)
    elif _is("exit_code", name):
        sure = 0.85 * (code in _SHELL_CANNOT or bool(code and not _is_nothing(fields.get("stderr"))))
    elif _is("error", name) and not _is_nothing(value):
        measured = isinstance(value, int | float) and not isinstance(value, bool)  # a number may well be measured
        sure = 0.95 if not measured else 0.9 * (value in _HTTP_ERRORS)
    return sure


def _is_nothing(value: Any) -> bool:
    return _is("nothing", value.strip()) if isinstance(value, str) else not value


def _shown(name: str, fields: Fields) -> str:
    value = fields[name]
    if isinstance(value, dict | list):
        below = _object_in(name, value) or {}
        values = ", ".join(str(each) for each in below.values() if not isinstance(each, dict | list))
        return values or f"{len(value)} entries"
    words = next((text for text in texts_in(fields) if text != value), "")
    explains_itself = isinstance(value, str) and len(value) > len("exception")
    return f"{value} ({words})" if words and not explains_itself else str(value)


AnomalyKind = Literal[
    "error",
    "error_field",
    "phrase",
    "empty",
    "repetition",
    "cycle",
    "stagnation",
    "unknown_tool",
    "drift",
    "classified",
]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is off, and how one can tell.

    Attributes:
        kind: Which rule noticed it: the tool raised or reported an `error`; an `error_field` of structured output; a
            `phrase` by which environments refuse an action; `empty` results again; a `repetition` of the same call with
            the same outcome; a `cycle` of several calls; `stagnation`, where arguments vary and the outcome does not;
            an `unknown_tool`; `drift`, where a tool used earlier is gone; or the user's classifier (`classified`).
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


def is_recoverable(text: str) -> bool:
    """Whether an agent can do something about a failure, going by what the failed call brought back.

    It cannot do anything about wrong credentials, a spent quota, a payment, or a service that is down or limits its
    rate: the same would happen to any other call. A call for logging in is up to the agent.
    """
    says = phrase_book().patterns
    return not says["out_of_reach"].search(text[:SCANNED]) or bool(says["up_to_the_agent"].search(text[:SCANNED]))


LONGEST_CALL = 120  # characters of a call that evidence shows: the tool and its first arguments
LISTED_TOOLS = 20  # tools that evidence names; an agent with more finds them in its own request
SHORTEST_NAME = 3  # characters of a name in a call; a shorter text stands in others by chance
SHORTEST_ECHO = 8  # characters of a sentence that is the agent's own if its call has it; shorter ones match by chance


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
        return phrase_book().patterns["rejected"].match(self.text[:200]) is not None

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


def first_anomaly(
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
    found = first_anomaly([ObservedCall(step)], None, lambda _: False, phrase_book().packs["default"])
    failed = found is not None and found.confidence >= SURE
    if len(_failed) >= LOOKED_AT:
        _failed.clear()  # in one step, so that threads need no lock
    _failed[call] = failed
    return failed


WEAK = 0.5
"""How sure it is that something is off where there is nothing under a name: it may be mistaken, or right that there is
nothing."""


def is_absent(step: Step) -> bool:
    """Whether a call brought back in words that there is no such thing as it asked for."""
    return step.outcome is not None and bool(phrase_book().patterns["absent"].search(step.outcome.text[:SCANNED]))


def is_empty(step: Step) -> bool:
    """Whether a call that names something brought back nothing, or that there is no such thing.

    Nothing is data without a text or a number, flags and zeros aside, such as `{"results": []}`; and no text at all,
    where the tool is a read by its name: a write that went well may have nothing to say.
    """
    names = [value for value in _values_in(step.arguments) if isinstance(value, str) and len(value) >= SHORTEST_NAME]
    if step.outcome is None or not names:
        return False
    data = data_in(text := step.outcome.text)
    nothing = not any(_values_in(data)) if data is not None else _is_nothing(text) and is_read(step.tool)
    return nothing or is_absent(step)


def _values_in(data: Any) -> Iterator[Any]:
    """The texts and numbers within data, apart from flags, zeros, and words for nothing."""
    if isinstance(data, dict | list | tuple):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _values_in(value)
    elif data is not True and not _is_nothing(data):
        yield data


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
    if not tool or not (absent or phrase_book().patterns["no_such_tool"].match(seen.text[:300])):
        return None
    known = worked_before(tool)
    there = "" if tools is None else f" There are {_listed(tools)}."
    before = "worked earlier in this conversation and is gone now" if known else "is no tool of this agent"
    evidence = f"`{tool}` {before}.{there} The answer was {seen.quoted or 'empty'}."
    return seen.anomaly("drift" if known else "unknown_tool", evidence, 1.0, recoverable=True)


def error(seen: ObservedCall) -> Anomaly | None:
    """A call whose observation is marked as an error, or is what a tools node makes of an exception."""
    if not seen.failed and not phrase_book().patterns["tool_node"].match(seen.text[:SCANNED]):
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


def noted(step: Step, kind: AnomalyKind, remark: str, confidence: float) -> Anomaly:
    """An anomaly that no single observation shows by itself: a second empty result, or what a classifier says."""
    seen = ObservedCall(step)
    return seen.anomaly(kind, f"{seen.call} brought {seen.quoted or 'nothing'}. {remark}", confidence)


def _listed(tools: Collection[str]) -> str:
    names = sorted(tools)
    return ", ".join(names[:LISTED_TOOLS]) + (", …" if len(names) > LISTED_TOOLS else "") if names else "no tools"


def _is_echo(sentence: str, step: Step) -> bool:
    """Whether the agent itself wrote this in the call, as in a ticket that is created and shown."""
    values = (step.arguments or {}).values()
    return len(sentence) >= SHORTEST_ECHO and any(isinstance(each, str) and sentence in each for each in values)


PERIODS = (1, 2, 3, 4)
"""Lengths of cycles, in calls. A longer one would count after 15 calls at the earliest, too late to be of help."""

STAGNATION_BEYOND = 2  # calls more than a repetition takes: other arguments with one outcome may be a search
LONGEST_ACKNOWLEDGEMENT = 160  # characters of an outcome that only confirms; a longer one brings something


def loop_in(steps: Iterator[Step], *, repeats: int, pollers: Sequence[str]) -> Anomaly | None:
    """The loop that the latest call is part of, in answered calls, latest first.

    Pollers are exempt, and so is a cycle that contains one.
    """
    calls = list(islice(steps, max(PERIODS) + 1))
    if not calls or _is_poller(calls[0], pollers):
        return None
    alike = any(_content(call) == _content(calls[0]) for call in calls[1:2])
    if not alike and not any(_same(call, calls[0]) for call in calls[2:]):
        return None  # a conversation that goes well is read no further
    calls.extend(islice(steps, 2 * repeats * max(PERIODS) - len(calls)))  # as many as the longest cycle takes
    return _cycle(calls, repeats, pollers) or _stagnation(calls, repeats, pollers)


def acknowledges(text: str) -> bool:
    """Whether an outcome is empty, a bare value or a short statement of success; that there is nothing is none."""
    if len(text) > LONGEST_ACKNOWLEDGEMENT:
        return False
    says = phrase_book().patterns
    confirms = says["acknowledged"].search(text) and not says["negative"].search(text)
    return bool(confirms or says["bare"].fullmatch(text))


def _cycle(calls: Sequence[Step], repeats: int, pollers: Sequence[str]) -> Anomaly | None:
    """The same call, or the same calls, again and again with the same outcomes."""
    for period in PERIODS:
        turn = calls[:period]
        if any(_is_poller(step, pollers) for step in turn):
            return None
        # An agent that fills a row of pots gets the same words each time, and rightly goes on.
        fills = period > 1 and all(acknowledges(ObservedCall(step).text) for step in turn)
        times = repeats * 2 if fills else repeats
        if len(calls) >= times * period and all(map(_same, calls[period : times * period], calls)):
            shown = ", ".join(ObservedCall(step).call for step in reversed(turn))
            outcome = ObservedCall(turn[0]).quoted or "nothing"
            evidence = f"{shown} came {times} times in a row and brought the same each time, at last {outcome}."
            kind: AnomalyKind = "repetition" if period == 1 else "cycle"
            return ObservedCall(turn[0]).anomaly(kind, evidence, 0.9, recoverable=True)
    return None


def _stagnation(calls: Sequence[Step], repeats: int, pollers: Sequence[str]) -> Anomaly | None:
    """Different calls with the same outcome; those of one message count, but did not know of each other."""
    needed, latest = repeats + STAGNATION_BEYOND, ObservedCall(calls[0])
    alike = list(
        takewhile(
            lambda call: _content(call) == _content(calls[0]) and not _is_poller(call, pollers), calls[: 2 * needed]
        )
    )
    for times in range(needed, len(alike) + 1):
        same = alike[:times]
        if len({step.turn for step in same}) < repeats or all(_same_call(call, calls[0]) for call in same):
            continue
        if acknowledges(latest.text):
            return None
        different = list(dict.fromkeys(ObservedCall(step).call for step in reversed(same)))
        shown = f"{', '.join(different[:3])}{', …' if len(different) > 3 else ''}"  # noqa: PLR2004 - examples
        evidence = f"{times} calls in a row ({shown}) brought the same: {latest.quoted or 'nothing'}."
        return latest.anomaly("stagnation", evidence, 0.75, recoverable=True)
    return None


def _is_poller(step: Step, pollers: Sequence[str]) -> bool:
    """Whether a call may be made again and again; a pattern names a tool, or a call as `rendered` writes it."""
    return any(fnmatchcase(rendered(step) if "(" in pattern else step.tool, pattern) for pattern in pollers)


def _content(step: Step) -> Any:
    return step.outcome.content if step.outcome is not None else None


def _same(one: Step, other: Step) -> bool:
    return _same_call(one, other) and _content(one) == _content(other)


def _same_call(one: Step, other: Step) -> bool:
    return one.tool == other.tool and one.arguments == other.arguments
