"""Experience from one process to the next: what was learnt is there, and nothing is lost on the way."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience

SCRIPT = Path(__file__).with_name("experienced_finder.py")
WRITER = "tests.integration_tests.segment_writer"


def process(*arguments, ends=0):
    done = subprocess.run(  # noqa: S603 - the script beside this file
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == ends, done.stderr
    return json.loads(done.stdout) if ends == 0 else None


@pytest.mark.slow
def test_a_run_whose_process_was_killed_before_its_verdict_is_judged_by_the_next(tmp_path):
    database = tmp_path / "experience.db"

    process(database, "killed", ends=9)
    next_one = process(database, "learning")

    assert next_one["known"] == {"pending": 1, "in_graph": 0}
    assert next_one["now"] == 2


def written(database, first, count, killed="never"):
    """The runs that a process of its own has learnt."""
    command = [sys.executable, "-m", WRITER, str(database), str(first), str(count), killed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - as above
    assert done.returncode == (0 if killed == "never" else -signal.SIGKILL), done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_process_that_is_killed_while_it_writes_a_segment_has_lost_nothing(tmp_path, killed):
    database = tmp_path / "experience.db"

    told = written(database, 0, 9, killed)
    assert len(told) == 3, "the fourth run makes a segment"
    written(database, 9, 1)

    with SqliteStore.from_conn_string(str(database)) as store:
        experience = Experience(store, namespace=("tooltree",))
        assert {run.id for run in experience.store.trajectories()} == {*told, "run 3", "run 9"}
        assert len(experience.graph) == 5
        [suggestion] = experience.graph.suggest(None)
        assert suggestion.support == 5


@pytest.mark.slow
def test_two_processes_see_each_others_runs(tmp_path):
    database = tmp_path / "experience.db"
    written(database, 0, 3)
    with SqliteStore.from_conn_string(str(database)) as store:
        experience = Experience(store, namespace=("tooltree",))
        assert len(experience.graph) == 3

        written(database, 3, 5)
        assert len(experience.graph) == 8

        experience.forget(run="run 1")
        assert written(database, 8, 1) == ["run 8"]
        assert sorted(run.id for run in experience.store.similar("Find key number 8.", k=9)) == [
            f"run {number}" for number in (0, 2, 3, 4, 5, 6, 7, 8)
        ]
        assert "run 1" not in repr([item.value for item in store.search(("tooltree",), limit=100)])
