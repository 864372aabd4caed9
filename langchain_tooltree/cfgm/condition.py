"""anomaly_condition: a conditional edge that leads to reflection when an observation is anomalous."""

from collections.abc import Mapping
from typing import Any, Literal

from langchain_tooltree.cfgm.detector import AnomalyDetector

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

    For a detector of your own, pass `functools.partial(anomaly_condition, detector=detector)`; one with a classifier
    asks it on the calling thread.

    Args:
        state: The graph state, a mapping or an object, or just a list of messages.
        messages_key: Where in the state the conversation stands.
        detector: Tells anomalous observations from normal ones; one with default settings if left out.

    Returns:
        `"reflect"` or `"model"`. What the agent can do nothing about, such as a wrong password, goes to the model,
        which sees the error and can tell its user.
    """
    messages: Any = state
    if not isinstance(state, list):
        messages = state.get(messages_key) if isinstance(state, Mapping) else getattr(state, messages_key, None)
    anomaly = (_DETECTOR if detector is None else detector).check(messages or [])
    return "reflect" if anomaly is not None and anomaly.recoverable else "model"
