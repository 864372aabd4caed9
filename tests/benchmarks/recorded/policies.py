"""Policies that decide which of a recorded model's steps to take: plain, controls, and the searches of the literature.

A policy gets a model and returns the state in which it would end the turn. Every question is a model call; calls of
tools are free and run in forks. Searches are given fused questions: one call brings the model's own step and the
alternatives, each with a score of the judge's, so that they need no call for scores. A stop among candidates brings no
answer, so that a search that ends by one asks for it, as ours does. Their settings were chosen on the shared file.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from tests.benchmarks.recorded.model import ENOUGH, MOST_STEPS, RecordedModel
from tests.benchmarks.recorded.ours import BUDGETS, Loop
from tests.benchmarks.recorded.runs import STOP, State, Step

MOST_GRADES = 3
"""Grades of a turn, the default of `RubricMiddleware(max_iterations=...)`."""

Policy = Callable[[RecordedModel], State]
Way = tuple[tuple[State, Step], ...]
"""The steps taken, each with the state that it was taken in."""


def follow(model: RecordedModel, state: State, path: Way = ()) -> tuple[State, Way]:
    """Take the model's own steps to its next stop."""
    while len(path) < MOST_STEPS:
        step = model.own_step(state, path)
        path = (*path, (state, step))
        if step == STOP:
            break
        state, _ = model.turn.take(state, step)
    return state, path


def plain(model: RecordedModel) -> State:
    """The model by itself."""
    return follow(model, model.start)[0]


def past_the_first_stop(model: RecordedModel) -> State:
    """The near-oracle: at the first stop the most common other step of all runs, then own steps to the next stop."""
    state, path = follow(model, model.start)
    for step in model.others_here(state):
        after, _ = model.turn.take(state, step)
        if step != STOP and after is not state:
            return follow(model, after, (*path[:-1], (state, step)))[0]
    return state


def resample(model: RecordedModel) -> State:
    """The honest control: at the first stop one more own step, then own steps to the next stop."""
    state, path = follow(model, model.start)
    step = model.step_again(state)
    if step == STOP:
        return state
    after, _ = model.turn.take(state, step)
    return follow(model, after, (*path[:-1], (state, step)))[0]


def graded(model: RecordedModel) -> State:
    """A grader checks each answer, and up to twice sends the model back to its work, as deepagents' rubrics do."""
    state, path = follow(model, model.start)
    for _ in range(MOST_GRADES):
        if model.check(state) >= ENOUGH:
            break
        step = model.step_again(state)
        if step != STOP:
            after, _ = model.turn.take(state, step)
            state, path = follow(model, after, (*path[:-1], (state, step)))
    return state


@dataclass(frozen=True)
class BestOfN:
    """Whole runs of several models; the one whose end is scored best.

    Args:
        runs: How many runs.
        content: Stop at the first run whose end is scored so well.
    """

    runs: int
    content: float = 2.0

    def __call__(self, model: RecordedModel) -> State:
        """Play the runs, the model's own first."""
        best: tuple[float, State] | None = None
        for run in model.runs()[: self.runs]:
            with model.as_run(run):
                state, _ = follow(model, model.start)
            score = model.check(state)
            if best is None or score > best[0]:
                best = (score, state)
            if score >= self.content:
                break
        assert best is not None
        return best[1]


def vote(model: RecordedModel) -> State:
    """Whole runs of all models; the end that most of them come to."""
    ends = []
    for run in model.runs():
        with model.as_run(run):
            ends.append(follow(model, model.start)[0])
    return Counter(ends).most_common(1)[0][0]


@dataclass(frozen=True)
class BestFirst:
    """Best-first search by the mean score of a path, or with costs to come as in A* (ToolChain*).

    Args:
        to_come: What each step costs that may still follow; `None` for the mean score.
        questions: Model calls at the most.
    """

    to_come: float | None = None
    questions: int = 24

    def value(self, scores: Sequence[float]) -> float:
        """The value of a path."""
        if self.to_come is None:
            return sum(scores) / len(scores)
        return -sum(1 - score for score in scores) + self.to_come * len(scores)

    def __call__(self, model: RecordedModel) -> State:
        """Search until a stop is taken from the queue, then answer."""
        state = self._search(model)
        model.answer()
        return state

    def _search(self, model: RecordedModel) -> State:
        turns = count()
        queue: list[tuple[float, int, State, Step | None, Way, tuple[float, ...]]] = [
            (0.0, next(turns), model.start, None, (), ())
        ]
        seen: set[State] = set()
        fallback = model.start
        while queue and model.calls < self.questions:
            _, _, state, step, path, scores = heapq.heappop(queue)
            if step == STOP:
                return state
            if step is not None:
                path = (*path, (state, step))
                state, _ = model.turn.take(state, step)
            fallback = state
            if state in seen or len(path) >= MOST_STEPS:
                continue
            seen.add(state)
            for following, score in model.offers(state, path):
                longer = (*scores, score)
                heapq.heappush(
                    queue,
                    (-self.value(longer), next(turns), state, following, path, longer),
                )
        stops = [entry for entry in queue if entry[3] == STOP]
        return min(stops)[2] if stops else fallback


@dataclass(frozen=True)
class Beam:
    """Beam search: the best paths of each length go on, by the mean score of a path."""

    width: int = 2
    questions: int = 40

    def __call__(self, model: RecordedModel) -> State:
        """Search until no path goes on, then answer from the best path that ended."""
        state = self._search(model)
        model.answer()
        return state

    def _search(self, model: RecordedModel) -> State:
        beam: list[tuple[State, Way, tuple[float, ...]]] = [(model.start, (), ())]
        ended: list[tuple[float, int, State]] = []
        while (
            beam
            and model.calls < self.questions
            and (not ended or len(ended) < self.width)
        ):
            longer: list[tuple[float, State, Step, Way, tuple[float, ...]]] = []
            for state, path, scores in beam:
                for step, score in model.offers(state, path):
                    told = (*scores, score)
                    longer.append((sum(told) / len(told), state, step, path, told))
            longer.sort(key=lambda entry: -entry[0])
            beam, reached = [], set()
            for value, state, step, path, told in longer:
                if len(beam) == self.width:
                    break
                if step == STOP:
                    ended.append((value, -len(ended), state))
                    continue
                after, _ = model.turn.take(state, step)
                if after not in reached and all(after is not at for at, _ in path):
                    reached.add(after)
                    beam.append((after, (*path, (state, step)), told))
        return max(ended)[2] if ended else (beam[0][0] if beam else model.start)


@dataclass(eq=False)
class _Node:
    state: State
    path: Way
    parent: "_Node | None" = None
    children: list["_Node"] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0
    end: bool = False
    asked: bool = False

    def backup(self, reward: float) -> None:
        node: _Node | None = self
        while node is not None:
            node.visits += 1
            node.value += (reward - node.value) / node.visits
            node = node.parent


@dataclass(frozen=True)
class LATS:
    """LATS: select by UCB, expand, simulate with the best-scored steps to a stop, check it, back up (Zhou et al. 2024).

    Args:
        rollouts: Rollouts at the most.
        exploration: Weight of the exploration term.
    """

    rollouts: int = 3
    exploration: float = 1.0

    def __call__(self, model: RecordedModel) -> State:
        """Search, then answer from the best end found."""
        root = _Node(model.start, ())
        best: tuple[float, State] = (-1.0, model.start)
        for _ in range(self.rollouts):
            node = root
            while node.asked and node.children:
                log = math.log(max(node.visits, 1))
                node = max(
                    node.children,
                    key=lambda child: (
                        child.value
                        + self.exploration * math.sqrt(log / max(child.visits, 1))
                    ),
                )
            while not node.end and len(node.path) < MOST_STEPS:
                for step, score in model.offers(node.state, node.path):
                    after, _ = model.turn.take(node.state, step)
                    if step != STOP and any(
                        after is at for at, _ in (*node.path, (node.state, step))
                    ):
                        continue
                    child = _Node(
                        after, (*node.path, (node.state, step)), node, end=step == STOP
                    )
                    child.visits, child.value = 1, score
                    node.children.append(child)
                node.asked = True
                if not node.children:
                    break
                node = max(node.children, key=lambda child: child.value)
            score = model.check(node.state)
            best = max(best, (score, node.state), key=lambda each: each[0])
            node.backup(score)
            if score >= 0.9:
                break
        model.answer()
        return best[1]


POLICIES: dict[str, Policy] = {
    "plain": plain,
    "past-the-first-stop": past_the_first_stop,
    "resample": resample,
    "graded": graded,
    "until-the-check-is-content": BestOfN(7, content=ENOUGH),
    "best-of-3": BestOfN(3),
    "best-of-7": BestOfN(7),
    "vote": vote,
    "beam": Beam(),
    "best-first": BestFirst(),
    "a-star": BestFirst(to_come=0.3),
    "lats": LATS(),
    **{f"tooltree-{effort}": Loop(budget) for effort, budget in BUDGETS.items()},
    "balanced, no call is named": Loop(BUDGETS["balanced"], named=False),
    "balanced, makes the named write": Loop(BUDGETS["balanced"], obeys=True),
}
"""By name, in the order of the table; `plain` is what all are compared with. The last two bound what is not recorded:
reports that name no call, as where requests are short, and an agent that makes any write that it named itself.
"""
