"""The package's own policy on recorded proposals, played as a visit of the model node plays it.

The model's own steps run until it answers. The answer brings its report, and `next_move` says what to do with it. A
read that the report names runs without a model call. The own step asked again is one more step of the same model, and
so is each one asked with the note of what is missing in a state in which the model has stopped before. Others are the
reads recorded in the weakest state of the turn, tried one after the other while they fail or come back empty. There
are no forks: what was written stays, so a write after an answer must pass `admits`.
"""

from dataclasses import dataclass, field

from langchain_tooltree.tooltree.report import (
    Move,
    Stop,
    admits,
    is_better,
    is_trouble,
    next_move,
)
from tests.benchmarks.compare.simulation import READ_ONLY
from tests.benchmarks.recorded.model import MOST_ALTERNATIVES, MOST_STEPS, RecordedModel
from tests.benchmarks.recorded.runs import STOP, State, Step

BUDGETS = {"frugal": 2, "balanced": 4, "thorough": 8}
"""Extra model calls of a turn by effort, as `SearchConfig.extra_calls` has them."""

Way = tuple[tuple[State, Step], ...]


"""The steps taken, each with the state that it was taken in."""


@dataclass(frozen=True)
class Loop:
    """The policy in the host's loop.

    Args:
        budget: Extra model calls of a turn.
        named: Whether a report may name a call.
        obeys: Whether an own step that is asked again makes the write that the model's report has just named.
    """

    budget: int
    named: bool = True
    obeys: bool = False

    def __call__(self, model: RecordedModel) -> State:
        """Play the turn; the state in which the answer that is returned was given."""
        return TurnPlay(model, self).play()


@dataclass
class TurnPlay:
    """One turn under the policy: what a visit keeps in its mark."""

    model: RecordedModel
    how: Loop
    used: int = 0
    stops: int = 0
    again: int = 0
    asked: int = 0
    evident: bool = False
    resumed: bool = False
    queue: list[tuple[State, Way, Step]] = field(default_factory=list)
    write: str | None = None
    tried: set[Step] = field(default_factory=set)
    held: tuple[State, Way, bool] | None = None

    def play(self) -> State:
        state, path = self.model.start, Way()
        step = self.model.own_step(state, path)
        while len(path) < MOST_STEPS:
            if step != STOP:
                if not self._admits(step):
                    break
                state, path = self._take(state, path, step)
            else:
                path = (*path, (state, STOP))
                move = self._stop(state, path)
                if move == "accept":
                    break
                if move == "again":
                    self.again += 1
                    step = self._own_step(
                        state, path, self.write if self.how.obeys else None
                    )
                    continue
                if move == "others":
                    self._ask_for_others(path)
                if not self.queue:
                    break
                state, path = self._explore()
            step = self._own_step(state, path)
        return self.held[0] if self.held else state

    def _own_step(self, state: State, path: Way, named: str | None = None) -> Step:
        self.used += self.stops > 0
        if (state, STOP) not in path:
            return self.model.own_step(state, path)
        return self.model.step_again(state, named)

    def _take(self, state: State, path: Way, step: Step) -> tuple[State, Way]:
        self.tried.add(step)
        return self.model.turn.take(state, step)[0], (*path, (state, step))

    def _admits(self, step: Step) -> bool:
        writes = {tool_of(key) for key in step if not is_read(key)}
        is_admitted = admits(
            writes=bool(writes),
            stops=self.stops,
            named=self.write is not None and writes == {tool_of(self.write)},
            evident=self.evident,
            resumed=self.resumed,
        )
        self.resumed = self.resumed or bool(writes)
        return is_admitted

    def _stop(self, state: State, path: Way) -> Move:
        self.stops += 1
        report = self.model.report(state)
        call = report.call if self.how.named else None
        self.write = call if call is not None and not is_read(call) else None
        if call is not None and is_read(call):
            self.queue.insert(0, (state, path, (call,)))
        self.queue = [each for each in self.queue if each[2] not in self.tried]
        self._hold(state, path, missing=report.missing)
        results = [
            (tool_of(key), is_failure(result))
            for at, step in path
            for key, result in zip(step, self.model.turn.take(at, step)[1], strict=True)
        ]
        stop = Stop(
            missing=report.missing,
            has_read=bool(self.queue),
            idle=not results,
            trouble=is_trouble(results),
            used=self.used,
            budget=self.how.budget,
            stops=self.stops,
            again=self.again,
            asked=self.asked,
        )
        self.evident, self.resumed = stop.is_evident, False
        return next_move(stop)

    def _hold(self, state: State, path: Way, *, missing: bool) -> None:
        """Keep the best answer; one that follows a write is the only one that is still true."""
        if self.held is not None:
            _, before, best_missing = self.held
            beyond = [key for _, step in path[len(before) :] for key in step]
            extends = path[: len(before)] == before and bool(beyond)
            wrote = extends and not all(map(is_read, beyond))
            if not wrote and not is_better(
                missing=missing, best_missing=best_missing, extends=extends
            ):
                return
        self.held = (state, path, missing)

    def _ask_for_others(self, path: Way) -> None:
        """Queue the reads recorded in the weakest state: that before the first reads in vain, or the last one."""
        self.asked += 1
        self.used += 1
        begin = (
            max(
                (
                    at
                    for at, (_, step) in enumerate(path)
                    if not all(map(is_read, step))
                ),
                default=-1,
            )
            + 1
        )
        weakest = next(
            (
                at
                for at in range(begin, len(path))
                if path[at][1] and self._is_vain(*path[at])
            ),
            None,
        )
        state, before = (
            (path[-1][0], path)
            if weakest is None
            else (path[weakest][0], path[:weakest])
        )
        reads = self.ranked(
            state,
            before,
            [
                step
                for step in self.model.others_here(state)
                if step and all(map(is_read, step))
            ],
        )
        self.queue = [
            (state, before, step)
            for step in reads[:MOST_ALTERNATIVES]
            if step not in self.tried
        ]

    def ranked(self, state: State, path: Way, reads: list[Step]) -> list[Step]:
        """The reads in the order in which they are offered."""
        return reads

    def _explore(self) -> tuple[State, Way]:
        """Run the reads that wait, one after the other, until one brings something back."""
        while True:
            state, path, step = self.queue.pop(0)
            if not self.queue or not self._is_vain(state, step):
                return self._take(state, path, step)
            self.tried.add(step)

    def _is_vain(self, state: State, step: Step) -> bool:
        return all(
            is_failure(result) or is_empty(result)
            for result in self.model.turn.take(state, step)[1]
        )


def tool_of(key: str) -> str:
    """The tool of a call."""
    return key.partition("(")[0]


def is_read(key: str) -> bool:
    """Whether a call only reads, as a user would declare it."""
    return tool_of(key) in READ_ONLY


def is_failure(result: str) -> bool:
    """Whether a call has failed, as the worlds say it."""
    return result.startswith(("Error", '{"error"'))


def is_empty(result: str) -> bool:
    """Whether a call has brought nothing back."""
    return result.strip() in {"", "[]", "{}", "None", "null"}
