"""Tips: what failed attempts against a successful one, and successes alone, teach (CFGM, Alg. 2)."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate
from pydantic import BaseModel, Field

from langchain_tooltree.errors import ConfigurationError, ReplyError
from langchain_tooltree.experience.store import QUARANTINED, ExperienceStore
from langchain_tooltree.experience.trajectory import Step, Trajectory
from langchain_tooltree.experience.verdict import DEFAULT_MAX_CHARACTERS, excerpt
from langchain_tooltree.flows import Flow, TogetherStep, flow_of
from langchain_tooltree.models import ATTEMPTS, Meter, Words, document_prompt, filled_in, inner_config
from langchain_tooltree.text import (
    LONGEST_TEXT,
    compact_json,
    digest,
    kinship,
    mapping_in,
    one_line,
    shortened,
    telling_words,
    words_of,
)

logger = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT", bound="ComparisonForm")


Source = Literal["comparison", "success"]
"""What a tip comes from: failed attempts beside a successful one, or a success alone (the parts of CFGM, Alg. 2)."""

PARTS: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, slots=True)
class Tip:
    """A piece of advice for tasks like one that was tried before.

    Attributes:
        text: The advice.
        reasoning: Why it holds, from what happened.
        source: Whether failed attempts were compared with a successful one, or a success was looked at alone.
        task: The task that was tried.
        tools: Names of the tools that it names.
        trajectories: Ids of the trajectories that it was taken from; the success is the last one.
        when: In which situation it applies.
    """

    text: str
    reasoning: str
    source: Source
    task: str
    tools: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()
    when: str = ""

    @property
    def id(self) -> str:
        """Identifies it by what it says."""
        return digest(self.advice, 12)

    @property
    def advice(self) -> str:
        """What an agent is told: when it applies, and what to do then."""
        return f"When {self.when}: {self.text}" if self.when else self.text

    def to_dict(self) -> dict[str, Any]:
        """The tip as plain data."""
        return {**asdict(self), "id": self.id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tip":
        """The tip that `to_dict` wrote down, also in another version; what is not there is empty."""
        return cls(
            text=str(data.get("text") or ""),
            reasoning=str(data.get("reasoning") or ""),
            source="comparison" if data.get("source") == "comparison" else "success",
            task=str(data.get("task") or ""),
            tools=tuple(data.get("tools") or ()),
            trajectories=tuple(data.get("trajectories") or ()),
            when=str(data.get("when") or ""),
        )


_GOOD_TIP = """\
A tip is for an assistant that has another task of this kind and sees neither this task nor these records. Say what \
kind of thing is meant, never its number, identifier or name, and name tools as they are called in the records. Leave \
out what goes without saying.

Each tip has four parts. `reasoning` says in one sentence what in the records shows it. `bears_out` lists one to three \
calls that show it: the tool, and a few words copied exactly from the arguments or the result of one call. `when` is \
the situation in which the tip applies, as one notices it at work, in at most 20 words. It must have the condition \
that tells this case from neighbouring ones in which the advice would be wrong: "a refund is refused because the item \
has been shipped", not "a refund is wanted". `tip` is what to do or not to do then, in one or two sentences. A tip \
without a condition, or with a quote that is not in the records, is thrown away."""

DEFAULT_COMPARISON_PROMPT = f"""\
You learn from an assistant's attempts at one task: some failed, one succeeded.

You get one JSON document. `task` is what was asked for; `failed` and `succeeded` tell in order what was said, which \
tools were called and what they brought back; `ended` says why an attempt counts as it does, `reflection` what the \
assistant thought of it afterwards.

Find where the attempts part: what the successful one did that the others did not, and which steps led the others \
astray. Write at most 5 tips from that, the most important first.

{_GOOD_TIP}"""

DEFAULT_SUCCESS_PROMPT = f"""\
You learn from an assistant's successful run.

You get one JSON document. `task` is what was asked for; `succeeded` tells in order what was said, which tools were \
called and what they brought back; `known_tips` are tips that there are already, by number.

Write at most 3 tips on what made it succeed, the most important first; none if the known ones say it all. Do not \
repeat a known tip in other words: list the numbers of those that this run followed in `followed` instead.

{_GOOD_TIP}"""

ALIGNMENT_PROMPT = """\
You adapt tips for an assistant to another environment of the same kind.

You get one JSON document. `environment` describes the other environment and its tools; `tips` were learnt in the \
first one, each with its number, `when` it applies and what to do then.

Rewrite each tip that can hold in the other environment: put its tools, things and words in place of those of the \
first one, and leave the sense as it is. Leave out tips that cannot hold there, and add none."""

MOST_COMPARED = 5  # tips from one comparison at the most, as in the paper
MOST_FROM_SUCCESS = 3  # tips from one success alone at the most, as in the paper
MOST_KNOWN = 40  # known tips that a model is shown, those whose words are most like the task's: about 2,000 tokens
LONGEST_WHEN = 160  # characters of when a tip applies: about 40 tokens
LONGEST_TIP = 600  # characters of a tip, and of its reasoning, that are kept: about 150 tokens each

_CONDITION = re.compile(r"^(?:when(?:ever)?|if|where)\b\s*", re.IGNORECASE)

IDENTIFYING = re.compile(r"(?<!\S)\S+@\S+|(?<![\w-])(?=[\w-]*\d)[\w-]{5,}")
"""What tells one thing or person from all others: an e-mail address, or a word with digits, too long for a count."""


class EvidenceForm(BaseModel):
    """A call that bears a tip out."""

    tool: str = Field(description="The tool that was called")
    quote: str = Field(description="A few words copied exactly from the arguments or the result of that call")


class TipForm(BaseModel):
    """One tip."""

    reasoning: str = Field(description="What in the records shows it, in one sentence")
    bears_out: list[EvidenceForm] = Field(description="One to three calls that show it")
    when: str = Field(description="The situation, with what tells it from neighbouring ones, in at most 20 words")
    tip: Words = Field(description="What to do or not to do then, in one or two sentences")


class ComparisonForm(BaseModel):
    """What a model is asked to fill in after a comparison."""

    tips: list[TipForm] = Field(description="At most 5 tips, the most important first")


class SuccessForm(ComparisonForm):
    """What a model is asked to fill in after a success."""

    tips: list[TipForm] = Field(description="At most 3 new tips, the most important first; may be empty")
    followed: list[int] = Field(description="Numbers of the known tips that this run followed; may be empty")


class AlignedTipForm(BaseModel):
    """A tip for another environment."""

    number: int = Field(description="That of the tip it was rewritten from")
    when: str = Field(description="The situation in which it applies, in at most 20 words")
    tip: Words = Field(description="What to do or not to do then, in one or two sentences")


class AlignmentForm(BaseModel):
    """What a model is asked to fill in to adapt tips."""

    tips: list[AlignedTipForm]


def aligned_tips(model: BaseChatModel, experience: ExperienceStore, description: str) -> Flow[list[Tip]]:
    """All tips of a namespace, adapted to the environment described; see `CFGMMemory.align_tips`."""
    if not isinstance(description, str) or not description.strip():
        msg = f"description must be a text that says what the other environment is, got {description!r:.80}."
        raise ConfigurationError(msg)
    notes = yield from experience.collection(LABEL).reading()
    tips = distinct(_all_tips(notes)).values()
    aligned: list[Tip] = []
    for shown in batch_iterate(MOST_KNOWN, tips):
        numbered = [{"number": number, "when": tip.when, "tip": tip.text} for number, tip in enumerate(shown, 1)]
        document = {"environment": shortened(description.strip()), "tips": numbered}
        meter = Meter(allowance=ATTEMPTS)
        prompt, config = document_prompt(ALIGNMENT_PROMPT, document), inner_config("align_tips", {})
        reply = yield from filled_in(model, AlignmentForm, prompt, config, meter)
        if reply is None:
            msg = f"The model adapted no tips: {'; '.join(meter.problems)}. Try again, or use another model."
            raise ReplyError(msg)
        forms = {form.number: form for form in reply.tips}
        for number, tip in enumerate(shown, 1):
            if form := forms.get(number):
                when, text = one_line(form.when, LONGEST_WHEN), shortened(" ".join(form.tip.split()), LONGEST_TIP)
                aligned.append(replace(tip, text=text, when=_CONDITION.sub("", when).rstrip(" .:,;"), tools=()))
    return aligned


def tips_by_comparison(
    model: BaseChatModel, success: Trajectory, failures: Sequence[Trajectory]
) -> Flow[list[Tip] | None]:
    """Ask what the successful attempt did better: at most 5 tips; `None` if the model gave no usable reply."""
    room = DEFAULT_MAX_CHARACTERS // 2
    failed = [_attempt(failure, room // len(failures)) for failure in failures]
    document = {"failed": failed, "succeeded": _attempt(success, room)}
    reply = yield from _ask(model, ComparisonForm, DEFAULT_COMPARISON_PROMPT, success, document)
    return None if reply is None else _tips(reply, "comparison", [*failures, success])[:MOST_COMPARED]


def tips_from_success(model: BaseChatModel, success: Trajectory, known: Sequence[Tip]) -> Flow[list[Tip] | None]:
    """Ask what made a run succeed: the known tips that it followed, then at most 3 new ones.

    Of the known tips, those most like the task are shown. `None` if the model gave no usable reply.
    """
    shown = sorted(known, key=lambda tip: -kinship(success.task, f"{tip.task} {tip.advice}"))[:MOST_KNOWN]
    numbered = [{"number": number, "tip": tip.advice} for number, tip in enumerate(shown, 1)]
    document = {"succeeded": _attempt(success, DEFAULT_MAX_CHARACTERS), "known_tips": numbered}
    reply = yield from _ask(model, SuccessForm, DEFAULT_SUCCESS_PROMPT, success, document)
    if reply is None:
        return None
    followed = [tip for number, tip in enumerate(shown, 1) if number in reply.followed]
    return [*followed, *_tips(reply, "success", [success])[:MOST_FROM_SUCCESS]]


def _ask(
    model: BaseChatModel, form: type[ReplyT], prompt: str, success: Trajectory, document: Mapping[str, Any]
) -> Flow[ReplyT | None]:
    """Ask for tips; a model that gives no usable reply is logged."""
    meter = Meter(allowance=ATTEMPTS)
    asked = document_prompt(prompt, {"task": shortened(success.task), **document})
    reply = yield from filled_in(model, form, asked, inner_config("tips", {"trajectory": success.id}), meter)
    if reply is None:
        problem = "; ".join(meter.problems) or "it was not asked"
        logger.warning("No tips from %s, which is left to the next time: %s", success.id, problem)
    return reply


def _attempt(trajectory: Trajectory, room: int) -> dict[str, Any]:
    notes = {"ended": trajectory.reasons, "reflection": str(trajectory.metadata.get("reflection") or "")}
    told = {name: shortened(text, LONGEST_TEXT) for name, text in notes.items() if text}
    return {"record": excerpt(trajectory, max_characters=room), **told}


def _tips(reply: ComparisonForm, source: Source, attempts: Sequence[Trajectory]) -> list[Tip]:
    """The tips of a reply that say when they apply, are borne out by the attempts, and are not about one thing."""
    steps = [step for attempt in attempts for step in attempt.steps]
    tools = sorted({step.tool for step in steps})
    identifiers = {word for step in steps for word in IDENTIFYING.findall(compact_json(step.arguments))}
    tips: list[Tip] = []
    for form in reply.tips:
        when = _CONDITION.sub("", one_line(form.when, LONGEST_WHEN)).rstrip(" .:,;")
        text = shortened(" ".join(form.tip.split()), LONGEST_TIP)
        advice = f"{when} {text}"
        specific = identifiers.intersection(IDENTIFYING.findall(advice))
        if when and not specific and any(_stands_in(each, steps) for each in form.bears_out):
            named = tuple(tool for tool in tools if re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", advice))
            reasoning = shortened(" ".join(form.reasoning.split()), LONGEST_TIP)
            ids = tuple(attempt.id for attempt in attempts)
            tips.append(Tip(text, reasoning, source, attempts[-1].task, named, ids, when))
    return list(distinct(tips).values())


def _stands_in(evidence: EvidenceForm, steps: Sequence[Step]) -> bool:
    """Whether a call of the tool has the words of the quote, one after the other, in its arguments or its result."""
    quote = _spaced(evidence.quote)
    calls = (step for step in steps if step.tool == evidence.tool)
    texts = ((compact_json(step.arguments), step.outcome.text if step.outcome else "") for step in calls)
    return bool(quote.strip()) and any(quote in _spaced(text) for both in texts for text in both)


def _spaced(text: str) -> str:
    return f" {' '.join(words_of(text))} "


_DECISIVE = frozenset(words_of("not no never only before after without unless instead except don doesn cannot"))

Sense = tuple[frozenset[str], frozenset[str], tuple[str, ...]]


def distinct(tips: Iterable[Tip]) -> dict[Sense, Tip]:
    """The tips by what they say, and of such as say the same in other words the first."""
    kept: dict[Sense, Tip] = {}
    for tip in tips:
        kept.setdefault((*_words(tip.advice), tip.tools), tip)
    return kept


@lru_cache(maxsize=20_000)  # each new tip is compared with all that there are
def _words(advice: str) -> tuple[frozenset[str], frozenset[str]]:
    """The telling words of advice, by their beginnings, and those that turn it into its opposite, with numbers."""
    decisive = (word for word in words_of(advice) if word in _DECISIVE or not word.isalpha())
    return telling_words(advice), frozenset(decisive)


APPLIES = 0.5
"""Share of the telling words of a tip's condition that have to stand in a task for the tip to apply."""


def tips_for(tips: Iterable[Tip], task: str) -> list[Tip]:
    """The tips that apply to a task, or to a situation in words, by their conditions: the surest first."""
    words = telling_words(task)
    shares = [(len(words & condition) / len(condition), tip) for tip in tips if (condition := telling_words(tip.when))]
    applying = [(share, tip) for share, tip in shares if share >= APPLIES]
    return [tip for _, tip in sorted(applying, key=lambda each: -each[0])]


LABEL = "tips"  # under what label tips are kept
MOST_FAILURES = 3  # failed attempts beside a successful one: the paper tries a task once and three times again

Note = dict[str, Any]  # what is kept of a task: its text, and for each part the tips and what they were made from


def extract_tips(model: BaseChatModel, experience: ExperienceStore, *, max_concurrency: int) -> Flow[list[Tip]]:
    """Take tips from what is stored in one namespace, as far as that was not done before; returns all, old and new.

    First every task with a success and failures, from their comparison; then every task with a success, from the
    success alone. What was made is kept after each few tasks, with what it was made from: an extraction that was
    killed goes on where it stopped, and a task is asked about again once there are new attempts at it. A task about
    which the model gives no usable reply stays as it is until the next time. A tip goes with the runs that it was
    taken from. The `task_id` in the metadata of attempts sets tasks of the same text apart.
    """
    collection = experience.collection(LABEL)
    tasks = yield from _survey(experience)
    there = {run for task in tasks.values() for run in task.evidence("comparison")}
    yield from _without(experience, lambda run: run not in there)
    notes: dict[str, Note] = yield from collection.reading()
    tips = {(key, part): _tips_in(note, part) for key, note in _in_order(notes) for part in PARTS}
    for part in PARTS:
        due = [task for task in tasks.values() if task.is_due(part, notes.get(task.key, {}))]
        due.sort(key=lambda task: (task.text, task.id))
        for together in batch_iterate(max_concurrency, due):
            known = [_besides(tips, (task.key, part)) for task in together]
            asked = map(partial(_tips_for, model, experience, part), together, known)
            replies: list[list[Tip] | None] = yield TogetherStep(list(asked))
            entries = yield from experience.entries()
            for task, reply in zip(together, replies, strict=True):
                if reply is None or not task.evidence(part).keys() <= entries.keys():
                    continue  # what somebody has had forgotten meanwhile is not written again
                # A tip that another task has already is kept as it stands there, so that it is recalled once.
                others = distinct(_besides(tips, (task.key, part)))
                kept = [others.get(sense, tip) for sense, tip in distinct(reply).items()]
                tips[task.key, part] = kept
                made = {"made_from": task.evidence(part), "tips": [tip.to_dict() for tip in kept]}
                notes[task.key] = {"task": task.text, **notes.get(task.key, {}), part: made}
                yield from collection.putting(task.key, notes[task.key])
    return _all_tips(notes)


def _besides(tips: Mapping[tuple[str, Source], Sequence[Tip]], holder: tuple[str, Source]) -> list[Tip]:
    """The tips of other tasks, and of the other part of this one, each once."""
    return list(dict.fromkeys(tip for other, held in tips.items() if other != holder for tip in held))


def tips_of(experience: ExperienceStore, task: str, ids: Iterable[str] = ("",)) -> Flow[tuple[Tip, ...]]:
    """The tips of one task by its text and ids, those from a comparison first; the id may be empty."""
    collection = experience.collection(LABEL)
    notes: dict[str, Note] = {}
    for key in dict.fromkeys(_key(task, each) for each in ids):
        if (note := (yield from collection.getting(key))) is not None:
            notes[key] = note
    return tuple(_all_tips(notes))


def all_tips(experience: ExperienceStore) -> Flow[list[Tip]]:
    """The tips of all tasks, each once."""
    return _all_tips((yield from experience.collection(LABEL).reading()))


def forget_tips(experience: ExperienceStore, runs: AbstractSet[str] | None) -> Flow[int]:
    """Delete the tips that were taken of some runs, whatever others they were taken of, or all; how many there were.

    What is left of these others is asked about again by the next extraction.
    """
    before = yield from all_tips(experience)
    _words.cache_clear()
    yield from _without(experience, lambda run: runs is None or run in runs)
    return len(before) - len((yield from all_tips(experience)))


def _without(experience: ExperienceStore, is_gone: Callable[[str], bool]) -> Flow[None]:
    """Take what was made of some runs out of what is kept."""
    collection = experience.collection(LABEL)
    for key, note in (yield from collection.reading()).items():
        left: Note = {name: value for name, value in note.items() if name not in PARTS}
        for part in PARTS:
            made_from = mapping_in(mapping_in(note, part), "made_from")
            tips = _tips_in(note, part)
            kept = [tip for tip in tips if not any(map(is_gone, tip.trajectories))]
            # Where tips are gone, the other runs may have more to say.
            made = {run: each for run, each in made_from.items() if not is_gone(run)} if kept == tips else {}
            if kept or made:
                left[part] = {"made_from": made, "tips": [tip.to_dict() for tip in kept]}
        if not any(part in left for part in PARTS):
            yield from collection.deleting(key)
        elif left != note:
            yield from collection.putting(key, left)


def task_id_of(attempt: Trajectory) -> str:
    """The id that sets the task of an attempt apart from others with the same text; empty if it has none."""
    given = attempt.metadata.get("task_id")
    return given if isinstance(given, str) else ""


@dataclass(slots=True)
class _TaskAttempts:
    """What is stored of one task, by the ids of its attempts."""

    text: str
    id: str = ""  # sets it apart from other tasks of the same text
    successes: dict[str, int] = field(default_factory=dict)  # their lengths
    failures: dict[str, int] = field(default_factory=dict)  # the numbers of the attempts
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return _key(self.text, self.id)

    def add(self, attempt: Trajectory) -> None:
        if attempt.success is None:
            return
        number = attempt.metadata.get("attempt")
        if attempt.success:
            self.successes[attempt.id] = len(attempt.steps)
        else:
            self.failures[attempt.id] = number if isinstance(number, int) else 0
        self.fingerprints[attempt.id] = digest(attempt.chat(), 16)

    def evidence(self, part: Source) -> dict[str, str]:
        """What the tips of a part are made from."""
        runs = self.successes if part == "success" else self.fingerprints
        return {run: self.fingerprints[run] for run in runs}

    def is_due(self, part: Source, note: Note) -> bool:
        """Whether there is something to ask that was not asked before."""
        possible = bool(self.successes) and (bool(self.failures) or part == "success")
        return possible and mapping_in(note, part).get("made_from") != self.evidence(part)


def _key(task: str, task_id: str) -> str:
    return digest([{"task": task, "id": task_id} if task_id else {"task": task}])


def _tips_for(
    model: BaseChatModel, experience: ExperienceStore, part: Source, task: _TaskAttempts, known: Sequence[Tip]
) -> Flow[list[Tip] | None]:
    """The tips of one part of a task, from the shortest success and the latest failures, which are read here."""
    shortest = min(task.successes, key=lambda run: (task.successes[run], run))
    latest = sorted(task.failures, key=lambda run: (task.failures[run], run))[-MOST_FAILURES:]
    success = yield from flow_of(experience.get)(shortest)
    if success is None:  # deleted since it was surveyed
        return None
    if part == "success":
        return (yield from tips_from_success(model, success, known))
    failures: list[Trajectory] = []
    for run in latest:
        failure = yield from flow_of(experience.get)(run)
        failures += [] if failure is None else [failure]
    return (yield from tips_by_comparison(model, success, failures)) if failures else None


def _in_order(notes: Mapping[str, Note]) -> list[tuple[str, Note]]:
    return sorted(notes.items(), key=lambda kept: (str(kept[1].get("task")), kept[0]))


def _tips_in(note: Note, part: Source) -> list[Tip]:
    """The tips in a part of a note, apart from such as another version has written and this one cannot read."""
    kept = note.get(part)
    written = kept.get("tips") if isinstance(kept, dict) else None
    data = (tip for tip in written if isinstance(tip, dict)) if isinstance(written, list) else ()
    return [tip for tip in map(Tip.from_dict, data) if tip.text]


def _all_tips(notes: Mapping[str, Note]) -> list[Tip]:
    return list(dict.fromkeys(tip for _, note in _in_order(notes) for part in PARTS for tip in _tips_in(note, part)))


def _survey(experience: ExperienceStore) -> Flow[dict[str, _TaskAttempts]]:
    tasks: dict[str, _TaskAttempts] = {}
    for page in (yield from experience.pages()):
        for attempt in (each for each in (yield from page) if not each.metadata.get(QUARANTINED)):
            task = _TaskAttempts(attempt.task, task_id_of(attempt))
            tasks.setdefault(task.key, task).add(attempt)
    return tasks
