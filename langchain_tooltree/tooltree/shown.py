"""What a person is shown of a call that waits for approval, in words.

Whoever wrote a tool's result, an argument or a judge's reason may want to be believed. So each stands in quotation
marks, on one line, with characters written out that would not be seen.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypedDict

from langchain_core.messages import ToolCall
from pydantic import TypeAdapter, ValidationError

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.tooltree.result import PlanMetadata

ARGUES_FOR = 0.5
"""Score in [0, 1] from which it argues for approval: at even odds."""

SHOWN = 300
"""Characters of one text that a person is shown: two lines of a wide window, three of a narrow one."""

SHOWN_READS = 5
"""Reads that are shown one by one: as many as are read before a click."""

AROUND = 60
"""Characters of a result that are shown on each side of a value."""

WORDS = re.compile(r"[^\s\"'(),;<>\[\]{}]+")
"""The parts of a text that are looked for one by one; an address, a link and a number are one part each."""

TELLING = re.compile(r"[@/\d]|\w[.:_-]\w")
"""What an address, a link, a path, an amount or an identifier has, and a word of prose has not."""


class Origin(TypedDict):
    """A value in the arguments of a call that stands in no word of the user or the instructions."""

    argument: str  # where it stands in the arguments
    value: str
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
    found: dict[tuple[str, str], Origin] = {}
    for argument, value in _values(arguments):
        if not _stands(value, told):
            holding = [read for read, text in results if _stands(value, text)]
            found[(argument, value)] = Origin(argument=argument, value=value, results=[*dict.fromkeys(holding)])
    return list(found.values())


def _values(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """What can be looked for in arguments, with its place: numbers, short texts, and what is telling in long ones."""
    waiting = [(place, data)]
    while waiting:
        place, data = waiting.pop()
        if isinstance(data, Mapping):
            waiting.extend((f"{place}.{key}" if place else str(key), data[key]) for key in reversed(list(data)))
        elif isinstance(data, list | tuple):
            waiting.extend((f"{place}[{at}]", data[at]) for at in reversed(range(len(data))))
        elif isinstance(data, int | float) and not isinstance(data, bool):
            yield place, repr(int(data) if data == data // 1 else data)
        elif isinstance(data, str) and data.strip():
            parts = [part.strip(".:!?") for part in WORDS.findall(data)]
            long = len(parts) > 3  # noqa: PLR2004 - a name has up to three words
            yield from ((place, part) for part in ([p for p in parts if TELLING.search(p)] if long else [data.strip()]))


def _stands(value: str, text: str) -> bool:
    """Whether a value stands in a casefolded text as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(value.casefold())}(?!\w)", text) is not None


def describe(call: ToolCall, said: Conversation, plan: Mapping[str, Any], found: Sequence[Origin]) -> str:
    """A call, what it rests on, and what it was weighed against; a line each."""
    lines = [f"{_written(call['name'], call['args'])} waits for approval."]
    lines.append(f"The user asked: {quoted(said.goal)}" if said.goal else "No words of the user stand before it.")
    lines.extend(_first(map(_origin, found), "more values that the user did not name"))
    lines.extend(_reads(said, found))
    lines.extend(_first((_planned(each) for each in plan.get("tried", ())), "more", "Also read, and not kept: "))
    lines.extend(_judged(plan))
    lines.extend(_first((_planned(each) for each in plan.get("plan", ())), "more", "Planned after it: "))
    others = (" then ".join(map(_planned, other["calls"])) for other in plan.get("alternatives", ()))
    lines.extend(f"Instead: {other}" for other in others)
    if cost := plan.get("cost"):
        made = [f"{cost.get(name, 0)} {name.replace('_', ' ')}" for name in ("rollouts", "model_calls", "tool_calls")]
        lines.append(f"The search made {made[0]}, {made[1]} and {made[2]}.")
    return "\n".join(lines)


def _first(lines: Iterator[str], more: str, before: str = "") -> Iterator[str]:
    """As many as a person reads, and how many there are beside them."""
    yield from (f"{before}{line}" for line in islice(lines, SHOWN_READS))
    if left := sum(1 for _ in lines):
        yield f"{before}{left} {more}"


def _origin(origin: Origin) -> str:
    held = origin["results"]
    where = f"only in the result of {held[0]}" if held else "in no result either: the model chose it"
    return f"Not from the user: {origin['argument']} = {quoted(origin['value'])} stands {where}"


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
    yield from _first(iter(informing[::-1]), "more", "")
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
    return name if re.fullmatch(r"[\w.:/-]{1,128}", name) else quoted(name)


def quoted(value: Any, *, around: int = 0) -> str:
    """A value as Python writes it, so on one line; of a long one the part around a place, and how much is left out."""
    if not isinstance(value, str):
        value = repr(value)
        return value if len(value) <= SHOWN else f"{value[:SHOWN]} ({len(value) - SHOWN} characters more)"
    begin = max(0, min(around - AROUND, len(value) - SHOWN))
    part = value[begin : begin + SHOWN]
    left = len(value) - len(part)
    return f"{part!r} ({left} characters more)" if left else repr(part)
