"""Helpers of tests around the planner."""

from typing import Any

from langchain_tooltree.tooltree.deep import (
    DeepSearch,
    ProposalRequest,
    proposal_messages,
)
from langchain_tooltree.tooltree.host import Planner, PlannerHost

BY_POSTERIOR: Any = {"selection": "posterior"}
"""Settings of a search that goes by the scores that come with candidates."""


def propose_messages(conversation, instruction, *, attempt=1, tried=(), **others):
    """The prompt that asks a state for candidates."""
    return proposal_messages(
        ProposalRequest(conversation, (), attempt=attempt, tried=tried, **others),
        instruction,
    )


class _Host(PlannerHost):
    """A host whose agent is never asked."""

    def ask(self, *_, **__):
        raise NotImplementedError


def deep_search(model, tools, messages, *, sinks=(), **options):
    """The flow of a deep search without an agent, whose events go to functions."""
    planner = Planner(**options)
    host = _Host(planner, planner.offering(tools), sinks=sinks, model=model)
    return DeepSearch(host, messages).run()
