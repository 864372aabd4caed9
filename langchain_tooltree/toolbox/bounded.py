"""Runs a tool in a process of its own that is ended when its time is up, whatever it is doing.

Python cannot stop a thread, and a regular expression, an integral or a broken PDF can take years. The process also has
a limit of memory, writes no file, and has of the parent's environment only `KEPT` and `PROXIES`, so no key but one in
the address of a proxy. What a service is asked stands in nobody's log. It waits for the next call, since starting one
takes half a second, and ends when its standard input does.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_tooltree.toolbox.entries import ENTRIES, RefusedError, perform

MEMORY = 3_000_000_000
"""Bytes of address space of the process, where the system can limit it: duckdb alone takes 0.9 GB of it."""

START_SECONDS = 60.0
"""How long a process may take to start and to import what a tool needs, on a machine that is busy."""

MAX_PROCESSES = 4
"""Processes at once, which bounds the memory of all calls together. Further calls wait until one has ended."""

KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "TEMP", "SYSTEMROOT", "TESSDATA_PREFIX", "TZ", "TZDIR")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What the process is given of the environment; and how services are reached, which is also written in lower case."""

_idle: list["Worker"] = []
_room = threading.Semaphore(MAX_PROCESSES)


class Worker:
    """One process, and the calls that are sent to it, one at a time."""

    def __init__(self) -> None:
        paths = os.pathsep.join(map(os.path.abspath, sys.path))
        environment = {name: value for name, value in os.environ.items() if name.upper() in (*KEPT, *PROXIES)}
        self._process = subprocess.Popen(  # this interpreter and this module
            [sys.executable, "-P", "-m", "langchain_tooltree.toolbox.bounded"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(sys.prefix).anchor,  # which nobody deletes while the process waits for calls
            env=environment | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8", "OMP_THREAD_LIMIT": "1"},
            start_new_session=True,  # a Ctrl-C is not meant for it, and what it starts is ended with it
        )

    def begins(self, name: str, arguments: Mapping[str, Any], seconds: float) -> bool:
        """Send a call, and say whether the process has taken it."""
        entry = ENTRIES[name]
        request = {"name": name, "domain": entry.domain, "packages": entry.packages, "arguments": arguments}
        return self.exchange({**request, "seconds": seconds}, START_SECONDS) is not None

    def exchange(self, request: Mapping[str, Any] | None, seconds: float) -> dict[str, Any] | None:
        """The next line of the process; `None` if there is none in time, after which it has ended."""
        process = self._process
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101 - as above
        timer = threading.Timer(seconds, self._kill)
        timer.daemon = True
        timer.start()
        try:
            if request is not None:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            line = process.stdout.readline()
            return json.loads(line) if line else None
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()

    def _kill(self) -> None:
        """End the process, and on other systems than Windows the programs that it runs, such as tesseract."""
        with suppress(OSError):
            if hasattr(os, "killpg") and self._process.poll() is None:
                os.killpg(self._process.pid, 9)
            self._process.kill()

    def end(self) -> None:
        """End the process and wait for it."""
        self._kill()
        with suppress(OSError):
            self._process.communicate()


def run_bounded(name: str, arguments: Mapping[str, Any], seconds: float) -> str:
    """Run an entry in a process of its own, for at most so many seconds from when it has begun."""
    with _room:
        worker, answer = _begun(name, arguments, seconds), None
        try:
            answer = worker.exchange(None, seconds)
        finally:  # an interrupt may end the wait, and the answer would be taken for that of the next call
            if answer is None or answer["grown"]:
                worker.end()  # memory that it has taken it might not give back
            else:
                _idle.append(worker)
    if answer is None:
        msg = f"{name} was stopped: it took longer than {seconds:g} seconds or too much memory. Ask for less."
        raise RefusedError(msg)
    if "refused" in answer:
        raise RefusedError(answer["refused"])
    return str(answer["result"])


def _begun(name: str, arguments: Mapping[str, Any], seconds: float) -> Worker:
    """A process that has taken the call: one that waits, unless it has ended meanwhile, or a new one."""
    while True:
        waiting = None
        with suppress(IndexError):
            waiting = _idle.pop()
        try:
            worker = waiting or Worker()
        except OSError as error:
            msg = f"{name} could not be started: {error}. Try again later, or another tool."
            raise RefusedError(msg) from error
        if worker.begins(name, arguments, seconds):
            return worker
        worker.end()
        if waiting is None:
            msg = f"{name} could not be started: its process has ended, or took longer than {START_SECONDS:g} seconds."
            raise RefusedError(msg)


@atexit.register
def end_all() -> None:
    """End the processes that wait."""
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    """Leave the processes to the parent that has forked this one, with the calls that it has begun."""
    _idle.clear()
    threading.Semaphore.__init__(_room, MAX_PROCESSES)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def serve() -> None:
    """What the process does: one call after another, a line each way when it begins and when it has ended."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what a library prints is no answer
    limit_resources()
    sys.set_int_max_str_digits(0)  # the bounds of `maths` hold
    for line in sys.stdin:
        request = json.loads(line)
        for module in (f"langchain_tooltree.toolbox.{request['domain']}", *request["packages"]):
            import_module(module)
        print("{}", file=answers, flush=True)
        alarm_after(request["seconds"])
        try:
            answer = {"result": perform(request["name"], request["arguments"])}
        except RefusedError as refused:
            answer = {"refused": str(refused)}
        alarm_after(0)
        print(json.dumps({**answer, "grown": has_grown()}), file=answers, flush=True)


def limit_resources() -> None:
    """Bound the address space and let no file grow, so that nothing is written, where the system can."""
    with suppress(ImportError):
        import resource  # noqa: PLC0415 - not on Windows

        for kind, most in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, MEMORY)):
            with suppress(ValueError, OSError):  # macOS refuses the last one
                resource.setrlimit(kind, (most, most))


def has_grown() -> bool:
    """Whether so much of the address space is taken that another process should take the next call; on Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE") > MEMORY // 2
    except (OSError, ValueError, AttributeError):
        return False


def alarm_after(seconds: float) -> None:
    """End this process by itself a little after its time, should nobody be left to do so; 0 for never."""
    with suppress(ImportError, AttributeError):
        import signal  # noqa: PLC0415 - beside its twin above

        signal.setitimer(signal.ITIMER_REAL, seconds and seconds + 1)


if __name__ == "__main__":
    # The entries live in the module of that name; this one is only run.
    serve()
