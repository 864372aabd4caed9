"""Where a method works: it asks for calls, scores and runs, and every question is counted, timed and answered alike.

A method is a generator: it yields batches of questions and gets their answers. The questions of a batch do not depend
on each other, so with enough of them in flight a batch takes as long as its longest question. The clock is virtual:
nothing sleeps. What a method would return is noted whenever it says so; success at a budget is that of the plan which
stood when the budget was spent.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.noise import Noise
from tests.benchmarks.compare.simulation import Simulation, State

MODEL_MS = 50
TOOL_MS = 10
IN_FLIGHT = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the model for calls in a state: one model call; the answer is a list of calls, empty if it is done."""

    state: State


@dataclass(frozen=True, slots=True)
class Score:
    """Ask the judge for r_pre of calls in a state: one model call; the answer is a list of scores."""

    state: State
    calls: Sequence[PlainCall]


@dataclass(frozen=True, slots=True)
class Run:
    """Make a call in a fork of a state's world: one tool call the first time; the answer is the new state."""

    state: State
    call: PlainCall


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Ask the judge about the last call of a state: one model call; the answer is (r_post, goal score)."""

    state: State


class FusedReply(NamedTuple):
    """What a fused call brings.

    Attributes:
        reward: r_post of the call that led to the state, `None` at the start.
        goal: Goal score of the state, `None` at the start.
        calls: Calls to make next, best first by the model's lights; none if it takes the request for fulfilled.
        scores: r_pre of each.
    """

    reward: float | None
    goal: float | None
    calls: list[PlainCall]
    scores: list[float]


@dataclass(frozen=True, slots=True)
class Fused:
    """Ask all of `Evaluate`, `Propose` and `Score` in a state at once: one model call; the answer is a `FusedReply`."""

    state: State


Question = Propose | Score | Run | Evaluate | Fused
Method = Callable[["Desk"], Generator[Sequence[Question], list[Any], None]]


class TokenCount(Protocol):
    """Tokens of a question and its answer."""

    def __call__(self, question: Question, answer: Any) -> int:
        """Tokens sent and received."""


class BudgetSpentError(Exception):
    """No model call is left."""


@dataclass
class Desk:
    """One task, one seed, one judge, one budget, for one method.

    Args:
        simulation: World and model.
        noise: The judge.
        max_model_calls: The budget.
        count_tokens: Counts the tokens of a question and its answer.
        fused_noise: The judge of fused calls; the same if left out.

    Attributes:
        model_calls: Model calls made.
        tool_calls: Tools run; what was run before is known.
        tokens: Tokens sent and received.
        kept: What the method would have returned, as pairs of the model calls made by then and the state.
        milliseconds: Virtual time by calls in flight.
    """

    simulation: Simulation
    noise: Noise
    max_model_calls: int
    count_tokens: TokenCount
    fused_noise: Noise | None = None
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    kept: list[tuple[int, State]] = field(default_factory=list)
    milliseconds: Counter[int] = field(default_factory=Counter)
    _asked: Counter[Any] = field(default_factory=Counter)
    _made: set[State] = field(default_factory=set)

    @property
    def start(self) -> State:
        """The state before any call."""
        return self.simulation.start

    def keep(self, state: State, *, after: int | None = None) -> None:
        """Say that the path to this state is what the method would now return.

        Args:
            state: The state.
            after: Model calls whose answers the method has taken in by now; all that it has made if left out.
        """
        if not self.kept or self.kept[-1][1] is not state:
            self.kept.append((self.model_calls if after is None else after, state))

    def plan_at(self, model_calls: int) -> State | None:
        """What the method would have returned after so many model calls."""
        return next(
            (state for calls, state in reversed(self.kept) if calls <= model_calls),
            None,
        )

    def ask(self, question: Question) -> tuple[Any, int]:
        """Answer one question.

        Returns:
            The answer and how many milliseconds it took.

        Raises:
            BudgetSpentError: If it needs a model call and none is left.
        """
        if isinstance(question, Run):
            answer: Any = self.simulation.run(question.state, question.call)
            known = answer in self._made
            self._made.add(answer)
            self.tool_calls += not known
            return answer, 0 if known else TOOL_MS
        if self.model_calls >= self.max_model_calls:
            raise BudgetSpentError
        self.model_calls += 1
        match question:
            case Propose(state):
                answer = self.simulation.propose(state, self._count("propose", state))
            case Score(state, calls):
                answer = self._scored(state, calls, self.noise)
            case Evaluate(state):
                answer = self._evaluated(state, self.noise)
            case Fused(state):
                judge = self.fused_noise or self.noise
                offered = self.simulation.propose(state, self._count("propose", state))
                seen = self._evaluated(state, judge) if state.parent else (None, None)
                answer = FusedReply(*seen, offered, self._scored(state, offered, judge))
        self.tokens += self.count_tokens(question, answer)
        return answer, MODEL_MS

    def work(self, method: Method) -> None:
        """Let a method work until it ends or the budget is spent, the answer to the user included in the time."""
        steps = method(self)
        try:
            batch = next(steps)
            while True:
                answers: list[Any] = []
                spans: list[int] = []
                try:
                    for question in batch:
                        answer, took = self.ask(question)
                        answers.append(answer)
                        spans.append(took)
                finally:
                    self._pass_time(spans)
                batch = steps.send(answers)
        except (StopIteration, BudgetSpentError):
            steps.close()
        self._pass_time([MODEL_MS])

    def _scored(
        self, state: State, calls: Sequence[PlainCall], judge: Noise
    ) -> list[float]:
        score = self.simulation.score
        return [
            score(
                state,
                call,
                self._count("pre", state, call.key),
                stage="pre",
                noise=judge,
            )
            for call in calls
        ]

    def _evaluated(self, state: State, judge: Noise) -> tuple[float, float]:
        before, call = state.parent, state.call
        if before is None or call is None:
            msg = "The start has no call to evaluate."
            raise ValueError(msg)
        ask, score = self._count("post", state), self.simulation.score
        reward = score(before, call, ask, stage="post", noise=judge)
        return reward, score(before, call, ask, stage="goal", noise=judge)

    def _count(self, *what: Any) -> int:
        self._asked[what] += 1
        return self._asked[what]

    def _pass_time(self, spans: Sequence[int]) -> None:
        for in_flight in IN_FLIGHT:
            busy = [0] * in_flight
            for span in spans:
                heapq.heapreplace(busy, busy[0] + span)
            self.milliseconds[in_flight] += max(busy)
