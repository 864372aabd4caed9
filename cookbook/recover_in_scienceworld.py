"""Help an agent out of trouble in a real environment.

    agent = create_agent(model, tools)                                       # before
    agent = create_agent(model, tools, middleware=[CFGMMiddleware(model)])   # after

The environment is ScienceWorld, a text world of school science: it needs Java, and `pip install scienceworld`. The
agent has to find something in the kitchen, and walks against a closed door. Alone, it does so until it gives up. With
the middleware, the refusal is noticed; a model extracts key information from the course so far, asks itself what went
wrong, and gives the corrected next step, which reaches the agent as part of the tool's answer.

The models are stand-ins, so the recipe runs without an API key. With a key, write `"openai:gpt-4.1-mini"` for each.
"""

import json
import re
import shutil
import sys

from langchain.agents import create_agent
from langchain_core.messages import AIMessage

from langchain_tooltree import CFGMMiddleware
from langchain_tooltree.testing import ScriptedChatModel

try:
    from scienceworld import ScienceWorldEnv
except ImportError:
    print("This recipe plays ScienceWorld. Install it first: pip install scienceworld")
    sys.exit()
if shutil.which("java") is None:
    print("This recipe plays ScienceWorld, which runs in Java. Install a Java runtime (8 or newer) first.")
    sys.exit()

# --- the environment, as tools ---

world = ScienceWorldEnv("")


def begin():
    """Begin the task, and return its text."""
    world.load("find-non-living-thing", 0)
    return world.get_task_description()


def act(action: str) -> str:
    """Do something, in words: open, go to, pick up, focus on, move ... to ..."""
    answer, _, _, info = world.step(action)
    scores.append(info["score"])
    return answer


def look() -> str:
    """Look around."""
    return world.look()


TOOLS = [act, look]
scores = [0]
FULL_SCORE = 100


def close():
    """End the Java process and wait for it, which `ScienceWorldEnv.close` leaves to the end of Python."""
    process, folder = world._gateway.java_process, world._obj_tree_tempdir  # noqa: SLF001 - it has no method for it
    world.close()
    process.wait()
    process.stdin.close()
    folder.cleanup()


# --- stand-ins for models ---

PLAN = ["go to kitchen", "focus on lighter", "move lighter to red box"]
PATIENCE = 4


def call(action, number):
    return AIMessage("", tool_calls=[{"name": "act", "args": {"action": action}, "id": f"call_{number}"}])


def headstrong(messages):
    """Stands in for a model that knows what to do, but not that doors have to be opened. It takes advice."""
    answers = [message for message in messages if message.type == "tool"]
    if answers and (advice := re.search(r'^Next step: .*"(.+)"', answers[-1].text, re.MULTILINE)):
        return call(advice[1], len(answers))
    done = sum(answer.text.startswith("You ") for answer in answers)
    if done == len(PLAN):
        return "It is in the red box."
    refused = sum("not open" in answer.text for answer in answers)
    return call(PLAN[done], len(answers)) if refused < PATIENCE else "I give up: there is no way into the kitchen."


def reflective(messages):
    """Stands in for a model that reflects: it reads what went wrong in the document that it is given."""
    document = json.loads(messages[1].text)
    tried = document["step"]["arguments"]
    place = re.search(r"go to (\w+)", tried)[1]
    return {
        "key_information": {
            "objective": "Focus on a non-living thing and move it to the red box in the kitchen.",
            "initial_environment": f"There is a door between here and the {place}.",
            "progress": f"None yet. The call {tried} brought: {document['step']['observation']}",
        },
        "questions": [{"question": f"Why is there no way to the {place}?", "answer": "Its door is closed."}],
        "next_step": f'Call act with the action "open door to {place}".',
    }


# --- before ---

model = ScriptedChatModel(replies=[headstrong] * 20)
agent = create_agent(model, TOOLS)
result = agent.invoke({"messages": [("user", begin())]})
print("Before:", result["messages"][-1].text)
assert scores[-1] == 0, "it never gets anywhere"

# --- after ---

reflecting = ScriptedChatModel(replies=[reflective])  # it will be asked once
agent = create_agent(model, TOOLS, middleware=[CFGMMiddleware(reflecting, patience=0)])

print("\nAfter:")
noticed = []
for mode, chunk in agent.stream({"messages": [("user", begin())]}, stream_mode=["custom", "values"]):
    if mode == "values":
        messages = chunk["messages"]
        messages[-1].pretty_print()
    elif chunk["tooltree"]["type"] == "anomaly":
        noticed.append(chunk["tooltree"]["anomaly"])

made = [made["args"]["action"] for message in messages if message.type == "ai" for made in message.tool_calls]
assert made == ["go to kitchen", "open door to kitchen", *PLAN]
assert [(each["kind"], each["tool"]) for each in noticed] == [("phrase", "act")]
assert "Next step: " in messages[2].text, "the advice is part of the answer that it is about"
assert scores[-1] == FULL_SCORE, "the environment says that the task is done"
print(f"\nThe environment says: {scores[-1]} of {FULL_SCORE} points.")
close()
