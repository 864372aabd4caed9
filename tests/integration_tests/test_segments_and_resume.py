"""A long search is cut into segments with a checkpoint between them; a thread is resumed with what it began with."""

import asyncio
import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from conversations import check_conversation, outline
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import PrivateAttr
from travel import EFFECTS, ROUND_TRIP, Agency, TravelPolicy, asking, travel_model

from langchain_tooltree import SearchConfig, ToolTreeNode, asearch, search
from langchain_tooltree.errors import ResumeError
from langchain_tooltree.testing import OfflineChatModel, Question
from tests.internals.tooltree import MANY_QUESTIONS
from tests.internals.tooltree import resume_module as checkpoints

THREAD: Any = {"configurable": {"thread_id": "1"}}

LONG = SearchConfig(selection="smoothed", max_rollouts=100, value_threshold=1.0, patience=1_000, **MANY_QUESTIONS)
PLAN = ["human", "call find_flights", "result find_flights", "call book"]


class WanderingPolicy(TravelPolicy):
    """Knows detours that never end."""

    def propose(self, question: Question) -> list[Any]:
        """The right step, and hotels in two more cities."""
        hotels = [("find_hotels", {"city": f"{len(question.path)}.{number}"}) for number in range(2)]
        return [*super().propose(question)[:1], *hotels]


class PowerCut(BaseException):
    """Ends a run as a kill does, past every handler."""


class CountingModel(OfflineChatModel):
    """Counts its calls, and fails at one of them."""

    fails_at: int | None = None
    _calls: int = PrivateAttr(default=0)

    @property
    def calls(self) -> int:
        return self._calls

    def _respond(self, messages: Any, tools: Any) -> Any:
        self._calls += 1
        if self._calls == self.fails_at:
            raise PowerCut
        return super()._respond(messages, tools)


def planner_graph(checkpointer: Any, model: OfflineChatModel, config: SearchConfig, tools: Any = None) -> Any:
    tools = tools or Agency().tools
    effects = {tool.name: EFFECTS[tool.name] for tool in tools if tool.name in EFFECTS}
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, tools, effects=effects, config=config))
    graph.add_edge(START, "model")
    return graph.compile(checkpointer=checkpointer)


class EventHandler(BaseCallbackHandler):
    """Keeps the latest event of each kind."""

    def __init__(self) -> None:
        self._events: dict[str, Any] = {}

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        self._events[name] = data

    def last(self, kind: str) -> Any:
        return self._events[f"tooltree.{kind}"]


def invoke(graph: Any, given: Any, *, path: str, **config: Any) -> Any:
    config = {**THREAD, **config}
    return asyncio.run(graph.ainvoke(given, config)) if path == "async" else graph.invoke(given, config)


def interrupted(config: SearchConfig, *, after: int) -> InMemorySaver:
    """A checkpointer with a thread whose run ended in a power cut at a model call."""
    saver = InMemorySaver()
    model = CountingModel(policy=WanderingPolicy() if config is LONG else TravelPolicy(), fails_at=after)
    with pytest.raises(PowerCut):
        invoke(planner_graph(saver, model, config), asking(ROUND_TRIP), path="sync")
    return saver


def segments(saver: InMemorySaver) -> int:
    """How many finished segments the checkpoints of the search hold."""
    written = (write for checkpoint in saver.list(THREAD) for write in checkpoint.pending_writes or ())
    return sum(len(value) for _, channel, value in written if channel == "segments")


@pytest.mark.parametrize("path", ["sync", "async"])
@pytest.mark.parametrize("segment", [20, 70])
def test_a_long_search_goes_on_from_its_latest_segment(
    monkeypatch: pytest.MonkeyPatch, segment: int, path: str
) -> None:
    monkeypatch.setattr(checkpoints, "SEGMENT", segment)
    model = CountingModel(policy=WanderingPolicy())
    whole = search(ROUND_TRIP, Agency().tools, model=model, effects=EFFECTS, config=LONG)
    assert (whole.cost.rollouts, whole.stop_reason) == (LONG.max_rollouts, "max_rollouts")
    saver = interrupted(LONG, after=model.calls - 40)
    held = segments(saver)
    assert held >= 2
    told = EventHandler()
    rest = CountingModel(policy=WanderingPolicy())

    messages = invoke(planner_graph(saver, rest, LONG), None, path=path, callbacks=[told])["messages"]

    assert outline(check_conversation(messages, pending="book")) == PLAN
    assert segments(saver) > held
    assert rest.calls <= 40 + LONG.parallel_rollouts
    assert told.last("stop") == {"type": "stop", "reason": "max_rollouts", "rollouts": LONG.max_rollouts}
    assert told.last("budget") == {
        "type": "budget",
        "rollouts": whole.cost.rollouts,
        "model_calls": whole.cost.model_calls,
        "tool_calls": whole.cost.tool_calls,
        "tokens": whole.cost.tokens,
    }


@pytest.mark.parametrize("segment", [1, 20, 70])
def test_replaying_the_segments_of_a_search_gives_its_tree(monkeypatch: pytest.MonkeyPatch, segment: int) -> None:
    monkeypatch.setattr(checkpoints, "SEGMENT", segment)
    arguments: Any = {"model": OfflineChatModel(policy=WanderingPolicy()), "effects": EFFECTS, "config": LONG}
    whole = search(ROUND_TRIP, Agency().tools, **arguments)

    finished: list[Any] = []

    @entrypoint(checkpointer=InMemorySaver())
    def searched(request: str) -> list[Any]:
        result = search(request, Agency().tools, **arguments)
        finished.append([result.to_dict(), [step.call_id for step in result.steps]])
        if len(finished) == 1:
            raise PowerCut
        return finished[-1]

    with pytest.raises(PowerCut):
        searched.invoke(ROUND_TRIP, THREAD)
    searched.invoke(None, THREAD)

    in_memory, replayed = finished
    assert in_memory[0] == whole.to_dict()
    assert replayed == in_memory
    assert asyncio.run(asearch(ROUND_TRIP, Agency().tools, **arguments)).to_dict() == whole.to_dict()


def everything_kept(saver: InMemorySaver) -> int:
    """Bytes of all that a checkpointer was ever given."""

    def count(part: Any) -> int:
        if isinstance(part, dict):
            return count(list(part.values()))
        if isinstance(part, list | tuple):
            return sum(map(count, part))
        return len(part) if isinstance(part, bytes) else 0

    return count([saver.storage, saver.writes, saver.blobs])


@pytest.mark.parametrize("path", ["sync", "async"])
def test_what_a_search_keeps_grows_with_its_length_and_not_with_the_square(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(checkpoints, "SEGMENT", 20)
    bytes_a_rollout = {}
    for rollouts in (40, 160):
        saver = InMemorySaver()
        model = OfflineChatModel(policy=WanderingPolicy())
        invoke(planner_graph(saver, model, replace(LONG, max_rollouts=rollouts)), asking(ROUND_TRIP), path=path)
        assert segments(saver) > rollouts / 20
        bytes_a_rollout[rollouts] = everything_kept(saver) / rollouts

    assert bytes_a_rollout[160] <= 1.3 * bytes_a_rollout[40]


class ForgetfulSaver(InMemorySaver):
    """Keeps the latest checkpoint of a graph only."""

    def get_tuple(self, config: Any) -> Any:
        """Nothing, if an earlier one is asked for."""
        place = config["configurable"]
        latest = max(self.storage[place["thread_id"]][place.get("checkpoint_ns", "")], default=None)
        return super().get_tuple(config) if place.get("checkpoint_id") in {None, latest} else None

    get_delta_channel_history = BaseCheckpointSaver.get_delta_channel_history


def test_a_search_whose_earlier_segments_are_lost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SEGMENT", 20)
    saver = ForgetfulSaver()
    model = CountingModel(policy=WanderingPolicy(), fails_at=60)
    with pytest.raises(PowerCut):
        invoke(planner_graph(saver, model, LONG), asking(ROUND_TRIP), path="sync")

    with pytest.raises(ResumeError, match="keeps a thread's history"):
        invoke(planner_graph(saver, CountingModel(policy=WanderingPolicy()), LONG), None, path="sync")


def test_a_default_search_is_one_segment() -> None:
    saver = InMemorySaver()

    invoke(planner_graph(saver, travel_model(), SearchConfig()), asking(ROUND_TRIP), path="sync")

    assert segments(saver) == 1


@pytest.mark.parametrize("path", ["sync", "async"])
@pytest.mark.parametrize(
    "change",
    [{"parallel_rollouts": 2}, {"top_k": 1}, {"max_rollouts": 5}, {"pre_threshold": 0.6}, {"seed": 5}],
    ids=lambda change: next(iter(change)),
)
def test_resuming_with_another_configuration_is_refused(path: str, change: dict[str, Any]) -> None:
    config = SearchConfig(selection="smoothed", max_rollouts=30, value_threshold=1.0, **MANY_QUESTIONS)
    saver = interrupted(config, after=25)
    changed = dataclasses.replace(config, **change)

    with pytest.raises(ResumeError, match="Resume a thread with the tools, models and configuration"):
        invoke(planner_graph(saver, travel_model(), changed), None, path=path)


@pytest.mark.parametrize("path", ["sync", "async"])
def test_resuming_with_other_tools_is_refused(path: str) -> None:
    config = SearchConfig(selection="smoothed", max_rollouts=30, value_threshold=1.0, **MANY_QUESTIONS)
    saver = interrupted(config, after=5)
    fewer = [tool for tool in Agency().tools if tool.name != "find_flights"]

    with pytest.raises(ResumeError, match="Resume a thread with the tools, models and configuration"):
        invoke(planner_graph(saver, travel_model(), config, fewer), None, path=path)


@pytest.mark.parametrize("segment", [4, 7])
def test_segments_that_were_cut_differently_are_refused(monkeypatch: pytest.MonkeyPatch, segment: int) -> None:
    config = SearchConfig(selection="smoothed", max_rollouts=30, value_threshold=1.0, **MANY_QUESTIONS)
    monkeypatch.setattr(checkpoints, "SEGMENT", 6)
    saver = interrupted(config, after=25)
    monkeypatch.setattr(checkpoints, "SEGMENT", segment)

    with pytest.raises(ResumeError, match="Resume a thread with the tools, models and configuration"):
        invoke(planner_graph(saver, travel_model(), config), None, path="sync")


def test_resuming_with_the_same_parts_goes_on() -> None:
    config = SearchConfig(selection="smoothed", max_rollouts=30, value_threshold=1.0, **MANY_QUESTIONS)
    whole = CountingModel(policy=TravelPolicy())
    invoke(planner_graph(InMemorySaver(), whole, config), asking(ROUND_TRIP), path="sync")
    saver = interrupted(config, after=25)
    model = CountingModel(policy=TravelPolicy())

    messages = invoke(planner_graph(saver, model, config), None, path="sync")["messages"]

    assert outline(check_conversation(messages, pending="book")) == PLAN
    assert model.calls <= whole.calls - 25 + config.parallel_rollouts
