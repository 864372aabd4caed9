"""The search itself: ask it what to do next, tell it what came of it. Pure.

One rollout selects a node, expands it if need be (propose, score), runs one call, evaluates the observation and
back-propagates the reward, as in the paper; which of these it does, and where, is up to the selection rule. Several
rollouts are in flight at once. The driver performs the operations that `ask` returns, in any way it likes, and tells
their outcomes in the order of launch; then the same seed and the same outcomes give the same tree at any timing, and a
recorded list of outcomes replays exactly.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from langchain_tooltree import events
from langchain_tooltree.events import Event
from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.policies import PosteriorPolicy, SelectionPolicy, UCTPolicy
from langchain_tooltree.tooltree.search.posterior import PathPosterior
from langchain_tooltree.tooltree.search.scheduler import (
    Budget,
    Operation,
    OperationKind,
    OperationOutcome,
    Rollout,
    Scheduler,
    Spent,
)
from langchain_tooltree.tooltree.search.stopping import BestPath, LikeliestPath, StopReason
from langchain_tooltree.tooltree.search.tree import ROOT, Call, Frontier, Node, Observation, Pruned, Tree, Work
from langchain_tooltree.tooltree.search.warm_start import Continuation


class CallCache:
    """A cache by world, tool and canonical arguments, with one run in flight for all that ask for the same call.

    Attributes:
        hits: Calls whose observation was reused instead of running them again.
    """

    def __init__(self) -> None:
        self.hits = 0
        self._known: dict[tuple[str, str], Observation] = {}
        self._running: dict[tuple[str, str], list[Rollout]] = {}

    def ask(self, tree: Tree, rollout: Rollout) -> Observation | None:
        """The observation of a rollout's call, if it is known; otherwise the rollout joins those that wait for it."""
        key = _key(tree, rollout.node)
        if known := self._known.get(key):
            self.hits += 1
            return known
        waiting = self._running.setdefault(key, [])
        self.hits += bool(waiting)
        waiting.append(rollout)
        return None

    def is_first(self, tree: Tree, rollout: Rollout) -> bool:
        """Whether a rollout that waits has to run the call, for itself and all that join later."""
        return self._running[_key(tree, rollout.node)][0] is rollout

    def finish(self, tree: Tree, node: Node, observation: Observation) -> list[Rollout]:
        """Take in what a call brought back; a transient failure is not kept.

        Returns:
            The rollouts that waited for it, the one that ran it first.
        """
        if node.call:
            self.learn(_key(tree, node)[0], node.call, observation)
        return self._running.pop(_key(tree, node))

    def learn(self, world: str, call: Call, observation: Observation) -> None:
        """Keep what a call brought back in a world, unless it failed in passing."""
        if not observation.transient:
            self._known[world, call.key] = observation


def _key(tree: Tree, node: Node) -> tuple[str, str]:
    """World before the call, tool and canonical arguments."""
    parent = tree.parent(node)
    return (parent.world if parent else "", node.call.key if node.call else "")


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


FAILURES_TO_GIVE_UP = 3
"""So many failed questions of one kind (propose, score, evaluate) in a row end the search."""

NEUTRAL_GOAL = 0.5
"""Goal score taken where neither the judge nor an earlier state on the path has one."""


class TreeSearch:
    """Monte Carlo tree search over tool calls, without any I/O.

    Args:
        config: The settings.
        tools: How many tools the model may be shown; bounds the model calls.
        judge_calls: Model calls that one judge question may need: 2 for a model (it may be asked again), 0 for a
            function.
        reserved_model_calls: Model calls kept back for the answer.
        rule: Where rollouts work; the configured one if left out.

    Attributes:
        tree: The tree so far.
        budget: What is spent.
        inherited: Nodes taken over from an earlier search.
        kept_tools: Names that the coarse planner kept; `None` for all.
        problems: What made questions to proposer or judge fail, each cause once.
        stop_reason: Why the search ended; `None` while it goes on.
    """

    def __init__(
        self,
        config: SearchConfig,
        *,
        tools: int = 1,
        judge_calls: int = 2,
        reserved_model_calls: int = 0,
        rule: SelectionPolicy | None = None,
    ) -> None:
        if judge_calls == 0:
            config = replace(config, post_evaluation="always")  # a judge that costs nothing is asked at once
        self.config = config
        self.tree = Tree(seed=config.seed)
        self.limits = config.estimate(tools)
        self.budget = Budget(config, self.limits, reserved_model_calls=reserved_model_calls)
        self._started = 0
        self._without_call = 0
        self.inherited = 0
        self.kept_tools: tuple[str, ...] | None = None
        self.stop_reason: StopReason | None = None
        self._planned = not config.coarse_planner
        self._queue = Scheduler(
            self.budget,
            proposer_calls=1 + (tools if config.proposals == "per_tool" else 1),
            judge_calls=judge_calls,
            single=config.pre_evaluation == "single",
        )
        self._active: dict[int, Rollout] = {}
        self._frontier = Frontier(self.tree, config)
        self._beliefs = PathPosterior(config, self.tree, self._frontier) if config.selection == "posterior" else None
        self._rule = rule or (PosteriorPolicy(self._beliefs, config) if self._beliefs else UCTPolicy(config))
        self._cache = CallCache()
        self.problems: list[str] = []
        self._failures = Counter[str]()
        self._best = LikeliestPath(config, self._beliefs) if self._beliefs else BestPath(config)
        self._told_best: int | None = None
        self._log = SearchLog()

    def go_on(self, continuation: Continuation) -> None:
        """Begin where an earlier search has come to, before anything is asked.

        A tree that holds a solution already ends the search at once.

        Args:
            continuation: What the earlier search has left.
        """
        for call, observation in continuation.known:
            self._cache.learn("", call, observation)
        if not continuation.nodes:
            return
        goal = continuation.nodes[0].goal or 0.0
        if continuation.carried_out and self.config.goal_score and goal >= self.config.goal_threshold:
            self._stop("solved")
            return
        self.tree.nodes[:] = continuation.nodes
        self.inherited = len(continuation.nodes) - 1
        if self._beliefs:
            self._beliefs.adopt()
        for node in continuation.nodes[1:]:
            if node.call and node.observation:
                self._cache.learn(self.tree[node.parent or ROOT].world, node.call, node.observation)
            if node.evaluated:
                self._best.consider(self.tree, node)
                if self._best.solves(self.tree, node):
                    self._stop("solved")

    # --- ask ---

    def ask(self) -> list[Operation]:
        """The operations to launch now, in this order.

        Returns:
            New operations; an empty list means: wait for an outcome, or, with none outstanding, the end.
        """
        operations: list[Operation] = []
        while self.stop_reason is None:
            if exceeded := self.budget.exceeded():
                self._stop(exceeded)
            elif self._queue.ready:
                launch = self._queue.launch()
                if launch is None:
                    break
                if isinstance(launch, str):
                    self._stop(launch)
                else:
                    operations.append(launch)
            elif not self._start_rollout():
                break
        return operations

    @property
    def rollouts(self) -> int:
        """Rollouts started; under the posterior rule those that ended without trying a call are not counted."""
        return self._started - self._without_call

    @property
    def launched(self) -> int:
        """Operations returned by `ask` so far."""
        return self._queue.launched

    @property
    def consumed(self) -> int:
        """Outcomes told so far."""
        return self._queue.consumed

    @property
    def cache_hits(self) -> int:
        """Calls whose observation was reused instead of running them again."""
        return self._cache.hits

    @property
    def finished(self) -> bool:
        """Whether nothing is outstanding and nothing more will be launched."""
        return self.stop_reason is not None and not self._queue.outstanding

    def _start_rollout(self) -> bool:
        """Begin a rollout; False if none can begin now."""
        if not self._planned:
            if self._queue.outstanding:
                return False
            self._queue.put("plan", Rollout(-1, self.tree.root))
            return True
        if self.rollouts >= self.config.max_rollouts:
            return self._idle("max_rollouts")
        if len(self._active) >= self.config.parallel_rollouts:
            return False
        work = self._rule.select(self.tree, self._frontier)
        if work is None:
            return self._idle("exhausted")
        rollout = Rollout(self._started, work.node)
        self._started += 1
        self._active[rollout.id] = rollout
        self._log.selected(rollout)
        self.tree.occupy(work.node, 1)
        self._do(work, rollout)
        return True

    def _do(self, work: Work, rollout: Rollout) -> None:
        match work.kind:
            case "propose":
                work.node.proposing = True
                self._queue.put("propose", rollout, attempt=work.node.proposals + 1)
            case "execute":
                self._execute(rollout)
            case "evaluate":
                self._evaluate(rollout)
        self._changed(work.node)

    def _idle(self, reason: StopReason) -> bool:
        if not self._active:
            self._stop(reason)
        return False

    # --- tell ---

    def tell(self, outcome: OperationOutcome) -> None:
        """Take in the outcome of the oldest outstanding operation.

        Args:
            outcome: What came of it.

        Raises:
            ResumeError: If the outcome belongs to another operation.
        """
        operation, rollout = self._queue.consume(outcome)
        self._log.spent(self.budget.spent, self.rollouts)
        node = self.tree[operation.node]
        match operation.kind:
            case "plan":
                self._planned = True
                self.kept_tools = outcome.tools or None
            case "propose":
                self._proposed(rollout, node, outcome)
            case "score":
                self._scored(rollout, operation, outcome)
            case "execute":
                self._executed(node, outcome)
            case "evaluate":
                self._evaluated(rollout, node, outcome)
        if outcome.cancelled:
            self._stop("cancelled")

    def _proposed(self, rollout: Rollout, node: Node, outcome: OperationOutcome) -> None:
        node.proposing = False
        dropped_before = len(node.dropped)
        node.dropped.extend(outcome.dropped)
        self._count_failure("proposer_failed", "propose", outcome.error)
        if outcome.error is not None:
            node.dropped.append(outcome.error)
        else:
            node.proposals += 1
            node.finished = outcome.finished
        fresh: list[Node] = []
        for call in outcome.calls:
            if repetition := self.tree.repetition(node, call):
                node.dropped.append(f"{call.label}: {repetition}")
            else:
                fresh.append(self.tree.add(node, call))
        self._log.proposed(rollout, node, fresh, node.dropped[dropped_before:])
        self._changed(node)
        if fresh:
            self._queue.put("score", rollout, candidates=tuple(child.id for child in fresh))
        else:
            self._end(rollout)

    def _scored(self, rollout: Rollout, operation: Operation, outcome: OperationOutcome) -> None:
        state = self.tree[operation.node]
        threshold = self.config.pre_threshold * self.config.pre_threshold_decay**state.depth
        candidates = [self.tree[candidate] for candidate in operation.candidates]
        nothing_scored = all(score is None for score in outcome.scores)
        self._count_failure("judge_failed", "score", (outcome.error or "no score") if nothing_scored else None)
        for candidate, score in zip(candidates, outcome.scores, strict=True):
            candidate.pre_scored = score is not None
            candidate.r_pre = threshold if score is None else score
            self._log.judged(rollout, candidate)
        kept = [candidate for candidate in candidates if (candidate.r_pre or 0.0) >= threshold]
        kept.sort(key=lambda candidate: (candidate.r_pre, self.tree.jitter(candidate)), reverse=True)
        for candidate in candidates:
            if candidate not in kept:
                self._prune(rollout, candidate, "pre_evaluation")
            elif candidate in kept[self.config.top_k :]:
                self._prune(rollout, candidate, "top_k")
        self._changed(state)
        work = self._rule.after_scoring(self.tree, self._frontier, kept)
        if work is None:
            self._end(rollout)
            return
        self.tree.occupy(state, -1)
        self.tree.occupy(work.node, 1)
        rollout.node = work.node
        self._do(work, rollout)
        self._changed(state)

    def _execute(self, rollout: Rollout) -> None:
        """Run the rollout's call, unless it is deferred, known already, or being run by another rollout."""
        node = rollout.node
        rollout.tried_call = True
        if node.deferred:
            self._evaluate(rollout)
            return
        if observation := self._cache.ask(self.tree, rollout):
            self._observed(rollout, observation, cached=True)
        elif self._cache.is_first(self.tree, rollout):
            self._queue.put("execute", rollout)

    def _executed(self, node: Node, outcome: OperationOutcome) -> None:
        observation = outcome.observation or Observation(content=outcome.error or "No result.", kind="exception")
        for position, rollout in enumerate(self._cache.finish(self.tree, node, observation)):
            self._observed(rollout, observation, cached=position > 0)

    def _observed(self, rollout: Rollout, observation: Observation, *, cached: bool) -> None:
        rollout.node.observation = observation
        self._log.executed(rollout, observation, cached=cached)
        if self._rule.judges_at_once(self._frontier, rollout.node):
            self._evaluate(rollout)
            self._changed(rollout.node)
        else:
            self._end(rollout)

    def _evaluate(self, rollout: Rollout) -> None:
        rollout.node.evaluating = True
        self._queue.put("evaluate", rollout)

    def _evaluated(self, rollout: Rollout, node: Node, outcome: OperationOutcome) -> None:
        parent = self.tree[node.parent or ROOT]
        self._count_failure(
            "judge_failed", "evaluate", (outcome.error or "no score") if outcome.reward is None else None
        )
        node.evaluating = False
        node.post_scored = outcome.reward is not None
        if outcome.reward is None:
            node.r_post = parent.value if parent.visits else self.config.post_threshold
        else:
            node.r_post = outcome.reward
        if self.config.goal_score:
            inherited = NEUTRAL_GOAL if parent.goal is None else parent.goal
            node.goal = inherited if outcome.goal is None else outcome.goal
            node.goal_scored = outcome.goal is not None
        self.tree.backpropagate(node, node.r_post)
        self._log.evaluated(rollout, node)
        if node.post_scored and node.r_post < self.config.post_threshold:
            self._prune(rollout, node, "post_evaluation")
        # After a write that failed in passing nobody knows what its world is like, so nothing is built upon it.
        lost = node.world != parent.world and node.observation is not None and node.observation.transient
        if node.pruned or node.deferred or lost or node.depth >= self.config.max_depth:
            node.closed = True
        self._changed(node)
        self._best.consider(self.tree, node)
        if (best := self.best()) and best.id != self._told_best:
            self._told_best = best.id
            self._log.best(self.tree.path(best), self._best.value or 0.0)
        if self._best.solves(self.tree, node):
            self._stop("solved")
        self._end(rollout)

    def _end(self, rollout: Rollout) -> None:
        """Take a rollout out of the tree and see whether the search is over."""
        self.tree.occupy(rollout.node, -1)
        self._queue.release(rollout)
        self._without_call += self._beliefs is not None and not rollout.tried_call
        del self._active[rollout.id]
        self._frontier.close_upwards(rollout.node)
        self._changed(rollout.node)
        if converged := self._best.rollout_ended():
            self._stop(converged)

    def _changed(self, node: Node) -> None:
        if self._beliefs:
            self._beliefs.update(node)

    # --- pruning, best path, stopping ---

    def best(self) -> Node | None:
        """The end of the best path, `None` if no call was found worth keeping."""
        return self._best.find(self.tree)

    def _prune(self, rollout: Rollout, node: Node, reason: Pruned) -> None:
        node.pruned = reason
        self._log.pruned(rollout, node, reason)

    def _count_failure(
        self, reason: Literal["proposer_failed", "judge_failed"], kind: OperationKind, problem: str | None
    ) -> None:
        """Note a failed question; so many of one kind in a row end the search."""
        self._failures[kind] = self._failures[kind] + 1 if problem else 0
        if problem and problem not in self.problems:
            self.problems.append(problem)
        if self._failures[kind] >= FAILURES_TO_GIVE_UP:
            self._stop(reason)

    def _stop(self, reason: StopReason) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            self._log.stopped(reason, self.rollouts)

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        return self._log.take()
