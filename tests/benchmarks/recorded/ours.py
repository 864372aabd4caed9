"""The package's own search on recorded proposals: the very `TreeSearch`, its operations answered by a recorded model.

With own steps first, a state is asked for the model's own step; a reply that stops also says whether all is done, and
names calls that may still be needed, with scores. Like the package, it brings no confidence in an ordinary own step: a
field for it in each tool would cost more tokens than it is worth. A state that is asked again offers alternatives with
scores, and says whether all is done. Without own steps, a model whose step is to stop proposes nothing the first time,
candidates are scored in one question, an observation and the goal in another one. Every step may be tried, since worlds
can be forked. Which tools only read is declared, as a user would do.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from langchain_tooltree import SearchConfig
from tests.benchmarks.compare.simulation import READ_ONLY
from tests.benchmarks.recorded.model import ENOUGH, RecordedModel
from tests.benchmarks.recorded.runs import STOP, State, Step
from tests.internals.tooltree import (
    SAID_DONE,
    SAID_OPEN,
    Call,
    Effect,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    Spent,
    TreeSearch,
)

NAMED = 3
"""Calls that may still be needed, named by a reply that stops."""

STEP = "step"
"""The argument under which a call of the search carries a recorded step."""


@dataclass(frozen=True)
class OwnSearch:
    """A configuration of the package's search.

    Args:
        config: The configuration.
        questions: Model calls at the most.
        named: Calls that may still be needed, named by a reply that stops.
        graded: Whether a reply says how sure it is that all is done, and not just whether it is, as the package asks.
    """

    config: SearchConfig
    questions: int = 40
    named: int = NAMED
    graded: bool = True

    def __call__(self, model: RecordedModel) -> State:
        """Search; where the best plan ends, or the start if there is none."""
        return Player(model, TreeSearch(self.limited, tools=1, judge_calls=1), self).play()

    @property
    def limited(self) -> SearchConfig:
        """The configuration with its bound on model calls."""
        return replace(self.config, max_model_calls=self.questions)


class Player:
    """Answers the operations of one search by a recorded model."""

    def __init__(self, model: RecordedModel, search: TreeSearch, how: OwnSearch) -> None:
        self._model = model
        self._search = search
        self._how = how
        self._states: dict[int, State] = {0: model.start}

    def play(self) -> State:
        search = self._search
        outstanding: deque[OperationOutcome] = deque()
        while True:
            outstanding.extend(self._perform(operation) for operation in search.ask())
            if not outstanding:
                break
            search.tell(outstanding.popleft())
            search.take_events()
        best = search.best()
        if best is None or best.answer is None:
            self._model.answer()
        return self._model.start if best is None else self._state(best)

    def _perform(self, operation: Operation) -> OperationOutcome:
        model, node = self._model, self._search.tree[operation.node]
        before, found = model.calls, dict[str, Any]()
        match operation.kind:
            case "propose" if operation.own_step:
                found = self._own_step(node, operation)
            case "propose" if self._search.config.pre_evaluation == "fused":
                found = self._candidates(node)
            case "propose":
                steps = self._proposed(node, operation.attempt)
                found["actions"] = [(_call(step),) for step in steps]
                found["finished"] = not steps
            case "score":
                steps = [_step(self._search.tree[candidate]) for candidate in operation.candidates]
                found["scores"] = model.judge(self._state(node), steps)
            case "execute":
                found["observations"] = [self._run(node)]
            case "evaluate":
                parent = self._state(self._search.tree[node.parent or 0])
                [found["reward"]] = model.judge(parent, [_step(node)])
                found["goal"] = model.score("judge", self._state(node), STOP)
        spent = Spent(model_calls=model.calls - before, tool_calls=len(operation.run))
        return OperationOutcome(operation=operation.id, kind=operation.kind, node=operation.node, spent=spent, **found)

    def _own_step(self, node: Node, operation: Operation) -> dict[str, Any]:
        """The model's own step; a reply that stops also says how sure it is, and which calls may still be needed."""
        found: dict[str, Any] = {"observations": [self._run(self._search.tree[each]) for each in operation.run]}
        state = self._state(node)
        step, _ = self._model.own_step(state, self._way(node))
        if step != STOP:
            return found | {"actions": [(_call(step),)]}
        found |= {"answer": {"stopped": True}, "finished": True, "goal": self._goal(state)}
        offered = self._model.alternatives(state, self._way(node), asked=False)[: self._how.named]
        found |= {"actions": [(_call(step),) for step, _ in offered], "confidences": [s for _, s in offered]}
        return found

    def _candidates(self, node: Node) -> dict[str, Any]:
        """Other steps than those tried, with their scores, and whether all is done; one question."""
        offered = self._model.alternatives(self._state(node), self._way(node), asked=True)
        tried = {_step(child) for child in self._search.tree.children(node)}
        offered = [each for each in offered if each[0] not in tried]
        return {
            "actions": [(_call(step),) for step, _ in offered],
            "confidences": [score for _, score in offered],
            "goal": self._goal(self._state(node)),
            "finished": not offered,
        }

    def _goal(self, state: State) -> float:
        """Whether all is done, as said in a reply to another question."""
        score = self._model.score("judge", state, STOP)
        return score if self._how.graded else SAID_DONE if score >= ENOUGH else SAID_OPEN

    def _run(self, node: Node) -> Observation:
        before = self._state(self._search.tree[node.parent or 0])
        after, results = self._model.turn.take(before, _step(node))
        writes = node.call is not None and node.call.effect != "read"
        return Observation(content="\n".join(results), unchanged=writes and before.digest == after.digest)

    def _way(self, node: Node) -> list[tuple[State, Step]]:
        path = self._search.tree.path(node)
        return [(self._state(self._search.tree[each.parent or 0]), _step(each)) for each in path]

    def _proposed(self, node: Node, attempt: int) -> list[Step]:
        way = self._way(node)
        own, *others = (step for step, _ in self._model.offers(self._state(node), way))
        if own == STOP and attempt == 1:
            return []
        return [step for step in (own, *others) if step != STOP]

    def _state(self, node: Node) -> State:
        if node.id not in self._states:
            before = self._state(self._search.tree[node.parent or 0])
            self._states[node.id], _ = self._model.turn.take(before, _step(node))
        return self._states[node.id]


def _call(step: Step) -> Call:
    """A step as the search's call, of its first tool: a read where all that it calls are."""
    effect: Effect = "read" if all(key.partition("(")[0] in READ_ONLY for key in step) else "sandboxed"
    return Call(tool=step[0].partition("(")[0], arguments={STEP: list(step)}, effect=effect)


def _step(node: Node) -> Step:
    assert node.call is not None
    return tuple(node.call.arguments[STEP])
