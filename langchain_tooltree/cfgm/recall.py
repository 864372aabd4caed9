"""Recall: the experiences that are most like a task (CFGM, Alg. 3)."""

from langchain_tooltree.cfgm.nearest import complementary
from langchain_tooltree.cfgm.recollection import Experience, Recollection
from langchain_tooltree.cfgm.tips import task_id_of, tips_of
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow

CANDIDATES = 8
"""Experiences that are looked at for each one that is recalled."""


def recalling(experience: ExperienceStore, task: str, k: int) -> Flow[Recollection]:
    """Recall the successful experiences that are most like a task, with their tips, as a flow.

    Args:
        experience: Holds them; it must keep to one namespace.
        task: The task.
        k: How many to recall at the most.

    Returns:
        The experiences. Of several with the very same task the shortest one is taken, and a second one only where
        there are too few other tasks. Its tips are those of all tasks with this text that are among the candidates.
    """
    found = yield from experience.finding(task, k=CANDIDATES * k, success=True)
    left = sorted(found, key=lambda each: (_rank(each, found), len(each.steps), each.id))
    chosen = [left[place] for place in complementary(task, [each.task for each in left], k)]
    recalled = []
    for trajectory in chosen:
        ids = [task_id_of(each) for each in found if each.task == trajectory.task]
        tips = yield from tips_of(experience, trajectory.task, ids)
        recalled.append(Experience(trajectory, tips))
    return Recollection(task, tuple(recalled))


def _rank(trajectory: Trajectory, found: list[Trajectory]) -> int:
    """Where the first one with the same task stands."""
    return next(place for place, other in enumerate(found) if other.task == trajectory.task)
