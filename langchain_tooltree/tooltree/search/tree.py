"""The search tree: states, the calls between them, values, and what may be worked on. Pure.

A node is a state: the dialogue plus the calls made on the way here and their observations, as in the paper. The
edge into a node and the node itself are one object, so `visits` and `value` are N(s, a) and Q(s, a) of the edge that
leads here.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from langchain_tooltree.text import call_label, digest, get_call_key
from langchain_tooltree.tooltree.search.config import KernelConfig

Effect = Literal["read", "write", "sandboxed"]
"""`read` may run while searching, `write` never does, `sandboxed` changes a fork of the user's world only."""

Pruned = Literal["pre_evaluation", "top_k", "post_evaluation"]

ROOT = 0  # identifier of the root node
KERNEL_DEFAULTS = KernelConfig()
FALL = 2 / 3
"""Under Eq. 1 without goal scores a path ends before a call whose r_post is below this share of the mean before it:
nothing else says that the work is done, and such a call is rather a distraction than a weaker step."""


@dataclass(frozen=True)
class Action:
    """A concrete tool call: the action of the search."""

    tool: str  # name of the tool
    arguments: dict[
        str, Any
    ]  # JSON-like, validated against the tool's schema; injected ones are not among them
    effect: Effect  # what running it does to the world
    reply: dict[str, Any] | None = (
        None  # the model's message with this call, as `message_to_dict` gives it, if it has
    )
    # more than text and calls: models that sign their reasoning want it back with the call

    @cached_property
    def key(self) -> str:
        """Canonical text of tool and arguments: equal for calls that mean the same."""
        return get_call_key(self.tool, self.arguments)

    @cached_property
    def label(self) -> str:
        """The call in one line, for people."""
        return call_label(self.tool, self.arguments)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool call brought back.

    `kind` is `"ok"`, or says why there is no result: the tool raised, refused its arguments, or cannot run here.
    """

    content: str | list[Any]  # text, or LangChain content blocks
    kind: Literal["ok", "exception", "invalid_arguments", "unsupported"] = "ok"
    message: Any = None  # the tool's own message, artifact included, if it made one


@dataclass(
    slots=True, eq=False
)  # a node equals itself alone, so finding one in a list compares no fields
class Node:
    """A state of the search and the call that led to it."""

    id: int  # position in the tree, in the order of creation; the root is 0
    parent: int | None = None  # identifier of the parent, `None` for the root
    depth: int = 0  # calls from the root to here
    call: Action | None = None  # the call that leads here, `None` for the root
    world: str = ""  # version of the world after the call: a hash of the sandboxed writes on the path
    r_pre: float | None = (
        None  # score before execution in [0, 1]; `None` until the judge was asked
    )
    r_post: float | None = (
        None  # score of the observation in [0, 1]; `None` until evaluated
    )
    goal: float | None = (
        None  # whether the task is done here, in [0, 1]; `None` if not scored
    )
    pre_scored: bool = (
        True  # whether `r_pre` came from the judge; otherwise it is the threshold
    )
    post_scored: bool = (
        True  # whether `r_post` came from the judge; otherwise it is the parent's mean
    )
    goal_scored: bool = (
        True  # whether `goal` came from the judge; otherwise it is the parent's
    )
    pre_reason: str = ""  # why the judge gave `r_pre`, if it said so
    post_reason: str = ""  # why it gave `r_post` and `goal`
    observation: Observation | None = (
        None  # `None` before execution, and for a deferred write
    )
    visits: int = 0  # N(s, a): rewards propagated through here
    value: float = 0.0  # Q(s, a): their mean
    in_flight: int = 0  # rollouts that are below here now (WU-UCT's unobserved samples)
    children: list[int] = field(
        default_factory=list
    )  # identifiers of the children, in the order of creation
    batched: bool = False  # whether the call was made in the same message as its parent's; for messages and pictures
    missing: tuple[str, ...] = ()  # what of the request is not done here, in words
    offer: int = (
        0  # which proposal of its parent the call came with, from 1; 0 for the root
    )
    proposals: int = 0  # how often this state was asked for calls
    finished: bool = False  # whether the model, asked for calls here, had none
    proposing: bool = False  # whether such a question is under way
    dropped: list[str] = field(
        default_factory=list
    )  # calls proposed here that could not become candidates, and why
    pruned: Pruned | None = None  # why the node is out of the search, if it is
    closed: bool = False  # whether nothing is left to explore here and below

    @property
    def deferred(self) -> bool:
        """Whether the call here changes the real world and is therefore judged but never run."""
        return self.call is not None and self.call.effect == "write"

    @property
    def label(self) -> str:
        """The call in one line, for people."""
        return self.call.label if self.call else "root"

    @property
    def evaluated(self) -> bool:
        """Whether the call was run (or deferred) and judged."""
        return self.r_post is not None

    @property
    def accepted(self) -> bool:
        """Whether a plan may end here: the call was judged by what it brought back, and not pruned."""
        return self.r_post is not None and self.post_scored and self.pruned is None


@dataclass(slots=True)
class TreeChange:
    """What one operation of a search brought, and what it cost."""

    rollout: (
        int  # number of the rollout that it belonged to, from 0; -1 before the first
    )
    kind: str  # see `Operation`
    node: int  # the state that was asked, or the call that was run or judged
    best: int | None  # end of the best path that was known before it
    model_calls: int
    tokens: int
    nodes: int = 0  # how many nodes there are after it
    ran: list[int] = field(
        default_factory=list
    )  # nodes that have observations since, run or known from elsewhere
    pruned: list[int] = field(
        default_factory=list
    )  # nodes that are out of the search since


class Tree:
    """All nodes of one search, by identifier, how they came about, and what may be worked on.

    `changed` has the identifiers of the nodes that changed since the posterior last looked. The methods of a tree enter
    what they change; other code that sets a field of a node enters that node.
    """

    def __init__(self, config: KernelConfig = KERNEL_DEFAULTS) -> None:
        self.config = config
        self.root = Node(ROOT)
        self.nodes = [self.root]
        self.changed = {ROOT}
        self.history: list[TreeChange] = []
        # Which state each node stands for: the reads made on the way, each with its world.
        self._reads: list[frozenset[tuple[str, str]]] = [frozenset()]
        self._reached: set[tuple[str, frozenset[tuple[str, str]]]] = {("", frozenset())}

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, parent: Node, call: Action, *, batched: bool = False) -> Node:
        """Append a child that has no score yet; `batched` if one message of the model made both calls."""
        node = Node(
            len(self.nodes),
            parent=parent.id,
            depth=parent.depth + 1,
            call=call,
            world=parent.world,
            batched=batched,
            offer=parent.proposals,
        )
        reads = self._reads[parent.id]
        if call.effect == "read":
            reads |= {(node.world, call.key)}
        elif (
            call.effect == "sandboxed"
        ):  # 64 bits: two of a million worlds are mistaken with a chance of 3e-8
            node.world = digest(f"{parent.world}\n{call.key}", 16)
        self.nodes.append(node)
        self._reads.append(reads)
        self._reached.add((node.world, reads))
        parent.children.append(node.id)
        self.changed.add(node.id)
        return node

    def repetition(
        self, state: Node, call: Action, *, merging: bool = True
    ) -> str | None:
        """Why a call in a state would only repeat another one, if so.

        It repeats a child of the state, or a read made on the path in the same world, or, where states are merged, it
        leads to one that another path leads to: the same world and reads, in another order. A write may be meant twice.
        """
        if any(
            child.call and child.call.key == call.key for child in self.children(state)
        ):
            return "already proposed here"
        if call.effect != "read":
            return None
        read = (state.world, call.key)
        if read in self._reads[state.id]:
            return "already made on this path"
        if merging and (state.world, self._reads[state.id] | {read}) in self._reached:
            return "made on another path to the same state"
        return None

    def children(self, node: Node) -> Iterator[Node]:
        """The children of a node, in the order of creation."""
        return map(self.nodes.__getitem__, node.children)

    def state_before(self, node: Node) -> Node:
        """The state in which the call of a node was made; the root's is the root."""
        return self.nodes[node.parent or ROOT]

    def path(self, node: Node) -> list[Node]:
        """The nodes from the first call to `node`, the root left out."""
        path: list[Node] = []
        while node.parent is not None:
            path.append(node)
            node = self.nodes[node.parent]
        return path[::-1]

    def state_visits(self, node: Node) -> int:
        """N(s): the sum of N(s, a) over the calls made in this state."""
        return sum(child.visits for child in self.children(node))

    def backpropagate(self, node: Node, reward: float) -> None:
        """Add a reward to every node from the root to `node`, as in the paper.

        N += 1
        Q += (r - Q) / N
        """
        for visited in (self.root, *self.path(node)):
            visited.visits += 1
            visited.value += (reward - visited.value) / visited.visits
        self.changed.add(node.id)

    def occupy(self, node: Node, change: Literal[1, -1]) -> None:
        """Count a rollout in or out of every node from the root to `node`."""
        for visited in (self.root, *self.path(node)):
            visited.in_flight += change
        self.changed.add(node.id)

    def best_descent(self) -> Node | None:
        """The end of the path along the best Q, as far as r_post does not fall; `None` if no call is accepted.

        Ties go to more visits.
        """
        node = self.root
        while accepted := [child for child in self.children(node) if child.accepted]:
            best = max(
                accepted, key=lambda child: (child.value, child.visits, -child.id)
            )
            if (
                node.call
                and (best.r_post or 0.0)
                < FALL * self.cumulative_reward(node) / node.depth
            ):
                break
            node = best
        return node if node.call else None

    def cumulative_reward(self, node: Node) -> float:
        """R, the sum of r_post on the path to a node."""
        return sum(step.r_post for step in self.path(node) if step.r_post is not None)

    def path_value(self, node: Node) -> float:
        """The value of the path to an evaluated node: `goal * mean(r_post)`."""
        return (node.goal or 0.0) * self.cumulative_reward(node) / max(node.depth, 1)

    def best_first(self, candidates: list[Node]) -> list[Node]:
        """Candidates by r_pre, best first."""
        return sorted(
            candidates,
            key=lambda candidate: (candidate.r_pre, self.jitter(candidate)),
            reverse=True,
        )

    def jitter(self, node: Node) -> float:
        """A number in [0, 1) that depends on the seed and the node alone; breaks ties."""
        return random.Random(f"{self.config.seed}:{node.id}").random()  # noqa: S311 - no secret depends on it

    # --- what may be worked on, within the configured depth and number of proposals ---

    def runnable(self, node: Node) -> bool:
        """Whether a call may be run now, or a deferred one judged: a candidate that no rollout works on."""
        if (
            node.r_pre is None
            or node.observation is not None
            or node.r_post is not None
        ):
            return False
        return node.pruned is None and not node.closed and node.in_flight == 0

    def askable(self, node: Node) -> bool:
        """Whether a state may be asked for calls now: its call has run, and the model may have others to offer."""
        if (
            node.closed
            or node.proposing
            or node.pruned is not None
            or node.deferred
            or self.is_deepest(node)
        ):
            return False
        # Under Eq. 1 a call is judged before anything is built upon it.
        has_run = self.config.selection == "posterior" and node.observation is not None
        return self._may_ask(node) and (node.call is None or node.evaluated or has_run)

    def is_deepest(self, node: Node) -> bool:
        """Whether no call may follow: the path is as long as it may be."""
        return node.depth >= self.config.max_depth

    def spent(self, node: Node) -> bool:
        """Whether nothing is left of what a state has offered: every child is pruned or closed."""
        return all(
            child.pruned is not None or child.closed for child in self.children(node)
        )

    def close_upwards(self, node: Node) -> None:
        """Close a state that cannot be asked again and whose children are all spent, then its parents likewise."""
        for state in (*reversed(self.path(node)), self.root):
            if not state.closed:
                if self._may_ask(state) or state.proposing or not self.spent(state):
                    return
                state.closed = True

    def _may_ask(self, node: Node) -> bool:
        return not node.finished and node.proposals < self.config.max_proposals


class Work(NamedTuple):
    """Something that a rollout can do: ask a state for calls, or run a call."""

    kind: Literal["propose", "execute"]
    node: Node
