"""Recovery: noticing that something is off, reflecting on it, and correcting the course (the online part of CFGM)."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from langchain_tooltree.cfgm.correction import corrected, was_reviewed
from langchain_tooltree.cfgm.course import earlier_rounds, latest_observations
from langchain_tooltree.cfgm.detection.anomaly import Anomaly
from langchain_tooltree.cfgm.detection.classifier import LONGEST_WAIT
from langchain_tooltree.cfgm.detection.detector import AnomalyDetector
from langchain_tooltree.cfgm.episodes import ReflectionPace
from langchain_tooltree.cfgm.reflection import Reflection
from langchain_tooltree.cfgm.reflector import Reflector
from langchain_tooltree.cfgm.tip import Tip
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.offered import tools_in
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import ATTEMPTS, Meter
from langchain_tooltree.rate_limits import Patience
from langchain_tooltree.streaming import Writer, telling

logger = logging.getLogger(__name__)

AnyTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""A tool of an agent, or one that the provider runs, which may have no name."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Watches the observations of a running conversation, and corrects its course where something is off.

    Args:
        reflector: Reflects on anomalies.
        detector: Tells anomalous observations from normal ones.
        pace: How often there is a reflection.
    """

    reflector: Reflector
    detector: AnomalyDetector
    pace: ReflectionPace

    @classmethod
    def of(
        cls,
        model: str | BaseChatModel | Reflector,
        detector: AnomalyDetector | None,
        *,
        cooldown: int,
        max_reflections: int,
    ) -> Self:
        """Put the parts together that a user has passed.

        Args:
            model: Reflects: a chat model, the name of one, or a `Reflector`.
            detector: The detector; one with default settings if left out.
            cooldown: See `ReflectionPace`.
            max_reflections: Likewise.

        Returns:
            The recovery.

        Raises:
            ConfigurationError: If one of the parts is invalid.
        """
        if detector is not None and not isinstance(detector, AnomalyDetector):
            msg = f"detector must be an AnomalyDetector, got {type(detector).__name__}."
            raise ConfigurationError(msg)
        return cls(
            model if isinstance(model, Reflector) else Reflector(model),
            AnomalyDetector() if detector is None else detector,
            ReflectionPace(cooldown, max_reflections),
        )

    def correcting(
        self,
        messages: Sequence[Any],
        *,
        names: Collection[str] | None = None,
        tools: Sequence[AnyTool] = (),
        tips: Flow[Iterable[Tip]],
        task: str = "",
        writer: Writer | None,
    ) -> Flow[ToolMessage | None]:
        """Look at the latest observations, and reflect on them if need be, as a flow.

        Args:
            messages: The conversation, as `conversation` has it. Nothing happens unless it ends in observations.
            names: Names of all tools that the agent has now; `None` if it may have others than are known.
            tools: Tools that the agent has, to be described to the model.
            tips: Brings advice from experience; it is only run where there is a reflection.
            task: What was asked for, where the conversation does not tell any more.
            writer: Gets the events; without one, nothing is told.

        Returns:
            The anomalous observation with the correction, to take the place of the one in the state; `None` if all is
            well or nothing is to be done. A detector or a model that fails is logged and not raised.
        """
        observations = latest_observations(messages)
        if not observations or any(map(was_reviewed, observations)):
            return None
        try:
            anomaly = yield from self.detector.checking(messages, tools=names)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
            logger.warning("An observation was not checked: %s: %s", type(error).__name__, error)
            return None
        if anomaly is None:
            return None
        yield from telling({"type": "anomaly", "anomaly": anomaly.to_dict()}, writer)
        reviewed = (any(map(was_reviewed, each)) for each in earlier_rounds(messages))
        if not anomaly.recoverable or not self.pace.allows(reviewed):
            return None
        reflection = yield from self._reflecting(messages, anomaly, tools=tools, tips=tips, task=task, writer=writer)
        return corrected(_observation_of(anomaly, observations), anomaly, reflection)

    def _reflecting(
        self,
        messages: Sequence[Any],
        anomaly: Anomaly,
        *,
        tools: Sequence[AnyTool],
        tips: Flow[Iterable[Tip]],
        task: str,
        writer: Writer | None,
    ) -> Flow[Reflection | None]:
        meter = Meter(allowance=ATTEMPTS, patience=Patience(LONGEST_WAIT))
        reflection: Reflection | None = None
        problem = ""
        known = yield from tips
        try:
            described = tools_in(list(tools)).values()
            reflection = yield from self.reflector.reflecting(
                messages, anomaly, tips=known, tools=described, task=task, meter=meter
            )
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - the agent goes on as it would have without a reflection
            problem = f"{type(error).__name__}: {error}"
        if reflection is None:
            problem = problem or "; ".join(meter.problems) or "the model has said nothing"
            logger.warning("There is no reflection on the result of %s: %s", anomaly.tool, problem)
        told = None if reflection is None else reflection.to_dict()
        yield from telling(
            {"type": "reflect", "call_id": anomaly.call_id, "reflection": told, "problem": problem}, writer
        )
        return reflection


def _observation_of(anomaly: Anomaly, observations: Sequence[ToolMessage]) -> ToolMessage:
    """The observation that is anomalous: by the id of its call, or else the latest of its tool."""
    by_tool = [each for each in observations if each.name == anomaly.tool]
    by_id = [each for each in observations if anomaly.call_id is not None and each.tool_call_id == anomaly.call_id]
    return (by_id or by_tool or list(observations))[-1]
