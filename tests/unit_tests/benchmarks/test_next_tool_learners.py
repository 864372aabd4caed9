"""The benchmark's baselines that need scikit-learn, and its report, on trajectories small enough to check by hand."""

import json

import pytest

from langchain_tooltree import Trajectory
from tests.benchmarks.next_tool_protocol import Question

pytest.importorskip(
    "sklearn", reason="scikit-learn is installed with the extra `benchmarks`"
)

from tests.benchmarks.next_tool import main
from tests.benchmarks.next_tool_learners import knn, supervised

METHODS = {
    *(
        "sitgraph",
        "w/o graph",
        "w/o weight",
        "w/o state",
        "only weight w/o efficiency",
        "w/o adapt",
    ),
    *("bigram", "trigram", "retrieval3", "knn", "supervised"),
}


def dialogue(request, *steps):
    """A user asks; then each step is a tool and what it answers."""
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": request},
    ]
    for tool, answer in steps:
        call = {
            "id": tool,
            "type": "function",
            "function": {"name": tool, "arguments": "{}"},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": tool, "content": answer})
    return messages


def trajectory(request, *steps, task="0"):
    return Trajectory.from_chat(
        dialogue(request, *steps), success=True, metadata={"task_id": task}
    )


SHIPPED = trajectory(
    "Where is my parcel?", ("find", "status shipped"), ("track", "on its way")
)
CANCELLED = trajectory(
    "Cancel my order.", ("find", "status pending"), ("cancel", "gone")
)
RUNS = [SHIPPED, CANCELLED]


def asked(request, answer):
    return Question("0", ("find",), tuple(dialogue(request, ("find", answer))), "?")


@pytest.mark.parametrize("train", [knn, supervised])
def test_the_observation_decides(train):
    rank = train([*RUNS, SHIPPED])
    assert rank(asked("Hm.", "status pending"))[0] == "cancel"
    assert rank(asked("Hm.", "status shipped"))[0] == "track"


def test_the_report_has_all_methods_caps_and_intervals(tmp_path, capsys):
    path = tmp_path / "shop.jsonl"
    rows = [
        {"reward": 1.0, "task_id": task, "messages": RUNS[task % 2].messages}
        for task in range(10)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert (
        main(
            [
                str(path),
                "--json",
                str(tmp_path / "out.json"),
                "--plot",
                str(tmp_path / "out.svg"),
            ]
        )
        == 0
    )
    assert "shop: SIT-Graph, default 100.0 %" in (tmp_path / "out.svg").read_text()
    report = json.loads((tmp_path / "out.json").read_text())
    figures = report["files"]["shop"]
    assert set(figures) == {"questions", *METHODS}
    assert figures["questions"] == 10
    for method in METHODS:
        entry = figures[method]
        assert {
            "hit1",
            "hit2",
            "hit3",
            "hit2_no_repeats",
            "intervals",
            "minus_bigram",
        } <= set(entry)
        low, high = entry["intervals"]["hit1"]
        assert low <= entry["hit1"] <= high
    assert figures["sitgraph"]["hit1"] == figures["knn"]["hit1"] == 1.0
    assert set(report["calibration"]["shop"]) == {"first", "other"}
    assert report["bootstrap"]["unit"] == "task"
    assert report["data"]["shop"] == {
        "trajectories": 10,
        "tasks": 10,
        "questions": 10,
        "questions_no_repeats": 10,
    }
    printed = capsys.readouterr().out
    assert [method for method in METHODS if method not in printed] == []
