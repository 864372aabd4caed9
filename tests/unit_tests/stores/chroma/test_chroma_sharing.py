"""Who may use a ChromaStore's folder: one process, with all its threads and stores; and what is left when it dies."""

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chroma_child import NOTES, ONE

from langchain_tooltree import ChromaStore
from langchain_tooltree.errors import StoreError, StoreLockedError
from langchain_tooltree.stores.chroma import LOCK_FILE
from tests.internals.child_processes import servers

CHILD = Path(__file__).with_name("chroma_child.py")

pytestmark = pytest.mark.slow  # they start processes, and wait for locks

needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="only systems with fork have its problems"
)


@pytest.fixture(scope="module")
def children():
    with servers(CHILD, count=1) as running:
        yield running


@pytest.fixture
def run(children, tmp_path_factory):
    """Has a child process do a task, and tells what it says of it."""
    output = tmp_path_factory.mktemp("output") / "lines.jsonl"

    def do(task, folder):
        output.write_text("")
        ended = children.do(
            {"task": task, "folder": str(folder), "output": str(output)}
        )
        assert ended in {0, -signal.SIGKILL}
        return [json.loads(line) for line in output.read_text().splitlines()]

    do.output = output
    return do


def test_a_second_process_is_refused_and_told_who_has_the_folder(tmp_path, run):
    with ChromaStore(tmp_path) as store:
        (refused,) = run("use", tmp_path)
        assert refused["error"] == "StoreLockedError"
        assert f"process (id {os.getpid()})" in refused["message"]
        assert "HttpClient" in refused["message"]
        store.put(NOTES, "a", {"t": "x"})
    assert run("use", tmp_path) == [{"error": None}]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_lock_of_a_process_that_died_is_taken_over(tmp_path, run):
    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(run, "hold", tmp_path)
        while not (
            held.done()
            or (run.output.exists() and run.output.read_text().endswith("\n"))
        ):
            time.sleep(0.01)
        holder = json.loads(run.output.read_text())["holder"]
        try:
            with pytest.raises(StoreLockedError, match=f"id {holder}"):
                ChromaStore(tmp_path)
        finally:
            os.kill(holder, signal.SIGKILL)
        held.result()
        assert (tmp_path / LOCK_FILE).read_text() == f"{holder}\n"
        with ChromaStore(tmp_path) as store:
            assert store.get(NOTES, "a").value == {"t": "x"}


@needs_fork
def test_a_forked_child_can_neither_use_nor_open_what_its_parent_has_open(
    tmp_path, run
):
    *refused, parent = run("fork", tmp_path)
    assert [one["error"] for one in refused] == ["StoreLockedError"] * 3
    assert "inherited by process" in refused[0]["message"]
    assert "inherited by process" in refused[2]["message"]
    assert parent == {"ended": 0, "value": {"t": "x"}}


@needs_fork
def test_a_forked_child_does_not_keep_the_folder_of_a_parent_that_died(tmp_path, run):
    (told,) = run("orphan", tmp_path)
    try:
        with ChromaStore(tmp_path) as store:
            store.put(NOTES, "a", {"t": "x"})
    finally:
        os.kill(told["child"], signal.SIGKILL)


@needs_fork
def test_a_process_that_dies_at_any_step_leaves_every_item_old_or_new(tmp_path, run):
    (told,) = run("die", tmp_path)
    assert told["steps"] >= 5
    old_changed, new_changed = {"red apples"}, {"blue sky"}
    seen = set()
    for folder in sorted(tmp_path.iterdir()):
        with ChromaStore(folder) as store:
            changed = set(store.get(NOTES, "changed").value["parts"])
            assert changed in (old_changed, new_changed), folder
            items = {item.key: item for item in store.search(())}
            assert (
                {"changed", "kept"}
                <= set(items)
                <= {"changed", "kept", "deleted", "new", "only"}
            )
            for (
                item
            ) in items.values():  # each is found by its text, and by no other text
                for part in item.value["parts"]:
                    best = store.search((), query=part)[0]
                    assert (best.key, round(best.score, 4)) == (item.key, 1.0), (
                        folder,
                        part,
                    )
            for part in (old_changed | new_changed) - changed:
                assert store.search((), query=part)[0].score < 0.5, (folder, part)
            expected = {item.namespace for item in items.values()}
            assert set(store.list_namespaces()) == expected
            store.put(NOTES, "changed", {"parts": ["last word"]}, ["parts[*]"])
            store.put(ONE, "only", {"parts": ["last leaf"]}, ["parts[*]"])
            assert store.search((), query="last leaf")[0].key == "only"
            seen.add(
                (
                    frozenset(changed),
                    "new" in items,
                    "deleted" in items,
                    "only" in items,
                )
            )
    assert len(seen) >= 4


def test_stores_of_one_process_share_the_folder_until_the_last_is_closed(tmp_path, run):
    link = tmp_path / "link"
    folder = tmp_path / "folder"
    first = ChromaStore(folder)
    link.symlink_to(folder)
    second = ChromaStore(str(link))
    first.put(NOTES, "a", {"t": "x"})
    second.put(NOTES, "b", {"t": "y"})
    second.delete(NOTES, "a")
    first.close()
    with pytest.raises(StoreError, match="closed"):
        first.get(NOTES, "b")
    assert second.get(NOTES, "b").value == {"t": "y"}
    assert run("use", folder)[0]["error"] == "StoreLockedError"
    second.close()
    assert run("use", folder) == [{"error": None}]


def test_a_namespace_emptied_through_one_store_can_be_filled_through_another(tmp_path):
    with ChromaStore(tmp_path) as first, ChromaStore(tmp_path) as second:
        first.put(NOTES, "a", {"t": "x"})
        assert second.get(NOTES, "a") is not None
        first.delete(NOTES, "a")
        second.put(NOTES, "b", {"t": "x"})
        assert [item.key for item in first.search(NOTES, query="x")] == ["b"]


def test_a_folder_that_could_not_be_opened_is_not_kept(tmp_path, run):
    (tmp_path / "chroma.sqlite3").write_text("this is no database")
    with pytest.raises(Exception, match=r"(?i)database"):
        ChromaStore(tmp_path)
    (tmp_path / "chroma.sqlite3").unlink()
    assert run("use", tmp_path) == [{"error": None}]


def test_threads_at_once_lose_no_writes(tmp_path):
    with (
        ChromaStore(tmp_path) as store,
        ChromaStore(tmp_path) as other,
        ThreadPoolExecutor(6) as threads,
    ):

        def work(number):
            used = (store, other)[number % 2]
            for turn in range(3):
                used.put(
                    (*NOTES, str(number % 3)),
                    f"{number}-{turn}",
                    {"t": f"text {number} {turn}"},
                    ["t"],
                )
                used.put(NOTES, "contested", {"by": number}, index=["by"])
                assert (
                    used.search(NOTES, query=f"text {number} {turn}", limit=1)[0].score
                    > 0.99
                )
                used.delete((*NOTES, str(number % 3)), f"{number}-{turn - 1}")

        list(threads.map(work, range(6)))
        left = {item.key for item in store.search(NOTES, limit=100)}
        assert left == {"contested", *(f"{number}-2" for number in range(6))}
        assert store._chroma.find(("indexed", NOTES)).count() == 1
