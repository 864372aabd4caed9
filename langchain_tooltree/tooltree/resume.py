"""What a search keeps in its checkpoints, and how it is taken up from there.

A search is kept as the outcomes of its operations, in order: the same outcomes give the same tree. So a resumed search
is replayed, and an earlier search of the conversation can be replayed for the next one to go on from.
"""

import json
import logging
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_tooltree._langgraph import appending, config_at, graph_around, namespace_here, namespace_of, nodes_in
from langchain_tooltree.conversation import Conversation, calls_in, is_observation, said_by_tool
from langchain_tooltree.errors import ResumeError
from langchain_tooltree.experience.records import call_key
from langchain_tooltree.text import SAME, WORD, MadeUp, cut, first_difference, made_up
from langchain_tooltree.tooltree.dialogue import SoFar
from langchain_tooltree.tooltree.planner import KEPT_SEARCHES, SearchSession, Turn
from langchain_tooltree.tooltree.result import comparable, plan_metadata
from langchain_tooltree.tooltree.sandbox import Same
from langchain_tooltree.tooltree.saved import SearchFile
from langchain_tooltree.tooltree.search import Node, TreeSearch, WarmStart
from langchain_tooltree.tooltree.tools import SearchEffects

logger = logging.getLogger(__name__)


def last_search(messages: Sequence[BaseMessage]) -> str | None:
    """The search whose plan stands last in a conversation."""
    position = _last_planned(messages)
    return None if position is None else str(plan_metadata(messages[position]).get("search"))


QUOTED = 80
"""Characters of two results that are quoted where they differ: as much as a line of a log holds of both."""


def warm_start_of(
    search: TreeSearch,
    conversation: Conversation | Sequence[BaseMessage],
    *,
    effects: SearchEffects,
    same_request: bool,
    repeatable: Collection[str],
    same: Same | None = None,
) -> WarmStart:
    """What the search whose plan stands last in a conversation leaves to the next one.

    For the same request, it is its tree from the state that the conversation has come to; for a new one, the reads of
    `repeatable` tools that it tried. It is nothing but a reason if the plan was not carried out as it was tried, or
    something else may have changed the world.
    """
    said = Conversation.of(conversation)
    messages = said.messages
    position = _last_planned(messages)
    reply = [] if position is None else _nodes(search, messages[position])
    if position is None or not reply:
        return WarmStart(anew="a planned call was changed or left out")
    differing = _all_came_out(reply, messages, position, same)
    if isinstance(differing, str):
        return WarmStart(anew=differing)
    node, rest = reply[-1], messages[position + 1 + len(reply) :]
    if not rest and same_request:
        best = search.best()
        carried_out = best is not None and best.id == node.id
        start = WarmStart.below(search.tree, node, carried_out=carried_out, differing=differing)
        reads = (each.call for each in start.nodes if each.call and each.call.effect == "read")
        writes = next((call.label for call in reads if effects.of(call.tool, call.arguments) != "read"), None)
        return WarmStart(anew=f"{cut(writes, QUOTED)} is no read any more") if writes else start
    later = Conversation(rest)
    changed = next((call["name"] for call in later.calls if effects.of(call["name"], call["args"]) != "read"), None)
    if changed or later.latest != "request" or differing != SAME:
        return WarmStart(
            anew=f"{changed} may have changed the world since" if changed else "the request is another one"
        )
    shown = {call_key(call["name"], call["args"]) for call in said.calls}
    return WarmStart.from_reads(search.tree, node.world, tools=repeatable, shown=shown)


def _last_planned(messages: Sequence[BaseMessage]) -> int | None:
    return next((place for place in reversed(range(len(messages))) if plan_metadata(messages[place])), None)


def _nodes(search: TreeSearch, message: BaseMessage) -> list[Node]:
    """The nodes of the calls that a message plans, in order; none if somebody has changed or left out some since."""
    number, calls = plan_metadata(message).get("node"), calls_in(message)
    if not (isinstance(number, int) and 0 < number < len(search.tree) and calls):
        return []
    nodes = search.tree.path(search.tree[number])[-len(calls) :]
    planned = [(node.call.tool, node.call.arguments) for node in nodes if node.call]
    before = search.tree.state_before(nodes[0]).call
    # What the same reply made before stands in a message of its own if it was run while searching.
    whole = not nodes[0].batched or (before is not None and before.effect == "read")
    together = whole and all(node.batched for node in nodes[1:])
    return nodes if together and planned == [(call["name"], call["args"]) for call in calls] else []


def _all_came_out(
    reply: Sequence[Node], messages: Sequence[BaseMessage], position: int, same: Same | None
) -> MadeUp | str:
    """In which names the calls of a planned reply brought back something else than when tried; or why it is more."""
    answers = {each.tool_call_id: each for each in messages[position + 1 :][: len(reply)] if is_observation(each)}
    before = Conversation(messages[:position])
    differing = SAME
    for node, call in zip(reply, calls_in(messages[position]), strict=True):
        answer = answers.get(str(call["id"]))
        came_out = _came_out(node, answer, before, same=same)
        if isinstance(came_out, str):
            return came_out
        renamed = {**differing.renamed, **came_out.renamed}
        differing = MadeUp(renamed, differing.gone | came_out.gone)
    return differing


def _came_out(node: Node, answer: ToolMessage | None, said: Conversation, *, same: Same | None) -> MadeUp | str:
    """In which names a planned call brought back, for real, something else than while searching; or why it is more."""
    label, observation = cut(node.label, QUOTED), node.observation
    if observation is None or observation.transient:
        return f"{label} could not be tried while searching"
    if answer is None:
        return f"{label} was not carried out"
    tried = ToolMessage(
        observation.content,
        tool_call_id=answer.tool_call_id,
        name=answer.name,
        artifact=observation.artifact,
        status="success" if observation.kind == "ok" else "error",
    )
    real = answer.model_copy(update={"content": said_by_tool(answer)})
    before, after = _written(tried.content), _written(real.content)
    if real.status == tried.status:
        if before == after:
            return SAME
        if same is None:
            asked, known = (*said.wanted, node.label), (str(each.content) for each in said.messages)
            differing = made_up(before, after, asked="\n".join(asked), known="\n".join(known))
        else:
            differing = _differing_by(same, tried, real)
        if differing is not None:
            return differing
    was, came = first_difference(before, after, QUOTED)
    return f"{label} came out as {real.status} {came!r}, not as {tried.status} {was!r}"


def _differing_by(same: Same, tried: ToolMessage, real: ToolMessage) -> MadeUp | None:
    """In which names two results differ that the user calls the same; `None` if the user does not."""
    try:
        if not same(tried, real):
            return None
    except Exception:
        logger.exception("same= failed for a result of %s, which is taken for another one", tried.name)
        return None
    before, after = _written(tried.content), _written(real.content)
    # Where it cannot be said what stands for what, nothing is, and no word holds that the real result lacks.
    return made_up(before, after) or MadeUp({}, frozenset({before, *WORD.findall(before)} - {*WORD.findall(after)}))


def _written(content: Any) -> str:
    """Content as a text to compare."""
    return content if isinstance(content, str) else json.dumps(comparable(content), sort_keys=True, default=str)


SEGMENT = 240
"""Operations launched between two checkpoints: a default search of 60 rollouts is one segment. Measured: the cost of
pending writes grows with their number, from 2.5 ms CPU a rollout at 60 rollouts to 42 at 2,000."""

KNOWN_SECONDS = 60.0
"""So long reads are believed after a new request: who else changes the world meanwhile is not known."""

NOTHING_KEPT = f"nothing is kept of it here: it ran in another process, or {KEPT_SEARCHES} newer ones have displaced it"
"""Why a search whose plan stands in the conversation is not gone on from."""

MAX_SEGMENTS = 10_000
"""Segments of a search at the most, for LangGraph's recursion limit: far beyond what any budget allows."""

Outcomes = list[dict[str, Any]]


class SegmentEnd(TypedDict):
    """What a finished segment adds to the state; see `SegmentState`."""

    segments: Annotated[list[Outcomes], appending(snapshot_frequency=MAX_SEGMENTS)]
    consumed: int  # how many outcomes all segments have
    done: bool
    run_key: str


class SegmentState(SegmentEnd):
    """What the search graph keeps: what its segments have added, and what the search was begun with.

    A checkpoint holds what the segment before it has added and not all of it, so that what is kept grows with the
    search and not with its square.
    """

    began: float  # seconds since the epoch
    warm_start: dict[str, Any] | None  # a `WarmStart` as plain data; `None` if it begins with nothing
    fingerprint: str  # see `Planner.fingerprint`
    requests: list[str]  # what the user had asked by then
    identity: str  # see `SearchSession.identity`
    so_far: SoFar  # see `SearchSession.so_far`


def earlier_place(session: SearchSession) -> RunnableConfig | None:
    """Where the checkpointer of the host keeps the search that a new one may go on from, if there may be one."""
    if not session.planner.config.reuse_seconds or (search_id := last_search(session.turn.messages)) is None:
        return None
    configurable = ensure_config().get("configurable", {})
    if nodes_in(search_id) != nodes_in(namespace_of({"configurable": configurable})):
        return None  # another planner's, whose tools may only look alike
    return config_at(configurable, search_id)


def beginning(session: SearchSession, earlier: Mapping[str, Any] | None = None) -> SegmentState:
    """The input of a search that may go on from an earlier one; a resumed search ignores it."""
    began = time.time()
    start = _warm_start(session, earlier or {}, began) if last_search(session.turn.messages) else None
    return SegmentState(
        segments=[],
        consumed=0,
        done=False,
        run_key=uuid.uuid4().hex,
        began=began,
        warm_start=start.model_dump() if start else None,
        fingerprint=_fingerprint(session),
        requests=session.dialogue.requests,
        identity=session.identity,
        so_far=session.so_far,
    )


def _why_not(session: SearchSession, earlier: Mapping[str, Any], now: float) -> str:
    """Why an earlier search is none to go on from, before it is looked at; empty if it may be one."""
    if not earlier.keys() >= SegmentState.__required_keys__:
        return NOTHING_KEPT  # metadata may come from a client, and name anything
    age, longest = now - earlier["began"], session.planner.config.reuse_seconds
    reasons = {
        f"it began {age:.0f} s ago, and reuse_seconds is {longest:g}": age > longest,
        "it had another configuration, other tools or other effects": earlier["fingerprint"] != _fingerprint(session),
        "it was made for another user or context": earlier["identity"] != session.identity,
        "it has not ended": not earlier["done"],
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _warm_start(session: SearchSession, earlier: Mapping[str, Any], now: float) -> WarmStart:
    """What a search goes on from, if the earlier one was made by the same planner not long ago."""
    if reason := _why_not(session, earlier, now):
        return WarmStart(anew=reason)
    turn = Turn(planner=session.planner, messages=session.turn.messages, read=session.turn.said)
    replayed = SearchSession(turn, so_far=earlier["so_far"])  # that has not begun
    try:
        adopt(replayed, cast("SegmentState", earlier))
    except ResumeError as error:  # going on saves work, and is never worth failing a new request for
        return WarmStart(anew=f"it cannot be replayed: {error}")
    return warm_start_of(
        replayed.search,
        session.turn.said,
        effects=session.planner.effects,
        same_request=earlier["requests"] == session.dialogue.requests,
        repeatable=session.planner.repeatable if now - earlier["began"] <= KNOWN_SECONDS else (),
        same=session.planner.same,
    )


def placed(state: SegmentState) -> SegmentState:
    """The state with a run key from the search's place in its host, if it has a host: the same after any resume."""
    return {**state, "run_key": graph_around(namespace_here()) or state["run_key"]}


def adopt(session: SearchSession, state: SegmentState) -> None:
    """Bring a session to where the search stands, replaying without any I/O the segments that it has not seen."""
    if state["fingerprint"] != _fingerprint(session):
        msg = (
            "This thread holds a search that was begun with another configuration, other tools or other effects. "
            "Resume a thread with the tools, models and configuration it was started with, or start a new run."
        )
        raise ResumeError(msg)
    if sum(map(len, state["segments"])) != state["consumed"]:
        msg = (
            "The checkpointer keeps the latest checkpoint of this thread only, and a search of this length is kept in "
            "several. Use one that keeps a thread's history, or start a new run."
        )
        raise ResumeError(msg)
    session.dialogue.run_key = state["run_key"]
    if session.file is None and (folder := session.planner.searches_folder) is not None:
        session.file = SearchFile(folder, began=state["began"], key=state["run_key"], thread=session.thread)
    if state["warm_start"]:
        session.warm_start(state["warm_start"])
    seen = session.search.consumed if state["segments"] else 0
    for outcomes in state["segments"]:
        if seen:
            seen -= len(outcomes)
            continue
        end = segment_end(session)
        for outcome in (None, *outcomes):  # as its driver has given them
            session.advance(outcome, end)


def finished(session: SearchSession, outcomes: Outcomes) -> SegmentEnd:
    """What is kept of a segment that has ended with these outcomes."""
    return SegmentEnd(
        segments=[outcomes],
        consumed=session.search.consumed,
        done=session.search.finished,
        run_key=session.dialogue.run_key,
    )


def segment_end(session: SearchSession) -> int:
    """How many operations will have been launched when the segment that begins now is over."""
    return session.search.launched + SEGMENT


def _fingerprint(session: SearchSession) -> str:
    return f"{session.planner.fingerprint}/{SEGMENT}"
