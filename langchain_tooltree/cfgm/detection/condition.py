"""anomaly_condition: a conditional edge that leads to reflection when an observation is anomalous."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

from langgraph.errors import GraphBubbleUp

from langchain_tooltree.cfgm.detection.detector import AnomalyDetector

logger = logging.getLogger(__name__)

_DETECTOR = AnomalyDetector()


def anomaly_condition(
    state: Any, messages_key: str = "messages", *, detector: AnomalyDetector | None = None
) -> Literal["reflect", "model"]:
    """Where to go after the tools: to reflection if the latest observations are anomalous, to the model otherwise.

    It is to the tools node what `tools_condition` is to the model node:

    ```python
    graph.add_node("reflect", CFGMReflectionNode(model))
    graph.add_conditional_edges("tools", anomaly_condition, ["reflect", "model"])
    graph.add_edge("reflect", "model")
    ```

    For a detector of your own, pass `functools.partial(anomaly_condition, detector=detector)`, and the same detector
    to the node. One with a classifier asks it on the calling thread, and the node would ask it again: there, leave the
    condition out and let the node stand between the tools and the model unconditionally.

    Args:
        state: The graph state, a mapping or an object, or just a list of messages.
        messages_key: Where in the state the conversation stands.
        detector: Tells anomalous observations from normal ones; one with default settings if left out.

    Returns:
        `"reflect"` or `"model"`. What the agent can do nothing about, such as a wrong password, goes to the model,
        which sees the error and can tell its user. So does everything if the detector fails, which is logged.
    """
    messages: Any = state
    if not isinstance(state, list):
        messages = state.get(messages_key) if isinstance(state, Mapping) else getattr(state, messages_key, None)
    try:
        anomaly = (_DETECTOR if detector is None else detector).check(messages or [])
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
        logger.warning("An observation was not checked: %s: %s", type(error).__name__, error)
        return "model"
    return "reflect" if anomaly is not None and anomaly.recoverable else "model"
