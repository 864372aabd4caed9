"""Learns runs into an SQLite file, in a process of its own that may be killed.

    python -m tests.integration_tests.segment_writer STORE FIRST COUNT KILLED

KILLED is `before` or `after` the write of a segment at which the process is killed with SIGKILL, or `never`. Each run
that was learnt is printed.
"""

import os
import signal
import sys

from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience, Trajectory
from langchain_tooltree.learning import fold

NAMESPACE = ("tooltree",)


def run_of(number):
    messages = [
        {"role": "user", "content": f"Find key number {number}."},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": f"Key {number} lies on the desk."},
        {"role": "assistant", "content": "It is on the desk."},
    ]
    return Trajectory.from_chat(messages, id=f"run {number}", success=True)


def main(database, first, count, killed):
    fold.DEFAULTS = fold.FoldDefaults(segment=4)

    class Perishable(SqliteStore):
        def batch(self, ops):
            ops = list(ops)
            is_segment = any(isinstance(op, PutOp) and op.namespace[-1] == fold.SEGMENTS for op in ops)
            if is_segment and killed == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            results = super().batch(ops)
            if is_segment and killed == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return results

    with Perishable.from_conn_string(database) as store:
        store.setup()
        experience = Experience(store, namespace=NAMESPACE)
        for number in range(int(first), int(first) + int(count)):
            experience.learn(run_of(number))
            sys.stdout.write(f"run {number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
