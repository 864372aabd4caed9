"""Which of an agent's many tools its model is shown: a middleware, and the retriever behind it, which asks no model."""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
)
from langchain_core.tools import BaseTool
from numpy.typing import NDArray

from langchain_tooltree.errors import (
    ConfigurationError,
    ToolDefinitionError,
    check_count,
)
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.kinds import get_tool_calls, is_tool_result
from langchain_tooltree.text import WORD_PATTERN, digest, forget_oldest
from langchain_tooltree.tools import ToolLibrary, as_tools

Scores = NDArray[np.float64]

MAX_TOOLS = 20  # that a model is shown: the paper's top 20
RECENT_MESSAGES = (
    10  # messages up to the request that are read: they say what "yes, do that" means
)
MAX_SENTENCES, MAX_CHARACTERS = 60, 1_600  # of what is ranked for, from the end
SATURATION, LENGTH_PENALTY = 1.2, 0.75  # k1 and b of BM25, as Lucene has them
RANK_OFFSET = 5  # the smaller, the more first places stand out; Cormack et al. have 60, for web pages
BEGINNINGS, HOPS = 3, 2  # first tools from which a graph is followed, and how far
NEIGHBOURS, MIN_SUPPORT = (
    5,
    3,
)  # tools that a graph names after another one, and in how many runs at least
MOST_TURNS, MOST_LIBRARIES = (
    1_000,
    4,
)  # rankings, and indices of different tools, that are kept

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|e)?s?$")
_DOUBLED = re.compile(r"(?<=\w\w)([^\W\d])\1$")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


@lru_cache(maxsize=16_384)  # thousands of tools are described in a few hundred words
def _stem(word: str) -> str:
    """What `copy`, `copies`, `copied` and `copying` have in common, or `plan` and `planning`; often no word itself."""
    stem = _ENDING.sub("", word, count=1)
    return f"{stem[:-1]}i" if stem.endswith("y") else _DOUBLED.sub(r"\1", stem)


def _terms(text: str) -> list[str]:
    """The words of a text in order, `camelCase` and `snake_case` taken apart, without case and English endings."""
    return [
        _stem(word)
        for word in WORD_PATTERN.findall(_CAMEL_CASE_BOUNDARY.sub(" ", text).casefold())
    ]


class _Index:
    """Texts to be ranked by the words that they share with a query (BM25)."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(_terms(text)) for text in texts]
        lengths = np.array([max(count.total(), 1) for count in counts], dtype=float)
        mean_length = lengths.sum() / max(len(texts), 1)
        damping = SATURATION * (
            1 - LENGTH_PENALTY + LENGTH_PENALTY * lengths / mean_length
        )
        pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, count in enumerate(counts):
            for term, times in count.items():
                pairs[term].append((place, times))
        self._size = len(texts)
        self._postings: dict[
            str, tuple[NDArray[np.int64], Scores]
        ] = {}  # places of texts, and what they score
        for term, postings in pairs.items():
            places, frequencies = np.array(postings).T
            rarity = np.log1p(
                (self._size - len(postings) + 0.5) / (len(postings) + 0.5)
            )
            # idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))
            self._postings[term] = (
                places,
                rarity
                * frequencies
                * (SATURATION + 1)
                / (frequencies + damping[places]),
            )

    def ranked(self, weights: dict[str, float]) -> list[int]:
        """Places of texts, best first: by the sum over sentences of weight / (RANK_OFFSET + rank)."""
        relevance = np.zeros(self._size)
        for sentence, weight in weights.items():
            scores = np.zeros(self._size)
            for term in dict.fromkeys(
                _terms(sentence)
            ):  # in order: sums of floats depend on it
                if term in self._postings:
                    places, score = self._postings[term]
                    scores[places] += score
            relevance += weight * _reciprocal_ranks(scores)
        return [int(place) for place in np.argsort(-relevance.round(12), kind="stable")]


def _reciprocal_ranks(scores: Scores) -> Scores:
    """`1 / (RANK_OFFSET + rank)` for each score, the highest having rank 0 and equal ones their mean rank."""
    _, places, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    reciprocal: Scores = 1 / (RANK_OFFSET + np.cumsum(sizes) - (sizes + 1) / 2)
    return reciprocal[places]


def _sentences(texts: Sequence[str]) -> dict[str, float]:
    """The sentences of texts, and each text as a whole, with weights: half of their sum goes to the last text."""
    weights: Counter[str] = Counter()
    for part in (texts[:-1], texts[-1:]):
        ends = [text[-MAX_CHARACTERS:] for text in part]
        sentences = [
            each.strip()
            for text in ends
            for each in (*_SENTENCE.split(text), text)
            if each.strip()
        ]
        for sentence in sentences[-MAX_SENTENCES:]:
            weights[sentence] += 1 / len(sentences[-MAX_SENTENCES:])  # type: ignore[assignment]  # no whole number
    return dict(weights)


class ToolGraph(Protocol):
    """What knows which tools come next, such as a `SITGraph`."""

    def suggest(self, last_tool: str | None, /, *, k: int = 2) -> Sequence[Any]:
        """Suggestions, best first, each with a `tool`, a `score` in [0, 1] and its `support` in runs."""


class ToolRetriever:
    """Ranks tools by their relevance to a text: for `search()`, for a graph of your own, or to look at a ranking.

    A request often names several tasks, so tools are ranked by words for each of its sentences and for the whole; the
    rankings are fused by reciprocal rank (Cormack et al. 2009).

    Args:
        tools: LangChain tools or functions, or a `ToolLibrary`. What is compared are names, descriptions, domains (of
            a library's cards, or a tool's `tags`) and arguments.
        graph: A `SITGraph`, such as `experience.graph`: tools that came next in past runs, after those that fit best,
            rank higher. A request hardly ever names all the tools that it takes.
    """

    def __init__(
        self,
        tools: Iterable[BaseTool | Callable[..., Any]],
        *,
        graph: ToolGraph | None = None,
    ) -> None:
        library = tools if isinstance(tools, ToolLibrary) else None
        self._tools = {tool.name: tool for tool in as_tools(tools)}
        self._graph = graph
        texts = [
            _words_of(
                tool, library.card(tool.name).domains if library else tool.tags or ()
            )
            for tool in self._tools.values()
        ]
        self._index = _Index(texts)

    def top(
        self,
        query: str | Sequence[str],
        k: int = MAX_TOOLS,
        *,
        last_tool: str | None = None,
    ) -> list[BaseTool]:
        """The most relevant tools, best first: `k` of them, or all if there are no more.

        Args:
            query: A request, or the texts of a conversation, of which the last counts as much as all others together.
            k: How many tools, 1 or more.
            last_tool: The tool that was called last, after which a `graph` knows what came next.
        """
        check_count("k", k)
        tools = [*self._tools]
        names = [
            tools[at]
            for at in self._index.ranked(
                _sentences([query] if isinstance(query, str) else [*query])
            )
        ]
        if self._graph is not None:
            names = self._joined_by_graph(names, self._graph, last_tool)
        return [self._tools[name] for name in names[:k]]

    def _joined_by_graph(
        self, ranked: Sequence[str], graph: ToolGraph, last_tool: str | None
    ) -> list[str]:
        """Rank anew: score(j) = 1 / (RANK_OFFSET + rank(j)) + sum over hops and tools i of score(i) * P(j | i)."""
        score = {name: 1 / (RANK_OFFSET + rank) for rank, name in enumerate(ranked)}
        front = {name: score[name] for name in ranked[:BEGINNINGS]}
        if last_tool is not None:
            front[last_tool] = front.get(last_tool, 0.0) + 1 / RANK_OFFSET
        for _ in range(HOPS):
            reached: dict[str, float] = defaultdict(float)
            for name, weight in front.items():
                for suggestion in graph.suggest(name, k=NEIGHBOURS):
                    if suggestion.support >= MIN_SUPPORT and suggestion.tool in score:
                        reached[suggestion.tool] += weight * suggestion.score
            for name, weight in reached.items():
                score[name] += weight
            front = reached
        return sorted(ranked, key=lambda name: -score[name])


def _words_of(tool: BaseTool, domains: Iterable[str]) -> str:
    arguments = (
        f"{name} {field.get('description', '')}" for name, field in tool.args.items()
    )
    return " ".join([tool.name, tool.description, *domains, *arguments])


class ToolSelectionMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Shows the model the most relevant of the agent's tools: ranked once a user turn, without a model call.

    ```python
    agent = create_agent(model, tools, middleware=[ToolSelectionMiddleware(max_tools=20)])
    ```

    Within a turn the tools and their order stay, so that the provider's prompt cache holds; a tool that was called all
    the same comes behind them. Tools that a provider runs (dicts) always pass. The tools node runs every tool.

    Args:
        max_tools: Tools that are shown beside `always_include`, 1 or more; up to so many are all shown.
        always_include: Names of tools that are always shown.
        graph: Ranks by what came next in past runs, too, as in `ToolRetriever`.

    Raises:
        ConfigurationError: If an argument is something else. At a model call: if `always_include` names no tool.
    """

    def __init__(
        self,
        *,
        max_tools: int = MAX_TOOLS,
        always_include: Sequence[str] = (),
        graph: ToolGraph | None = None,
    ) -> None:
        super().__init__()
        check_count("max_tools", max_tools)
        if not isinstance(always_include, list | tuple) or not all(
            isinstance(name, str) for name in always_include
        ):
            msg = f"always_include must be names of tools, such as ('transfer',), got {always_include!r:.80}."
            raise ConfigurationError(msg)
        if graph is not None and not hasattr(graph, "suggest"):
            msg = f"graph must be a SITGraph, such as experience.graph, got {graph!r:.80}."
            raise ConfigurationError(msg)
        self._max_tools, self._always, self._graph = (
            max_tools,
            frozenset(always_include),
            graph,
        )
        self._retrievers: dict[
            tuple[int, ...], ToolRetriever
        ] = {}  # by the identities of their tools, which they hold
        self._turns: dict[str, list[str]] = {}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Have the model answer with the selected tools."""
        return handler(self._selected(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        return await handler(await asyncio.to_thread(self._selected, request))

    def _selected(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        tools = {
            tool.name: tool for tool in request.tools if not isinstance(tool, dict)
        }
        provided = {
            tool.get("name") or tool.get("type")
            for tool in request.tools
            if isinstance(tool, dict)
        }
        if unknown := self._always - tools.keys() - provided:
            msg = f"always_include names {', '.join(sorted(unknown))}, and no tool of the agent has such a name."
            raise ToolDefinitionError(msg)
        ranked = [tool for name, tool in tools.items() if name not in self._always]
        if len(ranked) <= self._max_tools:
            return request
        run = [*Conversation(request.messages).since_request()]  # latest first
        before = request.messages[: len(request.messages) - len(run)]
        last_tool = next(
            (
                call["name"]
                for message in reversed(before)
                for call in reversed(get_tool_calls(message))
            ),
            None,
        )
        asked = before[-1].id if before else None
        shown = self._always.union(
            self._select_for_turn(
                ranked, asked, _message_texts(request.messages, len(run)), last_tool
            )
        )
        calls = [
            call["name"]
            for message in reversed(run)
            for call in get_tool_calls(message)
        ]
        late = [
            tools[name]
            for name in dict.fromkeys(calls)
            if name in tools and name not in shown
        ]
        selection = [
            tool
            for tool in request.tools
            if isinstance(tool, dict) or tool.name in shown
        ]
        return request.override(tools=[*selection, *late])

    def _select_for_turn(
        self,
        tools: list[BaseTool],
        asked: str | None,
        texts: list[str],
        last_tool: str | None,
    ) -> list[str]:
        """Names of the tools for a turn, which begins with the message of the id `asked`; ranked where it begins."""
        turn, key = (
            digest([asked, texts, last_tool, [tool.name for tool in tools]]),
            tuple(map(id, tools)),
        )
        if (names := self._turns.get(turn)) is None:
            retriever = self._retrievers.get(key) or ToolRetriever(
                tools, graph=self._graph
            )
            names = [
                tool.name
                for tool in retriever.top(texts, self._max_tools, last_tool=last_tool)
            ]
            self._retrievers[key], self._turns[turn] = retriever, names
            forget_oldest(self._retrievers, MOST_LIBRARIES)
            forget_oldest(self._turns, MOST_TURNS)
        return names


def _message_texts(messages: Sequence[Any], since: int) -> list[str]:
    """What user and agent said up to the latest request, `since` which so many messages came; the same all the turn."""
    end = (
        len(messages) - since or RECENT_MESSAGES
    )  # a summary may stand in place of the request
    recent = Conversation(messages[max(0, end - RECENT_MESSAGES) : end]).kinds
    return [
        message.text
        for part, message in recent
        if part != "reference" and not is_tool_result(message)
    ]
