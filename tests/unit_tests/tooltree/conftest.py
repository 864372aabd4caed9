"""A small world for the pure core: it answers operations from a seed, without models, tools or time."""

# ruff: noqa: S311 - nothing random here is a secret

import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from langchain_tooltree.tooltree.search import Operation, OperationOutcome, TreeSearch
from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.policies import (
    DONE_AT_START,
    Outlook,
    PosteriorPolicy,
)
from langchain_tooltree.tooltree.search.tree import (
    Action,
    Effect,
    Node,
    Observation,
    Tree,
)
from tests.internals.tooltree import BY_POSTERIOR

EFFECTS = {"look": "read", "ask": "read", "send": "write", "paint": "sandboxed"}


@dataclass(frozen=True)
class PureWorld:
    """Random but fixed answers: calls of all effects, stops, failures, dropped calls and missing scores.

    Args:
        seed: Everything follows from it and from the state asked about.
        trouble: How often, in [0, 1], a proposer fails, nobody gives a score or a tool raises.
    """

    seed: int
    trouble: float = 0.1

    def answer(self, tree: Tree, operation: Operation) -> OperationOutcome:
        """What comes of an operation, using at most the model calls granted."""
        node = tree[operation.node]
        running = operation.node if operation.run else None
        seen = [
            (
                step.label,
                None
                if step.id == running or not step.observation
                else step.observation.content,
            )
            for step in tree.path(node)
        ]
        draw = random.Random(
            f"{self.seed}:{operation.kind}:{seen}:{operation.candidates}:{operation.rollout}"
        )
        asks = operation.kind != "execute"
        told = getattr(self, f"_{operation.kind}")(draw, operation) if asks else {}
        return OperationOutcome(
            operation.id,
            observation=self._observation(draw) if operation.run else None,
            model_calls=draw.randint(0, operation.model_calls) if asks else 0,
            tokens=draw.randrange(50),
            **told,
        )

    def _propose(self, draw: random.Random, operation: Operation) -> dict:
        if draw.random() < self.trouble:
            return {"error": "the model failed"}
        calls = [
            self._call(draw) for _ in range(draw.choice((0, 2, 3, 3, 4, 4, 5, 5, 5, 5)))
        ]
        told = (
            {"reward": self._number(draw), "goal": self._number(draw)}
            if draw.random() < 0.5
            else {}
        )
        return {
            "calls": calls,
            "confidences": tuple(self._number(draw) for _ in calls)
            if draw.random() < 0.8
            else (),
            "dropped": ("bad(): refused",) * draw.randrange(2),
            "finished": not calls,
            "missing": ("a thing",) * draw.randrange(2),
            **told,
        }

    def _call(self, draw: random.Random) -> Action:
        tool = draw.choice(list(EFFECTS))
        return Action(tool, {"n": draw.randrange(3)}, EFFECTS[tool])

    def _score(self, draw: random.Random, operation: Operation) -> dict:
        return {"scores": [self._number(draw) for _ in operation.candidates]}

    def _observation(self, draw: random.Random) -> Observation:
        if draw.random() < self.trouble:
            return Observation(content="down", kind="exception")
        return Observation(content=f"seen {draw.randrange(9)}")

    def _evaluate(self, draw: random.Random, _: Operation) -> dict:
        return {"reward": self._number(draw), "goal": self._number(draw)}

    def _number(self, draw: random.Random) -> float | None:
        return None if draw.random() < self.trouble else draw.random() ** 0.5


@dataclass(frozen=True, kw_only=True)
class TableWorld:
    """Answers operations from tables by the names of tools, which take no arguments.

    Args:
        offers: What is offered after the tools on the path, as names in one string, such as `"look ask"`; a list of
            such strings has one for each attempt, an exception is the error of the proposer.
        r_pre: Score before a call, 0.8 for a tool that is not listed.
        r_post: Score after a call, 0.8 for a tool that is not listed.
        goal: Goal score after a call, 0.1 for a tool that is not listed.
        missing: What a reply says is missing after a call.
        effects: Effect of a tool, `read` for one that is not listed.
        failing: Tools that raise.
        spent: The `model_calls` and `tokens` of each operation, by kind.
        fused: Whether scores come with the candidates.
    """

    offers: Mapping[tuple[str, ...], str | list[str] | Exception]
    r_pre: Mapping[str, float | None] = field(default_factory=dict)
    r_post: Mapping[str, float | None] = field(default_factory=dict)
    goal: Mapping[str, float | None] = field(default_factory=dict)
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    failing: Collection[str] = ()
    spent: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fused: bool = False

    def answer(self, tree: Tree, operation: Operation) -> OperationOutcome:
        """What the tables say."""
        node = tree[operation.node]
        return OperationOutcome(
            operation.id,
            observation=self._observation(node.call.tool) if operation.run else None,
            **self.spent.get(operation.kind, {}),
            **self._found(tree, node, operation),
        )

    def _observation(self, tool: str) -> Observation:
        return Observation(
            content=f"{tool} ran", kind="exception" if tool in self.failing else "ok"
        )

    def _found(self, tree: Tree, node: Node, operation: Operation) -> dict[str, Any]:
        tool = node.call.tool if node.call else ""
        match operation.kind:
            case "propose":
                return self._offered(
                    tuple(step.call.tool for step in tree.path(node)), operation
                )
            case "score":
                names = [
                    tree[candidate].call.tool for candidate in operation.candidates
                ]
                return {"scores": [self.r_pre.get(name, 0.8) for name in names]}
            case "evaluate":
                return {
                    "reward": self.r_post.get(tool, 0.8),
                    "goal": self.goal.get(tool, 0.1),
                }
            case _:
                return {}

    def _offered(self, path: tuple[str, ...], operation: Operation) -> dict[str, Any]:
        offered = self.offers.get(path, "")
        if isinstance(offered, Exception):
            return {"error": str(offered)}
        attempts = [offered] if isinstance(offered, str) else offered
        text = (
            attempts[operation.attempt - 1]
            if operation.attempt <= len(attempts)
            else ""
        )
        names, tool = text.split(), path[-1] if path else ""
        found: dict[str, Any] = {
            "calls": [
                Action(name, {}, self.effects.get(name, "read")) for name in names
            ],
            "finished": not names,
        }
        if self.fused:
            found["confidences"] = [self.r_pre.get(name, 0.8) for name in names]
            found |= {
                "goal": self.goal.get(tool),
                "reward": self.r_post.get(tool),
                "missing": self.missing.get(tool, ()),
            }
        return found


def explore(
    search: TreeSearch,
    world: PureWorld | TableWorld,
    *,
    shuffle: random.Random | None = None,
    watch: Callable[[list[Operation]], None] = lambda _: None,
) -> list[OperationOutcome]:
    """Run a search to its end.

    Args:
        search: The search.
        world: Answers its operations.
        shuffle: Lets outstanding operations end in any order; their outcomes are given in order all the same.
        watch: Called after every `ask`, with the operations it returned.

    Returns:
        The outcomes, in the order given.
    """
    outstanding: deque[Operation] = deque()
    ended: dict[int, OperationOutcome] = {}
    given: list[OperationOutcome] = []
    while True:
        launched = search.ask()
        watch(launched)
        outstanding.extend(launched)
        if not outstanding:
            return given
        if shuffle:
            for operation in shuffle.sample(
                list(outstanding), k=shuffle.randint(0, len(outstanding))
            ):
                ended.setdefault(operation.id, world.answer(search.tree, operation))
        oldest = outstanding.popleft()
        given.append(ended.pop(oldest.id, None) or world.answer(search.tree, oldest))
        search.tell(given[-1])


def rewards_below(tree: Tree, node: Node) -> list[float]:
    """Every reward given at a node or below it, by walking the tree."""
    own = [] if node.r_post is None else [node.r_post]
    return own + [
        reward for child in tree.children(node) for reward in rewards_below(tree, child)
    ]


@pytest.fixture(scope="session")
def pure_world():
    """The class `PureWorld`."""
    return PureWorld


@pytest.fixture(scope="session")
def table_world():
    """The class `TableWorld`."""
    return TableWorld


@pytest.fixture(scope="session")
def run_pure():
    """The function `explore`."""
    return explore


@pytest.fixture(scope="session")
def all_rewards():
    """The function `rewards_below`."""
    return rewards_below


@pytest.fixture(scope="session")
def picture():
    """A search as plain data, for comparing two of them."""
    return lambda search: (
        [asdict(node) for node in search.tree.nodes],
        search.stop_reason,
        search.rollouts,
        search.cache_hits,
        search.spent,
    )


EQ_1 = {"selection": "smoothed", "max_proposals": 2}
"""Settings of tests that say what Eq. 1 does."""


def searcher(*, costs: int = 0, **base: Any) -> Callable[..., TreeSearch]:
    """Runs searches in worlds of tables, one rollout at a time and with some settings that a test may change.

    A question to the judge costs so many model calls.
    """

    def run(
        tables,
        *,
        watch=lambda _: None,
        judge_calls=costs,
        is_under_way=False,
        **settings,
    ):
        search = TreeSearch(
            KernelConfig(**{"parallel_rollouts": 1, **base, **settings}),
            judge_calls=judge_calls,
            is_under_way=is_under_way,
        )
        explore(
            search,
            TableWorld(fused=search.config.selection == "posterior", **tables),
            watch=watch,
        )
        return search

    return run


@pytest.fixture
def search_in():
    """Runs a search by Eq. 1 in a world of tables: `search_in({"offers": ...}, max_rollouts=3)`."""
    return searcher(**EQ_1)


@pytest.fixture
def likely_in():
    """The same, by the posterior."""
    return searcher(**BY_POSTERIOR)


@pytest.fixture
def grow():
    """Adds an evaluated child: `grow(tree, parent, "look", r_pre=0.5, rewards=[0.2, 0.8])`."""

    def add(
        tree: Tree,
        parent: Node,
        tool: str,
        *,
        r_pre: float = 0.5,
        rewards: tuple[float, ...] = (),
    ) -> Node:
        node = tree.add(parent, Action(tool, {}, "read"))
        node.r_pre = r_pre
        for reward in rewards:
            node.r_post = reward
            tree.backpropagate(node, reward)
        return node

    return add


class Sketch:
    """A tree drawn by hand, and the posterior over it.

    Args:
        done_at_start: How probably the request is fulfilled before any call.
        **settings: Of the search that it stands for.
    """

    def __init__(
        self, *, done_at_start: float = DONE_AT_START, **settings: Any
    ) -> None:
        self.config = KernelConfig(**settings)
        self.tree = Tree(self.config)
        self.posterior = PosteriorPolicy(self.tree, done_at_start=done_at_start)

    def offer(
        self, state: Node, *scores: float | None, effect: Effect = "read"
    ) -> list[Node]:
        """Let a state offer calls with these r_pre; one that nobody gave is `None`."""
        state.proposals += 1
        return self.name(state, *scores, effect=effect)

    def name(
        self, state: Node, *scores: float | None, effect: Effect = "read"
    ) -> list[Node]:
        """Add calls with these r_pre to the latest offer of a state."""
        offered = []
        for score in scores:
            call = Action(tool=f"t{len(self.tree)}", arguments={}, effect=effect)
            offered.append(self.tree.add(state, call))
            offered[-1].r_pre = 0.3 if score is None else score
            offered[-1].pre_scored = score is not None
        return offered

    def run(self, call: Node, **observation: Any) -> Node:
        """Let a call have brought something back."""
        call.observation = Observation(**{"content": "seen", **observation})
        return call

    def silence(self, state: Node) -> Node:
        """Let a state be asked, and the model have no more calls."""
        state.proposals += 1
        state.finished = True
        return state

    def judge(self, call: Node, r_post: float | None, goal: float | None) -> Node:
        """Score what a call has brought back."""
        call.post_scored, call.goal_scored = r_post is not None, goal is not None
        call.r_post = 0.4 if r_post is None else r_post
        call.goal = 0.5 if goal is None else goal
        return call

    def root(self) -> Outlook:
        """What is inferred of the tree as it is now."""
        self.tree.changed.update(range(len(self.tree)))
        return self.posterior.outlook()


@pytest.fixture
def sketch():
    """A tree to draw by hand."""
    return Sketch(**BY_POSTERIOR)


@pytest.fixture(scope="session")
def sketch_with():
    """The class `Sketch`, for trees under other settings."""
    return Sketch
