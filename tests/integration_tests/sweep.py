"""Kills a planner at one point after the other, resumes it, and says what went wrong."""

import json
import queue
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

MOMENTS = ("before", "during", "after")

QUESTIONS = {"propose": "propose", "score": "pre", "execute": "execute", "evaluate": "post"}
"""How the log names the call behind an operation."""

ANSWER_ONLY = Counter({"answer@": 1})

Point = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that was killed once and resumed.

    Attributes:
        point: Number of the call at which it was killed, and the moment.
        same_messages: Whether its messages equal those of the undisturbed run, ids of tool calls included.
        same_tree: Whether its events do, which tell the whole tree; a search that had ended is not told again.
        in_flight: Calls begun and not ended at the kill.
        unsaved: Calls ended at the kill whose result was not persisted yet.
        persisted_again: Calls whose result was persisted and that were made again nevertheless.
        missing: Calls neither persisted nor made again.
        replayed: Calls made again to rebuild forks, as the search counts them.
    """

    point: Point
    same_messages: bool
    same_tree: bool
    in_flight: int
    unsaved: int
    persisted_again: dict[str, int]
    missing: dict[str, int]
    replayed: int

    @property
    def right(self) -> bool:
        """Whether the resumed run equals the undisturbed one and repeated nothing that was persisted."""
        return self.same_messages and self.same_tree and not (self.persisted_again or self.missing)


class Harness:
    """Kills and resumes jobs of one kind in a folder.

    Args:
        servers: Running `crash.py` processes, as many as jobs may run at once.
        folder: Where databases, logs and reports go.
        options: Fields of every job: path, sandbox, rollouts, durability.
    """

    def __init__(self, servers: Any, folder: Path, **options: Any) -> None:
        self._servers = servers
        self._folder = folder
        self._options = options
        self._start = folder / "start.db"
        self._do(self._start, "prepare", prepare=True)
        self._do(self._copy("undisturbed"), "undisturbed")
        self.report = self._report("undisturbed")
        self.calls = self._logged("undisturbed", "start")

    @property
    def points(self) -> list[Point]:
        """Every call, and the moments at which to kill the process that makes it."""
        return [(call, moment) for call in range(self.calls.total()) for moment in MOMENTS]

    def sweep(self, points: Sequence[Point]) -> list[Resumed]:
        """Kill and resume at each of these points, several at once."""
        with ThreadPoolExecutor(self._servers.maxsize) as pool:
            return list(pool.map(self.kill_and_resume, points))

    def kill_and_resume(self, point: Point) -> Resumed:
        """Kill at a point, resume, and compare with the undisturbed run."""
        call, moment = point
        name = f"{call}-{moment}"
        database = self._copy(name)
        self._do(database, f"{name}-killed", ends=-signal.SIGKILL, kill_call=call, kill_moment=moment)
        persisted, _ = persisted_calls(database)
        self._do(database, f"{name}-resumed")
        _, replayed = persisted_calls(database)
        begun, ended = (self._logged(f"{name}-killed", event) for event in ("start", "end"))
        made = self._logged(f"{name}-resumed", "start")
        owed = self.calls - persisted
        again = made - owed
        if again.total() == replayed and all(key.startswith("execute") for key in again):
            again.clear()
        report = self._report(f"{name}-resumed")
        told = report["events"] or (owed == ANSWER_ONLY and self.report["events"])
        return Resumed(
            point=point,
            same_messages=report["messages"] == self.report["messages"],
            same_tree=told == self.report["events"],
            in_flight=(begun - ended).total(),
            unsaved=(ended - persisted).total(),
            persisted_again=dict(again),
            missing=dict(owed - made),
            replayed=replayed,
        )

    def _do(self, database: Path, name: str, *, ends: int = 0, **options: Any) -> None:
        job = {"database": str(database), "log": str(self._log(name)), "report": str(self._folder / f"{name}.json")}
        server = self._servers.get()
        try:
            server.stdin.write(json.dumps({**job, **self._options, **options}) + "\n")
            server.stdin.flush()
            ended = int(server.stdout.readline())
        finally:
            self._servers.put(server)
        assert ended == ends, f"the process of job {name} ended with {ended}"

    def _copy(self, name: str) -> Path:
        return Path(shutil.copy(self._start, self._folder / f"{name}.db"))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _logged(self, name: str, event: str) -> Counter[str]:
        lines = (line.split() for line in self._log(name).read_text().splitlines())
        return Counter(key for what, key in lines if what == event)

    def _report(self, name: str) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text())
        return report


def persisted_calls(database: Path) -> tuple[Counter[str], int]:
    """The calls whose results a checkpointer holds, and how many calls they say were replayed."""
    calls: Counter[str] = Counter()
    replayed = 0
    with SqliteSaver.from_conn_string(str(database)) as saver:
        for checkpoint in saver.list({"configurable": {"thread_id": "shelf"}}):
            for _, channel, outcome in checkpoint.pending_writes or ():
                if channel == "__return__" and "operation" in outcome:
                    # The calls that an operation runs lead to its node; those of one reply were added in a row.
                    ran = [f"execute@{outcome['node'] - back}" for back in range(len(outcome["observations"]))]
                    calls.update(ran)
                    if outcome["kind"] != "execute":
                        calls[f"{QUESTIONS[outcome['kind']]}@{outcome['node']}"] += 1
                    replayed += outcome["spent"]["replayed"]
    return calls, replayed


@contextmanager
def crash_servers(count: int = 2) -> Iterator[Any]:
    """Processes that run jobs, each job in a child of its own."""
    servers: queue.Queue[subprocess.Popen[str]] = queue.Queue(count)
    command = [sys.executable, str(Path(__file__).with_name("crash.py"))]
    with ExitStack() as stack:
        for _ in range(count):
            server = subprocess.Popen(  # noqa: S603 - our own script
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(server)
            servers.put(server)
        yield servers
