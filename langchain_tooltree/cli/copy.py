"""`langchain-tooltree copy`: an experience in another store."""

import argparse
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from rich.progress import SpinnerColumn, TextColumn

from langchain_tooltree.cli import INCOMPLETE
from langchain_tooltree.cli.addresses import opened
from langchain_tooltree.cli.terminal import Terminal, embeddings_named, progress
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.copying import copied


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Copy what is missing, and with `--force` what differs."""
    ends = [
        (options.source, embeddings_named(options.source_embeddings), True),
        (options.target, embeddings_named(options.embeddings), False),
    ]
    with ExitStack() as stores, progress(TextColumn("{task.description} {task.completed}"), SpinnerColumn()) as shown:
        bar = shown.add_task("runs copied:")
        try:
            source, target = (
                stores.enter_context(opened(address, embedder, exists=exists)) for address, embedder, exists in ends
            )
            told = run_flow(copied(source, target, force=options.force, on_runs=lambda runs: shown.advance(bar, runs)))
        except (ToolTreeError, OSError, ImportError):
            raise
        except Exception as error:  # whatever a database raises
            reason = " ".join(described(error).split())
            msg = f"The copy has stopped ({reason}). What is copied stays; the same command goes on from there."
            raise ConfigurationError(msg) from error
    terminal.print(
        f"{told.runs} runs copied, {told.there} were there already; {told.others} tips and other notes copied."
    )
    if told.differing:
        terminal.print(f"Left alone: {told.differing} runs and notes that differ in DST. --force replaces them.")
    return asdict(told), INCOMPLETE if told.differing else 0
