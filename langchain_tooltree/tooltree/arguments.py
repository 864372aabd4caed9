"""Are a call's arguments valid for its tool? Against any schema that a LangChain tool can have."""

from collections.abc import Mapping
from typing import Any

import jsonschema
from langchain_core.tools import BaseTool
from langchain_core.utils.pydantic import get_fields
from pydantic import AliasChoices, AliasPath, ValidationError
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import ValidationError as ValidationErrorV1

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
