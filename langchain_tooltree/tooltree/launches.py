"""The order of launches, and what each launch may spend. Pure.

Operations are launched first come, first served, and consumed in the order of launch. A launch reserves the most model
and tool calls it may use. One that too little is left for waits for refunds while others pass it; if none can come, the
budget is spent.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Literal

from langchain_tooltree.errors import ResumeError
from langchain_tooltree.tooltree.budget import Budget
from langchain_tooltree.tooltree.operations import Operation, OperationKind, Outcome
from langchain_tooltree.tooltree.top_ups import TopUps
from langchain_tooltree.tooltree.tree import Node

SpentBudget = Literal["max_model_calls", "max_tool_calls"]


@dataclass(slots=True)
class Rollout:
    """A rollout in flight.

    Attributes:
        id: Its number, from 0.
        node: Where it works now.
        tried_call: Whether it has run a call, or had one judged that waits.
        held_model_calls: Reserved since the execution of its call, so that what was run can also be judged.
    """

    id: int
    node: Node
    tried_call: bool = False
    held_model_calls: int = 0


class LaunchQueue:
    """Operations that wait to be launched and those that are outstanding.

    Args:
        budget: What may be spent.
        proposer_calls: Model calls that one proposal may need.
        judge_calls: Model calls that one judge question may need.
        single: Whether each candidate is a judge question of its own.

    Attributes:
        launched: Operations launched so far.
        consumed: Outcomes matched so far.
    """

    def __init__(self, budget: Budget, *, proposer_calls: int, judge_calls: int, single: bool) -> None:
        self.launched = 0
        self.consumed = 0
        self._budget = budget
        self._proposer_calls = proposer_calls
        self._judge_calls = judge_calls
        self._single = single
        self._top_ups = TopUps(budget.config)
        self._ready: list[tuple[Operation, Rollout]] = []
        self._outstanding: deque[tuple[Operation, Rollout]] = deque()

    @property
    def ready(self) -> bool:
        """Whether an operation waits to be launched."""
        return bool(self._ready)

    @property
    def outstanding(self) -> int:
        """Operations launched and not yet consumed."""
        return len(self._outstanding)

    def put(self, kind: OperationKind, rollout: Rollout, *, attempt: int = 1, candidates: tuple[int, ...] = ()) -> None:
        """Add the next operation of a rollout."""
        operation = Operation(
            id=-1, kind=kind, node=rollout.node.id, rollout=rollout.id, attempt=attempt, candidates=candidates
        )
        self._ready.append((operation, rollout))

    def launch(self) -> Operation | SpentBudget | None:
        """Launch the operation that has waited longest among those that the budget allows.

        Returns:
            The operation; the budget that is spent if nothing waiting can be paid and nothing can come back; `None` to
            wait for refunds.
        """
        lacking: SpentBudget = "max_model_calls"
        for position, (waiting, rollout) in enumerate(self._ready):
            operation = replace(waiting, top_ups=self._affordable_top_ups(waiting))
            granted = self._reserve(operation, rollout)
            if isinstance(granted, str):
                lacking = granted
                continue
            del self._ready[position]
            launched = replace(operation, id=self.launched, model_calls=granted, elapsed=self._budget.elapsed)
            self._outstanding.append((launched, rollout))
            self.launched += 1
            return launched
        return None if self._outstanding else lacking

    def _affordable_top_ups(self, operation: Operation) -> int:
        """Topping up must not use up what scoring the candidates and judging a call would need."""
        if operation.kind != "propose":
            return 0
        questions = (self._budget.config.top_k if self._single else 1) + 1
        spare = self._budget.free_model_calls - self._proposer_calls - questions * self._judge_calls
        return max(min(self._top_ups.wanted, spare), 0)

    def _reserve(self, operation: Operation, rollout: Rollout) -> int | SpentBudget:
        """Reserve what an operation may use.

        Returns:
            The model calls it may make, or the budget that does not allow it now.
        """
        held = rollout.held_model_calls if operation.kind == "evaluate" else 0
        wanted = self._wanted(operation)
        granted = min(wanted, self._budget.free_model_calls + held)
        if wanted and granted < 1:
            return "max_model_calls"
        if operation.kind == "execute":
            if self._budget.free_tool_calls < 1:
                return "max_tool_calls"
            self._budget.reserve(tool_calls=1, model_calls=granted)
            rollout.held_model_calls = granted
            return 0
        self._budget.reserve(model_calls=granted - held)
        rollout.held_model_calls -= held
        return granted

    def consume(self, outcome: Outcome) -> tuple[Operation, Rollout]:
        """Match an outcome to the oldest outstanding operation and book what it used.

        Args:
            outcome: What came of it.

        Returns:
            The operation and its rollout.

        Raises:
            ResumeError: If the outcome belongs to another operation.
        """
        expected = self._outstanding[0][0] if self._outstanding else None
        told = (outcome.operation, outcome.kind, outcome.node)
        if expected is None or told != (expected.id, expected.kind, expected.node):
            wanted = f"operation {expected.id} ({expected.kind} at node {expected.node})" if expected else "nothing"
            msg = (
                f"The search waits for {wanted}, but was told of operation {outcome.operation} ({outcome.kind} at "
                f"node {outcome.node}). Resume a thread with the tools, models and configuration it was started "
                "with, or start a new run."
            )
            raise ResumeError(msg)
        operation, rollout = self._outstanding.popleft()
        self.consumed += 1
        self._budget.settle(
            outcome.spent,
            model_calls=operation.model_calls,
            tool_calls=1 if operation.kind == "execute" else 0,
        )
        self._budget.elapsed = max(self._budget.elapsed, outcome.elapsed)
        self._top_ups.watch(outcome)
        return operation, rollout

    def release(self, rollout: Rollout) -> None:
        """Give back what a rollout that ends had reserved for later."""
        self._budget.reserve(model_calls=-rollout.held_model_calls)
        rollout.held_model_calls = 0

    def _wanted(self, operation: Operation) -> int:
        match operation.kind:
            case "plan":
                return 2
            case "propose":
                return self._proposer_calls + operation.top_ups
            case "score":
                return self._judge_calls * (len(operation.candidates) if self._single else 1)
            case "execute":
                return min(self._judge_calls, 1)
            case "evaluate":
                return self._judge_calls
