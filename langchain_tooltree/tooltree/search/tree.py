"""The search tree: states, the calls between them, values, and what may be worked on. Pure.

A node is a state: the dialogue plus the calls made on the way here and their observations, as in the paper. The
edge into a node and the node itself are one object, so `visits` and `value` are N(s, a) and Q(s, a) of the edge that
leads here.
"""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic_core import core_schema

from langchain_tooltree.experience.records import call_key
from langchain_tooltree.text import digest, shortened
from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.prior import Prior
from langchain_tooltree.tooltree.signed_reasoning import SignedReasoning

Effect = Literal["read", "write", "sandboxed"]
"""`read` may run while searching, `write` never does, `sandboxed` changes a fork of the user's world only."""

Pruned = Literal["pre_evaluation", "top_k", "post_evaluation"]

ROOT = 0
"""Identifier of the root node."""

MOST_WORDS = 100_000
"""Characters of questions that a tree keeps: our templates have 6,000 in all, and the lists in them vary."""

WORDS_DIGITS = 8
"""Hexadecimal digits by which a paragraph of a question is known: of 100, two share theirs with a chance of 1e-6."""

WORLD_DIGITS = 16
"""Hexadecimal digits of a world's version: 64 bits, so two of a million worlds are mistaken with a chance of 3e-8."""


class Call(BaseModel):
    """A concrete tool call: the action of the search."""

    model_config = ConfigDict(frozen=True)

    tool: str  # name of the tool
    arguments: dict[str, Any]  # JSON-like, validated against the tool's schema; injected ones are not among them
    effect: Effect  # what running it does to the world
    signed_reasoning: SignedReasoning | None = None  # what the call has to come back with, if its model signs
    said: str = ""  # what the agent said with the calls of its reply, if this is the first of them
    of_path: bool = False  # whether it brings back something else on every path, so that no other result stands for it

    @cached_property
    def key(self) -> str:
        """Canonical text of tool and arguments: equal for calls that mean the same."""
        return call_key(self.tool, self.arguments)

    @cached_property
    def label(self) -> str:
        """The call in one line, for people."""
        written = (
            f"{name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in self.arguments.items()
        )
        return f"{self.tool}({', '.join(written)})"


class _AsItIs:
    """Marks a field whose objects stay what they are in plain data; pydantic would take models in it apart."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> core_schema.CoreSchema:
        return core_schema.any_schema(serialization=core_schema.to_string_ser_schema(when_used="json"))


class Observation(BaseModel):
    """What a tool call brought back.

    `kind` is `"ok"`, or says why there is no result: the tool raised, took too long, refused its arguments, or cannot
    run here.
    """

    model_config = ConfigDict(frozen=True)

    content: str | list[Any]  # text, or LangChain content blocks
    kind: Literal["ok", "exception", "timeout", "invalid_arguments", "unsupported"] = "ok"
    unchanged: bool = False  # whether a call that might have changed the sandbox has left it as it was
    wrote: bool = False  # whether a call that was taken for a read has changed the sandbox
    transient: bool = False  # whether the same call may succeed next time; such a result is not reused
    artifact: Annotated[Any, _AsItIs] = None  # what the tool returned for programs, if it did: any object
    message: Annotated[Any, _AsItIs] = None  # the tool's own message, content and artifact aside, if it says more
    lost: str = ""  # what of the result the host's checkpointer refuses, and why
    snapshot: Any = None  # the sandbox after the call, if it can be stored


@dataclass(slots=True, eq=False)  # a node equals itself alone, so finding one in a list compares no fields
class Node:
    """A state of the search and the call that led to it."""

    id: int  # position in the tree, in the order of creation; the root is 0
    parent: int | None = None  # identifier of the parent, `None` for the root
    depth: int = 0  # calls from the root to here
    call: Call | None = None  # the call that leads here, `None` for the root
    world: str = ""  # version of the world after the call: a hash of the sandboxed writes on the path
    r_pre: float | None = None  # score before execution in [0, 1]; `None` until the judge was asked
    r_post: float | None = None  # score of the observation in [0, 1]; `None` until evaluated
    goal: float | None = None  # whether the task is done here, in [0, 1]; `None` if not scored
    pre_scored: bool = True  # whether `r_pre` came from the judge; otherwise it is the threshold
    post_scored: bool = True  # whether `r_post` came from the judge; otherwise it is the parent's mean
    goal_scored: bool = True  # whether `goal` came from the judge; otherwise it is the parent's
    pre_reason: str = ""  # why the judge gave `r_pre`, if it said so
    post_reason: str = ""  # why it gave `r_post` and `goal`
    observation: Observation | None = None  # `None` before execution, and for a deferred write
    visits: int = 0  # N(s, a): rewards propagated through here
    value: float = 0.0  # Q(s, a): their mean
    in_flight: int = 0  # rollouts that are below here now (WU-UCT's unobserved samples)
    children: list[int] = field(default_factory=list)  # identifiers of the children, in the order of creation
    batched: bool = False  # whether the call was made in the same reply as its parent's: neither goes without the other
    answer: dict[str, Any] | None = None  # the agent's reply in this state if it made no call, as plain data
    missing: tuple[str, ...] = ()  # what of the request is not done here, in words
    offer: int = 0  # which proposal of its parent the call came with, from 1; 0 for the root
    proposals: int = 0  # how often this state was asked for calls
    finished: bool = False  # whether the model, asked for calls here, had none
    proposing: bool = False  # whether such a question is under way
    evaluating: bool = False  # whether the observation is being judged
    dropped: list[str] = field(default_factory=list)  # calls proposed here that could not become candidates, and why
    prior: Prior | None = None  # how past runs went on from here, if anybody has said so
    advice: str = ""  # what a reflection on what was seen here has said, if one was asked for
    odds: float = 1.0  # likelihood ratio of the call, or of those of its reply, by what past runs did
    confirmed: bool = False  # whether enough past runs made the call here that no judge need see it
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

    @property
    def acceptable(self) -> bool:
        """Whether a plan may end here unjudged: a call that was scored before it ran, and not pruned."""
        return self.observation is not None and self.pre_scored and self.r_post is None and self.pruned is None


@dataclass(slots=True)
class TreeChange:
    """What one operation of a search brought, and what it cost."""

    rollout: int  # number of the rollout that it belonged to, from 0; -1 before the first
    kind: str  # see `Operation`
    node: int  # the state that was asked, or the call that was run or judged
    best: int | None  # end of the best path that was known before it
    model_calls: int
    tokens: int
    nodes: int = 0  # how many nodes there are after it
    ran: list[int] = field(default_factory=list)  # nodes that have observations since, run or known from elsewhere
    pruned: list[int] = field(default_factory=list)  # nodes that are out of the search since
    asked: list[list[str]] = field(default_factory=list)  # questions to models, as paragraphs: keys of `Tree.words`


class Tree:
    """All nodes of one search, by identifier, and how they came about.

    `changed` are the identifiers of nodes that changed since the posterior last looked. The methods of a tree enter
    what they change; other code that sets a field of a node enters that node. The seed is that of the tie-breaking.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._seed = seed
        self._jitter: dict[int, float] = {}
        self.changed: set[int] = set()
        self.history: list[TreeChange] = []  # of this search, without what it went on from
        self.words: dict[str, str] = {}  # paragraphs of what models were asked, by digest; empty where no room was left
        self._room = MOST_WORDS
        self._reads: dict[int, frozenset[tuple[str, str]]] = {}
        self._reached: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self._writers: set[str] = set()  # tools that were taken for reads and have changed the sandbox
        self.adopt([Node(ROOT)])

    def adopt(self, nodes: list[Node]) -> None:
        """Put other nodes, the root first, in the place of those there are."""
        self.nodes = nodes
        self.root = nodes[ROOT]
        self.changed.update(range(len(nodes)))
        self._reads, self._reached = {}, {}
        for node in nodes:
            self._note(node)
            if node.call and node.observation and node.observation.wrote:
                self._writers.add(node.call.tool)

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, parent: Node, call: Call, *, batched: bool = False) -> Node:
        """Append a child that has no score yet."""
        world = _world_after(parent.world, call)
        node = Node(
            len(self.nodes),
            parent=parent.id,
            depth=parent.depth + 1,
            call=call,
            world=world,
            batched=batched,
            offer=parent.offer if batched else parent.proposals,
        )
        self.nodes.append(node)
        self._note(node)
        parent.children.append(node.id)
        self.changed.add(node.id)
        return node

    def repetition(self, state: Node, call: Call, *, merging: bool = True) -> str | None:
        """Why a call in a state would only repeat another one, if so.

        It repeats a child of the state, or a call on the path that changed nothing, made while the world was the same,
        or, where states are merged, it leads to one that another path leads to: the world and the reads are the same,
        in another order. A write may be meant twice, so it repeats none that changed the world.
        """
        if any(child.call and child.call.key == call.key for child in self.children(state)):
            return "already proposed here"
        for step in self.path(state):
            unchanged = step.parent is not None and step.world == self.nodes[step.parent].world
            if unchanged and step.world == state.world and step.call and step.call.key == call.key:
                return "already made on this path"
        if not merging or call.effect != "read":
            return None
        if (state.world, self._reads[state.id] | {(state.world, call.key)}) in self._reached:
            return "made on another path to the same state"
        return None

    def _note(self, node: Node) -> None:
        """Enter which state a node stands for."""
        reads = frozenset[tuple[str, str]]() if node.parent is None else self._reads[node.parent]
        if node.call and node.call.effect == "read":
            reads |= {(node.world, node.call.key)}
        self._reads[node.id] = reads
        self._reached.setdefault((node.world, reads), node.id)

    def batch(self, head: Node) -> list[Node]:
        """The nodes of the calls that were made in the same reply as that of `head`, in order, `head` the first."""
        batch = [head]
        while batch[-1].children and (following := self.nodes[batch[-1].children[0]]).batched:
            batch.append(following)
        return batch

    def batch_up_to(self, node: Node) -> list[Node]:
        """A node and those of the calls before its own in the same reply, from the latest to the first."""
        batch = [node]
        while batch[-1].batched and batch[-1].parent is not None:
            batch.append(self.nodes[batch[-1].parent])
        return batch

    def reply_of(self, node: Node) -> list[Node]:
        """The nodes of the calls that were made in one reply with that of a node, in order."""
        return self.batch(self.batch_up_to(node)[-1])

    def enter_world(self, node: Node, world: str) -> None:
        """Take in which world a call has led to; the calls of the same reply after it are made there."""
        node.world = world
        self._note(node)
        for before, after in pairwise(self.batch(node)):
            if after.call:
                after.world = _world_after(before.world, after.call)
                self._note(after)

    def begin_change(self, rollout: int, kind: str, node: Node, best: int | None, cost: tuple[int, int]) -> TreeChange:
        """Begin to keep what an operation brings, for so many model calls and tokens."""
        self.history.append(TreeChange(rollout, kind, node.id, best, *cost))
        return self.history[-1]

    def in_paragraphs(self, questions: Iterable[str]) -> dict[str, Any]:
        """Questions to models as an outcome says them: most of their paragraphs stand in others before."""
        asked = [[(digest(each, WORDS_DIGITS), shortened(each)) for each in text.split("\n\n")] for text in questions]
        words = {key: each for question in asked for key, each in question if key not in self.words}
        return {"asked": [[key for key, _ in question] for question in asked], "words": words}

    def keep_words(self, words: Mapping[str, str]) -> None:
        """Keep paragraphs of questions, each once, as far as there is room."""
        for key, text in words.items():
            if key not in self.words:
                self.words[key] = text if len(text) <= self._room else ""
                self._room -= len(self.words[key])

    def note(self, what: Literal["ran", "pruned"], node: Node) -> None:
        """Keep that a node has its observation, or is out of the search, by the latest operation."""
        if self.history:  # otherwise it was so from the beginning
            getattr(self.history[-1], what).append(node.id)

    def turn_into_write(self, node: Node) -> None:
        """Take in that a call which was taken for a read has changed the sandbox: from now on its tool writes."""
        if node.call and node.call.effect == "read":
            self._writers.add(node.call.tool)
            node.call = self.as_known(node.call)
            self.enter_world(node, _world_after(self.state_before(node).world, node.call))

    def as_known(self, call: Call) -> Call:
        """A call by what has been found out about its tool."""
        found_out = call.effect == "read" and call.tool in self._writers
        return call.model_copy(update={"effect": "sandboxed"}) if found_out else call

    def batch_goes_on(self, node: Node) -> bool:
        """Whether a call of the same reply follows that of a node, so that nobody is asked in between."""
        return bool(node.children) and self.nodes[node.children[0]].batched

    def children(self, node: Node) -> Iterator[Node]:
        """The children of a node, in the order of creation."""
        return map(self.nodes.__getitem__, node.children)

    def parent(self, node: Node) -> Node | None:
        """The parent of a node, `None` for the root."""
        return None if node.parent is None else self.nodes[node.parent]

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
        """Add a reward to every node from the root to `node`: N += 1, Q += (r - Q) / N, as in the paper."""
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
        """The end of the path along the best Q, ties to more visits; `None` if no call is accepted."""
        node = self.root
        while accepted := [child for child in self.children(node) if child.accepted]:
            node = max(accepted, key=lambda child: (child.value, child.visits, -child.id))
        return node if node.call else None

    def path_value(self, node: Node) -> float:
        """Goal score times mean r_post of the path to an evaluated node."""
        rewards = [step.r_post for step in self.path(node) if step.r_post is not None]
        return (node.goal or 0.0) * (sum(rewards) / len(rewards) if rewards else 0.0)

    def best_first(self, candidates: list[Node]) -> list[Node]:
        """Candidates by r_pre, best first."""
        return sorted(candidates, key=lambda candidate: (candidate.r_pre, self.jitter(candidate)), reverse=True)

    def jitter(self, node: Node) -> float:
        """A number in [0, 1) that depends on the seed and the node alone; breaks ties."""
        if node.id not in self._jitter:
            chance = random.Random(f"{self._seed}:{node.id}").random()  # noqa: S311 - no secret depends on it
            self._jitter[node.id] = chance
        return self._jitter[node.id]


def _world_after(world: str, call: Call) -> str:
    return digest(f"{world}\n{call.key}", WORLD_DIGITS) if call.effect == "sandboxed" else world


class Work(NamedTuple):
    """Something that a rollout can do: ask a state for calls, run a call, or judge what one has brought back."""

    kind: Literal["propose", "execute", "evaluate"]
    node: Node


class Openings(NamedTuple):
    """Whether a call may be run, a state asked, an observation judged now, and whether a plan may end here."""

    run: bool
    ask: bool
    judge: bool
    end: bool


class Frontier:
    """The open ends of a tree, within the configured depth and number of proposals."""

    def __init__(self, tree: Tree, config: SearchConfig) -> None:
        self._tree = tree
        self._config = config
        self._fused = config.pre_evaluation == "fused"
        self._judged_first = config.selection != "posterior" or config.post_evaluation == "always"

    def openings(self, node: Node) -> Openings:
        """What may be done at a node."""
        return Openings(self.runnable(node), self.askable(node), self.judgeable(node), self._may_end(node))

    def runnable(self, node: Node) -> bool:
        """Whether a call may be run now, or a deferred one judged: a candidate that no rollout works on."""
        if node.r_pre is None or node.observation is not None or node.r_post is not None or node.batched:
            return False
        if node.deferred and (self._fused or node.confirmed):
            return False
        return node.pruned is None and not node.closed and node.in_flight == 0

    def askable(self, node: Node) -> bool:
        """Whether a state may be asked for calls now: its call has run, and the model may have others to offer."""
        if node.closed or node.proposing or node.pruned is not None or node.deferred or self.is_deepest(node):
            return False
        return self._may_ask(node) and self._reached(node)

    def judgeable(self, node: Node) -> bool:
        """Whether what a call has brought back may be judged now."""
        if node.pruned is not None or node.evaluating:
            return False
        if self._fused or node.answer is not None:
            return node.answer is not None and node.goal is None
        return node.r_post is None and self._ran(node)

    def is_deepest(self, node: Node) -> bool:
        """Whether no call may follow: the path is as long as it may be."""
        return node.depth >= self._config.max_depth

    def spent(self, node: Node) -> bool:
        """Whether nothing is left of what a state has offered: every child is pruned or closed."""
        return all(child.pruned is not None or child.closed for child in self._tree.children(node))

    def close_upwards(self, node: Node | None) -> None:
        """Close a state that cannot be asked again and whose children are all spent, then its parents likewise."""
        while node is not None:
            if not node.closed:
                if self._may_ask(node) or node.proposing or not self.spent(node):
                    return
                node.closed = True
                self._tree.changed.add(node.id)
            node = self._tree.parent(node)

    def _may_end(self, node: Node) -> bool:
        """Whether a plan may end at a node."""
        if node.pruned is not None or (self._tree.batch_goes_on(node) and not node.deferred):
            return False
        if not self._fused and node.answer is None and not (node.deferred and node.confirmed):
            # Writes of one reply are judged at the last of them first, the others when the plan would be returned.
            end = self._tree.batch(node)[-1] if node.deferred else node
            return node.call is not None and (end.accepted or end.acceptable)
        if node.deferred:
            return node.r_pre is not None
        return node.answer is not None or node.observation is not None

    def _may_ask(self, node: Node) -> bool:
        return not self._tree.batch_goes_on(node) and not node.finished and node.proposals < self._config.max_proposals

    def _reached(self, node: Node) -> bool:
        if node.call is None or node.r_post is not None:
            return True
        if self._fused:
            return self._ran(node)
        # What has failed is judged before anything is built upon it.
        fine = node.observation is not None and node.observation.kind == "ok"
        return fine and not self._judged_first and self._ran(node)

    def _ran(self, node: Node) -> bool:
        """Whether a call has run, and those made before it in the same reply, some of whose results may be known."""
        return all(each.observation is not None for each in self._tree.batch_up_to(node))
