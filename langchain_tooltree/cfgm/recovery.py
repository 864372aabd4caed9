"""Recovery: whether an anomaly is worth a reflection, and how often an agent is helped (CFGM, Alg. 3)."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from langchain_tooltree.anomaly.detector import MOST_MESSAGES, AnomalyDetector, standard_detector
from langchain_tooltree.anomaly.rules import Anomaly
from langchain_tooltree.cfgm.reflection import (
    Reflection,
    Reflector,
    anomaly_in,
    has_reflection,
    with_anomaly,
    with_correction,
)
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, check_count, described
from langchain_tooltree.experience.run_identity import tools_in
from langchain_tooltree.flows import Flow, Writer, emitted, flow_of
from langchain_tooltree.models import ATTEMPTS, Meter

logger = logging.getLogger(__name__)

DEFAULT_COOLDOWN = 3  # rounds of calls from one reflection to the next: the corrected step, and what comes of it

DEFAULT_PATIENCE = 1
"""Anomalies of an episode that pass before the first reflection. On real runs of an airline's agent, 9 of 36 with an
anomaly succeeded unaided. Helped at once, they take 13 of 63 reflections; helped at the second anomaly, 3 of 26."""

RECENT = 3  # rounds for which trouble counts as going on, whatever came back well since: a pause of the same length

NEARLY_SPENT = 6  # steps of a graph: two rounds of three nodes, one for the corrected step and one to answer

LOOPS = frozenset({"repetition", "cycle", "stagnation", "empty"})
"""Anomalies that are trouble that has gone on already."""

DEFAULT_MAX_REFLECTIONS = 5  # for one message of the user: an agent that five have not helped needs a person


@dataclass(frozen=True, slots=True)
class ReflectionBudget:
    """How often an agent is helped in one run, which begins with the latest message of its user.

    A *round* is what came back of the calls in one message of the model: it has seen none of their results when it
    makes the others. Reflections that failed count for `max_reflections`. `patience` is how many anomalies of an
    episode pass before the first one.
    """

    cooldown: int = DEFAULT_COOLDOWN
    max_reflections: int = DEFAULT_MAX_REFLECTIONS
    patience: int = DEFAULT_PATIENCE

    def __post_init__(self) -> None:
        check_count("cooldown", self.cooldown)
        check_count("max_reflections", self.max_reflections)
        check_count("patience", self.patience, 0)

    def allows(self, reflected: Iterable[bool]) -> bool:
        """Whether to reflect now, by whether there was a reflection on each earlier round of the run, latest first."""
        spent = 0
        for rounds_ago, there_was in enumerate(reflected, start=1):
            if there_was:
                spent += 1
                if rounds_ago < self.cooldown or spent >= self.max_reflections:
                    return False
        return True


AgentTool = BaseTool | Callable[..., Any] | dict[str, Any]  # or one that the provider runs, which may have no name


class Known(NamedTuple):
    """What a reflection is shown beside the conversation."""

    tips: Iterable[Tip]
    examples: Iterable[str]
    tools: Sequence[AgentTool]


class Recovery:
    """Watches the observations of a running conversation, and corrects its course where something is off."""

    def __init__(self, model: str | BaseChatModel | Reflector, detector: AnomalyDetector | None, **budget: int) -> None:
        if detector is not None and not isinstance(detector, AnomalyDetector):
            msg = f"detector must be an AnomalyDetector, got {type(detector).__name__}."
            raise ConfigurationError(msg)
        self._reflector = model if isinstance(model, Reflector) else Reflector(model)
        self._detector = standard_detector() if detector is None else detector
        self._budget = ReflectionBudget(**budget)

    def correction(
        self,
        said: Conversation,
        *,
        names: Collection[str] | None = None,
        known: Flow[Known],
        task: str = "",
        instructions: str = "",
        steps_left: int | None = None,
        writer: Writer | None,
    ) -> Flow[ToolMessage | None]:
        """Look at the latest observations, and reflect on them if need be.

        The result is the anomalous observation to take the place of the one in the state, with the correction, or with
        no more than a mark where the agent is left to itself; `None` if nothing is off. A detector or a model that
        fails is logged, not raised. `names` are all tools that the agent has, and `steps_left` those of the graph, if
        they are known. The flow `known` only runs where there is a reflection.
        """
        observations = said.observations
        if not observations or any(map(anomaly_in, observations)):
            return None
        try:
            anomaly = yield from flow_of(self._detector.check)(said, tools=names)
        except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
            logger.warning("An observation was not checked: %s", described(error))
            return None
        if anomaly is None:
            return None
        yield from emitted({"type": "anomaly", "anomaly": anomaly.to_dict()}, writer)
        if not anomaly.recoverable:
            return None
        by_tool = [each for each in observations if each.name == anomaly.tool]
        by_id = [each for each in observations if anomaly.call_id is not None and each.tool_call_id == anomaly.call_id]
        message = (by_id or by_tool or observations)[-1]
        reviewed = (any(map(has_reflection, each.observations)) for each in said.earlier_rounds())
        if not self._is_worth_it(said, anomaly, steps_left) or not self._budget.allows(reviewed):
            return with_anomaly(message, anomaly)
        meter = Meter(allowance=ATTEMPTS)
        reflection: Reflection | None = None
        problem = ""
        try:
            reflect = flow_of(self._reflector.reflect)
            tips, examples, tools = yield from known
            reflection = yield from reflect(
                said,
                anomaly,
                tips=tips,
                examples=examples,
                tools=tools_in(list(tools)).values(),
                task=task,
                instructions=instructions,
                meter=meter,
            )
        except Exception as error:  # noqa: BLE001 - the agent goes on as it would have without a reflection
            problem = described(error)
        if reflection is None:
            problem = problem or "; ".join(meter.problems) or "the model gave no usable reply"
            logger.warning("There is no reflection on the result of %s: %s", anomaly.tool, problem)
        found = None if reflection is None else reflection.to_dict()
        yield from emitted(
            {"type": "reflect", "call_id": anomaly.call_id, "reflection": found, "problem": problem}, writer
        )
        return with_correction(message, anomaly, reflection)

    def _is_worth_it(self, said: Conversation, anomaly: Anomaly, steps_left: int | None) -> bool:
        """Whether an anomaly is unlikely to be got over without help.

        It is where trouble has gone on, as in a loop or where as many anomalies as `patience` came before it that are
        not over, and where the run is about to end.
        """
        ends = steps_left is not None and steps_left <= NEARLY_SPENT
        return ends or anomaly.kind in LOOPS or len(_open_trouble(said)) >= self._budget.patience


def _open_trouble(said: Conversation) -> list[str]:
    """The tools with which there was trouble in earlier rounds that is not over, latest first.

    It is over if the tool has come back well since, and some rounds ago; a user who says something in between changes
    nothing about that.
    """
    trouble: list[str] = []
    well: set[str] = set()
    for ago, each in enumerate(said.rounds(limit=MOST_MESSAGES, beyond_request=True)):
        named = [(str(call["name"] if call else message.name), message) for call, message in each.pairs()]
        found = {name for name, message in named if anomaly_in(message)}
        if ago:
            trouble += [name for name in sorted(found) if name not in well or ago <= RECENT]
            well |= {name for name, _ in named} - found
    return trouble
