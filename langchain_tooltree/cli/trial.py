"""What `compare` is about: tasks, checks of answers, the journal of what was done, and what it proves."""

import inspect
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.flows import arun_flow
from langchain_tooltree.models import ATTEMPTS, Meter, document_prompt, filled_in, inner_config
from langchain_tooltree.text import compact_json, digest, json_object, shortened

LONGEST_ANSWER = 4_000  # characters of an answer that the journal keeps: about 1,000 tokens
SUCCESS = 0.5  # score in [0, 1] of an evaluator from which a task counts as solved

JUDGE_PROMPT = """\
You judge an assistant's answer to a task.

You get one JSON document: `task`, what was asked for; `expected`, what a right answer says, if that is known; and \
`answer`. Is the answer right and complete? Words may differ from what is expected; facts and figures may not."""


@dataclass(frozen=True, slots=True)
class TrialTask:
    """Something to be done, and what is expected of the answer."""

    id: str
    input: Any  # a text, or messages
    expected: Any = None


def load_tasks(source: str) -> list[TrialTask]:
    """Tasks of a JSONL file, a line each, or of a LangSmith dataset named `langsmith:NAME`.

    A line is an object with `input`, a text or a list of messages, and, where they are there, `expected` and `id`.

    Raises:
        ConfigurationError: If a line is no task, or there is none; the message names the line.
    """
    if source.startswith("langsmith:"):
        tasks = _langsmith_tasks(source.partition(":")[2])
    else:
        lines = Path(source).read_text(encoding="utf-8").splitlines()
        tasks = [_task(line, f"{source}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not tasks:
        msg = f'There is no task in {source}. Write one a line: {{"input": "...", "expected": "..."}}.'
        raise ConfigurationError(msg)
    ids = [task.id for task in tasks]
    if repeated := next((each for each in ids if ids.count(each) > 1), None):
        msg = f'Two tasks in {source} are the same, or have the id {repeated!r}. Give each an "id" of its own.'
        raise ConfigurationError(msg)
    return tasks


def _task(line: str, where: str) -> TrialTask:
    try:
        data = json.loads(line)
    except ValueError as error:
        msg = f"{where} is no JSON ({error}). Write one object a line."
        raise ConfigurationError(msg) from error
    given = data.get("input") if isinstance(data, dict) else None
    if not given or not isinstance(given, str | list):
        msg = f'{where} is no task: {line:.80}. It needs an "input", a text or a list of messages.'
        raise ConfigurationError(msg)
    return TrialTask(str(data.get("id") or digest(compact_json(given), 8)), given, data.get("expected"))


def _langsmith_tasks(name: str) -> list[TrialTask]:
    from langsmith import Client  # noqa: PLC0415 - it takes half a second, and is for these datasets alone

    tasks = []
    for example in Client().list_examples(dataset_name=name):
        inputs, outputs = example.inputs or {}, example.outputs or {}
        given = inputs.get("messages") or next(iter(inputs.values()), None)
        expected = next(iter(outputs.values()), None) if len(outputs) == 1 else outputs or None
        tasks.append(TrialTask(str(example.id), given, expected))
    return tasks


Check = Callable[[TrialTask, str], Awaitable[float]]
"""Scores an answer in [0, 1]."""


def exact(task: TrialTask, answer: str) -> float:
    """Whether the answer is what is expected, but for case and spaces."""
    return float(_plain(answer) == _plain(task.expected))


def contains(task: TrialTask, answer: str) -> float:
    """Whether the answer has what is expected, or each of several things, but for case and spaces."""
    wanted = task.expected if isinstance(task.expected, list) else [task.expected]
    return float(all(_plain(each) in _plain(answer) for each in wanted))


def json_fields(task: TrialTask, answer: str) -> float:
    """Whether the JSON object in the answer has the expected fields with these values."""
    data = json_object(answer) or {}
    return float(all(data.get(name) == value for name, value in dict(task.expected).items()))


CHECKS: Mapping[str, Callable[[TrialTask, str], float]] = {"contains": contains, "exact": exact, "json": json_fields}
"""Checks by the names that the command knows; they need an `expected`."""


def check_of(check: str | Callable[..., Any] | BaseChatModel, tasks: Iterable[TrialTask]) -> Check:
    """A check by its name, by a function, or by a model that judges.

    A function is called as evaluators of openevals and agentevals are, with `inputs`, `outputs` and
    `reference_outputs`; it returns a bool, a number in [0, 1], or a mapping with a `score`, and may be async.

    Raises:
        ConfigurationError: If a task has nothing to be checked by, or not in the form that the check needs.
    """
    if isinstance(check, BaseChatModel):
        return _Judge(check)
    if callable(check):
        return _Evaluator(check)
    for task in tasks:
        if task.expected is None or (check == "json" and not isinstance(task.expected, dict)):
            what = 'an object of fields as its "expected"' if check == "json" else 'an "expected"'
            msg = f"The task {task.id!r} needs {what} for --check {check}. Add it, or pass --check MODULE:FUNCTION."
            raise ConfigurationError(msg)
    function = CHECKS[check]

    async def checked(task: TrialTask, answer: str) -> float:
        return function(task, answer)

    return checked


@dataclass(frozen=True, slots=True)
class _Evaluator:
    function: Callable[..., Any]

    async def __call__(self, task: TrialTask, answer: str) -> float:
        score = self.function(inputs=task.input, outputs=answer, reference_outputs=task.expected)
        if inspect.isawaitable(score):
            score = await score
        if isinstance(score, Mapping):
            score = score.get("score")
        if not isinstance(score, bool | int | float) or not 0 <= score <= 1:
            msg = (
                f"The check returned {score!r:.80} for {task.id!r}; it has to be a bool, a number in [0, 1] or a score."
            )
            raise ConfigurationError(msg)
        return float(score)


class _VerdictForm(BaseModel):
    """What a model says of an answer."""

    reason: str = Field(description="Why, in one sentence")
    right: bool = Field(description="Whether the answer is right and complete")


@dataclass(frozen=True, slots=True)
class _Judge:
    model: BaseChatModel

    async def __call__(self, task: TrialTask, answer: str) -> float:
        document = {"task": task.input, "expected": task.expected, "answer": answer}
        shown = {name: value for name, value in document.items() if value is not None}
        meter = Meter(allowance=ATTEMPTS)
        prompt, config = document_prompt(JUDGE_PROMPT, shown), inner_config("compare", {})
        form = await arun_flow(filled_in(self.model, _VerdictForm, prompt, config, meter))
        if form is None:
            msg = f"The judge gave no usable verdict on {task.id!r}: {'; '.join(meter.problems)}."
            raise ConfigurationError(msg)
        return float(form.right)


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else compact_json(value)
    return " ".join(text.casefold().split())


@dataclass(frozen=True, slots=True)
class TrialRun:
    """What became of a task with one of the agents."""

    task: str
    arm: str
    score: float  # in [0, 1]
    answer: str = ""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    error: str = ""  # why it did not come to an answer

    @property
    def solved(self) -> bool:
        """Whether it counts as solved."""
        return not self.error and self.score >= SUCCESS


@dataclass
class Journal:
    """A file that keeps each attempt, so that the same command goes on from there.

    Raises:
        ConfigurationError: If it was begun by another command, or is no journal.
    """

    path: Path
    settings: Mapping[str, Any]
    attempts: dict[tuple[str, str], TrialRun] = field(default_factory=dict)  # by task and arm

    def __post_init__(self) -> None:
        if not self.path.exists() or not self.path.read_text(encoding="utf-8").strip():
            self._write(dict(self.settings))
            return
        first, *lines = self.path.read_text(encoding="utf-8").splitlines()
        try:
            begun = json.loads(first)
        except ValueError:
            begun = None
        if begun != dict(self.settings):
            msg = (
                f"{self.path} was begun with other settings ({begun!r:.200}), or is no journal. Name another file "
                "with --journal, or remove this one."
            )
            raise ConfigurationError(msg)
        for line in lines:
            try:
                attempt = TrialRun(**json.loads(line))
            except (ValueError, TypeError):
                continue  # cut off as the process ended: that attempt is made again
            self.attempts[attempt.task, attempt.arm] = attempt
        if lines and not self.path.read_text(encoding="utf-8").endswith("\n"):
            self._append("")

    def add(self, attempt: TrialRun) -> None:
        """Keep an attempt."""
        self.attempts[attempt.task, attempt.arm] = attempt
        self._write({**asdict(attempt), "answer": shortened(attempt.answer, LONGEST_ANSWER)})

    def _write(self, data: Mapping[str, Any]) -> None:
        self._append(json.dumps(data, ensure_ascii=False, default=str))

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


# --- what it proves ---

Z = 1.96  # standard deviations of a normal distribution within which 95 % lie
LEVEL = 0.05  # probability of so uneven gains and losses by chance, below which they count
MOST_TASKS = 2_000  # more than that nobody collects to tell
LITTLE = 0.05  # difference in success that hardly anybody would change an agent for


class Paired(NamedTuple):
    """Two agents over the same tasks: the difference in success of the second to the first, in [-1, 1]."""

    tasks: int
    gained: int  # tasks that only the second one has solved
    lost: int  # tasks that only the first one has solved
    difference: float
    low: float  # bounds at 95 %
    high: float
    p: float  # of so uneven gains and losses by chance


def paired(pairs: Sequence[tuple[bool, bool]]) -> Paired:
    """Compare success task by task."""
    gained, lost = (sum(pair == each for pair in pairs) for each in ((False, True), (True, False)))
    return weighed(len(pairs), gained, lost)


def weighed(tasks: int, gained: int, lost: int) -> Paired:
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


class Recommendation(NamedTuple):
    """What a comparison says, in one sentence, and by its exit code."""

    code: int
    text: str


ADOPT, REJECT, UNCERTAIN = 0, 1, 3


def recommendation(found: Paired, name: str) -> Recommendation:
    """Adopt, do not, or too few tasks to tell."""
    bounds = f"{found.difference:+.0%}, between {found.low:+.0%} and {found.high:+.0%} (95 %)"
    if found.low > 0 and found.p < LEVEL:
        return Recommendation(ADOPT, f"Adopt {name}: it solves more of these tasks ({bounds}).")
    if found.high < 0 and found.p < LEVEL:
        return Recommendation(REJECT, f"Do not adopt {name}: it solves fewer of these tasks ({bounds}).")
    if found.high < LITTLE:
        return Recommendation(
            REJECT, f"Do not adopt {name}: it gains less than {LITTLE:.0%} of such tasks, if any ({bounds})."
        )
    more = more_tasks(found)
    wanted = "nothing speaks for either so far" if more is None else f"it takes about {more} more, if it stays so"
    return Recommendation(UNCERTAIN, f"Not enough tasks to tell about {name} ({bounds}): {wanted}.")


def more_tasks(found: Paired) -> int | None:
    """How many more tasks it takes to tell, if gains and losses go on as before; `None` if that would be too many."""
    more = 1
    while more <= MOST_TASKS:
        times = (found.tasks + more) / found.tasks
        then = weighed(found.tasks + more, round(found.gained * times), round(found.lost * times))
        if then.p < LEVEL and not then.low <= 0 <= then.high:
            return more
        more += max(1, more // 10)
    return None


def failure(error: BaseException) -> str:
    """An error of an agent in a line of the journal."""
    return shortened(described(error), 300)
