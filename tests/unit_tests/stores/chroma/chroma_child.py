"""What other processes do to a ChromaStore's folder, as a script that serves (see `child_processes`).

Each task prints what happened, a line of JSON.
"""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

from chromadb.api.client import Client
from chromadb.api.models.Collection import Collection
from langgraph.store.base import PutOp

from langchain_tooltree import ChromaStore
from tests.internals.child_processes import serve

NOTES = ("notes",)
ONE = ("one",)

BEFORE = [
    PutOp(NOTES, "changed", {"parts": ["red apples"]}, ["parts[*]"]),
    PutOp(NOTES, "deleted", {"parts": ["old lamp"]}, ["parts[*]"]),
    PutOp(NOTES, "kept", {"parts": ["deep river"]}, ["parts[*]"]),
    PutOp(ONE, "only", {"parts": ["high cloud"]}, ["parts[*]"]),
]
AFTER = [
    PutOp(NOTES, "changed", {"parts": ["blue sky"]}, ["parts[*]"]),
    PutOp(NOTES, "deleted", None),
    PutOp(NOTES, "new", {"parts": ["small bird"]}, ["parts[*]"]),
    PutOp(ONE, "only", None),
]


def tell(**facts):
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def attempt(work):
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the parent judges it
        tell(error=type(error).__name__, message=str(error))
    else:
        tell(error=None)


def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        work()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def use(folder):
    """Open the folder and read from it."""

    def work():
        with ChromaStore(folder) as store:
            store.get(NOTES, "a")

    attempt(work)


def hold(folder):
    """Keep the folder open until killed."""
    with ChromaStore(folder) as store:
        store.put(NOTES, "a", {"t": "x"})
        tell(holder=os.getpid())
        signal.pause()


def fork(folder):
    """Use an inherited store, and open its folder again, in a forked child; then show that the parent's is unharmed."""
    store = ChromaStore(folder)
    store.put(NOTES, "a", {"t": "x"})

    def work():
        attempt(lambda: store.get(NOTES, "a"))
        attempt(lambda: store.put(NOTES, "b", {"t": "x"}))
        store.close()
        attempt(lambda: ChromaStore(folder))

    tell(ended=in_child(work), value=store.get(NOTES, "a").value)
    store.close()


def orphan(folder):
    """Fork a child that outlives its parent, which has the folder open."""
    store = ChromaStore(folder)
    store.put(NOTES, "a", {"t": "x"})
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.closerange(
            0, 3
        )  # who waits for the parent's output would wait for the child
        signal.pause()
    tell(child=child)
    os.kill(os.getpid(), signal.SIGKILL)


def die(folder):
    """Die at each step of a batch, each time in a folder of its own: before it, and after it."""
    step = 0
    while True:
        for when in ("before", "after"):
            ended = in_child(
                partial(die_at, step, when, Path(folder) / f"{step}-{when}")
            )
            if ended == 0:
                tell(steps=step)
                return
            if ended != -signal.SIGKILL:
                tell(ended=ended)
                return
        step += 1


def die_at(step, when, folder):
    store = ChromaStore(folder)
    store.batch(BEFORE)
    calls = 0

    def deadly(method):
        def call(*arguments, **options):
            nonlocal calls
            last = calls == step
            calls += 1
            if last and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = method(*arguments, **options)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    Collection.upsert = deadly(Collection.upsert)
    Collection.delete = deadly(Collection.delete)
    Client.delete_collection = deadly(Client.delete_collection)
    store.batch(AFTER)


if __name__ == "__main__":
    serve(lambda task, folder: globals()[task](folder))
