"""Tips: what failed attempts against a successful one, and successes alone, teach (CFGM, Alg. 2)."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate
from pydantic import BaseModel, Field

from langchain_tooltree.cfgm.recall import (
    IDENTIFYING,
    LABEL,
    Note,
    Tip,
    TipSource,
    distinct,
    task_key,
)
from langchain_tooltree.errors import ConfigurationError, ReplyError
from langchain_tooltree.experience.store import (
    QUARANTINED,
    READ_PAGE_SIZE,
    ExperienceStore,
)
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.transcript import MAX_RUN_CHARACTERS, excerpt
from langchain_tooltree.flows import GatherStep
from langchain_tooltree.messages.tool_calls import Call
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    Words,
    document_prompt,
    filled_in,
    inner_config,
)
from langchain_tooltree.text import (
    LONGEST_TEXT,
    compact_json,
    digest,
    kinship,
    one_line,
    shortened,
    words_of,
)

logger = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT", bound="ComparisonForm")

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


def _condition(text: str) -> str:
    """The situation of a tip as it stands after "When"."""
    when = _CONDITION.sub("", one_line(text, LONGEST_WHEN)).rstrip(" .:,;")
    return when[:1].lower() + when[1:] if when[1:2].islower() else when


class EvidenceForm(BaseModel):
    """A call that bears a tip out."""

    tool: str = Field(description="The tool that was called")
    quote: str = Field(
        description="A few words copied exactly from the arguments or the result of that call"
    )


class TipForm(BaseModel):
    """One tip."""

    reasoning: str = Field(description="What in the records shows it, in one sentence")
    bears_out: list[EvidenceForm] = Field(description="One to three calls that show it")
    when: str = Field(
        description="The situation, with what tells it from neighbouring ones, in at most 20 words"
    )
    tip: Words = Field(
        description="What to do or not to do then, in one or two sentences"
    )


class ComparisonForm(BaseModel):
    """What a model is asked to fill in after a comparison."""

    tips: list[TipForm] = Field(description="At most 5 tips, the most important first")


class SuccessForm(ComparisonForm):
    """What a model is asked to fill in after a success."""

    tips: list[TipForm] = Field(
        description="At most 3 new tips, the most important first; may be empty"
    )
    followed: list[int] = Field(
        description="Numbers of the known tips that this run followed; may be empty"
    )


class AlignedTipForm(BaseModel):
    """A tip for another environment."""

    number: int = Field(description="That of the tip it was rewritten from")
    when: str = Field(
        description="The situation in which it applies, in at most 20 words"
    )
    tip: Words = Field(
        description="What to do or not to do then, in one or two sentences"
    )


class AlignmentForm(BaseModel):
    """What a model is asked to fill in to adapt tips."""

    tips: list[AlignedTipForm]


async def aligned_tips(
    model: BaseChatModel, experience: ExperienceStore, description: str
) -> list[Tip]:
    """All tips of a namespace, adapted to the environment described; see `CFGMMemory.align_tips`."""
    if not isinstance(description, str) or not description.strip():
        msg = f"description must be a text that says what the other environment is, got {description!r:.80}."
        raise ConfigurationError(msg)
    tips = distinct(await all_tips(experience)).values()
    aligned: list[Tip] = []
    for batch in batch_iterate(MOST_KNOWN, tips):
        numbered = [
            {"number": number, "when": tip.when, "tip": tip.text}
            for number, tip in enumerate(batch, 1)
        ]
        document = {"environment": shortened(description.strip()), "tips": numbered}
        meter = Meter(allowance=REPLY_ATTEMPTS)
        prompt, config = (
            document_prompt(ALIGNMENT_PROMPT, document),
            inner_config("align_tips", {}),
        )
        reply = await filled_in(model, AlignmentForm, prompt, config, meter)
        if reply is None:
            msg = f"The model adapted no tips: {'; '.join(meter.problems)}. Try again, or use another model."
            raise ReplyError(msg)
        forms = {form.number: form for form in reply.tips}
        for number, tip in enumerate(batch, 1):
            if form := forms.get(number):
                when, text = (
                    _condition(form.when),
                    shortened(" ".join(form.tip.split()), LONGEST_TIP),
                )
                aligned.append(replace(tip, text=text, when=when, tools=()))
    return aligned


async def tips_by_comparison(
    model: BaseChatModel, success: Trajectory, failures: Sequence[Trajectory]
) -> list[Tip] | None:
    """Ask what the successful attempt did better: at most 5 tips; `None` if the model gave no usable reply."""
    room = MAX_RUN_CHARACTERS // 2
    failed = [_attempt(failure, room // len(failures)) for failure in failures]
    document = {"failed": failed, "succeeded": _attempt(success, room)}
    reply = await _ask_for_tips(
        model, ComparisonForm, DEFAULT_COMPARISON_PROMPT, success, document
    )
    return (
        None
        if reply is None
        else _to_tips(reply, "comparison", [*failures, success])[:MOST_COMPARED]
    )


async def tips_from_success(
    model: BaseChatModel, success: Trajectory, known: Sequence[Tip]
) -> list[Tip] | None:
    """Ask what made a run succeed: the known tips that it followed, then at most 3 new ones.

    Of the known tips, those most like the task are shown. `None` if the model gave no usable reply.
    """
    nearest = sorted(
        known, key=lambda tip: -kinship(success.task, f"{tip.task} {tip.advice}")
    )[:MOST_KNOWN]
    numbered = [
        {"number": number, "tip": tip.advice} for number, tip in enumerate(nearest, 1)
    ]
    document = {
        "succeeded": _attempt(success, MAX_RUN_CHARACTERS),
        "known_tips": numbered,
    }
    reply = await _ask_for_tips(
        model, SuccessForm, DEFAULT_SUCCESS_PROMPT, success, document
    )
    if reply is None:
        return None
    followed = [
        tip for number, tip in enumerate(nearest, 1) if number in reply.followed
    ]
    return [*followed, *_to_tips(reply, "success", [success])[:MOST_FROM_SUCCESS]]


async def _ask_for_tips(
    model: BaseChatModel,
    form: type[ReplyT],
    prompt: str,
    success: Trajectory,
    document: Mapping[str, Any],
) -> ReplyT | None:
    """Ask for tips; a model that gives no usable reply is logged."""
    meter = Meter(allowance=REPLY_ATTEMPTS)
    question = document_prompt(prompt, {"task": shortened(success.task), **document})
    reply = await filled_in(
        model, form, question, inner_config("tips", {"trajectory": success.id}), meter
    )
    if reply is None:
        problem = "; ".join(meter.problems) or "it was not asked"
        logger.warning(
            "No tips from %s, which is left to the next time: %s", success.id, problem
        )
    return reply


def _attempt(trajectory: Trajectory, room: int) -> dict[str, Any]:
    notes = {
        "ended": trajectory.reasons,
        "reflection": str(trajectory.metadata.get("reflection") or ""),
    }
    about = {
        name: shortened(text, LONGEST_TEXT) for name, text in notes.items() if text
    }
    return {"record": excerpt(trajectory, max_characters=room), **about}


def _to_tips(
    reply: ComparisonForm, source: TipSource, attempts: Sequence[Trajectory]
) -> list[Tip]:
    """The tips of a reply that say when they apply, are borne out by the attempts, and are not about one thing."""
    steps = [step for attempt in attempts for step in attempt.calls]
    tools = sorted({step.tool for step in steps})
    identifiers = {
        word
        for step in steps
        for word in IDENTIFYING.findall(compact_json(step.arguments))
    }
    tips: list[Tip] = []
    for form in reply.tips:
        when = _condition(form.when)
        text = shortened(" ".join(form.tip.split()), LONGEST_TIP)
        advice = f"{when} {text}"
        specific = identifiers.intersection(IDENTIFYING.findall(advice))
        if (
            when
            and not specific
            and any(_stands_in(each, steps) for each in form.bears_out)
        ):
            named = tuple(
                tool
                for tool in tools
                if re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", advice)
            )
            reasoning = shortened(" ".join(form.reasoning.split()), LONGEST_TIP)
            ids = tuple(attempt.id for attempt in attempts)
            tips.append(
                Tip(text, reasoning, source, attempts[-1].task, named, ids, when)
            )
    return list(distinct(tips).values())


def _stands_in(evidence: EvidenceForm, steps: Sequence[Call]) -> bool:
    """Whether a call of the tool has the words of the quote, one after the other, in its arguments or its result."""
    quote = _spaced(evidence.quote)
    calls = (step for step in steps if step.tool == evidence.tool)
    texts = (
        (compact_json(step.arguments), step.result.text if step.result else "")
        for step in calls
    )
    return bool(quote.strip()) and any(
        quote in _spaced(text) for both in texts for text in both
    )


def _spaced(text: str) -> str:
    return f" {' '.join(words_of(text))} "


# --- what is kept ---


async def all_tips(experience: ExperienceStore) -> list[Tip]:
    """The tips of all tasks, each once."""
    return tips_in(await experience.collection(LABEL).reading())


def tips_in(notes: Mapping[str, Note]) -> list[Tip]:
    """The tips of tasks, in the order of these, each once."""
    in_order = sorted(notes.items(), key=lambda item: (item[1]["task"], item[0]))
    return list(
        dict.fromkeys(
            Tip.from_dict(tip) for _, note in in_order for tip in note["tips"]
        )
    )


def other_tips(notes: Mapping[str, Note], key: str) -> list[Tip]:
    """The tips of all tasks but one."""
    return tips_in({each: note for each, note in notes.items() if each != key})


async def forget_tips(
    experience: ExperienceStore, runs: AbstractSet[str] | None
) -> int:
    """Delete the tips that were taken of some runs, whatever others they were taken of, or all; how many there were.

    What is left of these others is asked about again by the next extraction.
    """
    before = await all_tips(experience)
    await drop_runs(experience, lambda run: runs is None or run in runs)
    return len(before) - len(await all_tips(experience))


async def drop_runs(
    experience: ExperienceStore, is_gone: Callable[[str], bool]
) -> None:
    """Take what was made of some runs out of what is kept."""
    collection = experience.collection(LABEL)
    for key, note in (await collection.reading()).items():
        tips = [
            tip for tip in note["tips"] if not any(map(is_gone, tip["trajectories"]))
        ]
        # Where tips are gone, the other runs may have more to say.
        complete = tips == note["tips"]
        made_from = {
            run: each
            for run, each in note["made_from"].items()
            if complete and not is_gone(run)
        }
        if not tips and not made_from:
            await collection.deleting(key)
        elif made_from != note["made_from"]:
            await collection.putting(
                key, {**note, "made_from": made_from, "tips": tips}
            )


MOST_FAILURES = 3  # failed attempts beside a successful one: the paper tries a task once and three times again


@dataclass(slots=True)
class _Attempts:
    """What is stored of one task, by the ids of its attempts."""

    task: str
    successes: dict[str, int] = field(default_factory=dict)  # their lengths
    failures: dict[str, int] = field(
        default_factory=dict
    )  # the numbers of the attempts
    made_from: dict[str, str] = field(
        default_factory=dict
    )  # digests of them: a run that goes on keeps its id


async def extract_tips(
    model: BaseChatModel, experience: ExperienceStore, *, max_concurrency: int
) -> list[Tip]:
    """Take tips from what is stored in one namespace, as far as that was not done before; returns all, old and new.

    What was made of a task is kept with what it was made from: an extraction that was killed goes on where it stopped,
    and a task is asked about again once there are new attempts at it. A task about which the model gives no usable
    reply stays as it is until the next time. A tip goes with the runs that it was taken from.
    """
    collection = experience.collection(LABEL)
    tasks: dict[str, _Attempts] = {}
    for page in batch_iterate(READ_PAGE_SIZE, (await experience.ids())):
        for attempt in await experience.reading(page):
            if attempt.success is None or attempt.metadata.get(QUARANTINED):
                continue
            of_task = tasks.setdefault(task_key(attempt), _Attempts(attempt.task))
            of_task.made_from[attempt.id] = digest(attempt.messages, 16)
            if attempt.success:
                of_task.successes[attempt.id] = len(attempt.calls)
            else:
                of_task.failures[attempt.id] = attempt.metadata.get("attempt") or 0
    present = {run for attempts in tasks.values() for run in attempts.made_from}
    await drop_runs(experience, lambda run: run not in present)
    notes: dict[str, Note] = await collection.reading()
    due = [
        (key, attempts)
        for key, attempts in sorted(
            tasks.items(), key=lambda item: (item[1].task, item[0])
        )
        if attempts.successes
        and attempts.made_from != notes.get(key, {}).get("made_from")
    ]
    for together in batch_iterate(max_concurrency, due):
        questions = [
            _tips_of_task(model, experience, attempts, other_tips(notes, key))
            for key, attempts in together
        ]
        replies: list[list[Tip] | None] = await GatherStep(questions)
        entries = (await experience.current()).entries
        for (key, attempts), reply in zip(together, replies, strict=True):
            if reply is None or not attempts.made_from.keys() <= entries.keys():
                continue  # what somebody has had forgotten meanwhile is not written again
            # A tip that another task has already is kept as it stands there, so that it is recalled once.
            known = distinct(other_tips(notes, key))
            tips = [
                known.get(sense, tip).to_dict()
                for sense, tip in distinct(reply).items()
            ]
            notes[key] = {
                "task": attempts.task,
                "made_from": attempts.made_from,
                "tips": tips,
            }
            await collection.putting(key, notes[key])
    return tips_in(notes)


async def _tips_of_task(
    model: BaseChatModel,
    experience: ExperienceStore,
    attempts: _Attempts,
    known: Sequence[Tip],
) -> list[Tip] | None:
    """The tips of a task, from the shortest success and the latest failures; `None` without a usable reply."""
    shortest = min(attempts.successes, key=lambda run: (attempts.successes[run], run))
    latest = sorted(attempts.failures, key=lambda run: (attempts.failures[run], run))[
        -MOST_FAILURES:
    ]
    runs = await experience.reading([*latest, shortest])
    if len(runs) <= len(latest):  # one was deleted meanwhile
        return None
    *failures, success = runs
    compared = (await tips_by_comparison(model, success, failures)) if failures else []
    if compared is None:
        return None
    praised = await tips_from_success(model, success, [*known, *compared])
    return None if praised is None else [*compared, *praised]
