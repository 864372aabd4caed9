"""What does experience of other tasks add to the planner? Recorded proposals of real models, and runs that went well.

    python -m tests.benchmarks.together FILE [--json out.json] [--quick]

FILE, the worlds, the readers and the policy are those of `tests.benchmarks.recorded`. Tasks are in five folds; the
valid runs of four are learnt, as they were recorded, by a graph and a memory, and the planner's own `PastRuns` is
asked about tasks of the fifth, with the dialogue of the very path on which a question is put. So what is told, when,
and in how many characters, is measured. **What a model makes of it is simulated**: where it is told a tool with which
some recorded run went on in that state, it takes the most common such step with the probability in the row's name,
and otherwise does what it does without. Nobody has measured that probability; the rows for 0, .5 and 1 bound what it
can change.

Rows: *none* is the default planner without experience, *experience* with it: told at a doubt, in the own step that is
asked again and in the question for other calls, whose reads are tried in the order told, a read without arguments
without a question. *graph* and *memory* are its halves. *check_writes* also asks the own step again before a write
that good runs hardly ever made there; what the model does then is one more draw from the other runs' steps. *paper*
tells the graph's two next tools in each own step. Tips need a model to write them, so there are none.
"""

import argparse
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langgraph.store.memory import InMemoryStore
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree import CFGMMemory, ExperienceStore, SITGraph, Trajectory
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.guide import PastRuns
from langchain_tooltree.messages.conversation import Conversation
from tests.benchmarks.bfcl_data import CATEGORY, fetch_package, load_entries, load_tasks
from tests.benchmarks.compare.simulation import READ_ONLY
from tests.benchmarks.recorded.__main__ import BOOTSTRAP, DRAWS, READERS, Played, play
from tests.benchmarks.recorded.model import RecordedModel, hash_of
from tests.benchmarks.recorded.ours import (
    BUDGETS,
    Loop,
    TurnPlay,
    Way,
    is_read,
    tool_of,
)
from tests.benchmarks.recorded.policies import plain
from tests.benchmarks.recorded.runs import STOP, State, Step, Turn, load_runs, turns_of

FOLDS = 5
TOKEN = 4
"""Characters of a token, about."""

GOAL = 0.03
"""Turns that experience is to solve beyond `none`, as a share of all."""

READER_NAMES = ("good", "judge .85")


@dataclass(frozen=True, slots=True)
class Told:
    """What past runs say on a path: tools in their order, and how many characters the model is shown."""

    tools: tuple[str, ...] = ()
    size: int = 0


@dataclass
class Past:
    """The runs of four folds, asked about turns of the fifth. Each answer is kept, since policies ask alike."""

    graph: SITGraph
    memory: CFGMMemory
    chains: Mapping[str, Sequence[str]]
    texts: Mapping[str, Sequence[str]]
    known: dict[Any, Any] = field(default_factory=dict)

    def told(self, turn: Turn, way: Way, parts: str) -> Told:
        """What is told at a doubt by `graph`, `memory` or `both`."""
        return self._once(
            (turn.name, parts, *_names(way)), lambda: self._advice(turn, way, parts)
        )

    def next_two(self, turn: Turn, way: Way) -> Told:
        """What the paper tells in each own step."""

        def ask() -> Told:
            messages = self._messages(turn, way)
            allowed = {tool.name for tool in turn.task.tools}
            first = self.graph.next_tools(messages, allowed=sorted(allowed)).likeliest(
                runs=1, share=0.0
            )[:2]
            return Told(
                tuple(first), sum(map(len, first)) + 200
            )  # its words beside the names

        return self._once((turn.name, "two", *_names(way)), ask)

    def is_unusual(self, turn: Turn, way: Way, step: Step) -> bool:
        """Whether good runs hardly ever went on with a write of a step."""
        writes = {tool_of(key) for key in step if not is_read(key)}
        path = self._messages(turn, way) if writes else []
        names = {tool.name for tool in turn.task.tools}
        past = self._past(path, "graph")
        return any(
            self._once(
                (turn.name, "unusual", tool, *_names(way)),
                lambda tool=tool: run_flow(past.is_unusual(path, tool, names=names)),
            )
            for tool in writes
        )

    def _once(self, key: Any, ask: Callable[[], Any]) -> Any:
        if key not in self.known:
            self.known[key] = ask()
        return self.known[key]

    def _past(self, path: Sequence[BaseMessage], parts: str) -> PastRuns:
        graph = self.graph if parts in ("graph", "both") else None
        memory = self.memory if parts in ("memory", "both") else None
        return PastRuns(graph, memory, Conversation(path), first="")

    def _advice(self, turn: Turn, way: Way, parts: str) -> Told:
        path = self._messages(turn, way)
        names = {tool.name for tool in turn.task.tools}
        advice = run_flow(
            self._past(path, parts).advice(
                path, "", trials=names & READ_ONLY, names=names
            )
        )
        made = {tool_of(key) for _, step in way for key in step}
        chain = [
            tool
            for run in advice.recalled.get("runs", ())
            for tool in self.chains[run]
            if tool not in made
        ]
        return Told(tuple(dict.fromkeys([*advice.tools, *chain])), len(advice.text))

    def _messages(self, turn: Turn, way: Way) -> list[BaseMessage]:
        """The requests so far, with the calls of this turn: those of earlier ones are a run's own, and differ."""
        requests = [
            HumanMessage(text) for text in self.texts[turn.task.id][: turn.number + 1]
        ]
        return [
            *requests,
            *messages_of(turn, [(state, step) for state, step in way if step]),
        ]


def _names(way: Way) -> list[Any]:
    return [(hash_of(state), step) for state, step in way if step]


def messages_of(turn: Turn, way: Sequence[tuple[State, Step]]) -> list[BaseMessage]:
    """Steps of a turn as messages, with what the calls brought back."""
    messages: list[BaseMessage] = []
    for at, (state, step) in enumerate(way):
        calls = [
            (turn.call(key), f"{turn.number}-{at}-{place}")
            for place, key in enumerate(step)
        ]
        made = [
            ToolCall(name=call.tool, args=dict(call.arguments), id=name)
            for call, name in calls
        ]
        messages.append(AIMessage("", tool_calls=made))
        results = zip(calls, turn.take(state, step)[1], strict=True)
        messages += [
            ToolMessage(result, tool_call_id=name, name=call.tool)
            for (call, name), result in results
        ]
    return messages


def fold_of(task: str) -> int:
    """The fold of a task."""
    return int(hashlib.md5(task.encode()).hexdigest(), 16) % FOLDS  # noqa: S324 - no secret


def learnt(
    turns: Sequence[Turn],
    runs: Sequence[Mapping[str, Any]],
    texts: Mapping[str, Sequence[str]],
) -> list[Past]:
    """For each fold what the valid runs of the others come to."""
    by_task: dict[str, list[Turn]] = {}
    for turn in turns:
        by_task.setdefault(turn.task.id, []).append(turn)
    good: list[Trajectory] = []
    for run in runs:
        own, name = by_task.get(run["id"], []), run["run"]
        if not run["valid"] or not own or any(name not in turn.ways for turn in own):
            continue
        messages: list[BaseMessage] = []
        for turn in own:
            steps = [each for each in turn.ways[name] if each[1]]
            messages += [
                HumanMessage(texts[run["id"]][turn.number]),
                *messages_of(turn, steps),
                AIMessage("Done."),
            ]
        good.append(
            Trajectory.from_messages(messages, id=f"{run['id']} {name}", success=True)
        )
    folds = []
    for fold in range(FOLDS):
        others = [each for each in good if fold_of(each.id.split()[0]) != fold]
        store = ExperienceStore(InMemoryStore(), namespace=("runs",))
        for each in others:
            store.add(each)
        chains = {each.id: [call.tool for call in each.calls] for each in others}
        folds.append(
            Past(
                SITGraph.from_trajectories(others),
                CFGMMemory(None, store),
                chains,
                texts,
            )
        )
    return folds


@dataclass
class Heard:
    """What was told in a row: questions at a doubt, those at which anything was said, and those where it helps."""

    doubts: int = 0
    told: int = 0
    right: int = 0
    tokens: float = 0.0


@dataclass(frozen=True)
class Experienced:
    """The default planner with experience.

    Args:
        past: What was learnt of the other folds.
        parts: `graph`, `memory` or `both` of it are told at a doubt.
        follows: Probability with which a model goes on as it is told, where a recorded run did.
        each_step: Tell the graph's two next tools in each own step as well, as the paper does.
        check_writes: Ask the own step again before an unusual write.
    """

    past: Sequence[Past]
    heard: Heard
    parts: str = "both"
    follows: float = 0.5
    each_step: bool = False
    check_writes: bool = False

    def __call__(self, model: RecordedModel) -> State:
        """Play a turn."""
        return _Play(model, Loop(BUDGETS["balanced"]), experience=self).play()


@dataclass(kw_only=True)
class _Play(TurnPlay):
    experience: Experienced
    checked: bool = False
    asked_to_follow: int = 0

    @property
    def past(self) -> Past:
        return self.experience.past[fold_of(self.model.turn.task.id)]

    def _own_step(self, state: State, path: Way, named: str | None = None) -> Step:
        again = (state, STOP) in path
        step = super()._own_step(state, path, named)
        if again:
            return self._following(state, step, self._hear(state, path))
        if self.experience.each_step:
            told = self.past.next_two(self.model.turn, path)
            self.experience.heard.tokens += told.size / TOKEN
            step = self._following(state, step, told)
        return self._checked(state, path, step)

    def _checked(self, state: State, path: Way, step: Step) -> Step:
        if self.checked or not self.experience.check_writes:
            return step
        if not self.past.is_unusual(self.model.turn, path, step):
            return step
        self.checked = True
        return self.model.step_again(state) or step

    def _hear(self, state: State, path: Way) -> Told:
        heard, turn = self.experience.heard, self.model.turn
        told = self.past.told(turn, path, self.experience.parts)
        heard.doubts += 1
        heard.told += bool(told.size)
        heard.right += any(
            turn.is_good(state, step) for step in self._steps(state, told)
        )
        heard.tokens += told.size / TOKEN
        return told

    def _steps(self, state: State, told: Told) -> list[Step]:
        """Recorded steps in a state that begin with a told tool, by its place, and the most common ones first."""
        steps = [
            step for step in state.recorded if step and tool_of(step[0]) in told.tools
        ]
        return sorted(
            steps,
            key=lambda step: (
                told.tools.index(tool_of(step[0])),
                -state.recorded[step],
                step,
            ),
        )

    def _following(self, state: State, step: Step, told: Told) -> Step:
        fitting = self._steps(state, told)
        if not fitting or (step and tool_of(step[0]) in told.tools):
            return step
        self.asked_to_follow += 1
        about = (
            self.model.seed,
            self.model.turn.name,
            self.model.run,
            hash_of(state),
            self.asked_to_follow,
        )
        follows = random.Random(repr(about)).random() < self.experience.follows  # noqa: S311 - no secret
        return fitting[0] if follows else step

    def ranked(self, state: State, path: Way, reads: list[Step]) -> list[Step]:
        """The reads told come first; one without arguments costs no question."""
        told = self._hear(state, path)
        if any(
            step[0].endswith("({})") and tool_of(step[0]) in told.tools
            for step in reads
        ):
            self.used -= 1
            self.model.calls -= 1
        return sorted(reads, key=lambda step: tool_of(step[0]) not in told.tools)


def rows_of(past: Sequence[Past]) -> dict[str, tuple[Any, Heard]]:
    """The policies, by name."""

    def row(**options: Any) -> tuple[Any, Heard]:
        heard = Heard()
        return Experienced(past, heard, **options), heard

    return {
        "plain": (plain, Heard()),
        "none": (Loop(BUDGETS["balanced"]), Heard()),
        "experience, followed 0": row(follows=0.0),
        "experience, followed .5": row(),
        "experience, followed 1": row(follows=1.0),
        "graph, followed .5": row(parts="graph"),
        "memory, followed .5": row(parts="memory"),
        "check_writes, followed .5": row(check_writes=True),
        "paper, followed .5": row(each_step=True),
    }


def figures(
    played: Sequence[Played],
    none: Sequence[Played],
    by_itself: Sequence[Played],
    heard: Heard,
) -> dict[str, float]:
    """The figures of a row, turn by turn beside `none` and plain."""
    compared = (
        [each for each in row if each.counts] for row in (played, none, by_itself)
    )
    triples = list(zip(*compared, strict=True))
    by_task: dict[str, list[int]] = {}
    for each, before, _ in triples:
        by_task.setdefault(each.task, []).append(each.passed - before.passed)
    sums, counts = (
        np.array([of(each) for each in by_task.values()], float) for of in (sum, len)
    )
    drawn = np.random.default_rng(0).integers(0, len(sums), (BOOTSTRAP, len(sums)))
    gains = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return {
        "success": fmean(each.passed for each, *_ in triples),
        "gain": fmean(each.passed - before.passed for each, before, _ in triples),
        "gain_low": float(gains[BOOTSTRAP // 40]),
        "gain_high": float(gains[-1 - BOOTSTRAP // 40]),
        "calls": fmean(each.calls for each, *_ in triples)
        / fmean(each.calls for *_, each in triples),
        "lost": 1_000
        * fmean(before.passed and not each.passed for each, before, _ in triples),
        "told": heard.told / heard.doubts if heard.doubts else 0.0,
        "right": heard.right / heard.told if heard.told else 0.0,
        "tokens": heard.tokens / len(triples),
    }


def main() -> None:
    """Play, print, and write JSON where wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the recorded runs")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument(
        "--quick", action="store_true", help="one draw of all chance instead of three"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache"),
        help="where the benchmark's package is kept",
    )
    options = parser.parse_args()
    package, runs = fetch_package(options.cache), load_runs(options.file)
    texts = {
        entry["id"]: [
            "\n".join(message["content"] for message in turn)
            for turn in entry["question"]
        ]
        for entry in load_entries(package, CATEGORY)
    }
    turns = list(turns_of(load_tasks(package), runs))
    past = learnt(turns, runs, texts)
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for label in READER_NAMES:
        rows = rows_of(past)
        played = {
            name: play(policy, turns, READERS[label], 1 if options.quick else DRAWS)
            for name, (policy, _) in track(rows.items(), label, transient=True)
        }
        tables[label] = {
            name: figures(played[name], played["none"], played["plain"], heard)
            for name, (_, heard) in rows.items()
        }
    console = Console(width=150)
    for label, told in tables.items():
        console.print(
            _table(
                f"{label}; {len(turns)} turns; {len(past[0].chains)} runs learnt of four folds",
                told,
            )
        )
    for line in verdict(tables):
        console.print(line, highlight=False)
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


def verdict(tables: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """Whether experience reaches its goal, and for each part whether it pays, at the first reader."""
    rows = tables[READER_NAMES[0]]
    own, none = rows["experience, followed .5"], rows["none"]
    reached = own["gain"] >= GOAL and own["calls"] <= none["calls"]
    lines = [
        f"{'holds ' if reached else 'missed'}  experience solves {GOAL:.0%} more turns than none at no more calls"
    ]
    for name, row in rows.items():
        if name not in ("plain", "none"):
            pays = row["gain_low"] > 0
            words = (
                "pays"
                if pays
                else "costs"
                if row["gain_high"] < 0
                else "changes nothing that this file can tell"
            )
            lines.append(
                f"        {name}: {row['gain']:+.3f} at {row['calls'] - none['calls']:+.2f} calls: {words}"
            )
    lines.append("What is told is measured; that a model follows it is assumed.")
    return lines


def _table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(title=title)
    for column in (
        "row",
        "a turn",
        "beside none, 95 %",
        "calls / plain's",
        "lost",
        "told",
        "right",
        "tokens a turn",
    ):
        table.add_column(column, no_wrap=True)
    for name, row in rows.items():
        table.add_row(
            name,
            f"{row['success']:.3f}",
            f"{row['gain']:+.3f} ({row['gain_low']:+.3f} to {row['gain_high']:+.3f})",
            f"{row['calls']:.2f}",
            f"{row['lost']:.1f}",
            f"{row['told']:.0%}",
            f"{row['right']:.0%}",
            f"{row['tokens']:.0f}",
        )
    return table


if __name__ == "__main__":
    main()
