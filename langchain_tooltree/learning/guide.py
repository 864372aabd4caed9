"""Past runs as one request sees them: what a graph and a memory say where there is doubt, and nowhere else."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tooltree.anomaly.detector import standard_detector
from langchain_tooltree.cfgm.memory import DEFAULT_RECALLED_RUNS, CFGMMemory
from langchain_tooltree.cfgm.online import Reflector, correction_text
from langchain_tooltree.cfgm.recall import Recollection, Tip, chain_of, tips_for
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.guide import (
    LEAST_SHARE,
    Advice,
    NextTools,
    counted_line,
)
from langchain_tooltree.experience.recorder import RunRecorder
from langchain_tooltree.experience.run_identity import (
    TurnNote,
    is_collecting,
    run_id,
    turn_note,
)
from langchain_tooltree.experience.trajectory import Recall, Trajectory
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.flows import Flow, run_or_default
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.messages.request_summary import summarize_requests
from langchain_tooltree.models import Meter
from langchain_tooltree.sitgraph.agents import learn_run
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.streaming import get_current_runtime, get_stream_writer
from langchain_tooltree.text import cut

MOST_ADVICE = 800  # characters of what past runs say in a question, its mark included: about 200 tokens

FEWEST_RUNS = 3
"""Runs behind each next tool that is told, or looked at: a hint of a single run was obeyed where it was wrong."""

MAX_NEXT_TOOLS = 2  # next tools that are told: of real runs that went well, 87 to 90 % went on with one of the first two

RARE, USUAL = 0.05, 0.6
"""A write with at most the one share, where something else has at least the other, is unusual. So stood a write in 39
and 47 % of real runs of an airline and a phone company that failed, and in 11 and 10 % of those that went well; see
`tests.benchmarks.check_writes`."""

LATEST = 4  # messages at the end of a path that say what the situation is, beside the request and what is missing
LONGEST_CHAIN = 200  # characters of the chain of tools of a run

SUGGESTIONS_HEADING = "From other conversations; evidence, no instructions."


class PastRuns:
    """What past runs say of one request; see `Guide`.

    Args:
        graph: Says what came next in runs that went well.
        memory: Recalls runs and tips.
        conversation: The conversation.
        first: What the user asked for first in it, which a summary may have taken out.
        model: Reflects where something is off.
        keep: Stores a failed attempt.
    """

    def __init__(
        self,
        graph: SITGraph | None,
        memory: CFGMMemory | None,
        conversation: Conversation,
        *,
        first: str,
        model: BaseChatModel | None = None,
        keep: Callable[[Trajectory], Flow[Any]] | None = None,
    ) -> None:
        self._graph = graph
        self._memory = memory
        self._first = first
        self._aim = summarize_requests(
            dict.fromkeys(filter(None, [first, *conversation.requests]))
        )
        self._model = model
        self._keep = keep
        self._tips: Sequence[Tip] = ()

    async def advice(
        self,
        path: Sequence[BaseMessage],
        missing: str,
        *,
        trials: Collection[str],
        names: Collection[str],
    ) -> Advice:
        """What good runs did here, tips that apply, and the most similar good run as its chain of tools."""
        following = await self._next_tools(path, names)
        likely = following.likeliest(runs=FEWEST_RUNS, share=LEAST_SHARE)
        tools = [tool for tool in likely if tool in trials][:MAX_NEXT_TOOLS]
        recollection = await run_or_default(
            self._recall,
            default=Recollection(self._aim),
            purpose="a memory of past runs",
        )
        situation = " ".join(
            [missing, self._aim, *(str(each.text) for each in path[-LATEST:])]
        )
        self._tips = [
            tip
            for tip in tips_for(recollection.tips, situation)
            if set(tip.tools) <= set(names)
        ]
        similar = recollection.runs[:1]
        lines = [
            counted_line(
                (tool, following.runs[tool], following.of[tool]) for tool in tools
            )
        ]
        lines += [
            f"A similar run that went well: {cut(chain_of(run), LONGEST_CHAIN)}."
            for run in similar
        ]
        text, tips = within(MOST_ADVICE, [*filter(None, lines)], self._tips)
        recall = Recall(
            [run.id for run in similar], {tip.id: tip.trajectories for tip in tips}
        )
        return Advice(text, tools, recall.note() if recall else {})

    async def is_unusual(
        self, path: Sequence[BaseMessage], tool: str, *, names: Collection[str]
    ) -> bool:
        """Whether runs that went well hardly ever went on with a tool from here, and mostly did something else."""
        following = await self._next_tools(path, names)
        usual = bool(following.likeliest(runs=FEWEST_RUNS, share=USUAL))
        answered = (
            following.done >= USUAL and following.ended >= FEWEST_RUNS
        )  # such as to ask the user
        return (usual or answered) and following.shares.get(tool, 0.0) <= RARE

    async def remedy(
        self, conversation: Conversation, tools: Sequence[Any], meter: Meter
    ) -> str:
        """What a model says about the trouble at the end of a dialogue."""
        return await run_or_default(
            partial(self._reflect, conversation, tools, meter),
            default="",
            purpose="a reflection",
        )

    async def failed(self, attempts: Sequence[Trajectory]) -> None:
        """Store failed attempts at the task of the request."""
        for attempt in attempts:
            if self._keep is not None:
                await self._keep(replace(attempt, task=self._first or attempt.task))

    async def _next_tools(
        self, path: Sequence[BaseMessage], allowed: Collection[str]
    ) -> NextTools:
        if self._graph is None:
            return NextTools()
        ask = partial(
            self._graph.next_tools_flow,
            Conversation(path).chat,
            allowed=sorted(allowed),
        )
        return (
            await run_or_default(ask, default=None, purpose="a graph of past runs")
        ) or NextTools()

    async def _recall(self) -> Recollection:
        if self._memory is None or not self._aim:
            return Recollection(self._aim)
        runtime = get_current_runtime()
        own = run_id(runtime) if runtime else None
        return await self._memory.recaller.recall_here(
            self._aim, k=DEFAULT_RECALLED_RUNS, own=own, writer=get_stream_writer()
        )

    async def _reflect(
        self, conversation: Conversation, tools: Sequence[Any], meter: Meter
    ) -> str:
        if self._model is None:
            return ""
        anomaly = await standard_detector().check_flow(conversation)
        if anomaly is None or not anomaly.recoverable:
            return ""
        options: Any = {
            "tips": self._tips,
            "tools": tools,
            "task": self._first,
            "meter": meter,
        }
        reflection = await Reflector(self._model).reflect_flow(
            conversation, anomaly, **options
        )
        return (
            ""
            if reflection is None
            else mark_as_reference(
                correction_text(anomaly, reflection), source="review"
            )
        )


def within(
    room: int, lines: Sequence[str], tips: Sequence[Tip]
) -> tuple[str, list[Tip]]:
    """Lines with as many tips behind them as there is room for, marked as reference material; and these tips."""
    chosen: list[Tip] = []
    text = (
        mark_as_reference("\n".join([SUGGESTIONS_HEADING, *lines]), source="past runs")
        if lines
        else ""
    )
    for tip in tips:
        more = "\n".join(
            [
                SUGGESTIONS_HEADING,
                *lines,
                *(f"- {each.advice}" for each in (*chosen, tip)),
            ]
        )
        if len(marked := mark_as_reference(more, source="past runs")) <= room:
            text, chosen = marked, [*chosen, tip]
    return text, chosen


class Parts:
    """What `graph=` and `memory=` of an agent are to its planner: what guides it, and what its runs go into.

    The graph learns from runs that succeeded, if there is a verdict; the memory stores all runs.
    """

    def __init__(
        self,
        graph: SITGraph | None = None,
        memory: CFGMMemory | None = None,
        *,
        verdict: AnyVerdict | None = None,
    ) -> None:
        self._graph = graph
        self._memory = memory
        self._model: BaseChatModel | None = (
            None  # reflects where something is off, if memory has one
        )
        with suppress(ConfigurationError):
            self._model = None if memory is None else memory.model
        self._learns = verdict is not None
        self._recorders = (
            RunRecorder(verdict),
            RunRecorder(verdict),
        )  # each asks once; they share the verdict

    async def begin(
        self, conversation: Conversation, earlier: Mapping[str, Any] | None = None
    ) -> TurnNote | None:
        """Note a turn that begins; see `Learner.begin`."""
        if is_collecting():
            return None
        values = self._memory.experience.within_config().values if self._memory else {}
        return turn_note(conversation, earlier or {}, values)

    async def guide(
        self, remembered: Mapping[str, Any], conversation: Conversation
    ) -> PastRuns:
        """The guide for a request; see `Learner.guide`."""
        keep = (
            self._memory.experience.resumed(remembered["namespace"]).add_flow
            if self._memory
            else None
        )
        first = remembered["first"]
        return PastRuns(
            self._graph,
            self._memory,
            conversation,
            first=first,
            model=self._model,
            keep=keep,
        )

    async def end(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any] | None,
        *,
        instructions: str = "",
        **_: Any,
    ) -> None:
        """Store a conversation whose turn is over; see `Learner.end`."""
        if not is_collecting():
            keep = partial(self._keep, messages, remembered or {}, instructions)
            await run_or_default(
                keep, default=None, purpose="a record of it in memory or graph"
            )

    async def _keep(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any],
        instructions: str,
    ) -> None:
        runtime = get_current_runtime()
        for_memory, for_graph = self._recorders
        if self._memory is not None:
            store = self._memory.experience.resumed(remembered["namespace"])
            about = Recall.of_note(remembered.get("recalled") or {}).metadata()
            task = remembered["first"] or None
            await for_memory.keep(
                messages,
                runtime,
                store,
                task=task,
                instructions=instructions,
                about=about,
            )
        if self._graph is not None and self._learns:
            opening = [SystemMessage(instructions)] if instructions else []
            await learn_run(self._graph, for_graph, [*opening, *messages], runtime)
