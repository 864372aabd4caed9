"""Detect anomalous observations in a running conversation, by rules and an optional model."""

import logging
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from functools import cache, partial
from itertools import chain, islice
from typing import Any, Literal

from langgraph.errors import GraphBubbleUp

from langchain_tooltree.anomaly import rules
from langchain_tooltree.anomaly.rules import Anomaly, Phrase
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.experience.run_identity import (
    AnyTools,
    names_of,
)
from langchain_tooltree.flows import (
    FunctionStep,
    arun_flow,
    run_flow,
)
from langchain_tooltree.messages.content import get_text
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.tool_calls import Call

logger = logging.getLogger(__name__)


CLASSIFIER_CONFIDENCE = 0.7  # below that of every rule, since none has found anything


ClassifierAnswer = bool | str | None


Classifier = Callable[[Call], ClassifierAnswer | Awaitable[ClassifierAnswer]]
"""A function, sync or async, that gets a call with its observation (`step.outcome.text`). It returns whether that is
anomalous: a bool, a text that says what is off, or `None` for no."""


MAX_CHECKED_MESSAGES = 400
"""Messages from the end that are read for one check, so that it costs the same in a long conversation."""


class AnomalyDetector:
    """Finds anomalous observations: what starts a reflection in CFGM (Alg. 3).

    ```python
    detector = AnomalyDetector(phrases=["The lever is jammed"], pollers=["act(wait*)"])
    anomaly = detector.check(messages)  # None if all is well
    ```

    The rules are asked one after the other, and the first that finds something decides: the tool is not there; its call
    failed; a field of a structured observation says so; a phrase does, at the beginning of the observation, or anywhere
    in a short one, since long texts report other people's errors; calls come again and again without an effect, pollers
    aside, since the latest message of the user; a second result is empty. Last comes the classifier. `KINDS` in
    `anomaly/rules.py` names the kinds.

    A call that a person rejected is no anomaly. An empty result is none either, nor is that there is nothing under a
    name that the user gave; from the second one of a run on they are (`empty`), with little confidence. What this
    package has put into an observation is not looked at. A check costs the same in a long conversation.

    Args:
        phrases: Ways in which your environment says that something did not work, beside the general ones: plain texts,
            which count anywhere in the beginning and the end of an observation, whatever their case, and `Phrase`s.
        pollers: Calls that may be made again and again: names of tools, or calls as `tool(value, value)`, values in
            the order of the call. `*` stands for anything: `"act(wait*)"`.
        classifier: A function that is asked about each observation where no rule has found anything, and may ask a
            model: see `Classifier`.
    """

    def __init__(
        self,
        *,
        phrases: Iterable[str | Phrase] = (),
        pollers: Iterable[str] = (),
        classifier: Classifier | None = None,
    ) -> None:
        if isinstance(pollers, str):
            msg = f"pollers are a list, got the text {pollers!r:.80}; for a single one, {[pollers]!r:.80}."
            raise ConfigurationError(msg)
        if classifier is not None and not callable(classifier):
            msg = f"classifier must be a function of a call with its observation, got {type(classifier).__name__}."
            raise ConfigurationError(msg)
        self._classifier = classifier
        self._phrases = (*rules.phrases_from(phrases), *rules.phrase_book().phrases)
        self._pollers = tuple(pollers)

    def check(
        self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None
    ) -> Anomaly | None:
        """Look at the observations that came after the latest calls.

        `None` if nothing is off, or if the conversation, LangChain messages or what `convert_to_messages` takes, does
        not end in an observation. With the `tools` that the agent has now, a call of any other tool that failed is one
        of an unknown tool. What a classifier function raises is raised.
        """
        return run_flow(self.check_flow(messages, tools=tools))

    async def acheck(
        self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None
    ) -> Anomaly | None:
        """Async version of `check`."""
        return await arun_flow(self.check_flow(messages, tools=tools))

    async def check_flow(
        self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None
    ) -> Anomaly | None:
        """Flow of `check` and `acheck`; other flows await it."""
        conversation = Conversation.of(messages)
        latest = conversation.latest_round
        readings = [] if latest is None else rules.readings_of(latest.calls())
        if not readings:
            return None
        anomaly = rules.first_anomaly(
            rules.Situation(
                latest=readings,
                earlier=partial(_earlier, conversation),
                worked_before=partial(_worked_before, conversation),
                tools=None if tools is None else frozenset(names_of(tools)),
                phrases=self._phrases,
                pollers=self._pollers,
                request=lambda: "\n".join(conversation.requests),
            )
        )
        if anomaly is not None or self._classifier is None:
            return anomaly
        for reading in readings:
            answer: ClassifierAnswer = await FunctionStep(
                self._classifier, reading.step
            )
            if answer:
                remark = f"The classifier says: {answer if isinstance(answer, str) else 'yes'}."
                evidence = f"{reading.call} brought {reading.quote}. {remark}"
                return reading.anomaly("classified", evidence, CLASSIFIER_CONFIDENCE)
        return None


def _earlier(conversation: Conversation) -> Iterator[Call]:
    """The calls of the run before the latest ones, latest first; `turn` counts back from the latest."""
    rounds = enumerate(conversation.rounds(limit=MAX_CHECKED_MESSAGES))
    return chain.from_iterable(
        reversed(each.calls(-ago)) for ago, each in islice(rounds, 1, None)
    )


def _worked_before(conversation: Conversation, tool: str) -> bool:
    """Whether a call of a tool before the latest round has brought something, and no error."""
    earlier = islice(
        conversation.rounds(limit=MAX_CHECKED_MESSAGES, beyond_request=True), 1, None
    )
    answers = (
        answer
        for each in earlier
        for answer, call in each.pairs()
        if call and call["name"] == tool
    )
    return any(
        answer.status != "error" and not rules.is_no_tool(get_text(answer.content))
        for answer in answers
    )


@cache
def standard_detector() -> AnomalyDetector:
    """The detector with default settings; it holds no state."""
    return AnomalyDetector()


def anomaly_condition(
    state: Any,
    messages_key: str = "messages",
    *,
    detector: AnomalyDetector | None = None,
) -> Literal["reflect", "model"]:
    """Where to go after the tools: to reflection if the latest observations are anomalous, to the model otherwise.

    It is to the tools node what `tools_condition` is to the model node:

    ```python
    graph.add_node("reflect", CFGMReflectionNode(model))
    graph.add_conditional_edges("tools", anomaly_condition, ["reflect", "model"])
    graph.add_edge("reflect", "model")
    ```

    For a detector of your own, pass `functools.partial(anomaly_condition, detector=detector)`, and the same detector
    to the node. With a classifier, leave the condition out, since the node would ask it again.

    What the agent can do nothing about, such as a wrong password, goes to the model, which sees the error and can tell
    its user. So does everything if the detector fails, which is logged.
    """
    try:
        anomaly = (standard_detector() if detector is None else detector).check(
            Conversation.of(state, messages_key)
        )
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
        logger.warning("An observation was not checked: %s", described(error))
        return "model"
    return "reflect" if anomaly is not None and anomaly.recoverable else "model"
