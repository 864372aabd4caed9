"""A recorded model, asked state by state, and the noisy readers of what it does: every question is one model call."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from statistics import NormalDist
from typing import Any, Literal

from tests.benchmarks.recorded.runs import STOP, State, Step, Turn

MOST_ALTERNATIVES = 4
"""Other steps that a question for alternatives brings at the most."""

MOST_STEPS = 40
"""Steps of a path; recorded runs end at 21."""

ENOUGH = 0.5
"""Score from which a check is content."""

Subject = Literal["own", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """How well steps are told apart.

    Attributes:
        own: AUC of the model's confidence in its own steps.
        judge: AUC of scores of alternatives, of a separate judge and of the check of the finished path.
        correlated: Share of the error that own confidence and judge have in common for the same state and step.
        repeats: How often an alternative is the own step again, in [0, 1].
        realist: Whether alternatives are those of the run's own model only, and all looks normal after a fatal call.
    """

    own: float = 0.8
    judge: float = 0.9
    correlated: float = 0.0
    repeats: float = 0.0
    realist: bool = False


def separation(auc: float) -> float:
    """How many standard deviations apart two normals are that an AUC tells apart."""
    return math.sqrt(2) * NormalDist().inv_cdf(min(auc, 1 - 1e-12))


@dataclass
class RecordedModel:
    """One run's model in one turn; counts what is asked.

    Args:
        turn: The turn.
        run: Whose steps are its own.
        readers: How well steps are told apart.
        seed: Seed of all chance; chance is a hash, whatever the order of questions.

    Attributes:
        calls: Questions so far.
    """

    turn: Turn
    run: str
    readers: Readers
    seed: int = 0
    calls: int = 0
    _asked: Counter[Any] = field(default_factory=Counter)

    @property
    def start(self) -> State:
        """Where the turn begins for the run."""
        return self.turn.starts.get(self.run, self.turn.start)

    def own_step(self, state: State, path: Sequence[tuple[State, Step]]) -> tuple[Step, float]:
        """The model's own step in a state, and its confidence; one question."""
        self.calls += 1
        step = self._own(state, path)
        return step, self._score("own", state, step)

    def _own(self, state: State, path: Sequence[tuple[State, Step]]) -> Step:
        here = [step for at, step in self.turn.ways.get(self.run, ()) if at is state]
        visits = sum(at is state for at, _ in path)
        if here:
            return here[min(visits, len(here) - 1)]
        made = {step for _, step in path}
        tried = {step for at, step in path if at is state}
        others = (step for step in _by_runs(self.turn.ways, state) if step not in tried)
        return next(chain(others, (step for step in _by_runs(self.turn.ways) if step not in made)), STOP)

    def offers(self, state: State, path: Sequence[tuple[State, Step]]) -> list[tuple[Step, float]]:
        """The own step and the alternatives, each with a score of the judge's; one fused question."""
        self.calls += 1
        own = self._own(state, path)
        found = [own, *self._found(state, own)]
        return [(step, self._score("judge", state, step)) for step in found]

    def alternatives(
        self, state: State, path: Sequence[tuple[State, Step]], *, asked: bool
    ) -> list[tuple[Step, float]]:
        """Other steps than the own one, each with a score of the judge's; one question, or with another reply."""
        self.calls += asked
        found = self._found(state, self._own(state, path))
        return [(step, self._score("judge", state, step)) for step in found if step != STOP]

    def others_here(self, state: State) -> list[Step]:
        """What other runs did in a state, most common first, without scores; one question."""
        self.calls += 1
        return _by_runs(self._ways(), state)

    def runs(self) -> list[str]:
        """All runs of the turn, the model's own first."""
        return [self.run, *(run for run in self.turn.ways if run != self.run)]

    @contextmanager
    def as_run(self, run: str) -> Iterator[None]:
        """Answer as another run's model meanwhile."""
        own, self.run = self.run, run
        try:
            yield
        finally:
            self.run = own

    def _found(self, state: State, own: Step) -> list[Step]:
        ways = self._ways()
        new = dict.fromkeys(step for step in (*_by_runs(ways, state), *_by_runs(ways)) if step != own)
        kept = (step for step in new if self._chance("repeat", state, step).random() >= self.readers.repeats)
        return list(islice(kept, MOST_ALTERNATIVES))

    def _ways(self) -> dict[str, list[tuple[State, Step]]]:
        """The runs that alternatives come from: all, or with a realist those of the same model."""
        mine = self.run.partition("/")[0]
        ways = self.turn.ways
        return {run: way for run, way in ways.items() if not self.readers.realist or run.partition("/")[0] == mine}

    def judge(self, state: State, steps: Sequence[Step]) -> list[float]:
        """Scores of steps in a state, in one question."""
        self.calls += 1
        return [self._score("judge", state, step) for step in steps]

    def check(self, state: State) -> float:
        """Whether everything is done, as a score; one question."""
        self.calls += 1
        return self._score("judge", state, STOP)

    def answer(self) -> None:
        """The answer, where a search ends by a stop that was one of several candidates; one question."""
        self.calls += 1

    def score(self, subject: Subject, state: State, step: Step) -> float:
        """A score that comes with another reply: no question of its own."""
        return self._score(subject, state, step)

    def _score(self, subject: Subject, state: State, step: Step) -> float:
        """A score around good and not good: normal in the logit, half of the variance fixed, half fresh."""
        good = self.turn.is_good(state, step)
        if self.readers.realist and not state.good:
            good = True  # after a fatal call everything looks normal
        apart = separation(self.readers.own if subject == "own" else self.readers.judge)
        times = self._asked[subject, state, step]
        self._asked[subject, state, step] += 1
        shared = self._chance("both", state, step).gauss()
        fixed = self._chance(subject, state, step).gauss()
        fixed = math.sqrt(self.readers.correlated) * shared + math.sqrt(1 - self.readers.correlated) * fixed
        fresh = self._chance(subject, state, step, times).gauss()
        logit = (apart / 2 if good else -apart / 2) + (fixed + fresh) / math.sqrt(2)
        return 1 / (1 + math.exp(-logit))

    def _chance(self, what: str, state: State, step: Step, *more: Any) -> random.Random:
        named = (self.seed, self.turn.name, self.run, what, hash_of(state), step, *more)
        return random.Random(repr(named))  # noqa: S311 - no secret depends on it


def hash_of(state: State) -> tuple[Any, ...]:
    """What tells a state from the others of its turn."""
    return (state.digest, state.observed)


def _by_runs(ways: Mapping[str, Sequence[tuple[State, Step]]], state: State | None = None) -> list[Step]:
    """The steps that runs took in a state, those of most runs first; calls of any state if none is named."""
    taken = {
        (run, step) for run, way in ways.items() for at, step in way if (at is state if state is not None else step)
    }
    counted = Counter(step for _, step in taken)
    return sorted(counted, key=lambda step: (-counted[step], step))
