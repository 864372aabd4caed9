"""The search itself: ask it what to do next, tell it what came of it. Pure.

One rollout selects a node, expands it if need be (propose, score), runs one call, evaluates the observation and
back-propagates the reward, as in the paper; which of these it does, and where, is up to the policy. Several rollouts
are in flight at once. The driver performs the operations that `ask` returns, in any way it likes, and tells their
outcomes in the order of launch; then the same seed and the same outcomes give the same tree at any timing, and a
recorded list of outcomes replays exactly.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from langchain_tooltree.events import BestEvent, BudgetEvent, Event, StopEvent
from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.policies import (
    BestPath,
    MostProbablePath,
    PosteriorPolicy,
    SelectionPolicy,
    StopReason,
    UCTPolicy,
)
from langchain_tooltree.tooltree.search.posterior import DONE_AT_START, OWN_DONE, PathPosterior
from langchain_tooltree.tooltree.search.prior import SURE, Prior
from langchain_tooltree.tooltree.search.scheduler import (
    Budget,
    CallCache,
    Operation,
    OperationKind,
    OperationOutcome,
    Rollout,
    Scheduler,
)
from langchain_tooltree.tooltree.search.tree import ROOT, Call, Frontier, Node, Observation, Pruned, Tree, Work
from langchain_tooltree.tooltree.search.warm_start import WarmStart

FAILURES_TO_GIVE_UP = 3
"""So many failed questions of one kind (propose, score, evaluate) in a row end the search. A model was asked each of
them twice, so six requests have failed."""

NEUTRAL_GOAL = 0.5
"""Goal score in [0, 1] where neither the judge nor an earlier state on the path has one: as good as unknown."""


class TreeSearch:
    """Monte Carlo tree search over tool calls, without any I/O.

    `tools`, how many the model may be shown, bounds the model calls. `judge_calls` is how many model calls a question
    to the judge may need: 2 for a model, which may be asked again, 0 for a function. `reserved_model_calls` are kept
    back for the answer. `turn_calls` were made since the request before the search began, and `last_failed` says of the
    latest one. `shown_tools` are those that the conversation has been shown before, where a model is not shown all.
    Without a `policy`, rollouts follow the configured one.
    """

    def __init__(
        self,
        config: SearchConfig,
        *,
        tools: int = 1,
        judge_calls: int = 2,
        reserved_model_calls: int = 0,
        turn_calls: int = 0,
        last_failed: bool = False,
        shown_tools: tuple[str, ...] = (),
        policy: SelectionPolicy | None = None,
    ) -> None:
        if judge_calls == 0:
            # A judge that costs nothing is asked about everything at once.
            separate: Literal["batched", "single"] = "single" if config.pre_evaluation == "single" else "batched"
            config = replace(config, pre_evaluation=separate, post_evaluation="always")
        self.config = config
        self.tree = Tree(seed=config.seed)
        self.limits = config.estimate(tools)
        self.budget = Budget(config, self.limits, reserved_model_calls=reserved_model_calls)
        self.inherited = 0  # nodes taken over from an earlier search
        self.anew = ""  # why none are although there was one
        self.kept_tools: tuple[str, ...] | None = None  # by the coarse planner; `None` for all
        self.shown_tools = shown_tools  # in the order in which they were added, none of them ever taken away
        self.problems: list[str] = []  # what made questions to proposer or judge fail, each cause once
        self.stop_reason: StopReason | None = None  # `None` while the search goes on
        self._scheduler = Scheduler(
            self.budget, proposer_calls=1 + (tools if config.proposals == "per_tool" else 1), judge_calls=judge_calls
        )
        self._fused = config.pre_evaluation == "fused"
        self._by_posterior = config.selection == "posterior"
        self._frontier = Frontier(self.tree, config)
        self._policy: SelectionPolicy
        self._best: BestPath | MostProbablePath
        self._posterior: PathPosterior | None = None  # under Eq. 1 there is none
        if self._by_posterior:
            begun = turn_calls > 0 and not last_failed
            self._posterior = PathPosterior(
                config, self.tree, self._frontier, done_at_start=OWN_DONE if begun else DONE_AT_START
            )
            self._policy = policy or PosteriorPolicy(self._posterior, config)
            self._best = MostProbablePath(config, self._posterior)
        else:
            self._policy = policy or UCTPolicy(config)
            self._best = BestPath(config)
        self._announced_best: int | None = None
        self._cache = CallCache(self.tree)
        self._events: list[Event] = []
        self._planned = not config.coarse_planner
        self._exceeded: StopReason | None = None
        self._active: dict[int, Rollout] = {}
        self._started = 0
        self._without_call = 0
        self._failures = Counter[str]()
        self._has_news = False  # whether something was told of which the posterior has still to take notice
        self._answered = False  # whether the agent has given an answer in some state
        self._most_calls: int | None = None  # so many, once it is known with how many the agent would have ended

    def warm_start(self, start: WarmStart) -> None:
        """Begin with what an earlier search has left, before anything is asked.

        A tree that holds a solution already ends the search at once.
        """
        self.anew = start.anew
        for call, observation in start.known:
            self._cache.learn("", call, observation)
        if not start.nodes:
            return
        root = start.nodes[ROOT]
        is_done = self.config.goal_score and (root.goal or 0.0) >= self.config.goal_threshold
        if start.carried_out and is_done and root.answer is None:
            self._stop("solved")
            return
        self.tree.adopt(start.nodes)
        self.inherited = len(start.nodes) - 1
        for node in start.nodes:
            if node.call and node.observation:
                self._cache.learn(self.tree.state_before(node).world, node.call, node.observation)
            if (self._by_posterior or node.r_post is not None) and self._best.consider(self.tree, node):
                self._stop("solved")

    # --- ask ---

    def ask(self) -> list[Operation]:
        """The operations to launch now, in order; no operation means to wait, or the end if none is outstanding."""
        operations: list[Operation] = []
        if self._has_news and self._by_posterior and self.stop_reason is None:
            self._has_news = False
            self._review(self.tree.root)
        if self._exceeded:
            self._stop(self._exceeded)
        while self.stop_reason is None:
            if self._scheduler.ready:
                launched = self._scheduler.launch()
                if launched is None:
                    break
                if isinstance(launched, str):
                    self._stop(launched)
                else:
                    operations.append(launched)
            elif len(self._active) >= self.config.parallel_rollouts or not self._start_rollout():
                break
        return operations

    @property
    def rollouts(self) -> int:
        """Rollouts started; those of the posterior policy that ended without trying a call are not counted."""
        return self._started - self._without_call

    @property
    def launched(self) -> int:
        """Operations returned by `ask` so far."""
        return self._scheduler.launched

    @property
    def consumed(self) -> int:
        """Outcomes given to `tell` so far."""
        return self._scheduler.consumed

    @property
    def cache_hits(self) -> int:
        """Calls whose observation was reused instead of running them again."""
        return self._cache.hits

    @property
    def finished(self) -> bool:
        """Whether nothing is outstanding and nothing more will be launched."""
        return self.stop_reason is not None and not self._scheduler.outstanding

    def best(self) -> Node | None:
        """The end of the best path, `None` if no call is accepted."""
        return self._best.find(self.tree)

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        taken, self._events = self._events, []
        return taken

    def _start_rollout(self) -> bool:
        """Begin a rollout; False if none can begin now."""
        if not self._planned:
            if self._scheduler.outstanding:
                return False
            self._scheduler.put("plan", Rollout(-1, self.tree.root))
            return True
        if self.rollouts >= self.config.max_rollouts:
            return self._idle("max_rollouts")
        if self._most_calls is not None and self.budget.spent.model_calls + len(self._active) >= self._most_calls:
            return self._idle("converged")
        work = self._policy.select(self.tree, self._frontier)
        if work is None:
            return self._idle("exhausted")
        self.tree.occupy(work.node, 1)
        rollout = Rollout(self._started, work.node)
        self._started += 1
        self._active[rollout.id] = rollout
        self._record("select", rollout, work.node)
        self._do(work, rollout)
        return True

    def _idle(self, reason: StopReason) -> Literal[False]:
        """Nothing can begin; with nothing in flight either, the search is over."""
        if not self._active:
            self._stop(reason)
        return False

    def _do(self, work: Work, rollout: Rollout) -> None:
        match work.kind:
            case "propose":
                self._propose(rollout)
            case "execute":
                self._execute(rollout)
            case "evaluate":
                self._evaluate(rollout)

    def _propose(self, rollout: Rollout, run: tuple[int, ...] = ()) -> None:
        """Ask the rollout's state, after running the calls that lead there if they have not run yet."""
        node = rollout.node
        node.proposing = True
        self.tree.changed.add(node.id)
        attempt = node.proposals + 1
        own_step = self.config.proposals == "own_step" and attempt == 1
        self._scheduler.put(
            "propose",
            rollout,
            attempt=attempt,
            own_step=own_step,
            run=run,
            missing=node.missing,
            tools=self.shown_tools,
        )

    # --- tell ---

    def tell(self, outcome: OperationOutcome) -> None:
        """Take in the outcome of the oldest outstanding operation; that of another one raises `ResumeError`."""
        operation, rollout = self._scheduler.consume(outcome)
        self._exceeded = self.budget.exceeded()
        spent = self.budget.spent
        self._events.append(
            BudgetEvent(
                type="budget",
                rollouts=self.rollouts,
                model_calls=spent.model_calls,
                tool_calls=spent.tool_calls,
                tokens=spent.tokens,
            )
        )
        node = self.tree.nodes[operation.node]
        cost = (outcome.spent.model_calls, outcome.spent.tokens)
        change = self.tree.begin_change(operation.rollout, operation.kind, node, self._announced_best, cost)
        change.asked = outcome.asked
        self.tree.keep_words(outcome.words)
        match operation.kind:
            case "plan":
                self._planned = True
                self.kept_tools = outcome.tools or None
            case "propose":
                self._ran(operation, outcome)
                self._proposed(rollout, operation, outcome)
            case "score":
                self._scored(rollout, operation, outcome)
            case "execute":
                self._ran(operation, outcome)
                self._observed(rollout)
            case "evaluate":
                self._evaluated(rollout, node, outcome)
        change.nodes = len(self.tree)
        if outcome.cancelled:
            self._stop("cancelled")

    def _proposed(self, rollout: Rollout, operation: Operation, outcome: OperationOutcome) -> None:
        node = self.tree.nodes[operation.node]
        node.proposing = False
        self.shown_tools = tuple(dict.fromkeys((*self.shown_tools, *outcome.tools)))
        dropped = list(outcome.dropped)
        self._count_failure("proposer_failed", "propose", outcome.error)
        if outcome.error is None:
            node.proposals += 1
            node.answer = outcome.answer or node.answer
            self._answered = self._answered or outcome.answer is not None
            node.finished = outcome.finished and outcome.answer is None
        else:
            dropped.append(outcome.error)
        if self._fused or operation.own_step:  # other scores are a separate judge's
            self._take_scores(node, outcome)
        confidences = outcome.confidences or (None,) * len(outcome.actions)
        candidates: list[Node] = []
        for action, confidence in zip(outcome.actions, confidences, strict=True):
            if operation.own_step and self._fused and confidence is None:
                head, repeated = self._add(node, action, self.config.pre_threshold, scored=False)
            else:
                head, repeated = self._add(node, action, confidence if self._fused else None)
            dropped.extend(repeated)
            if head:
                candidates.append(head)
        node.dropped.extend(dropped)
        self.tree.changed.add(node.id)
        if self._posterior is not None and outcome.prior is not None:
            own_step = operation.own_step and outcome.answer is None
            self._weigh(self._posterior, node, candidates, outcome.prior, own_step=own_step)
        self._record("propose", rollout, node, calls=[each.label for each in candidates], dropped=dropped)
        unscored = [head for head in candidates if head.r_pre is None]
        if unscored:
            waiting = tuple(each.id for each in unscored)
            self._scheduler.put("score", rollout, candidates=waiting, tools=self.shown_tools)
            return
        # A separate judge is asked whether a state without further calls is the end, unless the agent says so itself.
        self._has_news = self._has_news or self._fused or node.answer is not None
        self._end(rollout)

    def _add(
        self, state: Node, action: Sequence[Call], r_pre: float | None, *, scored: bool = True
    ) -> tuple[Node | None, list[str]]:
        """Add an action, a call or the calls of one reply, below a state, without what would only repeat something.

        Returns the node of its first call, and what was left out, each with the reason.
        """
        end, added, repeated = state, list[Node](), list[str]()
        merging = self._by_posterior  # the values of Eq. 1 are those of a tree
        for call in map(self.tree.as_known, action):
            if problem := self.tree.repetition(end, call, merging=merging):
                repeated.append(f"{call.label}: {problem}")
                continue
            end = self.tree.add(end, call, batched=bool(added))
            added.append(end)
            end.r_pre, end.pre_scored = r_pre, scored
        return (added[0] if added else None), repeated

    def _weigh(
        self, posterior: PathPosterior, state: Node, candidates: Sequence[Node], prior: Prior, *, own_step: bool
    ) -> None:
        """Take in what past runs say of a state and of the calls offered there.

        Where they agree with the agent's own step, and that leaves no doubt, a separate judge is not asked about it.
        """
        state.prior = prior
        for head in candidates:
            reply = self.tree.batch(head)
            action = {each.call.tool: each.call.effect != "read" for each in reply if each.call}
            head.odds = prior.ratio(action, own_step=own_step)
            self.tree.changed.add(head.id)
            if self._fused or not own_step or self.config.post_evaluation == "always" or not prior.agrees(action):
                continue
            if (chance := posterior.chance(head)) >= SURE:
                for node in reply:
                    node.confirmed, node.r_pre, node.pre_scored = True, chance, False
                self._has_news = True

    def _take_scores(self, node: Node, outcome: OperationOutcome) -> None:
        """What a reply, or a judge, has said of the latest call and of the request as a whole."""
        node.missing = outcome.missing or node.missing
        if outcome.goal is not None:
            node.goal, node.goal_scored = outcome.goal, True
        if outcome.reward is not None and node.call and not node.evaluated:
            node.r_post = outcome.reward
            self.tree.backpropagate(node, outcome.reward)
        self.tree.changed.add(node.id)

    def _scored(self, rollout: Rollout, operation: Operation, outcome: OperationOutcome) -> None:
        """Pre-evaluation: prune what scores below the threshold or is not among the top K, then work on."""
        threshold = self.config.pre_threshold
        candidates = [self.tree.nodes[candidate] for candidate in operation.candidates]
        nothing_scored = all(score is None for score in outcome.scores)
        self._count_failure("judge_failed", "score", (outcome.error or "no score") if nothing_scored else None)
        reasons = outcome.reasons or ("",) * len(candidates)
        for candidate, score, reason in zip(candidates, outcome.scores, reasons, strict=True):
            candidate.pre_reason = reason
            candidate.pre_scored = score is not None
            candidate.r_pre = threshold if score is None else score
            for member in self.tree.batch(candidate)[1:]:
                member.r_pre, member.pre_scored = candidate.r_pre, candidate.pre_scored
                member.pre_reason = reason
                self.tree.changed.add(member.id)
            facts = {"r_pre": candidate.r_pre, "scored": candidate.pre_scored}
            self._record("judge", rollout, candidate, call=candidate.label, **facts)
        self.tree.changed.update(operation.candidates)
        if self._by_posterior:  # which weighs a low score, and prunes nothing for it
            self._go_on(rollout, self.tree.best_first(candidates))
            return
        ranked = self.tree.best_first([candidate for candidate in candidates if (candidate.r_pre or 0.0) >= threshold])
        kept = ranked[: self.config.top_k]
        for candidate in candidates:
            if candidate not in ranked:
                self._prune(rollout, candidate, "pre_evaluation")
            elif candidate not in kept:
                self._prune(rollout, candidate, "top_k")
        self._go_on(rollout, kept)

    def _go_on(self, rollout: Rollout, kept: Sequence[Node]) -> None:
        """Work on after candidates were scored, or end the rollout."""
        work = self._policy.after_scoring(self.tree, self._frontier, kept)
        if work is None:
            self._end(rollout)
            return
        self._move(rollout, work.node)
        self._do(work, rollout)

    def _execute(self, rollout: Rollout) -> None:
        """Run the rollout's call, and those made in the same reply, unless they are known, deferred, or being run.

        Where scores come with the next question, that is asked in the same operation.
        """
        rollout.tried_call = True
        batch = self.tree.batch(rollout.node)
        if len(batch) > 1:
            self._move(rollout, batch[-1])
        self._run(rollout, batch)

    def _run(self, rollout: Rollout, batch: Sequence[Node]) -> None:
        """Run those of a rollout's calls that have no result yet, once nobody else runs one of them."""
        left: list[Node] = []
        for node in batch:
            if node.deferred or node.observation is not None:
                continue
            # After a write that is still to be run nobody knows what the world is like.
            unsettled = any(earlier.call and earlier.call.effect != "read" for earlier in left)
            if not unsettled and (observation := self._cache.find(node)):
                self._observe(node, observation, rollout, cached=True)
            else:
                left.append(node)
        if left and not self._cache.join(rollout, left):
            return  # another rollout runs the same call
        run = tuple(node.id for node in left)
        if self._fused and not batch[-1].deferred and not self._frontier.is_deepest(batch[-1]):
            self._propose(rollout, run)
        elif run:
            self._scheduler.put("execute", rollout, run=run)
        else:
            self._observed(rollout)

    def _ran(self, operation: Operation, outcome: OperationOutcome) -> None:
        """Take in what the calls of an operation have brought back, also for rollouts that waited for the same call."""
        lost = Observation(content=outcome.error or "No result.", kind="exception")
        for position, node_id in enumerate(operation.run):
            node = self.tree.nodes[node_id]
            observation = outcome.observations[position] if position < len(outcome.observations) else lost
            rollout = self._active[operation.rollout]
            self._observe(node, observation, rollout, cached=False)
            for waiting, same in self._cache.finish(node, observation):
                self._observe(same, observation, waiting, cached=True)
                self._run(waiting, self.tree.reply_of(same))

    def _observe(self, node: Node, observation: Observation, rollout: Rollout, *, cached: bool) -> None:
        node.observation = observation
        self.tree.note("ran", node)
        parent = self.tree.state_before(node)
        if observation.unchanged:
            self.tree.enter_world(node, parent.world)
        if observation.wrote:
            self.tree.turn_into_write(node)
        self.tree.changed.update(each.id for each in self.tree.batch(node))  # known results after it count from now on
        # After a write that failed for a passing reason the state of its world is unknown: nothing is built upon it.
        node.closed = node.closed or (node.world != parent.world and observation.transient)
        self._record("execute", rollout, node, call=node.label, status=observation.kind, cached=cached)
        if observation.wrote and not cached:
            self._record("wrote", rollout, node, call=node.label, tool=node.call.tool if node.call else "")
        if observation.lost and not cached:
            self._record("lost", rollout, node, call=node.label, reason=observation.lost)

    def _observed(self, rollout: Rollout) -> None:
        """Go on after the calls of a rollout have run: judge what they brought back, or leave that for later."""
        if not self._fused and self._policy.judges_at_once(self._frontier, rollout.node):
            self._evaluate(rollout)
            return
        self._has_news = True
        self._end(rollout)

    def _move(self, rollout: Rollout, node: Node) -> None:
        """Let a rollout work at another node."""
        self.tree.occupy(rollout.node, -1)
        self.tree.occupy(node, 1)
        rollout.node = node

    def _evaluate(self, rollout: Rollout) -> None:
        rollout.node.evaluating = True
        self._scheduler.put("evaluate", rollout, tools=self.shown_tools)

    def _evaluated(self, rollout: Rollout, node: Node, outcome: OperationOutcome) -> None:
        """Post-evaluation: set r_post and goal, back-propagate, prune, and see whether a path is good enough."""
        if node.answer is not None:
            self._checked(rollout, node, outcome)
            return
        parent = self.tree.state_before(node)
        reward = outcome.reward
        self._count_failure("judge_failed", "evaluate", (outcome.error or "no score") if reward is None else None)
        node.evaluating = False
        node.post_scored = reward is not None
        if reward is None:  # unscored is never 0
            reward = parent.value if parent.visits else self.config.post_threshold
        node.r_post = reward
        node.post_reason = " ".join(outcome.reasons)
        if self.config.goal_score:
            inherited = NEUTRAL_GOAL if parent.goal is None else parent.goal
            # A deferred write ends its path, whatever has to follow: the right one to make next is all that is wanted.
            goal = outcome.reward if node.deferred and not self._by_posterior else outcome.goal
            node.goal = inherited if goal is None else goal
            node.goal_scored = goal is not None
        self.tree.backpropagate(node, reward)
        node.closed = node.closed or node.deferred or node.depth >= self.config.max_depth
        facts = {"r_post": reward, "goal": node.goal, "scored": node.post_scored}
        self._record("evaluate", rollout, node, call=node.label, **facts)
        if not self._by_posterior and node.post_scored and reward < self.config.post_threshold:
            self._prune(rollout, node, "post_evaluation")
            node.closed = True
        self._review(node)
        self._end(rollout)

    def _checked(self, rollout: Rollout, node: Node, outcome: OperationOutcome) -> None:
        """The check of an answer: whether all is done, and what is missing."""
        node.evaluating = False
        self._count_failure(
            "judge_failed", "evaluate", (outcome.error or "no answer") if outcome.goal is None else None
        )
        self._take_scores(node, outcome)
        if outcome.goal is None:
            node.goal, node.goal_scored = NEUTRAL_GOAL, False
        self._has_news = True
        self._end(rollout)

    def _review(self, node: Node) -> None:
        """Take in what is new at a node: announce another best path, and stop if it is good enough."""
        solved = self._best.consider(self.tree, node)
        best = self._best.find(self.tree)
        if best and best.id != self._announced_best:
            self._announced_best = best.id
            calls = [step.label for step in self.tree.path(best)]
            self._events.append(BestEvent(type="best", node=best.id, value=self._best.value or 0.0, calls=calls))
        if solved:
            self._stop("solved")
        ended = self._answered or (best is not None and best.deferred)
        if ended and self._most_calls is None and self.config.extra_calls is not None:
            self._most_calls = self.budget.spent.model_calls + self.config.extra_calls

    def _prune(self, rollout: Rollout, node: Node, reason: Pruned) -> None:
        node.pruned = reason
        self.tree.note("pruned", node)
        self._record("prune", rollout, node, call=node.label, reason=reason)

    def _end(self, rollout: Rollout) -> None:
        """Take a rollout out of the tree and see whether the search is over."""
        self.tree.occupy(rollout.node, -1)
        self._frontier.close_upwards(rollout.node)
        if rollout.held_model_calls:  # for a question to the judge that is not asked any more
            self._scheduler.release(rollout)
        self._without_call += self._by_posterior and not rollout.tried_call
        del self._active[rollout.id]
        if isinstance(self._best, BestPath) and self._best.converged():
            self._stop("converged")

    def _count_failure(
        self, reason: Literal["proposer_failed", "judge_failed"], kind: OperationKind, problem: str | None
    ) -> None:
        """Note a failed question; so many of one kind in a row end the search, and one for calls beside an answer."""
        self._failures[kind] = self._failures[kind] + 1 if problem else 0
        if problem and problem not in self.problems:
            self.problems.append(problem)
        if self._failures[kind] >= (1 if self._answered and kind == "propose" else FAILURES_TO_GIVE_UP):
            self._stop(reason)

    def _stop(self, reason: StopReason) -> None:
        """End the search; the first reason stays."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._events.append(StopEvent(type="stop", reason=reason, rollouts=self.rollouts))

    def _record(self, kind: str, rollout: Rollout, node: Node, **facts: Any) -> None:
        """Add an event of a rollout at a node; `facts` are the other fields that `events.py` declares for its kind."""
        self._events.append(cast("Event", {"type": kind, "node": node.id, "rollout": rollout.id, **facts}))
