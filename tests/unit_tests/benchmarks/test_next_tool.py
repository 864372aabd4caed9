"""The benchmark's protocol, figures and counting baselines, on trajectories small enough to check by hand."""

import hashlib
import json

import numpy as np
import pytest

from langchain_tooltree import Trajectory
from langchain_tooltree.errors import TrajectoryFormatError
from tests.benchmarks.next_tool_baselines import Bigram, trigram
from tests.benchmarks.next_tool_figures import TaskBootstrap, calibration, figures, hits
from tests.benchmarks.next_tool_graphs import graphs
from tests.benchmarks.next_tool_protocol import (
    Question,
    fold_of,
    load_successes,
    questions_in,
    splits,
    task_of,
)

USER = {"role": "user", "content": "Please."}


def calling(*tools, said=None):
    calls = [
        {
            "id": f"{place} {tool}",
            "type": "function",
            "function": {"name": tool, "arguments": "{}"},
        }
        for place, tool in enumerate(tools)
    ]
    return {"role": "assistant", "content": said, "tool_calls": calls}


def observing(text):
    return {"role": "tool", "content": text}


def trajectory(*tools, task="0", run="run", domain="shop"):
    messages = [USER]
    for tool in tools:
        messages += [calling(tool), observing(f"{tool} done")]
    return Trajectory.from_chat(
        messages, id=run, success=True, metadata={"domain": domain, "task_id": task}
    )


def question(*tools, answer="pay", task="0"):
    return Question(task, tools, (USER,), answer)


def test_every_call_after_the_first_is_a_question_with_all_that_came_before():
    asked = questions_in([trajectory("find", "buy", "buy")])
    assert [(each.tools, each.answer, each.repeats) for each in asked] == [
        (("find",), "buy", False),
        (("find", "buy"), "buy", True),
    ]
    assert asked[0].messages == (USER, calling("find"), observing("find done"))
    assert asked[0].last_tool == "find"


def test_of_parallel_calls_only_the_earlier_ones_are_seen_and_not_what_was_said_with_them():
    messages = [
        USER,
        calling("find", "look", "buy", said="I will buy it."),
        observing("found"),
        observing("seen"),
    ]
    asked = questions_in([Trajectory.from_chat(messages, success=True)])
    assert [each.answer for each in asked] == ["look", "buy"]
    assert asked[0].messages == (USER, calling("find"))
    assert asked[1].messages == (USER, calling("find", "look"))


def test_folds_go_by_the_hash_of_domain_and_task():
    folds = {
        task: int(hashlib.md5(f"shop|{task}".encode()).hexdigest(), 16) % 5  # noqa: S324
        for task in "012345"
    }
    assert {task: fold_of(trajectory("find", task=task)) for task in "012345"} == folds
    assert len(set(folds.values())) > 1


def test_each_trajectory_is_tested_once_and_never_trained_on_with_another_of_its_task():
    runs = [
        trajectory("find", "buy", task=str(task), run=f"{task}/{trial}")
        for task in range(9)
        for trial in range(2)
    ]
    folds = list(splits(runs))
    assert sorted(each.id for _, tested in folds for each in tested) == sorted(
        each.id for each in runs
    )
    for known, tested in folds:
        assert len(known) + len(tested) == len(runs)
        assert not {task_of(each) for each in known} & {
            task_of(each) for each in tested
        }


def test_only_successes_are_read_and_a_file_without_questions_is_refused(tmp_path):
    path = tmp_path / "runs.jsonl"
    two_calls = [USER, calling("find"), calling("buy")]
    rows = [
        {"reward": 1.0, "messages": two_calls},
        {"reward": 0.5, "messages": two_calls},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(load_successes(path)) == 1
    path.write_text(json.dumps({"reward": 1.0, "messages": [USER, calling("find")]}))
    with pytest.raises(
        TrajectoryFormatError,
        match=r"runs\.jsonl holds no successful trajectory with two tool calls",
    ):
        load_successes(path)


def test_the_bigram_ranks_by_count_then_name_then_by_all_calls():
    rank = Bigram(
        [
            trajectory("find", "buy"),
            trajectory("find", "ask"),
            trajectory("tell", "find", "buy", "pay"),
        ]
    )
    assert rank(question("find")) == ["buy", "ask", "find", "pay", "tell"]
    assert rank(question("never seen")) == ["find", "buy", "ask", "pay", "tell"]


def test_the_trigram_knows_the_last_two_and_falls_back_on_the_last():
    rank = trigram(
        [trajectory("find", "buy", "pay"), *[trajectory("ask", "buy", "tell")] * 2]
    )
    assert rank(question("find", "buy"))[:2] == ["pay", "tell"]
    assert rank(question("see", "buy"))[:2] == ["tell", "pay"]


def test_figures_hold_rates_with_and_without_repeats_and_differences():
    asked = [question("find", answer="pay"), question("pay", answer="pay", task="1")]
    right = {
        "graph": hits(asked, [["pay"], ["buy", "pay"]]),
        "bigram": hits(asked, [[], ["pay"]]),
    }
    graph = figures(asked, right, references=["bigram"])["graph"]
    assert (graph["hit1"], graph["hit2"], graph["hit1_no_repeats"]) == (0.5, 1.0, 1.0)
    assert (graph["minus_bigram"]["hit1"], graph["minus_bigram"]["hit2"]) == (0.0, 0.5)
    assert graph["intervals"]["hit1"] == [0.0, 1.0]
    assert graph["minus_bigram"]["intervals"]["hit1"] == [-1.0, 1.0]
    assert graph["intervals"]["hit2"] == [1.0, 1.0]


def test_intervals_are_as_wide_as_tasks_differ_however_many_questions_they_have():
    values = np.array([0.0, 1.0] * 10)
    by_question = TaskBootstrap([str(place) for place in range(20)])
    of_two_tasks = TaskBootstrap([str(place % 2) for place in range(20)])
    low, high = by_question.interval(values)
    assert 0.2 < low < 0.5 < high < 0.8
    assert of_two_tasks.interval(values) == [0.0, 1.0]


def test_the_graph_and_all_its_ablations_answer():
    runs = [trajectory("find", "buy", "pay", run=str(place)) for place in range(3)]
    methods = graphs()
    names = {
        "sitgraph",
        "w/o graph",
        "w/o weight",
        "w/o state",
        "only weight w/o efficiency",
        "w/o adapt",
    }
    assert set(methods) == names
    asked = questions_in(runs)[0]
    answers = {name: train(runs)(asked)[:1] for name, train in methods.items()}
    assert answers == {name: ["buy"] for name in names} | {"w/o graph": []}


def test_shares_that_come_true_as_often_as_they_say_have_no_calibration_error():
    found = calibration([0.75] * 4 + [1.0], [True, True, True, False, True])
    assert found == {
        "error": 0,
        "bins": [
            {"shares": 4, "said": 0.75, "came": 0.75},
            {"shares": 1, "said": 1, "came": 1},
        ],
    }
    assert calibration([0.75] * 4, [False] * 4)["error"] == 0.75
    assert calibration([0.9, 0.3], [True, False])["error"] == pytest.approx(0.2)
