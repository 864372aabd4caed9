"""Summaries for runs that were recorded before `summarize_state` was there: a model writes them afterwards."""

from dataclasses import replace
from typing import TypeVar

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.errors import SummaryError
from langchain_tooltree.experience.records import Record
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.models import Meter, resolve_model
from langchain_tooltree.sitgraph.summaries import write_summary
from langchain_tooltree.sitgraph.transitions import WRITTEN_SUMMARIES, transitions_of

R = TypeVar("R", bound=Record)


def backfill_summaries(run: R, model: str | BaseChatModel, *, meter: Meter | None = None) -> R:
    """Have a model sum up the state before each tool call, where the agent did not do so itself.

    One request is made for each tool call. A summary that the model fails to write stays missing; the next time, only
    missing ones are asked for.

    Args:
        run: The run.
        model: The chat model, or the name of one.
        meter: Counts the requests, and bounds them; problems are noted there.

    Returns:
        The same run with the summaries in its metadata, where `SITGraph` finds them.

    Raises:
        ConfigurationError: If `model` is no chat model.
    """
    return run_flow(_backfill(run, resolve_model(model), meter or Meter(_calls(run))))


async def abackfill_summaries(run: R, model: str | BaseChatModel, *, meter: Meter | None = None) -> R:
    """The async twin of `backfill_summaries`."""
    return await arun_flow(_backfill(run, resolve_model(model), meter or Meter(_calls(run))))


def _calls(run: Record) -> int:
    return sum(1 for _ in transitions_of(run))


def _backfill(run: R, model: BaseChatModel, meter: Meter) -> Flow[R]:
    written = dict(run.metadata.get(WRITTEN_SUMMARIES) or {})
    for place, transition in enumerate(transitions_of(run)):
        if transition.summaries or meter.left < 1:
            continue
        try:
            written[str(place)] = yield from write_summary(model, transition.moment.messages, meter)
        except SummaryError as error:
            meter.problems.append(str(error))
    return replace(run, metadata={**run.metadata, WRITTEN_SUMMARIES: written}) if written else run
