"""An agent that finds a key in three looks, run in a process of its own. Prints what is known before and after.

    python experienced_finder.py STORE EXPERIENCE

STORE is an SQLite file. EXPERIENCE is `learning`, or `killed` for an agent whose process dies before its run is judged.
"""

import json
import os
import sys

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience, create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel

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


def main(database, kind):
    model = ScriptedChatModel(replies=[*LOOKS, '{"missing": "nothing"}\nIt hangs on the shelf.'])
    verdict = verdict_that_never_comes if kind == "killed" else lambda trajectory: "shelf" in str(trajectory.messages)
    with SqliteStore.from_conn_string(database) as store:
        store.setup()
        experience = Experience(store, namespace=("tooltree",), verdict=verdict)
        agent = create_tooltree_agent(model, [look], effects={"look": "read"}, experience=experience)
        status = experience.status()
        agent.invoke({"messages": [("user", "Where is the red key?")]})
        known = {"pending": status.pending, "in_graph": status.in_graph}
        return {"known": known, "now": experience.settle().in_graph}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
