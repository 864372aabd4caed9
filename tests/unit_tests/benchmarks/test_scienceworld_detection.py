"""How the detection benchmark injects wrong actions and counts what a detector says, in a small world without Java."""

import random

import pytest

from langchain_tooltree.anomaly.rules import Anomaly
from tests.benchmarks.scienceworld_detection import Tally, tallied
from tests.benchmarks.scienceworld_injections import (
    AMBIGUOUS,
    KINDS,
    NORMAL,
    REFUSED,
    REPEATED_ON,
    Run,
    Step,
    wrong_run,
)
from tests.benchmarks.scienceworld_world import Taken, Task

TASK = Task("walk", 0)
GOLD = ["look around", "open door to hall", "go to hall", "inventory", "wait1"]
REFUSAL = "No known action matches that input."
QUESTION = "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n0:\tlook at"


class Corridor:
    """A world with a room, a door, a hall, and ScienceWorld's words for them."""

    def begin(self, task):
        self.taken, self.open, self.asked = [], False, False
        return "Walk."

    @property
    def last(self):
        return self.taken[-1] if self.taken else Taken("", "")

    def objects(self):
        return ["lamp"]

    def take(self, action):
        self.taken.append(Taken(action, self._answer(action)))
        return self.last

    def _answer(self, action):
        if self.asked:
            self.asked = False
            return "A door." if action == "0" else "Unknown action.  Type 'help'."
        self.asked = action in AMBIGUOUS
        was_open = self.open
        self.open = (
            was_open or action == "open door to hall"
        ) and action != "close door to hall"
        answers = {
            "open door to hall": "The door is already open."
            if was_open
            else "The door is now open.",
            "close door to hall": "The door is now closed.",
            "go to hall": "You move to the hall."
            if was_open
            else "The door is not open.",
            "eat lamp": "The lamp is not edible.",
            **dict.fromkeys(AMBIGUOUS, QUESTION),
            **dict.fromkeys(
                ("look around", "inventory", "wait1", "look at lamp"), "a lamp"
            ),
        }
        return answers.get(action, REFUSAL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_an_injection_goes_wrong_once_and_the_gold_path_goes_on(kind, seed):
    run = wrong_run(Corridor(), TASK, GOLD, kind, random.Random(seed))  # noqa: S311 - a seed, no secret
    assert [step.label for step in run.steps].count(kind) == 1
    assert REFUSED not in {step.label for step in run.steps}
    at = next(place for place, step in enumerate(run.steps) if step.label == kind)
    assert at >= run.counted
    rest = [step.taken.action for step in run.steps[at + 1 :]]
    before = [step.taken.action for step in run.steps[: run.counted]]
    assert before == GOLD[: len(before)]
    assert rest[len(rest) - len(GOLD) + len(before) :] == GOLD[len(before) :]


def steps(*labelled):
    return tuple(
        Step(Taken(action, answer), label) for action, answer, label in labelled
    )


RUN = Run(
    TASK,
    "Walk.",
    steps(
        ("look around", "a lamp", NORMAL),
        ("grab lamp", REFUSAL, "unknown verb"),
        ("eat lamp", REFUSAL, "missing object"),
        ("inventory", "a lamp", REPEATED_ON),
        ("go to hall", "The door is not open.", REFUSED),
        ("wait1", "You wait.", NORMAL),
    ),
    counted=1,
)


def alarm(messages):
    """Finds something off in everything but one observation."""
    last = messages[-1]
    found = Anomaly(
        "phrase",
        last.text,
        0.9,
        recoverable=True,
        tool=last.name,
        call_id=last.tool_call_id,
    )
    return None if len(messages) == 7 else found


def test_what_a_detector_says_is_counted_by_label():
    tally = tallied([RUN], alarm)
    assert tally.steps == {
        "unknown verb": 1,
        "missing object": 1,
        REPEATED_ON: 1,
        REFUSED: 1,
        NORMAL: 1,
    }
    assert tally.noticed == {
        "unknown verb": 1,
        "missing object": 0,
        REPEATED_ON: 1,
        REFUSED: 1,
        NORMAL: 1,
    }
    assert [(each["action"], each["evidence"]) for each in tally.false] == [
        ("wait1", "You wait.")
    ]
    assert [(each["action"], each["injected"]) for each in tally.missed] == [
        ("eat lamp", "missing object")
    ]


def test_figures_are_over_the_injections_and_over_the_normal_steps():
    figures = (tallied([RUN], alarm) + tallied([RUN], lambda messages: None)).figures()
    assert figures["recall"] == 1 / 4
    assert figures["precision"] == 2 / 3
    assert figures["false_per_1000"] == 500
    assert figures["kinds"]["unknown verb"] == {"recall": 0.5, "noticed": 1, "steps": 2}
    assert figures["kinds"][REFUSED]["recall"] == 0.5


def test_without_any_step_there_are_no_shares():
    figures = Tally().figures()
    assert (figures["recall"], figures["precision"], figures["false_per_1000"]) == (
        None,
        None,
        0,
    )
