"""The graph is a fold: whatever was added and removed in whatever order, the same runs give the same graph."""

import random
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from little_runs import (
    TableEmbeddings,
    brings,
    called,
    calls,
    content_of,
    names,
    routine,
    run_of,
    saved,
    says,
    summed_up,
    user,
)

from langchain_tooltree import HashingEmbeddings, SITGraph
from langchain_tooltree.experience.trajectory import Branch


class Quick(HashingEmbeddings):
    """Embeds each text once for all graphs; its vectors are longer than those of a graph, as most are."""

    @cache  # noqa: B019 - there is one of them
    def embed_query(self, text):
        return super().embed_query(text)


EMBEDDINGS = Quick(300)
SETTINGS = {"embeddings": EMBEDDINGS}
WISHES = [
    "a refund",
    "a room",
    "the weather",
    "to complain about the bill",
    "a refund",
    "a taxi to the station",
]


def versions_of(number):
    """Versions of one run, as they come about: it goes on, is summed up, and a helper is asked."""
    draw = random.Random(number)  # noqa: S311 - not a secret
    tools = [draw.choice(["a", "b", "c", "old"]) for _ in range(4)]
    said = [
        user(f"I want {draw.choice(WISHES)}, please, {number}."),
        *called(*tools[:2], result=draw.choice(WISHES)),
    ]
    more = [
        *said,
        *summed_up(f"They want {draw.choice(WISHES)}."),
        *called(*tools[2:]),
        says("Done."),
    ]
    branch = Branch("helper", 1, (user(draw.choice(WISHES)), *called("c", "b")))
    return [
        run_of(f"run {number}", *said),
        run_of(f"run {number}", *more),
        run_of(f"run {number}", *more, branches=[branch]),
        run_of(f"run {number}", *more, user(draw.choice(WISHES))),
    ]


POOL = [version for number in range(5) for version in versions_of(number)]
ADD = st.tuples(st.just("add"), st.integers(0, len(POOL) - 1))
REMOVE = st.tuples(st.just("remove"), st.integers(0, 4))
OTHER = st.tuples(st.sampled_from(["load", "ask"]), st.just(0))
HISTORIES = st.lists(ADD | ADD | ADD | REMOVE | OTHER, max_size=14)
QUESTIONS = [
    (None, {"messages": [user("I want a refund, please.")]}),
    ("a", {"messages": [user("I want a room."), *called("a")]}),
    ("b", {"state": "They want a refund."}),
    ("c", {}),
]


def asked(graph):
    return [graph.suggest(tool, k=9, **options) for tool, options in QUESTIONS]


def assert_alike(found, expected):
    for some, others in zip(asked(found), asked(expected), strict=True):
        assert names(some) == names(others)
        assert [each.score for each in some] == pytest.approx(
            [each.score for each in others]
        )
        assert [each.evidence for each in some] == [each.evidence for each in others]


def lived(history):
    """A graph that things happened to, and what has been added to it since it was last removed."""
    graph, added = SITGraph(**SETTINGS), []
    for what, which in history:
        if what == "add":
            graph.add(POOL[which])
            added.append(POOL[which])
        elif what == "remove":
            present = any(run.id == f"run {which}" for run in added)
            assert graph.remove(f"run {which}") == present
            added = [run for run in added if run.id != f"run {which}"]
        elif what == "ask":
            asked(graph)
        else:
            with tempfile.TemporaryDirectory() as folder:
                graph.save(Path(folder) / "graph")
                before = content_of(Path(folder))
                graph = SITGraph.load(Path(folder) / "graph", embeddings=EMBEDDINGS)
                assert content_of(Path(folder)) == before
    return graph, added


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_same_runs_give_the_same_graph(history, draw):
    graph, added = lived(history)
    again = list({run.id: run for run in added}.values())
    draw.shuffle(again)
    at_once = SITGraph.from_trajectories(again, **SETTINGS)

    with tempfile.TemporaryDirectory() as folder:
        assert saved(graph, Path(folder) / "lived") == saved(
            at_once, Path(folder) / "at once"
        )
    assert_alike(graph, at_once)
    assert len(graph) == len({run.id for run in added})


def test_the_version_of_a_run_that_was_added_last_counts(tmp_path):
    longer, shorter = routine("1", "a", "c", "d"), routine("1", "a", "b")
    graph = SITGraph.from_trajectories([longer, shorter])

    assert saved(graph, tmp_path / "both") == saved(
        SITGraph.from_trajectories([shorter]), tmp_path / "last"
    )
    assert not graph.add(longer.judged(False))
    assert "1" not in graph


def test_removing_takes_back_exactly_what_a_run_gave(tmp_path):
    runs = [each for number in range(4) for each in versions_of(number)[1:2]]
    graph = SITGraph.from_trajectories(runs, **SETTINGS)

    assert graph.remove("run 2")
    assert not graph.remove("run 2")
    assert "run 2" not in graph
    rest = SITGraph.from_trajectories(
        [run for run in runs if run.id != "run 2"], **SETTINGS
    )
    assert saved(graph, tmp_path / "removed") == saved(rest, tmp_path / "rest")


def test_a_graph_whose_runs_are_all_removed_is_empty(tmp_path):
    graph = SITGraph.from_trajectories(POOL, **SETTINGS)
    for number in range(5):
        graph.remove(f"run {number}")

    assert saved(graph, tmp_path / "removed") == saved(
        SITGraph(**SETTINGS), tmp_path / "new"
    )
    assert graph.suggest(None) == []


@pytest.mark.slow
def test_what_a_graph_holds_follows_the_runs_that_are_there_and_not_those_that_ever_were(
    tmp_path,
):
    runs = [
        routine(
            f"run {number}", "a", "b", request=f"{WISHES[number % 6]} {number}"
        ).coming_from(f"user {number}")
        for number in range(50)
    ]
    graph, held = SITGraph(), []
    for number, run in enumerate(runs):
        graph.add(run)
        if number >= 10:
            graph.remove(f"run {number - 10}")
        parts = vars(graph._graph).items()
        held.append(
            {name: len(part) for name, part in parts if isinstance(part, list | dict)}
        )

    assert held[-1] == held[20]
    assert saved(graph, tmp_path / "lived") == saved(
        SITGraph.from_trajectories(runs[-10:]), tmp_path / "at once"
    )
    (best,) = graph.suggest("a", messages=runs[-1].messages[:3], k=1)
    assert {each.trajectory for each in best.evidence} <= {run.id for run in runs[-10:]}


def grown(seed):
    """A thread as it is learnt turn by turn: what was said stays, but results come late, and some ids fail."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    said, versions = [], []
    for turn in range(8):
        said = [*said, user(f"I want {draw.choice(WISHES)} {turn}.")]
        call = calls(
            ("a", {"n": turn}),
            ("old", {"n": draw.randrange(3)}),
            text=draw.choice(["", "I look."]),
        )
        late = [
            brings(draw.choice(WISHES), call, 1),
            brings("Error: no such thing", call, 0),
        ]
        more = [call, *draw.sample(late, draw.randrange(3))]
        if draw.random() < 0.3:
            more += [{"role": "tool", "content": draw.choice(WISHES)}]
        if draw.random() < 0.4:
            more += summed_up(f"They want {draw.choice(WISHES)}.")
        said += [*more, *called("b", "c", result=draw.choice(WISHES))]
        if draw.random() < 0.7:
            said += [says(f"Done with {turn}.")]
        if draw.random() < 0.2:  # as where somebody edits the conversation
            said = [*said[:1], user("No, something else."), *said[3:]]
        versions.append(run_of("thread", *said, success=draw.random() < 0.9))
    return versions


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [0, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 8))],
)
def test_a_thread_that_is_learnt_turn_by_turn_gives_the_graph_of_its_latest_version(
    tmp_path, seed
):
    graph = SITGraph(**SETTINGS)
    graph.add(routine("other", "a", "b"))

    for number, version in enumerate(grown(seed)):
        graph.add(version)
        at_once = SITGraph.from_trajectories(
            [routine("other", "a", "b"), version], **SETTINGS
        )
        assert saved(graph, tmp_path / f"grown {number}") == saved(
            at_once, tmp_path / f"at once {number}"
        )


@pytest.mark.slow
def test_of_a_thread_that_goes_on_only_what_is_new_is_embedded():
    embedder = TableEmbeddings()
    graph = SITGraph(embeddings=embedder)
    said = [user("Begin.")]
    for number in range(300):  # more than the latest texts that are kept anyway
        said += called("a", result=f"result {number}")
    graph.add(run_of("thread", *said))
    embedder.asked.clear()

    graph.add(run_of("thread", *said, *called("b", result="new"), says("Done.")))

    assert sorted(embedder.asked) == ["new", "result 299"]
