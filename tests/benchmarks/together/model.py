"""A simulated model that errs as often as real ones did, and what advice is supposed to change in it.

How often its own steps are right, harmless, fatal or too early an end was counted in recorded runs: 691 runs of
gpt-oss-120b and gpt-oss-20b on the first 100 tasks (the file of `tests.benchmarks.recorded`), gold's run among the ways
that lead to a passing end, in 6,192 states that are still good. What is called wrongly, too. Which wrong or needless
call it is, is drawn.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from tests.benchmarks.bfcl_model import ArgumentPool, arguments_for, value_for
from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.simulation import READ_ONLY
from tests.benchmarks.recorded.model import MOST_ALTERNATIVES, RecordedModel
from tests.benchmarks.recorded.runs import STOP, State, Step
from tests.benchmarks.together.world import GOLD

NEXT, HARMLESS, FATAL, TOO_EARLY = 2862, 1351, 132, 295
"""Own steps of recorded models in states from which a turn could still be won: one that leads to another such state (of
these 2,041 were gold's next call), one that changes nothing, a fatal one, and stopping."""

STOPS, GOES_ON, SPOILS = 1315, 216, 21
"""The same in states in which all was done."""

LOST_STOPS, LOST_GOES_ON = 172, 266
"""The same in states from which a turn could not be won any more."""

SAME_TOOL, TOOL_OF_TURN, OTHER_TOOL = 44, 62, 26
"""Fatal calls by their tool: that of gold's next call, another one of gold's in the turn, any other."""

FOUND = 0.85
"""Gold's next call is among the steps that recorded models took in a state of gold's way (439 of 518)."""

DRAWS = 20
"""Tries to draw a call that does what it is to do; a turn may have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """Hypotheses: what advice changes in a model, as probabilities.

    Attributes:
        heeds: A model that would err, or make a needless call, makes the right one if the advice names its tool.
        misled: A model that would make the right call makes another one if the advice names other tools only.
    """

    heeds: float = 0.0
    misled: float = 0.0

    def times(self, factor: float) -> "Reaction":
        """A weaker reaction, or a stronger one."""
        return Reaction(heeds=self.heeds * factor, misled=self.misled * factor)


class Advice(NamedTuple):
    """What a model is told beside the dialogue: some tools, and how it reacts to that."""

    tools: Sequence[str]
    reaction: Reaction


@dataclass
class SimulatedModel(RecordedModel):
    """A model in one turn, asked as recorded ones are.

    Args:
        pool: Arguments with which gold calls of any task use each tool, for plausible calls.

    Attributes:
        advice: What it is told now.
    """

    pool: ArgumentPool = field(default_factory=dict)
    advice: Sequence[Advice] = ()

    def _own(self, state: State, path: Sequence[tuple[State, Step]]) -> Step:
        visits = sum(at is state for at, _ in path)
        chance = self._chance("step", state, STOP, visits)
        right = self.next_step(state)
        if right is None:
            kinds = {STOP: STOPS, "harmless": GOES_ON, "fatal": SPOILS}
            if not state.passing:
                kinds = {STOP: LOST_STOPS, "harmless": LOST_GOES_ON}
            [kind] = chance.choices(list(kinds), list(kinds.values()))
            step = self._drawn(chance, state, kind) or STOP if isinstance(kind, str) else kind
            return self._advised_all(state, visits, step, STOP) if state.passing else step
        kinds = {right: NEXT, "harmless": HARMLESS, "fatal": FATAL, STOP: TOO_EARLY}
        [kind] = chance.choices(list(kinds), list(kinds.values()))
        step = self._drawn(chance, state, kind) or right if isinstance(kind, str) else kind
        return self._advised_all(state, visits, step, right)

    def _advised_all(self, state: State, visits: int, step: Step, right: Step) -> Step:
        for number, advice in enumerate(self.advice):
            step = self._advised(advice, self._chance("advice", state, STOP, visits, number), step, right)
        return step

    def _advised(self, advice: Advice, chance: random.Random, step: Step, right: Step) -> Step:
        """What a model does that would have taken a step, were it not for some advice."""
        if _tool(right) in advice.tools:
            return right if step != right and chance.random() < advice.reaction.heeds else step
        if advice.tools and step == right and chance.random() < advice.reaction.misled:
            return self.turn.step([self._filled(chance, chance.choice(sorted(advice.tools)))])
        return step

    def next_step(self, state: State) -> Step | None:
        """Gold's next step; `None` where all is done, or nothing helps any more."""
        if state.passing or not state.good:
            return None
        return next((step for at, step in self.turn.ways[GOLD] if at is state), None)

    def _found(self, state: State, own: Step) -> list[Step]:
        """Gold's next step, if luck has it, among others."""
        chance = self._chance("found", state, own)
        right = self.next_step(state)
        kinds = ["harmless", "fatal", "harmless", "fatal"]
        drawn = [step for kind in kinds if (step := self._drawn(chance, state, kind))]
        found = [step for step in dict.fromkeys(drawn) if step not in (own, right)]
        if right is not None and right != own and chance.random() < FOUND:
            found.insert(chance.randint(0, len(found)), right)
        return found[:MOST_ALTERNATIVES]

    def _drawn(self, chance: random.Random, state: State, kind: str) -> Step | None:
        """A call that leaves the state as it is, or one after which it is not good any more; `None` if none is found.

        In a state that is not good any more, every call is as good as another.
        """
        for _ in range(DRAWS):
            call = self._any_read(chance) if kind == "harmless" else self._any_call(chance, state)
            if call is None:
                return None
            step = self.turn.step([call])
            after, _ = self.turn.take(state, step)
            if after is state if kind == "harmless" else not after.good:
                return step
        return None

    def _any_read(self, chance: random.Random) -> PlainCall | None:
        names = [tool.name for tool in self.turn.task.tools if tool.name in READ_ONLY]
        return self._filled(chance, chance.choice(names)) if names else None

    def _any_call(self, chance: random.Random, state: State) -> PlainCall:
        right = self.next_step(state)
        kinds = {"same": SAME_TOOL, "turn": TOOL_OF_TURN, "other": OTHER_TOOL}
        [kind] = chance.choices(list(kinds), list(kinds.values()))
        if kind == "same" and right is not None:
            return self._with_one_wrong_argument(chance, self.turn.call(right[0]))
        of_turn = sorted({call.tool for call in self.turn.gold})
        if kind == "turn" and of_turn:
            return self._filled(chance, chance.choice(of_turn))
        return self._filled(chance, chance.choice(self.turn.task.tools).name)

    def _filled(self, chance: random.Random, tool: str) -> PlainCall:
        return PlainCall(tool, self._arguments(chance, tool))

    def _arguments(self, chance: random.Random, tool: str) -> Mapping[str, Any]:
        seen = self.pool.get(tool)
        schema = next(each.schema for each in self.turn.task.tools if each.name == tool)
        return chance.choice(seen) if seen else arguments_for(schema, self._words, chance)

    def _with_one_wrong_argument(self, chance: random.Random, right: PlainCall) -> PlainCall:
        if not right.arguments:
            return right
        name = chance.choice(sorted(right.arguments))
        schema = next(each.schema for each in self.turn.task.tools if each.name == right.tool)
        seen = [each[name] for each in self.pool.get(right.tool, ()) if name in each]
        drawn = partial(value_for, schema.get("properties", {}).get(name, {}), self._words, chance)
        return PlainCall(right.tool, {**right.arguments, name: chance.choice(seen) if seen else drawn()})

    @property
    def _words(self) -> list[str]:
        return sorted(set(self.turn.task.request.split())) or ["text"]


def _tool(step: Step) -> str:
    return step[0].partition("(")[0] if step else ""
