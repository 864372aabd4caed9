"""Our search at the desk: the very `TreeSearch` of the package, its operations answered by the simulated model.

Only the driver is another one: no prompts are written and no tasks are kept, so that thousands of searches are quick.
Outcomes are given in the order of launch, as the package's own drivers do, and on the virtual clock an operation takes
what its calls take.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_tooltree.tooltree.search import (
    Action,
    KernelConfig,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    TreeSearch,
    UCTPolicy,
)
from langchain_tooltree.tooltree.search.tree import Effect
from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import (
    MODEL_MS,
    Desk,
    Evaluate,
    Fused,
    Propose,
    Run,
    Score,
)
from tests.benchmarks.compare.simulation import READ_ONLY, State

UNINFORMED = 0.5
"""What stands in for a score that nobody is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSearchMethod:
    """A configuration of the package's search, played at a desk.

    Args:
        config: The configuration; its budget of model calls is the desk's.
        without: Evaluations that are left out, as in the paper's Table 4: r_pre is then the same for all candidates,
            and r_pre is propagated in place of r_post.
        policy: Makes what chooses where each rollout works; the configured one if left out.
    """

    config: KernelConfig
    without: frozenset[Literal["pre", "post"]] = frozenset()
    policy: Callable[[KernelConfig], UCTPolicy] | None = None

    def __call__(self, desk: Desk) -> TreeSearch:
        """Search until the search ends by itself or the budget is spent."""
        config = replace(self.config, max_model_calls=desk.max_model_calls)
        policy = self.policy(config) if self.policy else None
        search = TreeSearch(
            config, tools=len(desk.simulation.tools), judge_calls=1, policy=policy
        )
        return _Player(desk, search, self.without).play()


class _Player:
    def __init__(self, desk: Desk, search: TreeSearch, without: frozenset[str]) -> None:
        self._desk = desk
        self._search = search
        self._without = without
        self._states: dict[int, State] = {0: desk.start}
        self._now = 0

    def play(self) -> TreeSearch:
        search = self._search
        outstanding: deque[tuple[OperationOutcome, int]] = deque()
        while True:
            outstanding.extend(self._perform(operation) for operation in search.ask())
            if not outstanding:
                break
            outcome, ends = outstanding.popleft()
            self._now = max(self._now, ends)
            search.tell(outcome)
            search.take_events()
            if best := search.best():
                self._desk.keep(self._state(best), after=search.spent.model_calls)
        self._desk.milliseconds[search.config.parallel_rollouts] = self._now + MODEL_MS
        return search

    def _perform(self, operation: Operation) -> tuple[OperationOutcome, int]:
        """Answer an operation; returns its outcome and when it ends."""
        node = self._search.tree[operation.node]
        calls_before, took = self._desk.model_calls, 0
        found: dict[str, Any] = {}
        match operation.kind:
            case "propose" if self._search.config.selection == "posterior":
                found, took = self._fused(operation)
            case "propose":
                calls, took = self._desk.ask(Propose(self._state(node)))
                found["calls"] = [_declared(call) for call in calls]
                found["finished"] = not calls
            case "score":
                found["scores"], took = self._score(node, operation.candidates)
            case "execute":
                state, took = self._desk.ask(
                    Run(self._state(self._search.tree[node.parent or 0]), _plain(node))
                )
                self._states[node.id] = state
                found["observation"] = Observation(state.observation)
            case "evaluate" if "post" in self._without:
                found["reward"] = node.r_pre
            case "evaluate":
                (found["reward"], found["goal"]), took = self._desk.ask(
                    Evaluate(self._state(node))
                )
        model_calls = self._desk.model_calls - calls_before
        return OperationOutcome(
            operation.id, model_calls=model_calls, **found
        ), self._now + took

    def _fused(self, operation: Operation) -> tuple[dict[str, Any], int]:
        """Run the call that leads to a state, then ask for its scores and candidates in one question."""
        found: dict[str, Any] = {}
        node, spent = self._search.tree[operation.node], 0
        if operation.run:
            state, spent = self._desk.ask(
                Run(self._state(self._search.tree.state_before(node)), _plain(node))
            )
            self._states[node.id] = state
            found["observation"] = Observation(state.observation)
        reply, took = self._desk.ask(Fused(self._state(node)))
        found |= {
            "reward": reply.reward,
            "goal": reply.goal,
            "confidences": reply.scores,
        }
        found |= {
            "calls": [_declared(call) for call in reply.calls],
            "finished": not reply.calls,
        }
        return found, spent + took

    def _score(
        self, node: Node, candidates: tuple[int, ...]
    ) -> tuple[list[float], int]:
        if "pre" in self._without:
            return [UNINFORMED] * len(candidates), 0
        calls = [_plain(self._search.tree[candidate]) for candidate in candidates]
        scores, took = self._desk.ask(Score(self._state(node), calls))
        return scores, took

    def _state(self, node: Node) -> State:
        """The state of a node; a call whose observation the search knew has led to the same world."""
        if node.id not in self._states:
            before = self._state(self._search.tree[node.parent or 0])
            self._states[node.id] = self._desk.simulation.run(before, _plain(node))
        return self._states[node.id]


def _declared(call: PlainCall) -> Action:
    """The call of a user who has declared which tools only read, and lets the others run in a sandbox."""
    effect: Effect = "read" if call.tool in READ_ONLY else "sandboxed"
    return Action(tool=call.tool, arguments=dict(call.arguments), effect=effect)


def _plain(node: Node) -> PlainCall:
    assert node.call is not None
    return PlainCall(node.call.tool, node.call.arguments)
