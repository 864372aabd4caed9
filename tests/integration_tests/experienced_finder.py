"""An agent that finds a key in three looks, run in a process of its own. Prints what its run cost.

    python experienced_finder.py STORE EXPERIENCE THREAD

STORE is an SQLite file. EXPERIENCE is `plain` for an agent without planner and experience, `learning` for one with
both, or `killed` for one whose process dies before its run is judged. THREAD is `-` for none.
"""

import json
import os
import sys

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience, create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel

PLACES = ("hall", "desk", "shelf")
ANSWER = '{"missing": "nothing"}\nIt hangs on the shelf.'
SYSTEM = "You find what people have mislaid in a large old house, and say where it is. " * 60


@tool
def look(place: str) -> str:
    """Look at a place in the house, and say all that lies, hangs or stands there."""
    return f"{place}: " + ("a red key" if place == "shelf" else "nothing but dust")


def finding(turns=1):
    """A model that looks at each place in turn, and then answers."""
    looks = [
        AIMessage("", tool_calls=[{"name": "look", "args": {"place": place}, "id": f"{turn}{place}"}])
        for turn in range(turns)
        for place in PLACES
    ]
    each = len(PLACES)
    return ScriptedChatModel(
        replies=[reply for turn in range(turns) for reply in (*looks[turn * each : (turn + 1) * each], ANSWER)]
    )


def run(agent, model, thread="-", **values):
    """Ask the agent where the key is, and say what that cost."""
    config = {"configurable": {"thread_id": thread, **values}} if thread != "-" else {"configurable": values}
    messages = agent.invoke({"messages": [("user", "Where is the red key?")]}, config)["messages"]
    tokens = sum((message.usage_metadata or {}).get("total_tokens", 0) for message in messages if message.type == "ai")
    return {"calls": len(model.calls), "tokens": tokens, "answer": messages[-1].text}


def finder(experience, model, **options):
    """The agent with planner and experience."""
    return create_tooltree_agent(
        model, [look], effects={"look": "read"}, experience=experience, system_prompt=SYSTEM, **options
    )


def plain_finder(model):
    """The agent without."""
    return create_agent(model, [look], system_prompt=SYSTEM)


def verdict_that_never_comes(_):
    """The process is killed while the run is judged."""
    os._exit(9)


def main(database, kind, thread):
    model = finding()
    if kind == "plain":
        return run(plain_finder(model), model)
    verdict = verdict_that_never_comes if kind == "killed" else lambda trajectory: "shelf" in str(trajectory.messages)
    with SqliteStore.from_conn_string(database) as store:
        store.setup()
        experience = Experience(store, namespace=("tooltree",), verdict=verdict)
        agent = finder(experience, model, checkpointer=InMemorySaver() if thread != "-" else None)
        status = experience.status()
        known = {"pending": status.pending, "in_graph": status.in_graph}
        cost = run(agent, model, thread)
        return {**cost, "known": known, "now": experience.settle().in_graph}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
