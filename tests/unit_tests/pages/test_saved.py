"""Searches as files in a folder: one file a search, whole at any time, and nothing that fails breaks an agent."""

import json
import re
import time
from pathlib import Path

from langchain_tooltree.pages import search as saved_module
from tests.internals.pages import made, search_of

NAME = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{16}\.json")
record = saved_module.record


def files_in(folder):
    return sorted(folder.glob("*.json"))


def test_a_search_has_one_file_also_if_it_is_written_again(tmp_path):
    folder = tmp_path / "new" / "folder"
    begun, whole = (
        search_of(made("look")),
        search_of(made("look", seen="blue"), made("send", parent=1), best=[1, 2]),
    )
    record(folder, begun, key="a", thread="ada@example.org")
    [file] = files_in(folder)
    first = json.loads(file.read_text())
    record(folder, whole, key="a", thread="ada@example.org")
    [same] = files_in(folder)
    last = saved_module.search_in(same)

    assert file == same
    assert NAME.fullmatch(file.name), "the name tells nothing of the thread"
    assert {name: last[name] for name in whole} == json.loads(json.dumps(whole))
    assert last["version"] == 1
    assert last["recorded"]["thread"] == "ada@example.org"
    assert first["recorded"]["written"] <= last["recorded"]["written"]
    assert file.stat().st_mode & 0o777 == 0o600
    for key, thread in (("b", "ada@example.org"), ("a", "")):
        record(folder, begun, key=key, thread=thread)
    assert len(files_in(folder)) == len([*folder.iterdir()]) == 3


def test_the_latest_searches_are_kept_and_no_file_of_others_is_touched(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(saved_module, "KEPT_FILES", 2)
    (tmp_path / "20200101.json").write_text("mine")
    left_over = tmp_path / ".20200101T000000000000Z-0123456789abcdef.json.abc_1234"
    left_over.write_text("half a sear")
    for number in range(4):
        record(tmp_path, search_of(query=f"Search {number}."), key=str(number))
        time.sleep(0.001)
    assert (tmp_path / "20200101.json").read_text() == "mine"
    kept = [
        json.loads(file.read_text())["query"]
        for file in files_in(tmp_path)
        if NAME.fullmatch(file.name)
    ]
    assert kept == ["Search 2.", "Search 3."]
    assert not left_over.exists()


def test_a_folder_that_cannot_be_written_breaks_nothing(tmp_path, caplog, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "folder"
    record(folder, search_of(), key="a")
    assert [message.partition(": ")[0] for message in caplog.messages] == [
        f"Searches cannot be recorded in {folder}"
    ]
    (tmp_path / "file").unlink()
    record(folder, search_of(), key="a")
    assert len(files_in(folder)) == 1

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    record(folder, search_of(query="Another."), key="a")
    assert "No space left on device" in caplog.messages[1]
    assert json.loads(next(iter(folder.iterdir())).read_text())["query"] == "Go on.", (
        "what was whole stays whole"
    )
    assert len([*folder.iterdir()]) == 1


def test_what_json_has_no_form_for_is_a_text(tmp_path):
    odd = made(
        "look", arguments={"at": object, "n": float("nan"), "x": "\ud800"}, seen="x"
    )
    record(tmp_path, search_of(odd, query="\ud800"), key="a")
    [file] = files_in(tmp_path)
    assert (
        saved_module.search_in(file)["nodes"][1]["call"]["arguments"]["at"]
        == "<class 'object'>"
    )
