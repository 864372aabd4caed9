"""Play the rest of a turn in forks of a sandbox, and carry the plan out as ordinary tool calls."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolCall,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables.config import ensure_config
from langgraph.prebuilt import ToolNode

from langchain_tooltree._langgraph import tool_node_input, with_runtime
from langchain_tooltree.flows import CallStep
from langchain_tooltree.messages.kinds import get_tool_calls
from langchain_tooltree.sandbox import Sandbox, forked
from langchain_tooltree.text import whole_words
from langchain_tooltree.tooltree.branches import (
    Branches,
    Mark,
    Plan,
    PlannedStep,
    results_of,
)

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.host import PlannerHost
from langchain_tooltree.tooltree.branches import VisitResult
from langchain_tooltree.tooltree.visit import Visit

MAX_PLANNED_STEPS = 40  # steps that are planned ahead at the most: more than a turn has, unless the agent has lost its way


async def run_in_fork(
    world: Sandbox, calls: Sequence[ToolCall], state: Mapping[str, Any]
) -> tuple[list[ToolMessage], Sandbox]:
    """Make the calls of one message, in order, in a fork of a world, and return the results and the fork.

    `state` is what tools may have injected.
    """
    fork = forked(world)
    node = ToolNode([*fork.tools], handle_tool_errors=True)
    results: list[ToolMessage] = []
    for call in calls:
        call_input, config = tool_node_input(call, state), with_runtime(ensure_config())
        output = await CallStep(
            partial(node.invoke, call_input, config),
            partial(node.ainvoke, call_input, config),
        )
        results += output["messages"] if isinstance(output, Mapping) else output
    return [
        each.model_copy(update={"id": f"tried_{uuid.uuid4()}"}) for each in results
    ], fork


async def plan_ahead(
    branches: Branches, trial: "PlannerHost", sandbox: Sandbox
) -> VisitResult:
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

    def is_free(
        name: str, args: Any
    ) -> bool:  # in a fork, what it does not bind cannot be tried
        return name in trial.bound or (not worlds and branches.is_read(name, args))

    while True:
        inner = Branches(messages, mark, branches.is_read, is_free)
        outcome = await Visit(inner, trial).run()
        step = trial.reply if outcome.message is None else outcome.message
        is_bound = bool(step.tool_calls) and trial.bound.issuperset(
            call["name"] for call in step.tool_calls
        )
        if not is_bound and not worlds:
            return outcome
        mark = outcome.mark or mark
        if not is_bound or len(worlds) == MAX_PLANNED_STEPS:
            break
        path = inner.path(mark.hidden)
        state = {**trial.state, trial.messages_key: [*path, step]}
        results, fork = await run_in_fork(
            worlds.get(str(path[-1].id), sandbox), step.tool_calls, state
        )
        messages += [step, *results]
        worlds[str(results[-1].id)] = fork
        trial.unseen = True
    is_over = not step.tool_calls
    if not is_over:
        messages.append(step)
    gone = {*(outcome.remove if is_over else mark.hidden)}
    steps = _plan_of(
        [message for message in messages[start:] if message.id not in gone]
    )
    plan = Plan(steps, message_to_dict(step) if is_over else None)
    real = {message.id for message in branches.messages}
    following = Mark(turn=inner.mark.turn, hidden=sorted(gone & real), plan=plan)
    return replace(_next_step(following, plan), ended=outcome.ended)


def _plan_of(path: Sequence[BaseMessage]) -> list[PlannedStep]:
    """The steps of a path with what they brought back; those whose calls all failed are left out."""
    steps: list[PlannedStep] = []
    for at, message in enumerate(path):
        results = results_of(path, at)
        if get_tool_calls(message) and not (
            results and all(each.status == "error" for each in results)
        ):
            tried = {each.tool_call_id: str(each.text) for each in results}
            steps.append(PlannedStep(message_to_dict(message), tried))
    return steps


def carry_on(branches: Branches) -> VisitResult | None:
    """The next step of a plan whose first one was carried out last, or its answer.

    `None` if the latest results do not equal those that were tried, or the plan has no more to say.
    """
    plan = branches.mark.plan
    tried = plan.steps[0].tried if plan and plan.steps else {}
    if plan is None or not tried or len(branches.latest) != len(tried):
        return None
    renamed: dict[str, str] = {}
    for result in branches.latest:
        before = tried.get(result.tool_call_id)
        changes = (
            None
            if before is None or result.status == "error"
            else renames(before, result.text)
        )
        if changes is None:
            return None
        renamed |= changes
    rest = [
        PlannedStep(rename(each.message, renamed), rename(each.tried, renamed))
        for each in plan.steps[1:]
    ]
    if not rest and plan.answer is None:
        return None
    following = Plan(rest, rename(plan.answer, renamed))
    return _next_step(replace(branches.mark, plan=following), following)


def _next_step(mark: Mark, plan: Plan) -> VisitResult:
    """The first step of a plan as an ordinary message, or its answer, with which the turn is over."""
    if plan.steps:
        (message,) = messages_from_dict([plan.steps[0].message])
        return VisitResult(cast("AIMessage", message), mark=mark)
    assert plan.answer is not None  # noqa: S101 - a plan has steps or an answer
    (message,) = messages_from_dict([plan.answer])
    return VisitResult(cast("AIMessage", message), remove=mark.hidden, mark=Mark())


_MADE_UP = re.compile(
    r"""
    \b(?P<time>\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:(?!00(?!\.0*[1-9]))\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)(?!\w)
    | (?<![^\W_])(?P<uuid>[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12})(?!\w)
    | (?:(?<![^\W_])(?i:id|number|reference|code)|(?<=[a-z])(?:Id|Number|Reference|Code)|(?<!\w)\#)
      (?:\sis)?\W{0,6} (?P<id>(?=[\w-]{0,39}\d)[\w-]{5,64})
    """,
    re.VERBOSE,
)
"""What a tool makes up each time it runs: ISO times, UUIDs, and what it calls an id, a number, a reference or a code.

To take an amount or an appointment for made up would tell the user something wrong; to take an identifier for an amount
costs model calls. So a time on a full minute is an appointment, and an identifier has a digit and five characters."""


def renames(tried: str, real: str) -> dict[str, str] | None:
    """What a real result has in place of what the tried one made up; `None` if they differ in anything else.

    One identifier stands for one other, wherever it stands.
    """
    if tried == real:
        return {}
    (fixed, before), (other_fixed, after) = _split_made_up(tried), _split_made_up(real)
    if fixed != other_fixed:
        return None
    renamed: dict[str, str] = {}
    for (kind, one), (other_kind, other) in zip(before, after, strict=True):
        if kind != other_kind or (
            renamed.setdefault(one, other) != other and kind != "time"
        ):
            return None
    identifiers = {one for kind, one in before if kind != "time"}
    return (
        renamed
        if len({renamed[one] for one in identifiers}) == len(identifiers)
        else None
    )


def _split_made_up(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """What is fixed in a text, and between it what is made up, each with its kind."""
    fixed, made_up, end = list[str](), list[tuple[str, str]](), 0
    for match in _MADE_UP.finditer(text):
        kind = str(match.lastgroup)
        fixed.append(text[end : match.start(kind)])
        made_up.append((kind, match[kind]))
        end = match.end(kind)
    return [*fixed, text[end:]], made_up


def rename(data: Any, renamed: Mapping[str, str]) -> Any:
    """JSON-like data with names replaced wherever they stand as words of their own; a number stays one if it can."""
    if isinstance(data, str) and renamed:
        return whole_words(renamed).sub(lambda match: renamed[match[0]], data)
    if isinstance(data, int) and str(data) in renamed:
        new = renamed[str(data)]
        return int(new) if new.isdecimal() else new
    if isinstance(data, dict):
        return {
            rename(key, renamed): rename(value, renamed) for key, value in data.items()
        }
    return [rename(each, renamed) for each in data] if isinstance(data, list) else data
