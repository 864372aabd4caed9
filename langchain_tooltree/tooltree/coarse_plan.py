"""The coarse planner of the paper's ACL-format version: it narrows the tools once, before a search."""

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter, StructuredQuestion, document_prompt, inner_config
from langchain_tooltree.text import one_line
from langchain_tooltree.tools import ToolCard, ToolLibrary, fields_of, nested_inputs
from langchain_tooltree.tooltree.judge import validated
from langchain_tooltree.tooltree.prompts import PLAN_PROMPT, CoarsePlan

RELEVANT = 0.3
"""p_t in [0, 1] below which a tool is dropped, as the paper's ACL-format version prints it."""


def plan_tools(
    model: BaseChatModel, library: ToolLibrary, reads: Collection[str], query: str, meter: Meter
) -> Flow[tuple[str, ...]]:
    """Choose the tools that a request may need.

    A tool is kept if it belongs to a domain of the request (or to none), its relevance p_t is at least .3, its input
    can be had, and its output is of use. The first two are asked; the others follow from the schemas. All of the
    library is kept if the reply is unusable or would leave none: a planner that fails must not take tools away.
    """
    cards = [library.card(name) for name in library.names]
    question = StructuredQuestion(
        model,
        CoarsePlan,
        document_prompt(PLAN_PROMPT, {"request": query, "tools": [*map(_in_short, cards)]}),
        usable=lambda reply: validated(CoarsePlan, reply) is not None,
        config=inner_config("plan", {}),
    )
    replies = yield from question.ask(meter)
    plan = validated(CoarsePlan, replies[-1]) if replies else None
    if plan is None:
        return library.names
    relevance = {each.name: each.relevance for each in plan.tools}
    domains = set(plan.domains)
    relevant = [
        card
        for card in cards
        if relevance.get(card.name, 1.0) >= RELEVANT  # a tool that nothing was said of is not judged irrelevant
        and (not card.domains or not domains or not domains.isdisjoint(card.domains))
    ]
    # A read whose output is null returns and changes nothing.
    idle = {card.name for card in cards if card.name in reads and (card.output_schema or {}).get("type") == "null"}
    useful = {card.name for card in relevant if _obtainable(card, relevant)} - idle
    return tuple(name for name in library.names if name in useful) or library.names


def _in_short(card: ToolCard) -> dict[str, Any]:
    """What the question says of a tool: the first sentences of its description."""
    short = {"name": card.name, "description": one_line(card.description, 300)}
    return {**short, "domains": [*card.domains]} if card.domains else short


def _obtainable(card: ToolCard, cards: Sequence[ToolCard]) -> bool:
    """Whether each required input can be had.

    A request can say a plain value or a list of them. An object has to come from another tool, whose output has a field
    of this name, or whose name says it, or of which nobody knows what it is.
    """
    fields = {other.name: fields_of(other.output_schema or {}) for other in cards if other.name != card.name}
    return all(
        any(not fields[tool] or name in fields[tool] or name in tool for tool in fields) for name in nested_inputs(card)
    )
