"""Blocks of the pages that need a service run with a real one: a Postgres, and an MCP server over stdio."""

import json

import pytest
from store_servers import postgres_programs

from tests.unit_tests.documentation import pages

NEEDY = [block for block in pages.blocks_in("python") if block.mark == "needs"]


@pytest.mark.skipif(
    postgres_programs() is None, reason="pgserver has no wheel for this Python"
)
def test_the_blocks_about_postgres_run(references, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [block] = [each for each in NEEDY if each.what == "postgres"]
    address = "postgresql://localhost/agents"
    assert address in block.code
    with pages.offline():
        names = pages.given()
        exec(block.code.replace(address, references.postgres), names)  # noqa: S102 - our own pages
    assert "runs=1, judged=1" in capsys.readouterr().out


def test_the_blocks_about_mcp_run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    server, client = (each for each in NEEDY if each.what == "mcp")
    (tmp_path / "files_server.py").write_text(server.code)
    with pages.offline():
        pages.followed([client], **pages.given())
    assert capfd.readouterr().out.startswith("It says: ")


def test_the_blocks_about_fastapi_stream_the_answer(tmp_path, monkeypatch):
    testing = pytest.importorskip("fastapi.testclient")
    monkeypatch.chdir(tmp_path)
    [block] = [each for each in NEEDY if each.what == "fastapi"]
    with pages.offline():
        app = pages.followed([block], **pages.given())["app"]
        answer = testing.TestClient(app).post(
            "/threads/1", params={"text": pages.REQUEST}
        )
    events = [event.split("\n") for event in answer.text.strip().split("\n\n")]
    assert events[-1] == ["event: end", "data: {}"]
    text = "".join(
        json.loads(data.removeprefix("data: "))
        for kind, data in events
        if kind == "event: text"
    )
    assert text.startswith("It says: OS-1")
    assert "missing" not in answer.text


def test_no_other_service_is_needed():
    assert {each.what for each in NEEDY} <= {
        "postgres",
        "mcp",
        "fastapi",
        "deepagents",
        "langgraph-supervisor",
    }
