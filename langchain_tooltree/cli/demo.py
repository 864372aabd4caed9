"""`langchain-tooltree demo`: a search for a small task, and a page to explore it on."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from rich.progress import SpinnerColumn, TextColumn

from langchain_tooltree import demo
from langchain_tooltree.cli import in_words
from langchain_tooltree.cli.show import check_drawable, pictures_of, print_drawn, print_search, write_picture
from langchain_tooltree.cli.terminal import Terminal, check_writable, model_named, progress, using
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.events import Event
from langchain_tooltree.pages.saved import as_saved
from langchain_tooltree.tooltree.result import SearchResult

PAGE = Path("demo.html")
"""Where the page goes if no other file is named."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Search, and show tree, answer and cost; the search as plain data."""
    if options.draw:
        check_drawable(options.draw, force=options.force)
    model = model_named(options.model) if options.model else None
    speaker = options.model or "an offline stand-in that follows a few rules (use --model for a real model)"
    terminal.print(f"[bold]{demo.REQUEST}[/]\nModel: {speaker}\n")
    with using(options.model):
        found = as_saved(_search(model))
    if options.draw:
        write_picture(pictures_of(found), options.draw)
    print_search(found, terminal)
    print_drawn(options.draw, terminal)
    if not (options.draw or options.json):
        _write_page(found, terminal, force=options.force)
    return found, 0


def _write_page(found: Mapping[str, Any], terminal: Terminal, *, force: bool) -> None:
    """Write the page that nobody has asked for: over that of an earlier demo, but over nothing else."""
    try:
        ours = PAGE.is_file() and demo.REQUEST in PAGE.read_text(encoding="utf-8", errors="replace")
        check_writable(PAGE, force=force or ours)
        write_picture(pictures_of(found), PAGE)
    except (ConfigurationError, OSError) as error:
        text = f"No page was written: {in_words(error)} (--draw FILE.html names another path.)"
        terminal.print(text, markup=False, highlight=False, soft_wrap=True)
    else:
        print_drawn(PAGE, terminal)


def _search(model: BaseChatModel | None) -> SearchResult:
    with progress(SpinnerColumn(), TextColumn("{task.description}", markup=False)) as shown:
        bar = shown.add_task("asking the model")

        def follow(event: Event) -> None:
            match event["type"]:
                case "doubt":
                    shown.update(bar, description=f"still missing: {event['missing']}"[:70].ljust(70))
                case "explore":
                    shown.update(bar, description=f"trying {event['call']}"[:70].ljust(70))

        return demo.solved(model, on_event=follow)
