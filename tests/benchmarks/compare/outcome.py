"""What a method made of a task."""

from dataclasses import dataclass

BUDGETS = (10, 20, 40, 80, 160)
"""Model calls after which success is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a method made of a task.

    Attributes:
        method: Its name.
        auc: The judge.
        task: Position of the task.
        seed: The seed.
        solved: For each of the budgets, whether the plan that stood when it was spent solves the task.
        model_calls: Model calls made within the largest budget.
        tool_calls: Tools run.
        tokens: Tokens sent and received.
        milliseconds: Virtual time, for each number of calls in flight.
        rollouts: Rollouts.
        nodes: Nodes of its tree.
        seconds: What the method and its simulation took of the processor.
    """

    method: str
    auc: float
    task: int
    seed: int
    solved: tuple[bool, ...]
    model_calls: int
    tool_calls: int
    tokens: int
    milliseconds: tuple[int, ...]
    rollouts: int
    nodes: int
    seconds: float
