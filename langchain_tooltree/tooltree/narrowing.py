"""Which tools a model is shown where there are many: those that fit in, and a way to ask for the others.

Where all tools fit into the budget, a model sees them all, always. Otherwise it begins with the most relevant ones,
and more are added as the conversation goes on. None is taken away, since a provider's prompt cache holds for as long as
the tools stay what they are. Before a search, the coarse planner of the paper's ACL-format version may drop tools.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.errors import ToolDefinitionError, described
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter, StructuredQuestion, document_prompt, inner_config
from langchain_tooltree.text import one_line
from langchain_tooltree.tooltree.ask import Problem, Proposal, ProposalRequest, Proposer
from langchain_tooltree.tooltree.prompts import DEFAULT_PLAN_PROMPT, CoarsePlan
from langchain_tooltree.tooltree.retrieval import ToolRetriever
from langchain_tooltree.tooltree.search import MAX_TOOLS, SearchConfig
from langchain_tooltree.tooltree.tools import ToolCard, ToolLibrary

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN = 4
"""Characters of English or JSON that make about one token."""

BEGIN_SHARE = 0.2
"""Share of the budget that the tools for a request take at first: 2,400 of 12,000 tokens are about 17 tools."""

FEWEST_SHOWN = 8
"""Tools that are shown at first however long they are, as far as the budget holds them."""

NEXT_SHOWN = 2
"""Of the tools that are most relevant to a state, so many are added if they were not shown before."""

FOUND = 3
"""Tools that are added for one need in words: the right one ranks among the first three where words name it at all."""


class ToolChoice(NamedTuple):
    """The tools for one question to a model."""

    shown: tuple[str, ...]  # names in the order in which they are bound
    hidden: tuple[str, ...] = ()  # the other names, the most relevant ones first
    added: tuple[str, ...] = ()  # those among the shown that stay shown from here on


class ToolNarrowing:
    """Chooses the tools that a model is shown."""

    def __init__(self, library: ToolLibrary, config: SearchConfig, retriever: ToolRetriever) -> None:
        if unknown := set(config.always_include) - set(library.names):
            msg = f"always_include names {', '.join(sorted(unknown))}, but the tools are {', '.join(library.names)}."
            raise ToolDefinitionError(msg)
        self.library = library
        self.config = config
        self.retriever = retriever
        # The requests that were ranked for last, and their ranking: each state of a search has the same.
        self._latest: tuple[Any, list[str]] | None = None
        self._room = config.tool_tokens * CHARACTERS_PER_TOKEN
        self._places = {name: place for place, name in enumerate(library.names)}

    def fits(self, names: Sequence[str], *, beside: float = 0) -> bool:
        """Whether a model can be shown all of them, when so many characters of the budget are taken."""
        top = self.config.retrieve_top
        if len(names) > (MAX_TOOLS if top is None else top):
            return False
        return top is not None or self._size(names, self._room - beside) <= self._room - beside

    def kept(self, shown: Iterable[str], called: Iterable[str], *, new_request: bool) -> tuple[str, ...]:
        """What stays shown of what a conversation was shown and has called, when a search begins.

        Where that leaves no room for a new request, only what was called stays.
        """
        if self.fits(self.library.names):
            return ()
        called = [name for name in dict.fromkeys(called) if name in self._places]
        if self.config.retrieve_top is not None:
            return tuple(called)
        every = [name for name in dict.fromkeys((*shown, *called)) if name in self._places]
        full = new_request and not self.fits(every, beside=BEGIN_SHARE * self._room)
        return tuple(called if full else every)

    def choose(
        self,
        requests: Sequence[str],
        context: Callable[[], Sequence[str]],
        allowed: Collection[str],
        *,
        attempt: int = 1,
        before: Sequence[str] = (),
    ) -> Flow[ToolChoice]:
        """Choose the tools to show in a state, of those `allowed`, by the `requests`, latest last.

        `context` gives all that was said, called and observed; it is only called where it is needed. A state is asked
        again, in a further `attempt`, only when all that it offered has failed. The wording may have hidden the tool
        that it needs ("write to Ann" takes the address book without a word of it), so each further attempt shows tools
        that rank next to those shown `before`. The agent's own step does not count: it made one choice among the tools
        that it was shown, and the others are worth no less for that.
        """
        permitted = frozenset(allowed)
        names = [name for name in self.library.names if name in permitted]
        if self.fits(names):
            return ToolChoice(tuple(names))
        before = [name for name in before if name in permitted]
        always = [name for name in names if name in self.config.always_include]
        ranked = yield from self.retriever.rank(context(), names)
        tries = max(attempt - int(self.config.proposals == "own_step"), 1)
        if self.config.retrieve_top is not None:
            others = [name for name in ranked if name not in always]
            room = max(self.config.retrieve_top - len(always), 0)
            skipped = (tries - 1) * room
            shown = {*before, *always, *(others[skipped:] + others[:skipped])[:room]}
            return ToolChoice(
                tuple(name for name in names if name in shown), tuple(name for name in ranked if name not in shown)
            )
        wanted = yield from self._ranked_for(requests, names)
        first = self._first(wanted)
        added = self._in_order(self._fitting(before, (*always, *first, *ranked[: NEXT_SHOWN * tries])))
        shown = {*before, *added}
        return ToolChoice((*before, *added), tuple(name for name in wanted if name not in shown), added)

    def find(self, asked: Iterable[str], choice: ToolChoice) -> Flow[ToolChoice]:
        """The choice with the tools that a model has asked for, by name or in words; the same if there are none."""
        hidden, found = list(choice.hidden), list[str]()
        for text in asked:
            if text in self._places:
                found += [text] if text in hidden else []
            elif hidden:
                found += (yield from self.retriever.rank([text], hidden))[:FOUND]
        added = self._in_order(dict.fromkeys(found[: MAX_TOOLS - len(choice.shown)]))
        left = tuple(name for name in hidden if name not in added)
        return ToolChoice((*choice.shown, *added), left, (*choice.added, *added))

    def proposed(
        self, proposer: Proposer, asked: ProposalRequest, choice: ToolChoice, meter: Meter
    ) -> Flow[tuple[Proposal, ToolChoice]]:
        """What a model offers, asked again where it wants to see other tools first, and the tools in the end.

        Where there are none of the kind, it is asked again without a way to ask for more.
        """
        hidden = () if self.config.proposals == "per_tool" else choice.hidden
        before = Proposal()
        while True:
            asked = replace(asked, tools=choice.shown, hidden=hidden)
            proposal = before = (yield from proposer.propose(asked, meter)).after(before)
            if not proposal.wanted:
                return proposal, choice
            try:
                more = yield from self.find(proposal.wanted, choice)
            except Exception as error:  # noqa: BLE001 - what was shown before will do
                logger.warning("The tools asked for could not be ranked: %s", described(error))
                more = choice
            found, choice = more.shown != choice.shown, more
            hidden = choice.hidden if found else ()
            if proposal.actions or not meter.left:
                reason = "shown from the next question on" if found else "none of the kind, or no room for it"
                proposal.problems.append(Problem("", f"more tools, {', '.join(proposal.wanted)}", reason))
                return proposal, choice

    def _ranked_for(self, requests: Sequence[str], names: Sequence[str]) -> Flow[list[str]]:
        """The tools by the latest request and by all of them, in turns: it may be the last of many, or mean another."""
        key = (tuple(requests), tuple(names))
        latest = self._latest
        if latest is None or latest[0] != key:
            ranked = yield from self.retriever.rank(requests, names)
            if len(requests) > 1:
                by_last = yield from self.retriever.rank(requests[-1:], names)
                ranked = [*dict.fromkeys(chain.from_iterable(zip(by_last, ranked, strict=True)))]
            self._latest = latest = (key, ranked)
        return latest[1]

    def _first(self, ranked: Sequence[str]) -> list[str]:
        """The most relevant tools, as many as a request begins with."""
        left, first = BEGIN_SHARE * self._room, list[str]()
        for name in ranked:
            left -= self.library.characters(name)
            if left < 0 and len(first) >= FEWEST_SHOWN:
                break
            first.append(name)
        return first

    def _fitting(self, before: Sequence[str], wanted: Iterable[str]) -> list[str]:
        """Those of the wanted tools that are not shown yet and for which there is room; one in any case."""
        left, added = self._room - self._size(before, self._room), list[str]()
        for name in dict.fromkeys(wanted):
            if name in before:
                continue
            left -= self.library.characters(name)
            if (left < 0 and (before or added)) or len(before) + len(added) >= MAX_TOOLS:
                break
            added.append(name)
        return added

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=self._places.__getitem__))

    def _size(self, names: Iterable[str], enough: float) -> int:
        """Characters of tools as they are bound; of thousands, no more are looked at than it takes to exceed enough."""
        size = 0
        for name in names:
            size += self.library.characters(name)
            if size > enough:
                break
        return size


# --- the coarse planner ---

PLAN_CARDS = 60
"""Cards that the coarse planner is asked about: three times the 20 tools that the paper shows, in a few thousand
tokens."""

RELEVANT = 0.3
"""p_t in [0, 1] below which a tool is dropped, as the paper's ACL-format version prints it."""

PLAN_DESCRIPTION_CHARS = 300
"""Characters of a tool's description in that question: its first sentences."""


def plan_tools(
    model: BaseChatModel,
    narrowing: ToolNarrowing,
    reads: Collection[str],
    query: str,
    meter: Meter,
    *,
    instruction: str = DEFAULT_PLAN_PROMPT,
) -> Flow[tuple[str, ...]]:
    """Names of the tools that a request may need, in the library's order: the coarse planner of the ACL-format paper.

    A tool is kept if it belongs to a domain of the request (or to none), its relevance p_t reaches the threshold, its
    input can be had, and its output is of use. The first two are asked, of the most relevant tools; the others follow
    from the schemas. All of the library is kept if the reply is unusable or would leave none: a planner that fails must
    not take tools away.
    """
    library, config = narrowing.library, narrowing.config
    names = library.names
    if len(names) > PLAN_CARDS:
        try:
            ranked = yield from narrowing.retriever.rank([query], names)
        except Exception as error:  # noqa: BLE001 - embeddings that are down take no tools away
            meter.problems.append(f"the tools could not be ranked: {described(error)}")
            return names
        shown = {*config.always_include, *ranked[:PLAN_CARDS]}
        names = tuple(name for name in names if name in shown)
    cards = [library.card(name) for name in names]
    question = StructuredQuestion(
        model,
        CoarsePlan,
        document_prompt(instruction, {"request": query, "tools": [*map(_short, cards)]}),
        usable=lambda reply: isinstance(reply.get("tools"), list) and isinstance(reply.get("domains"), list),
        config=inner_config("plan", {}),
    )
    replies = yield from question.ask(meter)
    if not replies:
        return library.names
    domains = {str(domain) for domain in _list(replies[-1].get("domains"))}
    rated = {str(v.get("name")): v.get("relevance") for v in _list(replies[-1].get("tools")) if isinstance(v, dict)}
    relevant = [card for card in cards if _passes(card, rated.get(card.name), domains)]
    idle = {card.name for card in cards if card.name in reads and (card.output_schema or {}).get("type") == "null"}
    useful = {card.name for card in relevant if _obtainable(card, relevant)} - idle  # which return and change nothing
    kept = tuple(name for name in names if name in useful or name in config.always_include)
    return kept if useful else library.names


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _short(card: ToolCard) -> dict[str, Any]:
    """What the coarse planner says of a tool."""
    short = {"name": card.name, "description": one_line(card.description, PLAN_DESCRIPTION_CHARS)}
    return {**short, "domains": [*card.domains]} if card.domains else short


def _passes(card: ToolCard, relevance: Any, domains: set[str]) -> bool:
    """Whether a tool is relevant; one that the model said nothing about is not judged irrelevant."""
    if relevance is None:
        return True
    irrelevant = isinstance(relevance, int | float) and 0 <= relevance < RELEVANT
    return not irrelevant and (not card.domains or not domains or bool(domains & set(card.domains)))


def _obtainable(card: ToolCard, cards: Sequence[ToolCard]) -> bool:
    """Whether each required input can be had.

    A request can say a plain value or a list of them. An object has to come from another tool, whose output has a field
    of this name, or whose name says it, or of which nobody knows what it is.
    """
    schema = card.input_schema or {}
    properties = schema.get("properties", {})
    nested = [name for name in schema.get("required", ()) if _is_nested(properties.get(name), schema)]
    others = {other.name: other.output_schema or {} for other in cards if other.name != card.name}
    fields = {name: {*_fields(output, output, depth=3)} for name, output in others.items()} if nested else {}
    return all(any(not fields[tool] or name in fields[tool] or name in tool for tool in fields) for name in nested)


def _is_nested(part: Any, schema: Mapping[str, Any]) -> bool:
    """Whether an input is an object, or a list of objects."""
    part = _resolved(part, schema)
    if part.get("type") == "array":
        part = _resolved(part.get("items"), schema)
    return bool(part.get("type") == "object")


def _fields(part: Any, schema: Mapping[str, Any], *, depth: int) -> Iterator[str]:
    """Names of the fields in a result, those of objects in it included."""
    part = _resolved(part, schema)
    if depth and part.get("type") == "array":
        yield from _fields(part.get("items"), schema, depth=depth - 1)
    for name, inner in part.get("properties", {}).items():
        yield name
        if depth:
            yield from _fields(inner, schema, depth=depth - 1)


def _resolved(part: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema, where it is named elsewhere in it, from there; empty if it says nothing."""
    if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
        part = schema.get("$defs", {}).get(reference.rpartition("/")[2])
    return part if isinstance(part, Mapping) else {}
