"""What a planner asks an `Experience`: a guide where there is doubt, and to keep what was tried and what has ended."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.experience.guide import Guide, Learner
from langchain_tooltree.experience.records import ATTEMPT_OF
from langchain_tooltree.experience.run_identity import run_id
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, current_runtime, if_it_can
from langchain_tooltree.replies import calls_in
from langchain_tooltree.text import digest, one_line
from langchain_tooltree.tooltree.branches import is_fruitless, key_of, results_of
from langchain_tooltree.tooltree.host import PlannerHost
from langchain_tooltree.tooltree.record import keep_search
from langchain_tooltree.tooltree.visit import Ended, Outcome

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


def kept_turn(experience: Learner, messages: Sequence[BaseMessage], outcome: Outcome, host: PlannerHost) -> Flow[None]:
    """Keep a turn that ends in an answer."""
    remembered = yield from experience.begun(Conversation(messages))
    recalled = outcome.ended.mark.recalled if outcome.ended else {}
    yield from experience.ended(
        list(messages),
        remembered and {**remembered, "recalled": recalled},
        tools=list(host.offering.tools),
        effects=host.offering.effects,
        instructions=Conversation([*([host.system] if host.system else ())]).instructions,
    )


MOST_ATTEMPTS = 3
"""Failed attempts that are kept of a search: as many as a success is compared with at the most (CFGM, Alg. 2)."""


def failed_attempts(ended: Ended, *, run: str) -> list[Trajectory]:
    """The branches of a search whose calls brought nothing back, as failed attempts at the task.

    Args:
        ended: The search.
        run: Id of the run that it is part of.
    """
    branches, kept = ended.branches, set((ended.mark.held or {}).get("path", ()))
    attempts: list[Trajectory] = []
    for at, message in enumerate(branches.messages):
        results = results_of(branches.messages, at) if calls_in(message) else []
        if not results or message.id in kept or message.id not in ended.mark.hidden:
            continue
        if all(map(is_fruitless, results)):
            seen = [each for each in branches.messages[:at] if each.id in kept]
            why = f"{calls_in(message)[0]['name']} brought nothing back: {one_line(results[0].text, LONGEST_REASON)}"
            keys = [key_of(call["name"], call["args"]) for call in calls_in(message)]
            chat = Conversation([*seen, message, *results]).chat
            attempt = Trajectory.from_chat(
                chat, id=digest([run, *keys]), success=False, reasons=why, metadata={ATTEMPT_OF: run}
            )
            attempts.append(attempt)
    return attempts[:MOST_ATTEMPTS]


def keep_ended(outcome: Outcome, host: PlannerHost) -> Flow[None]:
    """Keep a search that has ended with a visit: its tree, and with experience what it has tried in vain."""
    yield from keep_search(outcome, host.planner)
    guide = (yield from host.past_runs()) if outcome.ended is not None else None
    if guide is None or outcome.ended is None:
        return
    runtime, mark = current_runtime(), outcome.ended.mark
    run = (run_id(runtime) if runtime else None) or mark.turn or mark.search
    yield from if_it_can(partial(guide.failed, failed_attempts(outcome.ended, run=run)), None, GUIDE)
