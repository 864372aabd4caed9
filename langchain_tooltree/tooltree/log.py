"""What a search tells of itself: its events, collected until the driver takes them. Pure."""

from collections.abc import Sequence

from langchain_tooltree import events
from langchain_tooltree.tooltree.budget import Spent
from langchain_tooltree.tooltree.launches import Rollout
from langchain_tooltree.tooltree.stopping import StopReason
from langchain_tooltree.tooltree.tree import Node, Observation, Pruned


class SearchLog:
    """The events of one search, in order."""

    def __init__(self) -> None:
        self._events: list[events.Event] = []

    def take(self) -> list[events.Event]:
        """The events since the last call."""
        taken, self._events = self._events, []
        return taken

    def selected(self, rollout: Rollout) -> None:
        """A rollout begins."""
        self._events.append(events.SelectEvent(type="select", node=rollout.node.id, rollout=rollout.id))

    def spent(self, spent: Spent, rollouts: int) -> None:
        """An operation was paid for."""
        self._events.append(
            events.BudgetEvent(
                type="budget",
                rollouts=rollouts,
                model_calls=spent.model_calls,
                tool_calls=spent.tool_calls,
                tokens=spent.tokens,
            )
        )

    def proposed(self, rollout: Rollout, node: Node, fresh: Sequence[Node], dropped: Sequence[str]) -> None:
        """A state was asked for calls."""
        self._events.append(
            events.ProposeEvent(
                type="propose",
                node=node.id,
                rollout=rollout.id,
                calls=[child.label for child in fresh],
                dropped=list(dropped),
            )
        )

    def judged(self, rollout: Rollout, candidate: Node) -> None:
        """A candidate was pre-evaluated."""
        self._events.append(
            events.JudgeEvent(
                type="judge",
                node=candidate.id,
                rollout=rollout.id,
                call=candidate.label,
                r_pre=candidate.r_pre or 0.0,
                scored=candidate.pre_scored,
            )
        )

    def executed(self, rollout: Rollout, observation: Observation, *, cached: bool) -> None:
        """A call was run, or its observation known."""
        self._events.append(
            events.ExecuteEvent(
                type="execute",
                node=rollout.node.id,
                rollout=rollout.id,
                call=rollout.node.label,
                status=observation.kind,
                cached=cached,
            )
        )

    def evaluated(self, rollout: Rollout, node: Node) -> None:
        """A call was judged by what it brought back."""
        self._events.append(
            events.EvaluateEvent(
                type="evaluate",
                node=node.id,
                rollout=rollout.id,
                call=node.label,
                r_post=node.r_post or 0.0,
                goal=node.goal,
                scored=node.post_scored,
            )
        )

    def pruned(self, rollout: Rollout, node: Node, reason: Pruned) -> None:
        """A node is out of the search."""
        self._events.append(
            events.PruneEvent(type="prune", node=node.id, rollout=rollout.id, call=node.label, reason=reason)
        )

    def best(self, path: Sequence[Node], value: float) -> None:
        """Another path is the best one now."""
        calls = [step.label for step in path]
        self._events.append(events.BestEvent(type="best", node=path[-1].id, value=value, calls=calls))

    def stopped(self, reason: StopReason, rollouts: int) -> None:
        """The search ends."""
        self._events.append(events.StopEvent(type="stop", reason=reason, rollouts=rollouts))
