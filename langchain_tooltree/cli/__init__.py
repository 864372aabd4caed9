"""The command line: `langchain-tooltree demo`, and `mine`, `suggest`, `show`, `doctor` for graphs."""

import argparse
import sys
from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from langchain_tooltree import demo
from langchain_tooltree.cli.graphs import add_graph_commands, run_graph_command
from langchain_tooltree.events import Event
from langchain_tooltree.models import resolve_model
from langchain_tooltree.tooltree.driver import search
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.search import SearchConfig

MODEL_UNAVAILABLE = 2
"""Exit code when the model that was asked for cannot be used."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, with the words after the program's name; those of the process if left out.

    Returns:
        The exit code: 0; 2 if the command cannot be carried out, such as when the model asked for cannot be used; 1 if
        `doctor` has something to report.
    """
    parser = argparse.ArgumentParser(prog="langchain-tooltree", description="Planning and experience for agents.")
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("demo", help="watch a search solve a small task with real local tools")
    shown.add_argument("--model", help="a model such as openai:gpt-4.1-mini; without it, a stand-in that needs no key")
    shown.add_argument("--rollouts", type=int, default=30, help="rollouts at the most (default: %(default)s)")
    shown.add_argument("--seed", type=int, default=0, help="seed of the search (default: %(default)s)")
    shown.add_argument("--mermaid", metavar="PATH", help="also write the tree as a Mermaid chart")
    add_graph_commands(commands)
    options = parser.parse_args(arguments)
    if options.command != "demo":
        return run_graph_command(options)
    return run_demo(options.model, rollouts=options.rollouts, seed=options.seed, mermaid=options.mermaid)


def run_demo(model_name: str | None, *, rollouts: int, seed: int, mermaid: str | None = None) -> int:
    """Search the demo's task and show the tree, the answer and the cost."""
    console = Console()
    try:
        model: BaseChatModel = resolve_model(model_name) if model_name else demo.offline_model()
    except Exception as error:  # noqa: BLE001 - a missing key or package raises whatever the provider likes
        return _unavailable(model_name, error)
    speaker = model_name or "an offline stand-in that follows a few rules (use --model for a real model)"
    console.print(f"[bold]{demo.REQUEST}[/bold]\nModel: {speaker}\n")
    try:
        # Every observation is judged, so that the tree shows why each branch was left.
        config = SearchConfig(max_rollouts=rollouts, seed=seed, post_evaluation="always")
        result = _search(console, model, config)
    except Exception as error:
        if model_name is None:
            raise
        return _unavailable(model_name, error)
    console.print(result.to_rich())
    console.print("[dim]Q mean reward, N visits, r_pre / r_post scores before / after the call, ✔ the plan[/]")
    if recovery := _recovery(result):
        console.print(f"\n{recovery}")
    console.print(f"\n[bold green]{result.answer.text if result.answer else 'The plan waits for approval.'}[/]\n")
    console.print(_cost_table(result))
    if mermaid:
        with open(mermaid, "w", encoding="utf-8") as chart:  # noqa: PTH123 - a path the user typed
            chart.write(result.to_mermaid())
    return 0


def _search(console: Console, model: BaseChatModel, config: SearchConfig) -> SearchResult:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("searching", total=config.max_rollouts)

        def follow(event: Event) -> None:
            match event["type"]:
                case "budget":
                    progress.update(bar, completed=event["rollouts"])
                case "execute" | "evaluate" | "prune":
                    progress.update(bar, description=f"{event['type']} {event['call']}"[:60].ljust(60))

        return search(demo.REQUEST, demo.TOOLS, model=model, config=config, effects=demo.EFFECTS, on_event=follow)


def _recovery(result: SearchResult) -> str | None:
    """The story of a first step that looked best and was given up, if there is one."""
    first_steps = [node for node in result.tree.children(result.tree.root) if node.r_pre is not None]
    favourite = max(first_steps, key=lambda node: node.r_pre or 0.0, default=None)
    if favourite is None or favourite.r_post is None or not favourite.pruned or not result.steps:
        return None
    plan = " → ".join(call.tool for call in result.calls)
    return (
        f"Recovered: {favourite.label} looked best (r_pre {favourite.r_pre:.2f}) but did not deliver "
        f"(r_post {favourite.r_post:.2f}). The plan: {plan}."
    )


def _cost_table(result: SearchResult) -> Table:
    cost = result.cost
    pruned = f"{cost.pruned_before} / {cost.pruned_after}"
    figures = (cost.rollouts, cost.nodes, pruned, cost.model_calls, cost.tokens, cost.tool_calls, cost.cache_hits)
    table = Table("rollouts", "nodes", "pruned before / after", "model calls", "tokens", "tool calls", "cached", "stop")
    table.add_row(*map(str, figures), result.stop_reason)
    return table


def _unavailable(model_name: str | None, error: Exception) -> int:
    reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
    sys.stderr.write(f"Cannot use the model {model_name!r}: {reason}\n")
    return MODEL_UNAVAILABLE
