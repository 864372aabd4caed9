"""What was forgotten is gone: from the records, from all that was made of them, and from the bytes of stores."""

import json
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import (
    CFGMMemory,
    ChromaStore,
    ConfigurationError,
    Experience,
    SITGraph,
    Trajectory,
)
from langchain_tooltree.errors import GraphFileError
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning import fold as fold_module
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.testing import ScriptedChatModel

ALL = ("tooltree",)


def run(name, text="plain", *tools, success=True, task=None, **metadata):
    """A run whose every part holds the text."""
    arguments = json.dumps({"of": f"{text} in"})
    calls = [
        {
            "id": f"c{place}",
            "type": "function",
            "function": {"name": tool, "arguments": arguments},
        }
        for place, tool in enumerate(tools or ("look",))
    ]
    said = [{"role": "user", "content": task or f"A wish: {text}."}]
    for call in calls:
        said += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": f"{text} out",
                "error": text == "refused",
            },
        ]
    said.append({"role": "assistant", "content": f"{text} done"})
    return Trajectory.from_chat(
        said, id=name, success=success, reasons=f"{text} because", metadata=metadata
    )


def summed_up(name, text):
    """A run with a summary of its own, which graphs keep as it is."""
    function = {
        "name": "summarize_state",
        "arguments": json.dumps({"state": f"{text} summary"}),
    }
    calls = [{"id": "s", "type": "function", "function": function}]
    asked = {"role": "assistant", "content": None, "tool_calls": calls}
    answered = {
        "role": "tool",
        "tool_call_id": "s",
        "name": "summarize_state",
        "content": "Noted.",
    }
    before, after = (
        run(name, text, "look").messages[:3],
        run(name, text, "take").messages[1:],
    )
    return Trajectory.from_chat(
        [*before, asked, answered, *after], id=name, success=True
    )


def items_of(store):
    return [
        item
        for space in store.list_namespaces()
        for item in store.search(tuple(space), limit=999)
    ]


def ids(experience):
    return {each.id for each in experience.store.trajectories()}


def teller(texts):
    """A model that takes a tip of a task by the task's own words, and knows nothing else."""

    def reply(messages):
        told = json.loads(messages[-1].text)
        known = next(text for text in texts if text in told["task"])
        tip = {
            "reasoning": f"{known} shows it",
            "when": f"{known} comes",
            "tip": f"{known} first, look",
        }
        tool = next(
            each["call"] for each in told["succeeded"]["record"] if "call" in each
        )
        return {
            "tips": [tip | {"bears_out": [{"tool": tool, "quote": "in"}]}],
            "followed": [],
        }

    return ScriptedChatModel(replies=[reply] * 99)


@pytest.fixture
def experience():
    return Experience(InMemoryStore(), namespace=ALL)


@pytest.fixture(params=["sync", "async"])
def forget(request):
    async def of(experience, **what):
        return (
            await experience.aforget(**what)
            if request.param == "async"
            else experience.forget(**what)
        )

    return of


async def test_a_run_goes_with_its_sub_agents_and_the_attempts_of_its_searches(
    experience, forget
):
    for name in ("7", "7/agent:1", "77", "8"):
        experience.learn(run(name))
    experience.learn(run("tried", success=False, attempt_of="7"))
    experience.learn(run("from a file", success=False, attempt_of=["7"]))

    erased = await forget(experience, run="7")

    assert erased.runs == ("7", "7/agent:1", "tried")
    assert erased.threads == ("7",)
    assert ids(experience) == {"77", "8", "from a file"}
    assert experience.status().in_graph == len(experience.graph) == 2
    assert "checkpointer.delete_thread('7')" in erased.unreached[0]


async def test_several_selectors_narrow_each_other_down(experience, forget):
    for name, tool in (("1", "look"), ("2", "pay"), ("3", "pay"), ("4", "look")):
        experience.learn(run(name, "plain", tool, success=None))

    assert (await forget(experience, run=["1", "2"], tool="pay")).runs == ("2",)
    assert (
        await forget(
            experience, tool="pay", before=datetime.now(UTC) - timedelta(hours=1)
        )
    ).runs == ()
    assert (
        await forget(
            experience, tool="pay", before=datetime.now(UTC) + timedelta(hours=1)
        )
    ).runs == ("3",)
    assert (await forget(experience, run="nobody knows")).runs == ()
    assert ids(experience) == {"1", "4"}


async def test_everything_of_a_user_goes_and_nothing_of_another(forget):
    store = InMemoryStore()
    everybody = Experience(store, model=teller(["ann's", "bob's"]))
    for user in ("ann", "bob"):
        own = everybody.within(user_id=user)
        own.learn(run("1", f"{user}'s"))
        own.learn(run("2", f"{user}'s", success=None, pending=time.time()))
        own.memory.extract_tips()
    writer = ScriptedChatModel(
        replies=[{"focus_points": [{"reasoning": "", "focus_point": "ann's point"}]}]
    )
    CFGMMemory(writer, everybody.within(user_id="ann").store).focus_points("A shop.")

    erased = await forget(everybody, user="ann")

    assert (erased.runs, erased.tips, erased.focus_points) == (("1", "2"), 1, 1)
    assert "ann" not in repr(items_of(store))
    assert (await everybody.within(user_id="bob").astatus()).tips == 1
    assert (await everybody.within(user_id="bob").astatus()).runs == 2


def test_what_is_asked_for_has_to_be_clear(experience):
    both = Experience(InMemoryStore(), namespace=("{org}", "{user_id}"))
    for asked, told in (
        ({}, r"needs to know what.*run=, user=, tool= or before="),
        ({"run": ""}, "run and tool must be texts"),
        ({"run": [7]}, r"run and tool must be texts that are not empty, got 7"),
        ({"tool": 3}, "run and tool must be texts"),
        ({"before": datetime(2026, 1, 1)}, r"time zone, such as datetime.now\(UTC\)"),  # noqa: DTZ001 - that is it
        ({"before": 3.0}, "before must be a datetime"),
        ({"user": "ann"}, "does not say which namespace"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            experience.forget(**asked)
    with pytest.raises(ConfigurationError, match="does not say which namespace"):
        both.forget(user="ann")
    with pytest.raises(ConfigurationError, match="does not say which namespace"):
        both.within(org="o", user_id="bob").forget(user="ann")
    assert both.within(org="o").forget(user="ann").runs == ()


def test_a_run_that_is_not_there_is_reported_as_such(experience):
    assert (
        experience.forget(run="nope")
        .unreached[0]
        .startswith("Nothing: no run here was meant. `exp")
    )


def test_tips_that_cite_a_run_go_at_once_whatever_others_they_cite():
    experience = Experience(
        InMemoryStore(), namespace=ALL, model=teller(["red", "blue"])
    )
    for each in (
        run("1", task="red thing"),
        run("2", task="red thing", success=False),
        run("3", task="red thing"),
        run("4", task="blue thing"),
    ):
        experience.learn(each)
    tips = experience.memory.extract_tips()
    assert {tip.task: tip.trajectories for tip in tips} == {
        "red thing": ("2", "1"),
        "blue thing": ("4",),
    }

    assert experience.forget(run="2").tips == 1
    assert [
        tip.task for tip in experience.memory.recall("red thing blue thing").tips
    ] == ["blue thing"]
    again = experience.memory.extract_tips()
    assert {tip.task: tip.trajectories for tip in again} == {
        "red thing": ("1",),
        "blue thing": ("4",),
    }


def test_focus_points_that_were_made_of_a_run_go_with_it(experience):
    model = ScriptedChatModel(
        replies=[
            {"focus_points": [{"reasoning": "", "focus_point": each}]}
            for each in ("of one", "of none")
        ]
    )
    memory = CFGMMemory(model, experience.store)
    memory.focus_points("a shop", [run("1", "secret")])

    assert experience.forget(run="2").focus_points == 0
    assert experience.forget(run="1").focus_points == 1
    assert "of one" not in repr(items_of(experience.store.place[0]))
    assert memory.focus_points("a shop", ["a text"]) == ["of none"]


def test_halves_that_a_killed_process_left_go_too_once_they_are_no_writes_under_way(
    experience, monkeypatch
):
    store = experience.store.place[0]
    for name in ("old half", "old rest", "new half", "7"):
        experience.learn(run(name))
    store.delete((*ALL, "tasks"), "old half")
    store.delete((*ALL, "trajectories"), "old rest")
    store.delete((*ALL, "tasks"), "7")

    assert experience.forget(run="7").runs == ("7",)
    monkeypatch.setattr("langchain_tooltree.learning.erasure.UNDER_WAY", -1.0)
    assert experience.forget(run="another").runs == ("old half", "old rest")
    left = {
        item.key.rpartition("/")[2]
        for item in items_of(store)
        if item.namespace[-1] != "head"
    }
    assert left == {"new half"}


def test_graphs_that_are_given_lose_the_same_runs(experience, tmp_path):
    runs = [
        run("1", "plain", "look", "pay"),
        run("2", "plain", "look"),
        summed_up("3", "secret"),
    ]
    for each in runs[:2]:
        experience.learn(each)
    held = SITGraph.from_trajectories(runs)
    held.save(tmp_path / "by hand")
    SITGraph.from_trajectories(runs).save(tmp_path / "given")
    experience.graph.save(tmp_path / "own")

    erased = experience.forget(run=["1", "3"], graphs=[held, tmp_path / "given"])

    given = {
        "0": ("1", "3"),
        str(tmp_path / "by hand"): ("1", "3"),
        str(tmp_path / "given"): ("1", "3"),
    }
    assert erased.graphs == {**given, str(tmp_path / "own"): ("1",)}
    assert [len(SITGraph.load(folder)) for folder in sorted(tmp_path.iterdir())] == [
        1,
        1,
        1,
    ]
    assert [len(held), len(experience.graph)] == [1, 1]
    assert [
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and b"secret" in file.read_bytes()
    ] == []
    held.save(tmp_path / "by hand")  # which knows that it was changed here
    assert experience.forget(
        tool="pay", graphs=[SITGraph.from_trajectories(runs)]
    ).graphs["0"] == ("1",)


def test_where_a_graph_cannot_be_read_nothing_is_forgotten_yet(experience, tmp_path):
    experience.learn(run("1"))
    with pytest.raises(GraphFileError, match="There is no graph"):
        experience.forget(run="1", graphs=[tmp_path / "nowhere"])
    assert ids(experience) == {"1"}


def test_who_was_shown_a_run_is_told_and_loses_its_id(experience):
    experience.learn(run("secret id"))
    experience.learn(
        replace(
            run("2"), metadata={"recalled": {"runs": ["secret id", "x"], "tips": []}}
        )
    )

    erased = experience.forget(run="secret id")

    assert erased.shown_to == ("2",)
    assert "1 runs that had one of these recalled" in "\n".join(erased.unreached)
    assert experience.store.get("2").metadata["recalled"]["runs"] == ["x"]
    assert "secret id" not in repr(items_of(experience.store.place[0]))


def told_of_a_tip():
    """An experience, what the tip of run 1 was recalled as, and a function by which a run ends that was told it."""
    experience = Experience(
        InMemoryStore(), namespace=ALL, model=teller(["key", "door"])
    )
    experience.learn(run("1", task="Where is the red key?"))
    experience.memory.extract_tips()
    nothing = run_flow(
        experience.begin(Conversation([HumanMessage("Where is the red key?", id="m")]))
    )
    [tip] = experience.memory.recall("Where is the red key?").tips
    told = {"runs": [], "tips": [tip.id], "sources": {tip.id: list(tip.trajectories)}}
    said = [HumanMessage("Where is the red key?", id="m"), AIMessage("Here.", id="a")]
    later = [*said, HumanMessage("Thanks.", id="m2"), AIMessage("Bye.", id="a2")]

    def end(*, later_turn=False):
        run_flow(experience.end(said, {**nothing, "recalled": told}, id="told"))
        if later_turn:  # for which nothing was recalled
            run_flow(experience.end(later, nothing, id="told"))

    return experience, end


def test_a_tip_whose_run_is_forgotten_is_not_noted_where_a_run_ends_later():
    experience, end = told_of_a_tip()

    experience.forget(run="1")
    end()

    told = experience.store.get("told").metadata
    assert told["recalled"] == {"runs": [], "tips": []}


@pytest.mark.parametrize("later_turn", [False, True])
def test_what_was_told_of_a_run_is_known_when_another_tip_stands_in_the_place_of_its_tip(
    later_turn,
):
    experience, end = told_of_a_tip()
    collection = experience.store.collection("tips")
    for key in run_flow(collection.reading()):
        run_flow(
            collection.deleting(key)
        )  # as the next extraction does with what it replaces

    experience.learn(run("2"))
    experience.learn(
        replace(run("told"), metadata={"recalled": {"runs": ["2"], "tips": []}})
    )  # its first turn

    end(later_turn=later_turn)
    erased = experience.forget(run="1")

    assert erased.shown_to == ("told",)
    assert experience.store.get("told").metadata["recalled"] == {
        "runs": ["2"],
        "tips": [],
    }


async def test_a_record_that_cannot_be_read_keeps_no_other_from_being_forgotten(
    experience, forget
):
    for name in ("shown", "unreadable"):
        experience.learn(
            replace(run(name), metadata={"recalled": {"runs": ["1"], "tips": []}})
        )
    experience.learn(run("1"))
    store, place = experience.store.place
    written = json.loads(
        store.get((*place, "trajectories"), "unreadable").value["record"]
    )
    store.put(
        (*place, "trajectories"),
        "unreadable",
        {"record": json.dumps({**written, "messages": 5})},
    )

    erased = await forget(experience, run="1")

    assert (erased.runs, erased.shown_to) == (("1",), ("shown", "unreadable"))
    assert experience.store.get("shown").metadata["recalled"]["runs"] == []
    told = "\n".join(each for each in erased.unreached if "'unreadable'" in each)
    assert "cannot be read" in told
    await forget(experience, run="unreadable")
    assert ids(experience) == {"shown"}


def test_what_somebody_else_has_forgotten_is_told_to_nobody():
    store = InMemoryStore()
    mine, theirs = (
        Experience(store, namespace=ALL, model=teller(["key"])) for _ in range(2)
    )
    for name in ("1", "2"):
        mine.learn(run(name, task="Where is the red key?"))
    mine.memory.extract_tips()
    said = Conversation([HumanMessage("Where is the red key?", id="m")])

    def told():
        guide = run_flow(theirs.guide(run_flow(theirs.begin(said)), said))
        return run_flow(
            guide.advice(said.messages, "the key", trials=["look"], names=["look"])
        ).recalled

    assert len(told()["tips"]) == 1

    mine.forget(run="1")

    assert told() == {"runs": ["2"], "tips": []}
    assert len(theirs.graph) == 1


@pytest.mark.slow  # it waits for a verdict
def test_a_run_that_is_being_judged_meanwhile_does_not_come_back(experience):
    asked, go_on = threading.Event(), threading.Event()

    def judge(trajectory):
        asked.set()
        go_on.wait(5)
        return True

    experience = Experience(InMemoryStore(), namespace=ALL, verdict=judge)
    experience.store.add(run("1", success=None, pending=0.0))
    experience.store.add(run("2", success=None, pending=0.0))
    settling = threading.Thread(target=experience.settle)
    settling.start()
    asked.wait(5)
    threading.Timer(0.2, go_on.set).start()
    erased = experience.forget(run="1")
    settling.join()

    assert erased.runs == ("1",)
    assert ids(experience) == {"2"}
    assert experience.status().in_graph == 1


@pytest.mark.slow  # as above
def test_tips_that_are_being_taken_meanwhile_do_not_come_back():
    asked, go_on = threading.Event(), threading.Event()
    model = teller(["secret"])
    answer = model.replies[0]

    def slowly(messages):
        asked.set()
        go_on.wait(5)
        return answer(messages)

    experience = Experience(
        InMemoryStore(), namespace=ALL, model=ScriptedChatModel(replies=[slowly] * 9)
    )
    experience.learn(run("1", "secret"))
    taking = threading.Thread(target=experience.memory.extract_tips)
    taking.start()
    asked.wait(5)
    experience.forget(run="1")
    go_on.set()
    taking.join()

    assert "secret" not in repr(items_of(experience.store.place[0]))


def store_at_once(monkeypatch):
    monkeypatch.setattr(
        fold_module, "FOLD_DEFAULTS", fold_module.FoldDefaults(together=1)
    )


def parts_with(store, text):
    parts = [
        (item.key, item.value)
        for item in items_of(store)
        if item.namespace[-1] == "parts"
    ]
    return [each for each in parts if text in repr(each)]


class KilledError(BaseException):
    """The process is gone."""


class PerishableStore(InMemoryStore):
    """Is killed before one of its writes."""

    left = None

    def batch(self, ops):
        ops = list(ops)
        if self.left is not None and any(isinstance(op, PutOp) for op in ops):
            self.left -= 1
            if self.left < 0:
                raise KilledError
        return super().batch(ops)


@pytest.mark.slow
@pytest.mark.parametrize("what", [{"run": "1"}, {"tool": "pay"}], ids=repr)
def test_who_was_killed_while_forgetting_asks_again_and_nothing_is_left(
    what, monkeypatch
):
    store_at_once(monkeypatch)
    for step in range(30):
        store = PerishableStore()
        experience = Experience(store, namespace=ALL, model=teller(["secret", "plain"]))
        experience.learn(run("1", "secret", "pay"))
        experience.learn(run("2", task="plain", recalled={"runs": ["1"], "tips": []}))
        experience.memory.extract_tips()
        experience.settle()
        assert parts_with(store, "/1'")
        store.left = step
        with suppress(KilledError):
            experience.forget(**what)
        was_killed, store.left = store.left < 0, None
        Experience(store, namespace=ALL).forget(**what)

        assert "secret" not in repr(items_of(store))
        assert not parts_with(store, "/1'")
        assert ids(experience) == {"2"}
        if not was_killed:
            break
    assert step > 3


# As if they had never been.

TASKS = ("a red key", "a blue car", "a green tree")
EXTRAS = {
    "attempt": {"attempt_of": "0"},
    "pending": {"pending": 1.0},
    "ann": {"came_from": "ann"},
}


def made_up(number, task, tools, success, extra):
    text = "refused" if extra == "refused" else "plain"
    metadata = (
        {} if extra == "pending" and success is not None else EXTRAS.get(extra, {})
    )
    return run(str(number), text, *tools, task=task, success=success, **metadata)


RUNS = st.builds(
    made_up,
    st.integers(0, 5),
    st.sampled_from(TASKS),
    st.lists(st.sampled_from(["look", "take", "pay"]), min_size=1, max_size=3),
    st.sampled_from([True, True, False, None]),
    st.sampled_from(["", "ann", "refused", "attempt", "pending"]),
)


def made_of(runs, labels):
    experience = Experience(InMemoryStore(), namespace=ALL, model=teller(TASKS))
    for each in runs:
        experience.learn(each)
    for name in labels:
        if experience.store.get(name) is not None:
            experience.label(name, success=True)
    return experience


def derived_from(experience, folder):
    """All that is made of the records, in a form that can be compared."""
    experience.memory.extract_tips()
    status = experience.status()
    experience.graph.save(folder)
    return {
        "status": status,
        "entries": run_flow(experience.store.current()).entries,
        "graph": {
            each.relative_to(folder): each.read_bytes()
            for each in folder.rglob("*")
            if each.is_file()
        },
        "next": [
            experience.graph.suggest(tool, k=9, messages=[])
            for tool in (None, "look", "take", "pay")
        ],
        "recalled": [experience.memory.recall(task) for task in TASKS],
        "tips": experience.memory.extract_tips(),
    }


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.lists(RUNS, min_size=2, max_size=8),
    st.sets(st.sampled_from("012345"), max_size=2),
    st.data(),
)
def test_all_that_is_derived_is_as_if_it_had_never_been(
    tmp_path_factory, runs, labels, data
):
    folder = tmp_path_factory.mktemp("graphs")
    what = data.draw(
        st.one_of(
            st.fixed_dictionaries(
                {"run": st.lists(st.sampled_from("012345"), min_size=1, max_size=3)}
            ),
            st.fixed_dictionaries({"tool": st.sampled_from(["take", "pay"])}),
        )
    )
    experience = made_of(runs, labels)
    experience.memory.extract_tips()
    experience.graph.suggest("look", messages=[])
    gone = set(experience.forget(**what).runs)

    expected = made_of([each for each in runs if each.id not in gone], labels - gone)
    assert [each for each in ids(experience) if each in gone] == []
    assert derived_from(experience, folder / "after") == derived_from(
        expected, folder / "never"
    )


# The bytes.


@contextmanager
def chroma(folder):
    with ChromaStore(folder / "chroma") as store:
        yield store


@contextmanager
def sqlite(folder):
    with sqlite3.connect(
        folder / "s.db", check_same_thread=False, isolation_level=None
    ) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        store = SqliteStore(connection)
        store.setup()
        yield store
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("opened", [chroma, sqlite])
def test_no_file_of_a_store_or_a_graph_holds_the_text(tmp_path, opened, monkeypatch):
    store_at_once(monkeypatch)
    secret = "S3cr3t-0f-4nn"  # noqa: S105 - of nobody
    with opened(tmp_path) as store:
        experience = Experience(store, namespace=ALL, model=teller(["S3cr3t", "plain"]))
        experience.learn(summed_up("1", secret))
        experience.learn(
            replace(run(f"{secret} id", secret, "pay"), metadata={"note": secret})
        )
        experience.learn(run("2"))
        experience.learn(run("4"))
        experience.label("1", success=True, reasons=f"{secret} label")
        experience.memory.extract_tips()
        experience.graph.save(tmp_path / "graph")
        experience.graph.save(tmp_path / "graph")
        experience.settle()
        assert parts_with(store, secret)
        assert _holding(tmp_path, secret)

        erased = experience.forget(
            run=["1", f"{secret} id"], graphs=[tmp_path / "graph"]
        )

        assert len(erased.runs) == 2
        assert _holding(tmp_path, secret) == []
        assert ids(experience) == {"2", "4"}
        experience.learn(run("3"))
    assert _holding(tmp_path, secret) == []


def _holding(folder, text):
    return [
        each
        for each in folder.rglob("*")
        if each.is_file() and text.encode() in each.read_bytes()
    ]
