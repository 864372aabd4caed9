"""Let an agent learn from its past runs.

    agent = create_tooltree_agent(model, tools)                                                          # before
    agent = create_tooltree_agent(model, tools, experience=Experience("experience/", verdict=verdict))   # after

1. An agent does its work. Its runs are kept in a folder and judged, and those that went well are learnt from.
2. A new agent opens the folder, with a model that knows nothing of the place. It reads what was done for others who
   asked for the same, and at each step what came next in past runs.
3. A person corrects a verdict, and a run is forgotten.

The models are stand-ins, so the recipe runs without an API key. With a key, write `"openai:gpt-4.1-mini"` for each.
"""

import re
import tempfile

from langchain_core.messages import AIMessage

from langchain_tooltree import Experience, create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel

# --- a doctor's reception ---

FREE = {"Monday": "no free hour", "Tuesday": "no free hour", "Friday": "9:00 is free"}
SYSTEM = "You answer the telephone of a doctor's practice, and change appointments as patients wish. " * 12


def list_hours(day: str) -> str:
    """List the free hours of a day."""
    return f"On {day}: {FREE[day]}."


def move_appointment(day: str) -> str:
    """Move the appointment to another day."""
    return f"The appointment is on {day} now." if "is free" in FREE[day] else f"Refused: {day} has no free hour."


def add_to_waitlist(day: str) -> str:
    """Note that the patient would come as soon as an hour of that day gets free."""
    return f"Noted for {day}."


TOOLS = [list_hours, move_appointment, add_to_waitlist]


def call(tool, day):
    return AIMessage("", tool_calls=[{"name": tool, "args": {"day": day}, "id": f"call_{tool}"}])


def verdict(run):
    """It went well if something was changed, and not refused. The name of a model could stand here, too."""
    return any(step.outcome.text.startswith(("The appointment", "Noted")) for step in run.steps)


def ask(experience, name, day, replies):
    """Have an agent do what a patient wishes; the tools that it called, and what its model was asked."""
    model = ScriptedChatModel(replies=replies)
    agent = create_tooltree_agent(
        model, TOOLS, effects={"list_hours": "read"}, system_prompt=SYSTEM, experience=experience
    )
    messages = agent.invoke({"messages": [("user", f"{name} here. Can I come on {day} instead?")]})["messages"]
    return [message.name for message in messages if message.type == "tool"], model.calls


DONE = 'That is done.\n{"missing": "nothing"}'

# --- 1. work, and learn from it ---


def work(folder):
    experience = Experience(folder, verdict=verdict, namespace=("tooltree",))  # shared by all who work here
    for name, day, then in [
        ("Ann", "Friday", "move_appointment"),
        ("Bob", "Tuesday", "add_to_waitlist"),
        ("Cem", "Tuesday", "move_appointment"),  # hasty: refused
        ("Fay", "Tuesday", "add_to_waitlist"),
    ]:
        ask(experience, name, day, [call("list_hours", day), call(then, day), DONE])
    status = experience.settle()  # these runs have no thread, so each was judged at its end
    print(status)
    assert (status.runs, status.judged, status.pending) == (4, 4, 0)
    assert status.in_graph == status.successes == status.runs - 1, "the run that failed is left out"


# --- 2. work with it ---


def newcomer(messages):
    """Stands in for a model that knows nothing of this place, and goes by what past runs did next."""
    suggested = re.search(r"Past runs went on here with: (\w+) \d+% \(", messages[-1].text)
    return call(suggested[1], "Tuesday") if suggested else DONE if messages[-1].type == "tool" else "I am new here."


def work_with_it(folder):
    assert ask(None, "Dana", "Tuesday", [newcomer] * 9)[0] == [], "alone, it does not know what to do"

    experience = Experience(folder, verdict=verdict, namespace=("tooltree",))
    made, asked = ask(experience, "Dana", "Tuesday", [newcomer] * 9)
    print(asked[0][0].text.removeprefix(SYSTEM.strip()))
    for messages in asked:
        print(messages[-1].text)
    assert made == ["list_hours", "add_to_waitlist"]
    assert len(asked) == len(made) + 1, "one model call for each step, and one for the answer"
    return experience


# --- 3. correct, and forget ---


def correct(experience):
    bobs, danas = (next(run for run in experience.store.trajectories() if name in run.task) for name in ("Bob", "Dana"))
    experience.label(bobs.id, False, "He had asked for Wednesday.")
    experience.label(danas.id, True)
    agreement = experience.status().agreement
    print(f"The verdict and people agree on {agreement.share:.0%} of {agreement.count} runs.")
    assert (agreement.share, bobs.id in experience.graph) == (0.5, False)

    experience.store.delete(danas.id)
    assert (experience.status().runs, len(experience.graph)) == (4, 2)


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    work(folder)
    correct(work_with_it(folder))
