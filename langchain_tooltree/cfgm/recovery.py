"""Recovery: noticing that something is off, reflecting on it, and correcting the course (the online part of CFGM)."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from langchain_tooltree.cfgm.anomaly.classifier import LONGEST_WAIT
from langchain_tooltree.cfgm.anomaly.detector import AnomalyDetector
from langchain_tooltree.cfgm.anomaly.rules import Anomaly
from langchain_tooltree.cfgm.reflection import Reflection, Reflector, corrected, was_reviewed
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.run_identity import tools_in
from langchain_tooltree.flows import Flow, Writer, emit, flow_of
from langchain_tooltree.models import ATTEMPTS, Meter, Patience

logger = logging.getLogger(__name__)

DEFAULT_COOLDOWN = 3
"""Rounds of calls from one reflection to the next: the corrected step, and one more to see what came of it."""

DEFAULT_MAX_REFLECTIONS = 5
"""Reflections for one message of the user: an agent that five have not helped needs a person."""


@dataclass(frozen=True, slots=True)
class ReflectionBudget:
    """How often an agent is helped in one run, which begins with the latest message of its user.

    A *round* is what came back of the calls in one message of the model. Calls that were made in parallel are one
    round: the model has seen none of their results when it makes the others. A reflection is followed by another one in
    the `cooldown`th round after it at the earliest. Reflections that failed count for `max_reflections`.
    """

    cooldown: int = DEFAULT_COOLDOWN
    max_reflections: int = DEFAULT_MAX_REFLECTIONS

    def __post_init__(self) -> None:
        check_count("cooldown", self.cooldown)
        check_count("max_reflections", self.max_reflections)

    def allows(self, reflected: Iterable[bool]) -> bool:
        """Whether to reflect now, by whether there was a reflection on each earlier round of the run, latest first."""
        spent = 0
        for rounds_ago, there_was in enumerate(reflected, start=1):
            if there_was:
                spent += 1
                if rounds_ago < self.cooldown or spent >= self.max_reflections:
                    return False
        return True


AnyTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""A tool of an agent, or one that the provider runs, which may have no name."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Watches the observations of a running conversation, and corrects its course where something is off."""

    reflector: Reflector
    detector: AnomalyDetector
    budget: ReflectionBudget

    @classmethod
    def of(
        cls,
        model: str | BaseChatModel | Reflector,
        detector: AnomalyDetector | None,
        *,
        cooldown: int,
        max_reflections: int,
    ) -> Self:
        """Put the parts together that a user has passed; raises `ConfigurationError` if one of them is invalid."""
        if detector is not None and not isinstance(detector, AnomalyDetector):
            msg = f"detector must be an AnomalyDetector, got {type(detector).__name__}."
            raise ConfigurationError(msg)
        return cls(
            model if isinstance(model, Reflector) else Reflector(model),
            AnomalyDetector() if detector is None else detector,
            ReflectionBudget(cooldown, max_reflections),
        )

    def correction(
        self,
        said: Conversation,
        *,
        names: Collection[str] | None = None,
        tools: Sequence[AnyTool] = (),
        tips: Flow[Iterable[Tip]],
        task: str = "",
        writer: Writer | None,
    ) -> Flow[ToolMessage | None]:
        """Look at the latest observations, and reflect on them if need be.

        The result is the anomalous observation with the correction, to take the place of the one in the state; `None`
        if there is nothing to correct. A detector or a model that fails is logged, not raised. `names` are all tools
        that the agent has, if they are known; the flow `tips` only runs where there is a reflection.
        """
        observations = said.observations
        if not observations or any(map(was_reviewed, observations)):
            return None
        try:
            anomaly = yield from flow_of(self.detector.check)(said, tools=names)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
            logger.warning("An observation was not checked: %s: %s", type(error).__name__, error)
            return None
        if anomaly is None:
            return None
        yield from emit({"type": "anomaly", "anomaly": anomaly.to_dict()}, writer)
        reviewed = (any(map(was_reviewed, each.observations)) for each in said.earlier_rounds())
        if not anomaly.recoverable or not self.budget.allows(reviewed):
            return None
        known = yield from tips
        meter = Meter(allowance=ATTEMPTS, patience=Patience(LONGEST_WAIT))
        reflection: Reflection | None = None
        problem = ""
        try:
            reflect, described = flow_of(self.reflector.reflect), tools_in(list(tools)).values()
            reflection = yield from reflect(said, anomaly, tips=known, tools=described, task=task, meter=meter)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - the agent goes on as it would have without a reflection
            problem = f"{type(error).__name__}: {error}"
        if reflection is None:
            problem = problem or "; ".join(meter.problems) or "the model has said nothing"
            logger.warning("There is no reflection on the result of %s: %s", anomaly.tool, problem)
        found = None if reflection is None else reflection.to_dict()
        yield from emit(
            {"type": "reflect", "call_id": anomaly.call_id, "reflection": found, "problem": problem}, writer
        )
        return corrected(_observation_of(anomaly, observations), anomaly, reflection)


def _observation_of(anomaly: Anomaly, observations: Sequence[ToolMessage]) -> ToolMessage:
    """The observation that is anomalous: by the id of its call, or else the latest of its tool."""
    by_tool = [each for each in observations if each.name == anomaly.tool]
    by_id = [each for each in observations if anomaly.call_id is not None and each.tool_call_id == anomaly.call_id]
    return (by_id or by_tool or list(observations))[-1]
