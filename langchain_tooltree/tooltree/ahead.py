"""Planning ahead in forks of a sandbox, and carrying out the plan.

With a sandbox, a turn is first played in forks: the very visits of the host's loop, with calls of the sandbox's tools
run in a fork that belongs to the branch. What comes of it is a plan: the steps of the best path, and the answer. The
plan is handed out one step after the other, as ordinary messages with calls that the host makes for real. As long as
the results equal those that were tried, no model is asked. Where one differs in more than times and made-up
identifiers, the rest of the plan is dropped, and the turn is planned anew from there.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage, message_to_dict, messages_from_dict
from langchain_core.runnables.config import ensure_config
from langgraph.prebuilt import ToolNode

from langchain_tooltree._langgraph import tool_node_input, with_runtime
from langchain_tooltree.flows import Flow, TwinStep
from langchain_tooltree.replies import calls_in
from langchain_tooltree.sandbox import Sandbox, forked
from langchain_tooltree.text import made_up, renamed_in
from langchain_tooltree.tooltree.branches import Branches, Mark, results_of
from langchain_tooltree.tooltree.visit import Outcome, Visit

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.host import PlannerHost

MOST_STEPS = 40
"""Steps that are planned ahead at the most: more than a turn has, unless the agent has lost its way."""


def run_in_fork(
    world: Sandbox, calls: Sequence[ToolCall], state: Mapping[str, Any]
) -> Flow[tuple[list[ToolMessage], Sandbox]]:
    """Make the calls of one message, in order, in a fork of a world, and return the results and the fork.

    `state` is what tools may have injected.
    """
    fork = forked(world)
    node = ToolNode([*fork.tools], handle_tool_errors=True)
    results: list[ToolMessage] = []
    for call in calls:
        given, config = tool_node_input(call, state), with_runtime(ensure_config())
        made = yield TwinStep(partial(node.invoke, given, config), partial(node.ainvoke, given, config))
        results += made["messages"] if isinstance(made, Mapping) else made
    return [each.model_copy(update={"id": f"tried_{uuid.uuid4()}"}) for each in results], fork


def plan_ahead(branches: Branches, trial: "PlannerHost", sandbox: Sandbox) -> Flow[Outcome]:
    """Play the rest of a turn in forks, as far as its calls are bound by the sandbox.

    Args:
        branches: The conversation as it is.
        trial: Asks the model. The first step is the agent's own, and streams as such; what follows a fork is unseen.
        sandbox: The world as it is; it is only ever forked.

    Returns:
        The first step of the plan, with the rest in the mark. Where the first step is none for the sandbox, or an
        answer, it is what a visit without a sandbox returns.
    """
    messages: list[BaseMessage] = [*branches.messages]
    start, mark = len(messages), replace(branches.mark, plan=None)
    worlds: dict[str, Sandbox] = {}
    trial.bound = trial.planner.bound_tools

    def is_free(name: str, args: Any) -> bool:  # in a fork, what it does not bind cannot be tried
        return name in trial.bound or (not worlds and branches.is_read(name, args))

    while True:
        inner = Branches(messages, mark, branches.is_read, is_free)
        outcome = yield from Visit(inner, trial).run()
        step = trial.reply if outcome.message is None else outcome.message
        is_bound = bool(step.tool_calls) and trial.bound.issuperset(call["name"] for call in step.tool_calls)
        if not is_bound and not worlds:
            return outcome
        mark = outcome.mark or mark
        if not is_bound or len(worlds) == MOST_STEPS:
            break
        path = inner.path(mark.hidden)
        state = {**trial.state, trial.messages_key: [*path, step]}
        results, fork = yield from run_in_fork(worlds.get(str(path[-1].id), sandbox), step.tool_calls, state)
        messages += [step, *results]
        worlds[str(results[-1].id)] = fork
        trial.unseen = True
    is_over = not step.tool_calls
    if not is_over:
        messages.append(step)
    gone = {*(outcome.remove if is_over else mark.hidden)}
    steps = _plan_of([message for message in messages[start:] if message.id not in gone])
    plan = {"steps": steps, "answer": message_to_dict(step) if is_over else None}
    real = {message.id for message in branches.messages}
    kept = Mark(turn=inner.mark.turn, hidden=sorted(gone & real), plan=plan)
    return replace(_next_step(kept), ended=outcome.ended)


def _plan_of(path: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The steps of a path with what they brought back; those whose calls all failed are left out."""
    steps: list[dict[str, Any]] = []
    for at, message in enumerate(path):
        results = results_of(path, at) if calls_in(message) else []
        if calls_in(message) and not (results and all(each.status == "error" for each in results)):
            tried = {each.tool_call_id: each.text for each in results}
            steps.append({"message": message_to_dict(message), "tried": tried})
    return steps


def carry_on(branches: Branches) -> Outcome | None:
    """The next step of a plan whose first one was carried out last, or its answer.

    `None` if the latest results do not equal those that were tried, or the plan has no more to say.
    """
    plan = branches.mark.plan or {}
    done, *rest = plan.get("steps") or [{}]
    tried: Mapping[str, str] = done.get("tried") or {}
    if not tried or len(branches.latest) != len(tried):
        return None
    renamed: dict[str, str] = {}
    for result in branches.latest:
        before = tried.get(result.tool_call_id)
        differing = None if before is None or result.status == "error" else made_up(before, result.text)
        if differing is None or differing.gone:
            return None
        renamed |= differing.renamed
    rest, answer = renamed_in([rest, plan.get("answer")], renamed)
    if not rest and answer is None:
        return None
    return _next_step(replace(branches.mark, plan={"steps": rest, "answer": answer}))


def _next_step(mark: Mark) -> Outcome:
    """The first step of a mark's plan as an ordinary message, or its answer, with which the turn is over."""
    plan = mark.plan or {}
    if steps := plan["steps"]:
        (message,) = messages_from_dict([steps[0]["message"]])
        return Outcome(cast("AIMessage", message), mark=mark)
    (message,) = messages_from_dict([plan["answer"]])
    return Outcome(cast("AIMessage", message), remove=mark.hidden, mark=Mark())
