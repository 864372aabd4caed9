"""`langchain-tooltree demo`: a search for a small task."""

import argparse
from typing import Any

from langchain_core.language_models import BaseChatModel
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn

from langchain_tooltree import demo
from langchain_tooltree.cli.show import check_drawable, pictures_of, print_drawn, print_search, write_picture
from langchain_tooltree.cli.terminal import Terminal, model_named, progress, using
from langchain_tooltree.events import Event
from langchain_tooltree.tooltree.driver import search
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.saved import as_saved
from langchain_tooltree.tooltree.search import SearchConfig


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Search, and show tree, answer and cost; the search as plain data."""
    if options.draw:
        check_drawable(options.draw, force=options.force)
    config = SearchConfig(max_rollouts=options.rollouts, seed=options.seed)
    model = model_named(options.model) if options.model else demo.offline_model()
    speaker = options.model or "an offline stand-in that follows a few rules (use --model for a real model)"
    terminal.print(f"[bold]{demo.REQUEST}[/]\nModel: {speaker}\n")
    with using(options.model):
        result = _search(model, config)
    found = as_saved(result)
    if options.draw:
        write_picture(pictures_of(found), options.draw)
    print_search(found, terminal)
    print_drawn(options.draw, terminal)
    return found, 0


def _search(model: BaseChatModel, config: SearchConfig) -> SearchResult:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with progress(*columns) as shown:
        bar = shown.add_task("searching", total=config.max_rollouts)

        def follow(event: Event) -> None:
            match event["type"]:
                case "budget":
                    shown.update(bar, completed=event["rollouts"])
                case "execute" | "evaluate" | "prune":
                    shown.update(bar, description=f"{event['type']} {event['call']}"[:60].ljust(60))

        return search(demo.REQUEST, demo.TOOLS, model=model, config=config, effects=demo.EFFECTS, on_event=follow)
