"""Effects: which calls only read, so that a search may run them, and which may change something.

Whoever asks whether a call is a write asks `CallEffects.of`, with the arguments. What is not declared is a write.
"""

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.pydantic import get_fields

from langchain_tooltree.effects.names import call_digest
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.flows import Flow, FunctionStep

logger = logging.getLogger(__name__)

DeclaredEffect = Literal["read", "write"]

Declaration = str | Callable[[Mapping[str, Any]], str]
"""What a tool does to the world, `"read"` or `"write"`: always the same, or, by a function, by the arguments."""

Effects = Mapping[Any, Declaration] | Sequence[tuple[str | BaseTool | Callable[..., Any], Declaration]]
"""What users declare: a mapping of tools to what they do, or pairs, since most tools cannot be keys.

A tool is given by its name, as the tool itself, or as the function that it was made of.
"""


class ReadTool(StructuredTool):
    """A tool that asks past runs and changes nothing.

    A planner knows it for a read by its class, and not by its name, which a write of a user's own may bear.
    """


@dataclass(frozen=True)
class ByArgument:
    """What a call does as one of its arguments says, which a tool then has to have."""

    argument: str


class HintedEffect(str):
    """An effect as a server hints it, which holds for that server's tool alone."""

    __slots__ = ("tool",)
    tool: BaseTool


class _Entry(NamedTuple):
    name: str
    effect: Declaration
    tool: Any = None  # the tool, or its function, that this holds for; `None` for any that bears the name


@dataclass(frozen=True)
class CallEffects:
    """The effects of calls: `declared_as` reads what a user declares, `among` applies it to the tools at hand."""

    entries: Mapping[str, tuple[_Entry, ...]] = field(default_factory=dict)  # by the names of tools
    _warnings: set[str] = field(default_factory=set, compare=False, repr=False)  # names of tools that it was told of

    @classmethod
    def declared_as(cls, effects: "Effects | CallEffects | None") -> "CallEffects":
        """Effects as a user declares them. Raises `ConfigurationError` for what cannot be a declaration."""
        if isinstance(effects, CallEffects):
            return effects
        pairs = list(effects.items() if isinstance(effects, Mapping) else effects or ())
        if not all(isinstance(each, tuple | list) and len(each) == 2 for each in pairs):  # noqa: PLR2004
            msg = f"effects must be a mapping such as {{'search': 'read'}}, got {effects!r}; or a list of such pairs."
            raise ConfigurationError(msg)
        entries: dict[str, tuple[_Entry, ...]] = {}
        for entry in (_entry(key, effect) for key, effect in pairs):
            entries[entry.name] = (*entries.get(entry.name, ()), entry)
        return cls(entries)

    def of(self, tool_name: str, arguments: Mapping[str, Any] | None) -> DeclaredEffect:
        """What a call does: a read only if everything that is declared of its tool says so.

        A function that raises, or answers anything but `"read"`, means a write.
        """
        entries = self.entries.get(tool_name, ())
        return "read" if entries and all(_is_read(each, arguments or {}) for each in entries) else "write"

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the tools that only read, whatever the arguments."""
        return frozenset(name for name, each in self.entries.items() if all(one.effect == "read" for one in each))

    @cached_property
    def by_arguments(self) -> frozenset[str]:
        """Names of the tools of which some calls may be reads, and others writes."""
        possible = (name for name, each in self.entries.items() if all(one.effect != "write" for one in each))
        return frozenset(possible) - self.reads

    @property
    def may_read(self) -> bool:
        """Whether any call can be a read."""
        return bool(self.reads or self.by_arguments)

    def among(self, tools: Iterable[Any]) -> "CallEffects":
        """The effects of these tools, by their names.

        What was declared of a tool holds for that very object. Of two tools that share a name, nobody knows which one
        a call reaches, so its calls are writes. The package's own read-only tools are reads.
        """
        entries: dict[str, tuple[_Entry, ...]] = {}
        first: dict[str, BaseTool] = {}
        for tool in (each for each in tools if isinstance(each, BaseTool)):
            effect = self._effect_of(tool) if first.setdefault(tool.name, tool) is tool else "write"
            if effect is not None:
                entries[tool.name] = (*entries.get(tool.name, ()), _Entry(tool.name, effect, tool))
        return replace(self, entries=entries)

    def of_calls(self, calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """The effects of calls by their tools, as a record keeps them under `EFFECTS`."""
        by_tool: dict[str, Any] = {}
        for call in calls:
            name, arguments = call["name"], call["args"]
            effect = self.of(name, arguments)
            if name in self.by_arguments:
                by_tool.setdefault(name, []).extend([call_digest(name, arguments)] if effect == "read" else [])
            else:
                by_tool[name] = effect
        return by_tool

    def judged(self, calls: Sequence[Mapping[str, Any]]) -> Flow[dict[str, Any]]:
        """The same, off the event loop where functions are asked: each text of SQL is judged this once."""
        if any(call["name"] in self.by_arguments for call in calls):
            return cast("dict[str, Any]", (yield FunctionStep(self.of_calls, calls)))
        return self.of_calls(calls)

    def check_arguments(self) -> None:
        """Refuse a ready-made function that looks at an argument which its tool does not have: no call were a read."""
        for name, effect, tool in (each for entries in self.entries.values() for each in entries):
            if not isinstance(effect, ByArgument) or not isinstance(tool, BaseTool):
                continue
            names = _argument_names(tool)
            if effect.argument not in names:
                msg = (
                    f"effects[{name!r}] looks at the argument {effect.argument!r}, but {name} has only "
                    f"{', '.join(sorted(names)) or 'none'}."
                )
                raise ConfigurationError(msg)

    def _effect_of(self, tool: BaseTool) -> Declaration | None:
        entries = self.entries.get(tool.name, ())
        if not entries:
            return "read" if isinstance(tool, ReadTool) else None
        own = [each for each in entries if each.tool is not None and _is_same_tool(tool, each.tool)]
        if applicable := own or [each for each in entries if each.tool is None]:
            return applicable[0].effect if len({each.effect for each in applicable}) == 1 else "write"
        if tool.name not in self._warnings and any(each.effect != "write" for each in entries):
            self._warnings.add(tool.name)
            logger.warning(
                "The tool %s is not the one that was declared a read under this name, so its calls count as writes. "
                "Declare this one: effects=[(tool, 'read')].",
                tool.name,
            )
        return "write"


def _is_same_tool(tool: BaseTool, declared: Any) -> bool:
    """Whether a tool is the one declared, the tool of that function, or a copy of it that runs the same function."""
    if tool is declared:
        return True
    functions = [getattr(tool, "func", None), getattr(tool, "coroutine", None)]
    if not isinstance(declared, BaseTool):
        return declared in functions
    # What other kinds of tools run may depend on any of their fields.
    return type(tool) is type(declared) is StructuredTool and functions == [declared.func, declared.coroutine]


def _entry(key: Any, effect: Any) -> _Entry:
    name = key if isinstance(key, str) else key.name if isinstance(key, BaseTool) else getattr(key, "__name__", None)
    if not isinstance(name, str):
        msg = f"A key of effects must be a tool or the name of one, got {type(key).__name__} {key!r}."
        raise ConfigurationError(msg)
    is_async = inspect.iscoroutinefunction(effect) or inspect.iscoroutinefunction(getattr(effect, "__call__", None))  # noqa: B004
    if is_async or not (effect in ("read", "write") or callable(effect)):
        msg = f"effects[{name!r}] must be 'read' or 'write', got {effect!r}; or a plain function of the arguments."
        raise ConfigurationError(msg)
    return _Entry(name, effect, effect.tool if isinstance(effect, HintedEffect) else None if key is name else key)


def _is_read(entry: _Entry, arguments: Mapping[str, Any]) -> bool:
    if not callable(entry.effect):
        return entry.effect == "read"
    try:
        answer = entry.effect(_as_received(entry.tool, arguments))
    except Exception as error:  # noqa: BLE001 - what cannot be told is a write
        logger.debug("The effect of a call is not known: %s", described(error))
        return False
    return isinstance(answer, str) and answer == "read"


def _as_received(tool: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the arguments as a tool gets them, with the defaults of its schema for what the call leaves out.

    Raises an error for arguments that the schema refuses, or does not name: under another name, an alias for example,
    a tool may take something else than a function of the arguments looks at.
    """
    if not isinstance(tool, BaseTool):
        return copy.deepcopy(dict(arguments))
    if unnamed := arguments.keys() - _argument_names(tool):
        msg = f"{tool.name} has no arguments {unnamed}."
        raise ValueError(msg)
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return cast("dict[str, Any]", copy.deepcopy(_with_defaults(schema, arguments)))
    received: dict[str, Any] = cast("Any", schema).model_validate(dict(arguments)).model_dump(mode="json")
    return received


def _with_defaults(schema: Any, value: Any) -> Any:
    """Data with the defaults of a JSON schema, in objects within it, too."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not isinstance(value, Mapping):
        return value
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    return defaults | {name: _with_defaults(properties.get(name), each) for name, each in value.items()}


def _argument_names(tool: BaseTool) -> set[str]:
    """What calls of a tool may name."""
    schema = tool.tool_call_schema
    return set(schema.get("properties") or ()) if isinstance(schema, dict) else set(get_fields(schema))
