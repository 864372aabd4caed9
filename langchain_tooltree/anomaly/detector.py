"""AnomalyDetector: tells whether the latest observations of a conversation show that something is off."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, Field

from langchain_tooltree.anomaly import rules
from langchain_tooltree.anomaly.rules import Anomaly, Phrase, Reading
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, check_count, described
from langchain_tooltree.experience.run_identity import GivenTools, names_of
from langchain_tooltree.experience.trajectory import Step, text_of
from langchain_tooltree.flows import Flow, FunctionStep, async_twin, driven
from langchain_tooltree.models import (
    ATTEMPTS,
    Meter,
    document_prompt,
    filled_in,
    inner_config,
    is_chat_model,
    resolve_model,
)
from langchain_tooltree.text import compact_json, shortened

logger = logging.getLogger(__name__)

DEFAULT_CLASSIFIER_PROMPT = """\
You watch an assistant that works with tools. You get one JSON document with the observations that its latest calls \
brought back. Does one of them show that something is off: the call was refused or had no effect, it did not do what \
its arguments ask for, or what came back cannot be true?

That a result is empty, short, or bad news is not off by itself. Errors that an observation only tells of, as a log or \
an e-mail does, are not off either.

First say in one sentence what speaks for and against it, then decide."""

CLASSIFIER_CONFIDENCE = 0.7  # below that of every rule, since none has found anything

ClassifierAnswer = bool | str | None
ClassifierFunction = Callable[[Step], ClassifierAnswer | Awaitable[ClassifierAnswer]]
"""A function, sync or async, that gets a call with its observation (`step.outcome.text`). It returns whether that is
anomalous: a bool, a text that says what is off, or `None` for no."""


class ClassifierForm(BaseModel):
    """What a model is asked to fill in."""

    reason: str = Field(description="What speaks for and against it, in one sentence")
    anomalous: bool
    observation: int = Field(default=1, description="Number of the observation that is off, from 1")


def _ask_function(function: ClassifierFunction, steps: Sequence[Step]) -> Flow[Anomaly | None]:
    for step in steps:
        answer: ClassifierAnswer = yield FunctionStep(function, step)
        if answer:
            return _classified(step, answer if isinstance(answer, str) else "")
    return None


def _ask_model(model: BaseChatModel, steps: Sequence[Step]) -> Flow[Anomaly | None]:
    """Ask about all observations at once. A model that gives no usable reply has noticed nothing."""
    shown = [
        {
            "number": number,
            "tool": step.tool,
            "arguments": shortened(compact_json(step.arguments)),
            "observation": shortened(step.outcome.text if step.outcome is not None else ""),
        }
        for number, step in enumerate(steps, start=1)
    ]
    meter = Meter(allowance=ATTEMPTS)
    prompt = document_prompt(DEFAULT_CLASSIFIER_PROMPT, {"observations": shown})
    reply = yield from filled_in(model, ClassifierForm, prompt, inner_config("classify", {}), meter)
    if reply is None:
        logger.warning("Observations were not classified: %s", "; ".join(meter.problems))
        return None
    step = steps[reply.observation - 1] if 1 <= reply.observation <= len(steps) else steps[0]
    return _classified(step, reply.reason) if reply.anomalous else None


def _classified(step: Step, reason: str) -> Anomaly:
    return Reading(step).remark("classified", f"The classifier says: {reason.strip() or 'yes'}.", CLASSIFIER_CONFIDENCE)


MOST_MESSAGES = 400
"""Messages from the end that are read for one check, so that it costs the same in a long conversation."""

DEFAULT_REPEATS = 3
"""Times in a row from which on the same is a loop: twice may be a second try, three times is none."""


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
        repeats: How often the same must come in a row to be a loop. Different calls with the same outcome must be two
            more.
        pollers: Calls that may be made again and again: names of tools, or calls as `tool(value, value)`, values in
            the order of the call. `*` stands for anything: `"act(wait*)"`.
        classifier: Asked where no rule has found anything: a function (see `ClassifierFunction`), a chat model or the
            name of one. A model is asked once for all parallel observations, and again if its reply is unusable.
    """

    def __init__(
        self,
        *,
        phrases: Iterable[str | Phrase] | None = None,
        repeats: int = DEFAULT_REPEATS,
        pollers: Iterable[str] = (),
        classifier: ClassifierFunction | BaseChatModel | str | None = None,
    ) -> None:
        check_count("repeats", repeats, 2)  # once is no loop
        if isinstance(pollers, str):
            msg = f"pollers are a list, got the text {pollers!r:.80}; for a single one, {[pollers]!r:.80}."
            raise ConfigurationError(msg)
        self._classify: Callable[[Sequence[Step]], Flow[Anomaly | None]] | None = None
        if isinstance(classifier, str) or is_chat_model(classifier):
            self._classify = partial(_ask_model, resolve_model(classifier))
        elif callable(classifier):
            self._classify = partial(_ask_function, classifier)
        elif classifier is not None:
            msg = f"classifier must be a function, a chat model or its name, got {type(classifier).__name__}."
            raise ConfigurationError(msg)
        self._phrases = rules.phrase_book().packs["default"] if phrases is None else rules.phrases_from(phrases)
        self._repeats = repeats
        self._pollers = tuple(pollers)

    @driven
    def check(self, messages: Sequence[Any] | Conversation, *, tools: GivenTools | None = None) -> Flow[Anomaly | None]:
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
            anomaly = rules.loop_in(latest_first, repeats=self._repeats, pollers=self._pollers)
        if anomaly is None:
            anomaly = _empty_again(readings, conversation)
        if anomaly is not None or self._classify is None:
            return anomaly
        return (yield from self._classify([reading.step for reading in readings]))

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
    try:
        anomaly = (standard_detector() if detector is None else detector).check(Conversation.of(state, messages_key))
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
        logger.warning("An observation was not checked: %s", described(error))
        return "model"
    return "reflect" if anomaly is not None and anomaly.recoverable else "model"
