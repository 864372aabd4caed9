"""Tips: what failed attempts against a successful one, and successes alone, teach (CFGM, Alg. 2)."""

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate
from pydantic import BaseModel, Field

from langchain_tooltree.experience.catalogue import RunEntry
from langchain_tooltree.experience.excerpts import DEFAULT_MAX_CHARACTERS, excerpt
from langchain_tooltree.experience.store import JUDGED, QUARANTINED, ExperienceStore, RecordCollection
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, TogetherStep, flow_of
from langchain_tooltree.models import ATTEMPTS, Meter, StructuredQuestion, document_prompt, inner_config
from langchain_tooltree.text import LONGEST_TEXT, digest, one_line, overlap, shortened, telling_words, words_of

logger = logging.getLogger(__name__)


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
        trajectories: Ids of the trajectories that it was taken from.
        when: In which situation it applies; empty if the text says so itself.
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
A tip says when it applies, in a few words that tell the situation as one notices it ("a booking is refused over its \
price"), and in one or two sentences what to do then, or what not to do. It is for an assistant that has another \
task of this kind and sees neither this task nor these runs: say what kind of thing is meant rather than its number or \
identifier, and name tools and actions as they are called in the records. Give the reason of each tip: what in the \
records shows it. Leave out what goes without saying."""

DEFAULT_COMPARISON_PROMPT = f"""\
You learn from an assistant's attempts at one task: some failed, one succeeded.

You get one JSON document. `task` is what was asked for; `failed` and `succeeded` tell in order what was said, which \
tools were called and what they brought back; `ended` says why an attempt counts as it does, `reflection` what the \
assistant thought of it afterwards.

Find where the attempts part: what the successful one did that the others did not, and which steps led the others \
astray. Write at most 5 tips from that, the most important first. {_GOOD_TIP}"""

DEFAULT_SUCCESS_PROMPT = f"""\
You learn from an assistant's successful run.

You get one JSON document. `task` is what was asked for; `succeeded` tells in order what was said, which tools were \
called and what they brought back; `known_tips` are tips that there are already, by number.

Write at most 3 tips on what made it succeed, the most important first; none if the known ones say it all. Do not \
repeat a known tip in other words: give the numbers of those that hold for this task, too, in `bears_out` instead. \
{_GOOD_TIP}"""

MOST_COMPARED = 5  # tips from one comparison at the most, as in the paper
MOST_FROM_SUCCESS = 3  # tips from one success alone at the most, as in the paper
MOST_KNOWN = 40  # known tips that a model is shown, those whose words are most like the task's: about 2,000 tokens
LONGEST_WHEN = 160  # characters of when a tip applies: about 40 tokens
LONGEST_TIP = 600  # characters of a tip, and of its reasoning, that are kept: about 150 tokens each

_LITTLE = frozenset(words_of("a an the this that these those it its you your is are be and then so"))
_CONDITION = re.compile(r"^(?:when(?:ever)?|if|where)\b\s*", re.IGNORECASE)
_TIP_LABEL = re.compile(r"^(?:tip|advice)(?:\s*\d+)?\s*:\s*", re.IGNORECASE)


class TipForm(BaseModel):
    """One tip."""

    reasoning: str = Field(description="What in the records shows it, in one or two sentences")
    when: str = Field(description="The situation in which it applies, in at most 15 words")
    tip: str = Field(description="What to do or not to do then, in one or two sentences")


class ComparisonForm(BaseModel):
    """What a model is asked to fill in after a comparison."""

    tips: list[TipForm] = Field(description="At most 5 tips, the most important first")


class SuccessForm(BaseModel):
    """What a model is asked to fill in after a success."""

    tips: list[TipForm] = Field(description="At most 3 new tips, the most important first; may be empty")
    bears_out: list[int] = Field(description="Numbers of the known tips that hold for this task, too; may be empty")


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
    """Ask what made a run succeed: the known tips that hold here, too, then at most 3 new ones.

    Of the known tips, those most like the task are shown. `None` if the model gave no usable reply.
    """
    own = frozenset(words_of(success.task))
    nearness = [overlap(own, _words(f"{tip.task} {tip.advice}")) for tip in known]
    nearest = sorted(range(len(known)), key=lambda place: (-nearness[place], place))[:MOST_KNOWN]
    shown = [known[place] for place in sorted(nearest)]
    numbered = [{"number": number, "tip": tip.advice} for number, tip in enumerate(shown, 1)]
    document = {"succeeded": _attempt(success, DEFAULT_MAX_CHARACTERS), "known_tips": numbered}
    reply = yield from _ask(model, SuccessForm, DEFAULT_SUCCESS_PROMPT, success, document)
    if reply is None:
        return None
    said = reply.get("bears_out") if isinstance(reply, Mapping) else None
    numbers = {int(each) for each in said if str(each).isdecimal()} if isinstance(said, list) else set()
    borne_out = [tip for number, tip in enumerate(shown, 1) if number in numbers]
    return [*borne_out, *_tips(reply, "success", [success])[:MOST_FROM_SUCCESS]]


def content_of(tip: Tip) -> frozenset[str]:
    """What a tip says: its words but for little ones, in any order. Two tips with the same content are one."""
    words = frozenset(words_of(tip.advice))
    return words - _LITTLE or words


NEARLY_EQUAL = 0.8
"""Share of their telling words, by their beginnings, from which on two tips say the same, if one only adds some to the
other. Where each has a word of its own, as `red` and `blue`, that word may be what matters."""

_DECISIVE = frozenset(words_of("not no never only before after without unless instead except don doesn cannot"))


def distinct(tips: Iterable[Tip]) -> list[Tip]:
    """The tips, and of such as say nearly the same the first."""
    kept: list[Tip] = []
    for tip in tips:
        if nearly(tip, kept) is None:
            kept.append(tip)
    return kept


def nearly(tip: Tip, others: Iterable[Tip]) -> Tip | None:
    """The first of other tips that says nearly the same: about the same tools, in nearly the same words."""
    for other in others:
        one, two = telling_words(tip.advice), telling_words(other.advice)
        same_sense = _decisive(tip) == _decisive(other) and tip.tools == other.tools
        if same_sense and (one <= two or two <= one) and overlap(one, two) >= NEARLY_EQUAL:
            return other
    return None


def _decisive(tip: Tip) -> set[str]:
    """The words that turn advice into its opposite, and numbers."""
    return {word for word in _words(tip.advice) if word in _DECISIVE or not word.isalpha()}


FEWEST_RUNS = 3  # judged runs that a tip was recalled for before it can be retired: fewer failures may be chance
SMOOTHING = 2.0  # runs of even odds that each tip begins with, so that one run neither makes nor breaks it
CERTAINTY = 1.28  # standard errors of the bound: a tip that is as good as the rest is retired in one of ten cases


def credited(tips: Sequence[Tip], runs: Mapping[str, RunEntry]) -> list[Tip]:
    """The tips that are still worth telling, those first after which runs went well.

    A tip is retired where the runs that it was recalled for went worse than the others, chance aside: where the upper
    end of Wilson's interval of their success lies below that of the others. It is not told either while no run that it
    was taken of is a success: a person has said otherwise since, or they are in quarantine. Both are folds over the
    runs there are, so that they are taken back with a run or its verdict.
    """
    judged = [(entry.outcome == "success", set(entry.tips)) for entry in runs.values() if entry.outcome in JUDGED]
    worth: dict[str, float] = {}
    for tip in tips:
        sources = [runs[run].outcome for run in tip.trajectories if run in runs]
        if sources and "success" not in sources:
            continue
        told = [success for success, recalled in judged if tip.id in recalled]
        others = [success for success, recalled in judged if recalled and tip.id not in recalled]
        usual = (sum(others) + 0.5) / (len(others) + 1)  # even odds, where there are no others
        if len(told) < FEWEST_RUNS or _at_best(sum(told), len(told)) >= usual:
            worth[tip.id] = (sum(told) + SMOOTHING / 2) / (len(told) + SMOOTHING)
    return sorted((tip for tip in tips if tip.id in worth), key=lambda tip: -worth[tip.id])


def _at_best(successes: int, runs: int) -> float:
    """The upper end of Wilson's interval."""
    share, spread = successes / runs, CERTAINTY**2 / runs
    return (share + spread / 2 + math.sqrt(spread * (share * (1 - share) + spread / 4))) / (1 + spread)


def _ask(
    model: BaseChatModel, form: type[BaseModel], prompt: str, success: Trajectory, document: Mapping[str, Any]
) -> Flow[Any]:
    """Ask for tips; returns the reply that holds them, or `None`."""
    question = StructuredQuestion(
        model=model,
        schema=form,
        prompt=document_prompt(prompt, {"task": shortened(success.task), **document}),
        usable=lambda reply: _is_answer(reply.get("tips")),
        config=inner_config("tips", {"trajectory": success.id}),
    )
    meter = Meter(allowance=ATTEMPTS)
    replies = yield from question.ask(meter)
    found = next((reply for reply in reversed(replies) if _is_answer(reply.get("tips"))), None)
    if found is None:
        problem = "; ".join(meter.problems) or "it was not asked"
        logger.warning("No tips from %s, which is left to the next time: %s", success.id, problem)
    return found


def _is_answer(entries: Any) -> bool:
    """Whether these are tips, or the word that there are none."""
    return isinstance(entries, list) and (not entries or any(text for text, _, _ in map(_read, entries)))


def _tips(reply: Any, source: Source, attempts: Sequence[Trajectory]) -> list[Tip]:
    tools = sorted({step.tool for attempt in attempts for step in attempt.steps})
    ids = tuple(attempt.id for attempt in attempts)
    tips: dict[frozenset[str], Tip] = {}
    for text, reasoning, when in map(_read, reply["tips"]):
        if text:
            said = f"{when} {text}"
            named = tuple(tool for tool in tools if re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", said))
            tip = Tip(text, reasoning, source, attempts[-1].task, named, ids, when)
            tips.setdefault(content_of(tip), tip)
    return list(tips.values())


def _read(entry: Any) -> tuple[str, str, str]:
    """Text and reasoning of a tip, and when it applies; empty if it says nothing."""
    fields = entry if isinstance(entry, Mapping) else {}
    text, reasoning, when = (str(fields.get(name) or "") for name in ("tip", "reasoning", "when"))
    line = _TIP_LABEL.sub("", " ".join(text.split()))
    if not any(character.isalnum() for character in line):
        return "", "", ""
    if _CONDITION.match(line):
        when = ""  # the text says so itself
    situation = _CONDITION.sub("", one_line(when, LONGEST_WHEN)).rstrip(" .:,;")
    return shortened(line, LONGEST_TIP), shortened(" ".join(reasoning.split()), LONGEST_TIP), situation


def _attempt(trajectory: Trajectory, room: int) -> dict[str, Any]:
    notes = {"ended": trajectory.reasons, "reflection": str(trajectory.metadata.get("reflection") or "")}
    said = {name: shortened(text, LONGEST_TEXT) for name, text in notes.items() if text}
    return {"record": excerpt(trajectory, max_characters=room), **said}


@lru_cache(maxsize=20_000)  # each question compares its task with all the tips there are
def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(text))


LABEL = "tips"  # under what label tips are kept
MOST_FAILURES = 3  # failed attempts beside a successful one: the paper tries a task once and three times again

Note = dict[str, Any]  # what is kept of a task: its text, and for each part the tips and what they were made from
Holder = tuple[str, Source]  # key of a task, and the part of its tips
Held = dict[Holder, dict[frozenset[str], Tip]]  # the tips of each, by what they say


def extract_tips(model: BaseChatModel, experience: ExperienceStore, *, max_concurrency: int) -> Flow[list[Tip]]:
    """Take tips from what is stored in one namespace, as far as that was not done before; returns all, old and new.

    First every task with a success and failures, from their comparison; then every task with a success, from the
    success alone. What was made is kept after each few tasks, with what it was made from: an extraction that was
    killed goes on where it stopped, and a task is asked about again once there are new attempts at it. A task about
    which the model gives no usable reply stays as it is until the next time. A tip whose success was deleted is
    deleted. The `task_id` in the metadata of attempts sets tasks of the same text apart.
    """
    collection = experience.collection(LABEL)
    tasks = yield from _survey(experience)
    notes = yield from _current_notes(collection, tasks)
    held: Held = {(key, part): _by_content(_tips_in(note, part)) for key, note in _in_order(notes) for part in PARTS}
    tried = sorted((task for task in tasks.values() if task.successes), key=lambda task: (task.text, task.id))
    for part in PARTS:
        due = [task for task in tried if task.is_due(part, notes.get(task.key, {}))]
        for together in batch_iterate(max_concurrency, due):
            asked = [_tips_for(model, experience, part, task, held) for task in together]
            found: list[list[Tip] | None] = yield TogetherStep(asked)
            # What somebody has had forgotten meanwhile is not written again.
            gone = {run for task in tasks.values() for run in task.evidence("comparison")}
            gone -= (yield from experience.entries()).keys()
            for task, tips in zip(together, found, strict=True):
                # A tip that another task has already is kept as it stands there, so that it is recalled once.
                own = held.pop((task.key, part), {})
                known = _held_besides(held, (task.key, part))
                kept = _by_content(nearly(tip, known.values()) or tip for tip in distinct(tips or ()))
                if tips is None or any(run in gone for tip in kept.values() for run in tip.trajectories):
                    held[task.key, part] = own
                    continue
                held[task.key, part] = kept
                made = {"made_from": task.evidence(part), "tips": [tip.to_dict() for tip in kept.values()]}
                notes[task.key] = {"task": task.text, **notes.get(task.key, {}), part: made}
                yield from collection.putting(task.key, notes[task.key])
    return _all_tips(notes)


def tips_of(experience: ExperienceStore, task: str, ids: Iterable[str] = ("",)) -> Flow[tuple[Tip, ...]]:
    """The tips of one task by its text and ids, those from a comparison first; the id may be empty."""
    collection = experience.collection(LABEL)
    notes: dict[str, Note] = {}
    for key in dict.fromkeys(_key(task, each) for each in ids):
        note = yield from collection.getting(key)
        if note is not None:
            notes[key] = note
    return tuple(_all_tips(notes))


def all_tips(experience: ExperienceStore) -> Flow[list[Tip]]:
    """The tips of all tasks, each once."""
    return _all_tips((yield from experience.collection(LABEL).reading()))


def forget_tips(experience: ExperienceStore, runs: AbstractSet[str] | None) -> Flow[int]:
    """Delete the tips that were taken of some runs, whatever others they were taken of, or all; how many there were.

    What is left of these others is asked about again by the next extraction.
    """
    collection = experience.collection(LABEL)
    before = yield from all_tips(experience)
    _words.cache_clear()
    for key, note in (yield from collection.reading()).items():
        left = {} if runs is None else _without_runs(note, runs)
        if any(part in left for part in PARTS) and left != note:
            yield from collection.putting(key, left)
        elif left != note:
            yield from collection.deleting(key)
    return len(before) - len((yield from all_tips(experience)))


def _without_runs(note: Note, runs: AbstractSet[str]) -> Note:
    """A note without what was made of some runs; without a part of which nothing is left."""
    left = dict(note)
    for part in PARTS:
        made_from = (note.get(part) or {}).get("made_from") or {}
        tips = _tips_in(note, part)
        kept = [tip for tip in tips if runs.isdisjoint(tip.trajectories)]
        evidence = {run: each for run, each in made_from.items() if run not in runs}
        if not evidence and made_from:
            left.pop(part)
        elif kept != tips:  # there may be more to say of the others
            left[part] = {"made_from": {}, "tips": [tip.to_dict() for tip in kept]}
        elif evidence != made_from:
            left[part] = {**note[part], "made_from": evidence}
    return left


def task_id_of(attempt: Trajectory) -> str:
    """The id that sets the task of an attempt apart from others with the same text; empty if it has none."""
    given = attempt.metadata.get("task_id")
    return given if isinstance(given, str) else ""


def _current_notes(collection: RecordCollection, tasks: Mapping[str, "_TaskAttempts"]) -> Flow[dict[str, Note]]:
    """What was kept, without tips whose success is no longer there; these are deleted from the store as well."""
    stored = {success for task in tasks.values() for success in task.successes}
    notes: dict[str, Note] = {}
    for key, note in (yield from collection.reading()).items():
        if key not in tasks or not tasks[key].successes:
            yield from collection.deleting(key)
            continue
        notes[key] = note
        for part in PARTS:
            tips = _tips_in(note, part)
            left = [tip for tip in tips if not tip.trajectories or tip.trajectories[-1] in stored]
            if left != tips:
                notes[key] = {**notes[key], part: {**note[part], "tips": [tip.to_dict() for tip in left]}}
        if notes[key] is not note:
            yield from collection.putting(key, notes[key])
    return notes


def _by_content(tips: Iterable[Tip]) -> dict[frozenset[str], Tip]:
    return {content_of(tip): tip for tip in tips}


def _held_besides(held: Held, holder: Holder) -> dict[frozenset[str], Tip]:
    """The tips that others than this part of this task hold, by what they say: of a repeat, the first."""
    known: dict[frozenset[str], Tip] = {}
    for other, tips in held.items():
        if other != holder:
            for content, tip in tips.items():
                known.setdefault(content, tip)
    return known


@dataclass(slots=True)
class _TaskAttempts:
    """What is stored of one task: the attempts, each with a fingerprint, and which ones are to be shown."""

    text: str
    id: str = ""  # sets it apart from other tasks of the same text
    successes: dict[str, str] = field(default_factory=dict)  # fingerprints by id
    failures: dict[str, str] = field(default_factory=dict)
    best: tuple[int, str] | None = None  # the shortest success: its length and its id
    last: list[tuple[int, str]] = field(default_factory=list)  # the latest failures: number of the attempt and id

    @property
    def key(self) -> str:
        return _key(self.text, self.id)

    def add(self, attempt: Trajectory) -> None:
        print_ = digest(attempt.chat(), 16)
        if attempt.success:
            self.successes[attempt.id] = print_
            length = (len(attempt.steps), attempt.id)
            self.best = min(self.best or length, length)
        elif attempt.success is False:
            self.failures[attempt.id] = print_
            number = attempt.metadata.get("attempt")
            latest = (number if isinstance(number, int) else 0, attempt.id)
            self.last = sorted([*self.last, latest])[-MOST_FAILURES:]

    def evidence(self, part: Source) -> dict[str, str]:
        """What the tips of a part are made from."""
        return {**self.successes, **self.failures} if part == "comparison" else self.successes

    def is_due(self, part: Source, note: Note) -> bool:
        """Whether there is something to ask that was not asked before."""
        possible = bool(self.failures) or part == "success"
        return possible and (note.get(part) or {}).get("made_from") != self.evidence(part)


def _key(task: str, task_id: str) -> str:
    return digest([{"task": task, "id": task_id} if task_id else {"task": task}])


def _tips_for(
    model: BaseChatModel, experience: ExperienceStore, part: Source, task: _TaskAttempts, held: Held
) -> Flow[list[Tip] | None]:
    """The tips of one part of a task; attempts are read as late as this, since there may be many."""
    success = None if task.best is None else (yield from flow_of(experience.get)(task.best[1]))
    if success is None:  # deleted since it was surveyed
        return None
    if part == "success":
        known = sorted(_held_besides(held, (task.key, part)).values(), key=lambda tip: tip.task)
        return (yield from tips_from_success(model, success, known))
    failures: list[Trajectory] = []
    for _, failed in task.last:
        failure = yield from flow_of(experience.get)(failed)
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
