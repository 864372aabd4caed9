"""SITGraph: the graph as users meet it."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils import batch_iterate

from langchain_tooltree.embeddings import embedded, embedder_name, resolve_embeddings
from langchain_tooltree.errors import ConfigurationError, GraphFileError, check_count
from langchain_tooltree.experience.guide import NextTools
from langchain_tooltree.experience.run_identity import AnyTools, names_of
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import (
    FunctionStep,
    arun_flow,
    run_flow,
    run_in_daemon_thread,
)
from langchain_tooltree.messages.chat_format import to_chat_message
from langchain_tooltree.messages.kinds import ChatMessage
from langchain_tooltree.sitgraph.files import (
    Which,
    forget_in_graph,
    load_graph,
    save_graph,
)
from langchain_tooltree.sitgraph.graph import Contribution, Graph, weights
from langchain_tooltree.sitgraph.states import (
    DIMENSIONS,
    Floats,
    hash_features,
    pack,
    project,
    quantize,
)
from langchain_tooltree.sitgraph.suggest import (
    Ablation,
    Fit,
    Recommender,
    Suggestion,
    fit_vote,
)
from langchain_tooltree.sitgraph.transitions import (
    START,
    VIEWS,
    Moment,
    both_ends,
    features_of,
    get_feature_texts,
    moment_of,
    read_run,
)
from langchain_tooltree.text import digest, mermaid_text, one_line

if TYPE_CHECKING:
    import networkx as nx

RESTS = 4  # times as long as it took that nothing is fitted in the background: a fifth of one processor at the most
MAX_CACHED_VECTORS = 2048  # texts whose vectors are kept, 2 MB: a run that goes on has most of its texts already
DEFAULT_ALPHA = 1.0
"""Factor of 1 / T in Eq. 1: nearly inert. With T about 10 to 16 it changes which two edges weigh most at 2 of 20 tools
of an airline and a phone company, and hit@1 by .4 points. From 10 on, of the order of T, it weighs like the count, sets
often repeated steps back, and hit@1 of the airline falls from .45 to .30. The paper does not print it."""

SETTINGS = ("alpha", "contextual", "min_support")  # what is saved with a graph
EMBEDDING_BATCH_SIZE = 16  # trajectories whose texts are embedded together: few requests, and little memory
MAX_CHART_LABEL = 40  # characters of a tool's name in a chart
NOWHERE = np.zeros((len(VIEWS), DIMENSIONS), np.float32)  # the center of no states
THICK = 0.5  # share of a tool's weights from which on an edge is drawn thick


class Encoder:
    """Turns texts into vectors of the graph's own length, and keeps the latest."""

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self._vectors: dict[str, Floats] = {}

    def forget(self) -> None:
        """Keep no vectors."""
        self._vectors = {}

    async def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts, each one once; an empty one is a zero vector, since embedding models refuse it."""
        latest = (
            self._vectors
        )  # another thread may put another one in its place at any time
        vectors = {text: latest[text] for text in texts if text in latest}
        missing = [
            text
            for text in dict.fromkeys(texts)
            if text.strip() and text not in vectors
        ]
        if missing:
            new = project(await embedded(self.embeddings, missing))
            vectors.update(zip(missing, new, strict=True))
            self._vectors = dict(
                [*latest.items(), *vectors.items()][-MAX_CACHED_VECTORS:]
            )
        nothing = np.zeros(DIMENSIONS, dtype=np.float32)
        return np.array([vectors.get(text, nothing) for text in texts])

    async def views(self, moment: Moment) -> Floats:
        """The views of a state, shape `(len(VIEWS), DIMENSIONS)`."""
        texts = await self.encode(list(get_feature_texts(moment).values()))
        return np.concatenate([texts, hash_features(features_of(moment))[None]])


@dataclass(frozen=True, slots=True)
class _Draft:
    """A successful run that is being mined: its states, with the tool that came next, and its summaries."""

    run: Trajectory
    moments: Sequence[
        tuple[Moment, str | None]
    ]  # each with the tool that came next; `None` at an end
    summaries: Sequence[tuple[int, str]]  # place of the state, and text
    texts: Sequence[
        Sequence[str]
    ]  # of each state: for those of many steps, they are made once

    @classmethod
    def of(cls, run: Trajectory) -> Self:
        """Read a run."""
        transitions, ends = read_run(run)
        good = [
            each for each in transitions if not each.failed
        ]  # what failed has not gone well
        moments = [
            *((each.moment, each.target) for each in good),
            *((moment, None) for moment in ends),
        ]
        summaries = [
            (place, text) for place, each in enumerate(good) for text in each.summaries
        ]
        return cls(
            run,
            moments if good else (),
            summaries,
            [[*get_feature_texts(moment).values()] for moment, _ in moments],
        )

    def contribution(self, vectors: Mapping[str, Floats]) -> Contribution:
        """What the run gives, by the vectors of its texts."""
        states = [
            [*(vectors[text] for text in texts), hash_features(features_of(moment))]
            for texts, (moment, _) in zip(self.texts, self.moments, strict=True)
        ]
        summaries = [vectors[both_ends(text)] for _, text in self.summaries]
        return Contribution(
            self.run.id,
            self.run.turns,
            labels=[
                (moment.last_tool, moment.tool_before, target)
                for moment, target in self.moments
            ],
            states=pack(quantize(np.array(states))),
            summaries=self.summaries,
            summary_vectors=pack(quantize(np.reshape(summaries, (-1, DIMENSIONS)))),
            came_from=self.run.came_from,
            voice=int("".join(digest(each, 8) for each in self.run.voice), 16),
        )


async def mine(runs: Sequence[Trajectory], encoder: Encoder) -> list[Contribution]:
    """What the successful ones of some runs give to the graph; their texts are embedded together."""
    # Reading long runs takes its time, so it must not hold up an event loop.
    successes = [run for run in runs if run.success]
    drafts = await FunctionStep(
        lambda runs: [draft for draft in map(_Draft.of, runs) if draft.moments],
        successes,
    )
    texts = [text for draft in drafts for texts in draft.texts for text in texts]
    texts += [both_ends(text) for draft in drafts for _, text in draft.summaries]
    vectors = dict(zip(texts, (await encoder.encode(texts)), strict=True))
    mined: list[Contribution] = await FunctionStep(
        lambda each: [draft.contribution(vectors) for draft in each], drafts
    )
    return mined


T = TypeVar("T")


class SITGraph:
    """A graph of which tool followed which in successful runs, and in what state (State Integrated Tool Graph).

    Nodes are tools, and an edge says that one followed the other. Edges have weights (Eq. 1 and 2), the summaries that
    agents made with `summarize_state` in between, and the states that can be read off the dialogues without a model.

    The graph is a fold over runs: whatever the order in which they are added and removed, the same runs give the same
    graph. All methods may be called from several threads.

    Args:
        alpha: How much a run of few messages counts for more (Eq. 1); at least 0. At 1 it hardly matters, and at 10,
            of the order of the number of messages of a run, it does harm.
        embeddings: Embeds summaries and dialogues: an embedder, or a name for `init_embeddings`. `HashingEmbeddings`,
            which needs no model, if left out.
        contextual: Whether a routine step is suggested by the state derived from the dialogue, beyond the paper.
        min_support: How many distinct tasks of distinct sources must have gone on with a tool after the one called last
            to have it suggested; where none did, how many of those in such a state. The graph abstains otherwise.
        ablation: A part to leave out, for measurements; see `Ablation`.

    Raises:
        ConfigurationError: If a setting cannot work.
    """

    def __init__(
        self,
        *,
        alpha: float = DEFAULT_ALPHA,
        embeddings: Embeddings | str | None = None,
        contextual: bool = True,
        min_support: int = 1,
        ablation: Ablation | None = None,
    ) -> None:
        _check(alpha, min_support, ablation)
        self.alpha = alpha
        self.contextual = contextual
        self.min_support = min_support
        self.ablation = ablation
        self._encoder = Encoder(resolve_embeddings(embeddings))
        self._graph = Graph()
        self._lock = threading.RLock()
        self._fit: Fit | None = None
        self._fitting = (
            threading.Lock()
        )  # one at a time: others would only do the same work
        self._fit_again_at = 0.0
        self._saving = threading.Lock()
        self._folders: dict[
            Path, str
        ] = {}  # each with the checksum of the graph that was read or saved there last

    @classmethod
    def paper(
        cls,
        *,
        alpha: float = DEFAULT_ALPHA,
        embeddings: Embeddings | str | None = None,
        ablation: Ablation | None = None,
    ) -> Self:
        """An empty graph as in the paper: routine steps go by weight. `ablation` leaves a part out, as there."""
        return cls(
            alpha=alpha, embeddings=embeddings, contextual=False, ablation=ablation
        )

    @classmethod
    def from_trajectories(
        cls, trajectories: Iterable[Trajectory], **settings: Any
    ) -> Self:
        """Mine runs into a graph with these settings. It is the graph to which `add` would have added them in turn."""
        graph = cls(**settings)
        for batch in batch_iterate(EMBEDDING_BATCH_SIZE, trajectories):
            latest = {run.id: run for run in batch}
            for run in latest:
                graph.remove(run)
            for contribution in run_flow(mine([*latest.values()], graph._encoder)):
                graph.fold(contribution)
        return graph

    def add(self, trajectory: Trajectory) -> bool:
        """Take a run as the latest version of itself: learn from it if it went well with tools, or forget it.

        Returns whether the run is in the graph now. To learn as agents run: `TrajectoryRecorder(graph.add,
        verdict=...)`. A graph learns all users' runs together: to keep them apart, take an `Experience`.
        """
        return run_flow(self.add_flow(trajectory))

    async def aadd(self, trajectory: Trajectory) -> bool:
        """Async version of `add`."""
        return await arun_flow(self.add_flow(trajectory))

    async def add_flow(self, trajectory: Trajectory) -> bool:
        """Flow of `add` and `aadd`; other flows await it."""
        contribution = await self.contribution(trajectory)
        if contribution is None:
            self.remove(trajectory.id)
        else:
            self.fold(contribution)
        if self.contextual and self._fit and not self._is_fitted:
            self._fit_meanwhile()  # now, and not when the next suggestion is asked for
        return contribution is not None

    async def contribution(self, trajectory: Trajectory) -> Contribution | None:
        """What a run gives to a graph with these settings, for `fold`; `None` if it did not succeed or called nothing.

        It is data that JSON can hold, to be kept where runs are not to be read and embedded again.
        """
        contributions = await mine([trajectory], self._encoder)
        return contributions[0] if contributions else None

    def fold(self, contribution: Contribution) -> None:
        """Add what a run gives, in place of what an earlier version of it has given."""
        with self._lock:
            self._graph.add(contribution)

    def remove(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Take out exactly what the run of this id gave; returns whether it was in the graph."""
        return bool(self.remove_all(lambda _: [id]))

    def remove_all(self, which: Which) -> list[str]:
        """Take out what some runs gave; the ids of those that were in the graph."""
        with self._lock:
            gone = sorted(run for run in which(self._graph) if self._graph.remove(run))
            if gone:  # nor is anything kept that was made of them
                self._fit = None
                self._encoder.forget()
        return gone

    def forget_saved(self, which: Which) -> tuple[dict[str, list[str]], list[str]]:
        """Take runs out of the folders that this graph was read from or saved to; their ids by folder, and problems."""
        gone: dict[str, list[str]] = {}
        problems: list[str] = []
        with self._saving:
            for folder, checksum in list(self._folders.items()):
                try:
                    gone[str(folder)], before, after = forget_in_graph(folder, which)
                except (GraphFileError, OSError) as error:
                    problems.append(f"The graph that was in {folder}: {error}")
                else:
                    if (
                        before == checksum
                    ):  # otherwise somebody else has saved there, which is not to be undone
                        self._folders[folder] = after
        return gone, problems

    def suggest(
        self,
        last_tool: str | None,
        *,
        state: str | None = None,
        messages: Sequence[BaseMessage | ChatMessage] | None = None,
        k: int = 2,
        allowed: AnyTools | None = None,
    ) -> list[Suggestion]:
        """Suggest the next tool.

        Args:
            last_tool: The tool that was called last; `None` at the start.
            state: The agent's summary of the state: *episodic* suggestions, by its similarity to stored summaries.
            messages: The dialogue so far, as LangChain or OpenAI chat messages: *contextual* suggestions, by what can
                be read off it without a model. With `state` as well, it counts where few edges have summaries.
                With neither, *procedural* suggestions, by weight.
            k: Suggestions at the most.
            allowed: The tools that the agent has now; others are never suggested. All, if left out.

        Returns:
            Suggestions, best first; none where the graph knows nothing.

        Raises:
            ConfigurationError: If `k` is not a whole number of 1 or more.
        """
        return run_flow(
            self.suggest_flow(
                last_tool, state=state, messages=messages, k=k, allowed=allowed
            )
        )

    async def asuggest(
        self,
        last_tool: str | None,
        *,
        state: str | None = None,
        messages: Sequence[BaseMessage | ChatMessage] | None = None,
        k: int = 2,
        allowed: AnyTools | None = None,
    ) -> list[Suggestion]:
        """Async version of `suggest`."""
        return await arun_flow(
            self.suggest_flow(
                last_tool, state=state, messages=messages, k=k, allowed=allowed
            )
        )

    async def suggest_flow(
        self,
        last_tool: str | None,
        *,
        state: str | None = None,
        messages: Sequence[BaseMessage | ChatMessage] | None = None,
        k: int = 2,
        allowed: AnyTools | None = None,
    ) -> list[Suggestion]:
        """Flow of `suggest` and `asuggest`; other flows await it."""
        check_count("k", k)
        views = summary = None
        before = START
        if state is not None and state.strip():
            summary = (await self._encoder.encode([both_ends(state)]))[0]
        if messages and (self.contextual or self.ablation == "w/o adapt"):
            moment = self._moment(messages)
            before = moment.tool_before
            views = await self._views(moment)
        source = START if last_tool is None else last_tool
        names = None if allowed is None else names_of(allowed)
        with self._lock:
            recommender = self._recommender()
            return recommender.suggest(
                source, before=before, views=views, summary=summary, k=k, allowed=names
            )

    def next_tools(
        self,
        messages: Sequence[BaseMessage | ChatMessage],
        *,
        allowed: AnyTools | None = None,
    ) -> NextTools | None:
        """How past runs went on from the end of a dialogue, as shares of everything that may come next.

        `None` where the graph knows nothing. Tools that are not `allowed` have no share. Where runs were learnt just
        now, it answers by the settings of the vote as they were fitted before, so that no search waits for the new
        ones.
        """
        return run_flow(self.next_tools_flow(messages, allowed=allowed))

    async def anext_tools(
        self,
        messages: Sequence[BaseMessage | ChatMessage],
        *,
        allowed: AnyTools | None = None,
    ) -> NextTools | None:
        """Async version of `next_tools`."""
        return await arun_flow(self.next_tools_flow(messages, allowed=allowed))

    async def next_tools_flow(
        self,
        messages: Sequence[BaseMessage | ChatMessage],
        *,
        allowed: AnyTools | None = None,
    ) -> NextTools | None:
        """Flow of `next_tools` and `anext_tools`; other flows await it."""
        moment = self._moment(messages)
        views = (await self._views(moment, at_once=True)) if self.contextual else None
        names = None if allowed is None else names_of(allowed)
        with self._lock:
            recommender = self._recommender()
            shares = recommender.next_tools(
                moment.last_tool, before=moment.tool_before, views=views, allowed=names
            )
        return NextTools(**shares) if shares else None

    def _moment(self, messages: Sequence[BaseMessage | ChatMessage]) -> Moment:
        chat = [
            to_chat_message(message) if isinstance(message, BaseMessage) else message
            for message in messages
        ]
        return moment_of(chat)[0]

    async def _views(self, moment: Moment, *, at_once: bool = False) -> Floats:
        """The state to be voted on, once the vote is fitted; `at_once`, if it ever was."""
        if not self._is_fitted:
            if at_once and self._fit:
                self._fit_meanwhile()
            else:
                await FunctionStep(self._refit, None)  # off the event loop
        return await self._encoder.views(moment)

    def _recommender(self) -> Recommender:
        fit = self._fit or Fit.even(NOWHERE)
        return Recommender(
            self._graph, self.alpha, self.min_support, fit, self.ablation
        )

    @property
    def _is_fitted(self) -> bool:
        """Whether the vote is fitted to what it would be fitted to now."""
        with self._lock:
            return self._fit is not None and self._fit.sample == self._graph.sample[1]

    def _fit_meanwhile(self) -> None:
        """Fit the vote in the background, one thread at a time, and not all the time where runs end all the time."""
        if not self._fitting.locked() and time.monotonic() >= self._fit_again_at:
            run_in_daemon_thread(partial(self._refit, None), "sitgraph-fit")

    def _refit(self, _: None) -> None:
        """Fit the vote to the runs that there are now. A saved graph does not have it."""
        with self._fitting:
            if self._is_fitted:
                return
            start = time.monotonic()
            with self._lock:
                runs, sample = self._graph.sample
                rows = self._graph.states.of_runs(runs)
            fit = fit_vote(
                rows, sample
            )  # takes its time, so nobody waits for the graph meanwhile
            with self._lock:
                self._fit = fit
            now = time.monotonic()
            self._fit_again_at = now + RESTS * (now - start)

    @property
    def vote(self) -> dict[str, Any] | None:
        """The settings of the vote as plain data; `None` if it was never fitted."""
        return None if self._fit is None else self._fit.to_dict()

    def restore_vote(self, vote: Mapping[str, Any]) -> None:
        """Take settings that were kept: suggestions go by them until the runs that they were fitted to change."""
        self._fit = Fit.from_dict(vote)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a folder, to be shipped with an application. The same runs give the same bytes.

        A graph that is there already is replaced, unless somebody else has saved it.

        Raises:
            GraphChangedError: If somebody else has saved there since this graph was read or saved there.
            GraphFileError: If somebody else is writing there for a minute.
            OSError: If it cannot be written.
        """
        settings = {name: getattr(self, name) for name in SETTINGS}
        settings["embedder"] = embedder_name(self._encoder.embeddings)
        folder = Path(path).resolve()
        with self._saving:
            with self._lock:
                runs = list(self._graph.runs.values())
            self._folders[folder] = save_graph(
                runs, settings, path, replaces=self._folders.get(folder)
            )

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, embeddings: Embeddings | str | None = None
    ) -> Self:
        """Read a graph from a folder, with its settings. `embeddings` is the embedder that it was made with.

        Raises:
            GraphFileError: If there is no graph, if it is damaged, or if it was made with another embedder.
        """
        content, settings, checksum = load_graph(path)
        embedder = resolve_embeddings(embeddings)
        if embedder_name(embedder) != settings["embedder"]:
            msg = (
                f"The graph at {path} was made with {settings['embedder']} and cannot be used with "
                f"{embedder_name(embedder)}. Pass embeddings= as when it was made, or mine it again."
            )
            raise GraphFileError(msg)
        graph = cls(embeddings=embedder, **{name: settings[name] for name in SETTINGS})
        graph._graph = content
        graph._folders[Path(path).resolve()] = checksum
        return graph

    def to_networkx(self, tools: Iterable[BaseTool] = ()) -> "nx.DiGraph[str]":
        """The graph for networkx, directed. The start node is named `START`, an empty string.

        Edges have `weight` (Eq. 2), `raw_weight` (Eq. 1), `count`, and `summaries`, the number of those on them. The
        nodes of `tools` have their `description`, d_v in the paper.
        """
        import networkx as nx  # noqa: PLC0415 - costs 0.1 s, and only who looks at a graph needs it

        digraph: nx.DiGraph[str] = nx.DiGraph()
        with self._lock:
            summaries = self._graph.summaries_by_edge()
            for source, edges in self._graph.edges():
                for target, weight in sorted(weights(edges, self.alpha).items()):
                    digraph.add_edge(
                        source,
                        target,
                        weight=weight,
                        raw_weight=edges[target].raw_weight(self.alpha),
                        count=edges[target].count,
                        summaries=len(summaries.get((source, target), ())),
                    )
        nx.set_node_attributes(
            digraph, {tool.name: tool.description for tool in tools}, "description"
        )
        return digraph

    def to_mermaid(self, *, max_edges: int = 60) -> str:
        """The graph as a Mermaid flowchart, with the `max_edges` edges that were followed most often."""
        every = sorted(
            self.to_networkx().edges(data=True),
            key=lambda edge: (-edge[2]["count"], *edge[:2]),
        )
        shown = sorted(every[:max_edges], key=lambda edge: edge[:2])
        number = {
            name: place
            for place, name in enumerate(
                sorted({name for edge in shown for name in edge[:2]})
            )
        }
        lines = ["flowchart LR"]
        for name, place in number.items():
            label = (
                '(["start"])'
                if name == START
                else f'["{mermaid_text(one_line(name, MAX_CHART_LABEL))}"]'
            )
            lines.append(f"  n{place}{label}")
        for source, target, edge in shown:
            arrow = "==>" if edge["weight"] >= THICK else "-->"
            lines.append(
                f'  n{number[source]} {arrow}|"{edge["weight"]:.2f}, {edge["count"]}x"| n{number[target]}'
            )
        if left_out := len(every) - len(shown):
            lines.append(
                f"  %% {left_out} edges that were followed less often are left out"
            )
        return "\n".join(lines)

    def read_graph(self, read: Callable[[Graph], T]) -> T:
        """Return what a function reads from the graph, while nobody changes it."""
        with self._lock:
            return read(self._graph)

    def __contains__(self, id: str) -> bool:  # noqa: A002 - the field's name
        return id in self._graph

    def __len__(self) -> int:
        return len(self._graph)


def _check(alpha: float, min_support: int, ablation: str | None) -> None:
    if (
        isinstance(alpha, bool)
        or not isinstance(alpha, int | float)
        or not 0 <= alpha < float("inf")
    ):
        msg = f"alpha must be a number of 0 or more, got {alpha!r}."
        raise ConfigurationError(msg)
    check_count("min_support", min_support)
    if ablation is not None and ablation not in get_args(Ablation):
        msg = f"ablation must be one of {', '.join(map(repr, get_args(Ablation)))} or None, got {ablation!r}."
        raise ConfigurationError(msg)
