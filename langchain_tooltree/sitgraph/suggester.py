"""Asking the graph what comes next in a running conversation, and telling the outside what it said."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.checks import check_count
from langchain_tooltree.conversation import dialogue_of
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.suggestion import Suggestion
from langchain_tooltree.sitgraph.tool_schemas import Tools
from langchain_tooltree.sitgraph.transitions import moment_of
from langchain_tooltree.streaming import Writer, telling

logger = logging.getLogger(__name__)

DEFAULT_K = 2
"""Tools that are suggested, as in the paper."""


@dataclass(frozen=True, slots=True)
class Suggester:
    """Suggests the next tool of a running conversation.

    Args:
        graph: Knows what came next in past runs.
        k: How many tools to suggest at the most.

    Raises:
        ConfigurationError: If one of them is nothing of the kind.
    """

    graph: SITGraph
    k: int = DEFAULT_K

    def __post_init__(self) -> None:
        if not isinstance(self.graph, SITGraph):
            msg = f"graph must be a SITGraph, got {self.graph!r:.80}. Make one: SITGraph.from_trajectories(...)."
            raise ConfigurationError(msg)
        check_count("k", self.k)

    def suggest(
        self,
        messages: Sequence[Any],
        *,
        allowed: Tools | None = None,
        summary: str | None = None,
        writer: Writer | None = None,
    ) -> Flow[list[Suggestion]]:
        """Suggest what to call next. A suggestion is only a hint, so one that cannot be made is logged, not raised.

        Args:
            messages: The dialogue so far, in any form that `convert_to_messages` takes.
            allowed: The tools that there are now; no restriction if left out.
            summary: The state, if it was summed up elsewhere than in the latest messages.
            writer: Gets the event; callback handlers get it as well. Without one, nothing is told.

        Returns:
            The suggestions; none if the graph abstains.
        """
        try:
            dialogue = dialogue_of(messages)
            moment, written = moment_of(dialogue)
            last_tool = moment.last_tool or None
            options = {"state": summary or written, "messages": dialogue, "k": self.k, "allowed": allowed}
            suggestions: list[Suggestion] = yield _Suggest(self.graph, last_tool, options)
        except Exception as error:  # noqa: BLE001 - the embedder may be down, and the agent can do without
            logger.warning("No tool could be suggested: %s: %s", type(error).__name__, error)
            return []
        if suggestions:
            given = [suggestion.to_dict() for suggestion in suggestions]
            yield from telling({"type": "suggest", "last_tool": last_tool, "suggestions": given}, writer)
        return suggestions


@dataclass(frozen=True, slots=True)
class _Suggest:
    graph: SITGraph
    last_tool: str | None
    options: Mapping[str, Any]

    def run(self) -> list[Suggestion]:
        return self.graph.suggest(self.last_tool, **self.options)

    async def arun(self) -> list[Suggestion]:
        return await self.graph.asuggest(self.last_tool, **self.options)
