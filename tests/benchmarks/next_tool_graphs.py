"""SIT-Graph with its default settings, and with parts left out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from langchain_core.embeddings import Embeddings

from langchain_tooltree import HashingEmbeddings, SITGraph, Trajectory
from langchain_tooltree.sitgraph.suggest import Ablation
from tests.benchmarks.next_tool_baselines import Rank, Train
from tests.benchmarks.next_tool_protocol import Question, questions_in

SUGGESTIONS = 3
"""No figure looks further down."""


class Remembered(Embeddings):
    """Embeds each text once for all graphs: they are asked the same questions."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._known: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if text not in self._known:
            self._known[text] = self._embeddings.embed_query(text)
        return self._known[text]


def graphs(embeddings: Embeddings | None = None) -> dict[str, Train]:
    """SIT-Graph as a method under its name, and each of its ablations under the paper's name."""
    shared = Remembered(embeddings or HashingEmbeddings())
    ablated = {
        name: _graph(embeddings=shared, ablation=name) for name in get_args(Ablation)
    }
    return {"sitgraph": _graph(embeddings=shared), **ablated}


def outlooks(
    known: Sequence[Trajectory], tested: Sequence[Trajectory]
) -> list[dict[str, tuple[float, bool]]]:
    """What the graph foretells at each question, as a share and whether it came so.

    `first` is the share of the first suggestion, `other` that of what no run did, among the tools.
    """
    graph = SITGraph.from_trajectories(told_apart(known))
    found = []
    for question in questions_in(tested):
        first = graph.suggest(question.last_tool, messages=question.messages, k=1)
        outlook = graph.next_tools(question.messages)
        if first and outlook:
            called = 1 - outlook.done
            found.append(
                {
                    "first": (first[0].score, first[0].tool == question.answer),
                    "other": (
                        outlook.other / called,
                        question.answer not in outlook.shares,
                    ),
                }
            )
    return found


def told_apart(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The trajectories, each with an id of its own: a graph takes those that share one for versions of the same run."""
    seen: dict[str, int] = {}
    apart = []
    for trajectory in trajectories:
        times = seen[trajectory.id] = seen.get(trajectory.id, 0) + 1
        apart.append(
            trajectory
            if times == 1
            else replace(trajectory, id=f"{trajectory.id} ({times})")
        )
    return apart


def _graph(**settings: Any) -> Train:
    def train(trajectories: Sequence[Trajectory]) -> Rank:
        graph = SITGraph.from_trajectories(told_apart(trajectories), **settings)

        def rank(question: Question) -> list[str]:
            suggestions = graph.suggest(
                question.last_tool, messages=question.messages, k=SUGGESTIONS
            )
            return [suggestion.tool for suggestion in suggestions]

        return rank

    return train
