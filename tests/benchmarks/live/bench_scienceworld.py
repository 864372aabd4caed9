"""ScienceWorld (Wang et al. 2022): school science in a text world. Needs the package `scienceworld` and Java.

Tasks are the variations that the benchmark keeps for tests, at most ten of each of the 30 types as is usual;
`--category` names one type, such as `boil`. Success is the benchmark's full score of 100, and its score is reported
beside that. Once a task is over, well or badly, nothing more can be done; whoever spoilt it has a score of 0.

A task takes 5 to 260 actions, 30 on average, each a model call or a part of one: allow them with `--steps 100`, and a
search its budget with `--model-calls 300`.

All copies share one Java process beside that of the real world. A copy takes its actions there anew whenever another
one was at it: a fifth of a second, and some milliseconds an action. The world is the same each time, but for the order
of what is listed and for a degree or two of temperature, so what was tried in a copy may look a little different when
it is done.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.util import Finalize

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from tests.benchmarks import scienceworld_world
from tests.benchmarks.live.episode import Options, Outcome, Typical, UsageError, chosen
from tests.benchmarks.scienceworld_world import PERFECT, Taken, Task, World, tools_of

MOST_OF_A_TYPE = 10
"""Test variations of one task type, as agents are usually measured: 270 tasks or so instead of 1,800."""

SYSTEM = """\
You act in a text world, a house with a workshop, a kitchen, a greenhouse and a yard around it. Do the task with your \
tools, one action after another. Look around in each new room, open doors before you go through them, and name things \
as the world names them. To focus on something is part of some tasks: do it only where the task asks for it, for it \
cannot be taken back. Stop when the task is done."""

OVER = "The task is over."


class ScienceWorldBench:
    """Variations of the benchmark's task types."""

    typical = Typical(model_calls=32, input_tokens=3_500, output_tokens=40)
    """Gold's actions and an answer; the conversation grows by a hundred tokens an action."""

    def tasks(self, options: Options) -> list["ScienceWorldTask"]:
        """The tasks that the options choose."""
        if lacking := scienceworld_world.missing():
            raise UsageError(lacking)
        world = _process("real").world
        names = world.task_names()
        if options.category and options.category not in names:
            msg = f"--category {options.category!r} is no task type of scienceworld; choose one of {', '.join(names)}."
            raise UsageError(msg)
        types = [options.category] if options.category else names
        found = [
            Task(name, each)
            for name in types
            for each in world.test_variations(name)[:MOST_OF_A_TYPE]
        ]
        return chosen([ScienceWorldTask(task) for task in found], options)


@dataclass(frozen=True)
class ScienceWorldTask:
    """A variation."""

    task: Task

    @property
    def id(self) -> str:
        """Its type and its number."""
        return str(self.task)

    def start(self) -> "ScienceWorldEpisode":
        """A new episode. It takes the real world over from the one before."""
        return ScienceWorldEpisode(self.task)


class ScienceWorldEpisode:
    """A task under way."""

    system = SYSTEM
    effects: Mapping[str, str] = {}  # every action takes time in the world

    def __init__(self, task: Task) -> None:
        self.id = str(task)
        self.sandbox = Course(task, _process("real"))
        self._text = self.sandbox.begin()

    @property
    def tools(self) -> Sequence[BaseTool]:
        """What an agent can do."""
        return self.sandbox.tools

    def next_request(self, messages: Sequence[BaseMessage]) -> str | None:
        """The task; there is no second request."""
        return None if messages else self._text

    def outcome(self, messages: Sequence[BaseMessage]) -> Outcome:
        """The score of the world."""
        score = self.sandbox.last.score
        return Outcome(
            score == PERFECT,
            max(score, 0) / PERFECT,
            f"score {score} after {self.sandbox.length} actions",
        )


class Course:
    """A course of actions in a world, and a sandbox: a copy is a course that takes the same actions again.

    Args:
        task: The task.
        process: Where it is played.
        actions: The actions so far.
        last: The latest of them, and what came of it.
    """

    def __init__(
        self,
        task: Task,
        process: "Process",
        actions: Sequence[str] = (),
        last: Taken | None = None,
    ) -> None:
        self.last = last or Taken("", "")
        self._task = task
        self._process = process
        self._actions = tuple(actions)

    @property
    def length(self) -> int:
        """How many actions were taken."""
        return len(self._actions)

    @property
    def tools(self) -> list[BaseTool]:
        """The tools of an agent that plays here."""
        return tools_of(self)

    def begin(self) -> str:
        """Begin the task anew; returns its text."""
        return self._process.begin(self._task)

    def take(self, action: str) -> Taken:
        """Take an action, unless all is over."""
        if self.last.done:
            return Taken(action, OVER, self.last.score, done=True)
        self.last = self._process.take(self._task, self._actions, action)
        self._actions = (*self._actions, action)
        return self.last

    def fork(self) -> "Course":
        """A copy, which is played elsewhere."""
        return Course(self._task, _process("copies"), self._actions, self.last)


class Process:
    """A Java process that plays one course at a time; safe to use from several threads."""

    def __init__(self) -> None:
        self.world = World()
        self._lock = threading.Lock()
        self._task: Task | None = None
        self._played: list[str] = []

    def begin(self, task: Task) -> str:
        """Begin a task; returns its text."""
        with self._lock:
            self._task, self._played = task, []
            return self.world.begin(task)

    def take(self, task: Task, before: Sequence[str], action: str) -> Taken:
        """Take an action after those before, which are taken anew if others were taken here."""
        with self._lock:
            if self._task != task or self._played != [*before[: len(self._played)]]:
                self.world.begin(task)
                self._task, self._played = task, []
            for each in (*before[len(self._played) :], action):
                self._played.append(each)
                taken = self.world.take(each)
            return taken


@cache
def _process(name: str) -> Process:
    """The process of this name, which is started where it is first needed, and ended with this one."""
    process = Process()
    Finalize(None, process.world.close, exitpriority=1)
    return process
