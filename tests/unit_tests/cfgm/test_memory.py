"""CFGMMemory: what it takes, what it recalls, and that tenants do not meet."""

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.memory import InMemoryStore
from teacher import Teacher, attempt, tip_reply

from langchain_tooltree import (
    CFGMMemory,
    ConfigurationError,
    ExperienceStore,
    HashingEmbeddings,
    Trajectory,
)
from langchain_tooltree.cfgm.recall import recall_text
from langchain_tooltree.testing import ScriptedChatModel

MODEL = ScriptedChatModel(replies=[])


def tasks(recollection):
    return [each.task for each in recollection.runs]


def filled(store, *trajectories):
    memory = CFGMMemory(Teacher(), store)
    for trajectory in trajectories:
        memory.experience.add(trajectory)
    return memory


def stores():
    def embed(texts):
        return HashingEmbeddings(dims=256).embed_documents(texts)

    return {
        "plain": InMemoryStore(),
        "indexed": InMemoryStore(index={"dims": 256, "embed": embed}),
    }


@pytest.mark.parametrize("store", stores().values(), ids=stores())
def test_it_recalls_the_successes_most_like_a_task_with_their_tips(store):
    memory = filled(
        store,
        attempt("Boil water in the kitchen."),
        attempt("Boil water in the kitchen.", ("push", "No."), success=False),
        attempt("Boil milk in the kitchen.", success=False),
        attempt("Paint the fence blue."),
        attempt("Boil an egg."),
    )
    memory.extract_tips()
    recollection = memory.recall("Boil tea in the kitchen.")
    assert tasks(recollection) == ["Boil water in the kitchen.", "Boil an egg."]
    assert [tip.task for tip in recollection.tips] == [
        "Boil water in the kitchen."
    ] * 2 + ["Boil an egg."]
    assert recollection.task == "Boil tea in the kitchen."


async def test_the_async_twin_recalls_the_same():
    memory = filled(InMemoryStore(), attempt("Boil water."), attempt("Boil milk."))
    await memory.aextract_tips()
    assert await memory.arecall("Boil tea.", 1) == memory.recall("Boil tea.", 1)


def test_of_several_runs_of_one_task_the_shortest_is_recalled():
    memory = filled(
        InMemoryStore(),
        *(
            attempt("Boil water.", *[("wait", f"{n}")] * (9 - n), id=str(n))
            for n in range(6)
        ),
        attempt("Boil milk."),
    )
    recollection = memory.recall("Boil water.")
    assert recollection.runs[0].id == "5"
    assert tasks(recollection) == ["Boil water.", "Boil milk."]


def test_what_has_nothing_to_do_with_a_task_is_not_recalled_for_it():
    memory = filled(
        InMemoryStore(),
        attempt("I would like to paint the fence, and I need it today, please."),
        attempt("I would like to boil some milk, please."),
    )
    asked = "I would like to have some tea, and I need it today, please."
    assert tasks(memory.recall(asked)) == []
    assert recall_text(memory.recall(asked), max_characters=4_000) == ""
    assert tasks(memory.recall("Could you boil milk for the tea?")) == [
        "I would like to boil some milk, please."
    ]


def test_a_dialogue_is_found_by_what_its_user_wanted_in_the_end():
    said = [
        "Hi, I need some help.",
        "My user ID is mia_3668.",
        "Cancel my flight to Boston.",
        "Yes, please proceed.",
    ]
    messages = [
        message for text in said for message in (HumanMessage(text), AIMessage("Hm."))
    ]
    memory = filled(
        InMemoryStore(),
        Trajectory.from_messages(messages, success=True),
        attempt("Hi, I need some help."),
    )
    (run,) = memory.recall("I want my flight cancelled.").runs
    assert run.aim == "Cancel my flight to Boston."


def test_a_task_that_no_other_is_like_is_recalled_twice():
    memory = filled(
        InMemoryStore(), *(attempt("Boil water.", ("wait", f"{n}")) for n in range(3))
    )
    assert tasks(memory.recall("Boil water.")) == ["Boil water."] * 2


def test_no_tenant_recalls_from_another():
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user}"))
    memory = CFGMMemory(Teacher(), store)
    for user in ("ada", "bob"):
        config = {"configurable": {"user": user}}
        run = attempt("Boil water.", ("ask", "No."))
        store.within(user=user).add(replace(run, task=f"Boil water for {user}."))
        memory.extract_tips(config=config)
    for user, other in (("ada", "bob"), ("bob", "ada")):
        recollection = memory.recall(
            "Boil water.", config={"configurable": {"user": user}}
        )
        text = recall_text(recollection, max_characters=4_000)
        assert f"Boil water for {user}" in text
        assert f"Boil water for {other}" not in text
    with pytest.raises(ConfigurationError, match="user"):
        memory.recall("Boil water.")


@pytest.mark.parametrize("k", [0, -1, True, 1.0, "2", None])
def test_k_must_be_a_number_of_experiences(k):
    with pytest.raises(ConfigurationError, match="k must be"):
        CFGMMemory(MODEL, InMemoryStore()).recall("Boil tea.", k)


def test_it_takes_an_experience_store_or_makes_one():
    experience = ExperienceStore(InMemoryStore())
    assert CFGMMemory(MODEL, experience).experience is experience
    memory = CFGMMemory(
        MODEL,
        InMemoryStore(),
        namespace=("mine",),
        embeddings=HashingEmbeddings(dims=64),
    )
    assert isinstance(memory.experience, ExperienceStore)
    assert memory.model is MODEL


@pytest.mark.parametrize(
    ("store", "options", "message"),
    [
        ({}, {}, "store must be"),
        (ExperienceStore(InMemoryStore()), {"namespace": ("mine",)}, "namespace"),
        (
            ExperienceStore(InMemoryStore()),
            {"embeddings": HashingEmbeddings()},
            "embeddings",
        ),
        (InMemoryStore(), {"namespace": "mine"}, "namespace must be"),
        (InMemoryStore(), {"max_characters": 10}, "max_characters must be"),
        (InMemoryStore(), {"max_concurrency": 0}, "max_concurrency must be"),
    ],
)
def test_what_cannot_work_is_told_at_once(store, options, message):
    with pytest.raises(ConfigurationError, match=message):
        CFGMMemory(MODEL, store, **options)


def test_a_model_must_be_one():
    with pytest.raises(ConfigurationError, match="model must be"):
        CFGMMemory(7, InMemoryStore())


@pytest.mark.parametrize("task", [None, 7, ["Boil tea."]])
def test_a_task_to_recall_for_must_be_a_text(task):
    with pytest.raises(ConfigurationError, match="task must be a text"):
        CFGMMemory(MODEL, InMemoryStore()).recall(task)


def test_the_tips_of_all_tasks_with_one_text_are_recalled():
    quotes = {"matches": "light", "switches": "switch", "coins": "go"}
    replies = [
        {"tips": [tip_reply(f"Use {each}.", each, quote=quotes[each])], "followed": []}
        for each in quotes
    ]
    memory = CFGMMemory(
        ScriptedChatModel(replies=replies), InMemoryStore(), max_concurrency=1
    )
    memory.experience.add(attempt("Boil water.", ("light", "It burns."), task_id="gas"))
    memory.experience.add(
        attempt(
            "Boil water.", ("switch", "It hums."), ("wait", "Hot."), task_id="electric"
        )
    )
    memory.experience.add(attempt("Boil wine."))
    memory.extract_tips()
    first, second = memory.recall("Boil water.").runs
    assert (first.task, second.task) == ("Boil water.", "Boil wine.")
    assert {tip.text for tip in memory.recall("Boil water.", 1).tips} == {
        "Use switches.",
        "Use matches.",
    }


def test_a_tip_is_told_while_the_success_that_it_was_taken_of_counts():
    memory = filled(
        InMemoryStore(), attempt("Boil water.", ("wait", "Hot."), id="source")
    )
    memory.extract_tips()
    memory.experience.add(
        attempt("Boil water.", ("wait", "Hot."), ("stop", "Done."), id="other")
    )
    assert memory.recall("Boil water.").tips
    memory.experience.label("source", success=False)
    assert memory.recall("Boil water.").tips == ()
    memory.experience.label("source", success=True)
    assert memory.recall("Boil water.").tips
