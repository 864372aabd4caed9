"""AnomalyDetector: tells whether the latest observations of a conversation show that something is off."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import Any, Literal

from langgraph.errors import GraphBubbleUp

from langchain_tooltree.anomaly import rules
from langchain_tooltree.anomaly.rules import Anomaly, Phrase, Reading
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.experience.run_identity import AnyTools, names_of
from langchain_tooltree.experience.trajectory import Step, text_of
from langchain_tooltree.flows import Flow, FunctionStep, async_twin, driven

logger = logging.getLogger(__name__)

CLASSIFIER_CONFIDENCE = 0.7  # below that of every rule, since none has found anything

ClassifierAnswer = bool | str | None
Classifier = Callable[[Step], ClassifierAnswer | Awaitable[ClassifierAnswer]]
"""A function, sync or async, that gets a call with its observation (`step.outcome.text`). It returns whether that is
anomalous: a bool, a text that says what is off, or `None` for no."""

MOST_MESSAGES = 400
"""Messages from the end that are read for one check, so that it costs the same in a long conversation."""


class AnomalyDetector:
    """Finds anomalous observations: what starts a reflection in CFGM (Alg. 3).

    ```python
    detector = AnomalyDetector(phrases=[*DEFAULT_PHRASES, "The lever is jammed"], pollers=["act(wait*)"])
    anomaly = detector.check(messages)  # None if all is well
    ```

    The rules are asked one after the other. The first that finds something decides:

    1. the tool is not there (`unknown_tool`; `drift` if it worked earlier), or its call failed (`error`);
    2. a field of a structured observation says so (`error_field`);
    3. a phrase says so (`phrase`), at the beginning of the observation, or anywhere in a short one: long texts report
       other people's errors;
    4. the same call brought the same again (`repetition`), several calls did (`cycle`), or different calls did
       (`stagnation`). Words that only confirm that something was done are no sign of standing still: it takes twice
       as many of them for a cycle, and they are no stagnation. Only calls since the latest message of the user count,
       and declared pollers do not;
    5. the classifier says so (`classified`).

    A call that a person rejected is no anomaly. An empty result is none either, nor is that there is nothing under a
    name that the user gave; from the second one of a run on they are (`empty`), with little confidence. What this
    package has put into an observation is not looked at. A check costs the same in a long conversation.

    Args:
        phrases: Ways in which environments say that something did not work: plain texts, which count anywhere in the
            beginning and the end of an observation, whatever their case, and `Phrase`s. `DEFAULT_PHRASES` if left out.
        pollers: Calls that may be made again and again: names of tools, or calls as `tool(value, value)`, values in
            the order of the call. `*` stands for anything: `"act(wait*)"`.
        classifier: A function that is asked about each observation where no rule has found anything, and may ask a
            model: see `Classifier`.
    """

    def __init__(
        self,
        *,
        phrases: Iterable[str | Phrase] | None = None,
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
        self._phrases = rules.phrase_book().packs["default"] if phrases is None else rules.phrases_from(phrases)
        self._pollers = tuple(pollers)

    @driven
    def check(self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None) -> Flow[Anomaly | None]:
        """Look at the observations that came after the latest calls.

        `None` if nothing is off, or if the conversation, LangChain messages or what `convert_to_messages` takes, does
        not end in an observation. With the `tools` that the agent has now, a call of any other tool that failed is one
        of an unknown tool. What a classifier function raises is raised.
        """
        conversation = Conversation.of(messages)
        latest = conversation.latest_round
        readings = [] if latest is None else rules.readings_of(latest.steps())
        if not readings:
            return None
        names = None if tools is None else frozenset(names_of(tools))
        anomaly = rules.first_anomaly(readings, names, lambda tool: _worked_before(conversation, tool), self._phrases)
        if anomaly is not None:
            anomaly = _unless_weak(anomaly, readings, conversation)
        if anomaly is None:
            latest_first = chain((reading.step for reading in reversed(readings)), _earlier(conversation))
            anomaly = rules.loop_in(latest_first, self._pollers)
        if anomaly is None:
            anomaly = _empty_again(readings, conversation)
        if anomaly is not None or self._classifier is None:
            return anomaly
        for reading in readings:
            answer: ClassifierAnswer = yield FunctionStep(self._classifier, reading.step)
            if answer:
                remark = f"The classifier says: {answer if isinstance(answer, str) else 'yes'}."
                return reading.remark("classified", remark, CLASSIFIER_CONFIDENCE)
        return None

    acheck = async_twin(check)


def _unless_weak(anomaly: Anomaly, readings: Sequence[Reading], conversation: Conversation) -> Anomaly | None:
    """An anomaly; `None` if it says no more than that there is nothing under a name that the user gave.

    They may have mistaken it, and the agent does right to tell them. With the second such answer of a tool it counts.
    """
    ids = (None, anomaly.call_id)
    steps = [each.step for each in readings if each.step.tool == anomaly.tool and each.step.call_id in ids]
    request = "\n".join(conversation.requests)
    if not any(rules.is_absent(step) and rules.asks_for(step, request) for step in steps):
        return anomaly
    again = any(rules.is_absent(step) for step in _earlier(conversation) if step.tool == anomaly.tool)
    return replace(anomaly, confidence=rules.WEAK) if again else None


def _empty_again(readings: Sequence[Reading], conversation: Conversation) -> Anomaly | None:
    """That a call that names something brought back nothing, where another one of the run had done so before."""
    empty = [reading for reading in readings if rules.is_empty(reading.step)]
    if not empty or not (len(empty) > 1 or any(map(rules.is_empty, _earlier(conversation)))):
        return None
    return empty[-1].remark("empty", "A call before it brought nothing either.", rules.WEAK)


def _earlier(conversation: Conversation) -> Iterator[Step]:
    """The calls of the run before the latest ones, latest first; `turn` counts back from the latest."""
    rounds = enumerate(conversation.rounds(limit=MOST_MESSAGES))
    return chain.from_iterable(reversed(each.steps(-ago)) for ago, each in islice(rounds, 1, None))


def _worked_before(conversation: Conversation, tool: str) -> bool:
    """Whether a call of a tool before the latest round has brought something, and no error."""
    earlier = islice(conversation.rounds(limit=MOST_MESSAGES, beyond_request=True), 1, None)
    answers = (answer for each in earlier for call, answer in each.pairs() if call and call["name"] == tool)
    return any(answer.status != "error" and not rules.is_no_tool(text_of(answer.content)) for answer in answers)


@cache
def standard_detector() -> AnomalyDetector:
    """The detector with default settings; it holds no state."""
    return AnomalyDetector()


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
    to the node. With a classifier, leave the condition out, since the node would ask it again.

    What the agent can do nothing about, such as a wrong password, goes to the model, which sees the error and can tell
    its user. So does everything if the detector fails, which is logged.
    """
    try:
        anomaly = (standard_detector() if detector is None else detector).check(Conversation.of(state, messages_key))
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
        logger.warning("An observation was not checked: %s", described(error))
        return "model"
    return "reflect" if anomaly is not None and anomaly.recoverable else "model"
