"""What is kept of a turn, and what is asked of an `Experience`.

The tree of a search that has ended is kept as a `SearchResult`, for pictures, files and whoever asks. With experience,
the turn is kept when it ends, and so are the branches that led nowhere; where there is doubt, it gives a guide.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, messages_from_dict

from langchain_tooltree._langgraph import thread_here
from langchain_tooltree.conversation import Conversation, is_observation
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.guide import Guide, Learner, kept_searches
from langchain_tooltree.experience.records import ATTEMPT_OF, call_key
from langchain_tooltree.experience.run_identity import run_id
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, current_runtime, if_it_can
from langchain_tooltree.models import usage_sum
from langchain_tooltree.pages.saved import as_saved, record
from langchain_tooltree.replies import calls_in
from langchain_tooltree.text import digest, forget_oldest, one_line
from langchain_tooltree.tooltree.branches import KEY, Branches, Mark, is_fruitless, results_of
from langchain_tooltree.tooltree.result import PlanStep, SearchCost, SearchResult
from langchain_tooltree.tooltree.search import Call, Node, Observation, Tree
from langchain_tooltree.tooltree.visit import Ended

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.host import PlannerHost

KEPT_SEARCHES = 64
"""Searches of which a process keeps the tree, the latest: some 0.2 MB each."""


def keep_search(result: SearchResult, folder: Path | None) -> Flow[None]:
    """Keep a search that has ended for `search_result`, and in a folder if there is one."""
    kept_searches[result.search_id] = result
    forget_oldest(kept_searches, KEPT_SEARCHES)
    if folder is not None:
        write = partial(record, folder, as_saved(result), key=result.search_id, thread=thread_here())
        yield FunctionStep(lambda _: write(), None)


def search_result(message: BaseMessage) -> SearchResult:
    """The search behind an answer of an agent, with its tree, its pictures and its cost.

    ```python
    out = agent.invoke({"messages": [...]})
    print(search_result(out["messages"][-1]).to_mermaid())
    ```

    A process keeps its latest searches, so ask soon. What a search tried and cost stays with the answer, under
    `response_metadata["tooltree"]`. An answer that was accepted at once has no search behind it.

    Raises:
        ConfigurationError: If no search made the message, or it is no longer kept.
    """
    metadata = message.response_metadata.get(KEY) if isinstance(message, AIMessage) else None
    key = metadata.get("search") if isinstance(metadata, Mapping) else None
    if not isinstance(key, str):
        msg = (
            f"No search made this {type(message).__name__}. Pass an answer whose response_metadata has {KEY!r}; one "
            "that was accepted at once has none."
        )
        raise ConfigurationError(msg)
    if key not in kept_searches:
        msg = (
            f"The search {key!r} is no longer kept: a process keeps its latest {KEPT_SEARCHES}, until runs are "
            "forgotten. Ask right after the run, in the same process, or pass record_searches= to keep each search in "
            "a file."
        )
        raise ConfigurationError(msg)
    return cast("SearchResult", kept_searches[key])


def result_of(ended: Ended) -> SearchResult:
    """The tree of a search in the host's loop, out of the messages of its turn."""
    branches, mark, held = ended.branches, ended.mark, ended.mark.held or {}
    kept = set(held.get("path", ()))
    turn = branches.messages if branches.begin is None else branches.messages[branches.begin + 1 :]
    tree = Tree()
    ends: dict[str, Node] = {}
    latest = tree.root
    steps: list[PlanStep] = []
    for place, message in enumerate(turn):
        calls = calls_in(message)
        results = {each.tool_call_id: each for each in results_of(turn, place)} if calls else {}
        if not calls:
            ends[str(message.id)] = latest
            continue
        latest = ends.get(mark.parents[str(message.id)], tree.root) if message.id in mark.parents else latest
        latest.proposals += 1
        for at, call in enumerate(calls):
            effect = "read" if branches.is_read(call["name"], call["args"]) else "write"
            made = Call(tool=call["name"], arguments=call["args"], effect=cast("Any", effect))
            latest = tree.add(latest, made, batched=at > 0)
            latest.r_pre, latest.pre_scored = 1.0, False
            if (result := results.get(str(call["id"]))) is not None:
                latest.observation = _observation(result)
            if message.id in kept:
                observed = latest.observation
                steps.append(PlanStep(made, str(call["id"]), observed, node=latest.id, batched=latest.batched))
            else:
                latest.pruned = "post_evaluation"
        ends[str(message.id)] = latest
    for candidate in mark.queue:  # offered, and not tried
        opened = ends.get([*mark.parents.values()][-1], tree.root) if mark.parents else tree.root
        idea = tree.add(opened, Call(tool=candidate["name"], arguments=candidate["args"], effect="read"))
        idea.r_pre, idea.pre_scored = candidate.get("score"), candidate.get("score") is not None
    end = tree[steps[-1].node] if steps else tree.root
    end.missing = (held["missing"],) if held.get("missing") else ()
    on_path = [message for message in turn if message.id in kept and message.id != ended.answer.id]
    usage = reduce(usage_sum, (getattr(each, "usage_metadata", None) for each in on_path), ended.answer.usage_metadata)
    own_steps = sum(isinstance(message, AIMessage) and message.id not in mark.parents for message in turn)
    is_answered = bool(turn) and isinstance(turn[-1], AIMessage) and not calls_in(turn[-1])
    unseen = mark.stops + mark.asked - is_answered
    cost = SearchCost(
        rollouts=len(mark.parents),
        nodes=len(tree) - 1,
        pruned_after=sum(node.pruned is not None for node in tree.nodes),
        model_calls=own_steps + unseen,
        tokens=usage["total_tokens"] if usage else 0,
        tool_calls=sum(is_observation(message) for message in turn),
        usage=usage,
    )
    return SearchResult(
        query=Conversation(branches.messages).goal,
        tree=tree,
        steps=tuple(steps),
        cost=cost,
        stop_reason=ended.reason,
        answer=ended.answer,
        search_id=mark.search,
        messages=[*on_path, ended.answer],
    )


def result_of_path(
    messages: Sequence[BaseMessage], is_read: Callable[[str, Any], bool], plan: Mapping[str, Any] | None
) -> SearchResult:
    """A run without a doubt, as a search of one path, which ends in the answer or in calls that wait.

    These may be the first step of a `plan` that was tried in a sandbox.
    """
    last = cast("AIMessage", messages[-1])
    path = {"path": [message.id for message in messages]}
    mark = Mark(search=uuid.uuid4().hex, held=path, stops=int(not calls_in(last)))
    result = result_of(Ended(Branches(messages, Mark(), is_read), mark, last, "answered"))
    if not calls_in(last):
        return result
    steps = [*result.steps]
    for planned in (plan or {}).get("steps", ())[1:]:
        (message,) = messages_from_dict([planned["message"]])
        for at, call in enumerate(calls_in(message)):
            made = Call(tool=call["name"], arguments=call["args"], effect="sandboxed")
            tried = Observation(content=planned["tried"].get(call["id"], ""))
            steps.append(PlanStep(made, str(call["id"]), tried, batched=at > 0))
    return replace(result, steps=tuple(steps), answer=None)


def made_since(result: SearchResult, given: Sequence[BaseMessage], end: Sequence[BaseMessage]) -> SearchResult:
    """What a search has added to a conversation, whose turn may have been under way: it held all that was `given`."""
    known = {message.id for message in given}
    called = {call["id"] for message in given for call in calls_in(message)}
    made = [message for message in end if message.id not in known]
    before = given[Branches(given, Mark(), lambda *_: True).begin or 0 :]
    usage = reduce(usage_sum, (getattr(message, "usage_metadata", None) for message in made), None)
    cost = replace(
        result.cost,
        model_calls=result.cost.model_calls - sum(isinstance(message, AIMessage) for message in before),
        tool_calls=result.cost.tool_calls - sum(map(is_observation, before)),
        tokens=usage["total_tokens"] if usage else 0,
        usage=usage,
    )
    steps = tuple(step for step in result.steps if step.call_id not in called)
    return replace(result, steps=steps, cost=cost, messages=made)


def _observation(result: ToolMessage) -> Observation:
    return Observation(content=result.content, kind="exception" if result.status == "error" else "ok")


# --- experience ---

LONGEST_REASON = 300
"""Characters of what a failed call says that are kept as a reason: about 75 tokens."""

GUIDE = "guide to past runs"
"""What it is called where it fails."""


def guide_of(
    experience: Learner, messages: Sequence[BaseMessage], remembered: Mapping[str, Any] | None = None
) -> Flow[Guide | None]:
    """The guide to past runs for a conversation, asked for at a doubt.

    Args:
        experience: The experience.
        messages: The conversation.
        remembered: What is known of the turn; it is noted now if left out.
    """
    conversation = Conversation(messages)
    if remembered is None:
        remembered = yield from if_it_can(partial(experience.begun, conversation), None, GUIDE)
    return (yield from experience.guide(remembered, conversation)) if remembered else None


def kept_turn(
    experience: Learner, messages: Sequence[BaseMessage], ended: Ended | None, host: "PlannerHost"
) -> Flow[None]:
    """Keep a turn that ends in an answer, and what a search of it was told of past runs."""
    remembered = yield from experience.begun(Conversation(messages))
    recalled = ended.mark.recalled if ended else {}
    yield from experience.ended(
        list(messages),
        remembered and {**remembered, "recalled": recalled},
        tools=list(host.offering.tools),
        effects=host.offering.effects,
        instructions=str(host.system.text) if host.system else "",
    )


MOST_ATTEMPTS = 3
"""Failed attempts that are kept of a search: as many as a success is compared with at the most (CFGM, Alg. 2)."""


def failed_attempts(ended: Ended, *, run: str) -> list[Trajectory]:
    """The branches of a search whose calls brought nothing back, as failed attempts at the task of a run."""
    branches, kept = ended.branches, set((ended.mark.held or {}).get("path", ()))
    attempts: list[Trajectory] = []
    for at, message in enumerate(branches.messages):
        results = results_of(branches.messages, at) if calls_in(message) else []
        if not results or message.id in kept or message.id not in ended.mark.hidden:
            continue
        if all(map(is_fruitless, results)):
            seen = [each for each in branches.messages[:at] if each.id in kept]
            why = f"{calls_in(message)[0]['name']} brought nothing back: {one_line(results[0].text, LONGEST_REASON)}"
            keys = [call_key(call["name"], call["args"] or {}) for call in calls_in(message)]
            chat = Conversation([*seen, message, *results]).chat
            attempt = Trajectory.from_chat(
                chat, id=digest([run, *keys]), success=False, reasons=why, metadata={ATTEMPT_OF: run}
            )
            attempts.append(attempt)
    return attempts[:MOST_ATTEMPTS]


def keep_ended(ended: Ended, host: "PlannerHost") -> Flow[None]:
    """Keep a search that has ended with a visit: its tree, and with experience what it has tried in vain."""
    yield from keep_search(result_of(ended), host.planner.folder)
    guide = yield from host.past_runs()
    if guide is None:
        return
    runtime, mark = current_runtime(), ended.mark
    run = (run_id(runtime) if runtime else None) or mark.turn or mark.search
    yield from if_it_can(partial(guide.failed, failed_attempts(ended, run=run)), None, GUIDE)
