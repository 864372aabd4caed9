"""The command `doctor`: what a search could do for an agent, without running it."""

import argparse
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware

from langchain_tooltree.agent import create_tooltree_agent
from langchain_tooltree.cli.compare import imported
from langchain_tooltree.cli.terminal import Terminal, table
from langchain_tooltree.effects.calls import CallEffects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.sandbox import names_bound_by
from langchain_tooltree.text import counted
from langchain_tooltree.tools import as_tools

READING = ("get", "list", "search", "find", "read", "look", "fetch", "query", "show", "check", "count", "convert")
"""With which names of tools begin that look as if they only read: a guess, which only their owner can confirm."""


def run_doctor(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Look at the parts of an agent; code 1 if something should be looked at."""
    made: list[tuple[Sequence[Any], dict[str, Any]]] = []

    def create(model: Any, tools: Sequence[Any] = (), **given: Any) -> Any:
        made.append((tools or (), given))
        return create_tooltree_agent(model, tools, **given)

    imported(options.agent)(create)
    if not made:
        msg = f"{options.agent} has not made its agent with the function that it was given. Call that for create_agent."
        raise ConfigurationError(msg)
    given_tools, given = made[-1]
    sandbox = given.get("sandbox")
    bound = names_bound_by(sandbox) if sandbox is not None else frozenset[str]()
    middleware: Sequence[AgentMiddleware[Any, Any]] = given.get("middleware", ())
    tools = [*(tool for entry in middleware for tool in getattr(entry, "tools", ())), *as_tools(given_tools)]
    effects = CallEffects.declared_as(given.get("effects")).among(tools)
    rows = [_row(tool.name, effects, bound) for tool in tools]
    likely = [row["tool"] for row in rows if row["may_run"] == "no" and row["tool"].lower().startswith(READING)]
    advice = [*_advice(rows, likely, given)]
    beside = [type(entry).__name__ for entry in middleware]
    kept = given.get("checkpointer") is not None
    report = {
        "tools": rows,
        "look_like_reads": likely,
        "middleware": beside,
        "checkpointer": kept,
        "advice": advice,
    }
    terminal.print(table(("tool", "declared", "a search may run it"), (row.values() for row in rows)))
    terminal.say(
        f"Middleware beside the planner: {', '.join(beside) or 'none'}. Checkpointer: {'yes' if kept else 'no'}."
    )
    for line in advice or ["Nothing to mend."]:
        terminal.say(line)
    return report, int(bool(advice))


def _row(name: str, effects: CallEffects, bound: frozenset[str]) -> dict[str, str]:
    if name in bound:
        return {"tool": name, "declared": "in the sandbox", "may_run": "in a fork"}
    if name in effects.reads:
        return {"tool": name, "declared": "read", "may_run": "yes"}
    if name in effects.by_arguments:
        return {"tool": name, "declared": "by its arguments", "may_run": "some calls"}
    return {"tool": name, "declared": "write" if name in effects.entries else "nothing", "may_run": "no"}


def _advice(rows: Sequence[dict[str, str]], likely: Sequence[str], given: dict[str, Any]) -> Sequence[str]:
    """What to look at, most important first."""
    advice = []
    if not rows:
        advice.append("The agent has no tools: a search has nothing to try.")
    elif all(row["may_run"] == "no" for row in rows):
        advice.append("A search may run no tool: at a doubt it can only ask the agent again. Declare what only reads.")
    undeclared = [name for name in likely if {"tool": name, "declared": "nothing", "may_run": "no"} in rows]
    if undeclared:
        what = f"{counted(len(undeclared), 'tool')} with a name like a read's"
        shown = ", ".join(f'"{name}": "read"' for name in undeclared)
        advice.append(f"{what} declared as nothing. If they change nothing: effects={{{shown}}}.")
    if given.get("checkpointer") is None:
        advice.append(
            "There is no checkpointer: a run that is killed starts over, and nobody can be asked for approval."
        )
    if given.get("experience") is not None and given.get("verdict") is None:
        advice.append("Experience without verdict=: runs are kept, and nothing is learnt from them.")
    return advice
