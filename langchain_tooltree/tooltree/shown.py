"""What a person is shown of a call that waits for approval, in words.

Whoever wrote a tool's result, an argument or a judge's reason may want to be believed. So each stands in quotation
marks, on one line, with characters written out that would not be seen.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict

from langchain_core.messages import ToolCall
from pydantic import TypeAdapter, ValidationError

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.text import counted
from langchain_tooltree.tooltree.result import PlanMetadata

ARGUES_FOR = 0.5
"""Score in [0, 1] from which it argues for approval: at even odds."""

SHOWN = 300
"""Characters of one text that a person is shown: two lines of a wide window, three of a narrow one."""

SHOWN_READS = 5
"""Reads that are shown one by one: as many as are read before a click."""

MOST_VALUES = 200
"""Values in the arguments of a call that are looked for, which takes up to half a second in results of a megabyte."""

MOST_COMPARED = 100_000
"""Characters of a value, at all places where it stands within a word, that are looked at before it counts as absent:
one letter alone has more in ten megabytes of prose, and whoever writes a result cannot keep the process busy."""

AROUND = 60
"""Characters of a result that are shown on each side of a value."""

WORDS = re.compile(r"[^\s\"'(),;<>\[\]{}]+")
"""The parts of a text that are looked for one by one; an address, a link and a number are one part each."""

NAME = 3
"""Words that a name has at most; what is longer is prose."""

TELLING = re.compile(r"[@/\d]|\w[.:_-]\w")
"""What an address, a link, a path, an amount or an identifier has, and a word of prose has not."""

VALUE_AS_KEY = re.compile(r"[@/.:\s]|\A\d")
"""What an address, a link, a number or a text of words has, and the name of a field has not."""

NUMBER = re.compile(r"([0-9]{1,20})(?:\.([0-9]{0,20}?)0*)?")
"""A number; zeros at the end behind its point do not count, since 80.0, 80.00 and 80 are one amount."""

NUMBER_GOES_ON = r"\w|\.[0-9]+(?!\.?[0-9])|,[0-9]{3}(?![0-9])"
"""What makes digits the beginning of another number: 80 does not stand in 80.50 and 80,000, but 22 in 22.11.2026."""


class Origin(TypedDict):
    """A value in the arguments of a call that stands in no word of the user or the instructions."""

    argument: str  # where it stands in the arguments
    value: str  # a number of values that were not looked for, where no argument is named
    results: list[str]  # calls whose results hold it, latest first; none if it stands nowhere: the model made it


@cache
def _form() -> TypeAdapter[PlanMetadata]:
    return TypeAdapter(PlanMetadata)


def fit_to_show(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of a plan without scores that argue for a call and have no reason.

    It is empty if it is not of this form: messages come back from clients and stores, who may have changed it.
    """
    try:
        plan = _form().validate_python(metadata, strict=True)
    except (ValidationError, RecursionError):
        return {}
    reasons = plan.get("reasons", {})
    scores = {"r_pre": plan["r_pre"], "r_post": plan["r_post"], "goal": plan["goal"]}
    for name, score in scores.items():
        if score is not None and score >= ARGUES_FOR and not reasons.get("r_pre" if name == "r_pre" else "r_post"):
            scores[name] = None
    return {**plan, **scores}


def origins(arguments: Mapping[str, Any], said: Conversation) -> list[Origin]:
    """The values of a call that neither the user nor the instructions named, and the results that hold them."""
    told = " ".join([*said.requests, said.instructions]).casefold()
    results = [
        (_written(call["name"], call["args"]) if call else str(message.name), str(message.text).casefold())
        for each in said.rounds(beyond_request=True)
        for call, message in reversed(each.pairs())
    ]

    @cache
    def holding(value: str) -> list[str]:
        return [*dict.fromkeys(read for read, text in results if _stands(value, text))]

    found: dict[tuple[str, str], Origin] = {}
    room, left = MOST_VALUES, 0
    for argument, value in _values(arguments):
        if room <= 0:
            left += 1
            continue
        room -= 1
        if _stands(value, told):
            continue
        whole = holding(value)
        parts = [value] if whole else _parts(value)
        for part in parts[: room + 1]:
            if not _stands(part, told):
                found[(argument, part)] = Origin(argument=argument, value=part, results=whole or holding(part))
        left += max(0, len(parts) - room - 1)
        room -= max(0, len(parts) - 1)
    if left:
        found[("", "")] = Origin(argument="", value=f"{left} more values", results=[])
    return list(found.values())


def _values(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The numbers and texts in arguments, with their places, and what stands as a key in place of a field's name."""
    waiting = [(place, data)]
    while waiting:
        place, data = waiting.pop()
        if isinstance(data, Mapping):
            yield from ((place, str(key).strip()) for key in data if place and VALUE_AS_KEY.search(str(key).strip()))
            waiting.extend((f"{place}.{key}" if place else str(key), data[key]) for key in reversed(list(data)))
        elif isinstance(data, list | tuple):
            waiting.extend((f"{place}[{at}]", data[at]) for at in reversed(range(len(data))))
        elif isinstance(data, int | float) and not isinstance(data, bool):
            yield place, repr(int(data) if data == data // 1 else data)
        elif isinstance(data, str) and data.strip():
            yield place, data.strip()


def _parts(value: str) -> list[str]:
    """What is looked for of a value that stands nowhere as a whole: what is telling in prose, and else the value."""
    words = WORDS.findall(value)
    telling = [word.strip(".:!?") for word in words if TELLING.search(word)]
    return [value] if len(words) <= NAME else telling


def _stands(value: str, text: str) -> bool:
    """Whether a value stands in a casefolded text as a word of its own."""
    value = value.casefold()
    if number := NUMBER.fullmatch(value):
        whole, fraction = number.groups()
        ending = rf"\.{fraction}0*" if fraction else r"(?:\.0+)?"
        return re.search(rf"(?<!\w){whole}{ending}(?!{NUMBER_GOES_ON})", text) is not None
    at = -1
    for _ in range(max(1, MOST_COMPARED // len(value))):
        at = text.find(value, at + 1)
        if at < 0:
            return False
        if not (_is_word(text[at - 1 : at]) or _is_word(text[at + len(value) : at + len(value) + 1])):
            return True
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def describe(call: ToolCall, said: Conversation, plan: Mapping[str, Any], found: Sequence[Origin]) -> str:
    """A call, what it rests on, and what it was weighed against; a line each."""
    lines = [f"{_written(call['name'], call['args'])} waits for approval."]
    lines.append(f"The user asked: {quoted(said.goal)}" if said.goal else "No words of the user stand before it.")
    lines.extend(_origins(found))
    lines.extend(_reads(said, found))
    lines.extend(_named("Also read, and not kept", [_planned(each) for each in plan.get("tried", ())]))
    lines.extend(_judged(plan))
    lines.extend(_named("Planned after it", [_planned(each) for each in plan.get("plan", ())]))
    others = (" then ".join(map(_planned, other["calls"])) for other in plan.get("alternatives", ()))
    lines.extend(f"Instead: {other}" for other in others)
    if cost := plan.get("cost"):
        kinds = {"rollout": "rollouts", "model call": "model_calls", "tool call": "tool_calls"}
        rollouts, asked, ran = (counted(cost.get(name, 0), kind) for kind, name in kinds.items())
        lines.append(f"The search made {rollouts}, {asked} and {ran}.")
    return "\n".join(lines)


def _named(what: str, things: Sequence[str]) -> Iterator[str]:
    """As many things as a person reads, on one line, and how many there are beside them."""
    if things:
        left = len(things) - SHOWN_READS
        more = f", and {left} more" if left > 0 else ""
        yield f"{what}: {', '.join(things[:SHOWN_READS])}{more}"


def _origins(found: Sequence[Origin]) -> Iterator[str]:
    """Where the values stand that the user did not name, those of one result together."""
    by_place: dict[str, list[str]] = {}
    for origin in found:
        where = f"only in the result of {origin['results'][0]}" if origin["results"] else "in no result: made up"
        where = f"Not from the user, {where}" if origin["argument"] else "Not looked for"
        value = f"{_plain(origin['argument'])} {quoted(origin['value'])}" if origin["argument"] else origin["value"]
        by_place.setdefault(where, []).append(value)
    for where, values in by_place.items():
        yield from _named(where, values)


def _reads(said: Conversation, found: Sequence[Origin]) -> Iterator[str]:
    """The results of this turn that hold values of the call, with what stands around these; the others by number."""
    others = 0
    informing: list[str] = []
    for each in said.rounds():
        for call, message in each.pairs():
            read = _written(call["name"], call["args"]) if call else str(message.name)
            text = str(message.text)
            held = [origin["value"] for origin in found if read in origin["results"]]
            at = min((text.casefold().find(value.casefold()) for value in held), default=0)
            if held:
                informing.append(f"Read for it: {read} gave {quoted(text, around=max(0, at))}")
            else:
                others += 1
    yield from informing[::-1][:SHOWN_READS]
    others += max(0, len(informing) - SHOWN_READS)
    if others:
        yield f"Other results in this turn: {others}"


def _judged(plan: Mapping[str, Any]) -> Iterator[str]:
    """The scores of a call with their reasons."""
    reasons = plan.get("reasons", {})
    named = {"r_pre": "before the call", "r_post": "expected result", "goal": "fulfils the request:"}
    for source, keys in {"r_pre": ["r_pre"], "r_post": ["r_post", "goal"]}.items():
        given = [f"{named[key]} {plan[key]:.2f}" for key in keys if plan.get(key) is not None]
        if given:
            reason = reasons.get(source)
            why = f"The judge's reason: {quoted(reason)}" if reason else "No reason was given."
            yield f"Scores in [0, 1]: {', '.join(given)}. {why}"


def _planned(call: Mapping[str, Any]) -> str:
    return _written(call["tool"], call["arguments"])


def _written(tool: str, arguments: Mapping[str, Any]) -> str:
    given = ", ".join(f"{_plain(str(name))}={quoted(value)}" for name, value in arguments.items())
    return f"{_plain(tool)}({given})"


def _plain(name: str) -> str:
    """A name as it is, or in quotation marks if it is none."""
    return name if re.fullmatch(r"[\w.:/\[\]-]{1,128}", name) else quoted(name)


def quoted(value: Any, *, around: int = 0) -> str:
    """A value as Python writes it, so on one line; of a long one the part around a place, and how much is left out."""
    if not isinstance(value, str):
        value = repr(value)
        return value if len(value) <= SHOWN else f"{value[:SHOWN]} ({len(value) - SHOWN} characters more)"
    begin = max(0, min(around - AROUND, len(value) - SHOWN))
    part = value[begin : begin + SHOWN]
    left = len(value) - len(part)
    return f"{part!r} ({left} characters more)" if left else repr(part)
