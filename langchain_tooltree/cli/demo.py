"""The command `demo`: a search for a small task, in the terminal and on a page."""

import argparse
from pathlib import Path
from typing import Any

from rich.text import Text

from langchain_tooltree import demo
from langchain_tooltree.cli.terminal import (
    Terminal,
    check_free,
    model_named,
    progress,
    using,
)
from langchain_tooltree.pages.search import to_html, to_rich
from langchain_tooltree.tooltree.result import as_saved

DEMO_COSTS = (
    "rollouts",
    "nodes",
    "pruned_before",
    "pruned_after",
    "model_calls",
    "tokens",
    "tool_calls",
    "cache_hits",
)
DEMO_PAGE = Path("demo.html")


def run_demo(
    options: argparse.Namespace, terminal: Terminal
) -> tuple[dict[str, Any], int]:
    """Search, and show tree, answer and cost; the search as plain data."""
    page = options.output
    if page:
        check_free(page, force=options.force)
    elif not options.json and (options.force or not DEMO_PAGE.exists()):
        page = DEMO_PAGE
    model = model_named(options.model) if options.model else None
    speaker = (
        options.model
        or "an offline stand-in with scripted replies (use --model for a real model)"
    )
    terminal.say(f"{demo.REQUEST}\nModel: {speaker}\n")
    with using(options.model), progress("asking the model"):
        search = as_saved(demo.solved(model))
    answer = (
        search["nodes"][[0, *search["best"]][-1]].get("answer")
        or "The plan waits for approval."
    )
    costs = ", ".join(
        f"{search['cost'][name]:,} {name.replace('_', ' ')}" for name in DEMO_COSTS
    )
    terminal.print(
        to_rich(search),
        Text("✔ the plan", "dim"),
        Text(f"\n{answer}\n", "bold green"),
        sep="\n",
    )
    terminal.print(Text(f"{costs}. Stopped: {search['stop_reason']}."))
    if page:
        page.write_text(to_html(search), encoding="utf-8")
        terminal.say(f"\nA page to explore: {page.absolute().as_uri()}")
    elif not options.json:
        terminal.say(
            f"{DEMO_PAGE} is there already: --force replaces it, -o FILE names another one."
        )
    return search, 0
