"""ScienceWorld as a live bench: courses that are played in one process and do not disturb each other."""

import pytest

from tests.benchmarks.live.bench_scienceworld import OVER, Course, Process
from tests.benchmarks.scienceworld_world import PERFECT, Taken, Task

TASK = Task("count", 0)


class Counting:
    """A world without Java: it tells what was done in it since it began, and is done after three actions."""

    def __init__(self):
        self.done = []
        self.begun = 0

    def begin(self, task):
        self.done = []
        self.begun += 1
        return "Count."

    def take(self, action):
        self.done.append(action)
        return Taken(
            action,
            " ".join(self.done),
            100 * (len(self.done) // 3),
            len(self.done) >= 3,
        )


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setattr("tests.benchmarks.live.bench_scienceworld.World", Counting)
    made = Process()
    monkeypatch.setattr(
        "tests.benchmarks.live.bench_scienceworld._process", lambda name: made
    )
    return made


def test_courses_in_one_process_go_on_where_each_of_them_was(process):
    first = Course(TASK, process)
    assert first.take("a").answer == "a"
    second = first.fork()
    assert second.take("b").answer == "a b"
    assert first.take("c").answer == "a c"
    assert second.take("d").answer == "a b d"


def test_nothing_happens_after_the_end(process):
    course = Course(TASK, process)
    assert [course.take(action).done for action in "abc"] == [False, False, True]
    assert course.take("d") == Taken("d", OVER, PERFECT, done=True)
    assert process.world.done == ["a", "b", "c"]
    assert course.length == 3
