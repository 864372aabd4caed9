"""The library that `toolbox` gives: entries as LangChain tools, with cards, effects and what was left out."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools.base import create_schema_from_function

from langchain_tooltree.errors import ConfigurationError, MissingExtraError
from langchain_tooltree.models import inner_config, resolve_model
from langchain_tooltree.text import cut
from langchain_tooltree.toolbox.process import POOL, RefusedError, limit_result, perform
from langchain_tooltree.tools import EXAMPLES, ToolLibrary

logger = logging.getLogger(__name__)

MAX_SECONDS = 600  # the longest time limit of a call; nobody waits longer for an answer

# The domains, the module of this folder in which each stands, and the package that it needs.
DOMAINS = {
    "maths": ("computing", "sympy"),
    "units": ("computing", "pint"),
    "tables": ("sources", "duckdb"),
}
DOMAINS |= {
    "documents": ("sources", "pypdf"),
    "images": ("sources", "PIL"),
    "knowledge": ("sources", "httpx"),
}
# Domain, name and examples of each tool, a function of its domain's module, whose keyword-only parameters are settings.
TOOL_TABLE: tuple[tuple[Any, ...], ...] = (
    (
        "maths",
        "calculator",
        {"expression": "12.5 * (3 + 4) / 2"},
        {"expression": "integrate(x^2, (x, 0, 3))"},
    ),
    (
        "maths",
        "solve_equations",
        {"equations": ["x + y = 10", "x - y = 2"]},
        {"equations": ["x^2 - 5*x + 6 = 0"]},
    ),
    (
        "units",
        "convert_units",
        {"value": 26.2, "unit": "mile", "to": "km"},
        {"value": 5, "unit": "degF", "to": "degC"},
    ),
    ("units", "time_between", {"start": "2026-03-01", "end": "2026-12-24"}),
    ("units", "add_to_date", {"start": "2024-01-31", "amount": 1, "unit": "months"}),
    ("tables", "describe_tables", {"files": ["sales.csv"]}),
    (
        "tables",
        "query_tables",
        {"sql": "SELECT sum(amount) AS total FROM sales", "files": ["sales.csv"]},
    ),
    ("documents", "list_files", {}, {"ending": ".pdf"}),
    (
        "documents",
        "read_document",
        {"file": "report.pdf"},
        {"file": "report.pdf", "start": 19800},
    ),
    (
        "documents",
        "search_documents",
        {"pattern": "annual leave"},
        {"pattern": r"total:? \d+", "file": "report.pdf"},
    ),
    ("images", "image_size", {"image": "photo.png"}),
    ("images", "zoom_image", {"image": "photo.png", "part": "top right"}),
    (
        "images",
        "ask_image",
        {"image": "photo.png", "question": "How many people wear a helmet?"},
    ),
    ("knowledge", "search_encyclopaedia", {"query": "Alhambra"}),
    (
        "knowledge",
        "query_knowledge_graph",
        {"sparql": "SELECT ?inhabitants WHERE { wd:Q8810 wdt:P1082 ?inhabitants }"},
    ),
)


class Toolbox(ToolLibrary):
    """A `ToolLibrary` of ready tools.

    Attributes:
        effects: What to pass as `effects`: all tools only read.
        left_out: The tools that cannot be used, with what each needs.
    """

    def __init__(self, tools: Iterable[BaseTool], left_out: Mapping[str, str]) -> None:
        super().__init__(tools)
        self.effects: dict[str, str] = dict.fromkeys(self.names, "read")
        self.left_out = dict(left_out)


def toolbox(
    *domains: str,
    folder: str | os.PathLike[str] | None = None,
    vision: str | BaseChatModel | None = None,
    encyclopaedia: str | None = None,
    wikidata: str | None = None,
    seconds: float = 10.0,
) -> Toolbox:
    """Ready tools of some domains, or of all, as a `ToolLibrary`.

    A tool that lacks a package or a setting is left out, with a line in the log, unless you name the tool itself.

    Args:
        domains: Of `"maths"`, `"units"`, `"tables"`, `"documents"`, `"images"` and `"knowledge"`, or names of tools.
            All domains if there are none.
        folder: The folder whose files the tools may read; nothing is written there.
        vision: Answers questions about images: a chat model that takes images, or a name for `init_chat_model`.
        encyclopaedia: Address of a MediaWiki, such as `"https://en.wikipedia.org/w/api.php"`.
        wikidata: Address of a SPARQL service, such as `"https://query.wikidata.org/sparql"`.
        seconds: Time limit of one call, above 0 and up to 600.

    Raises:
        ConfigurationError: For an unknown domain, a folder that does not exist, or a named tool without its setting.
        MissingExtraError: For a named tool without its package.
    """
    settings = _check_settings(
        folder, vision, encyclopaedia=encyclopaedia, wikidata=wikidata, seconds=seconds
    )
    tools: dict[str, BaseTool] = {}
    left_out: dict[str, str] = {}
    for word in domains or DOMAINS:
        entries = [entry for entry in TOOL_TABLE if word in entry[:2]]
        if not entries:
            msg = f"There is no domain and no tool {word!r} in the toolbox. Domains: {', '.join(DOMAINS)}."
            raise ConfigurationError(msg)
        for domain, name, *examples in entries:
            try:
                tools[name] = _make_tool(domain, name, examples, settings)
            except (ConfigurationError, MissingExtraError) as error:
                if word == name:
                    raise
                left_out[name] = str(error)
    reasons = " ".join(left_out.values())
    if not tools:
        msg = f"None of these tools can be used: {reasons}"
        raise ConfigurationError(msg)
    if left_out:
        logger.warning("The toolbox has left out tools: %s", reasons)
    return Toolbox(tools.values(), left_out)


def _check_settings(
    folder: str | os.PathLike[str] | None,
    vision: Any,
    *,
    seconds: float,
    **services: str | None,
) -> dict[str, Any]:
    """The settings with the folder resolved and the model made of its name; refused where they cannot be right."""
    if folder is not None and not (
        str(folder) and Path(folder).is_dir()
    ):  # "" would be the current folder
        msg = f"folder must be a folder that exists, got {str(folder)!r}."
        raise ConfigurationError(msg)
    if not 0 < seconds <= MAX_SECONDS:
        msg = f"seconds must be a number above 0 and up to {MAX_SECONDS}, got {seconds!r}."
        raise ConfigurationError(msg)
    for name, address in services.items():
        if address and not address.startswith(("https://", "http://")):
            msg = f"{name} must be the address of a service, such as https://..., got {address!r}."
            raise ConfigurationError(msg)
    root = folder and str(Path(folder).resolve())
    model = vision and resolve_model(vision).with_config(
        inner_config("vision", {})
    )  # kept out of the agent's stream
    return {**services, "folder": root, "vision": model, "seconds": seconds}


def _make_tool(
    domain: str, name: str, examples: Sequence[Any], settings: Mapping[str, Any]
) -> StructuredTool:
    """A function as a LangChain tool, bounded, with refusals as error messages that the model reads."""
    module, package = DOMAINS[domain]
    function = getattr(import_module(f"langchain_tooltree.toolbox.{module}"), name)
    if find_spec(package) is None:
        msg = f"{name} needs {package}: pip install 'langchain-tooltree[toolbox]'."
        raise MissingExtraError(msg)
    parameters = signature(function).parameters.values()
    needs = {
        each.name: settings[each.name]
        for each in parameters
        if each.kind is Parameter.KEYWORD_ONLY
    }
    if missing := [f"{setting}=" for setting, value in needs.items() if not value]:
        msg = f"{name} needs {', '.join(missing)}."
        raise ConfigurationError(msg)

    def run(**arguments: Any) -> str:
        try:
            if (
                "vision" in needs
            ):  # the model is asked in this process, the image is prepared in the other one
                return limit_result(perform(function, {**arguments, **needs}))
            return limit_result(
                POOL.run(function, {**arguments, **needs}, settings["seconds"], package)
            )
        except RefusedError as error:
            where = f"{settings['folder']}{os.sep}"  # which is nobody's business
            raise ToolException(
                cut(limit_result(str(error)).replace(where, ""), 1_000)
            ) from None

    return StructuredTool(
        name=name,
        description=function.__doc__.partition("\n\n")[0],
        args_schema=create_schema_from_function(
            name, function, filter_args=[*needs], parse_docstring=True
        ),
        func=run,
        tags=[domain],
        metadata={EXAMPLES: tuple(examples)},
        handle_tool_error=True,
    )
