"""Detection on ScienceWorld: does an AnomalyDetector notice what goes wrong, and nothing else?

What counts, decided without the detector and its phrases:

- A step that the environment answers with an error text (`REFUSALS`) is an anomaly, whether injected or a step of the
  gold path. So is the last of `REPEATS` repetitions of an action that changes nothing.
- Every other step is normal: those of the gold path, the first repetitions of a useless action, and what it takes to
  go on after an injection, such as the answer to a question of the environment. `wait` is a declared poller.
- If the gold path itself goes on with the very action that was repeated, and the answer is the same, that step counts
  neither way: to report it is right, and so is silence, since it has been reported.
- Steps before an injection are those of the run without it, where they count once.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tooltree.anomaly.rules import Anomaly
from tests.benchmarks.scienceworld_injections import (
    KINDS,
    NORMAL,
    REFUSED,
    REPEATED_ON,
    Run,
    gold_run,
    wrong_run,
)
from tests.benchmarks.scienceworld_world import Task, World, dialogue

SHOWN = 160
"""Characters of an answer that are printed."""

Check = Callable[[Sequence[BaseMessage]], Anomaly | None]


def runs_of(world: World, task: Task, *, copies: int, seed: int) -> list[Run]:
    """The gold run of a task, and the copies of it in which something goes wrong."""
    gold = world.gold(task)
    runs = [gold_run(world, task, gold)]
    for kind in KINDS:
        for copy in range(copies):
            chance = random.Random(f"{seed} {task} {kind} {copy}")  # noqa: S311 - nothing depends on its secrecy
            run = wrong_run(world, task, gold, kind, chance)
            runs += [] if run is None else [run]
    return runs


@dataclass
class Tally:
    """What a detector said to steps.

    Attributes:
        steps: How many steps there were of each label.
        noticed: To how many of them it said that something is off.
        false: The normal steps to which it did.
        missed: The anomalies to which it did not.
    """

    steps: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)
    false: list[dict[str, str]] = field(default_factory=list)
    missed: list[dict[str, str]] = field(default_factory=list)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.steps + other.steps,
            self.noticed + other.noticed,
            self.false + other.false,
            self.missed + other.missed,
        )

    def figures(self) -> dict[str, Any]:
        """Recall and precision of all kinds and of each, with counts."""
        anomalies = {
            label: count
            for label, count in self.steps.items()
            if label not in {NORMAL, REPEATED_ON}
        }
        injected = [label for label in anomalies if label != REFUSED]
        right = sum(self.noticed[label] for label in anomalies)
        normal, wrong = self.steps[NORMAL], self.noticed[NORMAL]
        return {
            "recall": _share(
                sum(self.noticed[label] for label in injected),
                sum(anomalies[label] for label in injected),
            ),
            "precision": _share(right, right + wrong),
            "false_per_1000": 1_000 * (_share(wrong, normal) or 0.0),
            "normal_steps": normal,
            "false_positives": wrong,
            "anomalies": sum(anomalies.values()),
            "kinds": {
                label: {
                    "recall": _share(self.noticed[label], anomalies[label]),
                    "noticed": self.noticed[label],
                    "steps": anomalies[label],
                }
                for label in (*KINDS, REFUSED)
                if label in anomalies
            },
            "false": self.false,
            "missed": self.missed,
        }


def tallied(runs: Iterable[Run], check: Check) -> Tally:
    """Have every step of runs checked as it happens.

    Args:
        runs: The runs.
        check: Says of the conversation so far whether its latest result is an anomaly.

    Returns:
        What was said.
    """
    tally = Tally()
    for run in runs:
        messages = dialogue(run.text, [step.taken for step in run.steps])
        for place in range(run.counted, len(run.steps)):
            step = run.steps[place]
            anomaly = check(messages[: 2 * place + 3])
            tally.steps[step.label] += 1
            tally.noticed[step.label] += anomaly is not None
            told = {
                "task": str(run.task),
                "action": step.taken.action,
                "answer": step.taken.answer[:SHOWN],
            }
            if step.label == NORMAL and anomaly is not None:
                tally.false.append(
                    {**told, "kind": anomaly.kind, "evidence": anomaly.evidence[:SHOWN]}
                )
            elif step.label not in {NORMAL, REPEATED_ON} and anomaly is None:
                tally.missed.append({**told, "injected": step.label})
    return tally


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
