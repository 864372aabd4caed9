"""ExperienceStore: trajectories, and records of other kinds, in any LangGraph store, apart for each user or tenant."""

import asyncio
import json
import logging
import math
import threading
import time
import uuid
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass, field, fields, replace
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableConfig
from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem
from numpy.typing import NDArray

from langchain_tooltree.embeddings import embedded, embedder_name, resolve_embeddings
from langchain_tooltree.errors import (
    ConfigurationError,
    StoreError,
    ToolTreeError,
    TrajectoryFormatError,
    check_count,
)
from langchain_tooltree.experience.run_identity import (
    Namespace,
    NamespaceTemplate,
    label_of,
    labels_in,
)
from langchain_tooltree.experience.trajectory import Recall, Trajectory, VerdictSource
from langchain_tooltree.experience.trajectory_json import from_json, to_json
from langchain_tooltree.flows import FlowStep, arun_flow, run_flow
from langchain_tooltree.secrets import masked
from langchain_tooltree.text import digest, forget_oldest

logger = logging.getLogger(__name__)

RELIST_SECONDS = 300.0
"""Seconds after which entries are listed anew though the head is the same: of two processes that write at the same
moment, one may overwrite the other's token, and who wrote last would not hear of the other."""

PENDING = "pending"
"""Outcome of a run that nobody has judged yet, and the key of its metadata under which it stands when it ended: in
seconds since 1970, and 0 for one that cannot go on."""

Vector = NDArray[np.float32]
AnyVector = Sequence[float] | NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What is known of a record without reading it: its version changes whenever the record does."""

    outcome: str
    version: str
    task: str = ""  # what is searched
    since: float = 0.0  # when a pending run ended, as its metadata say
    recalled: Mapping[str, Any] = field(
        default_factory=dict
    )  # a note of what was recalled for it

    @property
    def recall(self) -> Recall:
        """What was recalled for it."""
        return Recall.of_note(self.recalled)


class Catalogue:
    """The entries of one namespace, as they were listed last, with the own writes since.

    `token` is what the head of the namespace held then. Each write puts a new token there, so that one small read says
    whether anybody else has written.
    """

    def __init__(self) -> None:
        self.entries: dict[str, RunEntry] = {}
        self.tasks = TaskVectors()
        self.changes = 0  # how often the entries have changed, by a listing or a write
        self._token: str | None = None
        self._listed_at = -math.inf
        self._lock = threading.Lock()

    def is_current(self, token: str | None) -> bool:
        """Whether the entries are those of the store, whose head holds this token."""
        return (
            token == self._token and time.monotonic() < self._listed_at + RELIST_SECONDS
        )

    def list(self, entries: dict[str, RunEntry], token: str | None) -> None:
        """Take entries that were listed after the head was read, which held this token."""
        with self._lock:
            self.entries, self._token, self._listed_at = (
                entries,
                token,
                time.monotonic(),
            )
            self.changes += 1

    def write(
        self, entries: Mapping[str, RunEntry | None], before: str | None, token: str
    ) -> None:
        """Take an own write: entries that are new, `None` for deleted ones, and the token that it has replaced.

        Where somebody else has written in between, such as another thread, the token stays as it was, so that the next
        look lists all entries.
        """
        with self._lock:
            for run, entry in entries.items():
                if entry is None:
                    self.entries.pop(run, None)
                else:
                    self.entries[run] = entry
            self.changes += 1
            if self._token == before:
                self._token = token


class _Table(NamedTuple):
    """The runs in the order of their ids, as they were after so many changes."""

    changes: int
    runs: list[str]
    rows: NDArray[np.intp]  # of their tasks in the matrix
    outcomes: NDArray[np.str_]


class TaskVectors:
    """Vectors of tasks, for stores that have no index of their own."""

    def __init__(self) -> None:
        self._vectors: dict[str, Vector] = {}
        self._matrix: Vector | None = None  # their rows, once they are compared
        self._table: _Table | None = None
        self._complete = (
            -1
        )  # changes of the catalogue after which no vector was missing
        self._lock = threading.Lock()

    def missing(self, entries: Mapping[str, RunEntry], changes: int) -> list[str]:
        """The tasks without a vector; vectors of tasks that are gone are dropped."""
        if changes == self._complete:
            return []
        tasks = dict.fromkeys(entry.task for entry in list(entries.values()))
        with self._lock:
            for task in self._vectors.keys() - tasks.keys():
                del self._vectors[task]
                self._matrix = None
            missing = [task for task in tasks if task not in self._vectors]
            if not missing:
                self._complete = changes
            return missing

    def add(self, vectors: Mapping[str, AnyVector]) -> None:
        """Keep vectors by their tasks."""
        with self._lock:
            self._vectors |= {task: _normalize(each) for task, each in vectors.items()}
            self._matrix = None

    def get(self, task: str) -> Vector | None:
        """The vector of a task, if there is one."""
        return self._vectors.get(task)

    def nearest(
        self,
        query: Sequence[float],
        k: int,
        entries: Mapping[str, RunEntry],
        changes: int,
        outcome: str | None,
    ) -> list[str]:
        """The `k` runs whose tasks have the highest cosine similarity, best first, and of equal ones by their ids."""
        with self._lock:
            if not self._vectors:
                return []
            if self._matrix is None:
                self._matrix, self._table = np.stack([*self._vectors.values()]), None
                self._vectors = dict(
                    zip(self._vectors, self._matrix, strict=True)
                )  # so that none is held twice
            if self._table is None or self._table.changes != changes:
                self._table = self._tabled(entries, changes)
            matrix, table = self._matrix, self._table
        fits = (
            np.full(len(table.runs), fill_value=True)
            if outcome is None
            else table.outcomes == outcome
        )
        similarities = np.where(fits, (matrix @ _normalize(query))[table.rows], -np.inf)
        best = np.argsort(-similarities, kind="stable")[: min(k, int(fits.sum()))]
        return [table.runs[at] for at in best]

    def _tabled(self, entries: Mapping[str, RunEntry], changes: int) -> _Table:
        rows = {task: row for row, task in enumerate(self._vectors)}
        ranked = {
            run: entry
            for run, entry in sorted(dict(entries).items(), key=itemgetter(0))
            if entry.task in rows
        }
        outcomes = np.array([entry.outcome for entry in ranked.values()], dtype=np.str_)
        places = np.array(
            [rows[entry.task] for entry in ranked.values()], dtype=np.intp
        )
        return _Table(changes, [*ranked], places, outcomes)


def _normalize(vector: AnyVector) -> Vector:
    """A vector of unit length, or zero."""
    array: Vector = np.asarray(vector, dtype=np.float32).reshape(-1)
    length = float(np.linalg.norm(array))
    return array / np.float32(length) if length else array


@dataclass(frozen=True, slots=True)
class StoreCall(FlowStep):
    """A call of a method of a store, or of its async twin, as a step of a flow."""

    store: BaseStore
    method: Literal["get", "put", "delete", "search", "batch", "list_namespaces"]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def run(self) -> Any:
        """Call the method."""
        return getattr(self.store, self.method)(*self.arguments, **self.options)

    async def arun(self) -> Any:
        """Await the method's twin; a store that has none is called in a thread."""
        try:
            return await getattr(self.store, f"a{self.method}")(
                *self.arguments, **self.options
            )
        except NotImplementedError:  # SqliteStore has the sync half alone
            return await asyncio.to_thread(self.run)


MOST_ITEMS = 1_000_000
"""Items, or namespaces, that are asked for where all are wanted: more than anybody has, and as many as Redis allows."""


async def listing(store: BaseStore, namespace: Namespace) -> list[SearchItem]:
    """All items of exactly one namespace, in the order of their keys, as a flow.

    They come from one search, since pages would shift under writes. Some stores also find namespaces that merely look
    alike (SQL's LIKE), or that begin alike.
    """
    items: list[SearchItem] = await StoreCall(
        store, "search", (namespace,), {"query": None, "limit": MOST_ITEMS}
    )
    return sorted(
        (item for item in items if item.namespace == namespace),
        key=lambda item: item.key,
    )


@dataclass(frozen=True, slots=True)
class RecordCollection:
    """Records of one kind: data that JSON can hold, by key. Its methods are flows.

    `namespace` is called each time: the namespace may depend on the graph that is running. What is stored there and is
    no record raises `StoreError`.
    """

    store: BaseStore
    namespace: Callable[[], Namespace]

    async def putting(self, key: str, record: Mapping[str, Any]) -> None:
        """Keep a record, in place of one with the same key."""
        # As one ASCII text, since not every database takes NUL characters or lone surrogates.
        value = {"record": json.dumps(record, default=str)}
        await StoreCall(
            self.store, "put", (self.namespace(), key, value), {"index": False}
        )

    async def getting(self, key: str) -> dict[str, Any] | None:
        """Read a record; `None` if there is none."""
        item: Item | None = await StoreCall(
            self.store, "get", (self.namespace(), key), {}
        )
        return None if item is None else _get_record(item)

    async def reading(self) -> dict[str, dict[str, Any]]:
        """Read all records, in the order of their keys."""
        items = await listing(self.store, self.namespace())
        return {item.key: _get_record(item) for item in items}

    async def deleting(self, key: str) -> None:
        """Delete a record; one that does not exist is no error."""
        await StoreCall(self.store, "delete", (self.namespace(), key), {})


def _get_record(
    item: Item, what: str = "Item", error: type[ToolTreeError] = StoreError
) -> dict[str, Any]:
    try:
        record = json.loads(item.value["record"])
    except (KeyError, TypeError, ValueError):
        record = None
    if isinstance(record, dict):
        return record
    where = f"{what} {item.key!r} in namespace {item.namespace!r}"
    msg = f"{where} was not written by this package: {item.value!r:.80}. Delete it or choose another namespace."
    raise error(msg)


STORE_NAMESPACE = ("tooltree",)

TRAJECTORIES = "trajectories"  # label under which records stand, each as one JSON text

TASKS = "tasks"
"""Label under which an entry for each record stands: it is what is searched and listed, records being large."""

HEAD, TOKEN = "head", "token"
"""Label and key of one small item, which holds a new random token after each write: as long as it is the same, nothing
has changed."""

READ_PAGE_SIZE = 100  # records that are read at once: few enough that a page of long runs, of some 100 KB each, is about 10 MB

_OUTCOMES = {True: "success", False: "failure", None: "unknown"}

JUDGED = frozenset({"success", "failure"})  # outcomes that say something

QUARANTINED = "quarantined"
"""Outcome of a run whose verdict waits until a person confirms it, and the key of its metadata that says so."""

MOST_NAMESPACES = 256
"""Namespaces whose entries are held in memory, some megabytes each for thousands of runs; others are listed anew."""


@dataclass(slots=True)
class _Memory:
    """What all views of one store in this process share."""

    embeddings: Embeddings | None
    catalogues: dict[Namespace, Catalogue] = field(default_factory=dict)
    is_indexed: bool | None = (
        None  # whether the store ranks tasks itself; `None` until there was one to be ranked
    )


class ExperienceStore:
    """Keeps trajectories in a LangGraph store, apart for each user or tenant.

    ```python
    experience = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    experience.within(user_id="ada").add(trajectory)
    ```

    The variables of the namespace are filled from `within`; then from the runtime context of the graph that is running
    (`graph.invoke(..., context=...)`), a mapping or an object with attributes; then from what is `configurable` there,
    or in the configuration of `within_config`. Metadata are never used. A method raises `ConfigurationError` if a
    variable is not known, and `get` raises `TrajectoryFormatError` for what is no trajectory; where many are read, such
    a one is passed over, with a warning in the log.

    *Security*: clients of a served graph can set what is `configurable`. So it counts only where the context does not
    know the variable, and raises `ForeignNamespaceError` where it says otherwise. Without a context, `configurable` is
    taken for the host's own: whoever can set it there chooses whose memory is read and written. Clients of a LangGraph
    server set the context, too; there, authenticate them and take `"{langgraph_auth_user_id}"`, which the server fills.

    Args:
        store: The store. If it has an index (`index={"embed": ..., "dims": ...}`), tasks are searched with it.
        namespace: Under which namespace everything is kept; a label may hold a variable, as in `"{user_id}"`. Its
            value is a text, a whole number or a UUID.
        embeddings: Ranks tasks where the store has no index: an embedder, a name such as
            `"openai:text-embedding-3-small"`, or `HashingEmbeddings` if left out. The vectors are held in memory, 4 KB
            each of those; from some 50,000 runs on, give the store an index.
        keep_secrets: Whether records hold what looks like a key, a token or a password. Else `[secret]` stands in its
            place, as the documentation on safety describes.
    """

    def __init__(
        self,
        store: BaseStore,
        *,
        namespace: Sequence[str] = STORE_NAMESPACE,
        embeddings: Embeddings | str | None = None,
        keep_secrets: bool = False,
    ) -> None:
        if not isinstance(store, BaseStore):
            msg = f"store must be a LangGraph BaseStore, such as InMemoryStore(), got {type(store).__name__}."
            raise ConfigurationError(msg)
        self._store = store
        self._template = NamespaceTemplate(namespace)
        self._memory = _Memory(
            None if embeddings is None else resolve_embeddings(embeddings)
        )
        self._values: dict[str, str] = {}
        self._keep_secrets = keep_secrets

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        whose = f"{tuple(self._template.labels)!r}{' of ' * bool(values)}{values}"
        return f"<{type(self).__name__}: {whose} in {type(self._store).__name__}>"

    def within(self, **values: Any) -> "ExperienceStore":
        """The same store for one user or tenant: the namespace's variables have these values."""
        for name in values:
            if name not in self._template.variables:
                names = ", ".join(self._template.variables) or "none"
                msg = f"The namespace {self._template.labels!r} has no variable {name!r}; it has {names}."
                raise ConfigurationError(msg)
        return self._bound(
            {
                **self._values,
                **{name: label_of(name, value) for name, value in values.items()},
            }
        )

    def of_user(self, user: Any) -> "ExperienceStore":
        """The same store for one user, where one variable of the namespace says whose it is."""
        variables = self._template.variables
        free = [name for name in variables if name not in self._values] or variables
        if len(free) != 1 or self._values.get(
            free[0], label_of(free[0], user)
        ) != label_of(free[0], user):
            msg = f"user={user!r:.80} does not say which namespace of {self!r} is meant: use within()."
            raise ConfigurationError(msg)
        return self.within(**{free[0]: user})

    def forget_memory(self) -> None:
        """Hold nothing of the namespace in memory; the next look lists its entries."""
        self._memory.catalogues.pop(self._namespace, None)

    def within_config(self, config: RunnableConfig | None = None) -> "ExperienceStore":
        """The same store for the user or tenant whom a configuration names."""
        values = self._labels(config)
        self._template.fill(values)
        return self._bound(values)

    def resumed(self, values: Any) -> "ExperienceStore":
        """The same store for whom a run began, by the `values` that its state holds since then.

        They stand until its end, whatever is configurable then, but a client may also write states: a
        `ForeignNamespaceError` if the server says otherwise.
        """
        config: RunnableConfig = {
            "configurable": dict(values) if isinstance(values, Mapping) else {}
        }
        return self.within_config(config)

    @property
    def values(self) -> Mapping[str, str]:
        """The labels of the namespace's variables, as far as this store keeps to them."""
        return self._values

    @property
    def place(self) -> tuple[BaseStore, Namespace]:
        """Where the records of this store are kept; two that keep them in the same place are equal."""
        return self._store, self._namespace

    def collection(self, label: str) -> RecordCollection:
        """Records of another kind, named by a label, in the same namespace; its variables are filled at each call."""
        return RecordCollection(self._store, lambda: (*self._namespace, label))

    def _bound(self, values: dict[str, str]) -> "ExperienceStore":
        bound = object.__new__(ExperienceStore)
        bound.__dict__ |= {**self.__dict__, "_values": values}
        return bound

    def add(self, trajectory: Trajectory) -> None:
        """Keep a trajectory, in place of one with the same id."""
        run_flow(self.add_flow(trajectory))

    async def aadd(self, trajectory: Trajectory) -> None:
        """Async version of `add`."""
        await arun_flow(self.add_flow(trajectory))

    async def add_flow(self, trajectory: Trajectory) -> None:
        """Flow of `add` and `aadd`; other flows await it."""
        await self.adding(self.without_secrets(trajectory))

    def without_secrets(self, trajectory: Trajectory) -> Trajectory:
        """A trajectory as it is kept."""
        return trajectory if self._keep_secrets else masked(trajectory)

    async def adding(self, trajectory: Trajectory) -> RunEntry:
        """Keep a trajectory that is `without_secrets`, as a flow; returns its entry."""
        namespace = self._namespace
        # As one ASCII text, since not every database takes NUL characters or lone surrogates, which tools do return.
        text = json.dumps(to_json(trajectory), default=str)
        entry = entry_of(trajectory, text)
        record = PutOp(
            (*namespace, TRAJECTORIES), trajectory.id, {"record": text}, index=False
        )
        listed = PutOp(
            (*namespace, TASKS), trajectory.id, asdict(entry), index=["task"]
        )
        # The record first, so that where a store knows no transactions whatever is listed can be read.
        await self._writing(namespace, [record, listed], {trajectory.id: entry})
        return entry

    async def _writing(
        self,
        namespace: Namespace,
        puts: Sequence[PutOp],
        entries: Mapping[str, RunEntry | None],
    ) -> None:
        """Write records with their entries, and a new token in the head, in one batch: a transaction if it can be."""
        place, token = (*namespace, HEAD), uuid.uuid4().hex
        every = lasting(
            self._store, [*puts, PutOp(place, HEAD, {TOKEN: token}, index=False)]
        )
        # Reads of a batch see the state before its writes.
        before, *_ = await self._call("batch", [GetOp(place, HEAD), *every])
        self._catalogue(namespace).write(entries, _token(before), token)

    @property
    def catalogue(self) -> Catalogue:
        """What is held in memory of the namespace, as of the last look."""
        return self._catalogue(self._namespace)

    async def current(self) -> Catalogue:
        """What is held in memory of the namespace, as a flow: listed anew where somebody else has written."""
        namespace = self._namespace
        catalogue = self._catalogue(namespace)
        token = _token(await self._call("get", (*namespace, HEAD), HEAD))
        if not catalogue.is_current(token):
            items = await listing(self._store, (*namespace, TASKS))
            catalogue.list({item.key: _get_entry(item) for item in items}, token)
        return catalogue

    def _catalogue(self, namespace: Namespace) -> Catalogue:
        catalogues = self._memory.catalogues
        if (
            catalogue := catalogues.pop(namespace, None)
        ) is None:  # other threads may look it up at the same time
            catalogue = Catalogue()
        catalogues[namespace] = catalogue
        forget_oldest(catalogues, MOST_NAMESPACES)
        return catalogue

    def get(self, id: str) -> Trajectory | None:  # noqa: A002 - the field's name
        """Read the trajectory with this id; `None` if there is none."""
        return run_flow(self.get_flow(id))

    async def aget(self, id: str) -> Trajectory | None:  # noqa: A002 - the field's name
        """Async version of `get`."""
        return await arun_flow(self.get_flow(id))

    async def get_flow(self, id: str) -> Trajectory | None:  # noqa: A002 - the field's name
        """Flow of `get` and `aget`; other flows await it."""
        item: Item | None = await self._call(
            "get", (*self._namespace, TRAJECTORIES), id
        )
        return None if item is None else _trajectory(item)

    def label(
        self,
        id: str,  # noqa: A002 - the field's name
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: VerdictSource = "user",
    ) -> Trajectory:
        """Say whether a run succeeded, in place of the verdict that it had. Returns the run as it is kept now.

        `source` says who labels: the user, or an agent. A run that does not exist raises `StoreError`.
        """
        return run_flow(self.label_flow(id, success, reasons, source=source))

    async def alabel(
        self,
        id: str,  # noqa: A002 - the field's name
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: VerdictSource = "user",
    ) -> Trajectory:
        """Async version of `label`."""
        return await arun_flow(self.label_flow(id, success, reasons, source=source))

    async def label_flow(
        self,
        id: str,  # noqa: A002 - the field's name
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: VerdictSource = "user",
    ) -> Trajectory:
        """Flow of `label` and `alabel`; other flows await it."""
        trajectory = await self.get_flow(id)
        if trajectory is None:
            msg = f"There is no run {id!r} to be labelled in namespace {self._namespace!r}. Is it another id?"
            raise StoreError(msg)
        labelled = trajectory.judged(bool(success), reasons, source=source)
        if source == "user":
            confirmed = {
                name: value
                for name, value in labelled.metadata.items()
                if name != QUARANTINED
            }
            labelled = replace(labelled, metadata=confirmed)
        await self.add_flow(labelled)
        return labelled

    def delete(self, id: str) -> None:  # noqa: A002 - as above
        """Delete a trajectory; one that does not exist is no error."""
        run_flow(self.delete_flow(id))

    async def adelete(self, id: str) -> None:  # noqa: A002 - as above
        """Async version of `delete`."""
        await arun_flow(self.delete_flow(id))

    async def delete_flow(self, id: str) -> None:  # noqa: A002 - as above
        """Flow of `delete` and `adelete`; other flows await it."""
        await self.deleting([id])

    async def deleting(self, ids: Sequence[str]) -> None:
        """Delete trajectories, as a flow."""
        namespace = self._namespace
        for page in batch_iterate(READ_PAGE_SIZE, ids):
            # The entries first, so that whatever is listed can be read.
            puts = [
                PutOp((*namespace, label), run, None)
                for label in (TASKS, TRAJECTORIES)
                for run in page
            ]
            await self._writing(namespace, puts, dict.fromkeys(page))

    async def reading(self, ids: Sequence[str]) -> list[Trajectory]:
        """The trajectories with these ids, in their order, as a flow.

        Those that are gone are left out, and with a warning in the log those that cannot be read.
        """
        trajectories: list[Trajectory] = []
        for page in batch_iterate(READ_PAGE_SIZE, ids):
            gets = [GetOp((*self._namespace, TRAJECTORIES), run) for run in page]
            items: list[Item | None] = await self._call("batch", gets)
            for item in filter(None, items):
                try:
                    trajectories.append(_trajectory(item))
                except TrajectoryFormatError as error:
                    logger.warning("A run is passed over: %s", error)
        return trajectories

    def trajectories(self, *, success: bool | None = None) -> Iterator[Trajectory]:
        """Read all trajectories in the order of their ids, some at a time; with `success`, only those with this end."""
        store = (
            self.within_config()
        )  # the iterator may be read where nobody knows whose it is
        for page in batch_iterate(READ_PAGE_SIZE, run_flow(store.ids(success=success))):
            yield from run_flow(store.reading(page))

    async def atrajectories(
        self, *, success: bool | None = None
    ) -> AsyncIterator[Trajectory]:
        """The async twin of `trajectories`."""
        store = self.within_config()
        for page in batch_iterate(
            READ_PAGE_SIZE, await arun_flow(store.ids(success=success))
        ):
            for trajectory in await arun_flow(store.reading(page)):
                yield trajectory

    async def ids(self, *, success: bool | None = None) -> list[str]:
        """The ids of all trajectories in order, as a flow; with `success`, only of those with this end."""
        items = await listing(self._store, (*self._namespace, TASKS))
        return [
            item.key
            for item in items
            if success is None or _get_entry(item).outcome == _OUTCOMES[success]
        ]

    def similar(
        self, task: str, *, k: int = 2, success: bool | None = None
    ) -> list[Trajectory]:
        """Find the `k` trajectories whose tasks are most like a task, most similar first.

        With `success`, only those that succeeded, or only those that failed.
        """
        return run_flow(self.similar_flow(task, k=k, success=success))

    async def asimilar(
        self, task: str, *, k: int = 2, success: bool | None = None
    ) -> list[Trajectory]:
        """Async version of `similar`."""
        return await arun_flow(self.similar_flow(task, k=k, success=success))

    async def similar_flow(
        self, task: str, *, k: int = 2, success: bool | None = None
    ) -> list[Trajectory]:
        """Flow of `similar` and `asimilar`; other flows await it."""
        check_count("k", k)
        ids = await self._indexed(task, k, success=success)
        if ids is None:
            catalogue = await self.current()
            changes = (
                catalogue.changes
            )  # looked at before the entries, which who writes changes first
            entries = catalogue.entries
            await self._embedding(catalogue, catalogue.tasks.missing(entries, changes))
            [query] = await embedded(self._embeddings, [task])
            outcome = None if success is None else _OUTCOMES[success]
            ids = catalogue.tasks.nearest(query, k, entries, changes, outcome)
        return await self.reading(ids)

    async def vectors(self, runs: Sequence[str]) -> dict[str, Vector]:
        """The vectors of the tasks of some runs, as a flow; none where the store ranks tasks itself."""
        catalogue = await self.current()
        tasks = {
            run: catalogue.entries[run].task for run in runs if run in catalogue.entries
        }
        if not tasks or self._memory.is_indexed:
            return {}
        if (
            await self._indexed(next(iter(tasks.values())), 1, success=None)
        ) is not None:
            return {}
        changes = catalogue.changes
        missing = catalogue.tasks.missing(catalogue.entries, changes)
        await self._embedding(
            catalogue, [task for task in missing if task in tasks.values()]
        )
        vectors = {run: catalogue.tasks.get(task) for run, task in tasks.items()}
        return {run: vector for run, vector in vectors.items() if vector is not None}

    def hold_vectors(self, vectors: Mapping[str, AnyVector]) -> None:
        """Hold vectors of the tasks of some runs that were made earlier, by another process."""
        entries = self.catalogue.entries
        self.catalogue.tasks.add(
            {entries[run].task: each for run, each in vectors.items() if run in entries}
        )

    @property
    def embedder(self) -> str:
        """What makes the vectors of tasks, by its name."""
        return embedder_name(self._embeddings)

    @property
    def _embeddings(self) -> Embeddings:
        embeddings = self._memory.embeddings = (
            self._memory.embeddings or resolve_embeddings(None)
        )
        return embeddings

    async def _embedding(self, catalogue: Catalogue, tasks: list[str]) -> None:
        """Make the vectors of some tasks."""
        if tasks:
            catalogue.tasks.add(
                dict(
                    zip(
                        tasks,
                        (await embedded(self._embeddings, tasks)),
                        strict=True,
                    )
                )
            )

    async def _indexed(
        self, task: str, k: int, *, success: bool | None
    ) -> list[str] | None:
        """What the store's own index finds; `None` if it has none."""
        query, limit, place = _storable(task), k, (*self._namespace, TASKS)
        wanted = None if success is None else {"outcome": _OUTCOMES[success]}
        while query.strip() and self._memory.is_indexed is not False:
            options = {"query": query, "filter": wanted, "limit": limit}
            hits: list[SearchItem] = await self._call("search", place, **options)
            scored = [hit for hit in hits if hit.score is not None]
            if hits:
                self._memory.is_indexed = bool(scored)
            if not scored:
                return None
            # Some stores also find namespaces that merely look alike (SQL's LIKE).
            own = [hit.key for hit in scored if hit.namespace == place]
            if len(own) >= k or len(hits) < limit:
                return own[:k]
            limit *= 4
        return None

    def _call(
        self,
        method: Literal["get", "put", "delete", "search", "batch"],
        *arguments: Any,
        **options: Any,
    ) -> StoreCall:
        return StoreCall(self._store, method, arguments, options)

    @property
    def _namespace(self) -> Namespace:
        return self._template.fill(self._labels(None))

    def _labels(self, config: RunnableConfig | None) -> dict[str, str]:
        """The labels of the variables, as far as they are known."""
        missing = [
            name for name in self._template.variables if name not in self._values
        ]
        return (
            {**self._values, **labels_in(config, missing)} if missing else self._values
        )


def lasting(store: BaseStore, puts: Iterable[PutOp]) -> list[PutOp]:
    """Writes for a batch, to last as long as those by `put` do."""
    ttl = (store.ttl_config or {}).get("default_ttl")
    return [put if put.value is None else put._replace(ttl=ttl) for put in puts]


def entry_of(trajectory: Trajectory, written: str | None = None) -> RunEntry:
    """What is noted of a record beside it; `written` is the record as it is kept, if it is at hand."""
    text = json.dumps(to_json(trajectory), default=str) if written is None else written
    waiting = trajectory.metadata.get(PENDING) if trajectory.success is None else None
    outcome = _OUTCOMES[trajectory.success] if waiting is None else PENDING
    if outcome in JUDGED and trajectory.metadata.get(QUARANTINED):
        outcome = QUARANTINED
    recall = trajectory.recall.note()
    return RunEntry(
        outcome, digest(text), _storable(trajectory.aim), float(waiting or 0), recall
    )


_FIELDS = {each.name for each in fields(RunEntry)}


def _get_entry(item: Item) -> RunEntry:
    # A later version of the package, beside this one for a while, may note more.
    return RunEntry(
        **{name: value for name, value in item.value.items() if name in _FIELDS}
    )


def _token(head: Item | None) -> str | None:
    return None if head is None else str(head.value.get(TOKEN))


def _trajectory(item: Item) -> Trajectory:
    record = _get_record(item, "Trajectory", TrajectoryFormatError)
    return from_json(
        record, where=f"Trajectory {item.key!r} in namespace {item.namespace!r}"
    )


def _storable(text: str) -> str:
    """A text that every database takes: without NUL characters and lone surrogates."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")
