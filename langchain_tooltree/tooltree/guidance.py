"""What past runs say in one search: how they went on, what they tried in vain, and, where something is off, a way out.

A guide may say something else each time. So what it says is part of the outcome of an operation, or has no effect on
the tree but through one, and who may ask about trouble is settled at the launch of an operation, by outcomes told
before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from langchain_core.tools import BaseTool

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.experience.guide import Guide
from langchain_tooltree.experience.hints import NextTools
from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.flows import Flow, if_it_can
from langchain_tooltree.models import Meter
from langchain_tooltree.text import mapping_in
from langchain_tooltree.tooltree.ask import Proposal, ProposalRequest
from langchain_tooltree.tooltree.dialogue import Fresh, PathDialogue
from langchain_tooltree.tooltree.narrowing import ToolChoice
from langchain_tooltree.tooltree.prompts import Prompts
from langchain_tooltree.tooltree.result import KEY
from langchain_tooltree.tooltree.search import Call, Node, Operation, Tree

GUIDE = "guide to past runs"
"""What it is called where it fails."""

PAST_RUNS = "past runs"
"""The source that hints are marked with."""

REFUSED_ENOUGH = 3
"""Distinct runs in which the same call was refused in such a state, if it never worked anywhere, from which on it is no
candidate any more: one may be chance, and two one cause. The world may have changed, so an agent that takes it for its
own next step is told, and asked once more; what it then calls is called, and one success ends this."""

EPISODE = 3
"""Rounds of calls in which the help of an earlier search has to show: the corrected step, and what comes of it."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known in a state."""

    known: NextTools | None = None
    remedy: str = ""  # the way out of trouble that was asked for just now, if it was
    text: str = ""  # all that who proposes the next call is to know, marked as reference material

    def tried_in_vain(self, calls: Iterable[Call]) -> dict[str, str]:
        """Of some calls, those that past runs have tried in vain often enough, by their labels, and why."""
        refused = self.known.refused if self.known else {}
        counts = ((call.label, *refused.get(call.key, (0, 0))) for call in calls)
        return {
            label: f"was refused in all {runs} past runs that tried it at this point"
            for label, tried, runs in counts
            if tried == runs >= REFUSED_ENOUGH
        }


class Guidance:
    """Asks a guide on behalf of a search, if there is one."""

    def __init__(
        self, guide: Guide | None, tree: Tree, dialogue: PathDialogue, said: Conversation, prompts: Prompts
    ) -> None:
        self._guide = guide
        self._prompts = prompts
        self._tree = tree
        self._dialogue = dialogue
        self._may_ask = guide is not None and not _was_reviewed(said)  # about trouble: once a search and episode
        self._remedy: tuple[Node, str, int] | None = None  # where, what it says, how large the tree was
        self._launched: dict[int, tuple[bool, str]] = {}  # by operation: whether it may ask, and what is known by then

    @property
    def advice(self) -> str:
        """What was recalled for the request."""
        return self._guide.advice if self._guide else ""

    def launch(self, operations: Iterable[Operation]) -> None:
        """Settle what operations may ask, in the order of launch."""
        for operation in operations if self._guide else ():
            if operation.kind == "propose":
                self._launched[operation.id] = self._may_ask, self._remedy_for(self._tree[operation.node])
                self._may_ask = False  # until it is known whether this one has asked

    def take_in(self, outcome: Mapping[str, Any]) -> None:
        """Take notice of an outcome, in the order of launch."""
        could_ask, _ = self._launched.pop(outcome["operation"], (False, ""))
        if outcome.get("remedy"):
            self._remedy = self._tree[outcome["node"]], outcome["remedy"], len(self._tree)
            self._tree[outcome["node"]].advice = outcome["remedy"]
        elif could_ask and not outcome["spent"]["calls"].get("reflect"):
            self._may_ask = True

    def hints(
        self, operation: Operation, node: Node, tools: Mapping[str, BaseTool], seen: Fresh, meter: Meter
    ) -> Flow[Hints]:
        """What is known in a state, for a question there with these tools."""
        if self._guide is None:
            return Hints()
        may_ask, earlier = self._launched.get(operation.id, (False, ""))
        ask = partial(self._guide.next_tools, self._dialogue.chat_at(node, fresh=seen), tools)
        known = yield from if_it_can(ask, None, GUIDE)
        remedy = ""
        if may_ask and meter.left > 1:  # the question itself has to be asked, too
            remedy = yield from self._way_out(self._guide, node, list(tools.values()), seen, meter)
        told = as_reference(known.text, source=PAST_RUNS) if known and known.text else ""
        return Hints(known, remedy, "\n\n".join(filter(None, (told, remedy or earlier))))

    def proposed(
        self,
        propose: Callable[[ProposalRequest, ToolChoice, Meter], Flow[tuple[Proposal, ToolChoice]]],
        asked: ProposalRequest,
        choice: ToolChoice,
        hints: Hints,
        meter: Meter,
    ) -> Flow[tuple[Proposal, ToolChoice, dict[str, str]]]:
        """What a model offers with hints, the tools in the end, and the calls that past runs have tried in vain.

        If an own step holds such calls, that is said, and it is asked for again: then none of them counts as vain.
        Those that only come with an answer are not worth another question.
        """
        proposal, choice = yield from propose(asked, choice, meter)
        vain = hints.tried_in_vain(proposal.calls)
        if not (vain and asked.own_step) or proposal.answer is not None:
            return proposal, choice, vain
        if meter.left:
            refused = "\n".join(f"- {label} {why}" for label, why in vain.items())
            told = as_reference(self._prompts.refused.format(refused=refused), source=PAST_RUNS)
            again = replace(asked, hint="\n\n".join(filter(None, (hints.text, told))))
            second, choice = yield from propose(again, choice, meter)
            proposal = proposal if second.error else second.after(proposal)
        return proposal, choice, {}

    def _way_out(self, guide: Guide, node: Node, tools: Sequence[BaseTool], seen: Fresh, meter: Meter) -> Flow[str]:
        """What a model makes of trouble in a state, in one call; empty where all is well, or it says nothing."""
        said = Conversation(self._dialogue.prompt_at(node, fresh=seen))
        if not said.observations:
            return ""
        once = Meter(1, meter.patience)
        remedy = yield from if_it_can(partial(guide.remedy, said, tools, once), "", GUIDE)
        meter.add(once)
        return remedy

    def _remedy_for(self, state: Node) -> str:
        """What helps in a state: where there was trouble, in the state before, and where other calls from there lead.

        Calls that were offered with the help in view are what it advises, and need it no more.
        """
        if self._remedy is None:
            return ""
        at, text, known = self._remedy
        before = self._tree.parent(at)
        others = [] if before is None else [before, *(each for each in self._tree.children(before) if each.id < known)]
        return text if state in (at, *others) else ""


def _was_reviewed(said: Conversation) -> bool:
    """Whether there was help with this trouble already: from an earlier search, or in the observations themselves."""
    rounds = list(islice(said.rounds(), EPISODE))
    replies = (_metadata(each.reply).get("calls") for each in rounds)
    reflected = any(isinstance(calls, Mapping) and calls.get("reflect") for calls in replies)
    return reflected or any("reflected" in _metadata(seen) for each in rounds[:1] for seen in each.observations)


def _metadata(message: Any) -> Mapping[str, Any]:
    return mapping_in(message.response_metadata, KEY) if message is not None else {}
