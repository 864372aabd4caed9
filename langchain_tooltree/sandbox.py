"""A world that can be forked, so that writes can be tried out while searching."""

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from langchain_core.tools import BaseTool, StructuredTool

from langchain_tooltree.errors import ConfigurationError


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


def names_bound_by(sandbox: Sandbox | None) -> frozenset[str]:
    """Names of the tools that act on a sandbox; none without one."""
    return (
        frozenset()
        if sandbox is None
        else frozenset(tool.name for tool in sandbox.tools)
    )


def forked(world: Sandbox) -> Sandbox:
    """An independent copy of a world; a `ConfigurationError` if its `fork()` makes something else."""
    fork = world.fork()
    if not isinstance(fork, Sandbox):
        msg = f"fork() of {type(world).__name__} must return a sandbox, got {type(fork).__name__}."
        raise ConfigurationError(msg)
    return fork


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

    def __init__(
        self, state: Any, bind: Callable[[Any], Sequence[BaseTool | Callable[..., Any]]]
    ) -> None:
        self._state = state
        self._bind = bind
        self._tools = tuple(
            each if isinstance(each, BaseTool) else _method_tool(each)
            for each in bind(state)
        )

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
        if not (
            name.startswith("_")
            or isinstance(inspect.getattr_static(owner, name), classmethod)
        )
        and callable(getattr(owner, name))
    ]


_SCHEMAS: "WeakKeyDictionary[Any, Any]" = WeakKeyDictionary()
"""The argument schema of a method by its function: the same in every fork, and most of what making a tool takes."""


def _method_tool(method: Callable[..., Any]) -> BaseTool:
    function = getattr(method, "__func__", None)
    schema = None if function is None else _SCHEMAS.get(function)
    sync, coroutine = (
        (None, method) if inspect.iscoroutinefunction(method) else (method, None)
    )
    try:
        tool = StructuredTool.from_function(
            sync, coroutine=coroutine, args_schema=schema
        )
    except (TypeError, ValueError) as error:
        remedy = "Give it a docstring and annotations, or make the tools yourself with ObjectSandbox(state, bind)."
        msg = f"{method!r} cannot become a tool: {error}. {remedy}"
        raise ConfigurationError(msg) from error
    if function is not None:
        _SCHEMAS[function] = tool.args_schema
    return tool
