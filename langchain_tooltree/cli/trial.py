"""What `compare` works with: tasks, checks of answers, the journal of runs, and what the runs prove."""

import inspect
import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field, ValidationError

from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.flows import arun_flow
from langchain_tooltree.models import ATTEMPTS, Meter, document_prompt, filled_in, inner_config
from langchain_tooltree.text import compact_json, digest, json_object, shortened

LONGEST_ANSWER = 4_000  # characters of an answer that the journal keeps: about 1,000 tokens
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
    """Tasks of a JSONL file, or of a LangSmith dataset named `langsmith:NAME`.

    A line is an object with `input`, a text or a list of messages, and, where they are there, `expected` and `id`.

    Raises:
        ConfigurationError: If a line is no task, if two have one id, or if there is none; the message names the place.
    """
    if source.startswith("langsmith:"):
        tasks = _langsmith_tasks(source.partition(":")[2])
    else:
        lines = Path(source).read_text(encoding="utf-8").splitlines()
        tasks = [_task(line, f"{source}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
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
    return task if task.id else task.model_copy(update={"id": digest(compact_json(task.input), 8)})


def _langsmith_tasks(name: str) -> list[TrialTask]:
    """Examples as tasks: `messages` or the only value of the inputs, else all inputs as JSON; outputs likewise."""
    from langsmith import Client  # noqa: PLC0415 - it takes half a second, and is for these datasets alone
    from langsmith.utils import LangSmithError  # noqa: PLC0415 - as above

    def only(values: Mapping[str, Any] | None) -> Any:
        return next(iter(values.values())) if values and len(values) == 1 else values or None

    tasks = []
    try:
        for example in Client(auto_batch_tracing=False).list_examples(dataset_name=name):
            asked = (example.inputs or {}).get("messages") or only(example.inputs)
            asked = asked if isinstance(asked, str | list) else compact_json(asked)
            tasks.append(TrialTask(id=str(example.id), input=asked, expected=only(example.outputs)))
    except LangSmithError as error:
        msg = f"The LangSmith dataset {name!r} cannot be read ({described(error):.200}). Is LANGSMITH_API_KEY set?"
        raise ConfigurationError(msg) from error
    return tasks


# --- checks of answers ---

WHOLE = r"(?<!\w)(?<!\d[.,]){}(?!\w)(?![.,]\d)"
"""A word or number by itself: 24 is neither in R-424 nor in 24.5."""

Check = Callable[[TrialTask, str], Awaitable[float]]
"""Scores an answer in [0, 1]."""


def exact(expected: Any, answer: str) -> bool:
    """Whether the answer is what is expected, but for case and spaces."""
    return _normalized(answer) == _normalized(expected)


def contains(expected: Any, answer: str) -> bool:
    """Whether the answer has what is expected, or each of several things, as whole words, but for case and spaces."""
    parts = expected if isinstance(expected, list) else [expected]
    return all(re.search(WHOLE.format(re.escape(_normalized(part))), _normalized(answer)) for part in parts)


def json_fields(expected: Any, answer: str) -> bool:
    """Whether the JSON object that the answer is has the expected fields with these values."""
    data = json_object(answer) or {}
    return all(data.get(name) == value for name, value in expected.items())


def _normalized(value: Any) -> str:
    text = value if isinstance(value, str) else compact_json(value)
    return " ".join(text.casefold().split())


CHECKS: Mapping[str, Callable[[Any, str], bool]] = {"contains": contains, "exact": exact, "json": json_fields}
"""Checks by the names that the command knows; they need an `expected`."""


def check_of(check: str | Callable[..., Any] | BaseChatModel, tasks: Sequence[TrialTask]) -> Check:
    """A check by its name, by a function, or by a model that judges.

    A function is called as evaluators of openevals and agentevals are, with `inputs`, `outputs` and
    `reference_outputs`; it returns a bool, a number in [0, 1], or a mapping with a `score`, and may be async.

    Raises:
        ConfigurationError: If a task has nothing to be checked by, or not in the form that the check needs.
    """
    if isinstance(check, BaseChatModel):
        return partial(_judged, check)
    if callable(check):
        return partial(_evaluated, check)
    for task in tasks:
        if task.expected is None or (check == "json" and not isinstance(task.expected, dict)):
            what = 'an object of fields as its "expected"' if check == "json" else 'an "expected"'
            msg = f"The task {task.id!r} needs {what} for --check {check}. Add it, or pass --check MODULE:FUNCTION."
            raise ConfigurationError(msg)

    def named(*, outputs: str, reference_outputs: Any, **_: Any) -> bool:
        return CHECKS[check](reference_outputs, outputs)

    return partial(_evaluated, named)


async def _evaluated(function: Callable[..., Any], task: TrialTask, answer: str) -> float:
    """The score that an evaluator gives."""
    try:
        score = function(inputs=task.input, outputs=answer, reference_outputs=task.expected)
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
    meter = Meter(allowance=ATTEMPTS)
    prompt = document_prompt(JUDGE_PROMPT, {name: value for name, value in document.items() if value is not None})
    form = await arun_flow(filled_in(model, _JudgeForm, prompt, inner_config("compare", {}), meter))
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
    """A file that keeps each run, so that the same command goes on from there; runs that raised are made again.

    Raises:
        ConfigurationError: If it was begun by another command, or is no journal.
    """

    path: Path
    settings: Mapping[str, Any]
    runs: dict[tuple[str, str, str], Run] = field(default_factory=dict)  # by task, its version, and agent

    def __post_init__(self) -> None:
        header = json.dumps(dict(self.settings))
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        first, *lines = text.splitlines() or [header]
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
        self._append(run.model_copy(update={"answer": shortened(run.answer, LONGEST_ANSWER)}).model_dump_json())

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


# --- what the runs prove ---

Z = 1.96  # standard deviations of a normal distribution within which 95 % lie
LEVEL = 0.05  # probability of so uneven gains and losses by chance, below which they count
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
    tail = sum(math.comb(uneven, count) for count in range(min(gained, lost) + 1)) / 2**uneven
    return Paired(tasks, gained, lost, (gained - lost) / tasks, low, high, min(1.0, 2 * tail))


def mean_with_bounds(values: Sequence[float]) -> dict[str, float]:
    """The mean of values, one a task, with its bounds at 95 % by a bootstrap over the tasks."""
    means = np.random.default_rng(0).choice(values, (SAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    return {"mean": float(np.mean(values)), "low": float(low), "high": float(high)}


def recommendation(paired: Paired, name: str, *, failed: int) -> str:
    """Adopt it, do not, or too few tasks to tell, and then how many more it takes.

    `failed` is how many of the tasks the plain agent does not solve.
    """
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
        later = paired_difference(paired.tasks + more, round(paired.gained * times), round(paired.lost * times))
        if later.code != UNCERTAIN:
            return more
        more += max(1, more // 10)
    return None
