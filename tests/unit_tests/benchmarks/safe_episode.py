"""A tiny world that can be forked, in which the first idea is a trap, and a model that falls into it."""

from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, ToolMessage

from langchain_tooltree import ObjectSandbox
from langchain_tooltree.tooltree.prompts import CANDIDATES_PROMPT
from tests.benchmarks.live.episode import Outcome
from tests.benchmarks.live.search_driver import CHOICE_PROMPT, REFLECTION_PROMPT
from tests.benchmarks.live.searches import GIVE_UP, GIVE_UP_PROMPT

REQUEST = "Open the safe."
CODE = "7-4-9"


class Safe:
    """A safe that stays shut for good once somebody has tried to pry it open."""

    def __init__(self):
        self.dialled = None
        self.jammed = False
        self.open = False

    def pry(self) -> str:
        """Pry the door open."""
        self.jammed = True
        return "The bolt is bent."

    def read_note(self) -> str:
        """Read the note on the safe."""
        return f"The code is {CODE}."

    def dial(self, code: str) -> str:
        """Dial a code."""
        self.dialled = code
        return f"The dial shows {code}."

    def pull(self) -> str:
        """Pull the door."""
        self.open = not self.jammed and self.dialled == CODE
        return "The door is open." if self.open else "The door does not move."


@dataclass
class SafeEpisode:
    safe: Safe = field(default_factory=Safe)
    id: str = "safe"
    system: str | None = "You are a locksmith."
    effects: dict = field(default_factory=lambda: {"read_note": "read"})

    def __post_init__(self):
        self.sandbox = ObjectSandbox.of_methods(self.safe)

    @property
    def tools(self):
        return self.sandbox.tools

    def next_request(self, messages):
        return None if messages else REQUEST

    def outcome(self, messages):
        return Outcome(self.safe.open, float(self.safe.open))


def calling(*calls):
    named = [
        {"name": name, "args": given, "id": f"id_{name}_{at}"}
        for at, (name, given) in enumerate(calls)
    ]
    return AIMessage("", tool_calls=named)


def candidates(reward, missing, *offers):
    assessed = {"missing": missing, "fulfilled": not missing, "last_result": reward}
    return calling(
        *((name, {**given, "confidence": score}) for name, given, score in offers),
        ("assess", assessed),
    )


FUSED = {
    None: candidates(None, ["open it"], ("pry", {}, 0.9), ("read_note", {}, 0.6)),
    "The bolt is bent.": candidates(0.0, ["open it"], ("pull", {}, 0.1)),
    f"The code is {CODE}.": candidates(
        0.9, ["open it"], ("dial", {"code": CODE}, 0.9), ("dial", {"code": "1"}, 0.1)
    ),
    f"The dial shows {CODE}.": candidates(0.9, ["open it"], ("pull", {}, 0.9)),
    "The dial shows 1.": candidates(0.1, ["open it"], ("pull", {}, 0.1)),
    "The door is open.": candidates(1.0, []),
    "The door does not move.": candidates(0.1, ["open it"]),
}
"""What the model says of each last result when it is asked for everything at once."""

STEPS = {
    "The bolt is bent.": calling(("pull", {})),
    f"The code is {CODE}.": calling(("dial", {"code": CODE})),
    f"The dial shows {CODE}.": calling(("pull", {})),
    "The door is open.": AIMessage("It is open."),
    "The door does not move.": AIMessage("It is stuck."),
}


class Locksmith:
    """Says what is in the tables, and pries first; the second time that it stands there it knows better."""

    def __init__(self):
        self.pried = False
        self.kinds = []

    def __call__(self, messages):
        system = messages[0].text
        last = messages[-1].text if isinstance(messages[-1], ToolMessage) else None
        if CHOICE_PROMPT in system:
            self.kinds.append("value")
            attempts = messages[1].text.split('"attempt": ')
            return f'{{"best": {next(at for at, text in enumerate(attempts) if "It is open." in text)}}}'
        if REFLECTION_PROMPT in system:
            self.kinds.append("reflect")
            return "Do not pry."
        if CANDIDATES_PROMPT.split("\n", 1)[0] in system:
            self.kinds.append("propose")
            return FUSED[last]
        self.kinds.append("step")
        if last is None:
            self.pried, first = True, not self.pried
            return calling(("pry", {}) if first else ("read_note", {}))
        if GIVE_UP_PROMPT in system and last == "The door does not move.":
            return calling((GIVE_UP, {"reason": "It is jammed."}))
        return STEPS[last]
