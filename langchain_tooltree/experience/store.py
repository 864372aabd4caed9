"""ExperienceStore: trajectories in any LangGraph store."""

import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore, GetOp, Item, SearchItem
from numpy.typing import NDArray

from langchain_tooltree._langgraph import configurable_here, runtime_in
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError, check_count
from langchain_tooltree.experience.embeddings import EmbedStep, resolve_embeddings
from langchain_tooltree.experience.files import from_json, to_json
from langchain_tooltree.experience.namespaces import NamespaceTemplate
from langchain_tooltree.experience.record_collection import RecordCollection, StoreCall, listing
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, arun_flow, run_flow

Vector = NDArray[np.float16]

MOST_VECTORS = 50_000
"""Vectors that are kept in memory, about 100 MB of those of `HashingEmbeddings`; the oldest are given up first."""


class RunRanking:
    """Scores texts by their cosine similarity to a query, and remembers their vectors.

    Args:
        embeddings: Makes the vectors; a name will do, `HashingEmbeddings` if left out.

    Raises:
        ConfigurationError: If it is no embedder.
    """

    def __init__(self, embeddings: Embeddings | str | None = None) -> None:
        self._embeddings = resolve_embeddings(embeddings)
        self._vectors: dict[str, Vector] = {}
        self._lock = threading.Lock()

    def scores(self, query: str, texts: Sequence[str]) -> Flow[list[float]]:
        """Score texts, as a flow.

        Args:
            query: What they are compared to.
            texts: The texts.

        Returns:
            A score for each text, in their order.
        """
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys([*texts, query]) if text not in vectors]
        made: list[list[float]] = yield EmbedStep(self._embeddings, missing)
        vectors |= {text: _unit(vector) for text, vector in zip(missing, made, strict=True)}
        with self._lock:
            self._vectors |= {text: vectors[text] for text in texts}  # the query is not kept, it seldom comes again
            for text in list(self._vectors)[: max(0, len(self._vectors) - MOST_VECTORS)]:
                del self._vectors[text]
        if not texts:
            return []
        matrix = np.stack([vectors[text] for text in texts]).astype(np.float32)
        similarities: list[float] = (matrix @ vectors[query].astype(np.float32)).tolist()
        return similarities


def _unit(vector: Sequence[float]) -> Vector:
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    return (array / length if length else array).astype(np.float16)


DEFAULT_NAMESPACE = ("tooltree",)

TRAJECTORIES = "trajectories"
"""Label under which records stand, each as one JSON text."""

TASKS = "tasks"
"""Label under which an entry for each record stands: it is what is searched and listed, records being large."""

PAGE = 100
"""Records that are read at once."""

_OUTCOMES = {True: "success", False: "failure", None: "unknown"}


class ExperienceStore:
    """Keeps trajectories in a LangGraph store, apart for each user or tenant.

    ```python
    experience = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    experience.within(user_id="ada").add(trajectory)
    ```

    The variables of the namespace are filled from `within`; then from `config["configurable"]` where a method is given
    one, and otherwise from that of the graph that is running; then from the runtime context of that graph
    (`graph.invoke(..., context=...)`), a mapping or an object with attributes. Metadata are never used.

    Args:
        store: The store. If it has an index (`index={"embed": ..., "dims": ...}`), tasks are searched with it.
        namespace: Under which namespace everything is kept; a label may hold variables, as in `"{user_id}"`.
        embeddings: Ranks tasks where the store has no index: an embedder, a name such as
            `"openai:text-embedding-3-small"`, or `HashingEmbeddings` if left out. The vectors are kept in
            memory, and made again by the next process.

    Raises:
        ConfigurationError: If an argument is invalid.
    """

    def __init__(
        self,
        store: BaseStore,
        *,
        namespace: Sequence[str] = DEFAULT_NAMESPACE,
        embeddings: Embeddings | str | None = None,
    ) -> None:
        if not isinstance(store, BaseStore):
            msg = f"store must be a LangGraph BaseStore, such as InMemoryStore(), got {type(store).__name__}."
            raise ConfigurationError(msg)
        self._store = store
        self._template = NamespaceTemplate(namespace)
        self._ranking = RunRanking(embeddings)
        self._values: dict[str, Any] = {}

    def within(self, **values: Any) -> "ExperienceStore":
        """The same store for one user or tenant.

        Args:
            **values: Values of the namespace's variables.

        Returns:
            A store whose variables have these values.

        Raises:
            ConfigurationError: If the namespace has no such variable.
        """
        for name in values:
            if name not in self._template.variables:
                known = ", ".join(self._template.variables) or "none"
                msg = f"The namespace {self._template.labels!r} has no variable {name!r}; it has {known}."
                raise ConfigurationError(msg)
        return self._bound({**self._values, **values})

    def within_config(self, config: RunnableConfig | None = None) -> "ExperienceStore":
        """The same store for the user or tenant whom a configuration names.

        Args:
            config: Fills the variables of the namespace.

        Returns:
            A store that keeps to this namespace.

        Raises:
            ConfigurationError: If a variable of the namespace is not known.
        """
        values = self._known(config)
        self._template.fill(values)
        return self._bound(values)

    @property
    def values(self) -> Mapping[str, Any]:
        """The values of the namespace's variables, as far as this store keeps to them."""
        return self._values

    @property
    def place(self) -> tuple[BaseStore, tuple[str, ...]]:
        """Where the records of this store are kept; two that keep them in the same place are equal."""
        return self._store, self._namespace(None)

    def shelf(self, label: str) -> RecordCollection:
        """Where records of another kind are kept, in the same namespace.

        Args:
            label: Names the kind.

        Returns:
            The shelf. Variables of the namespace are filled at each call, as without a `config`.
        """
        return RecordCollection(self._store, lambda: (*self._namespace(None), label))

    def _bound(self, values: dict[str, Any]) -> "ExperienceStore":
        bound = object.__new__(ExperienceStore)
        bound._store, bound._template, bound._ranking = self._store, self._template, self._ranking
        bound._values = values
        return bound

    def add(self, trajectory: Trajectory, *, config: RunnableConfig | None = None) -> None:
        """Keep a trajectory, in place of one with the same id.

        Args:
            trajectory: What to keep.
            config: Fills the variables of the namespace.

        Raises:
            ConfigurationError: If a variable of the namespace is not known.
        """
        run_flow(self.adding(trajectory, config=config))

    async def aadd(self, trajectory: Trajectory, *, config: RunnableConfig | None = None) -> None:
        """The async twin of `add`."""
        await arun_flow(self.adding(trajectory, config=config))

    def adding(self, trajectory: Trajectory, *, config: RunnableConfig | None = None) -> Flow[None]:
        """Keep a trajectory, as a flow."""
        namespace = self._namespace(config)
        # As one ASCII text, since not every database takes NUL characters or lone surrogates, which tools do return.
        record = {"record": json.dumps(to_json(trajectory), default=str)}
        entry = {"task": _storable(trajectory.task), "outcome": _OUTCOMES[trajectory.success]}
        # The record first, so that whatever is listed can be read.
        yield self._call("put", (*namespace, TRAJECTORIES), trajectory.id, record, index=False)
        yield self._call("put", (*namespace, TASKS), trajectory.id, entry, index=["task"])

    def get(self, id: str, *, config: RunnableConfig | None = None) -> Trajectory | None:  # noqa: A002 - the field's name
        """Read one trajectory.

        Args:
            id: Its id.
            config: Fills the variables of the namespace.

        Returns:
            The trajectory; `None` if there is none with this id.

        Raises:
            ConfigurationError: If a variable of the namespace is not known.
            TrajectoryFormatError: If what is stored is no trajectory.
        """
        return run_flow(self.getting(id, config=config))

    async def aget(self, id: str, *, config: RunnableConfig | None = None) -> Trajectory | None:  # noqa: A002 - as above
        """The async twin of `get`."""
        return await arun_flow(self.getting(id, config=config))

    def getting(self, id: str, *, config: RunnableConfig | None = None) -> Flow[Trajectory | None]:  # noqa: A002 - as above
        """Read one trajectory, as a flow."""
        item: Item | None = yield self._call("get", (*self._namespace(config), TRAJECTORIES), id)
        return None if item is None else _read(item)

    def delete(self, id: str, *, config: RunnableConfig | None = None) -> None:  # noqa: A002 - as above
        """Delete a trajectory; one that does not exist is no error.

        Args:
            id: Its id.
            config: Fills the variables of the namespace.

        Raises:
            ConfigurationError: If a variable of the namespace is not known.
        """
        run_flow(self._deleting(id, config))

    async def adelete(self, id: str, *, config: RunnableConfig | None = None) -> None:  # noqa: A002 - as above
        """The async twin of `delete`."""
        await arun_flow(self._deleting(id, config))

    def _deleting(self, key: str, config: RunnableConfig | None) -> Flow[None]:
        namespace = self._namespace(config)
        yield self._call("delete", (*namespace, TASKS), key)
        yield self._call("delete", (*namespace, TRAJECTORIES), key)

    def trajectories(
        self, *, success: bool | None = None, config: RunnableConfig | None = None
    ) -> Iterator[Trajectory]:
        """Read all trajectories, some at a time.

        Args:
            success: Only those that succeeded, or only those that failed; all if left out.
            config: Fills the variables of the namespace.

        Yields:
            The trajectories in the order of their ids.

        Raises:
            ConfigurationError: If a variable of the namespace is not known.
            TrajectoryFormatError: If what is stored is no trajectory.
        """
        namespace = self._namespace(config)
        ids = run_flow(self._listed(namespace, success=success))
        for start in range(0, len(ids), PAGE):
            yield from run_flow(self._read_all(namespace, ids[start : start + PAGE]))

    async def atrajectories(
        self, *, success: bool | None = None, config: RunnableConfig | None = None
    ) -> AsyncIterator[Trajectory]:
        """The async twin of `trajectories`."""
        namespace = self._namespace(config)
        ids = await arun_flow(self._listed(namespace, success=success))
        for start in range(0, len(ids), PAGE):
            for trajectory in await arun_flow(self._read_all(namespace, ids[start : start + PAGE])):
                yield trajectory

    def similar(
        self, task: str, *, k: int = 2, success: bool | None = None, config: RunnableConfig | None = None
    ) -> list[Trajectory]:
        """Find the trajectories whose tasks are most like a task.

        Args:
            task: What is asked for.
            k: How many to find at the most.
            success: Only those that succeeded, or only those that failed; all if left out.
            config: Fills the variables of the namespace.

        Returns:
            The trajectories, most similar first.

        Raises:
            ConfigurationError: If `k` is less than 1, or a variable of the namespace is not known.
            TrajectoryFormatError: If what is stored is no trajectory.
        """
        return run_flow(self.finding(task, k=k, success=success, config=config))

    async def asimilar(
        self, task: str, *, k: int = 2, success: bool | None = None, config: RunnableConfig | None = None
    ) -> list[Trajectory]:
        """The async twin of `similar`."""
        return await arun_flow(self.finding(task, k=k, success=success, config=config))

    def finding(
        self, task: str, *, k: int = 2, success: bool | None = None, config: RunnableConfig | None = None
    ) -> Flow[list[Trajectory]]:
        """Find the trajectories whose tasks are most like a task, as a flow."""
        check_count("k", k)
        namespace = self._namespace(config)
        ids = yield from self._indexed(namespace, task, k, success=success)
        if ids is None:
            entries = yield from self._entries(namespace, success=success)
            scores = yield from self._ranking.scores(task, [str(entry.value.get("task")) for entry in entries])
            ranked = sorted(zip(scores, entries, strict=True), key=lambda pair: (-pair[0], pair[1].key))
            ids = [entry.key for _, entry in ranked[:k]]
        return (yield from self._read_all(namespace, ids))

    def _indexed(
        self,
        namespace: tuple[str, ...],
        task: str,
        k: int,
        *,
        success: bool | None,
    ) -> Flow[list[str] | None]:
        """What the store's own index finds; `None` if it has none."""
        query, limit = _storable(task), k
        while query.strip():
            hits: list[SearchItem] = yield self._search(namespace, limit, query, success=success)
            scored = [hit for hit in hits if hit.score is not None]
            if not scored:
                return None
            own = [hit.key for hit in scored if hit.namespace == (*namespace, TASKS)]
            if len(own) >= k or len(hits) < limit:
                return own[:k]
            limit *= 4
        return None

    def _entries(self, namespace: tuple[str, ...], *, success: bool | None) -> Flow[list[SearchItem]]:
        """All entries in the order of their ids."""
        return (yield from listing(self._store, (*namespace, TASKS), wanted=_wanted(success)))

    def _listed(self, namespace: tuple[str, ...], *, success: bool | None) -> Flow[list[str]]:
        entries = yield from self._entries(namespace, success=success)
        return [entry.key for entry in entries]

    def _read_all(self, namespace: tuple[str, ...], ids: Sequence[str]) -> Flow[list[Trajectory]]:
        """The trajectories with these ids; those that were deleted meanwhile are left out."""
        gets = [GetOp((*namespace, TRAJECTORIES), key) for key in ids]
        items: list[Item | None] = (yield self._call("batch", gets)) if gets else []
        return [_read(item) for item in items if item is not None]

    def _search(
        self,
        namespace: tuple[str, ...],
        limit: int,
        query: str | None = None,
        *,
        success: bool | None,
    ) -> StoreCall:
        """Some stores also find namespaces that merely look alike (SQL's LIKE): what comes back has to be checked."""
        return self._call("search", (*namespace, TASKS), query=query, filter=_wanted(success), limit=limit)

    def _call(
        self, method: Literal["get", "put", "delete", "search", "batch"], *arguments: Any, **options: Any
    ) -> StoreCall:
        return StoreCall(self._store, method, arguments, options)

    def _namespace(self, config: RunnableConfig | None) -> tuple[str, ...]:
        return self._template.fill(self._known(config))

    def _known(self, config: RunnableConfig | None) -> dict[str, Any]:
        """The values of the variables, as far as they are known."""
        wanted = [name for name in self._template.variables if name not in self._values]
        if not wanted:
            return self._values
        configurable = (configurable_here() if config is None else config.get("configurable")) or {}
        # LangGraph keeps the runtime there. It counts only as part of the configuration that was asked for: the context
        # of a graph that happens to be running may be somebody else's.
        runtime = runtime_in(configurable)
        found = {name: configurable.get(name) for name in wanted}
        context = {} if runtime is None else {name: _held(runtime.context, name) for name in wanted}
        return {**self._values, **{name: context.get(name) if found[name] is None else found[name] for name in wanted}}


def _wanted(success: bool | None) -> dict[str, str] | None:  # noqa: FBT001 - as the methods have it
    return None if success is None else {"outcome": _OUTCOMES[success]}


def _held(context: Any, name: str) -> Any:
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)


def _read(item: Item) -> Trajectory:
    where = f"Trajectory {item.key!r} in namespace {item.namespace!r}"
    try:
        written = json.loads(item.value["record"])
    except (KeyError, TypeError, ValueError) as error:
        msg = (
            f"{where} was not written by an ExperienceStore: {item.value!r:.80}. Delete it or choose another namespace."
        )
        raise TrajectoryFormatError(msg) from error
    return from_json(written, where=where)


def _storable(text: str) -> str:
    """A text that every database takes: without NUL characters and lone surrogates."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")
