"""Error fields: what structured output says of its own success, in JSON or as Python writes it. Pure.

Only the first level counts, and the one below it under names that wrap a result: deeper down, and in lists of
records, an error is what was asked for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

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
