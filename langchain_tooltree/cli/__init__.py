"""The command line: `langchain-tooltree COMMAND`. Each command is a function `run_COMMAND` of a module of this folder.

This module knows the commands and their options alone, and imports nothing that takes time: help and version come at
once. A command's module is imported when the command is run.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from signal import SIGTERM, signal

from langchain_tooltree.errors import ToolTreeError, import_extra
from langchain_tooltree.text import visible_lines

REFUSED = (
    2  # a command cannot be carried out, or its arguments are wrong, as argparse has it
)
EXIT_INTERRUPTED = 130  # Ctrl-C: 128 and the number of SIGINT, as shells have it
TERMINATED = 143  # 128 and the number of SIGTERM
CLOSED = 141  # nobody reads the output any more: 128 and the number of SIGPIPE

MODULES = {"copy": "stores"}  # where it is not that of the command's own name

PLACE = "a folder, http://host:port/database of a Chroma server, or postgresql://user@host/database"
BUILDS = (
    "makes the agent with the function that it is given, which stands for create_agent"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default the one that the process was started with, and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # not all that stand in for them can do it
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # what a terminal has no letter for
    try:
        with _terminating():
            return _run_command(options, parser)
    except KeyboardInterrupt:
        sys.stderr.write(f"Stopped.{options.stopped}\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        with suppress(
            OSError, ValueError
        ):  # so that Python, at its end, does not find it closed either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except (ToolTreeError, OSError, ImportError) as error:
        sys.stderr.write(f"{visible_lines(in_words(error))}\n")
        return REFUSED


@contextmanager
def _terminating() -> Iterator[None]:
    """Let SIGTERM unwind what is under way, so that temporary copies of a store are removed."""
    try:
        before = signal(SIGTERM, lambda *_: sys.exit(TERMINATED))
    except ValueError:  # in a thread, which hears no signals
        yield
        return
    try:
        yield
    finally:
        signal(SIGTERM, before)


def _run_command(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if options.command is None:
        parser.print_help()
        return 0
    import_extra("rich", "cli", f"langchain-tooltree {options.command}")
    from langchain_tooltree.cli.terminal import Terminal  # noqa: PLC0415 - it takes time

    with ExitStack() as stack:
        if (
            options.json
        ):  # nothing else may stand there, whatever a user's module prints
            stack.enter_context(redirect_stdout(sys.stderr))
        module = import_module(
            f"{__name__}.{MODULES.get(options.command, options.command)}"
        )
        report, code = getattr(module, f"run_{options.command}")(
            options, Terminal(quiet=options.json)
        )
    if options.json:
        sys.stdout.write(json.dumps(report, indent=2, default=str) + "\n")
    sys.stdout.flush()  # a closed pipe is noticed here
    return int(code)


def in_words(error: Exception) -> str:
    """An error for somebody who has never heard of errno."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}. Check the path, or choose another."
    return str(error)


def _parser() -> argparse.ArgumentParser:
    """The parser; `stopped` is what is said of a command's work after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="langchain-tooltree",
        description="Planning and experience for agents. Try it: langchain-tooltree demo",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"langchain-tooltree {version('langchain-tooltree')}",
    )
    parser.set_defaults(stopped="")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands"
    )

    def command(name: str, text: str, example: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=text, epilog=f"example: langchain-tooltree {name} {example}"
        )
        added.add_argument(
            "--json", action="store_true", help="print one JSON document instead"
        )
        return added

    demo = command(
        "demo",
        "watch a search solve a small task, and explore it on a page",
        "--model openai:gpt-4.1-mini",
    )
    demo.add_argument(
        "--model",
        help="a model such as openai:gpt-4.1-mini; without it, a stand-in that needs no key",
    )
    demo.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the page to FILE instead of demo.html",
    )
    demo.add_argument("--force", action="store_true", help="replace FILE")

    view = command(
        "view",
        "look at searches, graphs, runs or experiences in a browser",
        "searches/",
    )
    what = f"a graph's folder, a saved search (.json) or a file of runs; a folder of these; or an experience: {PLACE}"
    view.add_argument("what", metavar="WHAT", help=what)
    view.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the page there, or a folder of pages",
    )
    view.add_argument("--force", action="store_true", help="replace what is there")
    view.add_argument(
        "--no-browser",
        action="store_true",
        help="say where the page is, and open no browser",
    )

    copy = command(
        "copy",
        "copy an experience to another store",
        "experience/ postgresql://localhost/agents",
    )
    copy.add_argument("source", metavar="SRC", help=PLACE)
    copy.add_argument("target", metavar="DST", help=PLACE)
    copy.add_argument(
        "--force", action="store_true", help="replace what is in DST already"
    )
    text = "embeds texts in DST, such as openai:text-embedding-3-small; by hashing, without a model, if left out"
    copy.add_argument("--embeddings", metavar="MODEL", help=text)
    copy.set_defaults(
        stopped=" What is copied stays; the same command goes on from there."
    )

    compare = command(
        "compare",
        "find out whether the planner helps on your tasks",
        "tasks.jsonl --agent app:build",
    )
    _add_compare(compare)

    doctor = command(
        "doctor",
        "look at what a search could do for an agent, without running it",
        "my_agent:build",
    )
    doctor.add_argument("agent", metavar="MODULE:FUNCTION", help=BUILDS)
    return parser


def _add_compare(compare: argparse.ArgumentParser) -> None:
    """Add the options of `compare`."""
    compare.add_argument(
        "tasks",
        metavar="TASKS",
        help="a JSON object a line with input and expected; langsmith:NAME",
    )
    compare.add_argument(
        "--agent", required=True, metavar="MODULE:FUNCTION", help=BUILDS
    )
    text = "contains (the default), exact, json, or MODULE:FUNCTION of inputs, outputs and reference_outputs"
    compare.add_argument("--check", default="contains", metavar="CHECK", help=text)
    compare.add_argument(
        "--judge",
        metavar="MODEL",
        help="a model that judges the answers, in place of a check",
    )
    compare.add_argument(
        "--model", help="the model of the agents, in place of their own"
    )
    text = f"a third agent that learns from each task, in this store: {PLACE}"
    compare.add_argument("--experience", metavar="STORE", help=text)
    compare.add_argument(
        "--limit", type=int, metavar="N", help="only the first N tasks"
    )
    compare.add_argument(
        "--at-once", type=int, default=4, metavar="N", help="runs at once (default: 4)"
    )
    compare.add_argument(
        "--price",
        type=float,
        nargs=2,
        metavar=("IN", "OUT"),
        help="dollars a million tokens",
    )
    text = "keeps finished runs (default: TASKS.compare.jsonl)"
    compare.add_argument("--journal", type=Path, metavar="FILE", help=text)
    text = "keep the searches there, with pages of those that made a difference"
    compare.add_argument("--pages", metavar="FOLDER", help=text)
    compare.add_argument(
        "--html", type=Path, metavar="FILE", help="also write the report as a page"
    )
    compare.add_argument("--force", action="store_true", help="replace FILE of --html")
    compare.add_argument("--yes", action="store_true", help="go on without being asked")
    compare.set_defaults(stopped=" The same command goes on from its journal.")
