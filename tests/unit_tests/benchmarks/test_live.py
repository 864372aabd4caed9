"""The live benchmark's command, over a made-up bench with scripted models: nothing is downloaded, nothing is asked."""

import json
import sys
from io import StringIO

import live_desk
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from rich.console import Console

from cookbook.offline_model import OfflineChatModel, read_question
from langchain_tooltree import ObjectSandbox
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.live import __main__ as command
from tests.benchmarks.live.figures import paired, summary, wilson
from tests.benchmarks.live.papers import PAPERS
from tests.benchmarks.live.runs import TaskRun, read_journal


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "live_desk", live_desk)


@pytest.fixture
def live(tmp_path, monkeypatch):
    """The command with replies for a model; returns its exit code, what it printed, and the model."""
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(map(json.dumps, live_desk.TASKS)))

    def run(replies, *options, method="react", yes=True, model=None):
        model = model or ScriptedChatModel(replies=replies)
        monkeypatch.setattr(command, "init_chat_model", lambda name, **settings: model)
        fixed = [
            "--bench",
            "files",
            "--file",
            str(tasks),
            "--model",
            "scripted:it",
            "--method",
            method,
        ]
        printed = StringIO()
        console = Console(file=printed, width=200)
        code = command.main(
            [*fixed, *(["--yes"] if yes else []), *map(str, options)], console
        )
        return code, printed.getvalue(), model

    return run


def test_the_plain_agent_solves_the_tasks_turn_by_turn(live, tmp_path):
    code, printed, model = live(
        live_desk.everything(),
        "--json",
        tmp_path / "out.json",
        "--journal",
        tmp_path / "j",
    )
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert (code, figures["success"], figures["tasks"], figures["errors"]) == (
        0,
        1.0,
        4,
        0,
    )
    assert figures["calls"] == {"agent": 2.5}
    assert figures["input_tokens"] > 0 < figures["output_tokens"]
    assert "4 of 4 tasks" in printed
    assert "solved  pen" in printed
    assert model.calls[0][0].text == "You keep a desk."
    _, runs = read_journal(tmp_path / "j")
    (first,) = [run for run in runs if run.id == "pen"]
    assert [message["role"] for message in first.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ] * 2


def test_the_planner_searches_in_forks_and_its_writes_reach_the_real_desk(
    live, tmp_path, monkeypatch
):
    replies, forks = live_desk.everything(live_desk.REPORT), []
    fork = ObjectSandbox.fork
    monkeypatch.setattr(
        ObjectSandbox, "fork", lambda sandbox: forks.append(sandbox) or fork(sandbox)
    )
    code, _, model = live(
        replies,
        "--json",
        tmp_path / "out.json",
        "--journal",
        tmp_path / "j",
        method="tooltree",
    )
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert (code, figures["success"], figures["model calls"]) == (0, 1.0, 2.5)
    assert len(model.calls) == len(replies)
    assert len(forks) >= 5  # one for each call that was tried
    (first,) = [run for run in read_journal(tmp_path / "j")[1] if run.id == "pen"]
    seen = [
        each.text for each in first.finished.messages if isinstance(each, ToolMessage)
    ]
    assert seen == ["The drawer holds pen.", "pen"]
    assert first.finished.messages[-1].text == "The pen is in it."


def test_a_later_start_goes_on_where_it_stopped(live, tmp_path):
    journal = tmp_path / "journal.jsonl"
    live(live_desk.putting("key"), "--task", "key", "--journal", journal)
    with journal.open("a") as file:
        file.write('{"id": "map", "succ')  # cut off by the end of the process
    code, printed, model = live(
        live_desk.putting("cup"), "--task", "key", "--task", "cup", "--journal", journal
    )
    assert code == 0
    assert "1 of 2 tasks" in printed
    assert len(model.calls) == 2
    assert [run.id for run in read_journal(journal)[1]] == ["key", "cup"]
    code, printed, model = live(
        [], "--task", "key", "--task", "cup", "--journal", journal
    )
    assert (code, model.calls) == (0, [])
    assert "2 tasks" in printed


def test_a_failure_is_named_counts_as_failed_and_can_be_redone(live, tmp_path):
    broken = ConnectionError("the line is dead")
    options = [
        "--task",
        "key",
        "--task",
        "map",
        "--journal",
        tmp_path / "j",
        "--json",
        tmp_path / "out.json",
    ]
    code, printed, _ = live([broken, *live_desk.putting("map")], *options)
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert (code, figures["success"], figures["errors"]) == (0, 0.5, 1)
    assert "error in key: ConnectionError: the line is dead" in printed
    code, printed, _ = live(live_desk.putting("key"), *options, "--retry-failed")
    assert code == 0
    assert "1 of 2 tasks" in printed
    assert {run.id: run.success for run in read_journal(tmp_path / "j")[1]} == {
        "key": True,
        "map": True,
    }


def test_nothing_starts_unasked(live):
    code, printed, model = live([], "--price", 2, 8, yes=False)
    assert (code, model.calls) == (2, [])
    # 4 tasks of 4 calls with 1,500 tokens sent and 80 received: 24,000 at 2 dollars a million, 1,280 at 8.
    assert (
        "about 16 model calls, 24,000 tokens sent and 1,280 received, $0.06" in printed
    )
    assert "--yes" in printed


def test_runs_are_compared_task_by_task(live, tmp_path):
    live(live_desk.everything(), "--json", tmp_path / "react.json")
    wrong = [live_desk.calling("look"), "I looked."]
    code, printed, _ = live(
        [*live_desk.everything()[:4], *live_desk.putting("key"), *wrong, *wrong],
        *("--against", tmp_path / "react.json", "--json", tmp_path / "out.json"),
    )
    against = json.loads((tmp_path / "out.json").read_text())["against"]
    assert (code, against["tasks"], against["success"]["difference"]) == (0, 4, -0.5)
    assert against["success"]["low"] < -0.5 < against["success"]["high"]
    assert "Paired differences to react" in printed


class DeskModel(OfflineChatModel):
    """Puts away what it is asked to, whoever asks: an agent, a search, a judge or a memory."""

    def _respond(self, messages, tools):
        question, _ = read_question(messages, tools)
        calls = (
            self.policy.propose(question) if question.kind == "answer" and tools else []
        )
        if calls:
            return AIMessage(
                "",
                tool_calls=[
                    {"name": n, "args": a, "id": f"call_{len(messages)}"}
                    for n, a in calls
                ],
            )
        return super()._respond(messages, tools)


class DeskPolicy:
    def propose(self, question):
        thing = question.request.split()[2]
        return [] if question.path or thing == "in" else [("put", {"thing": thing})]

    def score_call(self, *_):
        return 0.9

    def score_observation(self, *_):
        return 0.9, 0.9

    def answer(self, _):
        return "Done."


@pytest.mark.parametrize("paper", PAPERS)
def test_one_command_runs_a_papers_system_beside_its_baselines(live, tmp_path, paper):
    model = DeskModel(policy=DeskPolicy())
    tasks = [option for name in ("key", "map") for option in ("--task", name)]
    named = [
        "--paper",
        paper,
        "--journal",
        tmp_path / "j.jsonl",
        "--json",
        tmp_path / "out.json",
    ]
    code, printed, _ = live([], *tasks, *named, model=model)
    found = json.loads((tmp_path / "out.json").read_text())
    arms = [arm.name for arm in PAPERS[paper].arms]
    assert (code, [*found["arms"]], [*found["against"]]) == (0, arms, arms[:-1])
    assert {arm["success"] for arm in found["arms"].values()} == {1.0}
    assert {arm["errors"] for arm in found["arms"].values()} == {0}
    assert {pair["tasks"] for pair in found["against"].values()} == {2}
    assert all(arm in printed for arm in (*arms, "Otherwise than in the paper"))
    code, printed, _ = live(
        [], *tasks, *named, model=model
    )  # each arm goes on from a journal of its own
    assert (code, printed.count("0 of 2 tasks")) == (0, len(arms))


def test_figures_by_hand():
    # Wilson, 8 of 10: the textbook's 0.490 to 0.943.
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=1e-3)
    runs = [
        TaskRun(id=str(n), success=n > 0, score=0.5, calls={"agent": n, "user": 7})
        for n in range(4)
    ]
    figures = summary(runs)
    assert (figures["success"], figures["model calls"], figures["calls"]) == (
        0.75,
        1.5,
        {"agent": 1.5, "user": 7.0},
    )
    others = [
        TaskRun(id=str(n), success=False, score=0.0, calls={"agent": 1})
        for n in range(1, 9)
    ]
    found = paired(runs, others)
    assert (
        found["tasks"],
        found["success"]["difference"],
        found["model calls"]["difference"],
    ) == (3, 1.0, 1.0)
    assert paired(runs, []) == {"tasks": 0}
