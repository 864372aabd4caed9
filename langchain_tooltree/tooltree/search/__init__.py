"""The search kernel: it decides what to do next, and knows no LangChain and no I/O. Pure.

Ask it for operations, perform them in any way, and tell it the outcomes in the order of launch:

    search = TreeSearch(KernelConfig(max_rollouts=30, parallel_rollouts=4))
    outstanding = deque(search.ask())
    while outstanding:
        search.tell(perform(outstanding.popleft()))
        outstanding.extend(search.ask())
    best = search.tree.path(search.best())  # the nodes from the first call to the last

What `perform` does is up to the driver. One that asks nobody and knows a single tool:

    def perform(operation):
        match operation.kind:
            case "propose":  # which calls may follow in this state?
                outcome = {"calls": [Action("look", {}, effect="read")], "confidences": [0.8]}
            case "score":  # r_pre of each candidate, before it runs
                outcome = {"scores": [0.8 for _ in operation.candidates]}
            case "evaluate":  # r_post of the observation, and whether the task is done
                outcome = {"reward": 0.9, "goal": 1.0}
            case "execute":
                outcome = {}
        if operation.run:  # run search.tree[operation.node].call first
            outcome["observation"] = Observation("A map.")
        return OperationOutcome(operation.id, **outcome)

One rollout selects a node, expands it if need be (propose, score), runs one call, evaluates the observation and
back-propagates the reward, as in the paper; which of these it does, and where, is up to the policy. Several rollouts
are in flight at once. The same seed and the same outcomes give the same tree at any timing.

Read this file for the rollout, `policies` for where it works (Eq. 1, and the posterior) and for the end, `tree` for
values and pruning.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast

from langchain_tooltree.events import Event
from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.policies import (
    DONE_AT_START,
    P_DONE_AFTER_RIGHT_CALL,
    BestPath,
    PosteriorPolicy,
    StopReason,
    UCTPolicy,
)
from langchain_tooltree.tooltree.search.tree import (
    Action,
    Node,
    Observation,
    Pruned,
    Tree,
    TreeChange,
    Work,
)

OperationKind = Literal["propose", "score", "execute", "evaluate"]


@dataclass(slots=True)
class Spent:
    """What a search has used so far."""

    model_calls: int = 0  # requests to models
    tool_calls: int = 0  # tools run
    tokens: int = 0  # sent and received


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One piece of I/O of a rollout.

    `propose` asks a state for calls, `score` is the pre-evaluation of candidates, `execute` runs a call, `evaluate` is
    the post-evaluation of an observation.
    """

    id: int  # launch number, from 0; outcomes are consumed in this order
    kind: OperationKind
    node: int  # the state to ask, or the call to run or judge
    rollout: int  # number of the rollout this belongs to, from 0
    attempt: int = 1  # for `propose`: how often this state is now asked, from 1
    run: bool = False  # whether the node's call is run first: always for `execute`, for `propose` if it has not run yet
    candidates: tuple[
        int, ...
    ] = ()  # for `score`: the nodes to score, in the order of creation
    model_calls: int = 0  # model calls that may be used at the most


@dataclass(slots=True)
class OperationOutcome:
    """What came of an operation."""

    operation: int  # launch number of the operation
    calls: list[Action] = field(default_factory=list)  # `propose`: best first
    confidences: list[float | None] = field(
        default_factory=list
    )  # `propose`: r_pre of each call; may be empty
    dropped: list[str] = field(
        default_factory=list
    )  # `propose`: calls that cannot be made, each with its reason
    finished: bool = False  # `propose`: the model answered without proposing any call
    scores: Sequence[
        float | None
    ] = ()  # `score`: one in [0, 1] for each candidate, `None` where the judge gave none
    reasons: Sequence[
        str
    ] = ()  # `score`, `evaluate`: why, for each score; empty if nobody said
    observation: Observation | None = (
        None  # `execute`, `propose`: what the call brought back that was run first
    )
    reward: float | None = (
        None  # `evaluate`, `propose`: r_post in [0, 1], `None` if there is none
    )
    goal: float | None = (
        None  # `evaluate`, `propose`: whether the task is done, in [0, 1], `None` if nobody said
    )
    missing: Sequence[
        str
    ] = ()  # `propose`: what of the request is not done yet, in words
    error: str | None = None  # why the operation failed, if it did
    model_calls: int = 0  # that it made
    tokens: int = 0  # that these took


@dataclass(slots=True)
class Rollout:
    """A rollout in flight."""

    id: int  # its number, from 0
    node: Node  # where it works now
    tried_call: bool = False  # whether it has run a call, or had a deferred one judged


FAILURES_TO_GIVE_UP = 3  # so many failed questions of one kind (propose, score, evaluate) in a row end the search


class TreeSearch:
    """Monte Carlo tree search over tool calls, without any I/O.

    Args:
        config: The settings.
        tools: How many there are, which bounds the model calls of drafts.
        judge_calls: Model calls that a question to the judge may need: 2 for a model, which may be asked again, 0 for
            a function.
        reserved_model_calls: Model calls that are kept back for the answer.
        is_under_way: Whether calls were made since the request before this search, the latest one without an error.
        policy: Where rollouts work, in place of Eq. 1; as configured if left out.
    """

    def __init__(
        self,
        config: KernelConfig,
        *,
        tools: int = 1,
        judge_calls: int = 2,
        reserved_model_calls: int = 0,
        is_under_way: bool = False,
        policy: UCTPolicy | None = None,
    ) -> None:
        self.config = config
        self.tree = Tree(config)
        self.spent = Spent()  # a driver adds what it spends beside the operations
        self.max_model_calls = config.most_model_calls(tools)
        self.promised_model_calls = reserved_model_calls  # neither spent nor free: those of what is outstanding, too
        self.problems: list[
            str
        ] = []  # what made questions to proposer or judge fail, each cause once
        self.stop_reason: StopReason | None = None  # `None` while the search goes on
        self._by_posterior = config.selection == "posterior"
        self._proposer_calls = 1 + (
            tools if config.proposals == "per_tool" else 1
        )  # one more to repair calls
        self._judge_calls = judge_calls
        self._ready: list[tuple[Operation, Rollout]] = []  # that wait to be launched
        self._outstanding: deque[tuple[Operation, Rollout]] = (
            deque()
        )  # whose outcomes are awaited, oldest first
        self._launches = 0
        self._policy: UCTPolicy | PosteriorPolicy
        self._best: BestPath | PosteriorPolicy
        if self._by_posterior:
            done_at_start = P_DONE_AFTER_RIGHT_CALL if is_under_way else DONE_AT_START
            self._policy = self._best = PosteriorPolicy(
                self.tree, done_at_start=done_at_start
            )
        else:
            self._policy, self._best = policy or UCTPolicy(config), BestPath(config)
        self._announced_best: int | None = None
        self._observations: dict[
            tuple[str, str], Observation
        ] = {}  # by the world before a call, and the call
        self._running: dict[
            tuple[str, str], list[Rollout]
        ] = {}  # calls in flight, and who waits for each
        self.cache_hits = (
            0  # calls whose observation was reused instead of running them again
        )
        self._events: list[Event] = []
        self._active: dict[int, Rollout] = {}
        self._started = 0
        self._without_call = 0
        self._failures = Counter[str]()

    # --- ask ---

    def ask(self) -> list[Operation]:
        """The operations to launch now, in order; no operation means to wait, or the end if none is outstanding."""
        operations: list[Operation] = []
        if self._by_posterior and self.stop_reason is None:
            self._review(self.tree.root)
        while self.stop_reason is None:
            if self._ready:
                if launched := self._launch():
                    operations.append(launched)
                elif self._outstanding:  # what these do not use comes back
                    break
                else:
                    self.stop("max_model_calls")
            elif (
                len(self._active) >= self.config.parallel_rollouts
                or not self._start_rollout()
            ):
                break
        return operations

    def _launch(self) -> Operation | None:
        """Launch the operation that has waited longest among those that the budget allows; `None` if it allows none.

        It is promised the most model calls that it may need. What it does not use comes back with its outcome.
        """
        free = self.max_model_calls - self.spent.model_calls - self.promised_model_calls
        for position, (waiting, rollout) in enumerate(self._ready):
            wanted = self._model_calls_for(waiting)
            if free < min(wanted, 1):
                continue
            del self._ready[position]
            granted = 0 if waiting.kind == "execute" else min(wanted, free)
            operation = replace(waiting, id=self._launches, model_calls=granted)
            self.promised_model_calls += granted
            self._outstanding.append((operation, rollout))
            self._launches += 1
            return operation
        return None

    def _model_calls_for(self, operation: Operation) -> int:
        """The most model calls that an operation may need; a call is not run where none is left to judge it."""
        if operation.kind == "propose":
            return self._proposer_calls
        if operation.kind == "execute" and self._by_posterior:
            return 0
        is_single = operation.kind == "score" and self.config.pre_evaluation == "single"
        return self._judge_calls * (len(operation.candidates) if is_single else 1)

    @property
    def rollouts(self) -> int:
        """Rollouts started; those of the posterior policy that ended without trying a call are not counted."""
        return self._started - self._without_call

    def best(self) -> Node | None:
        """The end of the best path, `None` if no call is accepted."""
        return self._best.find(self.tree)

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    def stop(self, reason: StopReason) -> None:
        """Launch nothing more; the first reason stays."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._events.append(
                {"type": "stop", "reason": reason, "rollouts": self.rollouts}
            )

    def _start_rollout(self) -> bool:
        """Begin a rollout; False if none can begin now."""
        has_room = self.rollouts < self.config.max_rollouts
        work = self._policy.select(self.tree) if has_room else None
        if work is None:
            if not self._active:  # nothing can begin, and nothing in flight brings more
                self.stop("exhausted" if has_room else "max_rollouts")
            return False
        self.tree.occupy(work.node, 1)
        rollout = Rollout(self._started, work.node)
        self._started += 1
        self._active[rollout.id] = rollout
        self._record("select", rollout, work.node)
        self._do(work, rollout)
        return True

    def _do(self, work: Work, rollout: Rollout) -> None:
        {"propose": self._propose, "execute": self._execute}[work.kind](rollout)

    def _propose(self, rollout: Rollout, *, run: bool = False) -> None:
        """Ask the rollout's state, after running the call that leads there if it has not run yet."""
        node = rollout.node
        node.proposing = True
        self._put("propose", rollout, attempt=node.proposals + 1, run=run)

    def _put(self, kind: OperationKind, rollout: Rollout, **details: Any) -> None:
        """Have the next operation of a rollout wait for its launch; `details` are other fields of it."""
        operation = Operation(
            id=-1, kind=kind, node=rollout.node.id, rollout=rollout.id, **details
        )
        self._ready.append((operation, rollout))

    # --- tell ---

    def tell(self, outcome: OperationOutcome) -> None:
        """Take in the outcome of the oldest outstanding operation; raises `ValueError` for that of another one."""
        operation, rollout = self._outstanding[0]
        if outcome.operation != operation.id:
            msg = f"Outcomes are told in the order of launch: {operation.id} is next, got {outcome.operation}."
            raise ValueError(msg)
        self._outstanding.popleft()
        self.promised_model_calls -= operation.model_calls
        self.spent.model_calls += outcome.model_calls
        self.spent.tool_calls += operation.run
        self.spent.tokens += outcome.tokens
        self.tree.changed.add(operation.node)
        self._events.append(
            {"type": "budget", "rollouts": self.rollouts, **asdict(self.spent)}
        )
        node = self.tree.nodes[operation.node]
        cost = (outcome.model_calls, outcome.tokens)
        change = TreeChange(
            operation.rollout, operation.kind, node.id, self._announced_best, *cost
        )
        self.tree.history.append(change)
        if operation.run:
            lost = Observation(outcome.error or "No result.", kind="exception")
            observation = outcome.observation or lost
            self._observe(rollout, observation, cached=False)
            for other in self._running.pop(self._key(node), []):
                self._observe(other, observation, cached=True)
                self._observed(other)
        match operation.kind:
            case "propose":
                self._proposed(rollout, node, outcome)
            case "score":
                self._scored(rollout, operation, outcome)
            case "execute":
                self._observed(rollout)
            case "evaluate":
                self._evaluated(rollout, node, outcome)
        change.nodes = len(self.tree)

    def _proposed(
        self, rollout: Rollout, node: Node, outcome: OperationOutcome
    ) -> None:
        node.proposing = False
        dropped = list(outcome.dropped)
        self._count_failure("propose", outcome.error)
        if outcome.error is None:
            node.proposals += 1
            node.finished = outcome.finished
        else:
            dropped.append(outcome.error)
        node.missing = tuple(outcome.missing) or node.missing
        if self._by_posterior:  # other scores are a judge's
            if outcome.goal is not None:
                node.goal, node.goal_scored = outcome.goal, True
            if outcome.reward is not None and node.call and not node.evaluated:
                node.r_post = outcome.reward
                self.tree.backpropagate(node, outcome.reward)
        candidates: list[Node] = []
        for call, confidence in zip(
            outcome.calls,
            outcome.confidences or (None,) * len(outcome.calls),
            strict=True,
        ):
            # The values of Eq. 1 are those of a tree, so it merges no states.
            if repetition := self.tree.repetition(
                node, call, merging=self._by_posterior
            ):
                dropped.append(f"{call.label}: {repetition}")
                continue
            candidates.append(self.tree.add(node, call))
            if self._by_posterior:
                candidates[-1].r_pre = (
                    self.config.pre_threshold if confidence is None else confidence
                )
                candidates[-1].pre_scored = confidence is not None
        node.dropped.extend(dropped)
        self._record(
            "propose",
            rollout,
            node,
            calls=[each.label for each in candidates],
            dropped=dropped,
        )
        if candidates and not self._by_posterior:
            self._put(
                "score", rollout, candidates=tuple(each.id for each in candidates)
            )
            return
        self._end(rollout)

    def _scored(
        self, rollout: Rollout, operation: Operation, outcome: OperationOutcome
    ) -> None:
        """Pre-evaluation: prune what scores below the threshold or is not among the top K, then work on."""
        threshold = min(
            1.0,
            self.config.pre_threshold
            * self.config.threshold_annealing**rollout.node.depth,
        )
        candidates = [self.tree.nodes[candidate] for candidate in operation.candidates]
        nothing_scored = all(score is None for score in outcome.scores)
        self._count_failure(
            "score", (outcome.error or "no score") if nothing_scored else None
        )
        reasons = outcome.reasons or ("",) * len(candidates)
        for candidate, score, reason in zip(
            candidates, outcome.scores, reasons, strict=True
        ):
            candidate.pre_reason = reason
            candidate.pre_scored = score is not None
            candidate.r_pre = threshold if score is None else score
            scores = {"r_pre": candidate.r_pre, "scored": candidate.pre_scored}
            self._record("judge", rollout, candidate, call=candidate.label, **scores)
        ranked = self.tree.best_first(
            [
                candidate
                for candidate in candidates
                if (candidate.r_pre or 0.0) >= threshold
            ]
        )
        best = ranked[: self.config.top_k]
        for candidate in candidates:
            if candidate not in best:
                self._prune(
                    rollout,
                    candidate,
                    "top_k" if candidate in ranked else "pre_evaluation",
                )
        work = cast("UCTPolicy", self._policy).after_scoring(self.tree, best)
        if work is None:
            self._end(rollout)
            return
        self.tree.occupy(rollout.node, -1)
        self.tree.occupy(work.node, 1)
        rollout.node = work.node
        self._do(work, rollout)

    def _execute(self, rollout: Rollout) -> None:
        """Run the rollout's call, unless it is deferred, its result is known, or another rollout is running it."""
        rollout.tried_call = True
        node = rollout.node
        if node.deferred:
            self._put("evaluate", rollout)
        elif observation := self._observations.get(self._key(node)):
            self.cache_hits += 1
            self._observe(rollout, observation, cached=True)
            self._observed(rollout)
        elif (waiting := self._running.get(self._key(node))) is not None:
            self.cache_hits += 1
            waiting.append(rollout)
        else:
            self._running[self._key(node)] = []
            if self._asks_at_once(node):
                self._propose(rollout, run=True)
            else:
                self._put("execute", rollout, run=True)

    def _key(self, node: Node) -> tuple[str, str]:
        """World before the call of a node, tool and canonical arguments."""
        return self.tree.state_before(node).world, node.call.key if node.call else ""

    def _asks_at_once(self, node: Node) -> bool:
        """Whether a call is run in the same operation as the next question, which brings its scores."""
        return self._by_posterior and not self.tree.is_deepest(node)

    def _observe(
        self, rollout: Rollout, observation: Observation, *, cached: bool
    ) -> None:
        """Take in what the call of a rollout has brought back."""
        node = rollout.node
        node.observation = observation
        if observation.kind == "ok":  # another time, a call that failed may succeed
            self._observations[self._key(node)] = observation
        self.tree.history[-1].ran.append(node.id)
        self._record(
            "execute",
            rollout,
            node,
            call=node.label,
            status=observation.kind,
            cached=cached,
        )

    def _observed(self, rollout: Rollout) -> None:
        """Go on after the call of a rollout has run: judge what it brought back, or ask on, which brings its score."""
        if not self._by_posterior:
            self._put("evaluate", rollout)
        elif self._asks_at_once(rollout.node):
            self._propose(rollout)
        else:
            self._end(rollout)

    def _evaluated(
        self, rollout: Rollout, node: Node, outcome: OperationOutcome
    ) -> None:
        """Post-evaluation: set r_post and goal, back-propagate, prune, and see whether a path is good enough."""
        parent = self.tree.state_before(node)
        reward = outcome.reward
        self._count_failure(
            "evaluate", (outcome.error or "no score") if reward is None else None
        )
        node.post_scored = reward is not None
        if reward is None:  # unscored is never 0
            reward = (
                parent.value
                if parent.visits and self.config.reward == "call"
                else self.config.post_threshold
            )
        node.r_post = reward
        node.post_reason = " ".join(outcome.reasons)
        if self.config.goal_score:
            inherited = (
                0.5 if parent.goal is None else parent.goal
            )  # neutral: as good as unknown
            # A deferred write ends its path, whatever has to follow: the right one to make next is all that is wanted.
            goal = outcome.reward if node.deferred else outcome.goal
            node.goal = inherited if goal is None else goal
            node.goal_scored = goal is not None
        self.tree.backpropagate(
            node,
            self.tree.cumulative_reward(node)
            if self.config.reward == "path"
            else reward,
        )
        node.closed = node.closed or node.deferred or self.tree.is_deepest(node)
        scores = {"r_post": reward, "goal": node.goal, "scored": node.post_scored}
        self._record("evaluate", rollout, node, call=node.label, **scores)
        if node.post_scored and reward < self.config.post_threshold:
            self._prune(rollout, node, "post_evaluation")
            node.closed = True
        self._review(node)
        self._end(rollout)

    def _review(self, node: Node) -> None:
        """Take in what is new at a node: announce another best path, and stop if it is good enough."""
        solved = self._best.consider(self.tree, node)
        best = self._best.find(self.tree)
        if best and best.id != self._announced_best:
            self._announced_best = best.id
            calls = [step.label for step in self.tree.path(best)]
            self._events.append(
                {
                    "type": "best",
                    "node": best.id,
                    "value": self._best.value or 0.0,
                    "calls": calls,
                }
            )
        if solved:
            self.stop("solved")

    def _prune(self, rollout: Rollout, node: Node, reason: Pruned) -> None:
        node.pruned = reason
        self.tree.history[-1].pruned.append(node.id)
        self._record("prune", rollout, node, call=node.label, reason=reason)

    def _end(self, rollout: Rollout) -> None:
        """Take a rollout out of the tree and see whether the search is over."""
        self.tree.occupy(rollout.node, -1)
        self.tree.close_upwards(rollout.node)
        self._without_call += self._by_posterior and not rollout.tried_call
        del self._active[rollout.id]
        if isinstance(self._best, BestPath) and self._best.converged():
            self.stop("converged")

    def _count_failure(self, kind: OperationKind, problem: str | None) -> None:
        """Note a failed question; so many of one kind in a row end the search."""
        self._failures[kind] = self._failures[kind] + 1 if problem else 0
        if problem and problem not in self.problems:
            self.problems.append(problem)
        if self._failures[kind] >= FAILURES_TO_GIVE_UP:
            self.stop("proposer_failed" if kind == "propose" else "judge_failed")

    def _record(self, kind: str, rollout: Rollout, node: Node, **facts: Any) -> None:
        """Add an event of a rollout at a node; `facts` are the other fields of its kind, see `events.py`."""
        self._events.append(
            {"type": kind, "node": node.id, "rollout": rollout.id, **facts}
        )
