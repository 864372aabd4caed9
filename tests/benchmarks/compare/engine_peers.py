"""The engines of peers, searching with a model, a judge and tools that cost nothing."""

import asyncio
import itertools
import sys
import tracemalloc
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tooltree import Config, LLMProvider, MCTSNode, MCTSPlanner, TokenUsage, Tool
from tooltree.core.cache import ResultCache
from tooltree.evaluation.post_evaluator import PostEvaluator
from tooltree.evaluation.pre_evaluator import PreEvaluator
from tooltree.tools.executor import ToolExecutor
from tooltree.tools.registry import ToolRegistry
from treequest import ABMCTSA

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import (
    Evaluate,
    Method,
    Propose,
    Question,
    Run,
    Score,
)
from tests.benchmarks.compare.engine_ours import NOT_DONE, OFFERED, PROMISING, REQUEST
from tests.benchmarks.compare.simulation import State


class _FreeProvider(LLMProvider):
    """Drafts new places and rates every call alike."""

    def __init__(self) -> None:
        self.usage = TokenUsage()
        self.prompts: Counter[int] = Counter()
        self._places = itertools.count()

    async def complete(self, messages: Any, **_: Any) -> str:
        return "Done."

    async def complete_json(self, messages: Any, **_: Any) -> dict[str, Any]:
        self.prompts[0] += 1
        return {"place": next(self._places), "score": PROMISING}


@dataclass
class ToolTreeMCTSRun:
    """A search of `tooltree-mcts` that is over; see `engine.Run`."""

    provider: _FreeProvider
    root: MCTSNode
    rollouts: int
    nodes: int

    @property
    def payload(self) -> int:
        held, outputs = [self.root], 0
        while held:
            node = held.pop()
            held.extend(node.children.values())
            outputs += sys.getsizeof(node.tool_output) if node.is_executed else 0
        return outputs

    def bare(self) -> None:
        async def calls() -> None:
            for _ in range(self.provider.prompts[0]):
                await self.provider.complete_json([])
            for place in range(self.rollouts):
                await _look(place)

        asyncio.run(calls())


class _Watched(MCTSPlanner):
    """The package's search; it keeps its root where it can be seen."""

    root: MCTSNode

    def _select(self, root: MCTSNode) -> MCTSNode | None:
        self.root = root
        return super()._select(root)


def tooltree_mcts_engine(rollouts: int) -> ToolTreeMCTSRun:
    """Search with `tooltree-mcts`, as many drafts a node as our own search gets proposals."""
    provider = _FreeProvider()
    tools = ToolRegistry()
    for number in range(OFFERED):
        tools.register(
            Tool(
                f"look_{number}",
                "Look at a place.",
                {"place": {"type": "integer"}},
                _look,
            )
        )
    config = Config(max_rollouts=rollouts, early_stop_patience=rollouts)
    judges = PreEvaluator(provider), PostEvaluator(provider)
    search = _Watched(config, tools, *judges, ToolExecutor(), ResultCache(), provider)
    result = asyncio.run(search.search(REQUEST))
    return ToolTreeMCTSRun(
        provider, search.root, result.total_rollouts, result.tree_stats["total_nodes"]
    )


async def _look(place: int, score: float = 0.0) -> str:
    return f"Nothing at {place}."


@dataclass
class ABMCTSRun:
    """A search of AB-MCTS-A that is over; see `engine.Run`."""

    tree: Any
    rollouts: int

    @property
    def nodes(self) -> int:
        return self.rollouts

    @property
    def payload(self) -> int:
        return sum(sys.getsizeof(place) for place in range(self.rollouts))

    def bare(self) -> None:
        """A node is handed over as it is."""


def ab_mcts_engine(rollouts: int) -> ABMCTSRun:
    """Search with AB-MCTS-A of `treequest`."""
    algorithm = ABMCTSA()
    tree = algorithm.init_tree()
    for place in range(rollouts):
        tree, [trial] = algorithm.ask_batch(tree, 1, ["look"])
        tree = algorithm.tell(tree, trial.trial_id, (place, PROMISING))
    return ABMCTSRun(tree, rollouts)


@dataclass
class _FreeDesk:
    """A desk where every call is new and alike; `keep` is not asked for."""

    start: State = field(
        default_factory=lambda: State(
            None, None, "", 0, 0, aligned=True, done=False, right=None, objects=b""
        )
    )
    asked: list[Question] = field(default_factory=list)
    simulation: Any = field(
        default_factory=lambda: SimpleNamespace(
            task=SimpleNamespace(id="engine", request=REQUEST)
        )
    )
    places: Any = field(default_factory=itertools.count)

    def keep(self, state: State) -> None:
        """Whatever it would return."""

    def answer(self, question: Question) -> Any:
        match question:
            case Propose():
                return [
                    PlainCall("look", {"place": next(self.places)})
                    for _ in range(OFFERED)
                ]
            case Score(calls=calls):
                return [PROMISING] * len(calls)
            case Run(before, call):
                after = before.children.get(call.key)
                if after is None:
                    seen = f"Nothing at {call.arguments['place']}."
                    place = {
                        "aligned": True,
                        "done": False,
                        "right": None,
                        "objects": b"",
                    }
                    after = before.children[call.key] = State(
                        before, call, seen, before.depth + 1, 0, **place
                    )
                return after
            case Evaluate():
                return PROMISING, NOT_DONE


@dataclass
class DeskRun:
    """A method that has worked long enough; see `engine.Run`."""

    desk: _FreeDesk
    steps: Generator[Sequence[Question], list[Any], None]
    asked: list[Question]
    rollouts: int

    @property
    def nodes(self) -> int:
        return self.rollouts

    @property
    def payload(self) -> int:
        """What is left without the method: states."""
        self.steps.close()
        self.asked.clear()
        held, _ = tracemalloc.get_traced_memory()
        return held

    def bare(self) -> None:
        for question in self.asked:
            self.desk.answer(question)


@dataclass(frozen=True)
class DeskEngine:
    """Lets a method of the comparison work until so many nodes were evaluated."""

    method: Method

    def __call__(self, rollouts: int) -> DeskRun:
        desk = _FreeDesk()
        run = DeskRun(desk, self.method(desk), [], 0)
        batch = next(run.steps)
        while run.rollouts < rollouts:
            answers = [desk.answer(question) for question in batch]
            run.asked.extend(batch)
            run.rollouts += sum(isinstance(question, Evaluate) for question in batch)
            batch = run.steps.send(answers)
        return run
