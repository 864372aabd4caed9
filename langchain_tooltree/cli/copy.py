"""`langchain-tooltree copy`: an experience in another store."""

import argparse
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from langchain_tooltree.cli import INCOMPLETE
from langchain_tooltree.cli.addresses import opened
from langchain_tooltree.cli.terminal import Terminal, embeddings_named, progress
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.copying import copied


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Copy what is missing, and with `--force` what differs."""
    embedders = embeddings_named(options.source_embeddings), embeddings_named(options.embeddings)
    with ExitStack() as stores, progress("copying"):
        try:
            source = stores.enter_context(opened(options.source, embedders[0], exists=True))
            target = stores.enter_context(opened(options.target, embedders[1]))
            report = run_flow(copied(source, target, force=options.force))
        except (ToolTreeError, OSError, ImportError):
            raise
        except Exception as error:  # whatever a database raises
            reason = " ".join(described(error).split())
            msg = f"The copy has stopped ({reason}). What is copied stays; the same command goes on from there."
            raise ConfigurationError(msg) from error
    terminal.say(
        f"{report.runs} runs copied, {report.there} were there already; {report.others} tips and other notes copied."
    )
    if report.differing:
        terminal.say(f"Left alone: {report.differing} runs and notes that differ in DST. --force replaces them.")
    return asdict(report), INCOMPLETE if report.differing else 0
