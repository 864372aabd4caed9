"""The package's own search on recorded proposals: the very `TreeSearch`, its operations answered by a recorded model.

A state is asked for the model's own step and, in the same reply, alternatives; a model whose own step is to stop
proposes nothing the first time, and what others did there when it is asked again. Candidates are scored in one
question, an observation and the goal in another one. Every step may be tried, since worlds can be forked.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from langchain_tooltree import SearchConfig
from tests.benchmarks.recorded.model import RecordedModel
from tests.benchmarks.recorded.runs import STOP, State, Step
from tests.internals.tooltree import Call, Node, Observation, Operation, OperationOutcome, Spent, TreeSearch

STEP = "step"
"""The argument under which a call of the search carries a recorded step."""


@dataclass(frozen=True)
class OwnSearch:
    """A configuration of the package's search.

    Args:
        config: The configuration.
        questions: Model calls at the most.
    """

    config: SearchConfig
    questions: int = 40

    def __call__(self, model: RecordedModel) -> State:
        """Search; where the best plan ends, or the start if there is none."""
        config = replace(self.config, max_model_calls=self.questions)
        return _Player(model, TreeSearch(config, tools=1, judge_calls=1)).play()


class _Player:
    def __init__(self, model: RecordedModel, search: TreeSearch) -> None:
        self._model = model
        self._search = search
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
        return self._model.start if best is None else self._state(best)

    def _perform(self, operation: Operation) -> OperationOutcome:
        model, node = self._model, self._search.tree[operation.node]
        before, found = model.calls, dict[str, Any]()
        match operation.kind:
            case "propose":
                steps = self._proposed(node, operation.attempt)
                found["actions"] = [
                    (Call(tool=step[0], arguments={STEP: list(step)}, effect="sandboxed"),) for step in steps
                ]
                found["finished"] = not steps
            case "score":
                steps = [_step(self._search.tree[candidate]) for candidate in operation.candidates]
                found["scores"] = model.judge(self._state(node), steps)
            case "execute":
                _, results = model.turn.take(self._state(self._search.tree[node.parent or 0]), _step(node))
                found["observations"] = [Observation(content="\n".join(results))]
            case "evaluate":
                parent = self._state(self._search.tree[node.parent or 0])
                [found["reward"]] = model.judge(parent, [_step(node)])
                found["goal"] = model.score("judge", self._state(node), STOP)
        spent = Spent(model_calls=model.calls - before, tool_calls=int(operation.kind == "execute"))
        return OperationOutcome(operation=operation.id, kind=operation.kind, node=operation.node, spent=spent, **found)

    def _proposed(self, node: Node, attempt: int) -> list[Step]:
        way = [(self._state(self._search.tree[each.parent or 0]), _step(each)) for each in self._search.tree.path(node)]
        own, *others = (step for step, _ in self._model.offers(self._state(node), way))
        if own == STOP and attempt == 1:
            return []
        return [step for step in (own, *others) if step != STOP]

    def _state(self, node: Node) -> State:
        if node.id not in self._states:
            before = self._state(self._search.tree[node.parent or 0])
            self._states[node.id], _ = self._model.turn.take(before, _step(node))
        return self._states[node.id]


def _step(node: Node) -> Step:
    assert node.call is not None
    return tuple(node.call.arguments[STEP])
