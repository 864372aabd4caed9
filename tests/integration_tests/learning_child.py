"""Agents and writers that learn, in processes of their own that may be killed; run as a script, it serves them.

See `child_processes`. Each task prints what it has learnt.
"""

import json
import os
import signal
import sys

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience, Trajectory, create_tooltree_agent
from langchain_tooltree.learning import fold
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.child_processes import serve

NAMESPACE = ("tooltree",)

LOOKS = [
    AIMessage("", tool_calls=[{"name": "look", "args": {"place": place}, "id": place}])
    for place in ("hall", "desk", "shelf")
]


@tool
def look(place: str) -> str:
    """Look at a place in the house, and say all that lies, hangs or stands there."""
    return f"{place}: " + ("a red key" if place == "shelf" else "nothing but dust")


def verdict_that_never_comes(_):
    """The process is killed while the run is judged."""
    os._exit(9)


def find(database, *, killed):
    """Find a key in three looks, and print what is known before and after, unless killed before the run is judged."""
    model = ScriptedChatModel(
        replies=[*LOOKS, '{"missing": "nothing"}\nIt hangs on the shelf.']
    )
    verdict = (
        verdict_that_never_comes
        if killed
        else lambda trajectory: "shelf" in str(trajectory.messages)
    )
    with SqliteStore.from_conn_string(database) as store:
        store.setup()
        experience = Experience(store, namespace=NAMESPACE, verdict=verdict)
        agent = create_tooltree_agent(
            model, [look], effects={"look": "read"}, experience=experience
        )
        status = experience.status()
        agent.invoke({"messages": [("user", "Where is the red key?")]})
        known = {"pending": status.pending, "in_graph": status.in_graph}
        sys.stdout.write(
            json.dumps({"known": known, "now": experience.settle().in_graph})
        )


def run_of(number):
    messages = [
        {"role": "user", "content": f"Find key number {number}."},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "function": {"name": "look", "arguments": "{}"}}
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": f"Key {number} lies on the desk.",
        },
        {"role": "assistant", "content": "It is on the desk."},
    ]
    return Trajectory.from_chat(messages, id=f"run {number}", success=True)


def write(database, first, count, *, killed):
    """Learn runs, and print each; be killed `before` or `after` a part of the fourth is stored, if `killed` says so."""
    fold.FOLD_DEFAULTS = fold.FoldDefaults(together=1)

    class Perishable(SqliteStore):
        def batch(self, ops):
            ops = list(ops)
            is_part = any(
                isinstance(op, PutOp)
                and op.namespace[-1] == fold.PARTS_LABEL
                and "run 3" in op.key
                for op in ops
            )
            if is_part and killed == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            results = super().batch(ops)
            if is_part and killed == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return results

    with Perishable.from_conn_string(database) as store:
        store.setup()
        experience = Experience(store, namespace=NAMESPACE)
        for number in range(first, first + count):
            experience.learn(run_of(number))
            sys.stdout.write(f"run {number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve(lambda task, **job: {"find": find, "write": write}[task](**job))
