"""The coarse planner of the paper's ACL-format version: fewer tools, before the search begins."""

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.documents import document_prompt
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter, StructuredQuestion, inner_config
from langchain_tooltree.tooltree.cards import ToolLibrary
from langchain_tooltree.tooltree.config import SearchConfig
from langchain_tooltree.tooltree.prompts import DEFAULT_PLAN_PROMPT, CoarsePlan


def plan_tools(
    model: BaseChatModel, library: ToolLibrary, query: str, config: SearchConfig, meter: Meter
) -> Flow[tuple[str, ...]]:
    """Keep the tools that a request may need.

    A tool is kept if it belongs to a domain of the request (or to none), its input can be had, its output is of use,
    and its relevance p_t reaches the threshold.

    Args:
        model: The model to ask, in one question.
        library: The tools.
        query: The user's request.
        config: Supplies the relevance threshold and the always-include list.
        meter: Counts the model calls.

    Returns:
        Names in the library's order. All of them if the reply is unusable or would leave none: a planner that fails
        must not take tools away.
    """
    question = StructuredQuestion(
        model=model,
        schema=CoarsePlan,
        prompt=document_prompt(
            DEFAULT_PLAN_PROMPT,
            {"request": query, "tools": [library.card(name).to_dict() for name in library.names]},
        ),
        usable=lambda reply: isinstance(reply.get("tools"), list) and isinstance(reply.get("domains"), list),
        config=inner_config("plan", {}),
    )
    replies = yield from question.ask(meter)
    if not replies:
        return library.names
    domains = {str(domain) for domain in _list(replies[-1].get("domains"))}
    rated = {str(v.get("name")): v for v in _list(replies[-1].get("tools")) if isinstance(v, dict)}
    kept = tuple(
        name
        for name in library.names
        if name in config.always_include
        or _passes(rated.get(name), library.card(name).domains, domains, config.relevance_threshold)
    )
    return kept or library.names


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _passes(
    verdict: Mapping[str, Any] | None, card_domains: tuple[str, ...], domains: set[str], threshold: float
) -> bool:
    if verdict is None:
        return True  # a tool that the model said nothing about is not judged useless
    relevance = verdict.get("relevance")
    irrelevant = isinstance(relevance, int | float) and 0 <= relevance < threshold
    wanted = not card_domains or not domains or bool(domains & set(card_domains))
    return (
        not irrelevant
        and wanted
        and verdict.get("input_available") is not False
        and (verdict.get("output_useful") is not False)
    )
