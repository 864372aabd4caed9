"""`langchain-tooltree view` over real HTTP: what it serves, whom it refuses, and how it ends."""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import PROGRAM, SHELL, Browser
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tooltree import ChromaStore, Experience, Trajectory, demo
from langchain_tooltree.cli import REFUSED, STOPPED, main
from langchain_tooltree.cli import view as view_module
from langchain_tooltree.cli.terminal import Terminal
from langchain_tooltree.pages import search as saved_module
from tests.internals.pages import data_in

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\ud800 {data}"


def calling(task: str, tool: str = "look") -> Trajectory:
    """A run that went well."""
    call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "seen"}]
    return Trajectory.from_chat([{"role": "user", "content": task}, *said], id=task, success=True)


@pytest.fixture(scope="module")
def runs() -> list[Trajectory]:
    """Three runs that went well."""
    return [calling(task) for task in ("Do it.", "Leave it.", "Do it again.")]


class Viewer:
    """A server, as the command starts it."""

    def __init__(self, what: Path) -> None:
        options = argparse.Namespace(what=str(what), port=0, no_browser=True, output=None, afterwards=None)
        told, _ = view_module.run_view(options, Terminal(quiet=True))
        self.kind, self.address = told["kind"], told["page"]
        self.port = int(self.address.rpartition(":")[2].strip("/"))
        self.server = options.afterwards.args[0]

    def ask(self, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, Any, str]:
        """Status, headers and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def data(self, path: str = "/") -> Any:
        """The data of a page."""
        return data_in(self.ask(path)[2])


@contextmanager
def viewing(what: Path) -> Iterator[Viewer]:
    viewer = Viewer(what)
    try:
        yield viewer
    finally:
        viewer.server.shutdown()
        viewer.server.server_close()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recorded search, a secret beside it, and a way to that."""
    folder = tmp_path_factory.mktemp("view") / "searches"
    saved_module.record(folder, demo.solved().to_dict(), key="1")
    (folder.parent / "secret.json").write_text((next(folder.iterdir())).read_text())
    (folder / "link.json").symlink_to(folder.parent / "secret.json")
    (folder / ".hidden.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    (folder / "runs.jsonl").write_text('{"messages": [{"role": "user", "content": "Hi"}], "success": true}\n')
    return folder


@pytest.fixture(scope="module")
def viewer(told: Path) -> Iterator[Viewer]:
    with viewing(told) as running:
        yield running


def test_a_folder_lists_its_searches_with_a_page_of_each(viewer: Viewer, told: Path) -> None:
    status, headers, page = viewer.ask()
    assert (viewer.kind, status, headers["Content-Type"]) == ("folder", 200, "text/html; charset=utf-8")
    rows = data_in(page)["entries"]
    (row,) = [row for row in rows if "title" in row]
    assert {row["name"] for row in rows} == {"runs.jsonl", row["name"]}
    assert row["title"] == demo.REQUEST
    assert row["plan"] == "read_sign → zoom_image → read_sign → convert_units"
    assert row["stop_reason"] == "answered"
    assert re.fullmatch(r"\d+ model calls, \d,\d{3} tokens", row["cost"])
    status, _, page = viewer.ask(f"/{row['name']}")
    assert status == 200
    assert "Granite Pass" in page
    assert data_in(page)["stop_reason"] == "answered"
    assert [run["task"] for run in viewer.data("/runs.jsonl")["runs"]] == ["Hi"]


def test_a_store_lists_its_namespaces_with_a_page_of_each_and_nothing_is_written_there(
    tmp_path: Path, runs: list[Trajectory]
) -> None:
    with ChromaStore(tmp_path) as store:
        users = Experience(store, namespace=("tooltree", "{user_id}"))
        for user in ("ann", "b/b"):
            users.within(user_id=user).learn(runs[0])
        store.put(("tooltree", "ann", "parts"), "damaged", {"part": "{"}, index=False)
    held = [(file, file.stat().st_mtime_ns, file.is_file() and file.read_bytes()) for file in tmp_path.rglob("*")]
    with viewing(tmp_path) as viewer:
        spaces = {row["name"]: row["plan"] for row in viewer.data()["entries"]}
        assert spaces == dict.fromkeys(["tooltree/ann", "tooltree/b%2Fb"], "1 run: 1 success")
        for _ in range(2):
            assert viewer.data("/tooltree%2Fann")["status"]["in_graph"] == 1
        assert [(file, file.stat().st_mtime_ns, file.is_file() and file.read_bytes()) for file, *_ in held] == held
        with ChromaStore(tmp_path) as store:
            Experience(store, namespace=("tooltree", "{user_id}")).within(user_id="ann").learn(runs[1])
        assert viewer.data()["entries"][0]["plan"] == "2 runs: 2 success"
        for name in ("/tooltree", "/tooltree/eve", "/x", "/../graph"):
            assert viewer.ask(name)[0] == 404


def test_a_page_may_ask_nobody_and_nobody_may_embed_it(viewer: Viewer) -> None:
    for path in ("/", "/" + viewer.data()["entries"][0]["name"], "/none"):
        _, headers, page = viewer.ask(path)
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        for policy in re.findall(r'Content-Security-Policy" content="([^"]*)"', page):
            assert policy.startswith("default-src 'none'; script-src 'sha256-")
            assert "unsafe" not in policy
        assert ("Content-Security-Policy" in page) == page.startswith("<!doctype html>")
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "localhost:1", "127.0.0.1:{}.evil", ""]
)
def test_another_name_of_the_server_is_refused(viewer: Viewer, host: str) -> None:
    status, _, said = viewer.ask(Host=host.format(viewer.port))
    assert status == 403
    assert "Granite" not in said
    assert viewer.ask(Host=f"LocalHost:{viewer.port}")[0] == 200


def test_it_listens_on_the_loopback_address_alone(viewer: Viewer) -> None:
    assert viewer.server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_nothing_can_be_changed(viewer: Viewer, told: Path, method: str) -> None:
    before = sorted(told.iterdir())
    name = viewer.data()["entries"][-1]["name"]
    assert viewer.ask(f"/{name}", method)[0] == 501
    assert sorted(told.iterdir()) == before


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.json",
        "/..%2fsecret.json",
        "/%2e%2e/secret.json",
        "//secret.json",
        "/link.json",
        "/.hidden.json",
        "/notes.txt",
        "/etc/passwd",
        "/%2fetc%2fpasswd",
        "/%00",
        "/%ff",
        "/" + "a" * 5_000,
    ],
)
def test_no_address_leads_out_of_the_folder(viewer: Viewer, path: str) -> None:
    status, _, said = viewer.ask(path)
    assert status == 404
    assert said == "There is no such page."


def test_hostile_names_and_texts_are_data(tmp_path: Path) -> None:
    (found,) = [recorded(tmp_path)]
    damaged: dict[str, Any] = {
        "texts": {
            **found,
            "query": HOSTILE,
            "stop_reason": HOSTILE,
            "recorded": {"written": HOSTILE, "thread": HOSTILE},
        },
        "kinds": {**found, "query": 3, "recorded": [1], "cost": None},
        "nodes": {**found, "best": [99], "recorded": {"name": "../secret.json"}},
        "empty": {"nodes": [], "best": []},
    }
    for name, data in damaged.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "half.json").write_text(json.dumps(found)[:300])
    odd = "<b onclick=alert(1)>'\"?since=#&%2e.json"
    (tmp_path / odd).write_text(json.dumps(found))
    with viewing(tmp_path) as viewer:
        page = viewer.ask()[2]
        assert "<script>alert" not in page
        assert "<b onclick" not in page
        rows = {row["name"]: row for row in viewer.data()["entries"]}
        assert {name for name, row in rows.items() if row["stop_reason"] == "cannot be read"} == {
            "kinds.json",
            "nodes.json",
            "empty.json",
        }
        assert "../secret.json" not in rows
        assert viewer.ask("/%3Cb%20onclick=alert(1)%3E'%22%3Fsince=%23&%252e.json")[0] == 200
        status, _, page = viewer.ask("/texts.json")
        assert status == 200
        assert "<script>alert" not in page
        for name in ("kinds", "empty", "half", "deep"):
            assert viewer.ask(f"/{name}.json")[0] == 404


def recorded(folder: Path) -> Any:
    """A search in a file."""
    result = demo.solved()
    data = {"version": 1, "answer": None, **result.to_dict()}
    (folder / "fine.json").write_text(json.dumps(data))
    return data


def test_a_file_is_served_alone_and_follows_what_is_written(tmp_path: Path) -> None:
    data = recorded(tmp_path)
    with viewing(tmp_path / "fine.json") as viewer:
        assert viewer.kind == "search"
        assert viewer.data()["stop_reason"] == "answered"
        (tmp_path / "fine.json").write_text(json.dumps({**data, "stop_reason": "searching"}))
        assert viewer.data()["stop_reason"] == "searching"
        assert viewer.ask("/fine.json")[0] == 404
        (tmp_path / "fine.json").unlink()
        assert viewer.ask()[0] == 404


def test_a_browser_is_opened_and_ctrl_c_ends_it_cleanly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path)
    addresses = []

    def opened(address: str) -> bool:
        addresses.append(address)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        return True

    monkeypatch.setattr("webbrowser.open", opened)
    # A shell that started the tests in the background may have had them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["view", str(tmp_path), "--json"]) == STOPPED
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert (told["opened"], addresses) == (True, [told["page"]])
    assert printed.err == "Stopped.\n"


def test_a_viewer_that_is_terminated_leaves_no_copy_of_a_store(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "experience", tmp_path / "scratch"
    scratch.mkdir()
    with ChromaStore(folder) as store:
        experience = Experience(store, namespace=("all",), verdict=lambda _: True)
        for number in range(9):
            messages = [HumanMessage(f"Find thing {number}. " + "x" * 300_000), AIMessage("Here.")]
            experience.learn(Trajectory.from_messages(messages, id=str(number), success=True))
    command = [sys.executable, "-m", "langchain_tooltree", "view", str(folder), "--json", "--no-browser"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own
        assert process.stdout
        page = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["page"]
        with closing(http.client.HTTPConnection(page.split("/")[2])) as connection:
            connection.request("GET", "/all")
            until_copied = time.monotonic() + 20
            while not any(scratch.iterdir()) and time.monotonic() < until_copied:
                time.sleep(0.001)
            assert any(scratch.iterdir())
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
    assert list(scratch.iterdir()) == []


def test_a_port_in_use_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["view", str(tmp_path), "--no-browser", "--port", str(port)]) == REFUSED
    assert f"Port {port} cannot be used" in capsys.readouterr().err
    assert main(["view", str(tmp_path), "--no-browser", "--port", "70000"]) == REFUSED
    assert main(["view", str(tmp_path / "none"), "--no-browser"]) == REFUSED


@pytest.mark.skipif(not (PROGRAM and SHELL), reason="no chromium is installed")
def test_a_list_in_the_browser_grows_unless_somebody_looks_for_something_there(
    browser: Browser, tmp_path: Path
) -> None:
    folder, shown = tmp_path / "searches", "[...document.querySelectorAll('tbody tr')].length"
    saved_module.record(folder, demo.solved().to_dict(), key="1")
    with viewing(folder) as viewer:
        browser.open(viewer.address)
        assert browser.run(shown) == 1
        saved_module.record(folder, demo.solved().to_dict(), key="2")
        until(browser, f"{shown} === 2")
        browser.run("$('find').value = 'Granite'")
        saved_module.record(folder, demo.solved().to_dict(), key="3")
        browser.run("new Promise((done) => setTimeout(done, 6000))")
        assert browser.run(shown) == 2
        assert {asked.partition("?")[0] for asked in browser.requests()} == {viewer.address}
        assert browser.complaints() == []


def until(browser: Browser, code: str) -> None:
    """Wait for something in a page."""
    for _ in range(200):
        if browser.run(code):
            return
        time.sleep(0.05)
    pytest.fail(f"never: {code}")
