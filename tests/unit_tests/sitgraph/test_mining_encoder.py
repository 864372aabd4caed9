"""What the graph asks of an embedding model: as little as can be."""

import pytest
from little_runs import TableEmbeddings, called, routine, run_of, saved, summed_up, user

from langchain_tooltree import SITGraph
from langchain_tooltree.flows import run_flow
from langchain_tooltree.sitgraph import sit_graph as encoder_module
from langchain_tooltree.sitgraph.sit_graph import Encoder
from langchain_tooltree.sitgraph.states import DIMENSIONS

X, Y = [1.0, 0.0], [0.0, 1.0]


class BrokenEmbeddings(TableEmbeddings):
    """Fails while it is told to."""

    broken = True

    def _vectors(self, texts):
        if self.broken:
            msg = "The embedder is down."
            raise ConnectionError(msg)
        return super()._vectors(texts)


async def test_texts_become_vectors_of_the_length_of_the_graph(drive):
    vectors = await drive(
        Encoder(TableEmbeddings({"x": X, "y": Y})).encode(["x", "y", "x"])
    )

    assert vectors.shape == (3, DIMENSIONS)
    assert vectors[:, :2].tolist() == [X, Y, X]


async def test_each_path_uses_its_own_method(drive, path):
    embeddings = TableEmbeddings({"x": X})

    await drive(Encoder(embeddings).encode(["x"]))

    assert embeddings.ways == {path}


async def test_empty_texts_are_zero_and_never_sent(drive):
    embeddings = TableEmbeddings({"x": X})

    vectors = await drive(Encoder(embeddings).encode(["", " \n", "x"]))

    assert embeddings.asked == ["x"]
    assert not vectors[:2].any()


def test_each_text_is_sent_once():
    embeddings = TableEmbeddings({"x": X, "y": Y})
    encoder = Encoder(embeddings)

    run_flow(encoder.encode(["x", "y", "x"]))
    again = run_flow(encoder.encode(["y", "x"]))

    assert embeddings.asked == ["x", "y"]
    assert again[:, :2].tolist() == [Y, X]


def test_the_vectors_of_the_latest_texts_are_remembered(monkeypatch):
    monkeypatch.setattr(encoder_module, "MAX_CACHED_VECTORS", 2)
    embeddings = TableEmbeddings()
    encoder = Encoder(embeddings)

    for text in ["x", "y", "z", "z", "y", "x"]:
        run_flow(encoder.encode([text]))

    assert embeddings.asked == ["x", "y", "z", "x"]


def test_the_texts_of_a_run_are_embedded_together():
    embeddings = TableEmbeddings()
    run = run_of(
        "1",
        user("Hi"),
        *called("a"),
        *summed_up("Known."),
        *called("b"),
        *summed_up("Known."),
    )
    requests = []
    embeddings._vectors = lambda texts, ask=embeddings._vectors: (
        requests.append(texts) or ask(texts)
    )

    SITGraph.from_trajectories(
        [run, routine("2", "c", request="Hello")], embeddings=embeddings
    )

    assert len(requests) == 1
    assert sorted(requests[0]) == ["Hello", "Hi", "Known.", "done"]


def test_runs_that_did_not_succeed_are_not_embedded():
    embeddings = TableEmbeddings()

    SITGraph.from_trajectories(
        [routine("1", "a", success=False), routine("2")], embeddings=embeddings
    )

    assert embeddings.asked == []


def test_an_error_of_the_embedder_comes_through_and_changes_nothing(tmp_path):
    embeddings = BrokenEmbeddings()
    embeddings.broken = False
    graph = SITGraph.from_trajectories([routine("1", "a")], embeddings=embeddings)
    before = saved(graph, tmp_path / "before")
    embeddings.broken = True

    with pytest.raises(ConnectionError, match="down"):
        graph.add(routine("2", "b", request="Something new"))
    with pytest.raises(ConnectionError, match="down"):
        graph.suggest("a", state="Something else")

    assert saved(graph, tmp_path / "after") == before
    embeddings.broken = False
    assert graph.add(routine("2", "b", request="Something new"))


def test_procedural_suggestions_do_not_need_the_embedder():
    embeddings = BrokenEmbeddings()
    embeddings.broken = False
    graph = SITGraph.from_trajectories([routine("1", "a", "b")], embeddings=embeddings)
    embeddings.broken = True

    assert [each.tool for each in graph.suggest("a")] == ["b"]


def test_an_embedder_that_returns_too_few_vectors_is_found_out():
    class Short(TableEmbeddings):
        def _vectors(self, texts):
            return super()._vectors(texts)[:-1]

    with pytest.raises(ValueError, match="1 vectors for 2 texts"):
        run_flow(Encoder(Short()).encode(["x", "y"]))


def test_another_thread_may_forget_a_text_at_any_time():
    encoder = Encoder(TableEmbeddings({"x": X}))
    run_flow(encoder.encode(["x"]))

    class Forgotten(dict):
        """What another thread puts in the place of, just after this one has looked."""

        def __contains__(self, text):
            encoder._vectors = {}
            return super().__contains__(text)

    encoder._vectors = Forgotten(encoder._vectors)

    assert run_flow(encoder.encode(["x"]))[0, :2].tolist() == X
