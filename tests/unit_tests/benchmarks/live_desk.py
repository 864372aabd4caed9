"""A made-up bench for the tests of the live benchmark: a desk with a drawer, and what a good model says there."""

from langchain_core.messages import AIMessage, ToolMessage

from langchain_tooltree import ObjectSandbox

TASKS = [
    {"id": "pen", "turns": ["Put the pen into the drawer.", "What is in it?"]},
    {"id": "key", "question": "Put the key into the drawer."},
    {"id": "map", "question": "Put the map into the drawer."},
    {"id": "cup", "question": "Put the cup into the drawer."},
]
for each in TASKS:
    each |= {
        "tools": f"{__name__}:make_desk",
        "check": f"{__name__}:is_put_away",
        "system": "You keep a desk.",
    }


class Desk:
    """A desk with a drawer."""

    def __init__(self):
        self.drawer = []

    def put(self, thing: str) -> str:
        """Put a thing into the drawer."""
        self.drawer.append(thing)
        return f"The drawer holds {', '.join(self.drawer)}."

    def look(self) -> str:
        """Look into the drawer."""
        return ", ".join(self.drawer) or "nothing"


def make_desk():
    return ObjectSandbox.of_methods(Desk())


def is_put_away(messages, task):
    said = [message.text for message in messages if isinstance(message, ToolMessage)]
    done = any(task["id"] in each for each in said)
    return done, "" if done else f"the {task['id']} is not in the drawer"


def calling(tool, **arguments):
    return AIMessage(
        "", tool_calls=[{"name": tool, "args": arguments, "id": f"call_{tool}"}]
    )


REPORT = '{"missing": "nothing"}\n'
"""What the planner wants at the beginning of an answer."""


def putting(thing, report=""):
    """What a model says that knows how to put a thing away."""
    return [calling("put", thing=thing), f"{report}The {thing} is in the drawer."]


def everything(report=""):
    """What a model says to all tasks, each answer behind its report."""
    looked = [calling("look"), f"{report}The pen is in it."]
    return [
        *putting("pen", report),
        *looked,
        *(each for thing in ("key", "map", "cup") for each in putting(thing, report)),
    ]
