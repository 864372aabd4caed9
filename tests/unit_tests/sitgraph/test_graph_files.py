"""A graph in a folder: what comes back, what is refused, and that reading one can do no harm."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from little_runs import (
    TableEmbeddings,
    called,
    content_of,
    routine,
    run_of,
    says,
    summed_up,
    user,
)

from langchain_tooltree import SITGraph
from langchain_tooltree.errors import GraphChangedError, GraphFileError
from langchain_tooltree.sitgraph import files
from langchain_tooltree.sitgraph.files import FILE
from langchain_tooltree.stores.locks import locked

TOOLS = [
    {
        "name": "a",
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
    }
]
RUNS = [
    run_of(
        "1",
        user("A refund, please."),
        *called("a"),
        *summed_up("They want a refund."),
        *called("b"),
        says("Done."),
    ),
    run_of(
        "2",
        user("A room, please."),
        *called("a"),
        *summed_up("They want a room."),
        *called("c"),
        says("Done."),
    ),
    routine("3", "a", "b", "c", metadata={"tools": TOOLS}),
]
QUESTIONS = [
    (None, {}),
    ("a", {"state": "They want a refund."}),
    ("a", {"messages": [user("A room, please."), *called("a")]}),
    ("b", {"messages": []}),
]


@pytest.fixture
def folder(tmp_path):
    SITGraph.from_trajectories(RUNS, alpha=0.5, min_support=1).save(tmp_path / "g")
    return tmp_path / "g"


def answers(graph):
    return [graph.suggest(tool, k=9, **options) for tool, options in QUESTIONS]


def test_a_graph_comes_back_as_it_was(folder):
    graph = SITGraph.load(folder)

    assert (graph.alpha, graph.contextual, graph.min_support) == (0.5, True, 1)
    assert len(graph) == 3
    assert "2" in graph
    assert answers(graph) == answers(SITGraph.from_trajectories(RUNS, alpha=0.5))
    assert (
        graph.to_mermaid() == SITGraph.from_trajectories(RUNS, alpha=0.5).to_mermaid()
    )


def test_the_same_runs_give_the_same_bytes(folder, tmp_path):
    settings = {"alpha": 0.5}
    SITGraph.from_trajectories(RUNS[::-1], **settings).save(tmp_path / "other")
    SITGraph.load(folder).save(tmp_path / "again")

    assert (
        content_of(tmp_path / "other")
        == content_of(tmp_path / "again")
        == content_of(folder)
    )


def test_any_text_comes_back(tmp_path):
    odd = 'ü|"]\n\ud800 \U0001f600'
    run = run_of(
        odd,
        user(odd),
        *called(odd),
        *summed_up(f"Known: {odd}"),
        *called(odd),
        metadata={"tools": [odd]},
    )
    SITGraph.from_trajectories([run]).save(tmp_path / "g")

    graph = SITGraph.load(tmp_path / "g")
    [suggestion] = graph.suggest(odd, state=f"Known: {odd}")

    assert odd in graph
    assert suggestion.tool == odd
    assert suggestion.evidence[0].trajectory == odd
    assert suggestion.evidence[0].summary == f"Known: {odd}"


def test_loading_and_learning_never_write_to_the_folder(folder):
    before = content_of(folder)
    times = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    for file in [*folder.rglob("*"), folder]:
        file.chmod(0o555 if file.is_dir() else 0o444)
    try:
        graph = SITGraph.load(folder)
        answers(graph)
        assert graph.remove("2")
        for number in range(20):
            assert graph.add(routine(f"new {number}", "a", "b", "a"))
        answers(graph)
        graph.to_networkx()
        del graph
    finally:
        for each in [folder, *filter(Path.is_dir, folder.iterdir())]:
            each.chmod(0o755)

    assert content_of(folder) == before
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == times


def test_where_there_is_no_graph_is_said(tmp_path):
    (tmp_path / "file").write_text("text")
    for path in (
        tmp_path,
        tmp_path / "nothing",
        tmp_path / "file",
        str(tmp_path / "nothing"),
    ):
        with pytest.raises(GraphFileError, match="There is no graph at"):
            SITGraph.load(path)


def test_a_graph_is_used_with_the_embedder_that_it_was_made_with(tmp_path):
    SITGraph(embeddings=TableEmbeddings(dims=3)).save(tmp_path / "g")

    assert len(SITGraph.load(tmp_path / "g", embeddings=TableEmbeddings(dims=3))) == 0
    with pytest.raises(
        GraphFileError,
        match=r"TableEmbeddings\(dims=3\).*HashingEmbeddings\(dims=1024\).*embeddings=",
    ):
        SITGraph.load(tmp_path / "g")
    with pytest.raises(GraphFileError, match=r"dims=3.*dims=4"):
        SITGraph.load(tmp_path / "g", embeddings=TableEmbeddings(dims=4))


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_an_error_while_saving_leaves_the_old_graph(
    folder, tmp_path, monkeypatch, failing
):
    before = content_of(folder)
    graph = SITGraph.load(folder)
    graph.remove("2")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os if failing == "fsync" else files.Path, failing, fail)
    with pytest.raises(OSError, match="No space"):
        graph.save(folder)
    monkeypatch.undo()

    assert content_of(folder) == before
    assert [each.name for each in tmp_path.iterdir()] == ["g"]
    graph.save(folder)
    assert len(SITGraph.load(folder)) == 2


def test_a_writer_waits_for_another_one_and_says_so(folder, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.02)
    graph = SITGraph.load(folder)
    with locked(folder / files.LOCK, 0) as alone:
        assert alone
        with pytest.raises(
            GraphFileError,
            match=r"Somebody else has been writing to .* for 0.02 seconds",
        ):
            graph.save(folder)
    graph.save(folder)

    assert not (folder / files.LOCK).exists()


def test_runs_are_forgotten_in_a_folder_as_if_they_had_never_been_there(
    folder, tmp_path
):
    SITGraph.from_trajectories([RUNS[0], RUNS[2]], alpha=0.5).save(tmp_path / "without")
    (folder / files.SCRATCH).write_text(
        "They want a room"
    )  # left by a writer that was killed

    assert files.forget_in_graph(folder, lambda graph: ["2", "never there"])[0] == ["2"]
    assert content_of(folder) == content_of(tmp_path / "without")
    assert [
        content
        for content in content_of(folder).values()
        if b"They want a room" in content
    ] == []
    with pytest.raises(GraphFileError, match="There is no graph"):
        files.forget_in_graph(tmp_path / "nowhere", lambda graph: ["2"])
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_is_a_file_of_json_lines_and_no_pickle(folder):
    checksum, settings, *runs = (folder / FILE).read_text(encoding="utf-8").splitlines()

    assert len(checksum) == 64
    assert json.loads(settings)["alpha"] == 0.5
    assert [json.loads(run)["id"] for run in runs] == ["1", "2", "3"]
    assert json.loads(runs[2])["labels"][:3] == [
        ["", "", "a"],
        ["a", "", "b"],
        ["b", "a", "c"],
    ]
    assert [each.name for each in folder.iterdir()] == [FILE]


@pytest.mark.parametrize("place", [0, 64, 100, 0.5, -2])
def test_a_changed_byte_is_found(folder, place):
    content = bytearray((folder / FILE).read_bytes())
    content[int(place * len(content)) if isinstance(place, float) else place] ^= 1
    (folder / FILE).write_bytes(content)

    with pytest.raises(
        GraphFileError, match=rf"{FILE} is not what was written.*mine the graph again"
    ):
        SITGraph.load(folder)


@pytest.mark.parametrize(
    "change",
    [{"format": 1}, {"views": ["request"]}, {"dimensions": 64}],
    ids=lambda each: next(iter(each)),
)
def test_other_formats_are_refused(folder, monkeypatch, change):
    with monkeypatch.context() as another_version:
        another_version.setattr(files, "SHAPE", {**files.SHAPE, **change})
        SITGraph().save(folder)

    with pytest.raises(GraphFileError, match=r"another format .*Mine the graph again"):
        SITGraph.load(folder)


def test_what_somebody_else_has_saved_meanwhile_is_not_undone(folder):
    mine, other = SITGraph.load(folder), SITGraph.load(folder)
    assert other.add(routine("other", "a", "b"))
    other.save(folder)
    other.save(folder)

    with pytest.raises(
        GraphChangedError,
        match=r"Load the graph again.*save it; or save this one to another",
    ):
        mine.save(folder)
    assert "other" in SITGraph.load(folder)
    mine.save(folder.parent / "elsewhere")
    SITGraph().save(folder)  # who has read nothing there replaces it
    assert len(SITGraph.load(folder)) == 0


def test_what_a_killed_writer_has_left_is_gone_after_the_next_save_and_what_is_the_users_stays(
    folder,
):
    (folder / files.SCRATCH).write_text("They want a room")
    (folder / "README.md").write_text("The user's own.")
    SITGraph.load(folder).save(folder)

    assert sorted(each.name for each in folder.iterdir()) == ["README.md", FILE]


@pytest.mark.slow
def test_no_save_of_several_writers_is_lost(folder):
    def save(number):
        while True:
            graph = SITGraph.load(folder)
            graph.add(routine(f"of writer {number}", "a", "b"))
            try:
                graph.save(folder)
            except GraphChangedError:
                continue
            return f"of writer {number}"

    with ThreadPoolExecutor(4) as pool:
        saved = list(pool.map(save, range(12)))

    graph = SITGraph.load(folder)
    assert [run for run in saved if run not in graph] == []


@pytest.mark.parametrize("size", [0, 30, 64, 65, 0.5, -1])
def test_a_file_that_is_cut_off_is_found(folder, size):
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(
        content[: int(size * len(content)) if isinstance(size, float) else size]
    )

    with pytest.raises(GraphFileError, match="mine the graph again"):
        SITGraph.load(folder)
