"""The package's own search with what was learnt beside it, played by a recorded or a simulated model.

At each question to the proposer the graph is asked about the dialogue of that very node, as the package does. What it
says goes into the outcome of the operation (the prior), or to the model (the hint), or both, as the arm has it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_tooltree import SITGraph
from tests.benchmarks.recorded.model import RecordedModel
from tests.benchmarks.recorded.ours import OwnSearch, Player
from tests.benchmarks.recorded.policies import follow
from tests.benchmarks.recorded.runs import State, Step
from tests.benchmarks.together.model import SimulatedModel
from tests.benchmarks.together.world import Message, Scene
from tests.internals.experience import NextTools
from tests.internals.tooltree import Node, Operation, OperationOutcome, Prior, TreeSearch

CHARACTERS_PER_TOKEN = 4

JUDGED = frozenset({"score", "evaluate"})
"""Operations in which a judge is asked by itself."""


class Learnt:
    """What was learnt, asked about states of turns; each is asked about once.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: SITGraph) -> None:
        self.graph = graph
        self._known: dict[str, NextTools | None] = {}

    def next_tools(self, messages: Sequence[Message], tools: Sequence[str]) -> NextTools | None:
        """How past runs went on from the end of a dialogue."""
        if not len(self.graph) or not hasattr(self.graph, "next_tools"):
            return None
        key = json.dumps([messages, tools])
        if key not in self._known:
            self._known[key] = self.graph.next_tools(messages, allowed=tools)
        return self._known[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """What a search is helped by.

    Attributes:
        learnt: What was learnt, if anything.
        prior: Whether the search gets the shares.
        hints: Whether the model gets the hint.
    """

    learnt: Learnt | None = None
    prior: bool = False
    hints: bool = False


@dataclass
class Spending:
    """What a search has cost.

    Attributes:
        model_calls: Questions to a model, all of them.
        judge_calls: Those that brought scores: for other candidates, or of a judge by itself.
        characters: Characters of all requests, tools and dialogue included.
    """

    model_calls: int = 0
    judge_calls: int = 0
    characters: int = 0

    @property
    def tokens(self) -> int:
        return self.characters // CHARACTERS_PER_TOKEN


@dataclass(frozen=True)
class GuidedSearch:
    """A configuration of the package's search, helped by what was learnt.

    Args:
        search: The search.
        help: What it is helped by.
    """

    search: OwnSearch
    help: Help

    def __call__(self, model: RecordedModel, scene: Scene) -> tuple[State, Spending]:
        """Search; where the best plan ends, and what that cost."""
        tree = TreeSearch(self.search.limited, tools=1, judge_calls=1)
        player = _GuidedPlayer(model, tree, self.search, self.help, scene)
        end = player.play()
        player.spending.model_calls = model.calls
        return end, player.spending


def by_itself(model: RecordedModel, scene: Scene) -> tuple[State, Spending]:
    """The model without a search."""
    end, way = follow(model, model.start)
    characters = sum(_characters(scene, way[:made]) for made in range(len(way)))
    return end, Spending(model_calls=model.calls, characters=characters)


def _characters(scene: Scene, way: Sequence[tuple[State, Step]]) -> int:
    """Of a question after some steps: the tools and the dialogue."""
    return scene.tool_characters + len(json.dumps(scene.dialogue(way)))


class _GuidedPlayer(Player):
    def __init__(self, model: RecordedModel, search: TreeSearch, how: OwnSearch, help_: Help, scene: Scene) -> None:
        super().__init__(model, search, how)
        self._help = help_
        self._scene = scene
        self.spending = Spending()

    def _perform(self, operation: Operation) -> OperationOutcome:
        before = self._model.calls
        outcome = super()._perform(operation)
        asked = self._model.calls - before
        judged = operation.kind in JUDGED or (operation.kind == "propose" and not operation.own_step)
        self.spending.judge_calls += asked if judged else 0
        if asked:
            way = self._way(self._search.tree[operation.node])
            self.spending.characters += asked * _characters(self._scene, way)
        return outcome

    def _own_step(self, node: Node, operation: Operation) -> dict[str, Any]:
        return self._helped(node, super()._own_step, operation)

    def _candidates(self, node: Node) -> dict[str, Any]:
        return self._helped(node, super()._candidates)

    def _helped(self, node: Node, ask: Any, *more: Any) -> dict[str, Any]:
        learnt, model = self._help.learnt, self._model
        past = None
        if learnt is not None:
            past = learnt.next_tools(self._scene.dialogue(self._way(node)), self._scene.tools)
        if self._help.hints and past is not None and isinstance(model, SimulatedModel):
            model.hinted = [tool for tool in past.shares if tool in past.text]
            self.spending.characters += len(past.text)
        found: dict[str, Any] = ask(node, *more)
        if self._help.prior and past is not None:
            called = {call.tool for action in found["actions"] for call in action}
            found["prior"] = Prior.of(past, called=called, tools=len(self._scene.tools))
        return found
