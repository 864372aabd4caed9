"""Trajectories in LangGraph stores: kept, listed and found again, apart for each user."""

import asyncio
from dataclasses import dataclass
from typing import TypedDict

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import (
    ConfigurationError,
    ExperienceStore,
    HashingEmbeddings,
    Trajectory,
)
from langchain_tooltree.errors import StoreError, TrajectoryFormatError
from langchain_tooltree.experience import store as module
from langchain_tooltree.experience.trajectory import Branch

INDEX = {"embed": HashingEmbeddings(dims=256), "dims": 256}


def run_on(task, *, id=None, success=None):  # noqa: A002
    messages = [
        {"role": "user", "content": task},
        {
            "role": "assistant",
            "content": "This says weather and flight and whatever else may mislead.",
        },
    ]
    branch = Branch("sub", 1, ({"role": "assistant", "content": "Yes."},))
    return Trajectory.from_chat(
        messages,
        id=id or task,
        success=success,
        branches=[branch],
        metadata={"reward": 0.5},
    )


class Counted(Embeddings):
    """Counts the texts that it embeds."""

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return HashingEmbeddings(dims=64).embed_documents(texts)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture(params=["memory", "memory with an index", "sqlite"])
def base(request):
    if request.param == "sqlite":
        with SqliteStore.from_conn_string(":memory:") as store:
            store.setup()
            yield store
    else:
        yield (
            InMemoryStore(index=INDEX) if "index" in request.param else InMemoryStore()
        )


class Both:
    """One face for the sync methods of a store and their async twins."""

    def __init__(self, store, *, sync):
        self.store, self.sync = store, sync

    def __getattr__(self, name):
        async def call(*args, **options):
            if name == "trajectories":
                if self.sync:
                    return list(self.store.trajectories(*args, **options))
                return [
                    each async for each in self.store.atrajectories(*args, **options)
                ]
            if self.sync:
                return getattr(self.store, name)(*args, **options)
            return await getattr(self.store, f"a{name}")(*args, **options)

        return call


@pytest.fixture(params=["sync", "async"])
def both(request):
    return lambda store: Both(store, sync=request.param == "sync")


async def test_a_trajectory_is_kept_read_replaced_and_deleted(base, both):
    experience = both(ExperienceStore(base))
    first = run_on("Book a flight.", id="one")

    await experience.add(first)
    assert await experience.get("one") == first
    await experience.add(first.judged(True, "It flew."))
    assert (await experience.get("one")).reasons == "It flew."
    assert len(await experience.trajectories()) == 1
    await experience.delete("one")
    await experience.delete("one")
    assert await experience.get("one") is None
    assert await experience.trajectories() == []


async def test_a_label_takes_the_place_of_the_verdict(base, both):
    experience = both(ExperienceStore(base))
    await experience.add(run_on("weather").judged(True, "Fine.", source="verdict"))

    labelled = await experience.label("weather", False, "Wrong town.")

    kept = await experience.get("weather")
    assert kept == labelled
    assert (kept.success, kept.reasons, kept.source) == (False, "Wrong town.", "user")
    with pytest.raises(
        StoreError, match="There is no run 'flight' to be labelled in namespace"
    ):
        await experience.label("flight", True)


async def test_what_a_database_does_not_take_is_kept_all_the_same(base, both):
    strange = Trajectory.from_messages(
        [HumanMessage("NUL \x00, half a pair \ud800, ü", id="1")], id="one"
    )
    experience = both(ExperienceStore(base))

    await experience.add(strange)

    assert await experience.get("one") == strange
    assert await experience.similar("half a pair \ud800") == [strange]


async def test_all_are_listed_by_their_ids_whatever_their_number(
    base, both, monkeypatch
):
    monkeypatch.setattr(module, "READ_PAGE_SIZE", 3)
    experience = both(ExperienceStore(base))
    ids = [f"{number:02}" for number in range(20)]
    for key in reversed(ids):
        await experience.add(
            run_on("Book a flight.", id=key, success=[True, False, None][int(key) % 3])
        )

    assert [each.id for each in await experience.trajectories()] == ids
    assert [each.id for each in await experience.trajectories(success=True)] == ids[::3]
    assert [each.id for each in await experience.trajectories(success=False)] == ids[
        1::3
    ]


async def test_similar_tasks_are_found_by_the_task_alone(base, both):
    experience = both(ExperienceStore(base))
    tasks = [
        "Book a flight to Rome",
        "What is the weather in Oslo?",
        "Book a flight to Oslo",
        "Translate a letter",
    ]
    for number, task in enumerate(tasks):
        await experience.add(run_on(task, success=number != 0))

    assert [
        each.task
        for each in await experience.similar("book me a flight to Rome please")
    ] == [tasks[0], tasks[2]]
    assert [
        each.task
        for each in await experience.similar("book a flight to Rome", k=1, success=True)
    ] == [tasks[2]]
    assert [
        each.task for each in await experience.similar("a letter to translate", k=1)
    ] == [tasks[3]]
    assert len(await experience.similar("weather", k=9)) == 4
    assert len(await experience.similar(" ", k=3)) == 3
    assert await experience.similar("flight", success=False) == [
        run_on(tasks[0], success=False)
    ]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
async def test_at_least_one_has_to_be_asked_for(both, k):
    with pytest.raises(
        ConfigurationError, match="k must be a whole number of 1 or more, got"
    ):
        await both(ExperienceStore(InMemoryStore())).similar("anything", k=k)


async def test_a_store_with_an_index_embeds_by_itself(both):
    unused, used = Counted(), Counted()
    experience = both(
        ExperienceStore(
            InMemoryStore(index={"embed": used, "dims": 64}), embeddings=unused
        )
    )
    await experience.add(run_on("Book a flight."))
    await experience.similar("flight")

    assert unused.texts == []
    assert used.texts == ["Book a flight.", "flight"]


async def test_without_an_index_each_task_is_embedded_once(both):
    counted = Counted()
    store = ExperienceStore(
        InMemoryStore(), namespace=("{user_id}",), embeddings=counted
    )
    experience = both(store.within(user_id="ada"))
    for key in "ab":
        await experience.add(run_on("Book a flight.", id=key))
    await experience.similar("flight")
    await experience.add(run_on("Weather?"))
    await experience.similar("flight")

    assert sorted(counted.texts) == ["Book a flight.", "Weather?", "flight", "flight"]


async def test_users_do_not_see_each_other(base, both):
    store = ExperienceStore(base, namespace=("tooltree", "{user_id}"))
    # An underscore is a wildcard in SQL's LIKE, with which some stores search.
    for user in ("a_b", "axb", "a_bc", "a"):
        await both(store.within(user_id=user)).add(
            run_on("Book a flight.", id=f"of {user}")
        )

    for user in ("a_b", "axb", "a_bc", "a"):
        own = both(store.within(user_id=user))
        assert [each.id for each in await own.trajectories()] == [f"of {user}"]
        assert [each.id for each in await own.similar("flight", k=3)] == [f"of {user}"]
        assert await own.get("of somebody else") is None


async def test_variables_come_from_the_configuration(both):
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    ada, ben = (
        both(store.within_config({"configurable": {"user_id": user}}))
        for user in ("ada", "ben")
    )

    await ada.add(run_on("Book a flight.", id="one"))

    assert (await ada.get("one")).id == "one"
    assert len(await ada.trajectories()) == len(await ada.similar("flight")) == 1
    assert await ben.get("one") is None
    await ada.delete("one")
    assert await ada.trajectories() == []


@pytest.mark.parametrize("path", ["sync", "async"])
async def test_inside_a_graph_its_configuration_is_known(path):
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))

    def keep(_):
        store.add(run_on("Book a flight.", id="one"))

    async def akeep(_):
        await store.aadd(run_on("Book a flight.", id="one"))

    graph = StateGraph(MessagesState)
    graph.add_node("keep", keep if path == "sync" else akeep)
    graph.add_edge(START, "keep")
    await graph.compile().ainvoke(
        {"messages": []}, {"configurable": {"user_id": "ada"}}
    )

    assert store.within(user_id="ada").get("one").id == "one"


@dataclass
class Context:
    user_id: str


class ContextDict(TypedDict):
    user_id: str


@pytest.mark.parametrize("given", ["running", "handed in"])
@pytest.mark.parametrize(
    ("context", "configurable", "user"),
    [
        (Context("ada"), {}, "ada"),
        (ContextDict(user_id="ada"), {}, "ada"),
        (Context("ada"), {"user_id": None}, "ada"),
        (Context("ada"), {"user_id": "ada"}, "ada"),
        (ContextDict(), {"user_id": "ada"}, "ada"),
    ],
    ids=[
        "object",
        "mapping",
        "nobody configured",
        "the same one configured",
        "not in the context",
    ],
)
def test_the_context_of_the_graph_says_whose_it_is_and_then_what_is_configurable(
    given, context, configurable, user
):
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))

    def keep(_, config: RunnableConfig):
        store.within_config(None if given == "running" else config).add(
            run_on("Book a flight.", id="one")
        )

    graph = StateGraph(
        MessagesState,
        context_schema=type(context) if isinstance(context, Context) else ContextDict,
    )
    graph.add_node("keep", keep)
    graph.add_edge(START, "keep")
    graph.compile().invoke(
        {"messages": []}, {"configurable": configurable}, context=context
    )

    assert store.within(user_id=user).get("one").id == "one"


def test_the_context_of_a_running_graph_does_not_complete_another_configuration():
    store = ExperienceStore(InMemoryStore(), namespace=("{org}", "{user_id}"))

    def keep(_):
        with pytest.raises(ConfigurationError, match="needs 'user_id'"):
            store.within_config({"configurable": {"org": "x"}})

    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("keep", keep)
    graph.add_edge(START, "keep")
    graph.compile().invoke({"messages": []}, context=Context("ada"))


def test_a_store_can_keep_to_the_user_whom_a_configuration_names():
    store = ExperienceStore(InMemoryStore(), namespace=("{org}", "{user_id}"))
    bound = store.within(org="x").within_config(
        {"configurable": {"org": "y", "user_id": "ada"}}
    )
    bound.add(run_on("Book a flight.", id="one"))

    assert store.within(org="x", user_id="ada").get("one").id == "one"
    with pytest.raises(ConfigurationError, match="needs 'user_id'"):
        store.within(org="x").within_config({"configurable": {}})


async def test_a_missing_variable_is_an_error(both):
    experience = both(
        ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    )
    with pytest.raises(ConfigurationError, match="The namespace needs 'user_id'"):
        await experience.add(run_on("Book a flight."))
    with pytest.raises(ConfigurationError, match="The namespace needs 'user_id'"):
        await experience.trajectories()


@pytest.mark.parametrize("thing", [None, {}, InMemoryStore])
def test_a_base_store_is_needed(thing):
    with pytest.raises(ConfigurationError, match="store must be a LangGraph BaseStore"):
        ExperienceStore(thing)


async def test_what_somebody_else_wrote_is_an_error_that_names_it(both):
    base = InMemoryStore()
    base.put(("tooltree", "trajectories"), "one", {"text": "hello"})
    with pytest.raises(
        TrajectoryFormatError,
        match=r"Trajectory 'one' in namespace .* was not written by",
    ):
        await both(ExperienceStore(base)).get("one")


class LooseStore(InMemoryStore):
    """Finds whatever begins with the same label, as a database may that compares namespaces as patterns."""

    def search(self, namespace_prefix, /, **options):
        return super().search(namespace_prefix[:1], **options)

    async def asearch(self, namespace_prefix, /, **options):
        return await super().asearch(namespace_prefix[:1], **options)


@pytest.mark.parametrize("index", [None, INDEX])
async def test_what_a_store_finds_elsewhere_is_left_out(both, index):
    store = ExperienceStore(
        LooseStore(index=index), namespace=("tooltree", "{user_id}")
    )
    for number in range(20):
        await both(store.within(user_id="ben")).add(
            run_on("Book a flight.", id=f"of ben {number}")
        )
    ada = both(store.within(user_id="ada"))
    await ada.add(run_on("Book a flight to Rome and back by train.", id="of ada"))

    assert [each.id for each in await ada.trajectories()] == ["of ada"]
    assert [each.id for each in await ada.similar("Book a flight.")] == ["of ada"]


def test_other_records_have_room_in_the_namespace():
    base = InMemoryStore()
    ExperienceStore(base).add(run_on("Book a flight.", id="one"))
    base.put(("tooltree", "tips"), "one", {"tip": "Be early."})

    assert {place[-1] for place in base.list_namespaces()} == {
        "tasks",
        "tips",
        "trajectories",
        "head",
    }
    assert [each.id for each in ExperienceStore(base).trajectories()] == ["one"]


def test_a_trajectory_that_goes_while_they_are_read_is_left_out():
    experience = ExperienceStore(base := InMemoryStore())
    for key in "ab":
        experience.add(run_on("Book a flight.", id=key))
    base.delete(("tooltree", "trajectories"), "a")

    assert [each.id for each in experience.trajectories()] == ["b"]


async def test_concurrent_users_find_their_own():
    store = ExperienceStore(InMemoryStore(), namespace=("{user_id}",))
    users = [store.within(user_id=str(number)) for number in range(20)]
    await asyncio.gather(
        *(user.aadd(run_on(f"Task {n}", id=str(n))) for n, user in enumerate(users))
    )
    found = await asyncio.gather(*(user.asimilar("Task") for user in users))
    assert [[each.id for each in own] for own in found] == [
        [str(number)] for number in range(20)
    ]


@pytest.mark.slow
def test_two_thousand_trajectories_are_searched_without_reading_them():
    class Watched(InMemoryStore):
        """Counts the records that are read."""

        read = 0

        def batch(self, ops):
            results = super().batch(ops := list(ops))
            found = [
                each
                for result in results
                for each in (result if isinstance(result, list) else [result])
            ]
            self.read += sum(
                each is not None and "record" in each.value for each in found
            )
            return results

    experience = ExperienceStore(
        base := Watched(), embeddings=HashingEmbeddings(dims=32)
    )
    for number in range(2_000):
        experience.add(run_on(f"Task {number}", id=f"{number}"))
    assert [each.id for each in experience.similar("Task 1701", k=1)] == ["1701"]
    assert base.read == 1


def test_only_variables_of_the_namespace_can_be_bound():
    with pytest.raises(
        ConfigurationError, match="has no variable 'user'; it has user_id"
    ):
        ExperienceStore(InMemoryStore(), namespace=("{user_id}",)).within(user="ada")


async def test_what_is_bound_counts_more_than_the_configuration(both):
    store = ExperienceStore(InMemoryStore(), namespace=("{org}", "{user_id}"))
    bound = (
        store.within(org="x")
        .within(user_id="ada")
        .within_config({"configurable": {"user_id": "ben"}})
    )
    await both(bound).add(run_on("Book a flight.", id="one"))

    assert (
        bound.get("one").id
        == store.within(org="x", user_id="ada").get("one").id
        == "one"
    )
