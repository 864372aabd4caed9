"""Which operation is launched next, what each may spend, and which calls need not run again. Pure.

Operations are launched first come, first served, and consumed in the order of launch. A launch reserves the most model
and tool calls it may use. One that too little is left for waits for refunds while others pass it; if none can come, the
budget is spent.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from langchain_tooltree.errors import ResumeError
from langchain_tooltree.text import counts_added
from langchain_tooltree.tooltree.search.config import Estimate, SearchConfig
from langchain_tooltree.tooltree.search.prior import Prior
from langchain_tooltree.tooltree.search.tree import Call, Node, Observation, Tree

OperationKind = Literal["plan", "propose", "score", "execute", "evaluate"]

SpentBudget = Literal["max_model_calls", "max_tool_calls"]

PLAN_CALLS = 2
"""Model calls that narrowing the tools may need: the question, and one repetition."""

FRUITLESS = 2
"""How many times in a row asking for extra candidates may bring none before it is given up: what it costs to find out
that a model makes one call because it has one idea only."""


class Spent(BaseModel):
    """What one operation, or a whole search, used."""

    model_config = ConfigDict(frozen=True)

    model_calls: int = 0  # requests to models
    tool_calls: int = 0  # tools run for the first time
    replayed: int = 0  # tools run again to rebuild a fork of the sandbox
    calls: dict[str, int] = {}  # the requests to models by what was asked
    usage: dict[str, Any] = {}  # tokens as the models reported them: `input_tokens`, `output_tokens`, details
    seconds: float = 0.0  # wall-clock time

    @property
    def tokens(self) -> int:
        """Tokens sent and received."""
        sent_and_received: int = self.usage.get("input_tokens", 0) + self.usage.get("output_tokens", 0)
        return sent_and_received

    def __add__(self, other: "Spent") -> "Spent":
        counts = counts_added(dict(self), dict(other))
        return Spent(**{**counts, "seconds": self.seconds + other.seconds})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One piece of I/O of a rollout.

    `plan` narrows the tools, `propose` asks a state for calls, `score` is the pre-evaluation of candidates, `execute`
    runs calls, `evaluate` is the post-evaluation of an observation, or the check of an answer.
    """

    id: int  # launch number, from 0; outcomes are consumed in this order
    kind: OperationKind
    node: int  # the state to ask, or the call to run or judge
    rollout: int  # number of the rollout this belongs to, from 0
    attempt: int = 1  # for `propose`: how often this state is now asked, from 1
    own_step: bool = False  # for `propose`: whether the question is the plain agent's own
    run: tuple[int, ...] = ()  # for `execute` and `propose`: the nodes whose calls are run first, in this order
    missing: tuple[str, ...] = ()  # for `propose`: what of the request is not done yet, in words
    tools: tuple[str, ...] = ()  # the tools that a model has been shown before, in order, where that is not all
    extra_candidates: int = 0  # for `propose`: how often the model may be asked for other calls if it replies with one
    candidates: tuple[int, ...] = ()  # for `score`: the nodes to score, in the order of creation
    model_calls: int = 0  # model calls that may be used at the most
    elapsed: float = 0.0  # seconds the search had taken at the launch


class OperationOutcome(BaseModel):
    """What came of an operation; plain data, so that a checkpointer can keep it."""

    model_config = ConfigDict(frozen=True)

    operation: int  # launch number of the operation
    kind: OperationKind
    node: int
    tools: tuple[str, ...] = ()  # `plan`: the names kept; `propose`: of tools shown for the first time, to stay shown
    actions: tuple[tuple[Call, ...], ...] = ()  # `propose`: best first; each a call, or the calls of one reply
    confidences: tuple[float | None, ...] = ()  # `propose`: r_pre of each action that the reply scored; may be empty
    dropped: tuple[str, ...] = ()  # `propose`: calls that could not be repaired, each with its reason
    finished: bool = False  # `propose`: the model answered without proposing any call
    several: bool = False  # `propose`: some reply held more than one call
    gained: int | None = None  # `propose`: extra candidates found; `None` if none were asked for
    scores: tuple[float | None, ...] = ()  # `score`: one in [0, 1] for each candidate, `None` where the judge gave none
    reasons: tuple[str, ...] = ()  # `score`, `evaluate`: why, for each score; empty if nobody said
    observations: tuple[Observation, ...] = ()  # `execute`, `propose`: what each of the calls to run brought back
    reward: float | None = None  # `evaluate`, `propose`: r_post in [0, 1], `None` if there is none
    goal: float | None = None  # `evaluate`, `propose`: whether the task is done, in [0, 1], `None` if nobody said
    missing: tuple[str, ...] = ()  # `evaluate`, `propose`: what of the request is not done yet, in words
    answer: dict[str, Any] | None = None  # `propose`: the agent's reply without calls, as plain data
    prior: Prior | None = None  # `propose`: how past runs went on from the state, if anybody knows
    remedy: str = ""  # `propose`: the way out of trouble that was asked for there, if it was
    asked: list[list[str]] = []  # the questions to models, each as paragraphs, by their digests
    words: dict[str, str] = {}  # those paragraphs by digest, as far as no outcome told before had them
    error: str | None = None  # why the operation failed, if it did
    cancelled: bool = False  # whether the caller had asked by then to stop
    spent: Spent = Spent()
    elapsed: float = 0.0  # seconds the search had taken when it ended


@dataclass(slots=True)
class Rollout:
    """A rollout in flight."""

    id: int  # its number, from 0
    node: Node  # where it works now
    tried_call: bool = False  # whether it has run a call, or had a deferred one judged
    held_model_calls: int = 0  # reserved since the execution of its call, so that what was run can also be judged


@dataclass(slots=True)
class Budget:
    """What is spent and what is promised to calls in flight.

    Calls are counted exactly and never overshot: a launch reserves the most it may use, and what it did not use comes
    back when its outcome is consumed, in launch order, so that the same answers always leave the same budget. Tokens
    and seconds are known only afterwards, so they may be overshot by the calls in flight.
    """

    config: SearchConfig
    limits: Estimate
    spent: Spent = field(default_factory=Spent)
    reserved_model_calls: int = 0
    reserved_tool_calls: int = 0
    elapsed: float = 0.0

    @property
    def free_model_calls(self) -> int:
        """Model calls that are neither spent nor promised."""
        return self.limits.model_calls - self.spent.model_calls - self.reserved_model_calls

    @property
    def free_tool_calls(self) -> int:
        """Tool calls that are neither spent nor promised."""
        return self.limits.tool_calls - self.spent.tool_calls - self.reserved_tool_calls

    def reserve(self, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        """Promise calls to a launch."""
        self.reserved_model_calls += model_calls
        self.reserved_tool_calls += tool_calls

    def settle(self, spent: Spent, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        """Take back the promise of so many calls and book what was really used."""
        self.reserve(model_calls=-model_calls, tool_calls=-tool_calls)
        self.spent += spent

    def exceeded(self) -> Literal["max_tokens", "max_seconds"] | None:
        """The limit on tokens or seconds that is reached, if one is."""
        if self.config.max_tokens is not None and self.spent.tokens >= self.config.max_tokens:
            return "max_tokens"
        if self.config.max_seconds is not None and self.elapsed >= self.config.max_seconds:
            return "max_seconds"
        return None


@dataclass(slots=True)
class ExtraCandidates:
    """How often a proposal that came back with one call may be asked for others.

    The very first proposal is extended at once: all of the search depends on the root's candidates. A model that ever
    made several calls in one reply means it when it makes one, and is never asked for more. A draft for each tool is
    one call by design.
    """

    config: SearchConfig
    _several: bool = False
    _fruitless: int = 0

    @property
    def wanted(self) -> int:
        """Questions that the next proposal may spend on it."""
        pointless = self._several or self._fruitless >= FRUITLESS or self.config.proposals == "per_tool"
        return 0 if pointless else self.config.top_k - 1

    def watch(self, outcome: OperationOutcome) -> None:
        """Learn from what came of an operation, taken in the order of launch."""
        self._several = self._several or outcome.several
        if outcome.gained is not None:
            self._fruitless = 0 if outcome.gained else self._fruitless + 1


class Scheduler:
    """Operations that wait to be launched, and those launched and not yet consumed, each with its rollout.

    A proposal may need `proposer_calls` model calls, a question to the judge `judge_calls`.
    """

    def __init__(self, budget: Budget, *, proposer_calls: int, judge_calls: int) -> None:
        self.ready: list[tuple[Operation, Rollout]] = []
        self.outstanding: deque[tuple[Operation, Rollout]] = deque()  # oldest first
        self.launched = 0
        self.consumed = 0
        self._budget = budget
        self._proposer_calls = proposer_calls
        self._judge_calls = judge_calls
        self._single = budget.config.pre_evaluation == "single"
        self._fused = budget.config.pre_evaluation == "fused"
        self._extra = ExtraCandidates(budget.config)

    def put(self, kind: OperationKind, rollout: Rollout, **details: Any) -> None:
        """Add the next operation of a rollout; `details` are other fields of it."""
        operation = Operation(id=-1, kind=kind, node=rollout.node.id, rollout=rollout.id, **details)
        self.ready.append((operation, rollout))

    def launch(self) -> Operation | SpentBudget | None:
        """Launch the operation that has waited longest among those that the budget allows; `None` to wait for refunds.

        If nothing waiting can be paid and nothing can come back, it is the budget that is spent.
        """
        lacking: SpentBudget = "max_model_calls"
        for position, (waiting, rollout) in enumerate(self.ready):
            extra = self._affordable_extra(waiting)
            granted = self._reserve(waiting, rollout, extra)
            if isinstance(granted, str):
                lacking = granted
                continue
            del self.ready[position]
            number, elapsed = self.launched, self._budget.elapsed
            operation = replace(waiting, id=number, extra_candidates=extra, model_calls=granted, elapsed=elapsed)
            self.outstanding.append((operation, rollout))
            self.launched += 1
            return operation
        return None if self.outstanding else lacking

    def _affordable_extra(self, operation: Operation) -> int:
        """Extra candidates must not use up what scoring the candidates and judging a call would need."""
        if operation.kind != "propose" or self._fused:
            return 0
        questions = (self._budget.config.top_k if self._single else 1) + 1
        spare = self._budget.free_model_calls - self._proposer_calls - questions * self._judge_calls
        return max(min(self._extra.wanted, spare), 0)

    def _reserve(self, operation: Operation, rollout: Rollout, extra: int) -> int | SpentBudget:
        """Reserve the model calls that an operation may make, or name the budget that does not allow it now."""
        held = rollout.held_model_calls if operation.kind == "evaluate" else 0
        wanted = self._wanted(operation, extra)
        granted = min(wanted, self._budget.free_model_calls + held)
        if wanted and granted < 1:
            return "max_model_calls"
        if self._budget.free_tool_calls < len(operation.run):
            return "max_tool_calls"
        self._budget.reserve(tool_calls=len(operation.run))
        if operation.kind == "execute":
            self._budget.reserve(model_calls=granted)
            rollout.held_model_calls = granted
            return 0
        self._budget.reserve(model_calls=granted - held)
        rollout.held_model_calls -= held
        return granted

    def _wanted(self, operation: Operation, extra: int) -> int:
        match operation.kind:
            case "plan":
                return PLAN_CALLS
            case "propose":
                return self._proposer_calls + extra
            case "score":
                return self._judge_calls * (len(operation.candidates) if self._single else 1)
            case "execute":
                return 0 if self._fused else min(self._judge_calls, 1)
            case "evaluate":
                return self._judge_calls

    def consume(self, outcome: OperationOutcome) -> tuple[Operation, Rollout]:
        """Book what the oldest outstanding operation used; an outcome of another one raises `ResumeError`."""
        expected = self.outstanding[0][0] if self.outstanding else None
        given = (outcome.operation, outcome.kind, outcome.node)
        if expected is None or given != (expected.id, expected.kind, expected.node):
            wanted = f"operation {expected.id} ({expected.kind} at node {expected.node})" if expected else "nothing"
            msg = (
                f"The search waits for {wanted}, but was given the outcome of operation {outcome.operation} "
                f"({outcome.kind} at node {outcome.node}). Resume a thread with the tools, models and configuration it "
                "was started with, or start a new run."
            )
            raise ResumeError(msg)
        operation, rollout = self.outstanding.popleft()
        self.consumed += 1
        self._budget.settle(outcome.spent, model_calls=operation.model_calls, tool_calls=len(operation.run))
        self._budget.elapsed = max(self._budget.elapsed, outcome.elapsed)
        self._extra.watch(outcome)
        return operation, rollout

    def release(self, rollout: Rollout) -> None:
        """Give back what a rollout that ends had reserved for later."""
        self._budget.reserve(model_calls=-rollout.held_model_calls)
        rollout.held_model_calls = 0


class CallCache:
    """Observations by world, tool and canonical arguments, with one run in flight for all that need the same call."""

    def __init__(self, tree: Tree) -> None:
        self.hits = 0  # calls whose observation was reused instead of running them again
        self._tree = tree
        self._known: dict[tuple[str, str], Observation] = {}
        self._running: dict[tuple[str, str], list[tuple[Rollout, Node]]] = {}
        self._keys: dict[int, tuple[str, str]] = {}
        """Of the calls that are being run: what a write makes of the world may change the keys of those after it."""

    def find(self, node: Node) -> Observation | None:
        """The observation of a node's call, if it is known."""
        known = self._known.get(self._key(node))
        self.hits += known is not None
        return known

    def join(self, rollout: Rollout, nodes: Sequence[Node]) -> bool:
        """Let a rollout run calls, or wait for the first of them that another one runs; whether it has to run them."""
        keys = {node.id: self._key(node) for node in nodes}
        for node in nodes:
            if (waiting := self._running.get(keys[node.id])) is not None:
                waiting.append((rollout, node))
                self.hits += 1
                return False
        self._running.update((key, []) for key in keys.values())
        self._keys.update(keys)
        return True

    def finish(self, node: Node, observation: Observation) -> list[tuple[Rollout, Node]]:
        """Take in what a call brought back; returns the rollouts that waited for it, each with its node of the call."""
        if node.call:
            self.learn(self._key(node)[0], node.call, observation)
        return self._running.pop(self._keys.pop(node.id), [])

    def learn(self, world: str, call: Call, observation: Observation) -> None:
        """Keep what a call brought back in a world, unless it failed for a passing reason."""
        if not (observation.transient or call.of_path):
            self._known[world, call.key] = observation

    def _key(self, node: Node) -> tuple[str, str]:
        """World before the call, tool and canonical arguments; of a call of its path, the node as well."""
        if node.call and node.call.of_path:
            return f"{self._tree.state_before(node).world} {node.id}", node.call.key
        return self._tree.state_before(node).world, node.call.key if node.call else ""
