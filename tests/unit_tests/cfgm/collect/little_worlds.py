"""What the tests of the collection share: a model that answers by what it reads, and worlds it acts in."""

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from pydantic import Field, PrivateAttr

from langchain_tooltree import ExperienceStore
from langchain_tooltree.cfgm.collect import FailureForm
from langchain_tooltree.testing import ScriptedChatModel

LESSON = "Turn the key first."


class DownError(Exception):
    """What clients raise whose server does not serve."""

    status_code = 503


class Walker(ScriptedChatModel):
    """Walks so many steps, and turns the key first if it has read so; replies depend on the prompt alone.

    Args:
        steps: Steps that it walks.
        down_at: Numbers of the calls, from 1, at which its server is down.
        reflections: What it writes after a failure; a text is no object of the form asked for.
    """

    steps: int = 3
    down_at: tuple[int, ...] = ()
    reflections: Any = Field(
        default={"what_went_wrong": "The door was locked.", "next_time": LESSON}
    )
    _count: int = PrivateAttr(default=0)

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return self._count

    @property
    def prompts(self) -> list[str]:
        """What it was told, as one text for each call."""
        return ["\n".join(message.text for message in call) for call in self.calls]

    def _respond(self, messages: Any, tools: Any) -> Any:
        self._calls.append(messages)
        self._count += 1
        if self._count in self.down_at:
            raise DownError
        names = [each["function"]["name"] for each in tools]
        if FailureForm.__name__ in names:
            return self.reflections
        done = sum(message.type == "tool" for message in messages)
        if done >= self.steps:
            return "I am there."
        knows = any(
            LESSON in message.text for message in messages if message.type == "human"
        )
        action = "turn key" if knows and not done else f"walk {done}"
        return AIMessage(
            "",
            tool_calls=[
                {"name": names[0], "args": {"action": action}, "id": f"call_{done}"}
            ],
        )


class Corridor:
    """A door that opens when the key is turned first; the third action ends the episode."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.closed = False

    def reset(self, task: Any) -> str:
        """Begin."""
        self.actions = []
        return f"A corridor. You are to {task}."

    def step(self, action: str) -> tuple[str, float, bool]:
        """Act."""
        self.actions.append(action)
        done = len(self.actions) == 3
        return f"You {action}.", float(done and self.actions[0] == "turn key"), done

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


def door_tool(world: Corridor) -> Any:
    """The tool by which a graph acts in a corridor."""

    @tool
    def do(action: str) -> str:
        """Do something."""
        return world.step(action)[0]

    return do


def keyed_first(task: Any, result: Any) -> bool:
    """Whether the key was turned first, and the end was reached."""
    seen = [message.text for message in result["messages"] if message.type == "tool"]
    return len(seen) >= 3 and seen[0] == "You turn key."


class FullStore(InMemoryStore):
    """A store of which one write fails.

    Args:
        fails_at: Number of the write, from 1.
        label: Count those alone whose namespace ends in this label.
    """

    def __init__(self, fails_at: int, label: str = "") -> None:
        super().__init__()
        self._left = fails_at
        self._label = label

    def batch(self, ops: Iterable[Any]) -> Any:
        """Read and write, or fail."""
        return super().batch(self._passed(ops))

    async def abatch(self, ops: Iterable[Any]) -> Any:
        """The async twin."""
        return await super().abatch(self._passed(ops))

    def _passed(self, ops: Iterable[Any]) -> list[Any]:
        listed = list(ops)
        written = [
            each.namespace[-1]
            for each in listed
            if isinstance(each, PutOp) and each.value is not None
        ]
        self._left -= self._label in written or bool(written and not self._label)
        if written and self._left == 0:
            self._left = -1
            msg = "disk full"
            raise OSError(msg)
        return listed


def empty_store() -> ExperienceStore:
    """An empty store."""
    return ExperienceStore(InMemoryStore())


def contents(experience: ExperienceStore) -> dict[Any, Any]:
    """All that a store holds, of any namespace, apart from who wrote when."""
    store = experience._store
    return {
        (namespace, item.key): item.value
        for namespace in store.list_namespaces()
        for item in store.search(namespace, limit=1_000)
        if item.namespace == namespace and namespace[-1] != "head"
    }
