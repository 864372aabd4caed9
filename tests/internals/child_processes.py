"""Jobs in processes of their own, which may die in the middle of one.

A script becomes a server by `serve`: it forks one child for each job on standard input, so a child is there at once,
with all imports done. `servers` starts such scripts.
"""

import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

SECONDS_PER_JOB = 120


def serve(work: Callable[..., None]) -> None:
    """Fork a child for every job on standard input; answer each with how it ended: 0, or minus the signal.

    Args:
        work: Does a job, which is given as its keyword arguments. A job may name a file, its `output`, for all that the
            child writes to standard output.
    """
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS_PER_JOB)
            job = json.loads(line)
            if output := job.pop("output", None):
                os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), sys.stdout.fileno())
            work(**job)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class Servers:
    """Running servers, each with one job at a time."""

    def __init__(self, running: "queue.Queue[subprocess.Popen[str]]") -> None:
        self._idle = running

    @property
    def count(self) -> int:
        """How many jobs may run at once."""
        return self._idle.maxsize

    def do(self, job: Mapping[str, Any]) -> int:
        """Have a job done, and wait for it.

        Args:
            job: The keyword arguments of the script's work.

        Returns:
            How its process ended: 0, or minus the signal that killed it.
        """
        server = self._idle.get()
        try:
            server.stdin.write(json.dumps(job) + "\n")
            server.stdin.flush()
            return int(server.stdout.readline())
        finally:
            self._idle.put(server)


@contextmanager
def servers(script: Path, count: int = 2) -> Iterator[Servers]:
    """Processes that run a script that serves."""
    running: queue.Queue[subprocess.Popen[str]] = queue.Queue(count)
    with ExitStack() as stack:
        for _ in range(count):
            server = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(server)
            running.put(server)
        yield Servers(running)
