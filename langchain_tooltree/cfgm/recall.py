"""Recall similar successful runs and tips, and show them to a model (CFGM, Alg. 3)."""

import math
import re
from collections.abc import (
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig

from langchain_tooltree.anomaly.rules import has_failed
from langchain_tooltree.experience.run_identity import (
    is_in,
)
from langchain_tooltree.experience.store import QUARANTINED, ExperienceStore
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import (
    run_or_default,
)
from langchain_tooltree.messages.additions import SUMMARIZE_STATE
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.messages.tool_calls import Call
from langchain_tooltree.streaming import StreamWriter, emit_events
from langchain_tooltree.text import (
    GAP,
    compact_json,
    counted,
    cut,
    digest,
    kinship,
    one_line,
    shortened,
    telling_words,
    whole_characters,
    words_of,
)

IDENTIFYING = re.compile(r"(?<!\S)\S+@\S+|(?<![\w-])(?=[\w-]*\d)[\w-]{5,}")
"""What tells one thing or person from all others: an e-mail address, or a word with digits, too long for a count."""


TipSource = Literal["comparison", "success"]
"""What a tip comes from: failed attempts beside a successful one, or a success alone (the parts of CFGM, Alg. 2)."""


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
    source: TipSource
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
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tip":
        """The tip that `to_dict` wrote down; JSON has lists in place of tuples."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.items()
        }
        return cls(**values)


def distinct(tips: Iterable[Tip]) -> dict[tuple[str, ...], Tip]:
    """The tips by the words of their advice, and of such as have the same words the first."""
    by_words: dict[tuple[str, ...], Tip] = {}
    for tip in tips:
        by_words.setdefault((*words_of(tip.advice),), tip)
    return by_words


LABEL = "tips"  # under what label tips are kept


Note = dict[
    str, Any
]  # what is kept of a task: its text, its tips, and the runs that they were made from


async def tips_of(experience: ExperienceStore, runs: Iterable[Trajectory]) -> list[Tip]:
    """The tips of the tasks of some runs, in the order of these; of a task, those from a comparison first."""
    tips: list[Tip] = []
    for key in dict.fromkeys(map(task_key, runs)):
        note = await experience.collection(LABEL).getting(key)
        tips += map(Tip.from_dict, note["tips"] if note else ())
    return list(dict.fromkeys(tips))


def task_key(attempt: Trajectory) -> str:
    """What the tips of an attempt's task stand under; an id sets tasks of the same text apart."""
    return digest(
        [{"task": attempt.task, "id": str(attempt.metadata.get("task_id") or "")}]
    )


APPLIES = 0.5  # share of the telling words of a tip's condition that have to stand in a task for the tip to apply


def tips_for(tips: Iterable[Tip], task: str) -> list[Tip]:
    """The tips that apply to a task, or to a situation in words, by their conditions: the surest first."""
    words = telling_words(task)
    shares = [
        (len(words & condition) / len(condition), tip)
        for tip in tips
        if (condition := telling_words(tip.when))
    ]
    applying = [(share, tip) for share, tip in shares if share >= APPLIES]
    return [tip for _, tip in sorted(applying, key=lambda each: -each[0])]


CANDIDATES = 8  # runs that are looked at for each one that is recalled, so that there is something to choose from


LEAST_KINSHIP = 0.25
"""Kinship with the task from which on a run is recalled. On real dialogues of an airline and a phone company it keeps
96 % of the runs for the same kind of task, with hashed words as with a neural embedder, and none of the other
company's, of which there would be two each time. An embedder's score has no such floor: each has its own scale."""


def most_like(task: str, runs: Sequence[Trajectory], k: int) -> list[Trajectory]:
    """The runs to recall for a task, from those like it, most similar first: `k`, fewer, or none.

    What has too little in common with the task is left out. Of several runs with the very same task that one is taken
    whose tools are most those of other sources, and of equal ones the shortest; a second one only where there are too
    few other tasks. Each source gives one run of a task, and comes again only where there is no other source.
    """
    rank: dict[str, int] = {}
    for place, run in enumerate(runs):
        if kinship(task, run.aim) >= LEAST_KINSHIP:
            rank.setdefault(run.aim, place)
    related = [run for run in runs if run.aim in rank]
    tools = [(run.voice[0], {step.tool for step in run.calls}) for run in related]

    def agreement(run: Trajectory) -> float:
        own = {step.tool for step in run.calls}
        return math.fsum(
            len(own & other) / max(1, len(own | other))
            for by, other in tools
            if by != run.voice[0]
        )

    related.sort(
        key=lambda run: (
            rank[run.aim],
            -round(agreement(run), 6),
            len(run.calls),
            run.id,
        )
    )
    left = list({(run.voice[0], run.aim): run for run in reversed(related)}.values())[
        ::-1
    ]
    chosen: list[Trajectory] = []
    while left and len(chosen) < k:
        sources, tasks = {run.voice[0] for run in chosen}, {run.aim for run in chosen}
        chosen.append(
            min(left, key=lambda run: (run.voice[0] in sources, run.aim in tasks))
        )  # the first of the best
        left.remove(chosen[-1])
    return chosen


@dataclass(frozen=True, slots=True)
class Recollection:
    """The successful runs that are most like a task, most similar first (CFGM, Alg. 3).

    Attributes:
        task: The task.
        runs: The runs.
        tips: The tips of their tasks; of such as say nearly the same the first.
        verbatim: Whether calls are shown with the values of their arguments, as in the paper, and not by names alone.
    """

    task: str
    runs: tuple[Trajectory, ...] = ()
    tips: tuple[Tip, ...] = ()
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Recaller:
    """Recalls from a store.

    Attributes:
        experience: The store.
        verbatim: Whether recalled calls show the values of their arguments.
        nearest: Whether the nearest runs are taken, however little they have in common with the task, as in the paper.
    """

    experience: ExperienceStore
    verbatim: bool = False
    nearest: bool = False

    async def recall(
        self,
        task: str,
        k: int,
        *,
        config: RunnableConfig | None = None,
        own: str | None = None,
    ) -> Recollection:
        """Recall from one namespace; `own` is the id of a conversation that is not recalled for itself."""
        experience = self.experience.within_config(config)
        similar = partial(experience.similar_flow, task, success=True)
        runs = await similar(k=CANDIDATES * k)
        users = {run.came_from or run.id for run in runs}
        # There may be others behind them, but nobody stands between a user and runs of theirs.
        if (
            len(users) == 1
            and len(runs) == CANDIDATES * k
            and not users & {*experience.values.values()}
        ):
            runs = await similar(k=4 * CANDIDATES * k)
        others = [run for run in runs if not is_in(run.id, own)]
        chosen = others[:k] if self.nearest else most_like(task, others, k)
        # Tasks of the same text may be told apart by an id; the tips of all that are like the task are recalled.
        alike = [run for each in chosen for run in runs if run.task == each.task]
        tips = await tips_of(experience, alike)
        # A tip counts while the success that it was taken of does: it may be gone, in quarantine, or called a failure.
        successes = {run.id for run in runs}
        sources = {tip.trajectories[-1] for tip in tips} - successes
        for run in await experience.reading(sorted(sources)):
            successes |= (
                {run.id} if run.success and QUARANTINED not in run.metadata else set()
            )
        valid = distinct(tip for tip in tips if tip.trajectories[-1] in successes)
        return Recollection(task, tuple(chosen), tuple(valid.values()), self.verbatim)

    async def recall_here(
        self, task: str, *, k: int, own: str | None = None, writer: StreamWriter | None
    ) -> Recollection:
        """Recall inside a running graph; if memory fails, that is logged, and nothing is recalled."""

        async def ask() -> Recollection:
            recollection = await self.recall(task, k, own=own)
            runs, tips = (
                [run.task for run in recollection.runs],
                [tip.advice for tip in recollection.tips],
            )
            await emit_events(
                [{"type": "recall", "task": task, "runs": runs, "tips": tips}], writer
            )
            return recollection

        return await run_or_default(
            ask, default=Recollection(task), purpose="a memory of past runs"
        )


PAST_RUNS = "past runs"


RECALL_HEADING = "Similar past runs, for reference; not part of this conversation."


TIPS = "Tips:"


RUN = "Run: "


PARAGRAPH = "\n\n"


FOR_TIPS = 0.5  # share of the room that tips take at the most where there are runs


LONGEST_TASK = 400  # characters of a task that are shown: about 100 tokens


LONGEST_VALUE = 80  # characters of an argument's value that are shown: about 20 tokens


LONGEST_ERROR = 80  # characters of an error that are shown


LONGEST_EXAMPLE = 3_000  # characters of an example of the user's: about 750 tokens


MOST_CALLS = 60  # calls of a run that are shown


FEWEST_CALLS = 3  # calls of a longer run without which it says nothing


MOST_LINKS = 20  # tools of a run that are shown in one line


def recall_text(recollection: Recollection, *, max_characters: int) -> str:
    """A recollection in words, for a prompt, in at most `max_characters`, mark included; empty without room.

    The tips come first, each once, then the runs: the task and, a line each, the calls in order, with the names of
    their arguments, and `ok` or the error. What tools returned and what the agent answered is not told, nor are the
    values of arguments unless the recollection is `verbatim`: they are those of somebody else's run. Tips and runs are
    whole or not there; only the longest runs lose their last calls, with a count of them. All of it is marked as
    reference material.
    """
    room = max_characters - len(
        mark_as_reference(f"{RECALL_HEADING}{PARAGRAPH}", source=PAST_RUNS)
    )
    tips = _format_tips(
        recollection.tips, int(room * FOR_TIPS) if recollection.runs else room
    )
    for count in range(
        len(recollection.runs), -1, -1
    ):  # the last runs go before too little is left of the others
        parts, left = [tips] if tips else [], room - len(tips)
        for number, run in enumerate(recollection.runs[:count]):
            share = left // (count - number) - len(PARAGRAPH)
            parts.append(_run_text(run, share, verbatim=recollection.verbatim))
            left -= len(parts[-1]) + len(PARAGRAPH)
        if parts and all(parts):
            text = mark_as_reference(
                whole_characters(PARAGRAPH.join([RECALL_HEADING, *parts])),
                source=PAST_RUNS,
            )
            if (
                len(text) <= max_characters
            ):  # what looks like a mark is escaped, which takes characters
                return text
    return ""


def examples_in(text: str) -> list[str]:
    """The runs in what `recall_text` returned, each in words."""
    return [
        part
        for part in text.rpartition("\n")[0].split(PARAGRAPH)
        if part.startswith(RUN)
    ]


def example_text(example: str | Trajectory) -> str:
    """A text, or a run in words, as an example to act by; at most `LONGEST_EXAMPLE` characters."""
    if isinstance(example, str):
        return shortened(example, LONGEST_EXAMPLE)
    recalled = recall_text(
        Recollection("", (example,), verbatim=True), max_characters=LONGEST_EXAMPLE
    )
    return PARAGRAPH.join(examples_in(recalled))


def chain_of(run: Trajectory) -> str:
    """The tools of a run in one line, in the order of its calls, as `search_flights -> get_fare (2 times) -> book`.

    Calls that failed are left out, and so is what comes after the first 20 tools, which are counted. Empty where no
    call went well.
    """
    tools = [
        step.tool
        for step in run.calls
        if step.tool != SUMMARIZE_STATE and not has_failed(step)
    ]
    links = [_times(tool, len(list(calls))) for tool, calls in groupby(tools)]
    more = [f"{len(links) - MOST_LINKS} more"] if len(links) > MOST_LINKS else []
    return " -> ".join([*links[:MOST_LINKS], *more])


def _times(call: str, times: int) -> str:
    return f"{call} ({times} times)" if times > 1 else call


def _run_text(run: Trajectory, room: int, *, verbatim: bool) -> str:
    """A run in words: its task, and its calls, a line each; empty if there is no room for a few of them."""
    task = run.aim if verbatim else IDENTIFYING.sub(GAP, run.aim)
    calls = [
        _times(call, len(list(same)))
        for call, same in groupby(
            _format_call_line(each, verbatim=verbatim) for each in run.calls
        )
    ]
    for most in range(
        min(len(calls), MOST_CALLS), min(len(calls), FEWEST_CALLS) - 1, -1
    ):
        more = (
            [f"({counted(len(calls) - most, 'more call')})"]
            if most < len(calls)
            else []
        )
        text = "\n".join([f"{RUN}{one_line(task, LONGEST_TASK)}", *calls[:most], *more])
        if len(text) <= room:
            return text
    return ""


def _format_call_line(step: Call, *, verbatim: bool) -> str:
    """A call with what came of it."""
    arguments = step.arguments or {}
    values = list(arguments)
    if verbatim:
        values = [
            f"{name}={cut(compact_json(value), LONGEST_VALUE)}"
            for name, value in arguments.items()
        ]
    came = "ok" if step.result is not None else "no result"
    if step.result is not None and has_failed(step):
        error = step.result.text
        if not verbatim:
            texts = (
                value
                for value in arguments.values()
                if isinstance(value, str) and value
            )
            for value in sorted(texts, key=len, reverse=True):
                error = error.replace(value, GAP)
            error = IDENTIFYING.sub(GAP, error)
        came = (
            f"failed: {one_line(error, LONGEST_ERROR)}" if error.strip() else "failed"
        )
    return f"{step.tool}({', '.join(values)}): {came}"


def _format_tips(tips: Sequence[Tip], room: int) -> str:
    """The tips that there is room for, the first ones first: half a tip says nothing."""
    lines: list[str] = []
    left = room - len(TIPS)
    for line in (f"- {tip.advice}" for tip in tips):
        if len(line) + 1 <= left:
            lines.append(line)
            left -= len(line) + 1
    return "\n".join([TIPS, *lines]) if lines else ""
