"""One model call of an agent with a planner, in whichever form it has, and the records that are kept of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
)

from langchain_tooltree._langgraph import stream_now, thread_here
from langchain_tooltree.experience.guide import Guide, Learner, latest_searches
from langchain_tooltree.experience.run_identity import run_id
from langchain_tooltree.experience.trajectory import ATTEMPT_OF, Trajectory
from langchain_tooltree.flows import FunctionStep, run_or_default
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.kinds import get_tool_calls
from langchain_tooltree.pages.search import record
from langchain_tooltree.streaming import get_current_runtime
from langchain_tooltree.text import (
    digest,
    forget_oldest,
    get_call_key,
    get_mapping,
    one_line,
)
from langchain_tooltree.tooltree.ahead import carry_on, plan_ahead
from langchain_tooltree.tooltree.branches import (
    KEY,
    Branches,
    Ended,
    VisitResult,
    is_fruitless,
    results_of,
)
from langchain_tooltree.tooltree.deep import DeepSearch
from langchain_tooltree.tooltree.host import PlannerHost
from langchain_tooltree.tooltree.result import (
    MOST_SEARCHES,
    SearchResult,
    as_saved,
    result_of,
)
from langchain_tooltree.tooltree.visit import Visit


async def keep_search(result: SearchResult, folder: Path | None) -> None:
    """Keep a search that has ended for `search_result`, and in a folder if there is one."""
    latest_searches[result.search_id] = result
    forget_oldest(latest_searches, MOST_SEARCHES)
    if folder is not None:
        write = partial(
            record, folder, as_saved(result), key=result.search_id, thread=thread_here()
        )
        await FunctionStep(lambda _: write(), None)


LONGEST_REASON = 300  # characters of what a failed call says that are kept as a reason: about 75 tokens


GUIDE = "a guide to past runs"  # what it is called where it fails


async def guide_of(
    experience: Learner,
    messages: Sequence[BaseMessage],
    remembered: Mapping[str, Any] | None = None,
) -> Guide | None:
    """The guide to past runs for a conversation, asked for at a doubt.

    Args:
        experience: The experience.
        messages: The conversation.
        remembered: What is known of the turn; it is noted now if left out.
    """
    conversation = Conversation(messages)
    if remembered is None:
        remembered = await run_or_default(
            partial(experience.begin, conversation), default=None, purpose=GUIDE
        )
    return (await experience.guide(remembered, conversation)) if remembered else None


async def keep_turn(
    experience: Learner,
    messages: Sequence[BaseMessage],
    ended: Ended | None,
    host: "PlannerHost",
) -> None:
    """Keep a turn that ends in an answer, and what a search of it was told of past runs."""
    remembered = await experience.begin(Conversation(messages))
    recalled = ended.mark.recalled if ended else {}
    await experience.end(
        list(messages),
        remembered and {**remembered, "recalled": recalled},
        tools=list(host.offering.tools),
        effects=host.offering.effects,
        instructions=str(host.system.text) if host.system else "",
    )


MAX_FAILED_ATTEMPTS = 3
"""Failed attempts that are kept of a search: as many as a success is compared with at the most (CFGM, Alg. 2)."""


def failed_attempts(ended: Ended, *, run: str) -> list[Trajectory]:
    """The branches of a search whose calls brought nothing back, as failed attempts at the task of a run."""
    branches, path_ids = (
        ended.branches,
        set(ended.mark.best.path if ended.mark.best else ()),
    )
    attempts: list[Trajectory] = []
    for at, message in enumerate(branches.messages):
        results = results_of(branches.messages, at)
        if not results or message.id in path_ids or message.id not in ended.mark.hidden:
            continue
        if is_fruitless(message, results):
            before = [each for each in branches.messages[:at] if each.id in path_ids]
            why = f"{get_tool_calls(message)[0]['name']} brought nothing back: {one_line(results[0].text, LONGEST_REASON)}"
            keys = [
                get_call_key(call["name"], call["args"] or {})
                for call in get_tool_calls(message)
            ]
            chat = Conversation([*before, message, *results]).chat
            attempt = Trajectory.from_chat(
                chat,
                id=digest([run, *keys]),
                success=False,
                reasons=why,
                metadata={ATTEMPT_OF: run},
            )
            attempts.append(attempt)
    return attempts[:MAX_FAILED_ATTEMPTS]


async def keep_ended(ended: Ended, host: "PlannerHost") -> None:
    """Keep a search that has ended with a visit: its tree, and with experience what it has tried in vain."""
    await keep_search(result_of(ended), host.planner.folder)
    guide = await host.past_runs()
    if guide is None:
        return
    runtime, mark = get_current_runtime(), ended.mark
    run = (run_id(runtime) if runtime else None) or mark.turn or mark.search
    await run_or_default(
        partial(guide.failed, failed_attempts(ended, run=run)),
        default=None,
        purpose=GUIDE,
    )


async def visit(host: PlannerHost, branches: Branches) -> VisitResult:
    """Make one visit: search first, carry on with a plan, plan ahead in a sandbox, or take a step in the loop."""
    host.visible = len(branches.path())
    if host.planner.is_deep:
        host.line = ""
        return await _search_deeply(host, branches)
    sandbox = host.planner.sandbox
    if sandbox is None:
        outcome = await Visit(branches, host).run()
    else:
        next_step = carry_on(branches) if branches.mark.plan else None
        outcome = next_step or (await plan_ahead(branches, host, sandbox))
    if outcome.ended is not None:
        await keep_ended(outcome.ended, host)
    return outcome


async def _search_deeply(host: PlannerHost, branches: Branches) -> VisitResult:
    """Search where a turn begins, or goes on after a write that a search has planned; answer from the plan."""
    path = branches.path()
    latest = next(
        (each for each in reversed(path) if isinstance(each, AIMessage)), None
    )
    plans = latest is not None and "plan" in get_mapping(latest.response_metadata, KEY)
    if path[-1] is not branches.request and not plans:
        await host.own_step(path)
        return VisitResult()
    result = await DeepSearch(host, path).run()
    plan = result.messages
    if result.waiting:
        await keep_search(result, host.planner.folder)
        return VisitResult(cast("AIMessage", plan[-1]), before=plan[:-1])
    stream_now(plan)
    reply, _ = await host.own_step([*path, *plan])
    is_answer = not (reply.tool_calls or reply.invalid_tool_calls)
    result = result.with_answer(reply) if is_answer else result
    await keep_search(result, host.planner.folder)
    return VisitResult(result.answer, before=plan)
