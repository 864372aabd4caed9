"""Experience from one process to the next: what was learnt is there, and nothing is lost on the way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("experienced_finder.py")


def process(*arguments, ends=0):
    done = subprocess.run(  # noqa: S603 - the script beside this file
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == ends, done.stderr
    return json.loads(done.stdout) if ends == 0 else None


@pytest.mark.slow
def test_the_second_run_in_a_new_process_costs_no_call_more_and_no_tokens_to_speak_of(tmp_path):
    database = tmp_path / "experience.db"

    first = process(database, "learning", "-")
    second = process(database, "learning", "-")
    plain = process(database, "plain", "-")

    assert first["known"]["in_graph"] == 0
    assert second["known"]["in_graph"] == 1
    assert second["calls"] <= plain["calls"]
    assert second["tokens"] <= 1.06 * plain["tokens"], "nothing is told without need"
    assert second["answer"].startswith("It hangs on the shelf.")


@pytest.mark.slow
def test_a_run_whose_process_was_killed_before_its_verdict_is_judged_by_the_next(tmp_path):
    database = tmp_path / "experience.db"

    process(database, "killed", "-", ends=9)
    next_one = process(database, "learning", "-")

    assert next_one["known"] == {"pending": 1, "in_graph": 0}
    assert next_one["now"] == 2
