"""What a model tells the planner beside its calls and its answer, and how that is taken out of a reply.

An own step is the agent's ordinary question with one line more: the model then ends an answer with a small JSON object
that says what is missing, in words, or, in the full form, in calls that may still be needed. A question for candidates
has a field more in each tool, for a confidence, and one tool more, to say how things stand. A model may leave all of it
out, or write it in its own way. So it is read leniently, and what does not come counts as unknown.
"""

import ast
import copy
import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree.models import extended
from langchain_tooltree.replies import as_flag
from langchain_tooltree.text import MOST_BRACKETS, Quoted, one_line
from langchain_tooltree.tooltree.prompts import (
    ASSESS_DESCRIPTION,
    CONFIDENCE_DESCRIPTION,
    DEFAULT_PROMPTS,
    SHOW_DESCRIPTION,
    Assessment,
    HiddenTools,
    Prompts,
)

ASSESS = "assess"
"""Name of the tool by which a model says how things stand; another one where the user has a tool of this name."""

SHOW = "show_tools"
"""Name of the tool by which a model asks for tools that it is not shown; another one where the user has such a tool."""

HIDDEN_CHARS = 800
"""Characters of the names that are listed of tools not shown: with the tool to ask for them, what two tools take.
Measured: 17 of 10,018 tools and these names hold .99 of the tools that are needed, 20 tools .96."""

CONFIDENCE = "confidence"
"""Name of the field of a call's score; a tool that has such an argument itself gets none."""

SAID_DONE, SAID_OPEN = 0.75, 0.2
"""Goal scores in [0, 1] of a model's word that nothing is missing, and that something is.

At 48 recorded stops a careful reader's check caught 21 of 24 early ones and raised no false alarm at 24 right ones:
likelihood ratios of 7 and 1/43, with half a case added to each count. The kernel reads a score `s` as about
`exp(12.5 * (s - 0.5))`, so 0.2 is 1/42. 0.75 is 23, more than was measured: it is the kernel's mean for a fulfilled
request, and has to pass `goal_threshold`."""

LIKELY = 0.5
"""Confidence in [0, 1] from which a call that may still be needed speaks against "done": at even odds."""

FULL_FORM_SHARE = 0.1
"""Most that the instruction for the full form may add to a request, as a share of its characters: with the replies,
tokens then stay below 1.15 times those of the plain agent."""

NAMED_CALLS = 3
"""Calls that are taken from one answer as maybe needed: as many as the instruction asks for."""

FORM_CHARS = 8_000
"""Characters at the end of an answer that are searched for the form: room for three calls with long texts."""

QUOTED_CHARS = 100
"""Characters by which a form that is no JSON is known for a quotation: beyond those that all such forms begin with."""

LINES_AFTER = 2
"""Lines that may follow the form: a greeting, or a question whether there is anything else."""

_NAME = re.compile(r"[\w.:/-]{1,128}")
"""A name as providers and MCP take one. What else a server calls a tool would be read as words of ours."""

MOST_MISSING = 5
"""Things that are taken from one reply: the next call can bring about one."""

MOST_SHOWN = 10
"""Tools that can be asked for at once: more than a step needs."""

MOST_ENTRIES = 100
"""Entries of a list of missing things that are looked at: most may name nothing."""

MISSING_CHARS = 200
"""Characters of one of them: a sentence or two."""


class NamedCall(NamedTuple):
    """A call that may still be needed, as a model has named it."""

    tool: str
    arguments: dict[str, Any]
    confidence: float | None = None


class Standing(NamedTuple):
    """How things stand with a request, as far as a model has said."""

    goal: float | None = None  # `SAID_DONE` if it is fulfilled, `SAID_OPEN` if not
    missing: tuple[str, ...] = ()  # what is not done yet, in words
    calls: tuple[NamedCall, ...] = ()  # calls that may still be needed


def as_score(value: Any) -> float | None:
    """A number in [0, 1], `None` for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number <= 1 else None


def standing_of(said: Mapping[str, Any]) -> Standing:
    """What a filled-in form says under `fulfilled` and `missing`.

    One that says both that all is done and that something is missing says nothing.
    """
    fulfilled, missing = as_flag(said.get("fulfilled")), _things(said.get("missing"))
    if fulfilled is False:
        return Standing(SAID_OPEN, missing)
    return Standing(SAID_DONE) if fulfilled and not missing else Standing()


# --- the end of an answer ---


def step_prompt(conversation: Sequence[BaseMessage], tools: int, prompts: Prompts = DEFAULT_PROMPTS) -> str:
    """The instruction for the end of an answer: the full form where the request is large enough for it.

    Args:
        conversation: The agent's own prompt.
        tools: Characters of its tools as they are bound; 0 if there are none, and thus no calls to be named.
        prompts: Both forms.
    """
    room = len(prompts.step_calls) / FULL_FORM_SHARE - tools
    for message in conversation if tools else ():
        if room <= 0:
            break
        room -= len(message.text)
    return prompts.step_calls if room <= 0 else prompts.step


def step_messages(conversation: Sequence[BaseMessage], prompt: str, *more: str) -> list[BaseMessage]:
    """The agent's own prompt, and at the end of its instructions the line that asks what is missing, and more."""
    head = 0
    while head < len(conversation) and isinstance(conversation[head], SystemMessage):
        head += 1
    last = conversation[head - 1] if head else None
    asked = extended(last if isinstance(last, SystemMessage) else None, "\n\n".join((prompt, *more)))
    return [*conversation[: max(head - 1, 0)], asked, *conversation[head:]]


def answer_in(reply: AIMessage, quoted: Quoted = lambda _: False) -> tuple[AIMessage | None, Standing]:
    """A reply without calls as the answer that it is, and what it said to be missing.

    There is no answer if the reply says that alone. A form that the answer has `quoted` is part of the answer.
    """
    blocks: list[Any] = [reply.content] if isinstance(reply.content, str) else list(reply.content)
    for place in reversed(range(len(blocks))):
        text = _text_of(blocks[place])
        if not text.strip():
            continue
        rest, standing = read_form(text, quoted)
        if standing is None:
            break
        blocks[place : place + 1] = _with_text(blocks[place], rest)
        if not any(_text_of(block).strip() for block in blocks):
            return None, standing
        content = blocks if not isinstance(reply.content, str) else blocks[0]
        return reply.model_copy(update={"content": content}), standing
    return reply, Standing()


def _text_of(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) and block.get("type") in {"text", "output_text"} else block
    return text if isinstance(text, str) else ""


def _with_text(block: Any, text: str) -> list[Any]:
    """The block with another text; none if nothing is left of it, since some providers refuse empty texts."""
    if isinstance(block, str):
        return [text]
    if not text and block.keys() <= {"type", "text", "id", "index", "annotations", "citations"}:
        return []
    return [{**block, "text": text}]


# --- the form ---

_DONE, _CALLS, _MISSING = _KEYS = "done", "calls_maybe_needed", "missing"
_FENCE = re.compile(r"^[^\S\n]*```.*$", re.MULTILINE)
_RULE = re.compile(r"[^\S\n]*(?:-{3,}|\*{3,}|_{3,})")
_TEMPLATE = re.compile(r"\W*todo\W*nothing\W*", re.IGNORECASE)
_LINE = re.compile(r"""(?:^[^\w\n]*|\{\s*["'“”]?)missing["'“”*_`]*[ \t]*[:=][ \t]*""", re.IGNORECASE | re.MULTILINE)
"""The short form where it is no JSON, and is the very end: a line of words, or an object without quotes."""
_VALUE, _END = re.compile(r"[^\n{}]*"), re.compile(r"\}?[\s*`.)\]]*\Z")

_NO_JSON = re.compile(r"""\{[^{}\n]{0,40}\bcalls_maybe_needed["']?\s*:(?:.*\}|.*)""", re.IGNORECASE | re.DOTALL)
"""The full form where it is no JSON: in single quotes, with a comma too many, or cut off."""

_OUT_OF_REACH = re.compile(r"\b(?:ask|user|your?\b|cannot|impossible|no \w* ?tool)", re.IGNORECASE)
"""What waits for the user, or what no tool can do."""
_MARKS_BEFORE = re.compile(r"(?:(?<=\s)|\A)[!-/:-@\[-`{-~“”„]{1,3}\Z")
_MARKS_AFTER = re.compile(r"\A[^\S\n]*[^\w\s]{1,3}[^\S\n]*(?=\n|\Z)")


def read_form(text: str, quoted: Quoted = lambda _: False) -> tuple[str, Standing | None]:
    """A text without the form at its end, short or full, and what that says; `None` if there is no such form.

    A form that stands in what the model has read is a quotation: to read it would take somebody else's calls for the
    model's own. Where anybody else knows of calls that may be needed, the full form says nothing: a table may have
    become the JSON that the user asked for.
    """
    ours: tuple[dict[str, Any], dict[str, Any], int, int] | None = None

    quotations: set[int] = set()

    def is_quotation(start: int, end: int) -> bool:
        if start not in quotations and quoted(text[start : min(end, start + FORM_CHARS)]):
            quotations.add(start)
        return start in quotations

    for said, start, end in _objects(text):
        known = {key.casefold(): value for key, value in said.items() if key.casefold() in _KEYS}
        others = {key: value for key, value in said.items() if key.casefold() not in _KEYS}
        nothing = isinstance(known.get(_MISSING), str) and _is_none(known[_MISSING])
        short = (not others or nothing) and _lines(text[end:]) <= LINES_AFTER
        if (_CALLS in known or (known and short and not (ours and _CALLS in ours[0]))) and not is_quotation(start, end):
            ours = known, others, start, end
    if ours is None:
        return _read_loosely(text, is_quotation, quoted)
    known, others, start, end = ours
    if others:  # an answer in JSON that has taken the form in
        indent = 2 if "\n" in text[start:end] else None
        rest = f"{text[:start]}{json.dumps(others, ensure_ascii=False, indent=indent)}{text[end:]}"
    else:
        rest = _without(text, start, end)
    return rest, Standing() if _CALLS in known and quoted(_CALLS) else _standing_in(known)


def _objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """The JSON objects that stand in a text, none of them in another one: the first one, and those near the end."""
    decoder, tail = json.JSONDecoder(strict=False), max(0, len(text) - FORM_CHARS)
    near = [place for place in range(tail, len(text)) if text[place] == "{"][-MOST_BRACKETS:]
    done = 0
    for start in (text.find("{"), *near):
        if start < done:
            continue
        # Errors count the lines before them, so a long text is not handed over whole.
        begin = min(tail, start)
        try:
            said, end = decoder.raw_decode(text[begin:], start - begin)
        except (ValueError, RecursionError):
            done = start + 1
        else:
            done = begin + end
            yield said, start, done


def _read_loosely(text: str, is_quotation: Callable[[int, int], bool], quoted: Quoted) -> tuple[str, Standing | None]:
    """The same for a form that is no JSON: a line of words, or an object in single quotes; others say nothing."""
    tail = max(0, len(text) - FORM_CHARS)
    for line in _LINE.finditer(text, tail):
        value = _VALUE.match(text, line.end())
        end = value and _END.match(text, value.end())
        if value and end and not is_quotation(line.start(), end.end()):
            return _without(text, line.start(), end.end()), _standing_in({_MISSING: value[0].strip(" \t,\"'“”`*")})
    found = _NO_JSON.search(text, tail)
    # It reaches to the end of the text, so its beginning says whose it is.
    if found is None or is_quotation(found.start(), min(found.end(), found.start() + QUOTED_CHARS)):
        return text, None
    said: dict[str, Any] | None = None
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        read = ast.literal_eval(found[0])
        said = read if isinstance(read, dict) else None
    return _without(text, *found.span()), Standing() if said is None or quoted(_CALLS) else _standing_in(said)


def _standing_in(said: Mapping[str, Any]) -> Standing:
    """What a form says. It is believed to be done if no call is named that is likely needed.

    An agent that asks its user says nothing of this kind: what it names waits for the user, also in words such as "send
    it once the user agrees". One that says that not all is done, and names nothing, may do the same.
    """
    answered, missing = said.get(_DONE), said.get(_MISSING)
    beyond = isinstance(answered, str) and _OUT_OF_REACH.search(answered)
    if beyond or (isinstance(missing, str) and _TEMPLATE.fullmatch(missing)):
        return Standing()
    if isinstance(missing, str):
        missing = missing[:FORM_CHARS].split(";")
    done, listed = as_flag(answered), said.get(_CALLS) or missing
    entries = listed[:MOST_ENTRIES] if isinstance(listed, list) else [listed] if listed else []
    named = [(entry, _named_in(entry)) for entry in entries]
    calls = tuple(call for _, call in named if call and call.tool)[:NAMED_CALLS]
    words = _things([entry for entry, call in named if call is None and not isinstance(entry, bool)])
    if answered is None and not calls:
        waits = any(map(_OUT_OF_REACH.search, words))
        return Standing(None if waits else SAID_OPEN, words) if words else Standing(SAID_DONE)
    if done:
        doubted = words or any((call.confidence or 0) >= LIKELY for call in calls)
        return Standing(None if doubted else SAID_DONE, words, calls)
    return Standing(SAID_OPEN if done is False and (calls or words) else None, words, calls)


def _named_in(entry: Any) -> NamedCall | None:
    """An entry as a call; one without a name is the form, not filled in. `None` if it is no call."""
    if not isinstance(entry, dict):
        return None
    # Models have learnt to write calls with a `name` and `arguments`.
    tool, arguments = entry.get("tool", entry.get("name")), entry.get("args", entry.get("arguments"))
    if not isinstance(tool, str) or not isinstance(arguments, dict | None):
        return None
    return NamedCall("" if _is_none(tool) else tool, arguments or {}, as_score(entry.get("likely")))


def _without(text: str, start: int, end: int) -> str:
    """A text without a part, and without what sets it apart: marks on its line, a fence, a rule."""
    before = _MARKS_BEFORE.sub("", text[:start].rstrip(" \t")).rstrip()
    after = _MARKS_AFTER.sub("", text[end:]).strip()
    last = before[before.rfind("\n") + 1 :]
    fenced = _FENCE.fullmatch(last) and len(_FENCE.findall(before)) % 2
    if fenced or (_RULE.fullmatch(last) and not after):
        before = before.removesuffix(last).rstrip()
    if fenced:
        after = after.removeprefix("```").lstrip()
    return f"{before}\n\n{after}" if before and after else before or after


def _lines(text: str) -> int:
    """Lines that say something."""
    return sum(1 for line in _FENCE.sub("", text).splitlines() if line.strip())


# --- what is missing, in words ---

_NOTHING = (
    "nothing|none|nil|null|no|false|n/?a|n\\.a|not applicable|nothing at all|all done|everything(?: is)? done|done|"
    "complete|completed|"
    "nichts|keine?s?|rien|aucune?|néant|nada|ningun[oa]|ningún|niente|nulla|nessun[oa]?|nenhum[a]?|niets|geen|"
    "ingenting|inget|inga|ingen|intet|ei mitään|nic|nie ma|brak|žádné|nimic|semmi|hiçbir şey|yok|τίποτα|"
    "ничего|нет|нічого|немає|לא|כלום|لا شيء|لا يوجد|कुछ नहीं|không|không có gì|tidak ada|"
    "无|無|没有|沒有|没有了|なし|無し|特になし|ありません|何もありません|없음|없습니다"
)
_NOTHING_LEFT = re.compile(
    rf"(?:{_NOTHING})"
    r"(?:\s+(?:is|are|was|else|more|further|left|remains|remaining|missing|open|outstanding|pending|to do|needed|"
    r"required|not done|undone|mehr))*"
    r"\s*(?:$|[,;:.!(–—-](?P<rest>.*))",  # noqa: RUF001
    re.IGNORECASE | re.DOTALL,
)
_BUT = re.compile(
    r"\b(?:but|except\w*|besides|apart|until|unless|however|not|cannot|could|fail\w*|still|aber|außer|mais|sauf|pero|"
    r"salvo)\b|n['’]t\b",  # noqa: RUF001
    re.IGNORECASE,
)


_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
"""A text without what stands around its words."""


def _things(said: Any) -> tuple[str, ...]:
    """The things that are named as missing, each on a line; what only says that nothing is, is left out."""
    if said is None or isinstance(said, bool):
        return ()
    if isinstance(said, str):
        said = said[:FORM_CHARS].split(";")
    listed = said[:MOST_ENTRIES] if isinstance(said, list | tuple) else [said]
    texts = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, default=str) for each in listed]
    named = (one_line(text.replace("**", "").strip(" \t\n`\"'"), MISSING_CHARS) for text in texts if not _is_none(text))
    return tuple(named)[:MOST_MISSING]


def _is_none(text: str) -> bool:
    """Whether a text names nothing: it is empty, a dash, or a word for nothing, in one of many languages."""
    words = _WORDS.search(text)
    bare = words[0].casefold() if words else ""
    said = _NOTHING_LEFT.match(bare)
    return not bare or (said is not None and not _BUT.search(said["rest"] or ""))


# --- the tools of a question, and what stands beside them ---


@dataclass(frozen=True, slots=True)
class ScoredTools:
    """Tools as they are bound to a question: what the model sees, and what of its calls is for the planner."""

    bound: Sequence[BaseTool | dict[str, Any]]
    scored: frozenset[str] = frozenset()  # names of the tools that have a field for the confidence
    assess: str | None = None  # name of the tool that says how things stand, if there is one; it is the last
    show: str | None = None  # name of the tool that shows others, if there is one; it comes after the agent's own

    @classmethod
    def plain(cls, tools: Sequence[BaseTool], hidden: Sequence[str] = ()) -> "ScoredTools":
        """The tools, and, where others are hidden, the one to ask for them."""
        if not hidden:
            return cls(tools)
        show = _free_name(SHOW, {*hidden, *(tool.name for tool in tools)})
        # In the form of the agent's own, which every server takes; it is never run.
        shows = StructuredTool(name=show, description=SHOW_DESCRIPTION, args_schema=HiddenTools, func=asked_to_show)
        return cls([*tools, shows], show=show)

    @classmethod
    def of(
        cls, tools: Sequence[BaseTool], *, assess: bool, observed: bool, hidden: Sequence[str] = ()
    ) -> "ScoredTools":
        """The tools with the channel; the latest result is only asked about where there is one."""
        forms = {tool.name: _scored(tool) for tool in tools}
        bound: list[BaseTool | dict[str, Any]] = [forms[tool.name] or tool for tool in tools]
        plain = cls.plain(tools, hidden)
        bound += plain.bound[len(tools) :]
        name = _free_name(ASSESS, forms) if assess else None
        if name is not None:
            bound.append(copy.deepcopy(_assessment(name, observed)))  # an integration may change what it is given
        return cls(bound, frozenset(name for name, form in forms.items() if form), name, plain.show)

    @property
    def names(self) -> list[str]:
        """Names of the agent's tools."""
        named = (tool["function"]["name"] if isinstance(tool, dict) else tool.name for tool in self.bound)
        return [name for name in named if name not in {self.assess, self.show}]

    def without_assess(self) -> "ScoredTools":
        """The same for a model that makes one call a reply: its call is then a candidate."""
        return ScoredTools(self.bound[:-1] if self.assess else self.bound, self.scored, show=self.show)

    def taken_from(self, tool: str, written: Mapping[str, Any]) -> tuple[dict[str, Any], float | None]:
        """The arguments of a call without what is for the planner, and the confidence in it."""
        arguments = dict(written)
        return arguments, as_score(arguments.pop(CONFIDENCE, None)) if tool in self.scored else None


def _scored(tool: BaseTool) -> dict[str, Any] | None:
    """A tool in OpenAI's form with a field for the confidence; `None` if it cannot have one."""
    form = convert_to_openai_tool(tool)
    if "function" not in form:
        return None
    form = copy.deepcopy(form)
    parameters = form["function"].setdefault("parameters", {"type": "object"})
    properties = parameters.setdefault("properties", {})
    if CONFIDENCE in properties:
        return None
    properties[CONFIDENCE] = {"type": "number", "description": CONFIDENCE_DESCRIPTION}
    parameters["required"] = [*parameters.get("required", ()), CONFIDENCE]
    return form


@functools.cache
def _assessment(name: str, observed: bool) -> dict[str, Any]:  # noqa: FBT001 - cached by position
    schema = Assessment.model_json_schema()
    properties = {
        field: {key: value for key, value in described.items() if key != "title"}
        for field, described in schema["properties"].items()
        if observed or field != "last_result"
    }
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": ASSESS_DESCRIPTION, "parameters": parameters}}


def hidden_prompt(template: str, show: str, hidden: Sequence[str]) -> str:
    """The line that names tools which are not shown."""
    named = named_of(hidden)
    others = [f"{len(hidden) - len(named):,} others"] if len(named) < len(hidden) else []
    return template.format(show=show, names=", ".join([*named, *others]))


def named_of(hidden: Sequence[str]) -> Sequence[str]:
    """The first of the hidden tools, as far as there is room for their names; a sentence is no name."""
    room, named = HIDDEN_CHARS, list[str]()
    for name in filter(_NAME.fullmatch, hidden):
        room -= len(name) + len(", ")
        if room < 0:
            break
        named.append(name)
    return named


def asked_to_show(written: Mapping[str, Any]) -> list[str]:
    """The names and needs in a call of the tool that shows others, read leniently."""
    texts = [each for value in written.values() for each in (value if isinstance(value, list) else [value])]
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()][:MOST_SHOWN]


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name, or where it is taken, the name with a number."""
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)
