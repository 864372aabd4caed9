"""The command `compare`: the same agent, plain and with the planner, on tasks of one's own."""

import argparse
import asyncio
import inspect
import json
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import numpy as np
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field, ValidationError
from rich.progress import Progress

from langchain_tooltree._langgraph import interrupts_in
from langchain_tooltree.agent import OWN_OPTIONS, create_tooltree_agent
from langchain_tooltree.cli.stores import opened
from langchain_tooltree.cli.terminal import (
    Terminal,
    check_free,
    imported,
    model_named,
    table,
)
from langchain_tooltree.errors import (
    ConfigurationError,
    ToolTreeError,
    check_count,
    described,
)
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import arun_flow
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    MeteringHandler,
    document_prompt,
    filled_in,
    inner_config,
)
from langchain_tooltree.pages import page
from langchain_tooltree.pages.search import search_in, to_html
from langchain_tooltree.text import (
    compact_json,
    counted,
    digest,
    json_object,
    one_line,
    shortened,
)

PILOT = 3  # tasks that the plain agent does before anybody is asked: what they cost is what the rest may cost
EXPECTED_CALL_RATIO = 1.3  # the planner's calls for each of the plain agent's, for the estimate: what was measured on recorded runs
HOUR = 3600.0  # seconds: the time left is estimated by all runs, not by the latest
MOST_ROWS = (
    20  # tasks, and errors, that are printed; the JSON document and the page have all
)
COMPARED_COSTS = (
    "model_calls",
    "tokens",
)  # what is compared task by task, beside success
WAITS = "It waits for somebody's approval, and nobody is there. Build it without."
PLAIN, PLANNER, EXPERIENCED = "plain agent", "planner", "planner with experience"
MAX_ANSWER_CHARACTERS = (
    4_000  # characters of an answer that the journal keeps: about 1,000 tokens
)
SUCCESS = 0.5  # score in [0, 1] from which a task counts as solved

JUDGE_PROMPT = """\
You judge an assistant's answer to a task.

You get one JSON document: `task`, what was asked for; `expected`, what a right answer says, if that is known; and \
`answer`. Is the answer right and complete? Words may differ from what is expected; facts and figures may not."""


# --- tasks ---


class TrialTask(BaseModel):
    """Something to be done, and what is expected of the answer."""

    id: str = ""
    input: str | list[Any] = Field(min_length=1)  # a text, or messages
    expected: Any = None

    @property
    def version(self) -> str:
        """What changes as soon as somebody edits the task."""
        return digest([self.input, self.expected], 12)


def load_tasks(source: str) -> list[TrialTask]:
    """Tasks of a JSONL file, one a line, or of a LangSmith dataset named `langsmith:NAME`.

    Raises `ConfigurationError` if a line is no task, if two have one id, or if there is none.
    """
    if source.startswith("langsmith:"):
        tasks = _langsmith_tasks(source.partition(":")[2])
    else:
        try:
            lines = (
                Path(source).read_text(encoding="utf-8-sig").split("\n")
            )  # JSON may hold other ends of lines
        except UnicodeDecodeError as error:
            msg = f"{source} is not written in UTF-8: {error}."
            raise ConfigurationError(msg) from error
        tasks = [
            _task(line, f"{source}, line {number}")
            for number, line in enumerate(lines, 1)
            if line.strip()
        ]
    if not tasks:
        msg = f'There is no task in {source}. Write one a line: {{"input": "...", "expected": "..."}}.'
        raise ConfigurationError(msg)
    name, times = Counter(task.id for task in tasks).most_common(1)[0]
    if times > 1:
        msg = f'Two tasks in {source} are the same, or have the id {name!r}. Give each an "id" of its own.'
        raise ConfigurationError(msg)
    return tasks


def _task(line: str, where: str) -> TrialTask:
    try:
        task = TrialTask.model_validate_json(line)
    except ValidationError as error:
        msg = (
            f"{where} is no task ({error.errors()[0]['msg']}): {line:.80}. Write one object a line, with an "
            '"input", a text or a list of messages, and where there is one an "expected" and a text as its "id".'
        )
        raise ConfigurationError(msg) from error
    return (
        task
        if task.id
        else task.model_copy(update={"id": digest(compact_json(task.input), 8)})
    )


def _langsmith_tasks(name: str) -> list[TrialTask]:
    """Examples as tasks: `messages` or the only value of the inputs, else all inputs as JSON; outputs likewise."""
    from langsmith import Client  # noqa: PLC0415 - it takes half a second, and is for these datasets alone
    from langsmith.utils import LangSmithError  # noqa: PLC0415 - as above

    def only(values: Mapping[str, Any] | None) -> Any:
        return (
            next(iter(values.values()))
            if values and len(values) == 1
            else values or None
        )

    tasks = []
    try:
        for example in Client(auto_batch_tracing=False).list_examples(
            dataset_name=name
        ):
            asked = (example.inputs or {}).get("messages") or only(example.inputs)
            asked = asked if isinstance(asked, str | list) else compact_json(asked)
            tasks.append(
                TrialTask(
                    id=str(example.id), input=asked, expected=only(example.outputs)
                )
            )
    except LangSmithError as error:
        msg = f"The LangSmith dataset {name!r} cannot be read ({described(error):.200}). Is LANGSMITH_API_KEY set?"
        raise ConfigurationError(msg) from error
    return tasks


# --- checks of answers ---

WHOLE_WORD_PATTERN = r"(?<!\w)(?<!\d[.,]){}(?!\w)(?![.,]\d)"  # a word or number by itself: 24 is neither in R-424 nor in 24.5
Check = Callable[[TrialTask, str], Awaitable[float]]  # scores an answer in [0, 1]


def exact(*, outputs: str, reference_outputs: Any, **_: Any) -> bool:
    """Whether the answer is what is expected, but for case and spaces."""
    return _normalized(outputs) == _normalized(reference_outputs)


def contains(*, outputs: str, reference_outputs: Any, **_: Any) -> bool:
    """Whether the answer has what is expected, or each of several things, as whole words, but for case and spaces."""
    parts = (
        reference_outputs
        if isinstance(reference_outputs, list)
        else [reference_outputs]
    )
    return all(
        re.search(
            WHOLE_WORD_PATTERN.format(re.escape(_normalized(part))),
            _normalized(outputs),
        )
        for part in parts
    )


def json_fields(*, outputs: str, reference_outputs: Any, **_: Any) -> bool:
    """Whether the JSON object that the answer is has the expected fields with these values."""
    data = json_object(outputs) or {}
    return all(data.get(name) == value for name, value in reference_outputs.items())


def _normalized(value: Any) -> str:
    text = value if isinstance(value, str) else compact_json(value)
    return " ".join(text.casefold().split())


CHECKS: Mapping[str, Callable[..., bool]] = {
    "contains": contains,
    "exact": exact,
    "json": json_fields,
}
"""Checks by the names that the command knows; they need an `expected`."""


def check_of(
    check: str | Callable[..., Any] | BaseChatModel, tasks: Sequence[TrialTask]
) -> Check:
    """A check by its name, by a function, or by a model that judges.

    A function is called as evaluators of openevals and agentevals are; it returns a bool, a number in [0, 1], or a
    mapping with a `score`, and may be async. Raises `ConfigurationError` if a task has not what the check needs.
    """
    if isinstance(check, BaseChatModel):
        return partial(_judged, check)
    for task in tasks if isinstance(check, str) else ():
        if task.expected is None or (
            check == "json" and not isinstance(task.expected, dict)
        ):
            what = (
                'an object of fields as its "expected"'
                if check == "json"
                else 'an "expected"'
            )
            msg = f"The task {task.id!r} needs {what} for --check {check}. Add it, or pass --check MODULE:FUNCTION."
            raise ConfigurationError(msg)
    return partial(_evaluated, CHECKS[check] if isinstance(check, str) else check)


async def _evaluated(
    function: Callable[..., Any], task: TrialTask, answer: str
) -> float:
    """The score that an evaluator gives."""
    try:
        score = function(
            inputs=task.input, outputs=answer, reference_outputs=task.expected
        )
        score = await score if inspect.isawaitable(score) else score
    except ToolTreeError:
        raise
    except Exception as error:
        msg = f"The check raised for the task {task.id!r}: {described(error)}."
        raise ConfigurationError(msg) from error
    score = score.get("score") if isinstance(score, Mapping) else score
    if not isinstance(score, bool | int | float) or not 0 <= score <= 1:
        msg = f"The check returned {score!r:.80} for {task.id!r}; it has to be a bool, a number in [0, 1] or a score."
        raise ConfigurationError(msg)
    return float(score)


class _JudgeForm(BaseModel):
    """What a model says of an answer."""

    reason: str = Field(description="Why, in one sentence")
    right: bool = Field(description="Whether the answer is right and complete")


async def _judged(model: BaseChatModel, task: TrialTask, answer: str) -> float:
    """1 if a model finds the answer right, 0 otherwise."""
    document = {"task": task.input, "expected": task.expected, "answer": answer}
    meter = Meter(allowance=REPLY_ATTEMPTS)
    prompt = document_prompt(
        JUDGE_PROMPT,
        {name: value for name, value in document.items() if value is not None},
    )
    form = await arun_flow(
        filled_in(model, _JudgeForm, prompt, inner_config("compare", {}), meter)
    )
    if form is None:
        msg = f"The judge gave no usable verdict on {task.id!r}: {'; '.join(meter.problems)}."
        raise ConfigurationError(msg)
    return float(form.right)


# --- runs ---


class Run(BaseModel):
    """What became of a task with one of the agents."""

    task: str
    version: str  # of the task
    agent: str
    score: float = 0.0  # in [0, 1]
    answer: str = ""
    thread: str = ""  # under which its searches are recorded
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    error: str = ""  # why it did not come to an answer

    @property
    def solved(self) -> bool:
        """Whether it counts as solved."""
        return not self.error and self.score >= SUCCESS

    @property
    def tokens(self) -> int:
        """Tokens sent and received."""
        return self.input_tokens + self.output_tokens


@dataclass
class Journal:
    """A file that keeps each run, so that the same command goes on from there; runs that raised are made again."""

    path: Path
    settings: Mapping[str, Any]
    runs: dict[tuple[str, str, str], Run] = field(
        default_factory=dict
    )  # by task, its version, and agent

    def __post_init__(self) -> None:
        header = json.dumps(dict(self.settings))
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        first, *lines = text.split("\n") if text else [header]
        if first != header:
            msg = (
                f"{self.path} was begun with other settings ({first:.200}; now {header:.200}), or is no journal. Name "
                "another file with --journal."
            )
            raise ConfigurationError(msg)
        for line in lines:
            try:
                run = Run.model_validate_json(line)
            except ValidationError:
                continue  # cut off as the process ended: that run is made again
            if not run.error:
                self.runs[run.task, run.version, run.agent] = run
        if not text.endswith("\n"):
            self._append("" if text else header)

    def of(self, task: TrialTask, agent: str) -> Run | None:
        """The run of an agent on a task as it stands now."""
        return self.runs.get((task.id, task.version, agent))

    def add(self, run: Run) -> None:
        """Keep a run."""
        self.runs[run.task, run.version, run.agent] = run
        self._append(
            run.model_copy(
                update={"answer": shortened(run.answer, MAX_ANSWER_CHARACTERS)}
            ).model_dump_json()
        )

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


# --- what the runs prove ---

Z = 1.96  # standard deviations of a normal distribution within which 95 % lie
LEVEL = (
    0.05  # probability of so uneven gains and losses by chance, below which they count
)
LITTLE = 0.05  # difference in success that hardly anybody would change an agent for
MOST_TASKS = 2_000  # more than that nobody collects to tell
SAMPLES = 2_000  # of the bootstrap
ADOPT, REJECT, UNCERTAIN = 0, 1, 3  # exit codes


class Paired(NamedTuple):
    """Two agents over the same tasks: the difference in success of the second to the first, in [-1, 1]."""

    tasks: int
    gained: int  # tasks that only the second one solves
    lost: int  # tasks that only the first one solves
    difference: float
    low: float  # bounds at 95 %
    high: float
    p: float  # of so uneven gains and losses by chance

    @property
    def code(self) -> int:
        """The exit code: both the interval and the test have to agree that it solves more, or less."""
        if self.p < LEVEL and not self.low <= 0 <= self.high:
            return ADOPT if self.low > 0 else REJECT
        return REJECT if self.high < LITTLE else UNCERTAIN


def paired_difference(tasks: int, gained: int, lost: int) -> Paired:
    """What so many gains and losses mean.

    The interval is that of Bonett and Price (2012), which holds for few tasks; p is the exact test of McNemar:

    p12 = (gained + 1) / (n + 2),  p21 = (lost + 1) / (n + 2)
    p12 - p21 +- z * sqrt((p12 + p21 - (p12 - p21)^2) / (n + 2))
    """
    p12, p21 = (gained + 1) / (tasks + 2), (lost + 1) / (tasks + 2)
    half = Z * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / (tasks + 2))
    low, high = max(-1.0, p12 - p21 - half), min(1.0, p12 - p21 + half)
    uneven = gained + lost
    tail = (
        sum(math.comb(uneven, count) for count in range(min(gained, lost) + 1))
        / 2**uneven
    )
    return Paired(
        tasks, gained, lost, (gained - lost) / tasks, low, high, min(1.0, 2 * tail)
    )


def mean_with_bounds(values: Sequence[float]) -> dict[str, float]:
    """The mean of values, one a task, with its bounds at 95 % by a bootstrap over the tasks."""
    means = np.random.default_rng(0).choice(values, (SAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    return {"mean": float(np.mean(values)), "low": float(low), "high": float(high)}


def recommendation(paired: Paired, name: str, *, failed: int) -> str:
    """Adopt it, do not, or too few tasks to tell, and then how many more; the plain agent `failed` so many."""
    bounds = f"{paired.difference:+.0%} of the tasks, 95 % interval {paired.low:+.0%} to {paired.high:+.0%}"
    if paired.code == ADOPT:
        return f"Adopt {name}: it solves more ({bounds})."
    if paired.code == REJECT:
        solves = "fewer" if paired.high < 0 else "hardly more, if anything"
        return f"Do not adopt {name}: it solves {solves} ({bounds})."
    if not failed:
        return (
            f"Not enough tasks to tell whether {name} helps: the plain agent solves them all, so that nothing can be "
            "gained here. Add tasks in which it fails."
        )
    if paired.low > 0 or paired.high < 0:
        bounds += f", but p = {paired.p:.2g} in the exact test"
    more = more_tasks(paired)
    wanted = f"about {more}" if more else f"more than {MOST_TASKS:,}"
    return f"Not enough tasks to tell whether {name} helps ({bounds}): at this rate it takes {wanted} more."


def more_tasks(paired: Paired) -> int | None:
    """How many more tasks would tell, if gains and losses go on as before; `None` if that would be too many."""
    more = 1
    while more <= MOST_TASKS:
        times = 1 + more / paired.tasks
        later = paired_difference(
            paired.tasks + more,
            round(paired.gained * times),
            round(paired.lost * times),
        )
        if later.code != UNCERTAIN:
            return more
        more += max(1, more // 10)
    return None


# --- the command ---


def run_compare(
    options: argparse.Namespace, terminal: Terminal
) -> tuple[dict[str, Any], int]:
    """Run the agents over the tasks, and say what to do."""
    check_count("--at-once", options.at_once)
    check_count("--limit", 1 if options.limit is None else options.limit)
    build, tasks = imported(options.agent), load_tasks(options.tasks)[: options.limit]
    named = options.check if options.check in CHECKS else None
    check = check_of(
        model_named(options.judge)
        if options.judge
        else named or imported(options.check),
        tasks,
    )
    names = ("agent", "check", "judge", "model")
    settings = {
        "compare": options.tasks,
        **{name: getattr(options, name) for name in names},
    }
    journal = Journal(
        options.journal
        or Path(f"{Path(options.tasks.replace(':', '-')).stem}.compare.jsonl"),
        settings,
    )
    if options.html and not journal.runs:  # else the report is that of the runs before
        check_free(options.html, force=options.force)
    with ExitStack() as stack:
        # All in one loop: clients of models that are used in one do not work in another.
        loop = stack.enter_context(asyncio.Runner())
        comparison = Comparison(build, check, options, journal, tasks=tasks)
        if options.experience:
            store = stack.enter_context(opened(options.experience))
            verdict = comparison.verdict
            comparison.experience = Experience(
                store, verdict=verdict, namespace=("compare",), settle_seconds=0
            )
        loop.run(comparison.run(tasks[:PILOT], [PLAIN], "first tasks"))
        _agree(options, terminal, comparison, tasks)
        loop.run(comparison.run(tasks, comparison.agents, "all tasks"))
    report, code = _report(tasks, comparison)
    _print(terminal, report)
    if options.html:
        title = f"Comparison: {options.agent} on {options.tasks}"
        rows = [
            {**row, "page": _link(row["page"], options.html.parent)}
            for row in report["unsolved"]
        ]
        text = page("compare", title, {**report, "title": title, "unsolved": rows})
        options.html.write_text(text, encoding="utf-8")
        terminal.say(f"Written to {options.html}.")
    return report, code


@dataclass
class Comparison:
    """The agents, each of which does each task once."""

    build: Callable[
        [Callable[..., Any]], Any
    ]  # makes an agent with a function that stands for `create_agent`
    check: Check
    options: argparse.Namespace
    journal: Journal
    experience: Experience | None = None
    tasks: Sequence[TrialTask] = ()

    @property
    def agents(self) -> Sequence[str]:
        """The names of the agents."""
        return (
            (PLAIN, PLANNER)
            if self.experience is None
            else (PLAIN, PLANNER, EXPERIENCED)
        )

    def left(
        self, tasks: Sequence[TrialTask], agents: Collection[str]
    ) -> list[tuple[TrialTask, str]]:
        """The runs that are still to be made."""
        return [
            (task, agent)
            for task in tasks
            for agent in agents
            if self.journal.of(task, agent) is None
        ]

    async def run(
        self, tasks: Sequence[TrialTask], agents: Collection[str], what: str
    ) -> None:
        """Make the runs that are left, some at once; those that learn one after another, in the order of the tasks."""
        left, places = self.left(tasks, agents), asyncio.Semaphore(self.options.at_once)
        console = Terminal(stderr=True, quiet=not sys.stderr.isatty())
        with Progress(console=console, speed_estimate_period=HOUR) as progress:
            bar = progress.add_task(what, total=len(left))

            async def one(task: TrialTask, agent: str) -> None:
                async with places:
                    self.journal.add(await self.attempt(task, agent))
                    progress.advance(bar)

            async def one_after_another() -> None:
                for task, agent in left:
                    if agent == EXPERIENCED:
                        await one(task, agent)

            await asyncio.gather(
                one_after_another(),
                *(one(*each) for each in left if each[1] != EXPERIENCED),
            )

    async def attempt(self, task: TrialTask, agent: str) -> Run:
        """Have an agent, made for it alone, do a task."""
        meter, start, thread = (
            Meter(0),
            time.monotonic(),
            f"{task.id} {agent} {uuid4().hex[:8]}",
        )
        messages = [("user", task.input)] if isinstance(task.input, str) else task.input
        config = {
            "callbacks": [MeteringHandler(meter)],
            "configurable": {"thread_id": thread},
        }
        run = Run(task=task.id, version=task.version, agent=agent, thread=thread)
        try:
            state = await self.build(partial(self._create, agent)).ainvoke(
                {"messages": messages}, config
            )
            run.answer, run.error = (
                answer_in(state),
                WAITS if interrupts_in(state) else "",
            )
        except Exception as error:  # noqa: BLE001 - an agent that raises has not solved its task
            run.error = shortened(described(error), 300)
        costs = {
            name: getattr(meter, name)
            for name in ("model_calls", "input_tokens", "output_tokens")
        }
        run = run.model_copy(
            update={**costs, "seconds": round(time.monotonic() - start, 3)}
        )
        if not run.error:
            run.score = await self.check(task, run.answer)
        return run

    async def verdict(self, run: Trajectory) -> bool | None:
        """Whether a run that is to be learnt, maybe of an earlier process, has solved its task; `None` of no task."""
        task = next(
            (
                task
                for task in self.tasks
                if run.id.startswith(f"{task.id} {EXPERIENCED} ")
            ),
            None,
        )
        if task is None:
            return None
        answers = [
            message.text
            for message in run.to_messages()
            if isinstance(message, AIMessage)
        ]
        return await self.check(task, answers[-1] if answers else "") >= SUCCESS

    def _create(self, agent: str, model: Any, tools: Any = None, **options: Any) -> Any:
        """Stands for `create_agent`; the plain agent leaves out what only the planner takes."""
        model = model_named(self.options.model) if self.options.model else model
        if agent == PLAIN:
            return create_agent(
                model,
                tools,
                **{k: v for k, v in options.items() if k not in OWN_OPTIONS},
            )

        options |= {
            "experience": self.experience if agent == EXPERIENCED else None,
            "verdict": None,
        }
        if self.options.pages:
            options["record_searches"] = self.options.pages
        return create_tooltree_agent(model, tools, **options)


def answer_in(state: Mapping[str, Any]) -> str:
    """The answer in the final state of an agent: what is structured, as JSON, else its last message."""
    structured = state.get("structured_response")
    if structured is not None:
        return compact_json(
            structured.model_dump() if isinstance(structured, BaseModel) else structured
        )
    return next(
        (
            message.text
            for message in reversed(state["messages"])
            if isinstance(message, AIMessage)
        ),
        "",
    )


def _agree(
    options: argparse.Namespace,
    terminal: Terminal,
    comparison: Comparison,
    tasks: Sequence[TrialTask],
) -> None:
    """Say what the rest may cost, and ask whether to go on."""
    left = comparison.left(tasks, comparison.agents)
    plain = [run for run in comparison.journal.runs.values() if run.agent == PLAIN]
    done = [run for run in plain if not run.error]
    if not left:
        return
    if not done:
        msg = f"The plain agent has raised in each of its first {counted(len(plain), 'task')}: {plain[0].error}"
        raise ConfigurationError(msg)
    times = sum(1.0 if agent == PLAIN else EXPECTED_CALL_RATIO for _, agent in left)
    calls, sent, received = (
        times * fmean(getattr(run, name) for run in done)
        for name in ("model_calls", "input_tokens", "output_tokens")
    )
    money = (
        f", ${max(0.01, _dollars(options, sent, received)):,.2f}"
        if options.price
        else ""
    )
    minutes = (
        times
        * fmean(run.seconds for run in done)
        / min(options.at_once, len(left))
        / 60
    )
    judge = f"; {len(left)} calls of the judge come on top" if options.judge else ""
    terminal.say(
        f"{counted(len(left), 'more run')}: about {calls:,.0f} model calls, {sent:,.0f} tokens sent and "
        f"{received:,.0f} received{money}, in about {max(1, minutes):,.0f} min, by what {counted(len(done), 'run')} "
        f"of the plain agent took{judge}."
    )
    if options.yes:
        return
    if options.json or not sys.stdin.isatty():
        msg = f"Nobody is there to be asked whether to go on; pass --yes. What was done is in {comparison.journal.path}."
        raise ConfigurationError(msg)
    if terminal.input("Go on? [y/N] ", markup=False).strip().lower() not in {
        "y",
        "yes",
    }:
        msg = f"Stopped. The same command goes on from {comparison.journal.path}."
        raise ConfigurationError(msg)


def _dollars(options: argparse.Namespace, sent: float, received: float) -> float:
    return float(sent * options.price[0] + received * options.price[1]) / 1e6


def _report(
    tasks: Sequence[TrialTask], comparison: Comparison
) -> tuple[dict[str, Any], int]:
    """The figures, and the exit code: that of the last agent against the plain one."""
    journal, options, code = comparison.journal, comparison.options, 0
    runs = {
        agent: [run for task in tasks if (run := journal.of(task, agent))]
        for agent in comparison.agents
    }
    report: dict[str, Any] = {
        "tasks": len(tasks),
        "agents": {agent: _figures(options, each) for agent, each in runs.items()},
        "against_plain": {},
        "unsolved": [],  # by one of two agents, or by both
        "errors": [
            f"{run.task} ({agent}): {run.error}"
            for agent, each in runs.items()
            for run in each
            if run.error
        ],
        "verdicts": [],
        "journal": str(journal.path),
    }
    for agent in comparison.agents[1:]:
        pairs = list(zip(tasks, runs[PLAIN], runs[agent], strict=True))
        failed = sum(not run.solved for run in runs[PLAIN])
        changed = [pair for pair in pairs if pair[1].solved != pair[2].solved]
        gained = sum(second.solved for _, _, second in changed)
        paired = paired_difference(len(tasks), gained, len(changed) - gained)
        more = {
            name: [
                getattr(second, name) - getattr(first, name)
                for _, first, second in pairs
            ]
            for name in COMPARED_COSTS
        }
        means = {
            f"more_{name}": mean_with_bounds(values) for name, values in more.items()
        }
        report["against_plain"][agent] = {**paired._asdict(), **means}
        report["verdicts"].append(recommendation(paired, f"the {agent}", failed=failed))
        pages = _pages(options.pages, {second.thread for _, _, second in changed})
        missed = [pair for pair in pairs if not (pair[1].solved or pair[2].solved)]
        report["unsolved"] += [
            {
                "task": task.id,
                "input": shortened(
                    task.input
                    if isinstance(task.input, str)
                    else compact_json(task.input),
                    500,
                ),
                "expected": task.expected,
                "agent": agent,
                "solved_by": agent
                if second.solved
                else PLAIN
                if first.solved
                else "nobody",
                "plain_answer": first.error or first.answer,
                "answer": second.error or second.answer,
                "page": pages.get(second.thread, ""),
            }
            for task, first, second in changed + missed
        ]
        code = paired.code
    return report, code


def _figures(options: argparse.Namespace, runs: Sequence[Run]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "solved": sum(run.solved for run in runs),
        "share": round(fmean(run.solved for run in runs), 4),
        "errors": sum(bool(run.error) for run in runs),
        "model_calls": round(fmean(run.model_calls for run in runs), 2),
        "tokens": round(fmean(run.tokens for run in runs)),
        "seconds": round(fmean(run.seconds for run in runs), 1),
    }
    if options.price:
        sent, received = (
            sum(getattr(run, name) for run in runs)
            for name in ("input_tokens", "output_tokens")
        )
        figures["dollars_in_all"] = round(_dollars(options, sent, received), 4)
    return figures


def _pages(folder: str | None, threads: Collection[str]) -> dict[str, str]:
    """The page of the latest search of each thread, written beside the file of the search."""
    pages = dict[str, str]()
    for file in sorted(Path(folder).glob("*.json")) if folder else ():
        search = search_in(file) or {}
        thread = str(search.get("recorded", {}).get("thread"))
        if thread in threads:
            path = file.with_suffix(".html")
            path.write_text(to_html(search), encoding="utf-8")
            pages[thread] = str(path)
    return pages


def _link(path: str, folder: Path) -> str:
    """The address of a page in one that stands in a folder."""
    return quote(Path(os.path.relpath(path, folder)).as_posix()) if path else ""


def _print(terminal: Terminal, report: Mapping[str, Any]) -> None:
    """Print a report: what each agent solves and costs, where they differ, and what to do."""
    terminal.say(
        f"{counted(report['tasks'], 'task')}; calls, tokens and seconds are those of a task, on average."
    )
    rows = [
        [
            agent,
            *(
                f"{value:.0%}" if name == "share" else f"{value:,}"
                for name, value in figures.items()
            ),
        ]
        for agent, figures in report["agents"].items()
    ]
    names = next(iter(report["agents"].values()))
    terminal.print(table(("agent", *(name.replace("_", " ") for name in names)), rows))
    for agent, each in report["against_plain"].items():
        more = " and ".join(
            f"{_bounds(each[f'more_{name}'])} {name.replace('_', ' ')}"
            for name in COMPARED_COSTS
        )
        changes = f"{counted(each['gained'], 'task')} gained, {each['lost']} lost (p = {each['p']:.2g})"
        terminal.say(f"{agent} against the plain agent: {changes}, {more} a task.")
    if unsolved := report["unsolved"][:MOST_ROWS]:
        columns = ("task", "solved by", "plain agent's answer", "planner's answer")
        shown = ("input", "solved_by", "plain_answer", "answer")
        terminal.print(
            table(
                columns,
                ([one_line(row[name], 200) for name in shown] for row in unsolved),
            )
        )
        for row in unsolved:
            if row["page"]:
                terminal.say(
                    f"The search of {one_line(row['input'], 60)!r}: {row['page']}"
                )
    for error in report["errors"][:MOST_ROWS]:
        terminal.say(f"Error in {error}")
    if report["errors"]:
        terminal.say(
            "A run that raised counts as not solved; the same command makes it again."
        )
    for text in report["verdicts"]:
        terminal.say(text)


def _bounds(mean: Mapping[str, float]) -> str:
    """A mean with its bounds, with a decimal where it matters."""
    digits = 1 if abs(mean["mean"]) < 10 else 0  # noqa: PLR2004
    return "{} ({} to {})".format(
        *(f"{mean[name]:+,.{digits}f}" for name in ("mean", "low", "high"))
    )
