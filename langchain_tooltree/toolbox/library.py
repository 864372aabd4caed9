"""The library that `toolbox` gives: entries as LangChain tools, with cards, effects and what was left out."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools.base import create_schema_from_function
from langchain_core.utils.pydantic import get_fields
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, create_model, model_validator

from langchain_tooltree.errors import ConfigurationError, MissingExtraError, did_you_mean
from langchain_tooltree.models import inner_config, resolve_model
from langchain_tooltree.toolbox.bounded import run_bounded
from langchain_tooltree.toolbox.entries import DOMAINS, Entry, RefusedError, all_entries, perform, refusal
from langchain_tooltree.tooltree.tools import EXAMPLES, ToolLibrary

logger = logging.getLogger(__name__)

PASSED = (RefusedError, GraphBubbleUp)
"""What is no failure: a refusal, and an interrupt, since a `search` may ask a person."""

TEXTS = ("text", "old", "new")
"""Arguments for which a file of the folder can stand, since no model should have to copy one, or counts its name."""

FILE = re.compile(r"[^\n]{1,200}\.(pdf|html?|docx|md|txt|csv|tsv|jsonl?)", re.IGNORECASE)
"""What may be the name of a file, where a text is asked for."""

ALSO = {"math": "maths"}
"""Another spelling of a domain."""


class Toolbox(ToolLibrary):
    """A `ToolLibrary` of ready tools.

    Attributes:
        effects: What to pass as `effects`: all tools only read.
        left_out: The tools that cannot be used, with what each lacks.
    """

    def __init__(self, tools: Iterable[BaseTool], left_out: Mapping[str, str]) -> None:
        super().__init__(tools)
        self.effects: dict[str, str] = dict.fromkeys(self.names, "read")
        self.left_out = dict(left_out)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {len(self.left_out)} left out>"


def chosen(wanted: Sequence[Any], settings: dict[str, Any]) -> Toolbox:
    """The tools of domains and of these names; see `toolbox`."""
    entries = all_entries()
    settings = _checked(settings)
    usable: dict[str, Entry] = {}
    left_out: dict[str, str] = {}
    for each in wanted or DOMAINS:
        if not isinstance(each, str):
            names = each if isinstance(each, list | tuple | set | frozenset) else ("maths", "units")
            right = ", ".join(f'"{name}"' for name in names)
            msg = f"toolbox() takes names one by one, got {each!r}. Write toolbox({right})."
            raise ConfigurationError(msg)
        word = ALSO.get(each, each)
        if word not in (*DOMAINS, *entries):
            meant = did_you_mean(word, (*DOMAINS, *entries))
            msg = f"There is no domain and no tool {each!r} in the toolbox.{meant} Domains: {', '.join(DOMAINS)}."
            raise ConfigurationError(msg)
        for entry in [entries[word]] if word in entries else [e for e in entries.values() if e.domain == word]:
            lacking = entry.lacks(settings)
            if lacking is None:
                usable[entry.name] = entry
            elif word in entries:
                raise _missing(entry, *lacking)
            else:
                left_out[entry.name] = _lacks(*lacking)
    if not usable:
        msg = f"None of these tools can be used: {'; '.join(f'{name}: {why}' for name, why in left_out.items())}."
        raise ConfigurationError(msg)
    if left_out:
        told = "; ".join(f"{name} ({reason})" for name, reason in left_out.items())
        logger.warning("The toolbox has left out %s.", told)
    tools = [tool_of(entry, settings) for entry in usable.values()]
    return Toolbox(tools, left_out)


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, with models made of their names and the folder as a text; refused where they cannot be right."""
    folder, seconds = settings["folder"], settings["seconds"]
    if folder is not None and not (str(folder) and Path(folder).is_dir()):  # "" would be the current folder
        msg = f"folder must be a folder that exists, got {str(folder)!r}."
        raise ConfigurationError(msg)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 600:  # noqa: PLR2004 - nobody waits longer
        msg = f"seconds must be a number above 0 and up to 600, got {seconds!r}."
        raise ConfigurationError(msg)
    for name in ("encyclopaedia", "wikidata", "pubmed"):
        if settings[name] is not None and not str(settings[name]).startswith(("https://", "http://")):
            msg = f"{name} must be the address of a service, such as https://..., got {settings[name]!r}."
            raise ConfigurationError(msg)
    if settings["search"] is not None and not (callable(settings["search"]) or hasattr(settings["search"], "invoke")):
        msg = f"search must be a function, a LangChain tool or a retriever, got {type(settings['search']).__name__}."
        raise ConfigurationError(msg)
    models = {
        name: resolve_model(settings[name]).with_config(inner_config(name, {}))  # kept out of the agent's own stream
        for name in ("model", "vision")
        if settings[name] is not None
    }
    root = None if folder is None else str(Path(folder).resolve())

    def run(entry: str, patience: float = seconds, /, **arguments: Any) -> str:
        return run_bounded(entry, {**arguments, "folder": root}, patience)

    return {**settings, **models, "run": run, "folder": root}


def _lacks(kind: str, name: str) -> str:
    return f"needs {name}" if kind == "setting" else f"needs the {kind} {name}"


def _missing(entry: Entry, kind: str, name: str) -> Exception:
    if kind == "package":
        msg = f"{entry.name} needs {name}, which is not installed: pip install 'langchain-tooltree[toolbox]'"
        return MissingExtraError(msg, name=name)
    if kind == "program":
        return MissingExtraError(f"{entry.name} needs the program {name}; install it with your system's packages.")
    return ConfigurationError(f"{entry.name} needs {name}: toolbox({entry.name!r}, {name.replace('=', '=...')}).")


def tool_of(entry: Entry, settings: Mapping[str, Any]) -> StructuredTool:
    """An entry as a LangChain tool, bounded, with refusals as `ToolException`s that the model reads."""
    given = {name: settings[name] for name in entry.settings}
    schema: Any = create_schema_from_function(
        entry.name,
        entry.function,
        filter_args=list(entry.settings),
        parse_docstring=True,
        error_on_invalid_docstring=True,
    )

    files_too = [name for name in TEXTS if name in get_fields(schema) and settings["folder"] is not None]
    for name in files_too:
        schema.model_fields[name].description += " Or a file of the folder."
    schema.model_config["coerce_numbers_to_str"] = True  # as 0 for the lower bound of an integral
    usual: Any = {"usual": model_validator(mode="before")(_usual)}
    schema = create_model(entry.name, __base__=schema, __validators__=usual)
    schema.model_rebuild(force=True)

    def call(**arguments: Any) -> str:
        try:
            for name in files_too:
                if FILE.fullmatch(arguments[name]):
                    arguments[name] = settings["run"]("_text_of", text=arguments[name])
            if entry.bounded:
                return run_bounded(entry.name, {**arguments, **given}, settings["seconds"])
            return perform(entry.name, {**arguments, **given}, PASSED)
        except RefusedError as refused:
            raise ToolException(refusal(refused, settings["folder"])) from None

    return StructuredTool(
        name=entry.name,
        description=(entry.function.__doc__ or "").partition("\n\n")[0],
        args_schema=schema,
        func=call,
        tags=[entry.domain],
        metadata={EXAMPLES: entry.examples},
        handle_tool_error=True,
    )


def _usual(cls: type[BaseModel], values: Any) -> Any:
    """Arguments as models also write them: one text for a list of texts, and nothing for what may be left out."""
    if not isinstance(values, dict):
        return values
    lists = {name for name, field in cls.model_fields.items() if "list[str]" in str(field.annotation)}
    return {
        name: [value] if name in lists and isinstance(value, str) else value
        for name, value in values.items()
        if value is not None
    }
