"""What `demo` and `view` make of what they are given: in a terminal, and as a page in a file."""

import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from rich.console import Console

from langchain_tooltree import (
    ChromaStore,
    Experience,
    SITGraph,
    Trajectory,
    demo,
    dump_trajectories,
)
from langchain_tooltree.cli import REFUSED, main
from langchain_tooltree.cli import view as view_module
from langchain_tooltree.cli.view import pages_of
from langchain_tooltree.pages.search import record, to_rich
from tests.internals.pages import data_in


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="module")
def result():
    return demo.solved()


def run_of(number, *, success=True):
    call = {
        "id": "c0",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    said = [
        {"role": "user", "content": f"Do [job] {number}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c0", "content": "seen"},
        {"role": "assistant", "content": "Done."},
    ]
    return Trajectory.from_chat(said, id=f"run {number}", success=success)


def page_of(what, folder):
    page = folder / "page.html"
    assert main(["view", str(what), "-o", str(page), "--force"]) == 0
    return page.read_text(encoding="utf-8")


def test_a_folder_has_a_list_with_a_page_of_each_and_links_lead_nowhere(
    tmp_path, capsys, result
):
    folder, output = tmp_path / "searches", tmp_path / "pages"
    record(folder, result.to_dict(), key="1", thread="t-1")
    (tmp_path / "secret.json").write_text(json.dumps(result.to_dict()))
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / ".hidden.json").write_text(json.dumps(result.to_dict()))
    (folder / "notes.json").write_text("{}")
    dump_trajectories([run_of(1)], folder / "runs.jsonl")
    assert main(["view", str(folder), "-o", str(output), "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["page"] == (output / "index.html").as_uri()
    )
    runs, search = sorted(
        data_in((output / "index.html").read_text())["entries"],
        key=lambda row: "title" in row,
    )
    assert (runs["name"], search["title"], search["thread"]) == (
        "runs.jsonl",
        demo.REQUEST,
        "t-1",
    )
    assert search["plan"] == "read_sign → zoom_image → read_sign → convert_units"
    assert re.fullmatch(r"\d+ model calls, \d,\d{3} tokens", search["cost"])
    assert data_in((output / search["page"]).read_text())["stop_reason"] == "answered"
    assert [
        run["task"] for run in data_in((output / runs["page"]).read_text())["runs"]
    ] == ["Do [job] 1."]
    assert len([*output.iterdir()]) == 3
    assert "--force" in refusal(capsys, folder, "-o", output)
    (folder / "runs.jsonl").unlink()
    (output / "mine.html").write_text("mine")
    assert main(["view", str(folder), "-o", str(output), "--force"]) == 0
    assert {each.name for each in output.iterdir()} == {
        "index.html",
        "tooltree-1.html",
        "mine.html",
    }


def test_a_list_is_a_folder_also_while_it_is_empty_and_what_is_no_search_takes_no_place(
    tmp_path, monkeypatch, result
):
    monkeypatch.setattr(view_module, "MOST_FILES", 2)
    (tmp_path / "searches" / "odd.json").mkdir(parents=True)
    assert (
        main(["view", str(tmp_path / "searches"), "-o", str(tmp_path / "pages")]) == 0
    )
    assert (
        data_in((tmp_path / "pages" / "index.html").read_text())["entries"][0][
            "stop_reason"
        ]
        == "cannot be read"
    )
    (tmp_path / "searches" / "odd.json").rmdir()
    for number in range(5):
        (tmp_path / "searches" / f"{number}.json").write_text(
            json.dumps(result.to_dict()) if number < 3 else "{}"
        )
        os.utime(tmp_path / "searches" / f"{number}.json", (number, number))
    data = data_in(pages_of(str(tmp_path / "searches"))[1]["index.html"])
    assert ([row["name"] for row in data["entries"]], data["more"]) == (
        ["2.json", "1.json"],
        1,
    )


def test_what_is_damaged_in_a_folder_stands_in_its_list_without_a_page(
    tmp_path, result
):
    good = json.loads(json.dumps(result.to_dict()))
    hostile = (
        "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e {data}"
    )
    damaged = {
        "kinds": {**good, "query": 3, "recorded": [1], "cost": None},
        "nodes": {**good, "best": [99]},
        "empty": {"nodes": [], "best": []},
        "texts": {
            **good,
            "query": hostile,
            "stop_reason": hostile,
            "recorded": {"written": hostile, "thread": hostile},
        },
        "<b onclick=alert(1)>'\"?since=#&%2e": good,
    }
    for name, data in damaged.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "half.jsonl").write_text(json.dumps(good)[:300])
    kind, pages = pages_of(str(tmp_path))
    rows = {
        row["name"].partition(".json")[0]: row
        for row in data_in(pages["index.html"])["entries"]
    }
    assert (kind, rows.keys()) == ("folder", {*damaged, "half"})
    assert {name for name, row in rows.items() if "page" not in row} == {
        "kinds",
        "nodes",
        "empty",
        "half",
    }
    assert {
        rows[name]["stop_reason"] for name in ("kinds", "nodes", "empty", "half")
    } == {"cannot be read"}
    assert not re.search("<script>alert|<b onclick|<img", "".join(pages.values()))


@pytest.mark.slow
def test_a_store_lists_its_namespaces_with_a_page_of_each_and_nothing_is_written_there(
    tmp_path,
):
    with ChromaStore(tmp_path) as store:
        users = Experience(store, namespace=("tooltree", "{user_id}"))
        for user in ("ann", "b/b"):
            users.within(user_id=user).learn(run_of(1))
        users.within(user_id="ann").learn(run_of(2, success=False))
        store.put(("tooltree", "ann", "parts"), "damaged", {"part": "{"}, index=False)
    held = [
        (file, file.stat().st_mtime_ns, file.is_file() and file.read_bytes())
        for file in tmp_path.rglob("*")
    ]
    _, pages = pages_of(str(tmp_path))
    ann, other = data_in(pages["index.html"])["entries"]
    assert (ann["title"], ann["plan"]) == (
        "tooltree / ann",
        "2 runs: 1 failure, 1 success",
    )
    assert (other["title"], other["plan"]) == ("tooltree / b/b", "1 run: 1 success")
    assert data_in(pages[ann["page"]])["status"]["runs"] == 2
    assert [
        (file, file.stat().st_mtime_ns, file.is_file() and file.read_bytes())
        for file, *_ in held
    ] == held


def test_the_page_is_opened_from_a_folder_that_its_owner_alone_may_read(
    tmp_path, monkeypatch, capsys, result
):
    opened = []
    monkeypatch.setattr(
        "webbrowser.open", lambda address: opened.append(address) or True
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "search.json").write_text(json.dumps(result.to_dict()))
    assert main(["view", str(tmp_path / "search.json")]) == 0
    (folder,) = tmp_path.glob("tooltree-view-*")
    assert opened == [(folder / "index.html").as_uri()]
    assert opened[0] in capsys.readouterr().out
    assert main(["view", str(tmp_path / "search.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"kind", "page"}
    assert len(opened) == 1, "a browser may print things, too"
    assert folder.stat().st_mode & 0o077 == 0


def refusal(capsys, *arguments):
    """What is said where there is no page."""
    assert main(["view", *map(str, arguments), "--no-browser"]) == REFUSED
    return capsys.readouterr().err


@pytest.mark.parametrize("indent", [None, 1])
def test_a_search_that_a_program_has_written_has_a_page_with_its_answer(
    tmp_path, capsys, result, indent
):
    (tmp_path / "search.json").write_text(json.dumps(result.to_dict(), indent=indent))
    assert "about 213 miles" in page_of(tmp_path / "search.json", tmp_path)
    assert (
        f"A page to explore: {(tmp_path / 'page.html').as_uri()}\n"
        in capsys.readouterr().out
    )


def test_graphs_and_files_of_runs_have_pages_and_no_file_is_overwritten(
    tmp_path, capsys
):
    SITGraph.from_trajectories([run_of(1)]).save(tmp_path / "graph")
    assert page_of(tmp_path / "graph", tmp_path).startswith("<!doctype html>")
    assert "--force" in refusal(
        capsys, tmp_path / "graph", "-o", tmp_path / "page.html"
    )
    dump_trajectories(
        [run_of(1), run_of(2), run_of(1)], tmp_path / "runs.jsonl"
    )  # of one, two versions
    assert page_of(tmp_path / "runs.jsonl", tmp_path).count('"outcome":"success"') == 2


def test_a_damaged_search_is_refused_in_one_line(tmp_path, capsys, result):
    file = tmp_path / "search.json"
    written = result.to_dict()
    for wrong, told in (
        ({**written, "nodes": [{"id": 0}, {"id": 1}]}, "is no search"),
        ({**written, "nodes": [*written["nodes"][:1], 3]}, "is no search"),
    ):
        file.write_text(json.dumps(wrong))
        said = refusal(capsys, file)
        assert told in said
        assert said.count("\n") == 1


KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA cache_size = 1")  # so that it writes before it commits
database.execute("CREATE TABLE half AS SELECT hex(randomblob(100000)) AS written")
database.execute("DELETE FROM embedding_metadata")
os._exit(9)
"""


@pytest.mark.slow
def test_a_store_is_read_while_somebody_writes_and_after_they_were_killed(tmp_path):
    folder = tmp_path / "experience"
    with ChromaStore(folder) as store:
        Experience(store, namespace=("tooltree", "ann")).learn(run_of(1))
    told = pages_of(str(folder))
    with closing(
        sqlite3.connect(folder / "chroma.sqlite3", isolation_level=None)
    ) as writing:
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("DELETE FROM embedding_metadata")
        assert pages_of(str(folder)) == told
        writing.execute("ROLLBACK")
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", KILLED, folder / "chroma.sqlite3"], check=False
    )
    assert (folder / "chroma.sqlite3-journal").exists()
    assert pages_of(str(folder)) == told, "what the process began is undone"


def test_a_page_of_runs_counts_those_too_that_it_has_no_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(view_module, "MAX_LISTED_RUNS", 2)
    runs = [run_of(number, success=number != 3) for number in range(5)]
    dump_trajectories(
        [*runs, runs[0].judged(False, "Wrong.")], tmp_path / "runs.jsonl.gz"
    )
    page = page_of(tmp_path / "runs.jsonl.gz", tmp_path)
    assert '"status":{"runs":5,"successes":3,"judged":5}' in page
    assert '"left_out":3' in page


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{]", "line 1 is not JSON"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[1, 2", "is not JSON"),
        (b'{"nodes": 1}', "messages"),
        (b"", "Nothing in"),
    ],
)
def test_a_file_that_is_nothing_of_all_this_is_refused_in_one_line(
    tmp_path, capsys, content, told
):
    (tmp_path / "file").write_bytes(content)
    said = refusal(capsys, tmp_path / "file")
    assert told in said
    assert said.count("\n") == 1


def test_what_is_not_there_is_refused(tmp_path, capsys):
    assert "nothing.json: No such file" in refusal(capsys, tmp_path / "nothing.json")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_told_in_one_line(capsys):
    assert main(["view", "postgresql://me:secret@127.0.0.1:9/none"]) == REFUSED
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "secret" not in said


HOSTILE = "\x1b]0;PWNED\x1b\\ \x1b]52;c;cm0=\x07 \x00 \u202egnp \x9b31m"
"""Sets the title and the clipboard of a terminal, turns the direction, and ends with an 8 bit command."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, result):
    folder = tmp_path_factory.mktemp("hostile")
    run = run_of(1)
    said = json.loads(
        json.dumps(run.messages).replace('"look"', json.dumps(f"look{HOSTILE}"))
    )
    said[0]["content"] = f"Do {HOSTILE}"
    dump_trajectories(
        [Trajectory.from_chat(said, id=f"run {HOSTILE}", success=True)],
        folder / "runs.jsonl",
    )
    SITGraph.from_trajectories([run_of(1)]).save(folder / "graph")
    spoilt = json.loads(json.dumps(result.to_dict())) | {
        "query": HOSTILE,
        "answer": HOSTILE,
        "stop_reason": HOSTILE,
    }
    spoilt["nodes"][1]["call"]["tool"] = HOSTILE
    (folder / "search.json").write_text(json.dumps(spoilt))
    return folder


@pytest.mark.parametrize("terminal", ["1", ""])
@pytest.mark.parametrize(
    "command",
    [
        "view F/runs.jsonl -o F/page!.html",
        "view F/search.json -o F/page!.html --json",
        "view F/none! --no-browser",
        "copy F/none! F/other",
        "demo --model !",
        "demo -o F/none!/demo.html",
    ],
)
def test_nothing_gives_orders_to_a_terminal(
    command, terminal, hostile, capsys, monkeypatch
):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", terminal)
    words = [
        word.replace("F", str(hostile), 1).replace("!", HOSTILE.replace("\0", ""))
        for word in command.split(" ")
    ]
    with suppress(SystemExit):
        main(words)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        styled = re.sub(r"\x1b\[[\d;]*m", "", text) if terminal else text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", styled)
    assert "PWNED" in told.out + told.err


def test_a_tree_gives_no_orders_to_a_console_of_somebody_else(hostile):
    told = io.StringIO()
    Console(file=told).print(to_rich(json.loads((hostile / "search.json").read_text())))
    assert "\ufffd]0;PWNED\ufffd\\" in told.getvalue()
    assert "\x1b" not in told.getvalue()
