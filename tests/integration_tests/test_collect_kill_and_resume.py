"""A collection that is killed again and again ends with the same experience, and repeats no more than it promises.

In an environment no question is asked twice after its reply was kept. A graph is tried again as a whole, unless its
attempt has ended: then none of its questions is asked again.
"""

import itertools
import signal
from collections import Counter
from pathlib import Path

import pytest
from child_processes import servers
from doomed_collection import LENGTH, NEEDED
from langgraph.store.sqlite import SqliteStore

from tests.internals.cfgm import NamedTask

FEWEST_KILLS = 8
"""In each scenario; 20 in all is what is promised."""

SCENARIOS = [
    ("environment", "sync", 1),
    ("environment", "async", 3),
    ("agent", "sync", 1),
    ("agent", "async", 1),
    ("graph", "sync", 3),
    ("graph", "async", 1),
]


@pytest.fixture(scope="module")
def server():
    with servers(Path(__file__).with_name("doomed_collection.py"), count=1) as running:
        yield running


class Trial:
    """One collection with its own database and log."""

    def __init__(self, server, folder, scenario):
        kind, path, concurrency = scenario
        self.server, self.folder = server, folder
        folder.mkdir()
        self.job = {
            "kind": kind,
            "path": path,
            "concurrency": concurrency,
            "database": str(folder / "store.db"),
            "log": str(folder / "log"),
            "report": str(folder / "report"),
        }

    def live(self, seed):
        return self.server.do({**self.job, "seed": seed})

    @property
    def log(self):
        return (self.folder / "log").read_text().splitlines()

    @property
    def report(self):
        return (self.folder / "report").read_text()

    def contents(self):
        """All that is kept, apart from what changes with each write."""
        with SqliteStore.from_conn_string(self.job["database"]) as store:
            return {
                (namespace, item.key): item.value
                for namespace in store.list_namespaces(limit=1_000)
                for item in store.search(namespace, limit=1_000)
                if item.namespace == namespace and namespace[-1] != "head"
            }


def asked_again(log):
    """Questions that were asked again after their reply had been kept, where one task is tried at a time."""
    kept, asked, again = set(), None, []
    for line in log:
        what, name = line.split(maxsplit=1)
        if what == "ask":
            again += [name] if name in kept else []
            asked = name
        elif what == "kept" and asked is not None and not name.startswith(("tasks", "head")):
            kept.add(asked)
            asked = None
        elif what == "world":
            asked = None
    return again


def asked_after_the_end(log):
    """Questions of attempts that had ended before they were asked, where one task is tried at a time."""
    ended, since, again = set(), [], []
    for line in log:
        what, name = line.split(maxsplit=1)
        if what == "world":
            since = []
        elif what == "ask":
            again += [name] if name in ended else []
            since.append(name)
        elif what == "kept" and (name.endswith("/ended") or name.startswith("trajectories")):
            ended.update(since)
    return again


def made_again(log):
    """Attempts for which a world was made after they had been stored, where one task is tried at a time."""
    stored, again = set(), []
    for line in log:
        what, name = line.split(maxsplit=1)
        if what == "kept" and name.startswith("trajectories"):
            stored.add(name.split()[1])
        elif what == "world":
            made = sum(NamedTask(name, name, "").attempt_id(number) in stored for number in (1, 2, 3))
            again += [name] if made > NEEDED[name] or made == 3 else []
    return again


def count(log, what):
    return Counter(line for line in log if line.startswith(f"{what} "))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: "-".join(map(str, scenario)))
def test_a_killed_collection_ends_like_one_that_was_not_and_repeats_what_it_says(server, tmp_path, scenario):
    kind, _, concurrency = scenario
    whole = Trial(server, tmp_path / "whole", scenario)
    assert whole.live(None) == 0
    questions = count(whole.log, "ask")
    assert set(questions.values()) == {1}

    doomed = Trial(server, tmp_path / "doomed", scenario)
    kills = 0
    for seed in itertools.count(1_000 * SCENARIOS.index(scenario)):
        ended = doomed.live(seed)
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        kills += 1
    assert kills >= FEWEST_KILLS
    assert doomed.contents() == whole.contents()
    assert not [namespace for namespace, _ in whole.contents() if namespace[-1] == "attempts"]

    asked = count(doomed.log, "ask")
    assert asked.keys() == questions.keys()
    repeated = 1 if kind == "environment" else LENGTH  # two of its actions are asked for at once, and it says "Done."
    assert asked.total() - questions.total() <= kills * concurrency * repeated
    assert count(doomed.log, "world").total() - count(whole.log, "world").total() <= kills * concurrency
    if concurrency == 1:
        assert asked_after_the_end(doomed.log) == []
        assert kind != "environment" or asked_again(doomed.log) == []
        assert made_again(doomed.log) == []
    assert last_line(doomed.report) == last_line(whole.report)


def last_line(report):
    """What all attempts cost."""
    return report.splitlines()[-1]
