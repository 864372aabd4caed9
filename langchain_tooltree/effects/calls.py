"""Effects: which calls only read, so that a search may run them, and which may change something.

Whoever asks whether a call is a write asks `CallEffects.of`, with the arguments. What is not known for a read is one.
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
from pydantic import AliasChoices, AliasPath, TypeAdapter
from pydantic.fields import FieldInfo

from langchain_tooltree.effects.names import call_digest, verb_of_write
from langchain_tooltree.errors import ConfigurationError, described, did_you_mean
from langchain_tooltree.flows import Flow, FunctionStep

logger = logging.getLogger(__name__)

DeclaredEffect = Literal["read", "write"]

Declaration = str | Callable[[Mapping[str, Any]], str]
"""What a tool does to the world, `"read"` or `"write"`: always the same, or, by a function, by the arguments."""

ToolKey = str | BaseTool | Callable[..., Any]
"""A tool by its name, or the tool itself, or the function that it was made of."""

Effects = Mapping[Any, Declaration] | Sequence[tuple[ToolKey, Declaration]]
"""What users declare: a mapping of a `ToolKey` to what the tool does, or pairs, since most tools cannot be keys."""


class ReadTool(StructuredTool):
    """A tool that asks past runs and changes nothing.

    A planner knows it for a read by its class, and not by its name, which a write of a user's own may bear.
    """


@dataclass(frozen=True)
class ByArgument:
    """What a call does as one of its arguments says, which a tool then has to have."""

    argument: str


class _Declared(NamedTuple):
    name: str
    effect: Declaration
    tool: Any = None  # the tool, or its function, that this was said of; `None` for any that bears the name


class HintedEffect(str):
    """An effect as a server hints it, which holds for that server's tool alone."""

    __slots__ = ("tool",)
    tool: BaseTool


@dataclass(frozen=True)
class CallEffects:
    """What is known of the effects of calls.

    Made by `declared_as` of what a user has said. `among` says what that means for the tools at hand.
    """

    entries: tuple[_Declared, ...] = ()
    _told: set[str] = field(default_factory=set, compare=False, repr=False)  # what was warned of already

    @classmethod
    def declared_as(cls, effects: "Effects | CallEffects | None") -> "CallEffects":
        """Effects as a user has declared them; what they cannot be is refused."""
        if isinstance(effects, CallEffects):
            return effects
        given = effects.items() if isinstance(effects, Mapping) else () if effects is None else effects
        pairs = list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(each, tuple | list) and len(each) == 2 for each in pairs):  # noqa: PLR2004
            msg = f"effects must be a mapping such as {{'search': 'read'}}, got {effects!r}; or a list of such pairs."
            raise ConfigurationError(msg)
        return cls(tuple(_declared(key, effect) for key, effect in pairs))

    def of(self, tool_name: str, arguments: Mapping[str, Any] | None) -> DeclaredEffect:
        """What a call does: a read only if nothing else is declared of it.

        A function that raises, or answers anything but `"read"`, means a write.
        """
        said = self._by_name.get(tool_name, ())
        return "read" if said and all(_reads(each, arguments) for each in said) else "write"

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the tools that only read, whatever the arguments."""
        return frozenset(name for name, said in self._by_name.items() if all(each.effect == "read" for each in said))

    @cached_property
    def by_arguments(self) -> frozenset[str]:
        """Names of the tools of which some calls may be reads, and others writes."""
        named = (name for name, said in self._by_name.items() if all(each.effect != "write" for each in said))
        return frozenset(named) - self.reads

    @property
    def may_read(self) -> bool:
        """Whether any call is known for a read."""
        return bool(self.reads or self.by_arguments)

    @property
    def names(self) -> frozenset[str]:
        """Names of the tools of which anything is declared."""
        return frozenset(self._by_name)

    def among(self, tools: Iterable[Any]) -> "CallEffects":
        """The effects of these tools, by their names.

        What was declared of a tool holds for that very object. Of two tools that share a name, nobody knows which one
        a call reaches, so its calls are writes. The package's own read-only tools are reads.
        """
        given = [tool for tool in tools if isinstance(tool, BaseTool)]
        shared = self._shared_names(given)
        named = {tool.name: ("write" if tool.name in shared else self._effect_of(tool), tool) for tool in given}
        known = (_Declared(name, effect, tool) for name, (effect, tool) in named.items() if effect is not None)
        return replace(self, entries=tuple(known))

    def told_apart(self, tools: Iterable[Any]) -> "CallEffects":
        """The same, with the calls of tools that share a name as writes, for who gets to see only one of them."""
        shared = self._shared_names(tool for tool in tools if isinstance(tool, BaseTool))
        return replace(self, entries=(*self.entries, *(_Declared(name, "write") for name in sorted(shared))))

    def of_calls(self, calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """The effects of calls by their tools, as a record keeps them under `EFFECTS`."""
        told: dict[str, Any] = {}
        for call in calls:
            name, arguments = call["name"], call["args"]
            effect = self.of(name, arguments)
            if name in self.by_arguments:
                told.setdefault(name, []).extend([call_digest(name, arguments)] if effect == "read" else [])
            else:
                told[name] = effect
        return told

    def judged(self, calls: Sequence[Mapping[str, Any]]) -> Flow[dict[str, Any]]:
        """The same, off the event loop where functions are asked: each text of SQL is judged this once."""
        if any(call["name"] in self.by_arguments for call in calls):
            return cast("dict[str, Any]", (yield FunctionStep(self.of_calls, calls)))
        return self.of_calls(calls)

    def check_arguments(self) -> None:
        """Refuse a ready-made function that looks at an argument which its tool does not have: no call were a read."""
        for name, effect, tool in self.entries:
            known = _argument_names(tool)
            if isinstance(effect, ByArgument) and known and effect.argument not in known:
                meant = did_you_mean(effect.argument, known)
                msg = (
                    f"effects[{name!r}] looks at the argument {effect.argument!r}, but {name} has only "
                    f"{', '.join(sorted(known))}.{meant}"
                )
                raise ConfigurationError(msg)

    def doubt(self) -> None:
        """Warn once of tools that are declared reads, whatever the arguments, while their names say that they act."""
        acting = [f"{name} ({verb})" for name in sorted(self.reads) if (verb := verb_of_write(name))]
        if acting:
            self._tell_once(
                "Declared reads run while searching, whether or not their results are kept, and these sound as if they "
                f"act: {', '.join(acting)}. Declare writes 'write', and what does both by a function of the arguments."
            )

    def _tell_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            logger.warning("%s", message)

    @cached_property
    def _by_name(self) -> dict[str, list[_Declared]]:
        by_name: dict[str, list[_Declared]] = {}
        for each in self.entries:
            by_name.setdefault(each.name, []).append(each)
        return by_name

    def _shared_names(self, tools: Iterable[BaseTool]) -> set[str]:
        found: dict[str, BaseTool] = {}
        shared = {tool.name for tool in tools if found.setdefault(tool.name, tool) is not tool}
        for name in sorted(shared & (self.reads | self.by_arguments)):
            self._tell_once(
                f"Several tools are named {name}, so nobody knows which one a call reaches, and its calls count as "
                "writes. Give each a name of its own."
            )
        return shared

    def _effect_of(self, tool: BaseTool) -> Declaration | None:
        said = [each for each in self.entries if each.name == tool.name]
        own = [each for each in said if each.tool is not None and is_same_tool(tool, each.tool)]
        if found := own or [each for each in said if each.tool is None]:
            return found[0].effect if len({each.effect for each in found}) == 1 else "write"
        if not said:
            return "read" if isinstance(tool, ReadTool) else None
        if any(each.effect != "write" for each in said):
            self._tell_once(
                f"The tool {tool.name} is not the one that was declared a read under this name, so its calls count as "
                "writes. Declare this one: effects=[(tool, 'read')]."
            )
        return "write"


def is_same_tool(tool: BaseTool, declared: Any) -> bool:
    """Whether a tool is the one declared, the tool of that function, or a copy of it that runs the same function."""
    if tool is declared:
        return True
    functions = [getattr(tool, "func", None), getattr(tool, "coroutine", None)]
    if not isinstance(declared, BaseTool):
        return any(function is declared for function in functions)
    # What other kinds of tools run may depend on any of their fields.
    return type(tool) is type(declared) is StructuredTool and functions == [declared.func, declared.coroutine]


def _declared(key: Any, effect: Any) -> _Declared:
    name = key if isinstance(key, str) else key.name if isinstance(key, BaseTool) else getattr(key, "__name__", None)
    if not isinstance(name, str):
        msg = f"A key of effects must be a tool or the name of one, got {type(key).__name__} {key!r}."
        raise ConfigurationError(msg)
    is_async = inspect.iscoroutinefunction(effect) or inspect.iscoroutinefunction(getattr(effect, "__call__", None))  # noqa: B004
    if is_async or not (effect in ("read", "write") or callable(effect)):
        msg = f"effects[{name!r}] must be 'read' or 'write', got {effect!r}; or a plain function of the arguments."
        raise ConfigurationError(msg)
    return _Declared(name, effect, effect.tool if isinstance(effect, HintedEffect) else None if key is name else key)


def _reads(declared: _Declared, arguments: Mapping[str, Any] | None) -> bool:
    effect = declared.effect
    if not callable(effect):
        return effect == "read"
    try:
        if _hides_something(declared.tool, arguments or {}):
            return False
        answer = effect(_received(declared.tool, copy.deepcopy(dict(arguments or {}))))  # it may change what it gets
        return isinstance(answer, str) and answer == "read"
    except Exception as error:  # noqa: BLE001 - what cannot be told is a write
        logger.debug("The effect of a call is not known: %s", described(error))
        return False


def _hides_something(tool: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether a tool may take something else than a function looks at.

    That is an argument given by two of its names, or one that the schema of a server's tool does not name.
    """
    if not isinstance(tool, BaseTool):
        return False
    if isinstance(tool.args_schema, dict):
        known = tool.args_schema.get("properties")
        return isinstance(known, dict) and not arguments.keys() <= known.keys()
    fields = get_fields(tool.get_input_schema()).items()
    return any(len(arguments.keys() & {name, *aliases_of(field)}) > 1 for name, field in fields)


def _received(tool: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a tool gets: what a call leaves out has the default of the tool's schema."""
    if not isinstance(tool, BaseTool):
        return arguments
    if isinstance(tool.args_schema, dict):
        return cast("dict[str, Any]", _filled(tool.args_schema, arguments))
    for name, about in get_fields(tool.get_input_schema()).items():
        given = arguments.keys() & {name, *aliases_of(about)}
        if isinstance(about, FieldInfo):
            for key in given:
                if isinstance(arguments[key], dict | list):  # models within it have defaults of their own
                    known: TypeAdapter[Any] = TypeAdapter(cast("Any", about.annotation))
                    arguments[key] = known.dump_python(known.validate_python(arguments[key]), mode="json")
            if not given and not about.is_required():
                arguments[name] = about.get_default(call_default_factory=True)
        elif not given and not about.required:
            arguments[name] = about.get_default()
    return arguments


def _filled(schema: Any, value: Any) -> Any:
    known = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(known, dict) or not isinstance(value, dict):
        return value
    defaults = {name: each["default"] for name, each in known.items() if isinstance(each, dict) and "default" in each}
    return defaults | {name: _filled(known.get(name), each) for name, each in value.items()}


def _argument_names(tool: Any) -> set[str]:
    """What calls of a tool may name, aliases included; empty where the tool does not say, or takes anything."""
    if not isinstance(tool, BaseTool):
        return set()
    if isinstance(tool.args_schema, dict):
        return set() if tool.args_schema.get("additionalProperties") else {*tool.args_schema.get("properties", ())}
    schema = tool.get_input_schema()
    if getattr(schema, "model_config", {}).get("extra") == "allow":
        return set()
    return {each for name, field in get_fields(schema).items() for each in (name, *aliases_of(field))}


def aliases_of(field: Any) -> set[str]:
    """The other names of a pydantic field, v1 or v2."""
    validation = getattr(field, "validation_alias", None)
    choices = validation.choices if isinstance(validation, AliasChoices) else [validation]
    paths = [choice.path[0] if isinstance(choice, AliasPath) else choice for choice in choices]
    return {alias for alias in (field.alias, *paths) if isinstance(alias, str)}
