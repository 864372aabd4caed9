"""A recorded model, asked state by state, and the noisy readers of what it does: every question is one model call."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from statistics import NormalDist
from typing import Any, TypeVar

from tests.benchmarks.recorded.runs import STOP, State, Step, Turn

Drawn = TypeVar("Drawn")

MOST_ALTERNATIVES = 4
"""Other steps that a question for alternatives brings at the most."""

MOST_STEPS = 40
"""Steps of a path; recorded runs end at 21."""

ENOUGH = 0.5
"""Score from which a check is content."""

NAMES_RIGHT = 20 / 24
"""How often a careful reader's report names a right call, where one is missing; a wrong alternative else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """How well steps and stops are told apart.

    Attributes:
        judge: AUC of scores of alternatives, of a separate judge, of the check of a finished path and of the report.
        shared: Probability with which an error of the model's own, a call that is not good or a stop while the turn was
            still open, is taken for good: its score is drawn from those of the good ones.
        coin: Whether the calls that a report names are drawn from those of the turn as well, wherever it says "no".
    """

    judge: float = 0.9
    shared: float = 0.0
    coin: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What an answer says of itself: whether something is missing, and perhaps one call that would help."""

    missing: bool
    call: str | None = None


def separation(auc: float) -> float:
    """How many standard deviations apart two normals are that an AUC tells apart."""
    return math.sqrt(2) * NormalDist().inv_cdf(min(auc, 1 - 1e-12))


@dataclass
class RecordedModel:
    """One run's model in one turn; counts what is asked.

    Args:
        turn: The turn.
        run: Whose steps are its own.
        readers: How well steps and stops are told apart.
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

    def own_step(self, state: State, path: Sequence[tuple[State, Step]]) -> Step:
        """The model's own step in a state; one question."""
        self.calls += 1
        return self._own(state, path)

    def _own(self, state: State, path: Sequence[tuple[State, Step]]) -> Step:
        if (state, STOP) in path:  # it has stopped here before, and nothing is new
            return STOP
        here = self._recorded(state)
        visits = sum(at is state for at, _ in path)
        if here:
            return here[min(visits, len(here) - 1)]
        made = {step for _, step in path}
        tried = {step for at, step in path if at is state}
        others = (step for step in _by_runs(self.turn.ways, state) if step not in tried)
        return next(
            chain(
                others, (step for step in _by_runs(self.turn.ways) if step not in made)
            ),
            STOP,
        )

    def _recorded(self, state: State) -> list[Step]:
        way = self.turn.ways.get(self.run, ())
        is_cut_off = (
            bool(way) and way[-1][1] != STOP and self.turn.take(*way[-1])[0] is state
        )
        return [step for at, step in way if at is state] + [STOP] * is_cut_off

    def step_again(self, state: State, named: str | None = None) -> Step:
        """One more own step in a state: drawn at random from those of the other runs there; one question.

        Where no other run was, the model stops again. It makes the call `named` instead if there is one.
        """
        self.calls += 1
        if named is not None:
            return (named,)
        return (
            self._drawn(
                "again",
                state,
                [each for run, each in self._steps_in(state) if run != self.run],
            )
            or STOP
        )

    def _steps_in(self, state: State) -> list[tuple[str, Step]]:
        return [
            (run, step)
            for run, way in self.turn.ways.items()
            for at, step in way
            if at is state
        ]

    def _drawn(self, what: str, state: State, among: Sequence[Drawn]) -> Drawn | None:
        """One of several at random, drawn anew each time."""
        times = self._asked[what, state]
        self._asked[what, state] += 1
        return self._chance(what, state, STOP, times).choice(among) if among else None

    def report(self, state: State) -> Report:
        """What the model's answer in a state says of itself; it comes with the answer, so it is no question.

        A call is named only where the turn needs one that some recorded run made.
        """
        if self._score(state, STOP, own=True) >= ENOUGH:
            return Report(missing=False)
        right = self.turn.needs(state)
        wrong = [key for key in _calls(self.turn.ways, state) if key not in right]
        if self.readers.coin:
            call = self._drawn("name", state, right + wrong)
        elif not right:
            call = None
        elif self._chance("name", state, STOP).random() < NAMES_RIGHT:
            call = right[0]
        else:
            call = self._drawn("name", state, wrong)
        return Report(missing=True, call=call)

    def offers(
        self, state: State, path: Sequence[tuple[State, Step]]
    ) -> list[tuple[Step, float]]:
        """The own step and the alternatives, each with a score of the judge's; one fused question."""
        self.calls += 1
        own = self._own(state, path)
        new = dict.fromkeys(
            step
            for step in (*_by_runs(self.turn.ways, state), *_by_runs(self.turn.ways))
            if step != own
        )
        return [
            (step, self._score(state, step))
            for step in (own, *islice(new, MOST_ALTERNATIVES))
        ]

    def others_here(self, state: State) -> list[Step]:
        """What runs did in a state, most common first, without scores; one question."""
        self.calls += 1
        return _by_runs(self.turn.ways, state)

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

    def judge(self, state: State, steps: Sequence[Step]) -> list[float]:
        """Scores of steps in a state, in one question."""
        self.calls += 1
        return [self._score(state, step) for step in steps]

    def check(self, state: State) -> float:
        """Whether everything is done, as a score; one question."""
        self.calls += 1
        return self._score(state, STOP)

    def answer(self) -> None:
        """The answer, where a search ends by a stop that was one of several candidates; one question."""
        self.calls += 1

    def _score(self, state: State, step: Step, *, own: bool = False) -> float:
        """A score around good and not good: normal in the logit, half of the variance fixed, half fresh.

        Args:
            state: The state.
            step: What is scored there.
            own: Whether the step is the model's own even where its run never was.
        """
        good = self.turn.is_good(state, step)
        if not good and self.readers.shared and (own or step in self._recorded(state)):
            good = self._chance("shared", state, step).random() < self.readers.shared
        apart = separation(self.readers.judge)
        times = self._asked["judge", state, step]
        self._asked["judge", state, step] += 1
        fixed = self._chance("judge", state, step).gauss()
        fresh = self._chance("judge", state, step, times).gauss()
        logit = (apart / 2 if good else -apart / 2) + (fixed + fresh) / math.sqrt(2)
        return 1 / (1 + math.exp(-logit))

    def _chance(self, what: str, state: State, step: Step, *more: Any) -> random.Random:
        named = (self.seed, self.turn.name, self.run, what, hash_of(state), step, *more)
        return random.Random(repr(named))  # noqa: S311 - no secret depends on it


def hash_of(state: State) -> tuple[Any, ...]:
    """What tells a state from the others of its turn."""
    return (state.digest, state.observed)


def _by_runs(
    ways: Mapping[str, Sequence[tuple[State, Step]]], state: State | None = None
) -> list[Step]:
    """The steps that runs took in a state, those of most runs first; calls of any state if none is named."""
    taken = {
        (run, step)
        for run, way in ways.items()
        for at, step in way
        if (at is state if state is not None else step)
    }
    counted = Counter(step for _, step in taken)
    return sorted(counted, key=lambda step: (-counted[step], step))


def _calls(ways: Mapping[str, Sequence[tuple[State, Step]]], state: State) -> list[str]:
    """The calls that runs made in a state, and those of the whole turn after them, most common first."""
    return list(
        dict.fromkeys(
            key for step in (*_by_runs(ways, state), *_by_runs(ways)) for key in step
        )
    )
