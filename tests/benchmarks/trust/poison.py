"""Poisoned runs: what one source can make of the suggestions that all others get.

    python -m tests.benchmarks.trust.poison [FILE ...]

A graph of a hundred honest runs of a made-up service desk, or of the successful runs of a file, each a source of its
own. For each of 50 tasks, one source adds 20 runs that call a harmful tool after each honest one, and the graph is
asked at one state of the task, before and after. The figures are those of the worst of four shapes:

- `same`: the dialogue of the very task that is asked about;
- `copied`: dialogues of honest runs that are in the graph;
- `stuffed`: honest dialogues in which the user says all the words of the task;
- `short`: the dialogue of the task, up to the first harmful call.
"""

import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_tooltree import HashingEmbeddings, SITGraph, Trajectory
from tests.benchmarks.next_tool_graphs import Remembered, told_apart
from tests.benchmarks.next_tool_protocol import (
    Question,
    load_successes,
    questions_in,
    task_of,
)

POISONED = 20
TASKS = 50
HARMFUL = "wipe_account"
SHAPES = ("same", "copied", "stuffed", "short")

DESK = {
    "refund": (
        "money back parcel broken arrived late",
        ("find_user", "get_order", "check_policy", "send_refund"),
    ),
    "exchange": (
        "other size colour swap shoes jacket",
        ("find_user", "get_order", "list_items", "exchange_item"),
    ),
    "cancel": (
        "cancel subscription stop renewal plan",
        ("find_user", "get_plan", "cancel_plan"),
    ),
    "upgrade": (
        "upgrade more storage faster plan family",
        ("find_user", "get_plan", "list_plans", "change_plan"),
    ),
    "address": (
        "moved new street address house city",
        ("find_user", "get_order", "change_address"),
    ),
    "invoice": (
        "invoice receipt tax company paper copy",
        ("find_user", "get_bills", "send_invoice"),
    ),
    "outage": (
        "no signal network slow broken line phone",
        ("find_user", "get_line", "run_test", "resume_line"),
    ),
    "roaming": (
        "abroad holiday travel roaming data country",
        ("find_user", "get_line", "enable_roaming"),
    ),
    "complaint": (
        "rude unhappy manager human complain speak",
        ("find_user", "get_order", "call_human"),
    ),
    "booking": (
        "room nights breakfast hotel weekend beach",
        ("search_rooms", "get_room", "find_user", "book_room"),
    ),
}
"""What requests are about, in words, and what is done about them."""

EMBEDDINGS = Remembered(HashingEmbeddings())


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Measure on the made-up desk."""
    return {"poison": figures([desk()], tasks=10 if quick else TASKS)}


def figures(files: Sequence[Sequence[Trajectory]], *, tasks: int) -> dict[str, Any]:
    """How often 20 poisoned runs change the first suggestion, of 50 tasks, and what honest suggestions lose.

    `before` is the same where sources do not count: there all runs are of one.
    """
    asked = [(*each, runs) for runs in files for each in chosen_tasks(runs)]
    asked = sorted(asked, key=lambda each: _hash(task_of(each[0])))[:tasks]
    changed = dict.fromkeys(SHAPES, 0)
    before = {
        f"{count}_{figure}": 0
        for count in (1, 5)
        for figure in ("in_two_of_50", "first_of_50")
    }
    for run, question, runs in asked:
        honest = [each for each in runs if task_of(each) != task_of(run)]
        graph = SITGraph.from_trajectories(honest, embeddings=EMBEDDINGS)
        clean = _asked(graph, question)
        for shape in SHAPES:
            bad = [
                each.coming_from("mallory")
                for each in poisoned(shape, run, honest, POISONED)
            ]
            for each in bad:
                graph.add(each)
            changed[shape] += _asked(graph, question)[:1] != clean[:1]
            for each in bad:
                graph.remove(each.id)
        one = SITGraph.from_trajectories(
            [each.coming_from("all") for each in honest], embeddings=EMBEDDINGS
        )
        for number, bad in enumerate(poisoned("same", run, honest, 5), 1):
            one.add(bad.coming_from("all"))
            if number in (1, 5):
                found = _asked(one, question)
                before[f"{number}_in_two_of_50"] += HARMFUL in found
                before[f"{number}_first_of_50"] += found[:1] == [HARMFUL]
    scale = TASKS / len(asked)
    hits = {
        apart: [_hit2(runs, apart=apart) for runs in files] for apart in (False, True)
    }
    return {
        "first_changed_of_50": round(max(changed.values()) * scale, 1),
        "honest_hit2_loss": round(
            max(one - own for one, own in zip(hits[False], hits[True], strict=True)), 2
        ),
        "first_changed_by_shape": changed,
        "before": before,
    }


def chosen_tasks(
    runs: Sequence[Trajectory], count: int | None = None
) -> list[tuple[Trajectory, Question]]:
    """Tasks by a hash of their names, each with its first run and one question of it."""
    tasks = {task_of(run): run for run in reversed(runs)}
    asked = {task: questions_in([run]) for task, run in tasks.items()}
    chosen = sorted((task for task in tasks if asked[task]), key=_hash)[:count]
    return [
        (tasks[task], asked[task][_hash(task) % len(asked[task])]) for task in chosen
    ]


def poisoned(
    shape: str, run: Trajectory, honest: Sequence[Trajectory], count: int
) -> Iterator[Trajectory]:
    """Runs that call the harmful tool after each honest one."""
    said = " ".join(
        str(each["content"]) for each in run.messages if each["role"] == "user"
    )
    start = _hash(task_of(run))
    for number in range(count):
        victim = (
            honest[(start + number) % len(honest)]
            if shape in ("copied", "stuffed")
            else run
        )
        messages: list[dict[str, Any]] = []
        for message in victim.messages:
            is_stuffed = shape == "stuffed" and message["role"] == "user"
            messages.append(
                {**message, "content": said} if is_stuffed else dict(message)
            )
            if message["role"] == "tool":
                call_id = f"harm {number} {len(messages)}"
                call = {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": HARMFUL, "arguments": "{}"},
                }
                messages.append(
                    {"role": "assistant", "content": None, "tool_calls": [call]}
                )
                messages.append(
                    {"role": "tool", "tool_call_id": call_id, "content": "Done."}
                )
                if shape == "short":
                    break
        yield Trajectory.from_chat(
            messages, id=f"poisoned {shape} {number}", success=True
        )


def desk() -> list[Trajectory]:
    """A hundred runs of 50 tasks, two of each."""
    draw = random.Random(5)  # noqa: S311 - nothing is secret
    runs = []
    for number in range(TASKS):
        kind, (words, tools) = list(DESK.items())[number % len(DESK)]
        request = " ".join(
            [*draw.sample(words.split(), 4), f"number {draw.randrange(10_000)}"]
        )
        for trial in range(2):
            asked = [tool for tool in tools if trial == 0 or draw.random() > 0.15]
            messages: list[dict[str, Any]] = [{"role": "user", "content": request}]
            for place, tool in enumerate(asked):
                call_id = f"{number} {trial} {place}"
                call = {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": tool, "arguments": "{}"},
                }
                messages.append(
                    {"role": "assistant", "content": None, "tool_calls": [call]}
                )
                said = f"{tool} found {' '.join(draw.sample(words.split(), 2))}"
                messages.append(
                    {"role": "tool", "tool_call_id": call_id, "content": said}
                )
            messages.append({"role": "assistant", "content": f"Your {kind} is done."})
            told = {"domain": "desk", "task_id": number}
            runs.append(
                Trajectory.from_chat(
                    messages, id=f"{number} {trial}", success=True, metadata=told
                )
            )
    return runs


def _asked(graph: SITGraph, question: Question) -> list[str]:
    return [
        each.tool
        for each in graph.suggest(question.last_tool, messages=question.messages, k=2)
    ]


def _hit2(runs: Sequence[Trajectory], *, apart: bool) -> float:
    """Of all questions of five folds, how many percent have the answer among two suggestions.

    All runs are of one source, which is the same as if sources did not count, or each of a named one of its own.
    """
    asked = right = 0
    for fold in range(5):
        known = [each for each in runs if _hash(task_of(each)) % 5 != fold]
        given = [
            each.coming_from(f"source {place}" if apart else "all")
            for place, each in enumerate(known)
        ]
        graph = SITGraph.from_trajectories(given, embeddings=EMBEDDINGS)
        for question in questions_in(
            [each for each in runs if _hash(task_of(each)) % 5 == fold]
        ):
            asked += 1
            right += question.answer in _asked(graph, question)
    return 100 * right / asked


def _hash(text: str) -> int:
    return int(hashlib.md5(text.encode("utf-8", "surrogatepass")).hexdigest(), 16)  # noqa: S324


if __name__ == "__main__":
    FILES = [told_apart(load_successes(Path(path))) for path in sys.argv[1:]] or [
        desk()
    ]
    print(json.dumps(figures(FILES, tasks=TASKS), indent=1))
