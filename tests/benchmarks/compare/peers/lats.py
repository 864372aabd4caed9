"""LATS: Monte-Carlo tree search in which the judge evaluates every call that was run (Zhou et al. 2024).

A leaf's candidates are all run, then all evaluated at once. A candidate solves the task if the model proposes nothing
after it and the judge agrees. The value is the judge's score with the paper's self-consistency, which the place among
the proposals tells, halved from each to the next.

Tried on the development tasks: no simulation, as in the tutorial of LangGraph (.03 instead of .73 at 160 calls); the
goal score in the value, added or multiplied; the mean of the path as value; only the end of a simulation as reward;
2 to 4 candidates; leaves chosen from the whole tree at once; 1 to 3 asks for a poor node; exploration weights of .1 to
1, which make no difference once there are simulations.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import Desk, Evaluate, Propose, Question, Run, State
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


@dataclass(frozen=True)
class LATS:
    """Language agent tree search.

    Args:
        exploration: Weight of the exploration term.
        consistency: Weight of how often the model would make a call, against the score that the judge gives it.
        simulate: Whether the best candidate is expanded at once, and so on to the end of its path.
        hopeless: Score of the best candidate below which a simulation is given up.
        asks: How often a node is asked at most, again while its best candidate is hopeless.
        enough: Goal score with which it ends.
    """

    exploration: float = 1.0
    consistency: float = 0.2
    simulate: bool = True
    hopeless: float = 0.45
    asks: int = 3
    enough: float = 0.7

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Search until an end is good enough or the tree is closed."""
        best = -math.inf
        root = Node(desk.start)
        node: Node | None = root
        while not root.closed:
            node = node or self._selected(root)
            [calls] = yield [Propose(node.state)]
            if not calls:
                [(_, goal)] = yield [Evaluate(node.state)]
                if goal * node.path > best:
                    best = goal * node.path
                    desk.keep(node.state)
                if goal >= self.enough:
                    return
                node.back_propagate(goal)
            if not calls or node.state.depth == MAX_DEPTH:
                node.close()
                node = None
                continue
            yield from self._expand(node, calls)
            top = max(node.children, key=lambda child: child.score)
            if best == -math.inf:
                desk.keep(top.state)
            if top.score < self.hopeless:
                node = node if node.asked < self.asks else None
            else:
                node = top if self.simulate else None

    def _expand(self, node: Node, calls: Sequence[PlainCall]) -> Generator[Sequence[Question], list[Any], None]:
        """Run and evaluate all candidates."""
        known = {child.state for child in node.children}
        ran: list[State] = yield [Run(node.state, call) for call in calls]
        states = {place: state for place, state in enumerate(ran) if state not in known}
        answers = yield [Evaluate(state) for state in states.values()]
        node.asked += 1
        for (place, state), (post, _) in zip(states.items(), answers, strict=True):
            score = post + self.consistency * 0.5 ** (place + 1)
            child = Node(state, node, score, (node.path * node.state.depth + post) / state.depth)
            node.children.append(child)
            child.back_propagate(score)

    def _selected(self, root: Node) -> Node:
        """Go down by the upper confidence bound."""
        node = root
        while node.children:
            log = math.log(node.visits)
            node = max(
                (child for child in node.children if not child.closed),
                key=lambda child: child.value + self.exploration * math.sqrt(log / child.visits),
            )
        return node
