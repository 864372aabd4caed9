"""What past runs tell a search for one request."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.anomaly.detector import standard_detector
from langchain_tooltree.cfgm.memory import DEFAULT_K, DEFAULT_MAX_CHARACTERS, FEWEST_CHARACTERS, recall_for
from langchain_tooltree.cfgm.recall import RecalledRun, Recollection, examples_in, recall_text
from langchain_tooltree.cfgm.reflection import Reflector, correction_text
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import described
from langchain_tooltree.experience.guide import Remembered
from langchain_tooltree.experience.hints import NextTools, hint_line
from langchain_tooltree.experience.notes import forgotten_ids
from langchain_tooltree.experience.records import ChatMessage
from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.experience.run_identity import tools_in
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, current_writer, flow_of, if_it_can
from langchain_tooltree.learning.fold import Fold
from langchain_tooltree.models import Meter

logger = logging.getLogger(__name__)


def recall(fold: Fold, task: str, own: str | None) -> Flow[tuple[list[str], list[dict[str, Any]]]]:
    """The ids of the runs that are most like a task, the run of this conversation aside, and their tips."""
    if not task:
        return [], []
    found = yield from recall_for(fold.memory, task, k=DEFAULT_K, own=own, writer=current_writer())
    return [each.trajectory.id for each in found.runs], [tip.to_dict() for tip in found.tips]


def advice(fold: Fold, remembered: Mapping[str, Any], room: int) -> Flow[str]:
    """What was recalled, in words; empty if it cannot be read."""
    if not remembered["runs"]:
        return ""
    runs = yield from if_it_can(partial(fold.store.reading, remembered["runs"]), None, "memory of past runs")
    if not runs:
        return ""
    tips = tuple(map(Tip.from_dict, remembered["tips"]))
    recalled = tuple(RecalledRun(run, () if place else tips) for place, run in enumerate(runs))
    most = max(FEWEST_CHARACTERS, min(room, DEFAULT_MAX_CHARACTERS))
    return recall_text(Recollection(remembered["first"], recalled), max_characters=most)


def without_gone(fold: Fold, remembered: Remembered) -> Remembered:
    """What was recalled, without the runs that are no longer there and the tips that were taken of them."""
    told = [Tip.from_dict(tip) for tip in remembered["tips"]]
    taken = ((tip.id, tip.trajectories) for tip in told)
    gone = forgotten_ids(remembered["runs"], taken, lambda run: run not in fold.entries)
    runs = [run for run in remembered["runs"] if run not in gone]
    tips = [kept for kept, tip in zip(remembered["tips"], told, strict=True) if tip.id not in gone]
    return {**remembered, "runs": runs, "tips": tips} if gone else remembered


@dataclass(frozen=True, slots=True)
class RequestGuide:
    """Past runs of a namespace as the search for one request sees them; see `Guide`."""

    fold: Fold
    remembered: Mapping[str, Any]
    advice: str
    reads: Collection[str]
    model: BaseChatModel | None

    def next_tools(self, dialogue: Sequence[ChatMessage], allowed: Collection[str]) -> Flow[NextTools | None]:
        """How past runs went on from here."""
        try:
            found = yield from flow_of(self.fold.graph.next_tools)(dialogue, allowed=list(allowed))
            return None if found is None else replace(found, text=hint_line(found, reads=self.reads))
        except Exception as error:  # noqa: BLE001 - the embedder may be down, and the search can do without
            logger.warning("No tool could be suggested: %s", described(error))
            return None

    def remedy(self, said: Conversation, tools: Sequence[Any], meter: Meter) -> Flow[str]:
        """What a model says about the trouble at the end of a dialogue."""
        if self.model is None:
            return ""
        try:
            anomaly = yield from flow_of(standard_detector().check)(said)
            if anomaly is None or not anomaly.recoverable:
                return ""
            tips = [Tip.from_dict(each) for each in self.remembered["tips"]]
            offered = tools_in(list(tools)).values()
            reflect = flow_of(Reflector(self.model).reflect)
            task = self.remembered["first"]  # which a summary may have taken out of the conversation
            reflection = yield from reflect(
                said, anomaly, tips=tips, examples=examples_in(self.advice), tools=offered, task=task, meter=meter
            )
        except Exception as error:  # noqa: BLE001 - the search goes on as it would have
            logger.warning("There is no reflection: %s", described(error))
            return ""
        if reflection is None:
            return ""
        return as_reference(correction_text(anomaly, reflection), source="review")

    def failed(self, attempts: Sequence[Trajectory]) -> Flow[None]:
        """Keep failed attempts at the task of the request."""
        for attempt in attempts:  # under the task of the run, which a summary may have taken out of the conversation
            task = self.remembered["first"] or attempt.task
            yield from self.fold.keep(replace(attempt, task=task))
