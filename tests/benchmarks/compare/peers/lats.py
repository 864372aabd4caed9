"""LATS: Monte-Carlo tree search in which the judge evaluates every call that was run (Zhou et al. 2024).

A leaf's candidates are all run, then all evaluated at once. A candidate solves the task if the model proposes nothing
after it and the judge agrees. The value is the judge's score with the paper's self-consistency, which the place among
the proposals tells, halved from each to the next.

Tried on the development tasks: no simulation, as in the tutorial of LangGraph (.03 instead of .73 at 160 calls); the
goal score in the value, added or multiplied; the mean of the path as value; only the end of a simulation as reward;
2 to 4 candidates; leaves chosen from the whole tree at once; 1 to 3 asks for a poor node; exploration weights of .1 to
1, which make no difference once there are simulations.

With fused calls the best candidates alone are run. Tried on the development tasks: 1 to 3 of them, weights of r_post of
.5 to 1 and of self-consistency of 0 to .4, giving up below .35 to .6, 1 to 4 asks, ending at .6 or .7.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.compare.desk import (
    Desk,
    Evaluate,
    Fused,
    FusedReply,
    Propose,
    Question,
    Run,
    State,
)
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH


@dataclass(eq=False, slots=True)
class Node:
    """A state of the tree.

    Attributes:
        state: The state.
        parent: The node before it, `None` at the root.
        score: What the judge said of its last call.
        path: Mean score of the calls that led here.
        children: Nodes after one more call.
        asked: How often it was asked for candidates.
        visits: Evaluations in the subtree.
        value: Their mean.
        closed: Whether nothing is left to expand in the subtree.
        reply: What a fused call said here, until its candidates were tried.
    """

    state: State
    parent: "Node | None" = None
    score: float = 0.0
    path: float = 0.0
    children: list["Node"] = field(default_factory=list)
    asked: int = 0
    visits: int = 0
    value: float = 0.0
    closed: bool = False
    reply: FusedReply | None = None

    def back_propagate(self, reward: float) -> None:
        """Add a reward to the mean of this node and of all above it."""
        node: Node | None = self
        while node:
            node.visits += 1
            node.value += (reward - node.value) / node.visits
            node = node.parent

    def close(self) -> None:
        """Never come here again, nor where nothing else was left."""
        node: Node | None = self
        while node and all(child.closed for child in node.children):
            node.closed = True
            node = node.parent


Asking = Generator[Sequence[Question], list[Any], FusedReply]
Working = Generator[Sequence[Question], list[Any], None]


@dataclass(frozen=True, kw_only=True)
class LATS:
    """Language agent tree search: the best candidate is expanded at once, and so on to the end of its path.

    Args:
        exploration: Weight of the exploration term.
        consistency: Weight of how often the model would make a call, against the score that the judge gives it.
        hopeless: Score of the best candidate below which a simulation is given up.
        asks: How often a node is asked at most, again while its best candidate is hopeless.
        enough: Goal score with which it ends.
    """

    exploration: float = 1.0
    consistency: float = 0.2
    hopeless: float = 0.45
    asks: int = 3
    enough: float = 0.7

    def __call__(self, desk: Desk) -> Working:
        """Search until an end is good enough or the tree is closed."""
        best = -math.inf
        root = Node(desk.start)
        node: Node | None = root
        while not root.closed:
            node = node or selected(root, self.exploration)
            reply = yield from self._ask(node)
            if not reply.calls:
                goal = reply.goal or 0.0
                if goal * node.path > best:
                    best = goal * node.path
                    desk.keep(node.state)
                if goal >= self.enough:
                    return
                node.back_propagate(goal)
            if not reply.calls or node.state.depth == MAX_DEPTH:
                node.close()
                node = None
                continue
            node.asked += 1
            yield from self._expand(node, reply)
            top = max(node.children, key=lambda child: child.score)
            if best == -math.inf:
                desk.keep(top.state)
            if top.score < self.hopeless:
                node = node if node.asked < self.asks else None
            else:
                node = None if top.children or top.closed else top

    def _ask(self, node: Node) -> Asking:
        """The candidates, or, where there are none, the goal score."""
        [calls] = yield [Propose(node.state)]
        goal = None
        if not calls:
            [(_, goal)] = yield [Evaluate(node.state)]
        return FusedReply(None, goal, calls, [])

    def _expand(self, node: Node, reply: FusedReply) -> Working:
        """Run and evaluate all candidates."""
        states = yield from _new_states(node, reply, range(len(reply.calls)))
        answers = yield [Evaluate(state) for state in states.values()]
        for (place, state), (post, _) in zip(states.items(), answers, strict=True):
            self._add(node, state, place, post)

    def _add(self, node: Node, state: State, place: int, score: float) -> Node:
        """Add a candidate that was run, by its place among the proposals and its score."""
        path = (node.path * node.state.depth + score) / state.depth
        child = Node(state, node, score + self._consistent(place), path)
        node.children.append(child)
        child.back_propagate(child.score)
        return child

    def _consistent(self, place: int) -> float:
        return self.consistency * 0.5 ** (place + 1)


@dataclass(frozen=True, kw_only=True)
class FusedLATS(LATS):
    """The same with fused calls: what judges a call also brings the candidates of the state that it led to.

    Args:
        tried: Candidates of a state that are run, those of the highest scores.
        after: Weight of r_post against r_pre.
    """

    exploration: float = 0.1
    consistency: float = 0.4
    hopeless: float = 0.6
    asks: int = 2
    tried: int = 2
    after: float = 0.5

    def _ask(self, node: Node) -> Asking:
        """What was said when the state was reached, the first time."""
        reply, node.reply = node.reply, None
        if reply is None:
            [reply] = yield [Fused(node.state)]
        return reply

    def _expand(self, node: Node, reply: FusedReply) -> Working:
        """Run and ask the best candidates."""
        worth = [
            score + self._consistent(place) for place, score in enumerate(reply.scores)
        ]
        places = sorted(range(len(worth)), key=worth.__getitem__, reverse=True)[
            : self.tried
        ]
        states = yield from _new_states(node, reply, places)
        answers = yield [Fused(state) for state in states.values()]
        for (place, state), answer in zip(states.items(), answers, strict=True):
            score = (1 - self.after) * reply.scores[place] + self.after * answer.reward
            self._add(node, state, place, score).reply = answer


def _new_states(
    node: Node, reply: FusedReply, places: Sequence[int]
) -> Generator[Sequence[Question], list[Any], dict[int, State]]:
    """Run candidates; the states that they led to and that are new here, by place."""
    known = {child.state for child in node.children}
    ran: list[State] = yield [Run(node.state, reply.calls[place]) for place in places]
    return {
        place: state
        for place, state in zip(places, ran, strict=True)
        if state not in known
    }


def selected(root: Node, exploration: float) -> Node:
    """Go down by the upper confidence bound."""
    node = root
    while node.children:
        log = math.log(node.visits)
        node = max(
            (child for child in node.children if not child.closed),
            key=lambda child: child.value + exploration * math.sqrt(log / child.visits),
        )
    return node
