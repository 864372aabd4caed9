"""`langchain-tooltree demo`: a search for a small task, and a page to explore it on."""

import argparse
from pathlib import Path
from typing import Any

from rich.markup import escape

from langchain_tooltree import demo
from langchain_tooltree.cli import in_words
from langchain_tooltree.cli.show import check_drawable, draw, drawings_of, printed_search
from langchain_tooltree.cli.terminal import Terminal, check_free, model_named, progress, using
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.events import Event
from langchain_tooltree.pages.saved import as_saved

PAGE = Path("demo.html")
"""Where the page goes if no other file is named."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Search, and show tree, answer and cost; the search as plain data."""
    if options.draw:
        check_drawable(options.draw, force=options.force)
    model = model_named(options.model) if options.model else None
    speaker = options.model or "an offline stand-in that follows a few rules (use --model for a real model)"
    terminal.say(f"{demo.REQUEST}\nModel: {speaker}\n")
    with using(options.model), progress("asking the model") as status:

        def follow(event: Event) -> None:
            match event["type"]:
                case "doubt":
                    status.update(escape(f"still missing: {event['missing']}"[:70]))
                case "explore":
                    status.update(escape(f"trying {event['call']}"[:70]))

        search = as_saved(demo.solved(model, on_event=follow))
    terminal.print(*printed_search(search), sep="\n")
    if options.draw:
        draw(drawings_of(search), options.draw, terminal)
    if not (options.draw or options.json):
        try:  # nobody has asked for this page: it replaces that of an earlier demo, and nothing else
            ours = PAGE.is_file() and demo.REQUEST in PAGE.read_text(encoding="utf-8", errors="replace")
            check_free(PAGE, force=options.force or ours)
            draw(drawings_of(search), PAGE, terminal)
        except (ConfigurationError, OSError) as error:
            terminal.say(f"No page was written: {in_words(error)} (--draw FILE.html names another path.)")
    return search, 0
