"""Each paper's system as `.paper()` has it, beside the baselines that it compares with and that can be run.

    python -m tests.benchmarks.live --paper sitgraph --bench bfcl --model openai:gpt-4.1 --tasks 50 --journal sit.jsonl

An arm is a method with a memory; each runs over the same tasks, in the order of the table, with a journal of its own
beside the one that is named. At the end stand all arms with intervals, the paper's system last, and the paired
differences of its success to theirs. The papers' own figures are not repeated: they are those of other models, tasks
and worlds, and stand in the tables that are named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.live.figures import paired, summary
from tests.benchmarks.live.runs import TaskRun


@dataclass(frozen=True, slots=True)
class Arm:
    """A method, what it remembers of the tasks before, and what to call both."""

    name: str
    method: str = "react"
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's comparison.

    Attributes:
        title: The paper, and its table of main results.
        arms: What is run, the paper's system last.
        differs: What is otherwise than in the paper, whatever the bench.
    """

    title: str
    arms: tuple[Arm, ...]
    differs: str


PAPERS = {
    "tooltree": Paper(
        "ToolTree (arXiv 2603.12740), its main results",
        (
            Arm("zero-shot", "zero_shot"),
            Arm("CoT", "cot"),
            Arm("CoT-SC", "cot_sc"),
            Arm("ReAct", "react"),
            Arm("best-first", "best_first"),
            Arm("ToT (beam)", "beam"),
            Arm("A*", "a_star"),
            Arm("LATS", "lats"),
            Arm("DFSDT", "dfsdt"),
            Arm("MCTS", "mcts"),
            Arm("ToolTree", "tooltree-paper"),
        ),
        "GTA and m&m's need the models behind their tools, ToolBench its server, so that tasks and metrics are the "
        "bench's; the baselines are ours after their papers, see searches.py, and the prompts are in our words.",
    ),
    "tooltree-acl": Paper(
        "ToolTree, the ACL-format version, its table of 15 question-answering sets",
        (
            Arm("zero-shot", "zero_shot"),
            Arm("CoT", "cot"),
            Arm("CoT-SC", "cot_sc"),
            Arm("ReAct", "react"),
            Arm("ToT (beam)", "beam"),
            Arm("LATS", "lats"),
            Arm("ToolTree", "tooltree-acl"),
        ),
        "Its visual and medical tools are models that cannot be had from a package index, nor can HuggingGPT, "
        "OctoTools, ViperGPT and MMedAgent; outputs are scored by the model of --judge-model, or by the agent's.",
    ),
    "sitgraph": Paper(
        "SIT-Graph, its tables of main results and of ablations",
        (
            Arm("base model"),
            Arm("whole run, top 1", memory="runs"),
            Arm("whole runs, top 3", memory="runs3"),
            Arm("ReasoningBank", memory="reasoningbank"),
            Arm("ToolNet", memory="toolnet"),
            Arm("w/o weight", memory="sitgraph-without-weight"),
            Arm("w/o state", memory="sitgraph-without-state"),
            Arm("SIT-Graph", memory="sitgraph"),
        ),
        "Experience is learnt from the tasks before, in their order, or from --experience; ToolSandbox and ACEBench "
        "are on no package index, and ReasoningBank and ToolNet are in short, see memories.py.",
    ),
    "cfgm": Paper(
        "CFGM (EMNLP 2025), its main results and ablations",
        (
            Arm("ReAct"),
            Arm("ExpeL", memory="expel"),
            Arm("ReasoningBank", memory="reasoningbank"),
            Arm("CFGM without tips", memory="cfgm-without-tips"),
            Arm("CFGM", memory="cfgm-paper"),
        ),
        "AutoGuide and QuBE are not had, and WebShop and WebArena have no package; experience is collected from the "
        "tasks before or from --experience, without the retries that CFGMMemory.collect makes in a world of its own.",
    ),
}


def journal_of(journal: Path | None, arm: Arm) -> Path | None:
    """Where an arm keeps its tasks, beside the journal that is named."""
    if journal is None:
        return None
    name = "".join(letter if letter.isalnum() else "-" for letter in arm.name.lower())
    return journal.with_name(f"{journal.stem}.{name}{journal.suffix}")


def compared(paper: Paper, runs: Mapping[str, Sequence[TaskRun]]) -> dict[str, Any]:
    """Figures of each arm, and the paired differences of the paper's system to the others, by name of the arm."""
    ours = paper.arms[-1].name
    return {
        "arms": {name: summary(each) for name, each in runs.items() if each},
        "against": {
            name: paired(runs[ours], each)
            for name, each in runs.items()
            if name != ours
        },
    }


def show(console: Console, paper: Paper, found: Mapping[str, Any], where: str) -> None:
    """Print all arms, the paper's system last."""
    table = Table(title=f"{paper.title}: {where}", title_justify="left")
    for heading in (
        "",
        "success",
        "95 %",
        "system minus this",
        "95 %",
        "calls a task",
        "tokens a task",
    ):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, figures in found["arms"].items():
        tokens = figures["input_tokens"] + figures["output_tokens"]
        bounds = f"{figures['success_low']:.3f} to {figures['success_high']:.3f}"
        gap = found["against"].get(name, {}).get("success")
        gaps = (
            (f"{gap['difference']:+.3f}", f"{gap['low']:+.3f} to {gap['high']:+.3f}")
            if gap
            else ("", "")
        )
        cost = (f"{figures['model calls']:,.1f}", f"{tokens:,.0f}")
        table.add_row(name, f"{figures['success']:.3f}", bounds, *gaps, *cost)
    console.print(table)
    console.print(f"Otherwise than in the paper: {paper.differs}", highlight=False)
