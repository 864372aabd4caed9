"""The command `doctor`: what a search could do for an agent, without running it."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain.agents.structured_output import ProviderStrategy
from langchain_core.tools import BaseTool

from langchain_tooltree.agent import create_tooltree_agent
from langchain_tooltree.cli.terminal import Terminal, answering, imported, table
from langchain_tooltree.effects import CallEffects, hints_of
from langchain_tooltree.effects.names import is_read, verb_of_write
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.sandbox import names_bound_by
from langchain_tooltree.text import counted
from langchain_tooltree.tools import as_tools


def run_doctor(
    options: argparse.Namespace, terminal: Terminal
) -> tuple[dict[str, Any], int]:
    """Look at the parts of an agent; code 1 if something should be looked at."""
    tools, given = _capture_agent_parts(imported(options.agent), options.agent)
    rows = _effect_rows(tools, given)
    able = [row["tool"] for row in rows if not row["may_run"].startswith("no")]
    undeclared = [row for row in rows if row["declared"] == "nothing"]
    report: dict[str, Any] = {
        "tools": rows,
        "look_like_reads": [
            row["tool"] for row in undeclared if row["looks_like"] == "a read"
        ],
        "middleware": [type(entry).__name__ for entry in given.get("middleware", ())],
        "checkpointer": given.get("checkpointer") is not None,
    }
    report["advice"] = [*_advice(report, given)]
    columns = ("tool", "declared", "looks like", "a search may run it")
    terminal.print(table(columns, (row.values() for row in rows)))
    reads = f"try {len(able)} of {counted(len(rows), 'tool')}: {', '.join(able)}"
    terminal.say(
        f"At a doubt, a search can {reads if able else 'only ask the agent again'}."
    )
    terminal.say(
        f"Middleware beside the planner: {', '.join(report['middleware']) or 'none'}."
    )
    without = (
        "no, so a run that is killed starts over, and nobody can be asked for approval"
    )
    terminal.say(f"Checkpointer: {'yes' if report['checkpointer'] else without}.")
    for line in report["advice"] or ["Nothing to mend."]:
        terminal.say(line)
    return report, int(bool(report["advice"]))


def _capture_agent_parts(
    build: Callable[..., Any], place: str
) -> tuple[Sequence[BaseTool], dict[str, Any]]:
    """The tools, those of middleware among them, and the options of the last agent that a function makes."""
    made: list[tuple[Sequence[Any], dict[str, Any]]] = []

    def create(model: Any, tools: Any = None, **given: Any) -> Any:
        made.append((tools or (), given))
        return create_tooltree_agent(model, tools, **given)

    with answering("The agent cannot be made", "Does it need a key, or a package?"):
        build(create)
    if not made:
        msg = f"{place} has not made its agent with the function that it was given. Call that for create_agent."
        raise ConfigurationError(msg)
    tools, given = made[-1]
    own = [
        tool
        for entry in given.get("middleware", ())
        for tool in getattr(entry, "tools", ())
    ]
    return [*own, *as_tools(tools)], given


def _effect_rows(
    tools: Sequence[BaseTool], given: dict[str, Any]
) -> list[dict[str, str]]:
    """Of each tool: what is declared, what its name or its server's hint says, and whether a search may run it."""
    effects = CallEffects.declared_as(given.get("effects")).among(tools)
    bound = (
        names_bound_by(given["sandbox"])
        if given.get("sandbox") is not None
        else frozenset[str]()
    )
    rows = []
    for tool in tools:
        name = tool.name
        if name in bound:
            declared, may_run = "in the sandbox", "in a fork"
        elif name in effects.reads:
            declared, may_run = (
                "read",
                "no: return_direct" if tool.return_direct else "yes",
            )
        elif name in effects.by_arguments:
            declared, may_run = "by its arguments", "some calls"
        else:
            declared, may_run = "write" if name in effects.entries else "nothing", "no"
        reads = is_read(name) or any(hints_of(tool, "readOnlyHint", "read_only_hint"))
        looks_like = "a write" if verb_of_write(name) else "a read" if reads else ""
        rows.append(
            {
                "tool": name,
                "declared": declared,
                "looks_like": looks_like,
                "may_run": may_run,
            }
        )
    return rows


def _advice(report: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    """What to look at, most important first."""
    rows, undeclared = report["tools"], report["look_like_reads"]
    if not rows:
        yield "The agent has no tools: a search has nothing to try."
    elif all(row["may_run"].startswith("no") for row in rows):
        yield "A search may run no tool. Declare which tools are read-only."
    for row in rows:
        if row["declared"] == "read" and row["looks_like"] == "a write":
            yield f"{row['tool']} is declared read-only, and looks like a write: a search runs it without being asked."
    if undeclared:
        effects = ", ".join(f'"{name}": "read"' for name in undeclared)
        yield f"Undeclared tools that look like reads: if they change nothing, effects={{{effects}}}."
    if isinstance(given.get("response_format"), ProviderStrategy):
        yield "Answers by ProviderStrategy have no room for a report, so none is doubted. ToolStrategy has."
