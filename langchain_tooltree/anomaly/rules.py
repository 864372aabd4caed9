"""The rules by which an observation shows that something is off, surest first.

Each rule looks at a call with its observation (`Reading`) and at what came before (`Situation`). The words in which
environments refuse an action are data, in `phrases.toml` beside this file, and are read when they are first needed.

A rule of your own takes a row in `KINDS`, a function of a reading and a situation, and its place in `RULES`. Choose its
confidence with care: from `SURE` on the call counts as failed wherever past runs and the planner ask for it; below,
only reflection hears of it. Trouble that has gone on already belongs in `LOOPS`, too.
"""

import ast
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain, islice, takewhile
from typing import Any, Literal, NamedTuple, get_args

from langchain_tooltree.effects.names import is_read
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.messages.tool_calls import Call, Result
from langchain_tooltree.text import (
    compact_json,
    cut,
    digest,
    forget_oldest,
    one_line,
    whole_words,
)

KINDS: Mapping[str, str] = {
    "unknown_tool": "there is no such tool",
    "drift": "a tool used earlier is not there any more",
    "error": "the tool failed",
    "error_field": "the tool reports an error",
    "phrase": "the action was refused or had no effect",
    "repetition": "the same call has brought the same outcome again and again",
    "cycle": "the same calls come round in a circle",
    "stagnation": "other arguments make no difference to the outcome",
    "empty": "again there is nothing under the name that was asked for",
    "classified": "something seems to be off",
}
"""The kinds of anomalies, surest first, and what an agent is told of each."""

LOOPS = frozenset(
    {"repetition", "cycle", "stagnation", "empty"}
)  # kinds that are trouble that has gone on already


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is off, and how one can tell.

    Attributes:
        kind: Which rule noticed it, by its name in `KINDS`.
        evidence: The part of the conversation that shows it, in words.
        confidence: How sure the rule is, in [0, 1].
        recoverable: Whether the agent itself can do something about it; it cannot about a wrong password.
        tool: Name of the tool whose observation it is.
        call_id: Id of the call whose observation it is; `None` where there is no id.
    """

    kind: str
    evidence: str
    confidence: float
    recoverable: bool
    tool: str
    call_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The anomaly as plain data."""
        return asdict(self)


# --- words ---

# In characters of an observation. They bound the cost of a check; refusals are shorter than each of them.
HEAD = 1_500  # the beginning that is read
TAIL = 600  # the end that is read
SHORT = 320  # an observation up to this length is read sentence by sentence
LONGEST_SENTENCE = 320  # what is read of a sentence

MOST_SENTENCES = 6  # that a short observation has
MOST_LINES = 2  # beyond them an observation is a list or a letter, of which the first line alone is read

_END_OF_SENTENCE = re.compile(r"(?<=\S[.!?])[\"')\]]?\s+|(?<!\s)\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Signals:
    """What there is to read of an observation."""

    length: int
    ends: str  # the beginning and the end
    sentences: tuple[
        str, ...
    ]  # the first and, if the text is short, the next; without prompts, bullets and labels
    last_line: str
    shows: (
        bool  # data, a log, a program or a letter, rather than to say something itself
    )

    @classmethod
    def of(cls, text: str) -> "Signals":
        """Take an observation apart. The cost does not grow with its length, except for one copy of it."""
        text = text.strip()
        head, tail = (
            _normalize_text(text[:HEAD]),
            _normalize_text(text[max(HEAD, len(text) - TAIL) :]),
        )
        lines = [line for line in head.split("\n") if line.strip()]
        # Of several lines, those after the first are a list or a letter.
        listing = len(lines) > MOST_LINES or (
            len(lines) > 1 and lines[0].rstrip().endswith(":")
        )
        opening = lines[0] if lines and (listing or len(text) > SHORT) else head
        parts = _END_OF_SENTENCE.split(opening, maxsplit=MOST_SENTENCES)
        sentences = tuple(filter(None, map(_bare, _unquoted(parts))))
        confirms = (
            len(sentences) > 1
            and _search("success", sentences[0])
            and not _search("denied", sentences[0])
        )
        if len(text) > SHORT or confirms:
            sentences = sentences[
                :1
            ]  # what follows is a document, or remarks on what has been done
        last_line = (tail or head).rpartition("\n")[2].strip()[:LONGEST_SENTENCE]
        ends = f"{head}\n{tail}" if tail else head
        return cls(len(text), ends, sentences, last_line, _opens("record", head))


def _normalize_text(text: str) -> str:
    """A text with plain apostrophes and dashes."""
    return text.replace("\u2019", "'").replace("\u2013", "-").replace("\u2014", "-")


def _unquoted(parts: Sequence[str]) -> Iterator[str]:
    """The first sentence, and those of the others that nobody says or writes in it."""
    within = False
    for place, part in enumerate(parts):
        if not place or not (within or part.startswith(('"', "\u201c"))):
            yield part
        within ^= part.count('"') % 2 == 1


def _bare(part: str) -> str:
    frame = _way("frame").match(part)
    return part[frame.end() if frame else 0 :][:LONGEST_SENTENCE].strip()


def _quoted(text: str) -> str:
    """A text as evidence quotes it: on one line, shortened, in quotation marks."""
    return f'"{one_line(text[: 4 * LONGEST_QUOTE], LONGEST_QUOTE)}"'


TextPlace = Literal["anywhere", "sentence", "opening", "start", "last_line"]
"""Where a phrase counts: anywhere in the beginning or the end of an observation; in a sentence that is read (all of a
short observation, the first of a longer one); in the first of these alone, the opening; in the first sentence even
of data, logs, programs and letters; in the last line alone."""


@dataclass(frozen=True)
class Phrase:
    """A way of saying that something did not work.

    Args:
        pattern: A regular expression, whatever the case. It is searched for, so begin it with `^` where a sentence must
            begin with it.
        place: Where it counts.
        longest: It counts in observations of at most so many characters; in any if left out.
        unless: A regular expression; a sentence that it matches, too, is normal.
        confidence: How sure it is, in [0, 1].
    """

    pattern: str
    place: TextPlace = "anywhere"
    longest: int | None = None
    unless: str = ""
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if (
            not self.pattern.strip()
            or self.place not in get_args(TextPlace)
            or not 0 <= self.confidence <= 1
        ):
            places = ", ".join(get_args(TextPlace))
            msg = f"A phrase takes a pattern, not empty, a place ({places}) and a confidence in [0, 1]; got {self}."
            raise ConfigurationError(msg)
        try:
            _compile_pattern(self.pattern), _compile_pattern(self.unless)
        except re.error as error:
            msg = f"{self.pattern!r:.80} or {self.unless!r:.80} is no regular expression: {error}."
            raise ConfigurationError(msg) from error

    def sentence_in(self, observation: Signals) -> str | None:
        """The words, or the sentence, of an observation that say it; `None` if none do."""
        if self.longest is not None and observation.length > self.longest:
            return None
        if self.place == "anywhere":
            match = _compile_pattern(self.pattern).search(observation.ends)
            return None if match is None else match[0]
        in_data_too = self.place in {"start", "last_line"}
        if observation.shows and not in_data_too:
            return None
        sentences = (
            (observation.last_line,)
            if self.place == "last_line"
            else observation.sentences
        )
        for sentence in sentences if self.place == "sentence" else sentences[:1]:
            words = sentence if in_data_too else _ASIDE.sub(" ", sentence)
            normal = self.unless and _compile_pattern(self.unless).search(words)
            if _compile_pattern(self.pattern).search(words) and not normal:
                return sentence
        return None


def phrases_from(phrases: Iterable[str | Phrase]) -> tuple[Phrase, ...]:
    """Phrases as a user writes them: texts, which count anywhere, and phrases."""
    if isinstance(phrases, str):
        msg = f"phrases are a list, got the text {phrases!r:.80}; for a single phrase, {[phrases]!r:.80}."
        raise ConfigurationError(msg)
    return tuple(
        each if isinstance(each, Phrase) else Phrase(_words_in(each))
        for each in phrases
    )


def _words_in(text: str) -> str:
    """A pattern for a plain text, however its words are spaced."""
    return r"\s+".join(map(re.escape, _normalize_text(text).split()))


_ASIDE = re.compile(
    r"""(?<!\w)["`\u201c][^"`\u201d]{0,200}["`\u201d]|(?<=\s)\([^()\n]{0,200}\)"""
)
"""What a sentence quotes, and what it says in brackets, is not what it says."""

_PLACEHOLDER = re.compile(r"\{([A-Z]+)\}")
_LINE_BREAK = re.compile(r"\n *")


class PhraseBook(NamedTuple):
    """What `phrases.toml` holds."""

    phrases: tuple[
        Phrase, ...
    ]  # the general language of failure, of no environment in particular
    ways: dict[str, str]  # expressions by which observations are read


@cache
def phrase_book() -> PhraseBook:
    """The phrases that come with the package, read once."""
    book = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
    pieces = {
        name: f"(?:{'|'.join(words)})" for name, words in book["words"].items()
    } | book["fragments"]
    general = (
        _general(book["defaults"] | family, pieces) for family in book["general"]
    )
    reasons = {
        name: list(book[name].values()) for name in ("out_of_reach", "up_to_the_agent")
    }
    ways = {
        name: "|".join(_expression(each, pieces) for each in listed)
        for name, listed in reasons.items()
    }
    ways |= {name: _expression(each, pieces) for name, each in book["patterns"].items()}
    return PhraseBook(tuple(chain.from_iterable(general)), ways)


def _way(name: str) -> re.Pattern[str]:
    return _compile_pattern(phrase_book().ways[name])


@cache
def _compile_pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE)


def _general(family: Mapping[str, Any], pieces: Mapping[str, Any]) -> Iterator[Phrase]:
    for entry in family["phrases"]:
        each = dict(family) | entry
        begins, says = (
            _expression(each.get(key, ""), pieces) for key in ("begins", "says")
        )
        normal = [
            _expression(each[key], pieces)
            for key in ("normal", "unless")
            if each.get(key)
        ]
        yield Phrase(
            f"^(?:{begins})" if begins else says,
            place=each["place"],
            longest=each["longest"] or None,
            unless="|".join(normal),
            confidence=each["confidence"],
        )


def _expression(written: str | Sequence[str], pieces: Mapping[str, Any]) -> str:
    """An expression as the file has it, one text or a list of alternatives, with the pieces that it names."""
    joined = "|".join(
        _LINE_BREAK.sub("", part)
        for part in ([written] if isinstance(written, str) else written)
    )
    return _PLACEHOLDER.sub(lambda name: _expression(pieces[name[1]], pieces), joined)


SCANNED = 2_000
"""Characters of an observation in which words are looked for that say that there is nothing, or why: both are short."""


def _search(way: str, text: str) -> bool:
    """Whether a text says something in the words of `patterns`."""
    return _way(way).search(text[:SCANNED]) is not None


def _opens(way: str, text: str) -> bool:
    return _way(way).match(text[:SCANNED]) is not None


# --- structured output ---

LONGEST_DATA = 20_000  # characters of structured output that is read: one that reports an error is short

MOST_BESIDE = 2  # fields of an object that says hardly anything else
MOST_IN_ANSWER = (
    6  # fields of an object that answers a call; a record of something has more
)

_FAILED = frozenset({"error", "err", "failure", "fail", "exception"})
_HTTP_ERRORS = frozenset(
    {*range(400, 419), *range(421, 427), 428, 429, 431, 451, *range(500, 512), 529}
)
_SHELL_CANNOT = frozenset({126, 127})

Fields = dict[
    str, Any
]  # an object of a structured observation: names in lower case, without underscores, and values

Objects = Sequence[tuple[str, Fields]]
"""The object that an observation is, and those that it wraps, each with what stands before the names of its fields."""


def data_in(text: str) -> Any:
    """What an observation holds as JSON, or as the text of a Python object; `None` if it is neither, or very long."""
    if len(text) > LONGEST_DATA:
        return None
    text = (
        text.strip()
        .removeprefix("```json")
        .removeprefix("```")
        .removesuffix("```")
        .strip()
    )
    if text[:1] in {"{", "[", "("}:
        # Escapes that Python does not know would be warned of.
        readers: list[Callable[[str], Any]] = [
            json.loads,
            *([] if "\\" in text else [ast.literal_eval]),
        ]
        for read in readers:
            with suppress(
                ValueError, SyntaxError, TypeError, MemoryError, RecursionError
            ):
                return read(text)
    return None


def objects_in(text: str) -> Objects:
    """The objects of an observation, such as `{"result": {"error": ...}}`; none if it holds anything else."""
    fields = _fields_of(data_in(text))
    wrapped = (
        (f"{name}.", _fields_of(value))
        for name, value in fields.items()
        if _is("wrapper", name)
    )
    return [(before, each) for before, each in (("", fields), *wrapped) if each]


def _fields_of(data: Any) -> Fields:
    """The fields of an object, alone or in a list; several are records."""
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    return (
        {str(name).lower().replace("_", ""): value for name, value in data.items()}
        if isinstance(data, dict)
        else {}
    )


def _is(kind: str, name: str) -> bool:
    """Whether a field is of a kind, by its name."""
    return _way(kind).fullmatch(name) is not None


def texts_in(objects: Objects) -> Iterator[str]:
    """What objects say in words, other than what somebody wrote."""
    for _, fields in objects:
        says = ["text"] * (len(fields) <= MOST_IN_ANSWER) + ["content"] * (
            len(fields) <= MOST_BESIDE
        )
        if not any(_is("author", name) for name in fields):
            texts = (
                (name, value)
                for name, value in fields.items()
                if isinstance(value, str)
            )
            yield from (
                text for name, text in texts if any(_is(kind, name) for kind in says)
            )


def error_in(objects: Objects) -> str | None:
    """The field that says that something went wrong, as `result.error`; `None` if none does."""
    for before, fields in objects:
        explained = any(
            _is("explaining", name) and not _is_nothing(value)
            for name, value in fields.items()
        )
        for name, value in fields.items():
            if _tells_failure(name, value, fields, explained=explained):
                return f"{before}{name}"
    return None


def _tells_failure(name: str, value: Any, fields: Fields, *, explained: bool) -> bool:
    """Whether a field says that something went wrong; `explained`, if another one of its object says why."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    code = int(value) if re.fullmatch(r"\d{1,3}", str(value)) else None
    word = str(value).lower()
    # A record may tell of something that failed; an answer that failed says little else.
    answers = name != "type" and (explained or len(fields) <= MOST_BESIDE)
    tells = {
        "succeeded": word == "false",
        "failed": word == "true",
        "status_code": code in _HTTP_ERRORS,
        "code": code in _HTTP_ERRORS and (explained or name == "status"),
        "state": word in _FAILED or (word == "failed" and answers),
        "exit_code": code in _SHELL_CANNOT
        or bool(code and not _is_nothing(fields.get("stderr"))),
        "error": not _is_nothing(value)
        and (not is_number or value in _HTTP_ERRORS),  # a number may be measured
    }
    return any(says and _is(kind, name) for kind, says in tells.items())


def _is_nothing(value: Any) -> bool:
    return _is("nothing", value.strip()) if isinstance(value, str) else not value


# --- single calls ---

LONGEST_QUOTE = 160  # characters of an observation that evidence shows
LONGEST_CALL = (
    120  # characters of a call that evidence shows: the tool and its first arguments
)
SHORTEST_NAME = (
    3  # characters of a name in a call; a shorter text stands in others by chance
)
SHORTEST_OWN_WORDS = 8  # characters of a sentence that is the agent's own if its call has it, and not by chance

SURE = 0.85
"""Confidence, in [0, 1], from which on a call counts as failed. Below it are words that may be good news: a seat that
"is booked" is taken, or yours."""

WEAK = 0.5
"""How sure it is that something is off where there is nothing under a name: it may be mistaken, or right that there is
nothing."""


def is_recoverable(text: str) -> bool:
    """Whether an agent can do something about a failure, going by what the failed call brought back.

    It cannot do anything about wrong credentials, a spent quota, a payment, or a service that is down or limits its
    rate: the same would happen to any other call. A call for logging in is up to the agent.
    """
    return not _search("out_of_reach", text) or _search("up_to_the_agent", text)


@dataclass(frozen=True)
class Reading:
    """A call with its observation, read once for all rules."""

    step: Call

    @cached_property
    def text(self) -> str:
        """The observation as text, without what this package has added to it."""
        return self.step.result.text if self.step.result is not None else ""

    @property
    def content(self) -> Any:
        """The observation as it was returned, by which two are compared."""
        return self.step.result.content if self.step.result is not None else None

    @cached_property
    def objects(self) -> Objects:
        """Its objects, if it is structured."""
        return objects_in(self.text)

    @property
    def failed(self) -> bool:
        """Whether the observation is marked as an error."""
        return self.step.result is not None and self.step.result.status == "error"

    @property
    def call(self) -> str:
        """The call as evidence shows it."""
        return f"`{cut(rendered(self.step), LONGEST_CALL)}`"

    @property
    def quote(self) -> str:
        """The observation as evidence shows it."""
        return _quoted(self.text) if self.text.strip() else "nothing"

    def anomaly(
        self,
        kind: str,
        evidence: str,
        confidence: float,
        *,
        recoverable: bool | None = None,
    ) -> Anomaly:
        """Say that the call is anomalous; by its observation, the agent can do something about it or not."""
        recoverable = is_recoverable(self.text) if recoverable is None else recoverable
        return Anomaly(
            kind, evidence, confidence, recoverable, self.step.tool, self.step.call_id
        )


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a rule may look at beside a call; what has to be looked for in the conversation is a function.

    Attributes:
        latest: The calls of the latest round with their observations.
        earlier: The calls of the run before these, latest first.
        worked_before: Whether a tool has brought something, and no error, in an earlier round of the conversation.
        tools: Names of the tools that the agent has; `None` if that is not known.
        phrases: Ways of saying that something did not work.
        pollers: Calls that may be made again and again.
        request: What the user has asked for.
    """

    latest: Sequence[Reading]
    earlier: Callable[[], Iterator[Call]] = lambda: iter(())
    worked_before: Callable[[str], bool] = lambda _: False
    tools: Collection[str] | None = None
    phrases: Sequence[Phrase]
    pollers: Sequence[str] = ()
    request: Callable[[], str] = str


Rule = Callable[[Reading, Situation], Anomaly | None]


def rendered(step: Call) -> str:
    """A call as text: `tool(value, value)`, texts as they are and other values as JSON, in the order of the call."""
    arguments = step.arguments or {}
    values = (
        value if isinstance(value, str) else json.dumps(value, default=str)
        for value in arguments.values()
    )
    return f"{step.tool}({', '.join(values)})"


def readings_of(steps: Iterable[Call]) -> list[Reading]:
    """Calls with their observations; a person's rejection of a call is an instruction, and left out."""
    return [
        reading
        for reading in map(Reading, steps)
        if not _opens("rejected", reading.text)
    ]


def first_anomaly(situation: Situation) -> Anomaly | None:
    """What the surest rule says of the latest calls."""
    for rule in RULES:
        for reading in situation.latest:
            anomaly = rule(reading, situation)
            if anomaly is not None and (
                anomaly := _unless_weak(anomaly, reading.step, situation)
            ):
                return anomaly
    return None


def _unless_weak(anomaly: Anomaly, step: Call, situation: Situation) -> Anomaly | None:
    """An anomaly; `None` if it says no more than that there is nothing under a name that the user gave.

    They may have mistaken it, and the agent does right to tell them. With the second such answer of a tool it counts.
    """
    if anomaly.confidence <= WEAK or not (
        is_absent(step) and asks_for(step, situation.request())
    ):
        return anomaly
    again = any(
        is_absent(each) for each in situation.earlier() if each.tool == step.tool
    )
    return replace(anomaly, confidence=WEAK) if again else None


_failures: dict[str, bool] = {}  # by digests: the results of past runs are not kept


def has_failed(step: Call) -> bool:
    """Whether a call surely failed or was refused, by what it brought back alone."""
    if step.result is None or step.result.status == "error":
        return step.result is not None
    text = step.result.text
    key = digest([step.tool, compact_json(step.arguments or {}), text])
    is_failure = _failures.get(key)
    if (
        is_failure is None
    ):  # to look for phrases takes 1 ms, and a long run is learnt again and again
        reading = Reading(replace(step, result=Result(text)))
        anomaly = first_anomaly(
            Situation(latest=[reading], phrases=phrase_book().phrases)
        )
        _failures[key] = is_failure = anomaly is not None and anomaly.confidence >= SURE
        forget_oldest(_failures, 1_000)
    return is_failure


def is_absent(step: Call) -> bool:
    """Whether a call brought back in words that there is no such thing as it asked for."""
    return step.result is not None and _search("absent", step.result.text)


def is_empty(call: Call, *, is_read_only: bool | None = None) -> bool:
    """Return True if a call returned no data, or says that there is none.

    No data is structured output without a text or a number, where flags, zeros and
    words for nothing do not count: `[]`, `{"results": []}`. A sentence such as "No
    flights found." says that there is none. No text at all counts only for a read: a
    write that went well may have nothing to say.

    Args:
        call: The call with its result. Without a result it is not empty.
        is_read_only: True if the call is known to change nothing, False if it may
            change something. If it is left out, the name of the tool decides.
    """
    if call.result is None:
        return False
    text = call.result.text
    if call.result.content and not text:
        return False  # such as an image

    data = data_in(text)
    text = text.strip().strip("\"'")  # of a string that is written as JSON
    if data is not None:
        has_no_data = not any(_values_in(data))
    elif is_read_only is None:
        has_no_data = _is_nothing(text) and is_read(call.tool)
    else:
        has_no_data = _is_nothing(text) and is_read_only
    return has_no_data or is_absent(call)


def _names_something(call: Call) -> bool:
    """Return True if an argument of a call is a text that can be a name."""
    return any(
        isinstance(value, str) and len(value) >= SHORTEST_NAME
        for value in _values_in(call.arguments)
    )


def _found_nothing(call: Call) -> bool:
    """Return True if a call names something, and there is no such thing."""
    return _names_something(call) and is_empty(call)


def _values_in(data: Any) -> Iterator[Any]:
    """The texts and numbers within data, apart from flags, zeros, and words for nothing."""
    if isinstance(data, dict | list | tuple):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _values_in(value)
    elif data is not True and not _is_nothing(data):
        yield data


def asks_for(step: Call, request: str) -> bool:
    """Whether a call asks for something by a name that stands in a request."""
    values = [
        each.casefold()
        for each in (step.arguments or {}).values()
        if isinstance(each, str)
    ]
    names = [each for each in values if len(each) >= SHORTEST_NAME]
    return bool(names) and whole_words(names).search(request.casefold()) is not None


def is_no_tool(text: str) -> bool:
    """Whether an observation is what LangGraph's tools node says of a tool that it does not have."""
    return _opens("no_such_tool", text)


def _missing_tool(reading: Reading, situation: Situation) -> Anomaly | None:
    """A call of a tool that is not there: `drift` if it was there before, `unknown_tool` if it never was.

    The observation decides: a tool that brings back a result is there, also if it is not in `tools`. Agents get tools
    at run time, and some calls are answered by something else than the tools node.
    """
    tool = reading.step.tool
    absent = (
        reading.failed and situation.tools is not None and tool not in situation.tools
    )
    if not tool or not (absent or is_no_tool(reading.text)):
        return None
    drifted = situation.worked_before(tool)
    before = (
        "worked earlier in this conversation and is gone now"
        if drifted
        else "is no tool of this agent"
    )
    evidence = f"`{tool}` {before}. It brought {reading.quote}."
    return reading.anomaly(
        "drift" if drifted else "unknown_tool", evidence, 1.0, recoverable=True
    )


def _error(reading: Reading, _: Situation) -> Anomaly | None:
    """A call whose observation is marked as an error, or is what a tools node makes of an exception."""
    if not reading.failed and not _opens("tool_node", reading.text):
        return None
    evidence = f"{reading.call} failed: {reading.quote}."
    return reading.anomaly("error", evidence, 1.0 if reading.failed else 0.95)


def _error_field(reading: Reading, _: Situation) -> Anomaly | None:
    """A call whose observation has a field that says that something went wrong."""
    field_name = error_in(reading.objects)
    if field_name is None:
        return None
    return reading.anomaly(
        "error_field",
        f"{reading.call} brought {reading.quote}; see {field_name!r}.",
        0.9,
    )


def _phrase(reading: Reading, situation: Situation) -> Anomaly | None:
    """A call whose observation says in words that it did not work. What the agent wrote itself does not count."""
    for part in (reading.text, *texts_in(reading.objects)):
        observation = Signals.of(part)
        for each in situation.phrases:
            if reading.objects and part is reading.text and each.place != "anywhere":
                continue  # the sentences of structured output are those in its fields
            sentence = each.sentence_in(observation)
            if sentence is not None and not _is_own_words(sentence, reading.step):
                evidence = f"{reading.call} was answered with {_quoted(sentence)}."
                return reading.anomaly(
                    "phrase",
                    evidence,
                    each.confidence,
                    recoverable=is_recoverable(part),
                )
    return None


def _is_own_words(sentence: str, step: Call) -> bool:
    """Whether the agent itself wrote this in the call, as in a ticket that is created and shown."""
    values = (step.arguments or {}).values()
    return len(sentence) >= SHORTEST_OWN_WORDS and any(
        isinstance(each, str) and sentence in each for each in values
    )


def _empty_again(reading: Reading, situation: Situation) -> Anomaly | None:
    """A call that names something and brought back nothing, where another one of the run had done so before."""
    if not _found_nothing(reading.step):
        return None
    before = (
        each.step
        for each in takewhile(lambda each: each is not reading, situation.latest)
    )
    if not any(map(_found_nothing, chain(before, situation.earlier()))):
        return None
    evidence = f"{reading.call} brought {reading.quote}. A call before it brought nothing either."
    return reading.anomaly("empty", evidence, WEAK)


# --- loops ---

REPEATS = 3  # times in a row from which on the same is a loop: twice may be a second try, three times is none

PERIODS = (1, 2, 3, 4)
"""Lengths of cycles, in calls. A longer one would count after 15 calls at the earliest, too late to be of help."""

STAGNATION_BEYOND = 2  # calls more than a repetition takes: other arguments with one outcome may be a search
LONGEST_ACKNOWLEDGEMENT = (
    160  # characters of an outcome that only confirms; a longer one brings something
)
MOST_SHOWN = 3  # calls that evidence names


def _loop(reading: Reading, situation: Situation) -> Anomaly | None:
    """The loop that the latest call is part of. Pollers are exempt, and so is a cycle that contains one."""
    if reading is not situation.latest[-1] or _is_poller(reading, situation.pollers):
        return None
    steps = chain(
        (each.step for each in reversed(situation.latest)), situation.earlier()
    )
    calls = [Reading(step) for step in islice(steps, max(PERIODS) + 1)]
    alike = any(call.content == calls[0].content for call in calls[1:2])
    if not alike and not any(_same(call, calls[0]) for call in calls[2:]):
        return None  # a conversation that goes well is read no further
    most = 2 * REPEATS * max(PERIODS)  # as many as the longest cycle takes
    calls += [Reading(step) for step in islice(steps, most - len(calls))]
    return _cycle(calls, situation.pollers) or _stagnation(calls, situation.pollers)


def acknowledges(text: str) -> bool:
    """Whether an outcome is empty, a bare value or a short statement of success; that there is nothing is none."""
    if len(text) > LONGEST_ACKNOWLEDGEMENT:
        return False
    return (_search("acknowledged", text) and not _search("negative", text)) or _is(
        "bare", text
    )


def _cycle(calls: Sequence[Reading], pollers: Sequence[str]) -> Anomaly | None:
    """The same call, or the same calls, again and again with the same outcomes."""
    for period in PERIODS:
        turn = calls[:period]
        if any(_is_poller(call, pollers) for call in turn):
            return None
        # An agent that fills a row of pots gets the same words each time, and rightly goes on.
        fills = period > 1 and all(acknowledges(call.text) for call in turn)
        times = REPEATS * 2 if fills else REPEATS
        if len(calls) >= times * period and all(
            map(_same, calls[period : times * period], calls)
        ):
            names = ", ".join(call.call for call in reversed(turn))
            evidence = f"{names} came {times} times in a row and brought the same each time, at last {turn[0].quote}."
            return turn[0].anomaly(
                "repetition" if period == 1 else "cycle",
                evidence,
                0.9,
                recoverable=True,
            )
    return None


def _stagnation(calls: Sequence[Reading], pollers: Sequence[str]) -> Anomaly | None:
    """Different calls with the same outcome; those of one message count, but did not know of each other."""
    latest = calls[0]
    alike = list(
        takewhile(
            lambda call: (
                call.content == latest.content and not _is_poller(call, pollers)
            ),
            calls,
        )
    )
    too_few = (
        len(alike) < REPEATS + STAGNATION_BEYOND
        or len({call.step.turn for call in alike}) < REPEATS
    )
    if (
        too_few
        or all(_same(call, latest) for call in alike)
        or acknowledges(latest.text)
    ):
        return None
    names = ", ".join(
        list(dict.fromkeys(call.call for call in reversed(alike)))[:MOST_SHOWN]
    )
    evidence = (
        f"{len(alike)} calls in a row ({names}) brought the same: {latest.quote}."
    )
    return latest.anomaly("stagnation", evidence, 0.75, recoverable=True)


def _is_poller(call: Reading, pollers: Sequence[str]) -> bool:
    """Whether a call may be made again and again; a pattern names a tool, or a call as `rendered` writes it."""
    return any(
        fnmatchcase(rendered(call.step) if "(" in pattern else call.step.tool, pattern)
        for pattern in pollers
    )


def _same(one: Reading, other: Reading) -> bool:
    """Whether it is the same call with the same outcome."""
    same_call = (
        one.step.tool == other.step.tool and one.step.arguments == other.step.arguments
    )
    return same_call and one.content == other.content


RULES: tuple[Rule, ...] = (
    _missing_tool,
    _error,
    _error_field,
    _phrase,
    _loop,
    _empty_again,
)
"""The rules, surest first: the first that says something decides."""
