"""How tools refuse, which files they may open, and the process of its own that ends itself when its time is up.

Python cannot stop a thread, and a regular expression, an integral or a broken PDF can take years. The process has a
limit of memory, writes no file, and has of the environment only `KEPT`, so no key. It waits for the next call, since
starting one takes half a second, and ends when its standard input does.
"""

import atexit
import contextlib
import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from queue import LifoQueue
from typing import Any, NoReturn

from langchain_tooltree.errors import described
from langchain_tooltree.text import cut, whole_characters

MAX_FILE = 50_000_000  # bytes of a file: more than a long scanned PDF has
MAX_FILES = 2_000  # files of the folder that are listed or searched
MAX_RESULT = 20_000  # characters of a result, about 5,000 tokens
MEMORY = 3_000_000_000  # bytes of address space of a process, of which duckdb alone takes 0.9 GB
START_SECONDS = 60.0  # how long a process may take to import what a tool needs, on a machine that is busy
MAX_PROCESSES = (
    4  # processes at once, which bounds the memory of all calls; further calls wait
)
PROXIES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)  # in either case
KEPT_ENVIRONMENT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TEMP",
    "SYSTEMROOT",
    "TZ",
    *PROXIES,
)


class RefusedError(Exception):
    """What a tool will not or cannot do, in words for the model; it becomes a `ToolException`."""


def refuse(reason: str) -> NoReturn:
    """Raise a `RefusedError`."""
    raise RefusedError(reason)


def perform(function: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    """The result of a function; a `RefusedError` where it fails in any way."""
    try:
        return function(**arguments)
    except RefusedError:
        raise
    except Exception as error:  # noqa: BLE001 - a library's own, of which there are many
        refuse(f"{function.__name__} failed: {described(error)}")


def limit_result(result: str) -> str:
    """A result, cut where it is too long, in characters that every provider takes."""
    result = whole_characters(result).replace("\0", "")
    more = (
        f"\n[cut: {MAX_RESULT:,} of {len(result):,} characters; ask for a smaller part]"
    )
    return f"{result[:MAX_RESULT]}{more * (len(result) > MAX_RESULT)}"


def inside(folder: str, name: str) -> Path:
    """The path of a file by its name in the folder; refused if it leads out, is hidden, no plain file, or too large."""
    root = Path(folder).resolve()
    try:
        path = (root / name).resolve()
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        is_file = path.is_file()
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # too long; a loop of links; outside, or with a \0
        refuse(
            f"{name!r} is not a name in the folder. Give a path relative to it, such as 'reports/2024.pdf'."
        )
    if hidden:
        refuse(
            f"{name!r} is hidden, and hidden files are not opened. Choose another file."
        )
    if not is_file:
        refuse(
            f"There is no file {name!r} in the folder. Files: {cut(', '.join(names_in(folder)) or 'none', 500)}."
        )
    if (size := path.stat().st_size) > MAX_FILE:
        refuse(
            f"{name!r} has {size:,} bytes; at most {MAX_FILE:,} are read. Choose a smaller file."
        )
    return path


def names_in(folder: str, endings: tuple[str, ...] = ("",)) -> list[str]:
    """At most `MAX_FILES` visible files with these endings, relative to the folder. Links are left out."""
    names: list[str] = []
    for place, folders, files in os.walk(folder):  # follows no links
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        paths = [
            Path(place, each)
            for each in sorted(files)
            if each.lower().endswith(endings) and each[0] != "."
        ]
        names += [
            path.relative_to(folder).as_posix()
            for path in paths
            if not path.is_symlink()
        ]
    return names[:MAX_FILES]


class Pool:
    """Processes that wait for calls. The one that ended its call last takes the next one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all processes, which in a fork are the parent's."""
        self._free = LifoQueue[subprocess.Popen[str] | None]()
        for _ in range(MAX_PROCESSES):
            self._free.put(None)

    def run(
        self,
        function: Callable[..., str],
        arguments: Mapping[str, Any],
        seconds: float,
        package: str,
    ) -> str:
        """The result of a function of this package, which has so many seconds once what it needs is imported.

        A `RefusedError` if it refuses or fails, or the process has ended before an answer.
        """
        call = {
            "module": function.__module__,
            "name": function.__name__,
            "package": package,
            "seconds": seconds,
        }
        process, line = self._free.get(), ""
        try:
            with contextlib.suppress(OSError):  # it has ended, or cannot be started
                if process is not None and process.poll() is not None:
                    process.communicate()  # which closes its pipes
                    process = None
                process = process or _start()
                print(
                    json.dumps({**call, "arguments": arguments}),
                    file=process.stdin,
                    flush=True,
                )
                line = process.stdout.readline() if process.stdout else ""
        finally:  # even at an interrupt, after which the answer would be taken for that of the next call
            if process is not None and not line:
                process.kill()
                process.communicate()
            self._free.put(process if line else None)
        answer = json.loads(line or "{}")
        if "result" in answer:
            return str(answer["result"])
        stopped = f"{function.__name__} was stopped: it took over {seconds:g} seconds or too much memory. Ask for less."
        return refuse(answer.get("refusal", stopped))

    def end(self) -> None:
        """End the processes that wait."""
        for process in filter(None, self._free.queue):
            process.kill()
            process.communicate()
        self.reset()


def _start() -> "subprocess.Popen[str]":
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in KEPT_ENVIRONMENT
    }
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    # This interpreter and this module. As `-m`, the process would have two of each class of it.
    return subprocess.Popen(  # noqa: S603 - nothing of what is run comes from outside
        [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        cwd=Path(sys.prefix).anchor,  # which nobody deletes while the process waits
        env=environment | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,  # a Ctrl-C is not meant for it
    )


POOL = Pool()
atexit.register(POOL.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.reset)


def serve() -> None:
    """What the process does: one call after another, a line each way."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what a library prints is no answer
    sys.set_int_max_str_digits(0)  # time and memory are bounded
    with contextlib.suppress(
        ImportError, ValueError, OSError
    ):  # Windows has none, and macOS refuses the last one
        import resource  # noqa: PLC0415 - as said

        for kind, most in (
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_AS, MEMORY),
        ):
            resource.setrlimit(kind, (most, most))
    for line in sys.stdin:
        call = json.loads(line)
        # A thread in C ends the process where Python cannot: within a regular expression, say, or without a parent.
        faulthandler.dump_traceback_later(START_SECONDS, exit=True)
        function = getattr(import_module(call["module"]), call["name"])
        import_module(call["package"])
        faulthandler.dump_traceback_later(call["seconds"], exit=True)
        try:
            answer = {"result": perform(function, call["arguments"])}
        except RefusedError as error:
            answer = {"refusal": str(error)}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(answer), file=answers, flush=True)
