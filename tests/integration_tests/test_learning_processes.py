"""Experience from one process to the next: what was learnt is there, and nothing is lost on the way."""

import json
import signal
from pathlib import Path

import pytest
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience
from tests.internals.child_processes import servers

SCRIPT = Path(__file__).with_name("learning_child.py")


@pytest.fixture(scope="module")
def children():
    with servers(SCRIPT, count=1) as running:
        yield running


@pytest.fixture
def do(children, tmp_path):
    """Has a task done in a process of its own, and gives what it printed."""

    def done(task, *, ends=0, **job):
        (tmp_path / "output").write_text("")
        job |= {
            "task": task,
            "database": str(tmp_path / "experience.db"),
            "output": str(tmp_path / "output"),
        }
        assert children.do(job) == ends
        return (tmp_path / "output").read_text()

    return done


@pytest.fixture
def written(do):
    """The runs that a process of its own has learnt."""

    def write(first, count, killed=None):
        ends = -signal.SIGKILL if killed else 0
        return do(
            "write", first=first, count=count, killed=killed, ends=ends
        ).splitlines()

    return write


def test_a_run_whose_process_was_killed_before_its_verdict_is_judged_by_the_next(do):
    do("find", killed=True, ends=9)
    next_one = json.loads(do("find", killed=False))

    assert next_one["known"] == {"pending": 1, "in_graph": 0}
    assert next_one["now"] == 2


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_process_that_is_killed_while_it_stores_a_part_has_lost_nothing(
    tmp_path, written, killed
):
    database = tmp_path / "experience.db"

    told = written(0, 9, killed)
    assert len(told) == 3
    written(9, 1)

    with SqliteStore.from_conn_string(str(database)) as store:
        experience = Experience(store, namespace=("tooltree",))
        assert {run.id for run in experience.store.trajectories()} == {
            *told,
            "run 3",
            "run 9",
        }
        assert len(experience.graph) == 5
        [suggestion] = experience.graph.suggest(None)
        assert suggestion.support == 5


def test_two_processes_see_each_others_runs(tmp_path, written):
    database = tmp_path / "experience.db"
    written(0, 3)
    with SqliteStore.from_conn_string(str(database)) as store:
        experience = Experience(store, namespace=("tooltree",))
        assert len(experience.graph) == 3

        written(3, 5)
        assert len(experience.graph) == 8

        experience.forget(run="run 1")
        assert written(8, 1) == ["run 8"]
        assert sorted(
            run.id for run in experience.store.similar("Find key number 8.", k=9)
        ) == [f"run {number}" for number in (0, 2, 3, 4, 5, 6, 7, 8)]
        assert "run 1" not in repr(
            [item.value for item in store.search(("tooltree",), limit=100)]
        )
