"""Let an agent learn from past runs which tool to call next.

1. A recorder listens to the agent that you have; a verdict says which of its runs went well.
2. From those, a graph is mined: which tool followed which, and in what state.
3. Another agent gets suggestions from it. Routine steps go by the dialogue so far; where the agent is in doubt, it
   calls `summarize_state`, and the suggestions are those for the state that it describes.
4. Its own runs that go well are part of the graph at once.

The models are stand-ins, so the recipe runs without an API key. With a key, write `"openai:gpt-4.1-mini"` for each.
"""

import re
import tempfile
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, SystemMessage

from langchain_tooltree import (
    SITGraph,
    SITGraphMiddleware,
    TrajectoryRecorder,
    dump_trajectories,
    load_trajectories,
)
from langchain_tooltree.testing import ScriptedChatModel

# --- a doctor's reception ---

SURE = 90  # per cent
FREE = {"Monday": "no free hour", "Tuesday": "no free hour", "Friday": "9:00 is free"}


def find_patient(name: str) -> str:
    """Find a patient."""
    return f"{name} has an appointment on Thursday."


def list_hours(day: str) -> str:
    """List the free hours of a day."""
    return f"On {day}: {FREE[day]}."


def move_appointment(day: str) -> str:
    """Move the appointment to another day."""
    return f"The appointment is on {day} now." if "is free" in FREE[day] else f"Refused: {day} has no free hour."


def add_to_waitlist(day: str) -> str:
    """Note that the patient would come as soon as an hour of that day gets free."""
    return f"Noted for {day}."


TOOLS = [find_patient, list_hours, move_appointment, add_to_waitlist]


def call(tool, **arguments):
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call_{tool}"}])


def verdict(trajectory):
    """It went well if something was changed in the end, and not refused. A model could say so, too."""
    last = trajectory.steps[-1] if trajectory.steps else None
    return last is not None and last.outcome.text.startswith(("The appointment", "Noted"))


# --- 1. record the agent that you have ---

PAST = [
    ("Ann", "Friday", ["list_hours", "move_appointment"]),
    ("Bob", "Tuesday", ["list_hours", "add_to_waitlist"]),
    ("Cem", "Tuesday", ["move_appointment"]),  # hasty: refused
    ("Eva", "Friday", ["list_hours", "move_appointment"]),
    ("Fay", "Tuesday", ["list_hours", "add_to_waitlist"]),
]

runs = []
recorder = TrajectoryRecorder(runs.append, verdict=verdict)
for name, day, tools in PAST:
    script = [call("find_patient", name=name), *(call(tool, day=day) for tool in tools), "That is all I can do."]
    agent = create_agent(ScriptedChatModel(replies=script), TOOLS)
    request = f"{name} here. Can I come on {day} instead?"
    agent.invoke({"messages": [("user", request)]}, {"callbacks": [recorder]})
assert [run.success for run in runs] == [True, True, False, True, True]

# --- 2. mine what went well ---

with tempfile.TemporaryDirectory() as folder:
    dump_trajectories(runs, Path(folder) / "runs.jsonl")  # chat messages line by line: any other record will do, too
    graph = SITGraph.from_trajectories(load_trajectories(Path(folder) / "runs.jsonl"))
print(graph.to_mermaid())
assert len(graph) == len(runs) - 1, "the run that failed is left out"
assert [each.tool for each in graph.suggest("find_patient")] == ["list_hours"]
assert {each.tool for each in graph.suggest("list_hours")} == {"move_appointment", "add_to_waitlist"}

# --- 3. suggest ---


def newcomer(messages):
    """Stands in for a model that knows nothing of this place: it goes by the suggestions that it reads."""
    system = messages[0].text if isinstance(messages[0], SystemMessage) else ""
    last = messages[-1]
    suggested = [(tool, int(share)) for tool, share in re.findall(r"(\w+) (\d+)% \(", f"{system} {last.text}")]
    if not suggested:
        return last.text if last.type == "tool" else "I am new here and do not know what to do."
    (best, share), *others = suggested
    if others and share < SURE and last.name != "summarize_state":
        return call("summarize_state", summary=f"A patient wants another day. {last.text}")
    return call(best, **({"name": "Dana"} if best == "find_patient" else {"day": "Monday"}))


model = ScriptedChatModel(replies=[newcomer] * 99)
asked = {"messages": [("user", "Dana here. Can I come on Monday instead?")]}
plain = create_agent(model, TOOLS)
assert plain.invoke(asked)["messages"][-1].text.startswith("I am new here")

helped = create_agent(model, TOOLS, middleware=[SITGraphMiddleware(graph, verdict=verdict)])

modes = []
for mode, chunk in helped.stream(asked, stream_mode=["custom", "values"]):
    if mode == "custom":
        suggestions = chunk["tooltree"]["suggestions"]
        modes.append(suggestions[0]["mode"])
        shares = ", ".join(f"{each['tool']} {each['score']:.0%}" for each in suggestions)
        print(f"suggested ({modes[-1]}): {shares}")
    else:
        messages = chunk["messages"]
        messages[-1].pretty_print()

made = [message.name for message in messages if message.type == "tool"]
assert made == ["find_patient", "list_hours", "summarize_state", "add_to_waitlist"]
assert set(modes) == {"contextual"}, "no past run was summed up, so the state is read off the dialogue"
assert not any("past_runs" in str(message.content) for message in messages), "suggestions never stay in the thread"

# --- 4. learn online ---

best, _ = graph.suggest("list_hours", state="A patient wants another day, which has no free hour.")
print(best.tool, best.evidence[0].summary)
assert len(graph) == len(runs), "the run that has just gone well is in the graph"
assert (best.tool, best.mode, best.support) == ("add_to_waitlist", "episodic", 3), "now there is a summary to go by"
assert best.evidence[0].summary == "A patient wants another day. On Monday: no free hour."
