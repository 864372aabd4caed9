"""Seven searches over a real model and a real world, to be compared with `tooltree`.

The algorithms are those of `tests/benchmarks/compare/peers` in their fused form, with the settings that were best
there; their papers stand there, too. What differs, since a real model answers:

- offers of a state that is asked again are added to those that it has, and the wider pass of a beam goes on with them;
- LATS reflects on each end that is not good enough, as in its paper, then tries offers that it has left out, and has no
  self-consistency in its values, which a fused reply does not tell;
- best-of-n makes whole runs of the plain agent, all but the first at a higher temperature, and the model chooses;
  CoT-SC makes them step by step, and does what most of them do;
- DFSDT (ToolLLM, Qin et al. 2024) is here only: the plain agent, depth first, which may give up a course and then
  goes on from the state before, told to do something else than it did there.
"""

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from statistics import fmean
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from tests.benchmarks.live.episode import Episode, Method, Setting
from tests.benchmarks.live.methods import THINK
from tests.benchmarks.live.search_driver import BudgetSpentError, Driver, Offer, State

ENOUGH = 0.65
"""Goal score in [0, 1] with which a search ends: below the score of a model's plain word that all is done."""

LEAST = 0.01
"""A path is not lost for good by one score of 0."""

RUNS = 4
"""Runs of best-of-n: at ten model calls each, so many fit the default budget."""

TEMPERATURE = 1.0
"""Of its runs after the first: high enough that they differ, and taken by every provider."""

CHILDREN = 2
"""Replies that DFSDT takes at a state, the width of its tree in ToolLLM."""

GIVE_UP = "give_up"

GIVE_UP_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": GIVE_UP,
        "description": "Gives up this course, so that another one can be tried from an earlier point.",
        "parameters": {
            "type": "object",
            "properties": {"reason": {"type": "string"}},
            "required": ["reason"],
        },
    },
}

GIVE_UP_PROMPT = (
    f"If this course cannot get the request done any more, call `{GIVE_UP}`."
)

DIVERSITY_PROMPT = """\
This is not the first time you are here. These calls were made here before, and did not get the request done; do \
something else:
{tried}"""


def best_of_n(driver: Driver) -> None:
    """Whole runs of the plain agent, of which the model chooses one (Cobbe et al. 2021)."""
    driver.choose(_whole_runs(driver))


def cot_sc(driver: Driver) -> None:
    """Whole runs, step by step; what most of them do is done (CoT-SC, Wang et al. 2023)."""
    ends = _whole_runs(driver, THINK)
    votes = Counter(_calls_of(state) for state, _ in ends)
    if ends:
        driver.keep(*max(ends, key=lambda end: votes[_calls_of(end[0])]))


def _calls_of(state: State) -> str:
    """The calls of a run in their order: in a world of tools, runs that made the same ones give the same answer."""
    calls = [
        call for each in state.path if each.message for call in each.message.tool_calls
    ]
    return json.dumps(
        [(call["name"], call["args"]) for call in calls], sort_keys=True, default=str
    )


def _whole_runs(driver: Driver, *more: str) -> list[tuple[State, AIMessage]]:
    """The ends of whole runs of the plain agent, all but the first at a higher temperature, each with its answer."""
    ends: list[tuple[State, AIMessage]] = []
    with suppress(BudgetSpentError):
        for number in range(RUNS):
            state = driver.start
            while state.depth < driver.depth:
                reply = driver.step(
                    state, *more, temperature=TEMPERATURE if number else None
                )
                if reply is None:
                    break
                if not reply.tool_calls:
                    ends.append((state, reply))
                    break
                state = driver.run(state, reply)
                if not ends:
                    driver.keep(state)
    return ends


def beam(
    driver: Driver, *, widening: float = 1.5, asks: int = 3, promising: float = 0.4
) -> None:
    """Beam search with wider and wider beams, which is Tree of Thoughts in breadth-first order (Yao et al. 2023)."""
    width, ends = 1.0, _Ends(driver)
    while True:
        level, cut, before = [driver.start], False, driver.asked
        while level:
            for state in level:
                while (
                    not state.ended
                    and state.asked < asks
                    and all(_poor(state, promising))
                ):
                    driver.ask(state, after=0.75)
                if state.ended and ends.are_good_with(state):
                    return
            edges = [
                (s, offer)
                for s in level
                if s.depth < driver.depth
                for offer in s.offers.values()
            ]
            edges.sort(key=_likelihood, reverse=True)
            cut = cut or len(edges) > round(width)
            level = [driver.make(*edge) for edge in edges[: round(width)]]
            if level and not ends:
                driver.keep(level[0])
        if not cut and driver.asked == before:
            return  # all that was offered has been tried
        width *= widening


def _poor(state: State, promising: float) -> list[bool]:
    return [offer.score < promising for offer in state.offers.values()]


def _likelihood(edge: tuple[State, Offer]) -> float:
    state, offer = edge
    return math.prod(
        max(score, LEAST)
        for score in (*(each.score for each in state.path), offer.score)
    )


Steps = Sequence[tuple[float, int]]
"""Scores and places of the calls of a path."""


def best_first(
    driver: Driver,
    value: Callable[[Steps], float] = lambda path: fmean(score for score, _ in path),
    *,
    asks: int = 3,
    promising: float = 0.5,
) -> None:
    """Best-first search: go on from the best path, wherever it is (Koh et al. 2024); by the mean of its scores."""
    ends, turns = _Ends(driver), count()
    queue: list[tuple[float, int, State, Offer | None]] = [
        (0.0, next(turns), driver.start, None)
    ]
    while queue:
        _, _, state, offer = heapq.heappop(queue)
        state = driver.make(state, offer) if offer else state
        if not ends:
            driver.keep(state)
        offers = driver.ask(state)
        if state.ended and ends.are_good_with(state):
            return
        if state.ended or state.depth >= driver.depth:
            continue
        path = [(each.score, each.place) for each in state.path]
        for each in offers:
            heapq.heappush(
                queue,
                (-value([*path, (each.score, each.place)]), next(turns), state, each),
            )
        if (
            max((each.score for each in offers), default=0.0) < promising
            and state.asked < asks
        ):
            # It is asked again in its turn, as if a call of that score had been offered.
            heapq.heappush(
                queue, (-value([*path, (promising, 0)]), next(turns), state, None)
            )


def a_star(driver: Driver, *, consistency: float = 0.5, to_come: float = 0.59) -> None:
    """A* in the form of ToolChain* (Zhuang et al. 2023), without its memory.

    A call costs what it lacks in score and in place; each that may still follow, up to the greatest depth, `to_come`.
    """

    def value(path: Steps) -> float:
        so_far = sum(
            1 - score + consistency * (1 - 0.5 ** (place + 1)) for score, place in path
        )
        return -(so_far + to_come * (driver.depth - len(path)))

    best_first(driver, value, asks=2, promising=0.45)


def lats(
    driver: Driver,
    *,
    tried: int = 2,
    exploration: float = 0.1,
    hopeless: float = 0.6,
    asks: int = 2,
) -> None:
    """LATS: Monte-Carlo tree search that runs and asks the best candidates, and reflects (Zhou et al. 2024)."""
    ends, root = _Ends(driver), driver.start
    driver.ask(root)
    state: State | None = root
    while not root.closed:
        state = state or _selected(root, exploration)
        if (
            not state.ended
            and (state.children or not state.untried)
            and state.asked < asks
        ):
            driver.ask(state)
        if state.ended:
            if ends.are_good_with(state):
                return
            _back_propagate(state, state.goal)
        if state.ended or state.depth >= driver.depth:
            driver.reflect(state)
        if state.ended or state.depth >= driver.depth or not state.untried:
            _close(state)
            state = None
            continue
        for offer in state.untried[:tried]:
            child = driver.make(state, offer)
            driver.ask(child)
            _back_propagate(child, child.score)
        top = max(state.children.values(), key=lambda child: child.score)
        if not ends:
            driver.keep(top)
        if top.score < hopeless:
            state = state if state.asked < asks else None
        else:
            state = None if top.children or top.closed else top


def _selected(root: State, exploration: float) -> State:
    """Go down by the upper confidence bound."""
    state = root
    while going := [child for child in state.children.values() if not child.closed]:
        log = math.log(max(state.visits, 1))
        state = max(
            going,
            key=lambda child: (
                child.value + exploration * math.sqrt(log / max(child.visits, 1))
            ),
        )
    return state


def _back_propagate(state: State | None, value: float) -> None:
    while state:
        state.visits += 1
        state.value += (value - state.value) / state.visits
        state = state.parent


def _close(state: State | None) -> None:
    """Never come here again, nor where nothing else was left."""
    while state and all(child.closed for child in state.children.values()):
        if state.untried and not state.ended:
            break
        state.closed = True
        state = state.parent


def dfsdt(driver: Driver) -> None:
    """Depth first with giving up (ToolLLM); what no course gets done is answered without a call."""

    def down(state: State) -> bool:
        driver.keep(state)
        while state.depth < driver.depth and state.asked < CHILDREN:
            state.asked += 1
            made = [
                call for child in state.children.values() for call in _labels(child)
            ]
            more = (
                [DIVERSITY_PROMPT.format(tried="\n".join(f"- {call}" for call in made))]
                if made
                else []
            )
            reply = driver.step(state, GIVE_UP_PROMPT, *more, tools=[GIVE_UP_TOOL])
            if reply is None:
                continue
            if any(call["name"] == GIVE_UP for call in reply.tool_calls):
                return False
            if not reply.tool_calls:
                driver.keep(state, reply)
                return True
            if down(driver.run(state, reply)):
                return True
            driver.keep(state)
        return False

    down(driver.start)


def _labels(state: State) -> list[str]:
    return [
        f"{call['name']}({call['args']})"
        for call in (state.message.tool_calls if state.message else ())
    ]


class _Ends:
    """The ends that a search has come to; the best one is kept. False while there is none."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._best = -math.inf

    def __bool__(self) -> bool:
        return self._best > -math.inf

    def are_good_with(self, state: State) -> bool:
        """Take in an end; returns whether it is good enough."""
        if state.worth > self._best:
            self._best = state.worth
            self._driver.keep(state)
        return state.goal >= ENOUGH


def _method(search: Callable[[Driver], None]) -> Method:
    def work(
        setting: Setting, episode: Episode, conversation: Sequence[BaseMessage]
    ) -> list[BaseMessage]:
        driver = Driver(setting, episode, conversation)
        with suppress(BudgetSpentError):
            search(driver)
        return driver.finish()

    return work


METHODS: dict[str, tuple[Method, float]] = {
    "best_of_n": (_method(best_of_n), RUNS + 0.2),
    "cot_sc": (_method(cot_sc), RUNS),
    "beam": (_method(beam), 1.5),
    "best_first": (_method(best_first), 1.5),
    "a_star": (_method(a_star), 1.5),
    "lats": (_method(lats), 3.0),
    "dfsdt": (_method(dfsdt), 1.2),
}
"""Each with its model calls relative to those of `react`, for the estimate. Where its first way is a good one, a search
makes little more than one call a step; where none is, it spends its budget."""
