"""Recollection: what memory brings for a task."""

from dataclasses import dataclass

from langchain_tooltree.cfgm.tip import Tip
from langchain_tooltree.experience.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Experience:
    """A past run, and the tips that came out of its task.

    Attributes:
        trajectory: The run.
        tips: Its tips.
    """

    trajectory: Trajectory
    tips: tuple[Tip, ...] = ()


@dataclass(frozen=True, slots=True)
class Recollection:
    """The experiences that are most like a task (CFGM, Alg. 3).

    Attributes:
        task: The task that they were recalled for.
        experiences: The experiences, most similar first.
    """

    task: str
    experiences: tuple[Experience, ...] = ()

    @property
    def tips(self) -> tuple[Tip, ...]:
        """The tips of all experiences, each once."""
        return tuple(dict.fromkeys(tip for experience in self.experiences for tip in experience.tips))
