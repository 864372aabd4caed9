"""Quarantine and rollback: what waits until a person confirms it, and what is taken back by its source."""

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.store.base import SearchOp
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, HashingEmbeddings, ToolTreeMiddleware
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.experience import run_of_calls


def run_of(id, *tools, task="Refund order 17.", source=""):  # noqa: A002 - the field's name
    return run_of_calls(task, *((tool, {}, "ok") for tool in tools), id=id).coming_from(
        source
    )


def in_graph(experience, *ids):
    return [run for run in ids if run in experience.graph]


def recalled_by(experience):
    return [each.id for each in experience.memory.recall("Refund order 17.", k=5).runs]


def test_in_quarantine_a_run_counts_once_a_person_has_confirmed_it():
    store = InMemoryStore()
    experience = Experience(store, namespace=("all",), quarantine=True)
    for name in ("one", "two"):
        experience.learn(run_of(name, "look", "pay").judged(True, source="verdict"))

    assert (in_graph(experience, "one", "two"), recalled_by(experience)) == ([], [])
    assert experience.status().quarantined == 2
    experience.label("one", True, source="agent")
    assert in_graph(experience, "one") == []
    experience.label("one", True)

    for each in (
        experience,
        Experience(store, namespace=("all",)),
    ):  # and so another process sees it
        assert (in_graph(each, "one", "two"), recalled_by(each)) == (["one"], ["one"])


@pytest.mark.parametrize("namespace", [("all",), ("of", "{user_id}")])
def test_a_rollback_takes_back_what_a_source_gave_and_stays(namespace):
    store = InMemoryStore()

    def begun():
        experience = Experience(store, namespace=namespace)
        return experience.within(user_id="ann") if len(namespace) > 1 else experience

    experience = begun()
    experience.learn(
        run_of("hers", "look", "pay", source="ann" if len(namespace) == 1 else "")
    )
    experience.learn(run_of("bad", "look", "wipe", source="mallory"))
    assert in_graph(experience, "hers", "bad") == ["hers", "bad"]

    assert experience.rollback(source="mallory") == ["bad"]
    for each in (experience, begun()):
        assert (in_graph(each, "hers", "bad"), recalled_by(each)) == (
            ["hers"],
            ["hers"],
        )
    assert experience.rollback(source="ann") == ["hers"]
    assert in_graph(begun(), "hers") == []
    assert experience.label("bad", True).success
    assert in_graph(begun(), "bad") == ["bad"]


@pytest.mark.parametrize(
    "take_back",
    [lambda all_: all_.label("bad", False), lambda all_: all_.rollback(source="eve")],
)
def test_a_tip_is_told_only_while_a_run_that_it_was_taken_of_is_a_success(take_back):
    form = {
        "tip": "Wipe the account first.",
        "reasoning": "It went well.",
        "when": "an order is refunded",
    }
    tip = {
        "tips": [form | {"bears_out": [{"tool": "wipe", "quote": "ok"}]}],
        "followed": [],
    }
    experience = Experience(
        InMemoryStore(),
        model=ScriptedChatModel(replies=[tip, {"tips": [], "followed": []}]),
        namespace=("all",),
    )
    experience.learn(run_of("bad", "wipe", source="eve"))
    experience.memory.extract_tips()
    experience.learn(run_of("good", "look", "pay", source="ann"))
    assert [
        each.text for each in experience.memory.recall("Refund order 17.").tips
    ] == ["Wipe the account first."]

    take_back(experience)
    assert (
        recalled_by(experience),
        experience.memory.recall("Refund order 17.").tips,
    ) == (["good"], ())
    experience.label("bad", True)
    assert experience.memory.recall("Refund order 17.").tips


class Listened(InMemoryStore):
    """With an index; keeps what it was searched for among the entries of records."""

    def __init__(self):
        super().__init__(
            index={"embed": HashingEmbeddings(dims=64), "dims": 64, "fields": ["task"]}
        )
        self.searches = []

    def batch(self, ops):
        ops = list(ops)
        self.searches += [
            op
            for op in ops
            if isinstance(op, SearchOp) and op.namespace_prefix[-1] == "tasks"
        ]
        return super().batch(ops)


def test_a_doubt_searches_among_the_records_of_its_own_user_once_a_question_and_a_sure_turn_does_not():
    store = Listened()
    taught = {
        "tips": [
            {
                "tip": "Look at the desk first.",
                "reasoning": "The key was there.",
                "when": "a key is wanted",
                "bears_out": [{"tool": "look", "quote": "ok"}],
            }
        ],
        "followed": [],
    }
    model = ScriptedChatModel(replies=[taught])
    ada = Experience(store, verdict=lambda _: True, model=model).within(user_id="ada")
    for number in range(20):
        ada.learn(
            run_of(f"{number}", "look", task="Where is the red key?", source="ada")
        )
    assert len(ada.memory.extract_tips()) == 1
    assert ada.status().tips == 1
    store.searches.clear()

    @tool
    def look(place: str) -> str:
        """Look at a place."""
        return f"On the {place} lies a red key."

    def asked(*replies):
        planner = ToolTreeMiddleware(effects={"look": "read"}, experience=ada)
        agent = create_agent(
            ScriptedChatModel(replies=replies), [look], middleware=[planner]
        )
        agent.invoke({"messages": [("user", "Where is the red key of mine?")]})

    asked('{"missing": "nothing"}\nOn the desk.')
    assert [op for op in store.searches if op.query] == [], (
        "nothing is recalled without a doubt"
    )
    asked(*['{"missing": "the room"}\nOn the desk.'] * 3, "There is no other call.")
    assert [bool(op.query) for op in store.searches].count(True) == 3, (
        "the index is asked once for each question"
    )
