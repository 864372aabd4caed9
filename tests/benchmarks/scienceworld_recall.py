"""Recall on ScienceWorld: does memory bring a run of the same task type for a variation that it has not seen?"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    ExperienceStore,
    HashingEmbeddings,
    Trajectory,
)
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.scienceworld_world import PERFECT, Taken, Task, dialogue

K = 2


def trajectory(task: Task, text: str, taken: Sequence[Taken]) -> Trajectory:
    """A run as memory keeps it."""
    success = bool(taken) and taken[-1].score == PERFECT
    return Trajectory.from_messages(
        dialogue(text, taken), task=text, success=success, id=str(task)
    )


def memory_of(runs: Iterable[Trajectory]) -> CFGMMemory:
    """Memory of runs. Its model is never asked, since nothing but recall is wanted of it."""
    experience = ExperienceStore(InMemoryStore(), embeddings=HashingEmbeddings())
    for run in runs:
        experience.add(run)
    return CFGMMemory(ScriptedChatModel(), experience, verbatim=True)


def recalled(memory: CFGMMemory, text: str) -> list[str]:
    """The task types of the runs that are recalled for a task, most similar first."""
    recollection = memory.recall(text, K)
    return [run.id.partition("/")[0] for run in recollection.runs]


def recall_figures(memory: CFGMMemory, texts: Mapping[Task, str]) -> dict[str, Any]:
    """Recall of the same task type.

    Args:
        memory: What is known.
        texts: The texts of variations that it has not seen.

    Returns:
        `recall_at_1` and `recall_at_2` over all variations; by task type under `types`; and the recalled types of those
        for which neither run was of theirs under `missed`.
    """
    hits: defaultdict[str, list[tuple[bool, bool]]] = defaultdict(list)
    missed = []
    for task, text in texts.items():
        types = recalled(memory, text)
        hits[task.name].append((types[:1] == [task.name], task.name in types))
        if task.name not in types:
            missed.append({"task": str(task), "text": text, "recalled": types})
    every = [hit for of_type in hits.values() for hit in of_type]
    return {
        **_shares(every),
        "variations": len(every),
        "types": {
            name: {**_shares(of_type), "variations": len(of_type)}
            for name, of_type in sorted(hits.items())
        },
        "missed": missed,
    }


def _shares(hits: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    return {
        "recall_at_1": sum(first for first, _ in hits) / len(hits),
        "recall_at_2": sum(either for _, either in hits) / len(hits),
    }
