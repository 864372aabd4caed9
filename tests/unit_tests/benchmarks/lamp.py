"""A world with one lamp, and a task that takes three calls."""

from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec


class Lamp:
    def __init__(self):
        self.history = []

    def turn(self, to):
        self.history.append(("turn", to))
        return {"now": to}

    def dim(self, by):
        self.history.append(("dim", by))
        return {"by": by}


def schema(name, kind):
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


TASK = Task(
    id="lamp",
    request="Turn the lamp green, dim it by 7, then turn it off.",
    tools=(
        ToolSpec("turn", "Lamp", "Turn the lamp.", schema("to", "string")),
        ToolSpec("dim", "Lamp", "Dim the lamp.", schema("by", "integer")),
    ),
    gold=(
        PlainCall("turn", {"to": "green"}),
        PlainCall("dim", {"by": 7}),
        PlainCall("turn", {"to": "off"}),
    ),
    make_objects=lambda: {"Lamp": Lamp()},
    same_state=lambda found, wanted: found["Lamp"].history == wanted["Lamp"].history,
)
