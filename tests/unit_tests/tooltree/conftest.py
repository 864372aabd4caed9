"""A small world for the pure core: it answers operations from a seed, without models, tools or time."""

# ruff: noqa: S311 - nothing random here is a secret

import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import pytest

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import (
    DONE_AT_START,
    MANY_QUESTIONS,
    OWN_STEP,
    Call,
    Effect,
    Frontier,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    PathPosterior,
    Prior,
    Spent,
    Tree,
    TreeSearch,
    Work,
)

EFFECTS = {"look": "read", "ask": "read", "send": "write", "paint": "sandboxed"}


@dataclass(frozen=True)
class PureWorld:
    """Random but fixed answers: calls of all effects, batches, stops, failures, dropped calls and missing scores.

    Args:
        seed: Everything follows from it and from the state asked about.
        trouble: How often, in [0, 1], a proposer fails, nobody gives a score or a tool raises.
        batches: Whether some replies hold calls that belong together.
        past: Whether past runs say how they went on.
    """

    seed: int
    trouble: float = 0.1
    batches: bool = True
    past: bool = False

    def answer(self, tree: Tree, operation: Operation) -> OperationOutcome:
        """What comes of an operation, using at most the model calls granted."""
        node = tree[operation.node]
        seen = [
            (step.label, None if step.id in operation.run or not step.observation else step.observation.content)
            for step in tree.path(node)
        ]
        draw = random.Random(f"{self.seed}:{operation.kind}:{seen}:{operation.candidates}:{operation.rollout}")
        asks = operation.kind != "execute"
        told = getattr(self, f"_{operation.kind}")(draw, operation) if asks else {}
        if self.past and operation.kind == "propose":
            told = {**told, "prior": self._prior(draw)}
        return OperationOutcome(
            operation=operation.id,
            kind=operation.kind,
            node=operation.node,
            observations=tuple(self._observation(draw, tree[each]) for each in operation.run),
            spent=Spent(
                model_calls=draw.randint(0, operation.model_calls) if asks else 0,
                tool_calls=len(operation.run),
                usage={"input_tokens": draw.randrange(50)},
            ),
            **told,
        )

    def _plan(self, _: random.Random, __: Operation) -> dict:
        return {"tools": tuple(EFFECTS)}

    def _propose(self, draw: random.Random, operation: Operation) -> dict:
        if draw.random() < self.trouble:
            return {"error": "the model failed"}
        if operation.own_step:
            return self._own_step(draw)
        actions = [self._action(draw, 0.1) for _ in range(draw.choice((0, 2, 3, 3, 4, 4, 5, 5, 5, 5)))]
        gained = draw.choice((None, 0, 1, 2)) if operation.extra_candidates else None
        told = {"reward": self._number(draw), "goal": self._number(draw)} if draw.random() < 0.5 else {}
        return {
            "actions": actions,
            "confidences": self._confidences(draw, actions),
            "dropped": ("bad(): refused",) * draw.randrange(2),
            "finished": not actions,
            "several": gained is None and len(actions) > 1,
            "gained": gained,
            "missing": ("a thing",) * draw.randrange(2),
            **told,
        }

    def _prior(self, draw: random.Random) -> Prior | None:
        shares = {tool: draw.random() for tool in EFFECTS} | {"done": draw.random(), "other": draw.random()}
        shares = {tool: share / sum(shares.values()) for tool, share in shares.items()}
        done, other = shares.pop("done"), shares.pop("other")
        runs = {tool: draw.randrange(9) for tool in EFFECTS}
        prior = Prior(shares=shares, runs=runs, done=done, other=other, known=sum(runs.values()), tools=len(EFFECTS))
        return draw.choice((prior, None))

    def _own_step(self, draw: random.Random) -> dict:
        if draw.random() < 0.7:
            actions = [self._action(draw, 0.4)]
            return {"actions": actions, "confidences": self._confidences(draw, actions)}
        named = [self._action(draw, 0.0) for _ in range(draw.choice((0, 0, 1, 2)))]
        return {
            "actions": named,
            "confidences": self._confidences(draw, named),
            "finished": True,
            "answer": {"type": "ai", "data": {"content": "all done"}},
            "goal": self._number(draw) if draw.random() < 0.5 else None,
            "missing": ("a thing",) * draw.randrange(2),
        }

    def _action(self, draw: random.Random, batches: float) -> tuple[Call, ...]:
        """A call, or with this probability several, whose deferred writes come last."""
        made = []
        for _ in range(draw.randint(2, 3) if self.batches and draw.random() < batches else 1):
            tool = draw.choice(list(EFFECTS))
            made.append(Call(tool=tool, arguments={"n": draw.randrange(3)}, effect=EFFECTS[tool]))
        return tuple(sorted(made, key=lambda call: call.effect == "write"))

    def _confidences(self, draw: random.Random, actions: list[tuple[Call, ...]]) -> tuple[float | None, ...]:
        return tuple(self._number(draw) for _ in actions) if draw.random() < 0.8 else ()

    def _score(self, draw: random.Random, operation: Operation) -> dict:
        return {"scores": [self._number(draw) for _ in operation.candidates]}

    def _observation(self, draw: random.Random, node: Node) -> Observation:
        if draw.random() < self.trouble:
            return Observation(content="down", kind="exception", transient=draw.random() < 0.5)
        sandboxed = node.call and node.call.effect == "sandboxed"
        return Observation(content=f"seen {draw.randrange(9)}", unchanged=bool(sandboxed) and draw.random() < 1 / 3)

    def _evaluate(self, draw: random.Random, _: Operation) -> dict:
        return {"reward": self._number(draw), "goal": self._number(draw)}

    def _number(self, draw: random.Random) -> float | None:
        return None if draw.random() < self.trouble else draw.random() ** 0.5


@dataclass(frozen=True, kw_only=True)
class TableWorld:
    """Answers operations from tables by the names of tools, which take no arguments.

    Args:
        offers: What is offered after the tools on the path, as names in one string, such as `"look ask"`, or
            `"look+ask"` for a batch; a list of such strings has one for each attempt, an exception is the error of the
            proposer. An agent's own step without calls, or with names after `"!"`, is an answer: the calls named are
            those that may still be needed.
        r_pre: Score before a call, 0.8 for a tool that is not listed.
        r_post: Score after a call, 0.8 for a tool that is not listed.
        goal: Goal score after a call, 0.1 for a tool that is not listed; `""` is the state before any call. With own
            steps it is what the agent says of the request when it answers, and nothing for a tool that is not listed.
        checks: What a check of an answer after a call says of the request, 0.1 for a tool that is not listed.
        missing: What an answer, or its check, says is missing after a call.
        effects: Effect of a tool, `read` for one that is not listed.
        idle: Sandboxed tools that leave the world as it was.
        of_path: Tools whose result depends on the path.
        transient: Tools that fail for a passing reason.
        past: What past runs did after the tools on the path, if anybody says so.
        spent: What each operation uses, by kind.
        seconds: How long each operation takes.
        fused: Whether scores come with the candidates.
    """

    offers: Mapping[tuple[str, ...], str | list[str] | Exception]
    r_pre: Mapping[str, float | None] = field(default_factory=dict)
    r_post: Mapping[str, float | None] = field(default_factory=dict)
    goal: Mapping[str, float | None] = field(default_factory=dict)
    checks: Mapping[str, float | None] = field(default_factory=dict)
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    idle: Collection[str] = ()
    of_path: Collection[str] = ()
    transient: Collection[str] = ()
    past: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)
    seconds: float = 0.0
    fused: bool = False

    def answer(self, tree: Tree, operation: Operation) -> OperationOutcome:
        """What the tables say."""
        node = tree[operation.node]
        return OperationOutcome(
            operation=operation.id,
            kind=operation.kind,
            node=operation.node,
            observations=tuple(self._observation(tree[each].call.tool) for each in operation.run),
            spent=self.spent.get(operation.kind, Spent()),
            elapsed=operation.elapsed + self.seconds,
            **self._found(tree, node, operation),
        )

    def _observation(self, tool: str) -> Observation:
        failed = {"kind": "exception", "transient": True} if tool in self.transient else {}
        return Observation(content=f"{tool} ran", unchanged=tool in self.idle, **failed)

    def _found(self, tree: Tree, node: Node, operation: Operation) -> dict[str, Any]:
        tool = node.call.tool if node.call else ""
        match operation.kind:
            case "propose":
                path = tuple(step.call.tool for step in tree.path(node))
                found = self._offered(path, operation)
                if known := self.past.get(path):
                    called = {call.tool for action in found["actions"] for call in action}
                    found["prior"] = Prior.of(known, called=called, tools=10)
                return found
            case "score":
                names = [tree[candidate].call.tool for candidate in operation.candidates]
                return {"scores": [self.r_pre.get(name, 0.8) for name in names]}
            case "evaluate" if node.answer is not None:
                return {"goal": self.checks.get(tool, 0.1), "missing": self.missing.get(tool, ())}
            case "evaluate":
                return {"reward": self.r_post.get(tool, 0.8), "goal": self.goal.get(tool, 0.1)}
            case "plan":
                return {"tools": ("kept",)}
            case _:
                return {}

    def _offered(self, path: tuple[str, ...], operation: Operation) -> dict[str, Any]:
        offered = self.offers.get(path, "")
        if isinstance(offered, Exception):
            return {"error": str(offered)}
        attempts = [offered] if isinstance(offered, str) else offered
        text = attempts[operation.attempt - 1] if operation.attempt <= len(attempts) else ""
        actions = [action.split("+") for action in text.removeprefix("!").split()]
        answers = operation.own_step and (not actions or text.startswith("!"))
        found: dict[str, Any] = {
            "actions": [
                [
                    Call(tool=name, arguments={}, effect=self.effects.get(name, "read"), of_path=name in self.of_path)
                    for name in names
                ]
                for names in actions
            ],
            "finished": not actions or answers,
        }
        tool = path[-1] if path else ""
        if self.fused:
            found["confidences"] = [self.r_pre.get(names[0], 0.8) for names in actions]
        if answers:
            found |= {"answer": {"content": f"after {tool}"}, "missing": self.missing.get(tool, ())}
        if answers or (self.fused and not operation.own_step):
            found |= {"goal": self.goal.get(tool), "reward": self.r_post.get(tool)}
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
    if isinstance(world, PureWorld) and search.config.selection != "posterior":
        world = replace(world, batches=False)  # Eq. 1 asks for single calls
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
            for operation in shuffle.sample(list(outstanding), k=shuffle.randint(0, len(outstanding))):
                ended.setdefault(operation.id, world.answer(search.tree, operation))
        oldest = outstanding.popleft()
        given.append(ended.pop(oldest.id, None) or world.answer(search.tree, oldest))
        search.tell(given[-1])


def rewards_below(tree: Tree, node: Node) -> list[float]:
    """Every reward given at a node or below it, by walking the tree."""
    own = [] if node.r_post is None else [node.r_post]
    return own + [reward for child in tree.children(node) for reward in rewards_below(tree, child)]


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
        search.budget.spent,
    )


EQ_1 = {"selection": "smoothed", "max_proposals": 2}
"""Settings of tests that say what Eq. 1 does."""


def searcher(*, costs: int = 0, **base: Any) -> Callable[..., TreeSearch]:
    """Runs searches in worlds of tables, one rollout at a time and with some settings that a test may change.

    A question to the judge costs so many model calls.
    """

    def run(tables, *, watch=lambda _: None, judge_calls=costs, begun=(), **settings):
        search = TreeSearch(
            SearchConfig(**{"parallel_rollouts": 1, **base, **settings}), judge_calls=judge_calls, **dict(begun)
        )
        explore(search, TableWorld(fused=search.config.pre_evaluation == "fused", **tables), watch=watch)
        return search

    return run


@pytest.fixture
def search_in():
    """Runs a search by Eq. 1 in a world of tables: `search_in({"offers": ...}, max_rollouts=3)`."""
    return searcher(**EQ_1)


@pytest.fixture
def likely_in():
    """The same, by the posterior with many questions and a judge that is not asked for nothing."""
    return searcher(costs=1, **MANY_QUESTIONS)


@pytest.fixture
def own_in():
    """The same, by the posterior with the agent's own step first and scores that come with the candidates."""
    return searcher(costs=1, **OWN_STEP)


@pytest.fixture(params=[EQ_1, MANY_QUESTIONS], ids=["smoothed", "posterior"])
def either_in(request):
    """The same, by either policy with many questions, for what holds under both."""
    return searcher(**request.param)


@pytest.fixture
def grow():
    """Adds an evaluated child: `grow(tree, parent, "look", r_pre=0.5, rewards=[0.2, 0.8])`."""

    def add(tree: Tree, parent: Node, tool: str, *, r_pre: float = 0.5, rewards: tuple[float, ...] = ()) -> Node:
        node = tree.add(parent, Call(tool=tool, arguments={}, effect="read"))
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

    def __init__(self, *, done_at_start: float = DONE_AT_START, **settings: Any) -> None:
        self.config = SearchConfig(**settings)
        self.tree = Tree()
        self.frontier = Frontier(self.tree, self.config)
        self.posterior = PathPosterior(self.config, self.tree, self.frontier, done_at_start=done_at_start)

    def offer(self, state: Node, *scores: float | None, effect: Effect = "read") -> list[Node]:
        """Let a state offer calls with these r_pre; one that nobody gave is `None`."""
        state.proposals += 1
        return self.name(state, *scores, effect=effect)

    def name(self, state: Node, *scores: float | None, effect: Effect = "read") -> list[Node]:
        """Add calls with these r_pre to the latest offer of a state."""
        offered = []
        for score in scores:
            call = Call(tool=f"t{len(self.tree)}", arguments={}, effect=effect)
            offered.append(self.tree.add(state, call))
            offered[-1].r_pre = 0.3 if score is None else score
            offered[-1].pre_scored = score is not None
        return offered

    def together(self, call: Node, *, effect: Effect = "read") -> Node:
        """Let another call be made in the same reply."""
        added = self.tree.add(call, Call(tool=f"t{len(self.tree)}", arguments={}, effect=effect), batched=True)
        added.r_pre, added.pre_scored = call.r_pre, call.pre_scored
        return added

    def run(self, call: Node, **observation: Any) -> Node:
        """Let a call have brought something back."""
        call.observation = Observation(**{"content": "seen", **observation})
        return call

    def silence(self, state: Node) -> Node:
        """Let a state be asked, and the model have no more calls."""
        state.proposals += 1
        state.finished = True
        return state

    def stop(self, state: Node, goal: float | None = None) -> Node:
        """Let the agent answer in a state, and say this of the request."""
        state.proposals += 1
        state.answer = {"content": "done"}
        state.goal = goal
        return state

    def judge(self, call: Node, r_post: float | None, goal: float | None) -> Node:
        """Score what a call has brought back."""
        call.post_scored, call.goal_scored = r_post is not None, goal is not None
        call.r_post = 0.4 if r_post is None else r_post
        call.goal = 0.5 if goal is None else goal
        return call

    def root(self) -> "Standing":
        """What is inferred of the tree as it is now."""
        self.tree.changed.update(range(len(self.tree)))
        best, work = self.posterior.best
        solution, end = self.posterior.solution
        return Standing(best, work, self.posterior.busy, solution, end)


class Standing(NamedTuple):
    """What is inferred of a whole tree: the best work, that in flight, and the most probable plan."""

    best: float
    work: Work | None
    busy: float
    solution: float
    end: int | None


@pytest.fixture
def sketch():
    """A tree to draw by hand, under many questions."""
    return Sketch(**MANY_QUESTIONS)


@pytest.fixture
def own():
    """A tree to draw by hand, under the agent's own step first."""
    return Sketch(**OWN_STEP)


@pytest.fixture(scope="session")
def sketch_with():
    """The class `Sketch`, for trees under other settings."""
    return Sketch
