"""AnomalyDetector: tells whether the latest observations of a conversation show that something is off."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from langchain_tooltree.cfgm.detection import cascade
from langchain_tooltree.cfgm.detection.anomaly import Anomaly
from langchain_tooltree.cfgm.detection.classifier import ClassifierFunction, resolve_classifier
from langchain_tooltree.cfgm.detection.loops import Pollers, loop_in
from langchain_tooltree.cfgm.detection.phrase import Phrase, phrases_from
from langchain_tooltree.cfgm.detection.phrases import DEFAULT_PHRASES
from langchain_tooltree.cfgm.detection.window import latest_steps, worked_before
from langchain_tooltree.checks import check_count
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.records import Step
from langchain_tooltree.flows import Flow, arun_flow, run_flow

DEFAULT_REPEATS = 3

Tools = Iterable[str | BaseTool | Mapping[str, Any] | Callable[..., Any]]
"""Tools by name, as LangChain tools, as functions, or as the dicts that providers take."""


class AnomalyDetector:
    """Finds anomalous observations: what sets off a reflection in CFGM (Alg. 3).

    ```python
    detector = AnomalyDetector(phrases=[*DEFAULT_PHRASES, "The lever is jammed"], pollers=["act(wait*)"])
    anomaly = detector.check(messages)  # None if all is well
    ```

    The rules are asked one after the other, and the first that finds something has the word:

    1. the tool is not there (`unknown_tool`; `drift` if it worked earlier), or its call failed (`error`);
    2. a field of a structured observation says so (`error_field`);
    3. a phrase says so (`phrase`), at the beginning of the observation, or anywhere in a short one: long texts tell
       of other people's errors;
    4. the same call brought the same again (`repetition`), several calls did (`cycle`), or different calls did
       (`stagnation`). Words that only confirm that something was done are no sign of standing still: it takes twice
       as many of them for a cycle, and they are no stagnation. Only calls since the latest message of the user count,
       and declared pollers do not;
    5. the classifier says so (`classified`).

    A call that a person rejected (`HumanInTheLoopMiddleware`, `PlanReviewMiddleware`) is no anomaly: the agent was told
    what to do. Empty results are none either, until they stagnate. What this package itself has put into an observation
    is not looked at. A check reads the end of the conversation, as far back as a loop may reach; it costs the same in a
    long one.

    Args:
        phrases: Ways in which environments say that something did not work: plain texts, which count anywhere in the
            beginning and the end of an observation, whatever their case, and `Phrase`s.
        repeats: How often the same must come in a row to be a loop. Different calls with the same outcome must be two
            more.
        pollers: Calls that may be made again and again: names of tools, or calls as `tool(value, value)`, values in
            the order of the call. `*` stands for anything: `"act(wait*)"`.
        classifier: Asked where no rule has found anything: a function (see `ClassifierFunction`), a chat model or the
            name of one. A model is asked once for all parallel observations, once more if its reply is unusable.

    Raises:
        ConfigurationError: If an argument is invalid.
    """

    def __init__(
        self,
        *,
        phrases: Iterable[str | Phrase] = DEFAULT_PHRASES,
        repeats: int = DEFAULT_REPEATS,
        pollers: Iterable[str] = (),
        classifier: ClassifierFunction | BaseChatModel | str | None = None,
    ) -> None:
        check_count("repeats", repeats, 2)  # once is no loop
        if isinstance(pollers, str):
            msg = f"pollers are a list, got the text {pollers!r:.80}; for a single one, {[pollers]!r:.80}."
            raise ConfigurationError(msg)
        self._phrases = phrases_from(phrases)
        self._repeats = repeats
        self._pollers = Pollers(pollers)
        self._classify = None if classifier is None else resolve_classifier(classifier)

    def check(self, messages: Sequence[Any], *, tools: Tools | None = None) -> Anomaly | None:
        """Look at the observations that came after the latest calls.

        Args:
            messages: The conversation: LangChain messages, or what `convert_to_messages` takes.
            tools: The tools that the agent has now, by name or otherwise; a call of any other tool that failed is a
                call of an unknown one.

        Returns:
            The anomaly; `None` if there is none, or if the conversation does not end in an observation.

        Raises:
            Exception: What a classifier function raised.
        """
        return run_flow(self.checking(messages, tools=tools))

    async def acheck(self, messages: Sequence[Any], *, tools: Tools | None = None) -> Anomaly | None:
        """The async twin of `check`."""
        return await arun_flow(self.checking(messages, tools=tools))

    def checking(self, messages: Sequence[Any], tools: Tools | None = None) -> Flow[Anomaly | None]:
        """Look at the observations that came after the latest calls, as a flow."""
        turns = latest_steps(messages)
        seen = [each for each in map(cascade.Observation, next(turns, ())) if not each.is_rejection]
        if not seen:
            return None
        latest = [each.step for each in seen]
        found = self._by_rules(seen, messages, tools) or self._by_loops(latest, turns)
        if found is not None or self._classify is None:
            return found
        return (yield from self._classify(latest))

    def _by_rules(
        self, latest: Sequence[cascade.Observation], messages: Sequence[Any], tools: Tools | None
    ) -> Anomaly | None:
        names = None if tools is None else names_of(tools)
        rules: tuple[Callable[[cascade.Observation], Anomaly | None], ...] = (
            lambda seen: cascade.missing_tool(seen, names, lambda tool: worked_before(messages, tool)),
            cascade.error,
            cascade.error_field,
            lambda seen: cascade.phrase(seen, self._phrases),
        )
        return next((found for rule in rules for seen in latest if (found := rule(seen))), None)

    def _by_loops(self, latest: Sequence[Step], earlier: Iterator[list[Step]]) -> Anomaly | None:
        steps = chain(reversed(latest), chain.from_iterable(reversed(turn) for turn in earlier))
        found = loop_in(steps, repeats=self._repeats, pollers=self._pollers)
        return None if found is None else cascade.loop(found)


def names_of(tools: Tools) -> frozenset[str]:
    """The names of tools.

    Args:
        tools: The tools.

    Returns:
        Their names.

    Raises:
        ConfigurationError: If they are no list, or an entry has no name.
    """
    if isinstance(tools, str):
        msg = f"tools are a list, got the text {tools!r:.80}; for a single tool, {[tools]!r:.80}."
        raise ConfigurationError(msg)
    return frozenset(map(_name, tools))


def _name(tool: Any) -> str:
    if isinstance(tool, Mapping):
        function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        name = function.get("name") or tool.get("type")
    else:
        name = tool if isinstance(tool, str) else getattr(tool, "name", None) or getattr(tool, "__name__", None)
    if not isinstance(name, str) or not name:
        msg = f"A tool is a name, a LangChain tool, a function, or a dict with a name; got {tool!r:.120}."
        raise ConfigurationError(msg)
    return name
