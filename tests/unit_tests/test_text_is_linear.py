"""No text freezes the event loop: every expression and every reader of texts takes time in proportion to its length."""

import importlib
import json
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

import langchain_tooltree
from langchain_tooltree import AnomalyDetector, HashingEmbeddings, Trajectory
from langchain_tooltree.anomaly.rules import _END_OF_SENTENCE, phrase_book
from langchain_tooltree.cfgm.recall import IDENTIFYING
from langchain_tooltree.effects import only_reads
from langchain_tooltree.experience.transcript import excerpt
from langchain_tooltree.messages.chat_format import remove_additions_from
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.secrets import masked
from langchain_tooltree.text import (
    INTRODUCED,
    json_object,
    mermaid_text,
    one_line,
    remove_small_talk,
    shortened,
    words_of,
)
from langchain_tooltree.tooltree.model_json import TOKEN, read_object
from langchain_tooltree.tooltree.report import split_report

LENGTH, LONGER = 1_000, 4
"""Characters of a text, and how many times as long the other one is."""

UNMEASURABLE = 0.01
"""CPU seconds for the longer text below which nothing is frozen. In the square of the length, it takes a hundred times
as long in a text of 1 MB as a linear reader, whatever the machine."""

BOUND = 9.0
"""Times as long as for a quarter of the text: 4 is linear, and 16 the square."""

UNITS = (
    *"\\\"'`[](){}<>*_-=+#:;,./|&%$@!?~^",
    *("\n", " ", "\t", "a", "A", "0", "é", "中", "\u200b", "\0"),
    *(
        "\\\\",
        '\\"',
        "[[",
        "{{",
        "((",
        "<!--",
        "--",
        "/*",
        "```",
        "a ",
        "a.",
        "a,",
        "1,",
        "0x",
        "ab\n",
        " \n",
        "\r\n",
    ),
    *(
        '{"a":',
        '"a",',
        "[1,",
        "&amp;",
        "http://",
        "a@",
        "error",
        "no such ",
        "<reference_material ",
        "-----BEGIN ",
    ),
    *(
        "token",
        "token=",
        "eyJ",
        "Bearer ",
        "not found: ",
        "failed to ",
        "key:",
        "SELECT ",
        "0.",
        "1e",
        "a-",
        "a_",
    ),
)


def modules() -> Iterator[ModuleType]:
    for each in pkgutil.walk_packages(
        langchain_tooltree.__path__, f"{langchain_tooltree.__name__}."
    ):
        if not each.name.endswith("__main__"):
            yield importlib.import_module(each.name)


def patterns_in(held: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(held, re.Pattern) and isinstance(held.pattern, str):
        yield held
    elif depth < 3 and isinstance(held, list | tuple | set | frozenset):
        for each in held:
            yield from patterns_in(each, depth + 1)
    elif depth < 3 and isinstance(held, dict):
        yield from patterns_in([*held.values()], depth + 1)


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    held = [each for module in modules() for each in vars(module).values()]
    phrases = ((phrase.pattern, phrase.unless) for phrase in phrase_book().phrases)
    held += [
        re.compile(text, re.IGNORECASE) for both in phrases for text in both if text
    ]
    return {pattern.pattern: pattern for pattern in patterns_in(held)}


def texts(
    *own: str, units: Sequence[str] = UNITS
) -> Iterator[tuple[str, Callable[[int], str]]]:
    for unit in (*units, *own):
        yield repr(unit), lambda length, unit=unit: unit * (length // len(unit)) + "\n!"
    for unit in own:
        yield (
            f"{unit!r} behind a letter",
            lambda length, unit=unit: "a" + unit * (length // len(unit)),
        )


def seconds(read: Callable[[str], object], text: str, times: int) -> float:
    spent = []
    for _ in range(times):
        began = time.process_time()
        read(text)
        spent.append(time.process_time() - began)
    return min(spent)


def slow_texts(
    read: Callable[[str], object], *own: str, units: Sequence[str] = UNITS
) -> list[str]:
    slow = []
    for name, made in texts(*own, units=units):
        if seconds(read, made(LONGER * LENGTH), 1) < UNMEASURABLE:
            continue
        longer, shorter = (
            seconds(read, made(length), 3) for length in (LONGER * LENGTH, LENGTH)
        )
        if longer > UNMEASURABLE and longer > BOUND * shorter:
            slow.append(
                f"{name}: {longer * 1e3:.0f} ms, {longer / max(shorter, 1e-6):.0f} times"
            )
    return slow


ONLY_SEARCHED = {INTRODUCED.pattern, IDENTIFYING.pattern, _END_OF_SENTENCE.pattern}
"""Those that never have to match a whole text."""


ONLY_MATCHED = {TOKEN.pattern}
"""Expressions that are matched at one place, whose readers are among those below."""


@pytest.mark.slow
def test_every_expression_takes_linear_time():
    assert len(patterns()) > 50
    slow = {}
    for number, (written, pattern) in enumerate(patterns().items()):
        own = sorted(set(re.findall(r"[\w<>/:@ -]{2,12}", written)), key=len)[-2:]

        if written in ONLY_MATCHED:
            continue

        def read(text, pattern=pattern):
            if pattern.pattern not in ONLY_SEARCHED:
                pattern.fullmatch(text)
            return sum(1 for _ in pattern.finditer(text))

        # A third of the units for each, which are all there for the readers below.
        if told := slow_texts(read, *own, units=UNITS[number % 3 :: 3]):
            slow[written] = told
    assert slow == {}


def run_of(text: str) -> list[Any]:
    call = {"name": "look", "args": {"at": text}, "id": "1"}
    messages = [
        SystemMessage(text),
        HumanMessage(text),
        AIMessage(text, tool_calls=[call]),
    ]
    return [*messages, ToolMessage(text, tool_call_id="1", name="look")]


READERS: dict[str, Callable[[str], object]] = {
    "anomalies": lambda text: AnomalyDetector().check(run_of(text)),
    "conversations": lambda text: Conversation(run_of(text)).chat,
    "runs": lambda text: Trajectory.from_messages(run_of(text), id="1").aim,
    "runs with arguments as text": lambda text: Trajectory.from_chat(
        [
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "function": {"name": "look", "arguments": text}}
                ],
            }
        ]
    ),
    "excerpts": lambda text: excerpt(
        Trajectory.from_messages(run_of(text), id="1"), max_characters=9_000
    ),
    "embeddings": HashingEmbeddings().embed_query,
    "replies": json_object,
    "reports": lambda text: split_report(AIMessage(text)),
    "JSON of models": lambda text: read_object(f'{{"missing": {text}'),
    "secrets": masked,
    "secrets in data": lambda text: masked({"a": [text, {"b": text}]}),
    "substance": remove_small_talk,
    "words": words_of,
    "one line": lambda text: one_line(text, 80),
    "shortened": shortened,
    "mermaid": mermaid_text,
    "sql": lambda text: only_reads(text, "sqlite"),
    "marks": lambda text: mark_as_reference(text, source="memory"),
    "without marks": lambda text: remove_additions_from(
        [{"role": "user", "content": text}]
    ),
    "json": lambda text: json_object(json.dumps({"a": text})),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_texts_takes_linear_time(reader):
    assert slow_texts(READERS[reader]) == []
