"""Tools: the cards that describe them, and whether the arguments of a call fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import jsonschema
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import get_fields
from pydantic import (
    AliasChoices,
    AliasPath,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import ValidationError as ValidationErrorV1

from langchain_tooltree.errors import ToolDefinitionError

MAX_PROBLEMS = 5


def clean_arguments(tool: BaseTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out arguments that the host injects; a model may not supply them.

    Args:
        tool: The tool.
        arguments: What the model wrote.

    Returns:
        The arguments without injected ones.
    """
    injected = injected_names(tool)
    return {name: value for name, value in arguments.items() if name not in injected}


def find_problem(tool: BaseTool, arguments: Mapping[str, Any]) -> str | None:
    """Validate arguments against a tool's schema, injected ones left aside.

    Args:
        tool: A tool whose `args_schema` is a pydantic model (v1 or v2), a JSON schema, or derived from its function.
        arguments: The arguments, injected ones left out.

    Returns:
        What is wrong, for the model to repair; `None` if the arguments are valid.
    """
    if isinstance(tool.args_schema, dict):
        return _json_schema_problem(tool.args_schema, arguments)
    # The full schema and not the one without injected fields: only the full one has the author's validators.
    schema = tool.get_input_schema()
    injected = injected_names(tool)
    try:
        if issubclass(schema, BaseModelV1):
            schema.parse_obj(dict(arguments))
        else:
            schema.model_validate(dict(arguments))
    except (ValidationError, ValidationErrorV1) as error:
        return _describe(
            (problem["loc"], problem["msg"])
            for problem in error.errors()
            if not (problem["loc"] and problem["loc"][0] in injected)
        )
    return None


def _json_schema_problem(schema: dict[str, Any], arguments: Mapping[str, Any]) -> str | None:
    try:
        validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
        problems = list(validator.iter_errors(dict(arguments)))
    except Exception as error:  # noqa: BLE001 - a schema that cannot be read must not stop the search
        return f"the tool's own schema cannot be used: {error}"
    return _describe((tuple(problem.absolute_path), problem.message) for problem in problems)


def _describe(problems: Any) -> str | None:
    lines = [f"{'.'.join(map(str, place)) or 'arguments'}: {message}" for place, message in problems]
    return "; ".join(lines[:MAX_PROBLEMS]) or None


def injected_names(tool: BaseTool) -> set[str]:
    """Names under which the host injects arguments, aliases included: in the full schema or the signature only."""
    names = set(tool._injected_args_keys)  # noqa: SLF001 - the one place where signature-injected names stand
    if isinstance(tool.args_schema, dict) or isinstance(tool.tool_call_schema, dict):
        return names
    shown = get_fields(tool.tool_call_schema)
    for name, field in get_fields(tool.get_input_schema()).items():
        if name not in shown:
            names |= {name, *_aliases(field)}
    return names


def _aliases(field: Any) -> set[str]:
    """The other names of a pydantic field, v1 or v2."""
    validation = getattr(field, "validation_alias", None)
    choices = validation.choices if isinstance(validation, AliasChoices) else [validation]
    paths = [choice.path[0] if isinstance(choice, AliasPath) else choice for choice in choices]
    return {alias for alias in (field.alias, *paths) if isinstance(alias, str)}


MAX_EXAMPLES = 3


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
        ToolDefinitionError: If there are more than three examples or `domains` is a string.
    """

    name: str
    description: str
    domains: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    examples: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if len(self.examples) > MAX_EXAMPLES:
            msg = f"The card of {self.name!r} has {len(self.examples)} examples; keep the {MAX_EXAMPLES} best."
            raise ToolDefinitionError(msg)
        if isinstance(self.domains, str):
            msg = f"domains of {self.name!r} must be a tuple of tags, got the string {self.domains!r}."
            raise ToolDefinitionError(msg)

    @classmethod
    def from_tool(cls, tool: BaseTool) -> "ToolCard":
        """Derive a card from any LangChain tool.

        Args:
            tool: The tool. Its `tags` become domains, the return annotation of its function the output schema.

        Returns:
            The card.
        """
        return cls(
            name=tool.name,
            description=tool.description,
            domains=tuple(tool.tags or ()),
            input_schema=convert_to_openai_tool(tool)["function"].get("parameters", {}),
            output_schema=_output_schema(tool),
        )

    def enriched(self, other: "ToolCard") -> "ToolCard":
        """This card with everything that the other one says taken from there."""
        return replace(
            self,
            description=other.description or self.description,
            domains=other.domains or self.domains,
            input_schema=other.input_schema or self.input_schema,
            output_schema=other.output_schema or self.output_schema,
            examples=other.examples or self.examples,
        )

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON-like data for a prompt, empty parts left out."""
        card = {
            "name": self.name,
            "description": self.description,
            "domains": list(self.domains),
            "input": self.input_schema,
            "output": self.output_schema,
            "examples": list(self.examples),
        }
        return {key: value for key, value in card.items() if value}


def _output_schema(tool: BaseTool) -> Mapping[str, Any] | None:
    function = (tool.func or tool.coroutine) if isinstance(tool, StructuredTool) else None
    if function is None:
        return None
    try:
        returned = get_type_hints(function).get("return")
        return None if returned in {None, Any} else TypeAdapter(returned).json_schema()
    except (NameError, TypeError, PydanticSchemaGenerationError, PydanticUserError):
        return None  # an annotation that cannot be described says nothing


class ToolLibrary(Sequence[BaseTool]):
    """Tools with their cards; accepted wherever tools are.

    Args:
        tools: LangChain tools, or another library.
        cards: Cards that enrich the derived ones, matched by name.

    Raises:
        ToolDefinitionError: If there are no tools, two share a name, something is not a tool, or a card names none.
    """

    def __init__(self, tools: Iterable[BaseTool], cards: Iterable[ToolCard] = ()) -> None:
        self._tools: dict[str, BaseTool] = {}
        self._cards: dict[str, ToolCard] = {}
        if not isinstance(tools, Iterable):
            msg = f"tools must be a list of LangChain tools or a ToolLibrary, got {type(tools).__name__}."
            raise ToolDefinitionError(msg)
        for tool in tools:
            if not isinstance(tool, BaseTool):
                msg = (
                    f"Expected a LangChain tool, got {type(tool).__name__} {tool!r}. "
                    "Decorate a function with langchain_core.tools.tool."
                )
                raise ToolDefinitionError(msg)
            if tool.name in self._tools:
                msg = f"Two tools are named {tool.name!r}. Rename one: the model tells tools apart by name."
                raise ToolDefinitionError(msg)
            self._tools[tool.name] = tool
            self._cards[tool.name] = (
                tools.card(tool.name) if isinstance(tools, ToolLibrary) else ToolCard.from_tool(tool)
            )
        if not self._tools:
            msg = "There are no tools to plan with. Pass at least one LangChain tool."
            raise ToolDefinitionError(msg)
        for card in cards:
            if card.name not in self._tools:
                msg = f"A card names the tool {card.name!r}, but the tools are {', '.join(self._tools)}."
                raise ToolDefinitionError(msg)
            self._cards[card.name] = self._cards[card.name].enriched(card)

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[BaseTool]:
        return iter(self._tools.values())

    def __getitem__(self, index: Any) -> Any:
        return list(self._tools.values())[index]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools, in their order."""
        return tuple(self._tools)

    def tool(self, name: str) -> BaseTool | None:
        """The tool of this name, `None` if there is none."""
        return self._tools.get(name)

    def card(self, name: str) -> ToolCard:
        """The card of a tool.

        Args:
            name: Name of a tool in this library.

        Returns:
            Its card.

        Raises:
            KeyError: If no tool has this name.
        """
        return self._cards[name]

    def by_domain(self) -> dict[str, list[ToolCard]]:
        """Cards grouped by domain; a card with several domains stands in each, one without under `""`."""
        groups: dict[str, list[ToolCard]] = {}
        for card in self._cards.values():
            for domain in card.domains or ("",):
                groups.setdefault(domain, []).append(card)
        return groups
