"""Tools: the cards that describe them, whether the arguments of a call fit, and which of them a search may run.

A search runs tools whose results may never be kept. So a tool runs only if it is declared `read`; everything else is a
`write`, which is judged but left to the user's own tools node, or, if a sandbox binds it, tried out in a fork.
"""

import logging
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, get_type_hints

import jsonschema  # here, since an import at the first call would block the event loop that the call runs on
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as make_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import get_fields
from langgraph.prebuilt import InjectedStore, ToolRuntime
from langgraph.types import Command
from pydantic import (
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)

from langchain_tooltree.effects import CallEffects
from langchain_tooltree.errors import ConfigurationError, ToolDefinitionError, described
from langchain_tooltree.text import LONGEST_TEXT, counted, cut, shortened

logger = logging.getLogger(__name__)

MAX_EXAMPLES = 3  # examples of a card: the tool cards of the paper's ACL-format version have up to three
EXAMPLES = "tooltree_examples"  # where a tool's metadata holds the examples of its card

MAX_PROBLEMS = 5
"""Invalid arguments that a model is shown of one call: a call with more is better written from the start."""


@dataclass(frozen=True, slots=True)
class ToolCard:
    """What the planner knows of a tool.

    Args:
        name: Name of the tool.
        description: What it does, for the model.
        domains: Tags that group tools, such as `("travel",)`.
        input_schema: JSON schema of the arguments, injected ones left out.
        output_schema: JSON schema of the result, if known.
        examples: Up to three example calls or results, as text or JSON-like data.

    Raises:
        ToolDefinitionError: If there are more than three examples, or `examples` is no sequence of them.
    """

    name: str
    description: str
    domains: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    examples: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if isinstance(self.examples, str) or not isinstance(self.examples, Sequence):
            msg = f"examples of {self.name!r} must be a sequence of examples, got {self.examples!r:.80}."
            raise ToolDefinitionError(msg)
        if len(self.examples) > MAX_EXAMPLES:
            msg = f"The card of {self.name!r} has {len(self.examples)} examples; keep the {MAX_EXAMPLES} best."
            raise ToolDefinitionError(msg)

    @classmethod
    def from_tool(cls, tool: BaseTool) -> "ToolCard":
        """A card of a LangChain tool: its `tags` are domains, its function's return annotation the output schema.

        Ready tools bring examples in their `metadata`, so that they keep them in any list of tools.
        """
        return cls(
            name=tool.name,
            description=tool.description,
            domains=tuple(tool.tags or ()),
            input_schema=convert_to_openai_tool(tool)["function"].get("parameters", {}),
            output_schema=_output_schema(tool),
            examples=(tool.metadata or {}).get(EXAMPLES, ()),
        )

    def enriched(self, other: "ToolCard") -> "ToolCard":
        """This card with everything that the other one says taken from there."""
        stated = {
            name: value
            for name in ToolCard.__slots__
            if (value := getattr(other, name))
        }
        return replace(self, **{**stated, "name": self.name})

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON-like data for a prompt, without what says nothing: empty parts, and that text comes back."""
        card = {
            "name": self.name,
            "description": self.description,
            "domains": list(self.domains),
            "input": self.input_schema,
            "output": None
            if self.output_schema == {"type": "string"}
            else self.output_schema,
            "examples": list(self.examples),
        }
        return {key: value for key, value in card.items() if value}


def _output_schema(tool: BaseTool) -> Mapping[str, Any] | None:
    try:
        returned = (
            _hints(tool).get("return") if isinstance(tool, StructuredTool) else None
        )
        return None if returned in {None, Any} else TypeAdapter(returned).json_schema()
    except (NameError, TypeError, PydanticSchemaGenerationError, PydanticUserError):
        return None  # an annotation that cannot be described says nothing


class ToolLibrary(Sequence[BaseTool]):
    """Tools with their cards; accepted wherever tools are.

    `tools` are LangChain tools or functions, or another library; `cards` enrich the derived ones, matched by name.
    `names` stand in their order. Raises `ToolDefinitionError` if there are no tools, two share a name, something is not
    a tool, or a card names none.
    """

    def __init__(
        self,
        tools: Iterable[BaseTool | Callable[..., Any]],
        cards: Iterable[ToolCard] = (),
    ) -> None:
        self.by_name: dict[str, BaseTool] = {}
        self._cards: dict[str, ToolCard] = {}
        for tool in as_tools(tools):
            if tool.name in self.by_name:
                msg = f"Two tools are named {tool.name!r}. Rename one: the model tells tools apart by name."
                raise ToolDefinitionError(msg)
            self.by_name[tool.name] = tool
            self._cards[tool.name] = ToolCard.from_tool(tool)
        self._derived = {name: card.to_dict() for name, card in self._cards.items()}
        if isinstance(tools, ToolLibrary):
            cards = [*map(tools.card, tools.by_name), *cards]
        if not self.by_name:
            msg = "There are no tools to plan with. Pass at least one LangChain tool."
            raise ToolDefinitionError(msg)
        for card in cards:
            if card.name not in self.by_name:
                msg = f"A card names {_but_the_tools_are({card.name}, self.by_name)}"
                raise ToolDefinitionError(msg)
            self._cards[card.name] = self._cards[card.name].enriched(card)
        self.names = tuple(self.by_name)

    def __repr__(self) -> str:
        domains = dict.fromkeys(
            domain for card in self._cards.values() for domain in card.domains
        )
        return f"<{type(self).__name__}: {counted(len(self), 'tool')}{' of ' * bool(domains)}{', '.join(domains)}>"

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[BaseTool]:
        return iter(self.by_name.values())

    def __getitem__(self, index: Any) -> Any:
        return list(self.by_name.values())[index]

    def tool(self, name: str) -> BaseTool | None:
        """The tool of this name, `None` if there is none."""
        return self.by_name.get(name)

    def card(self, name: str) -> ToolCard:
        """The card of a tool; a `KeyError` if no tool here has this name."""
        return self._cards[name]

    def additions(self, name: str) -> dict[str, Any]:
        """What the card of a tool says beyond what a model gets bound: beyond the tool itself, without its examples."""
        card, own = self._cards[name].to_dict(), self._derived[name]
        return {
            key: card[key]
            for key in card
            if key == "examples" or (key != "input" and card[key] != own.get(key))
        }


def as_tools(tools: Any, *, provider_side: bool = False) -> list[Any]:
    """Tools as they are, and tools made of functions as `create_agent` does it; with those of providers, or not."""
    if isinstance(tools, BaseTool | str | Mapping) or not isinstance(tools, Iterable):
        msg = f"tools must be a list of tools and functions, or a ToolLibrary, got {type(tools).__name__}."
        raise ToolDefinitionError(msg)
    kinds = (BaseTool, dict) if provider_side else BaseTool
    return [each if isinstance(each, kinds) else _tool_of(each) for each in tools]


def _tool_of(source: Any) -> BaseTool:
    if not callable(source) or isinstance(source, type):
        msg = f"Expected a LangChain tool or a function, got {type(source).__name__} {source!r}."
        raise ToolDefinitionError(msg)
    try:
        tool: BaseTool = make_tool(source)
    except Exception as error:
        name = getattr(source, "__name__", repr(source))
        msg = f"{name} cannot become a tool: {error} Write a function with a name, a docstring and annotations."
        raise ToolDefinitionError(msg) from error
    return tool


def _but_the_tools_are(unknown: Collection[str], names: Iterable[str]) -> str:
    """Names that no tool has, and those that tools have."""
    return f"{', '.join(sorted(unknown))}, but the tools are {cut(', '.join(names), LONGEST_TEXT)}."


def checked_arguments(
    tool: BaseTool, written: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call without those that the host injects, which no model may supply, and what is wrong."""
    injected = injected_names(tool)
    arguments = {name: value for name, value in written.items() if name not in injected}
    if isinstance(tool.args_schema, dict):
        return arguments, _json_schema_problem(tool.args_schema, arguments)
    # The full schema and not the one without injected fields: only the full one has the author's validators.
    schema: Any = tool.get_input_schema()
    try:
        schema.model_validate(dict(arguments))
    except ValidationError as error:
        problems = (
            (each["loc"], each["msg"])
            for each in error.errors(include_url=False, include_input=False)
        )
        return arguments, _describe(
            (at, problem) for at, problem in problems if not (at and at[0] in injected)
        )
    except Exception as error:  # noqa: BLE001 - a validator of the author's
        return (
            arguments,
            f"the tool's own schema refuses them: {shortened(described(error))}",
        )
    return arguments, None


def _json_schema_problem(
    schema: dict[str, Any], arguments: Mapping[str, Any]
) -> str | None:
    try:
        validator = jsonschema.validators.validator_for(
            schema, default=jsonschema.Draft202012Validator
        )(schema)
        problems = list(islice(validator.iter_errors(dict(arguments)), MAX_PROBLEMS))
    except Exception as error:  # noqa: BLE001 - a schema that cannot be read must not stop the search
        return f"the tool's own schema cannot be used: {shortened(described(error))}"
    return _describe(
        (tuple(problem.absolute_path), problem.message) for problem in problems
    )


def _describe(problems: Any) -> str | None:
    lines = (
        f"{'.'.join(map(str, place)) or 'arguments'}: {shortened(message)}"
        for place, message in problems
    )
    return "; ".join(islice(lines, MAX_PROBLEMS)) or None


def injected_names(tool: BaseTool) -> set[str]:
    """Names under which the host injects arguments, aliases included: in the full schema or the signature only."""
    names = set(tool._injected_args_keys)  # noqa: SLF001 - the one place where signature-injected names stand
    if isinstance(tool.args_schema, dict) or isinstance(tool.tool_call_schema, dict):
        return names
    shown = get_fields(tool.tool_call_schema)
    for name, field in get_fields(tool.get_input_schema()).items():
        if name not in shown:
            aliases = (field.alias, getattr(field, "validation_alias", None))
            names |= {name, *(alias for alias in aliases if isinstance(alias, str))}
    return names


def check_effects(
    library: ToolLibrary, effects: CallEffects, bound: Collection[str] = ()
) -> None:
    """Refuse declarations that no tool fits.

    Args:
        library: The tools.
        effects: What is declared of them.
        bound: Names of the tools that a sandbox binds.

    Raises:
        ToolDefinitionError: If `effects` or the sandbox names a tool that the library does not have.
        ConfigurationError: If a tool that is declared a read returns a Command, or one that the sandbox binds has the
            store or the runtime injected, which no fork can contain.
    """
    _check_names("effects", effects.entries, library)
    for name in sorted(effects.reads & set(library.names)):
        if returns_command(library.by_name[name]):
            msg = f"{name!r} is declared a read but returns a Command, which updates the state; declare it a write."
            raise ConfigurationError(msg)
    _check_names("the sandbox", bound, library)
    for name in sorted(bound):
        if _injects_store(library.by_name[name]):
            msg = f"{name!r} has the store or the runtime injected, which no fork can contain; do not bind it."
            raise ConfigurationError(msg)
    if not effects.among(library).may_read and not bound:
        logger.warning(
            "No tool is declared a read or bound by a sandbox, so no call can be tried while planning. "
            "Pass effects={%r: 'read', ...} for the tools that only read.",
            library.names[0],
        )


def _check_names(source: str, names: Collection[str], library: ToolLibrary) -> None:
    if unknown := set(names).difference(library.names):
        msg = f"{source} names {_but_the_tools_are(unknown, library.names)}"
        raise ToolDefinitionError(msg)


def _hints(tool: BaseTool) -> dict[str, Any]:
    """The annotations of a tool's function, as far as they can be resolved."""
    function = (
        (tool.func or tool.coroutine) if isinstance(tool, StructuredTool) else tool._run  # noqa: SLF001 - hints
    )
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return {}


def _injects_store(tool: BaseTool) -> bool:
    hints = _hints(tool).values()
    extras = (extra for hint in hints for extra in typing.get_args(hint))
    runtime = any((typing.get_origin(hint) or hint) is ToolRuntime for hint in hints)
    return runtime or any(
        isinstance(extra, InjectedStore) or extra is InjectedStore for extra in extras
    )


def returns_command(tool: BaseTool) -> bool:
    """Whether a tool returns a Command and nothing else; one that may is found out if it does."""
    returned = _hints(tool).get("return")
    united = typing.get_origin(returned) in {typing.Union, types.UnionType}
    parts = [
        part
        for part in (typing.get_args(returned) if united else (returned,))
        if part is not type(None)
    ]
    return bool(parts) and all(
        (typing.get_origin(part) or part) is Command for part in parts
    )
