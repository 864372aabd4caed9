"""Damage a graph's folder, have several processes save to it, and kill them: what passes silently, what is lost?"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_tooltree import SITGraph, Trajectory
from langchain_tooltree.errors import GraphChangedError, GraphFileError

DAMAGES, DAMAGES_IF_QUICK = 300, 60
WRITERS = 3
SAVES = 12  # of each writer
KILLS, KILLS_IF_QUICK = 12, 3
TOOLS = ("find_user", "find_order", "refund", "cancel", "write_mail")


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Count damages that loading does not notice, saves that were lost, and what killed savers left behind."""
    folder = scratch / "graph"
    graph_of(60).save(folder)
    damages = list(
        damaged(folder, scratch / "damaged", DAMAGES_IF_QUICK if quick else DAMAGES)
    )
    lost = lost_saves(folder, 3 if quick else SAVES)
    left, broken = left_by_killed(folder, KILLS_IF_QUICK if quick else KILLS)
    found = {"damages": len(damages), "silent": sum(damages)}
    saves = WRITERS * (3 if quick else SAVES)
    return {
        "graph_folder": {
            **found,
            "saves": saves,
            "lost_saves": lost,
            "left_by_killed": left,
            "broken": broken,
        }
    }


def graph_of(runs: int) -> SITGraph:
    """A graph of some runs."""
    return SITGraph.from_trajectories(
        run_of(f"run {number}", number) for number in range(runs)
    )


def run_of(name: str, seed: int) -> Trajectory:
    """A successful run of four calls."""
    rng = random.Random(seed)  # noqa: S311 - no secret depends on it
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"Order {seed} did not come."}
    ]
    for place in range(4):
        function = {
            "name": rng.choice(TOOLS),
            "arguments": json.dumps({"id": f"{seed}-{place}"}),
        }
        call = {"id": f"call {place}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(
            {
                "role": "tool",
                "tool_call_id": f"call {place}",
                "content": f"found {rng.random()}",
            }
        )
    return Trajectory.from_chat(
        [*messages, {"role": "assistant", "content": "Done."}], id=name, success=True
    )


def damaged(folder: Path, copy: Path, count: int) -> Iterator[bool]:
    """Damage a copy of a graph in one way after the other; whether it was loaded as if nothing had happened.

    Seven in ten are single bits, anywhere in any file; the others are cuts, blocks of zeros, files that are missing
    or longer.
    """
    rng = random.Random(0)  # noqa: S311 - no secret depends on it
    names = sorted(
        each.relative_to(folder) for each in folder.rglob("*") if each.is_file()
    )
    sizes = [(folder / name).stat().st_size for name in names]
    for number in range(count):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        [name] = rng.choices(names, weights=sizes)
        content = bytearray((copy / name).read_bytes())
        place = rng.randrange(len(content))
        kind = number % 10
        if kind < 7:
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 7:
            del content[place:]
        elif kind == 8:
            end = min(len(content), place + 512)
            content[place:end] = (
                bytes(end - place) if any(content[place:end]) else b"\1" * (end - place)
            )
        else:
            content += b"\0" * rng.randrange(1, 9)
        (copy / name).write_bytes(content)
        if number % 50 == 0:
            (copy / name).unlink()
        try:
            SITGraph.load(copy)
        except GraphFileError:
            yield False
        else:
            yield True


def lost_saves(folder: Path, saves: int) -> int:
    """Have processes learn runs and save them at the same time; the runs of which nothing is left."""
    writers = [_writer(folder, f"writer {number}", saves) for number in range(WRITERS)]
    ends = [writer.wait(timeout=300) for writer in writers]
    graph = SITGraph.load(folder)
    wanted = [
        f"writer {number} {save}" for number in range(WRITERS) for save in range(saves)
    ]
    return sum(run not in graph for run in wanted) + sum(map(bool, ends))


def left_by_killed(folder: Path, kills: int) -> tuple[int, int]:
    """Kill savers at random moments: what is left beside the graph after the next save, and broken graphs."""
    rng = random.Random(1)  # noqa: S311 - no secret depends on it
    broken = 0
    for kill in range(kills):
        writer = _writer(folder, f"killed {kill}", 10_000)
        assert writer.stdout is not None
        writer.stdout.readline()  # it has saved once
        time.sleep(rng.random() * 0.3)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        try:
            SITGraph.load(folder)
        except GraphFileError:
            broken += 1
    SITGraph.load(folder).save(folder)
    return len([each for each in folder.rglob("*") if each.is_file()]) - 1, broken


def _writer(folder: Path, name: str, saves: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", __name__, str(folder), name, str(saves)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - this very interpreter


def write(folder: Path, name: str, saves: int) -> None:
    """Learn run after run, and save each."""
    for save in range(saves):
        while True:
            graph = SITGraph.load(folder)
            graph.add(run_of(f"{name} {save}", save))
            try:
                graph.save(folder)
            except GraphChangedError:
                continue
            break
        sys.stdout.write(f"{save}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
