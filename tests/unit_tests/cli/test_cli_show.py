"""What `show` makes of what it is given."""

import io
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from rich.console import Console

from langchain_tooltree import ChromaStore, Experience, SITGraph, Trajectory, demo, dump_trajectories
from langchain_tooltree.cli import REFUSED, main
from langchain_tooltree.cli import show as show_module
from langchain_tooltree.cli.stores import read_store
from langchain_tooltree.cli.view import namespaces_in
from langchain_tooltree.pages.search import to_rich


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="module")
def result():
    return demo.solved()


def run_of(number, *, success=True):
    call = {"id": "c0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = [
        {"role": "user", "content": f"Do [job] {number}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c0", "content": "seen"},
        {"role": "assistant", "content": "Done."},
    ]
    return Trajectory.from_chat(said, id=f"run {number}", success=success)


def shown(capsys, *arguments, code=0):
    assert main(["show", *map(str, arguments)]) == code
    told = capsys.readouterr()
    return told.err if code else told.out


def document(capsys, *arguments):
    return json.loads(shown(capsys, *arguments, "--json"))


def test_a_search_that_the_demo_printed_as_json_is_shown_as_the_demo_shows_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    live = capsys.readouterr().out
    assert main(["demo", "--json"]) == 0
    (tmp_path / "search.json").write_text(capsys.readouterr().out)
    saved = shown(capsys, tmp_path / "search.json")
    tree = live[live.index("request") : live.index("\nA page to explore")]
    assert saved == f"{demo.REQUEST}\n\n{tree}"


def test_where_a_picture_was_drawn_is_told(tmp_path, capsys):
    assert main(["demo", "--json"]) == 0
    (tmp_path / "search.json").write_text(capsys.readouterr().out)
    drawn = shown(capsys, tmp_path / "search.json", "--draw", str(tmp_path / "demo.svg"))
    assert drawn.endswith(f"Drawn to {tmp_path / 'demo.svg'}\n")
    page = tmp_path / "what it's $HOME for.html"
    place = shown(capsys, tmp_path / "search.json", "--draw", str(page)).splitlines()[-1]
    assert place == f"A page to explore: {page.as_uri()}"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_search_that_a_program_has_written_is_shown_with_its_answer(tmp_path, capsys, result, indent):
    (tmp_path / "search.json").write_text(json.dumps(result.to_dict(), indent=indent))
    assert "about 213 miles" in shown(capsys, tmp_path / "search.json")
    told = document(capsys, tmp_path / "search.json")
    assert told == {"kind": "search", "version": 1, **result.to_dict()}


@pytest.mark.parametrize(
    ("ending", "begins"), [(".html", "<!doctype html>"), (".svg", "<svg "), (".mmd", "flowchart TD")]
)
def test_a_search_is_drawn_to_a_file_by_its_ending(tmp_path, capsys, result, ending, begins):
    (tmp_path / "search.json").write_text(json.dumps(result.to_dict()))
    picture = tmp_path / f"search{ending}"
    assert "about 213 miles" in shown(capsys, tmp_path / "search.json", "--draw", picture)
    assert picture.read_text(encoding="utf-8").startswith(begins)
    assert "--force" in shown(capsys, tmp_path / "search.json", "--draw", picture, code=REFUSED)


@pytest.mark.slow
def test_what_cannot_be_drawn_is_told_with_what_can(tmp_path, capsys, result):
    SITGraph.from_trajectories([run_of(1)]).save(tmp_path / "graph")
    told = shown(capsys, tmp_path / "graph", "--draw", tmp_path / "graph.svg", code=REFUSED)
    assert "It can be drawn to .html or .mmd." in told
    shown(capsys, tmp_path / "graph", "--draw", tmp_path / "graph.html")
    assert (tmp_path / "graph.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    dump_trajectories([run_of(1), run_of(2), run_of(1)], tmp_path / "runs.jsonl")  # of one, two versions
    shown(capsys, tmp_path / "runs.jsonl", "--draw", tmp_path / "runs.html")
    assert (tmp_path / "runs.html").read_text(encoding="utf-8").count('"outcome":"success"') == 2
    told = shown(capsys, tmp_path / "runs.jsonl", "--draw", tmp_path / "runs.svg", code=REFUSED)
    assert "It can be drawn to .html." in told
    told = shown(capsys, tmp_path / "graph", "--draw", tmp_path / "graph.png", code=REFUSED)
    assert "must end with one of .html, .svg, .mmd" in told


def test_a_search_in_another_form_and_a_damaged_one_are_refused_in_one_line(tmp_path, capsys, result):
    file = tmp_path / "search.json"
    written = result.to_dict()
    for wrong, told in (
        ({**written, "version": 2}, "form 2; this version reads form 1"),
        ({**written, "nodes": [{"id": 0}, {"id": 1}]}, "is no search"),
        ({**written, "nodes": [*written["nodes"][:1], 3]}, "is no search"),
        ({**written, "nodes": [written["nodes"][0], {**written["nodes"][1], "parent": 1}]}, "is no search"),
        ({**written, "best": [99]}, "is no search"),
        ({**written, "cost": {}}, "is no search"),
    ):
        file.write_text(json.dumps(wrong))
        said = shown(capsys, file, code=REFUSED)
        assert told in said
        assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz"])
def test_a_file_of_runs_is_shown_with_their_tools_and_outcomes(tmp_path, capsys, name):
    dump_trajectories([run_of(1), run_of(2, success=False), run_of(3, success=None)], tmp_path / name)
    told = shown(capsys, tmp_path / name)
    assert "Do [job] 2." in told
    assert "3 runs: 1 failure, 1 success, 1 unknown" in told
    runs = document(capsys, tmp_path / name)["runs"]
    assert runs[0] == {"id": "run 1", "outcome": "success", "task": "Do [job] 1.", "tools": ["look"]}


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
    told = read_store(str(folder), namespaces_in)
    with closing(sqlite3.connect(folder / "chroma.sqlite3", isolation_level=None)) as writing:
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("DELETE FROM embedding_metadata")
        assert read_store(str(folder), namespaces_in) == told
        writing.execute("ROLLBACK")
    subprocess.run([sys.executable, "-c", KILLED, folder / "chroma.sqlite3"], check=False)  # noqa: S603 - our own program
    assert (folder / "chroma.sqlite3-journal").exists()
    assert read_store(str(folder), namespaces_in) == told, "what the process began is undone"


def test_a_page_of_runs_counts_those_too_that_it_has_no_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(show_module, "MOST_RUNS", 2)
    runs = [run_of(number, success=number != 3) for number in range(5)]
    dump_trajectories([*runs, runs[0].judged(False, "Wrong.")], tmp_path / "runs.jsonl")
    assert main(["show", str(tmp_path / "runs.jsonl"), "--draw", str(tmp_path / "runs.html")]) == 0
    page = (tmp_path / "runs.html").read_text(encoding="utf-8")
    assert '"status":{"runs":5,"successes":3,"judged":5}' in page
    assert '"left_out":3' in page


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{]", "line 1 is not JSON"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[1, 2", "is not JSON"),
        (b'{"nodes": 1}', "messages"),
    ],
)
def test_a_file_that_is_nothing_of_all_this_is_refused_in_one_line(tmp_path, capsys, content, told):
    (tmp_path / "file").write_bytes(content)
    said = shown(capsys, tmp_path / "file", code=REFUSED)
    assert told in said
    assert said.count("\n") == 1


def test_what_is_not_there_and_folders_without_anything_are_refused(tmp_path, capsys):
    assert "nothing.json: No such file" in shown(capsys, "nothing.json", code=REFUSED)
    assert "a folder without a graph" in shown(capsys, tmp_path, code=REFUSED)
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
    said = json.loads(json.dumps(run.messages).replace('"look"', json.dumps(f"look{HOSTILE}")))
    said[0]["content"] = f"Do {HOSTILE}"
    dump_trajectories([Trajectory.from_chat(said, id=f"run {HOSTILE}", success=True)], folder / "runs.jsonl")
    SITGraph.from_trajectories([run_of(1)]).save(folder / "graph")
    spoilt = json.loads(json.dumps(result.to_dict())) | {"query": HOSTILE, "answer": HOSTILE, "stop_reason": HOSTILE}
    spoilt["nodes"][1]["call"]["tool"] = HOSTILE
    (folder / "search.json").write_text(json.dumps(spoilt))
    return folder


@pytest.mark.parametrize("terminal", ["1", ""])
@pytest.mark.parametrize(
    "command",
    [
        "show F/runs.jsonl",
        "show F/search.json",
        "show F/search.json --json",
        "show F/none!",
        "view F/none! --no-browser",
        "mine F/runs.jsonl -o F/mined --force",
        "mine F/runs.jsonl -o F/mined!/graph",
        "show F/mined",
        "copy F/none! F/other",
        "demo --model !",
        "demo --draw F/none!/demo.html",
        "!",
    ],
)
def test_nothing_gives_orders_to_a_terminal(command, terminal, hostile, capsys, monkeypatch):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", terminal)
    words = [word.replace("F", str(hostile), 1).replace("!", HOSTILE.replace("\0", "")) for word in command.split(" ")]
    with suppress(SystemExit):
        main(words)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        styled = re.sub(r"\x1b\[[\d;]*m", "", text) if terminal else text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", styled)
    assert "--json" not in words or json.loads(told.out)["query"] == HOSTILE
    assert "PWNED" in told.out + told.err or command.startswith("mine F/runs.jsonl -o F/mined --")


def test_a_tree_gives_no_orders_to_a_console_of_somebody_else(hostile):
    told = io.StringIO()
    Console(file=told).print(to_rich(json.loads((hostile / "search.json").read_text())))
    assert "\ufffd]0;PWNED\ufffd\\" in told.getvalue()
    assert "\x1b" not in told.getvalue()


def test_ids_are_whole_on_a_small_screen(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "9b7b53a6-46ee-4c6c-9b7b-53a646ee4c6c"
    run = replace(run_of(1), id=name)
    dump_trajectories([run], tmp_path / "runs.jsonl")
    assert name in shown(capsys, tmp_path / "runs.jsonl")
    monkeypatch.setenv("COLUMNS", "40")
    text = shown(capsys, tmp_path / "runs.jsonl")
    assert "…" not in text
    assert "".join(line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│")) == name
