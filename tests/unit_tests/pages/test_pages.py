"""Pages of graphs, runs and experience: all that they show stands in them, bounded, and no name leaves its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, SITGraph, Trajectory, write_page
from langchain_tooltree.experience.trajectory import Branch
from tests.internals.pages import check_asks_nobody, data_in

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>{data} {policy}\u202e\x00"


def run_of(tools: list[str], id: str, state: str = "", **metadata: Any) -> Trajectory:  # noqa: A002 - the field's name
    """A run that calls some tools one after the other, and sums up a `state` before each."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Task of {id}."}]
    for number, tool in enumerate(tools):
        for name in (["summarize_state"] if state else []) + [tool]:
            function = {"name": name, "arguments": json.dumps({"summary": state})}
            call = {"id": f"{number} {name}", "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": "Done."},
            ]
    return Trajectory.from_chat(messages, id=id, success=True, metadata=metadata)


def graph_page(runs: list[Trajectory], folder: Path) -> Path:
    write_page(SITGraph.from_trajectories(runs), folder / "graph.html")
    return folder / "graph.html"


def test_a_page_of_a_graph_tells_what_stands_behind_each_edge(tmp_path: Path) -> None:
    runs = [
        run_of(["find", "find", "send"], "a", "It is open."),
        run_of(["find", "send"], "b", came_from="ada"),
    ]
    file = graph_page(runs, tmp_path)
    data = data_in(file.read_text())
    names = [name for name, *_ in data["tools"]]
    edges = {(names[row[0]], names[row[1]]): row[2:] for row in data["edges"]}

    assert names[data["start"]] == ""
    assert data["tools"] == [["", 0, 0], ["find", 3, 1], ["send", 2, 2]]
    assert data["named"] == ["a", "b"]
    weight, raw, *rest = edges["find", "send"]
    assert (weight, round(raw, 1)) == (pytest.approx(2 / 3, abs=0.1), 2.7)
    assert rest == [2, 2, 2, 2, ["It is open."], 1, [[0, 1], [1, 1]]]
    assert edges["find", "find"][2:6] == [1, 1, 1, 1]
    check_asks_nobody(file.read_text())


@pytest.mark.slow
def test_runs_and_summaries_behind_an_edge_are_bounded_and_counted(
    tmp_path: Path,
) -> None:
    runs = [
        run_of(["find"], f"run {number:03}", f"State {number} " + "x" * 200_000)
        for number in range(40)
    ]
    file = graph_page(runs, tmp_path)
    (row,) = data_in(file.read_text())["edges"]

    assert row[7] == 40
    assert [place for place, _ in row[10]] == list(range(12))
    assert (len(row[8]), row[9]) == (6, 40)
    assert file.stat().st_size < 400_000


def test_no_name_of_a_tool_or_a_run_leaves_its_place(tmp_path: Path) -> None:
    file = graph_page([run_of([MARKUP, " "], MARKUP, MARKUP)], tmp_path)
    data = data_in(file.read_text())

    check_asks_nobody(file.read_text())
    assert data["edges"][0][8] == [MARKUP.replace("\x00", "\x00")]
    assert data["start"] == 0, "no other tool is taken for the start"
    assert data_in(graph_page([], tmp_path).read_text())["edges"] == []


def test_a_page_of_a_run_marks_what_was_added_what_failed_and_who_judged(
    tmp_path: Path,
) -> None:
    notes = {"anomaly": {"kind": "error", "evidence": "closed"}, "reflected": True}
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "find", "arguments": '{"at": "home"}'},
    }
    beside = {"response_metadata": {"tooltree": notes}}
    messages = [
        {"role": "user", "content": "Find it."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call],
            "langchain": {"usage_metadata": {"total_tokens": 7}},
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "name": "find",
            "content": "Closed.",
            "error": True,
            "langchain": beside,
        },
    ]
    metadata = {"recalled": {"runs": ["earlier"], "tips": ["t"]}, "came_from": "ada"}
    run = Trajectory.from_chat(
        messages, id="a", metadata=metadata, branches=[Branch("sub", 3, (messages[0],))]
    )
    run = run.judged(True, "Fine.", source="verdict").judged(
        False, "Not found.", source="user"
    )
    write_page(run, tmp_path / "run.html")
    data = data_in((tmp_path / "run.html").read_text())

    assert (data["task"], data["success"], data["by"], data["reasons"]) == (
        "Find it.",
        False,
        "user",
        "Not found.",
    )
    assert (data["from"], data["recalled"], data["tips"]) == ("ada", ["earlier"], ["t"])
    asked, reply, seen, branch = data["messages"]
    assert asked == {"part": "request", "text": "Find it."}
    assert (reply["calls"], reply["tokens"]) == (
        [{"tool": "find", "arguments": '{\n  "at": "home"\n}'}],
        7,
    )
    assert (seen["failed"], seen["reflected"]) == (True, True)
    assert (seen["anomaly"]["kind"], seen["anomaly"]["evidence"]) == ("error", "closed")
    assert (branch["part"], branch["name"], len(branch["messages"])) == (
        "branch",
        "sub",
        1,
    )
    check_asks_nobody((tmp_path / "run.html").read_text())


def test_a_run_of_any_length_has_a_page_below_a_megabyte(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": MARKUP + "x" * 30_000} for _ in range(100)
    ] + [{"role": "user", "content": "Short."}]
    run = Trajectory.from_chat(messages, id=MARKUP)
    write_page(run, tmp_path / "run.html")

    assert (tmp_path / "run.html").stat().st_size < 1_000_000
    data = data_in((tmp_path / "run.html").read_text())
    assert data["messages"][-1]["text"] == "Short.", (
        "long texts are shortened before short ones"
    )
    check_asks_nobody((tmp_path / "run.html").read_text())


def test_a_page_of_an_experience_tells_what_was_learnt_of_whom_and_of_no_other_namespace(
    tmp_path: Path,
) -> None:
    every = Experience(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    hers, his = every.within(user_id="ada"), every.within(user_id="ben")
    hers.learn(
        run_of(["find", "send"], "good", came_from="phone").judged(
            True, "Sent.", source="verdict"
        )
    )
    hers.learn(run_of(["find"], "bad", pending=1.0).judged(None))
    hers.learn(run_of(["guess"], "back", came_from="mail"))
    hers.label("good", success=False, reasons="It was late.")
    hers.rollback(source="mail")
    his.learn(run_of(["secret_tool"], "secret run"))
    write_page(hers, tmp_path / "hers.html")
    data = data_in((tmp_path / "hers.html").read_text())
    runs = {run["id"]: run for run in data["runs"]}

    assert data["name"] == "Namespace tooltree / ada"
    assert "secret" not in (tmp_path / "hers.html").read_text(encoding="utf-8")
    assert {run: told["outcome"] for run, told in runs.items()} == {
        "good": "failure",
        "bad": "pending",
        "back": "quarantined",
    }
    assert (runs["good"]["by"], runs["good"]["from"], runs["good"]["reasons"]) == (
        "user",
        "phone",
        "It was late.",
    )
    assert runs["good"]["tools"] == "find → send"
    assert (
        next(each["text"] for each in runs["back"]["messages"] if "text" in each)
        == "Task of back."
    )
    assert data["status"]["runs"] == 3
    assert [run for run in data["runs"] if not run["kept"]] == []
    check_asks_nobody((tmp_path / "hers.html").read_text())


@pytest.mark.slow
def test_a_page_of_many_long_runs_is_bounded(tmp_path: Path) -> None:
    experience = Experience(InMemoryStore(), namespace=("tooltree",))
    for number in range(110):
        messages = [
            {"role": "user", "content": f"Task {number}. {MARKUP} " + "x" * 400}
            for _ in range(30)
        ]
        experience.store.add(Trajectory.from_chat(messages, id=f"run {number:03}"))
    write_page(experience, tmp_path / "experience.html")
    runs = data_in((tmp_path / "experience.html").read_text())["runs"]

    assert sum("messages" in run for run in runs) == 100
    assert len(runs) == 110
    assert (tmp_path / "experience.html").stat().st_size < 1_200_000
    check_asks_nobody((tmp_path / "experience.html").read_text())


def test_what_cannot_be_read_or_is_long_keeps_no_other_run_out_of_a_page(
    tmp_path: Path,
) -> None:
    store = InMemoryStore()
    experience = Experience(store, namespace=("tooltree",))
    for run in ("read", "damaged"):
        experience.store.add(run_of(["find"], run))
    store.put(("tooltree", "trajectories"), "damaged", {"record": "{cut off"})
    talk = [
        {"role": ("user", "assistant")[number % 2], "content": "And then?"}
        for number in range(3_001)
    ]
    experience.store.add(Trajectory.from_chat(talk, id="long"))
    write_page(experience, tmp_path / "experience.html")
    data = data_in((tmp_path / "experience.html").read_text())

    assert {run["id"]: "messages" in run for run in data["runs"]} == {
        "read": True,
        "long": True,
    }
    assert data["left_out"] == 1
