"""SITGraph as users meet it: its settings, its twins, and several threads at once."""

import threading

import pytest
from langchain_core.tools import tool
from little_runs import TableEmbeddings, called, names, routine, saved, says, user

from langchain_tooltree import ConfigurationError, SITGraph, Trajectory

RUNS = [
    routine(str(number), *tools, request=f"Wish {number}")
    for number, tools in enumerate(["ab", "abc", "ac", "ba"])
]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, "alpha must be a number of 0 or more, got -1"),
        ({"alpha": float("nan")}, "alpha must be a number"),
        ({"alpha": float("inf")}, "alpha must be a number"),
        ({"alpha": True}, "alpha must be a number"),
        ({"alpha": "1"}, "alpha must be a number"),
        ({"min_support": 0}, "min_support must be a whole number of 1 or more, got 0"),
        ({"min_support": None}, "min_support must be a whole number"),
        (
            {"ablation": "w/o anything"},
            "ablation must be one of 'w/o graph'.*got 'w/o anything'",
        ),
        ({"embeddings": 7}, "embeddings must be a LangChain Embeddings"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        SITGraph(**settings)


def test_a_graph_knows_its_runs():
    graph = SITGraph.from_trajectories(RUNS)

    assert len(graph) == 4
    assert "0" in graph
    assert "9" not in graph
    assert graph.remove("0")
    assert not graph.remove("9")
    assert (len(graph), "0" in graph) == (3, False)


def test_a_run_that_goes_on_is_learnt_anew_and_forgotten_when_it_fails():
    graph = SITGraph()

    assert graph.add(routine("1", "a", "b"))
    assert names(graph.suggest("a")) == ["b"]
    assert graph.add(routine("1", "a"))
    assert graph.suggest("a") == []
    assert not graph.add(routine("1", "a", "b").judged(False))
    assert len(graph) == 0


async def test_the_async_twins_do_the_same(tmp_path):
    one, other = (
        SITGraph(embeddings=TableEmbeddings({"Wish 1": [1, 2]})) for _ in range(2)
    )
    for run in RUNS:
        assert one.add(run) == await other.aadd(run)
    assert one.add(RUNS[1].judged(False)) == await other.aadd(RUNS[1].judged(False))
    assert one.add(RUNS[1]) == await other.aadd(RUNS[1])

    assert saved(one, tmp_path / "one") == saved(other, tmp_path / "other")
    for options in (
        {},
        {"messages": RUNS[1].messages},
        {"state": "Wish 1"},
        {"k": 1},
        {"allowed": ["b"]},
    ):
        assert one.suggest("a", **options) == await other.asuggest("a", **options)
    assert other._encoder.embeddings.ways == {"async"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        lambda graph, _: graph.add(routine("new", "a")),
        lambda graph, _: graph.add(RUNS[0].judged(False)),
        lambda graph, _: graph.remove("0"),
        lambda graph, _: graph.suggest("a"),
        lambda graph, folder: graph.save(folder / "graph"),
        lambda graph, _: graph.to_networkx(),
        lambda graph, _: graph.to_mermaid(),
    ],
    ids=["add", "learn", "remove", "suggest", "save", "to_networkx", "to_mermaid"],
)
def test_whoever_uses_the_graph_waits_for_the_others(use, tmp_path):
    graph = SITGraph.from_trajectories(RUNS)
    other = threading.Thread(target=use, args=(graph, tmp_path))

    with graph._lock:
        other.start()
        other.join(0.05)
        waits = other.is_alive()
    other.join()

    assert waits


def test_langchain_tools_say_what_may_be_suggested():
    @tool
    def b(x: str) -> str:
        """Do b."""
        return x

    suggested = SITGraph.from_trajectories(RUNS).suggest("a", allowed=[b])

    assert [(each.tool, each.score) for each in suggested] == [("b", 1.0)]


def test_trajectories_of_langchain_messages_can_be_learnt():
    run = Trajectory.from_chat(
        [user("Hi"), *called("a", "b"), says("Done.")], success=True
    )
    again = Trajectory.from_messages(run.to_messages(), success=True)
    graph = SITGraph.from_trajectories([again])

    assert names(graph.suggest("a", messages=again.to_messages()[:3]))[0] == "b"


def test_runs_are_read_one_batch_after_the_other():
    read = []

    def runs():
        for number in range(40):
            read.append(number)
            yield routine(str(number), "a", request=f"Wish {number}")

    class Watching(TableEmbeddings):
        def _vectors(self, texts):
            assert len(read) - len(self.asked) <= 20
            return super()._vectors(texts)

    assert len(SITGraph.from_trajectories(runs(), embeddings=Watching())) == 40


def test_mined_at_once_or_added_in_turn_a_run_that_failed_in_the_end_is_in_no_graph():
    run = RUNS[0]
    versions = [run, run.judged(success=False)]
    one_by_one = SITGraph()
    for version in versions:
        one_by_one.add(version)
    assert len(one_by_one) == len(SITGraph.from_trajectories(versions)) == 0
