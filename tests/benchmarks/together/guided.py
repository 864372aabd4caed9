"""The package's own search with what was learnt beside it, played by a recorded or a simulated model.

At each question to the proposer the graph is asked about the dialogue of that very node, as the package does. What it
says goes into the outcome of the operation (the prior), or to the model (the hint), or both, as the arm has it.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.benchmarks.recorded.model import RecordedModel
from tests.benchmarks.recorded.ours import OwnSearch, Player
from tests.benchmarks.recorded.policies import follow
from tests.benchmarks.recorded.runs import State, Step
from tests.benchmarks.together.learnt import Learnt, hint, is_trouble
from tests.benchmarks.together.model import FATAL, HARMLESS, NEXT, TOO_EARLY, Advice, Reaction, SimulatedModel
from tests.benchmarks.together.world import Message, Scene
from tests.internals.experience import NextTools
from tests.internals.tooltree import Node, Operation, OperationOutcome, Prior, TreeSearch

CHARACTERS_PER_TOKEN = 4

JUDGED = frozenset({"score", "evaluate"})
"""Operations in which a judge is asked by itself."""


REMEDY_RIGHT = NEXT / (NEXT + HARMLESS + FATAL + TOO_EARLY)
"""Hypothesis: a model that was asked what went wrong names the right next tool as often as it would have gone on by
itself in a state that can be won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """What a search is helped by.

    Attributes:
        learnt: What was learnt, if anything.
        prior: Whether the search gets the graph's shares as a prior.
        suggestions: How the model reacts to the graph's suggestions, if it is told them.
        recalled: How it reacts to recalled runs, if it is told them.
        trouble: How it reacts to what it makes of trouble, if it is asked.
    """

    learnt: Learnt | None = None
    prior: bool = False
    suggestions: Reaction | None = None
    recalled: Reaction | None = None
    trouble: Reaction | None = None


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

    def __call__(self, model: RecordedModel, scene: Scene) -> "Found":
        """Search for the best plan."""
        tree = TreeSearch(self.search.limited, tools=1, judge_calls=1)
        player = _GuidedPlayer(model, tree, self.search, self.help, scene)
        end = player.play()
        player.spending.model_calls = model.calls
        return Found(end, player.best_way(), player.spending)


class Found(NamedTuple):
    """Where a plan ends, its steps, and what finding it has cost."""

    end: State
    way: Sequence[tuple[State, Step]]
    spending: Spending


def by_itself(model: RecordedModel, scene: Scene) -> Found:
    """The model without a search."""
    end, way = follow(model, model.start)
    characters = sum(_characters(scene, way[:made]) for made in range(len(way)))
    return Found(end, way[:-1], Spending(model_calls=model.calls, characters=characters))


def _characters(scene: Scene, way: Sequence[tuple[State, Step]]) -> int:
    """Of a question after some steps: the tools and the dialogue."""
    return scene.tool_characters + len(json.dumps(scene.dialogue(way)))


class _GuidedPlayer(Player):
    def __init__(self, model: RecordedModel, search: TreeSearch, how: OwnSearch, help_: Help, scene: Scene) -> None:
        super().__init__(model, search, how)
        self._help = help_
        self._scene = scene
        self._remedied = False
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

    def best_way(self) -> list[tuple[State, Step]]:
        """The steps of the best plan."""
        best = self._search.best()
        return [] if best is None else self._way(best)

    def _helped(self, node: Node, ask: Callable[..., dict[str, Any]], *more: Any) -> dict[str, Any]:
        """Ask the model, with all that it is told, and add what the search is told."""
        learnt, help_ = self._help.learnt, self._help
        dialogue = self._scene.dialogue(self._way(node))
        past = learnt.next_tools(dialogue, self._scene.tools) if learnt else None
        if isinstance(self._model, SimulatedModel):
            self._model.advice = [*self._advice(past), *self._remedy(self._model, node, dialogue)]
        found = ask(node, *more)
        if not help_.prior or past is None:
            return found
        called = {call.tool for action in found.get("actions", ()) for call in action}
        return found | {"prior": Prior.of(past, called=called, tools=len(self._scene.tools))}

    def _advice(self, past: NextTools | None) -> Iterator[Advice]:
        """What past runs tell the model."""
        learnt, help_ = self._help.learnt, self._help
        if learnt and help_.recalled:
            recalled = learnt.recalled(self._scene.requests)
            self.spending.characters += recalled.characters
            yield Advice(sorted(recalled.tools.intersection(self._scene.tools)), help_.recalled)
        if learnt and help_.suggestions:
            text, named = hint(past)
            self.spending.characters += len(text)
            yield Advice(named, help_.suggestions)

    def _remedy(self, model: SimulatedModel, node: Node, dialogue: Sequence[Message]) -> Iterator[Advice]:
        """What the model makes of trouble: asked once a search, which is one question more."""
        if self._help.trouble is None or self._remedied or node.call is None or not is_trouble(dialogue):
            return
        self._remedied = True
        model.calls += 1
        right = model.next_step(self._state(node))
        chance = random.Random(repr((model.seed, self._scene.turn.name, "remedy")))  # noqa: S311 - no secret
        tool = chance.choice(self._scene.tools)
        if right and chance.random() < REMEDY_RIGHT:
            tool = right[0].partition("(")[0]
        yield Advice([tool], self._help.trouble)
