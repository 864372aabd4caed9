"""Recordings of what a model was asked and answered: the format, and the replay of those that are kept."""

from pathlib import Path

import live_desk
import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.live.bench_files import FileTask
from tests.benchmarks.live.cassette import RecordedMethod, Recorder, read_cassette
from tests.benchmarks.live.cassette_tasks import NOT_RECORDED, recorded_tasks
from tests.benchmarks.live.episode import Setting
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import CallCounter, converse, run_task

KEPT = sorted(
    Path(__file__).parents[2].joinpath("recorded_answers").glob("bfcl*.jsonl")
)

PEN = live_desk.TASKS[0]
TASK = FileTask(
    id="pen",
    turns=tuple(PEN["turns"]),
    tools=live_desk.make_desk,
    check=live_desk.is_put_away,
    entry=PEN,
)


def record(path, method="react", report="", *, first=()):
    model = ScriptedChatModel(replies=[*first, *live_desk.everything(report)[:4]])
    recorder = Recorder(path, {"method": method})
    model.callbacks = [recorder]
    return converse(TASK, METHODS[method][0], Setting(model=model), None, recorder)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.jsonl"


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
@pytest.mark.parametrize("method", ["react", "tooltree"])
def test_what_real_models_answered_still_solves_what_it_solved(file, method):
    model = RecordedMethod(path=file, method=method)
    tasks = recorded_tasks(file, method)
    for task in tasks:
        counter = CallCounter()
        model.callbacks = [counter]
        left = len(model.left)
        run = run_task(task, METHODS[method][0], Setting(model=model), None, [counter])
        assert model.unmatched == []
        assert (run.error, run.success, run.detail) == (
            None,
            task.outcome.success,
            task.outcome.detail,
        ), task.id
        assert run.model_calls == left - len(model.left) == task.model_calls, task.id
    assert tasks
    assert (
        model.left == []
    )  # all answers were of use: none had to be asked for again, and none was left aside


@pytest.mark.parametrize(
    ("method", "report"), [("react", ""), ("tooltree", live_desk.REPORT)]
)
def test_a_recorded_run_is_replayed_with_its_tools_and_without_them(
    path, method, report
):
    messages, outcome = record(path, method, report)
    assert outcome.success
    for task in (TASK, *recorded_tasks(path, method)):
        model = RecordedMethod(path=path, method=method)
        again, same = converse(task, METHODS[method][0], Setting(model=model), None)
        assert same == outcome
        assert [message.text for message in again] == [
            message.text for message in messages
        ]
        assert (model.left, model.unmatched) == ([], [])


def test_other_calls_than_recorded_have_no_result_and_no_success(path):
    record(path)
    (task,) = recorded_tasks(path, "react")
    model = ScriptedChatModel(
        replies=[live_desk.calling("put", thing="cat"), "Done.", "Nothing."]
    )
    messages, outcome = converse(task, METHODS["react"][0], Setting(model=model), None)
    assert messages[2].text == NOT_RECORDED
    assert (outcome.success, outcome.detail) == (False, "other calls than recorded")


def test_a_task_that_did_not_end_is_left_out_and_may_be_recorded_again(path):
    model = ScriptedChatModel(
        replies=[*live_desk.everything()[:3], ConnectionError("dead")]
    )
    recorder = Recorder(path, {"method": "react"})
    model.callbacks = [recorder]
    run = run_task(TASK, METHODS["react"][0], Setting(model=model), None, [], recorder)
    assert run.error == "ConnectionError: dead"
    assert read_cassette(path, "react") == ([], [])
    record(path)
    requests, runs = read_cassette(path, "react")
    assert (len(requests), len(runs), len(runs[0].turns)) == (4, 1, 2)


def test_equal_requests_are_answered_in_the_order_of_recording(path):
    recording = ScriptedChatModel(
        replies=["one", "two"], callbacks=[Recorder(path, {"method": "m"})]
    )
    for _ in range(2):
        recording.invoke([SystemMessage("Count."), HumanMessage("Next!")])
    model = RecordedMethod(path=path, method="m")
    said = [
        model.invoke([SystemMessage(f"Do count, {n}."), HumanMessage("Next!")]).text
        for n in range(2)
    ]
    assert said == ["one", "two"]
