"""The command line: `langchain-tooltree COMMAND`. Each command is the function `run` of the module with its name.

This module knows the commands and their options alone, and imports nothing but the standard library: help, version and
completion come at once. A command's module is imported when the command is run.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

UNHEALTHY = 1
"""Exit code of `doctor` if a tool that the graph knows has been removed or has changed."""

INCOMPLETE = 1
"""Exit code of `copy` if some runs were left out."""

REFUSED = 2
"""Exit code if a command cannot be carried out, such as when the model asked for cannot be used; argparse's, too."""

STOPPED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""

CLOSED = 141
"""Exit code if nobody reads the output any more, as behind `| head`: 128 and the number of SIGPIPE, as shells have it.
"""

EXIT_CODES = f"""exit codes:
  0    done
  1    done, with something to look at: doctor found that tools were removed or
       changed, or copy has left runs out
  {REFUSED}    not done, for the reason on stderr
  {STOPPED}  stopped with Ctrl-C
  {CLOSED}  nobody reads the output any more, as behind `| head`
"""

PLACE = "a folder, http://host:port/database of a Chroma server, or postgresql://user@host/database"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default the one that the process was started with, and return its exit code."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next
        import_module("argcomplete").autocomplete(parser)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        asked = parser.get_default("parsers").get(options.command, parser)  # its usage is what helps
        asked.error(f"unrecognized arguments: {' '.join(unknown)}")
    if arguments is None:
        signal.signal(signal.SIGINT, _interrupted)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # not all that stand in for them can do it
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # what a terminal has no letter for
    try:
        return _run(options, parser)
    except KeyboardInterrupt:
        sys.stderr.write(f"Stopped.{options.stopped}\n")
        return STOPPED
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # so that Python, at its end, does not find it closed either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except Exception as error:
        from langchain_tooltree.errors import ToolTreeError  # noqa: PLC0415 - costs more than all of this module
        from langchain_tooltree.svg import visible_lines  # noqa: PLC0415 - as above

        if not isinstance(error, ToolTreeError | OSError | ImportError):
            raise
        sys.stderr.write(f"{visible_lines(in_words(error))}\n")
        return REFUSED


def _interrupted(*_: object) -> None:
    """Stop, once the requests and tools that run have come to their end; the next Ctrl-C does not wait for them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def _run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if options.version:
        try:
            sys.stdout.write(f"langchain-tooltree {version('langchain-tooltree')}\n")
        except PackageNotFoundError:
            sys.stdout.write("langchain-tooltree, not installed\n")
    elif options.command is None:
        parser.print_help()
    else:
        from langchain_tooltree.cli.terminal import Terminal  # noqa: PLC0415 - as above

        with ExitStack() as stack:
            if options.json:  # nothing else may stand there, whatever a user's module prints
                stack.enter_context(redirect_stdout(sys.stderr))
            told, code = import_module(f"{__name__}.{options.command}").run(options, Terminal(quiet=options.json))
        if options.json:
            sys.stdout.write(json.dumps(told, indent=2, default=str) + "\n")
        sys.stdout.flush()  # a closed pipe is noticed here
        if options.afterwards is not None:
            options.afterwards()
        return int(code)
    return 0


def in_words(error: Exception) -> str:
    """An error for somebody who has never heard of errno."""
    name = getattr(error, "filename", None)
    match error:
        case FileNotFoundError() if name:
            return f"There is no {name}. Check the path."
        case IsADirectoryError() if name:
            return f"{name} is a folder, and a file is needed."
        case NotADirectoryError() | FileExistsError() if name:
            return f"{name} needs a folder where a file stands. Choose another path."
        case PermissionError() if name:
            return f"You have no permission to use {name}. Change its permissions (chmod), or choose another path."
        case OSError(strerror=str(reason)) if name:
            return f"{name}: {reason}."
    return str(error)


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with the words of a command without sending them to the terminal as they are."""

    def error(self, message: str) -> NoReturn:
        from langchain_tooltree.svg import visible_lines  # noqa: PLC0415 - costs more than all of this module

        super().error(visible_lines(message))


def _parser() -> argparse.ArgumentParser:
    """The parser; `stopped` is what is told of a command's work after Ctrl-C, `afterwards` what goes on behind it."""
    parser = _Parser(
        prog="langchain-tooltree",
        description="Planning and experience for agents. Try it: langchain-tooltree demo",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parser.set_defaults(stopped="", afterwards=None, parsers=commands.choices)

    def command(name: str, text: str, example: str) -> argparse.ArgumentParser:
        told = f"{text[0].upper()}{text[1:]}.", f"example: langchain-tooltree {name} {example}"
        return commands.add_parser(name, help=text, description=told[0], epilog=told[1])

    tried = command(
        "demo",
        "watch a search solve a small task with ready tools, and explore it on a page",
        "--model openai:gpt-4.1-mini",
    )
    tried.add_argument("--model", help="a model such as openai:gpt-4.1-mini; without it, a stand-in that needs no key")

    mined = command("mine", "make a graph of the successful runs in files", "runs.jsonl.gz -o graph/")
    mined.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="trajectories, one JSON object a line; .gz too"
    )
    mined.add_argument("-o", "--output", type=Path, required=True, metavar="GRAPH", help="folder to write the graph to")
    mined.add_argument(
        "--summarize",
        metavar="MODEL",
        help="a model that writes the summaries that runs do not have; they are kept in GRAPH.summaries.jsonl as they "
        "come, and not asked for again",
    )
    mined.set_defaults(stopped=" No graph was written; summaries that a model has written are kept.")

    suggested = command("suggest", "ask a graph what comes next", "graph/ --last search_flights")
    suggested.add_argument("--last", metavar="TOOL", help="the tool that was called last; none at the start")
    suggested.add_argument("--state", metavar="TEXT", help="a summary of the state; by weight without it")
    suggested.add_argument("-k", type=int, default=2, help="suggestions at the most (default: %(default)s)")

    saved = "a graph's folder; a file with a search (from `demo --json`, or SearchResult.to_dict() as JSON)"
    held = f"{saved} or with trajectories; or an experience: {PLACE}"
    shown = command("show", "show a graph, a saved search, an experience or a file of runs", "search.json")
    shown.add_argument("what", metavar="WHAT", help=held)
    shown.add_argument("--mermaid", action="store_true", help="print a graph or a search as a Mermaid chart")

    viewed = command(
        "view", "look at searches, graphs, runs and experiences in a browser, also while agents run", "searches/"
    )
    viewed.add_argument("what", metavar="WHAT", help=f"a folder of any of these; {held}")
    viewed.add_argument("--port", type=int, default=0, help="port on this machine (default: a free one)")
    viewed.add_argument("--no-browser", action="store_true", help="say the address, and open no browser")

    examined = command(
        "doctor", "check a graph's files, and its tools against those of an agent", "graph/ --tools my_agent:tools"
    )
    examined.add_argument("--tools", required=True, metavar="MODULE:NAME", help="the list of the agent's tools")

    copying = command(
        "copy", "copy an experience to another store, or go on with a copy", "experience/ postgresql://localhost/agents"
    )
    copying.add_argument("source", metavar="SRC", help=PLACE)
    copying.add_argument("target", metavar="DST", help=PLACE)
    text = "the embedder that filled SRC, where it is a Chroma store; by hashing, without a model, if left out"
    copying.add_argument("--source-embeddings", metavar="MODEL", help=text)
    copying.set_defaults(stopped=" What is copied stays; the same command goes on from there.")

    for each in (suggested, examined):
        each.add_argument("graph", type=Path, metavar="GRAPH", help="the graph's folder")
    for each in (mined, suggested, shown, viewed, examined, copying):
        text = "embeds texts, such as openai:text-embedding-3-small; by hashing, without a model, if left out"
        each.add_argument("--embeddings", metavar="MODEL", help=text)
    for each, way in ((tried, "draw it to FILE instead of demo.html"), (shown, "also draw it to FILE")):
        text = f"{way}, by its ending: a page to explore (.html), a picture (.svg) or a Mermaid chart (.mmd)"
        each.add_argument("--draw", type=Path, metavar="FILE", help=text)
    for each, what in (
        (tried, "FILE"),
        (shown, "FILE"),
        (mined, "GRAPH"),
        (copying, "runs in DST that differ from those in SRC"),
    ):
        each.add_argument("--force", action="store_true", help=f"replace {what}")
    for each in commands.choices.values():
        each.add_argument("--json", action="store_true", help="print one JSON document instead")
    return parser
