"""A world that can be forked, so that writes can be tried out while searching."""

import copy
import inspect
import io
import json
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.text import digest

KEPT_WORLDS = 256
"""Forks kept in memory, more than a default search makes; one that is needed later is rebuilt from its path."""

Same = Callable[[ToolMessage, ToolMessage], bool]
"""Whether a call has brought back, for real, what it had in the sandbox: the result tried first, then the real one."""


def checked_comparison(same: Same | None) -> Same | None:
    """A user's comparison, if it is one."""
    if same is None or (callable(same) and not any(map(inspect.iscoroutinefunction, (same, type(same).__call__)))):
        return same
    msg = f"same must be a plain function of two ToolMessages that returns a bool, got {same!r}."
    raise ConfigurationError(msg)


@runtime_checkable
class Sandbox(Protocol):
    """A world with tools that act on it, and that can be copied.

    A search never calls a tool of the sandbox it was given: it forks first, once for each call. The tools of a fork
    must act on that fork alone.
    """

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tools bound to this world; names and schemas are the same in every fork."""

    def fork(self) -> "Sandbox":
        """An independent copy of this world as it is now."""


@runtime_checkable
class SnapshotSandbox(Sandbox, Protocol):
    """A sandbox whose state can be stored, so that a resumed search need not repeat calls to rebuild it."""

    def snapshot(self) -> Any:
        """The state of this world as JSON-like data."""

    def restore(self, snapshot: Any) -> Sandbox:
        """A new world in the state of a snapshot."""


class ObjectSandbox:
    """A sandbox over Python objects: a fork is a deep copy.

    ```python
    sandbox = ObjectSandbox.of_methods(Calendar(), Mailbox())
    search("Move my 3 pm meeting", sandbox.tools, model=model, sandbox=sandbox)
    ```

    Args:
        state: The object, or any container of objects, that the tools act on. References between its parts stay
            intact in a copy.
        bind: Makes the tools, or functions, that act on a given state. It is called again for every fork.
    """

    def __init__(self, state: Any, bind: Callable[[Any], Sequence[BaseTool | Callable[..., Any]]]) -> None:
        self._state = state
        self._bind = bind
        self._tools = tuple(each if isinstance(each, BaseTool) else _method_tool(each) for each in bind(state))

    @classmethod
    def of_methods(cls, *objects: object) -> "ObjectSandbox":
        """A sandbox whose tools are the public methods of some objects, sync or async.

        Method names become tool names, docstrings descriptions, signatures schemas. Class methods are left out, and
        methods must not change class attributes: a copy of an object shares its class. Raises `ConfigurationError` if a
        method cannot become a tool.
        """
        return cls(objects, _method_tools)

    @property
    def state(self) -> Any:
        """The state that the tools of this world act on."""
        return self._state

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tools bound to this world."""
        return self._tools

    def fork(self) -> "ObjectSandbox":
        """A deep copy of the state, with tools bound to it; a `ConfigurationError` if it cannot be copied."""
        try:
            state = copy.deepcopy(self._state)
        except Exception as error:
            msg = (
                f"The sandbox cannot deep-copy its state: {error}. Keep locks, sockets and open files out of it, give "
                "the class a __deepcopy__, or pass a sandbox with a fork() of your own."
            )
            raise ConfigurationError(msg) from error
        return ObjectSandbox(state, self._bind)


def _method_tools(objects: Sequence[object]) -> list[BaseTool]:
    return [
        _method_tool(getattr(owner, name))
        for owner in objects
        for name in dir(type(owner))
        if not (name.startswith("_") or isinstance(inspect.getattr_static(owner, name), classmethod))
        and callable(getattr(owner, name))
    ]


_KNOWN: "WeakKeyDictionary[Any, Any]" = WeakKeyDictionary()
"""The form of a method's arguments by its function. It is the same in every fork, and most of what making a tool takes.
"""


def _method_tool(method: Callable[..., Any]) -> BaseTool:
    function = getattr(method, "__func__", None)
    known = None if function is None else _KNOWN.get(function)
    try:
        if inspect.iscoroutinefunction(method):
            tool = StructuredTool.from_function(coroutine=method, args_schema=known)
        else:
            tool = StructuredTool.from_function(method, args_schema=known)
    except (TypeError, ValueError) as error:
        remedy = "Give it a docstring and annotations, or make the tools yourself with ObjectSandbox(state, bind)."
        msg = f"{method!r} cannot become a tool: {error}. {remedy}"
        raise ConfigurationError(msg) from error
    if function is not None:
        _KNOWN[function] = tool.args_schema
    return tool


class Worlds:
    """The forks of one search, by world version; the root is the user's sandbox, which is only ever forked.

    Safe to use from several threads: forks of one world are made one at a time, because a world may not be copied
    while it is being copied elsewhere.
    """

    def __init__(self, root: Sandbox) -> None:
        self._root = root
        self._worlds: OrderedDict[str, Sandbox] = OrderedDict()
        self._marks: dict[str, str | None] = {}
        self._lock = threading.Lock()

    def knows(self, version: str) -> bool:
        """Whether the world of this version can be forked without rebuilding it."""
        with self._lock:
            return not version or version in self._worlds

    def fork(self, version: str) -> Sandbox:
        """An independent copy of a known world; the empty version is the user's own."""
        with self._lock:
            if version:
                self._worlds.move_to_end(version)
            fork = (self._worlds[version] if version else self._root).fork()
        if not isinstance(fork, Sandbox):
            msg = f"fork() of {type(self._root).__name__} must return a sandbox, got {type(fork).__name__}."
            raise ConfigurationError(msg)
        return fork

    def mark(self, version: str, fork: Sandbox) -> str | None:
        """The mark of a world, taken once, from a fork of it that nothing was done to."""
        if version not in self._marks:
            self._marks[version] = mark_of(fork, snapshot_of(fork))
        return self._marks[version]

    def changed(self, version: str, world: Sandbox) -> bool:
        """Whether something was done to a fork of a known world, which has a mark."""
        try:
            now = mark_of(world, snapshot_of(world))
            if now is None or now == self._marks[version]:
                return False
            fresh = self.fork(version)  # there are worlds of which two copies are never written down alike
            return mark_of(fresh, snapshot_of(fresh)) == self._marks[version]
        except Exception:  # noqa: BLE001 - a sandbox may live behind a network
            return False

    def written_down(self, version: str, world: Sandbox) -> tuple[Any, str | None]:
        """The snapshot and the mark of a world that a write has led to, out of one snapshot."""
        snapshot = snapshot_of(world)
        self._marks[version] = mark_of(world, snapshot)
        return snapshot, self._marks[version]

    def restore(self, version: str, snapshot: Any) -> None:
        """Make a world known from its snapshot."""
        if isinstance(self._root, SnapshotSandbox):
            self.keep(version, self._root.restore(snapshot))

    def keep(self, version: str, world: Sandbox) -> None:
        """Remember a world that a write has led to; the one unused for longest is forgotten."""
        with self._lock:
            self._worlds[version] = world
            self._worlds.move_to_end(version)
            while len(self._worlds) > KEPT_WORLDS:
                self._worlds.popitem(last=False)


def mark_of(world: Sandbox, snapshot: Any) -> str | None:
    """What tells the state of a world, of which this is the snapshot, from any other; `None` if nothing does."""
    try:
        if snapshot is not None:
            return digest(json.dumps(snapshot, sort_keys=True))
        if isinstance(world, ObjectSandbox):
            return digest(_Marking.written(world.state))
    except Exception:  # noqa: BLE001 - a state that cannot be written down is not compared
        return None
    return None


class _Marking(pickle.Pickler):
    """Writes down what a deep copy copies; nothing is ever read back."""

    @classmethod
    def written(cls, state: Any) -> bytes:
        written = io.BytesIO()
        cls(written, protocol=pickle.HIGHEST_PROTOCOL).dump(state)
        return written.getvalue()

    def reducer_override(self, obj: Any) -> Any:
        """A class that copies itself in its own way may keep more than pickle writes down."""
        own = getattr(type(obj), "__deepcopy__", None)
        if own is not None and own is not BaseModel.__deepcopy__:
            msg = f"{type(obj).__name__} has a __deepcopy__ of its own."
            raise pickle.PicklingError(msg)
        return NotImplemented


def snapshot_of(world: Sandbox) -> Any:
    """The snapshot of a world, `None` if it has none."""
    return world.snapshot() if isinstance(world, SnapshotSandbox) else None
