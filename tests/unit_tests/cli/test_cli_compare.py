"""`compare` and `doctor`: the same agent, plain and planned, on tasks of one's own."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langsmith.utils import LangSmithError

from langchain_tooltree import ChromaStore, ConfigurationError, Experience, Trajectory
from langchain_tooltree.cli import main
from langchain_tooltree.cli.compare import (
    ADOPT,
    CHECKS,
    REJECT,
    UNCERTAIN,
    Comparison,
    Journal,
    Run,
    TrialTask,
    check_of,
    load_tasks,
    paired_difference,
    recommendation,
)
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.pages import data_in

AGENT = '''
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from cookbook.offline_model import OfflineChatModel
from cookbook.offline_model import read_question

PLACES = {"desk": "key", "drawer": "letter", "attic": "lamp"}
made = []


@tool
def look(place: str) -> str:
    """Look at a place."""
    return PLACES.get(place, "nothing")


@tool
def get_places() -> str:
    """Name all places."""
    return ", ".join(PLACES)


class Policy:
    """Looks at the desk and stops; when asked for more, it looks elsewhere."""

    def wanted(self, question):
        return question.request.split()[-1].strip("?")

    def finds(self, question):
        return [each.arguments["place"] for each in question.path if each.observation == self.wanted(question)]

    def act(self, question):
        return [] if question.path else [("look", {"place": "desk"})]

    def propose(self, question):
        seen = [each.arguments["place"] for each in question.path]
        return [("look", {"place": place}) for place in PLACES if place not in seen]

    def score_call(self, question, call):
        return 0.9 if PLACES[call.arguments["place"]] == self.wanted(question) else 0.2

    def score_observation(self, question, call):
        return (0.9, 0.9) if call.observation == self.wanted(question) else (0.2, 0.1)

    def missing(self, question):
        return [] if self.finds(question) else ["find it"]

    def answer(self, question):
        return f"In the {self.finds(question)[0]}." if self.finds(question) else "I do not know."


class Model(OfflineChatModel):
    def _respond(self, messages, tools):
        question, _ = read_question(messages, tools)
        if question.kind == "answer" and tools and not question.path:
            return AIMessage("", tool_calls=[{"name": "look", "args": {"place": "desk"}, "id": "call_1"}])
        return super()._respond(messages, tools)


def build(create):
    made.append(create)
    return create(Model(policy=Policy()), [look, get_places], effects={"look": "read"})


def broken(create):
    raise OSError("no world")


def shaky(create):
    made.append(create)
    return broken(create) if len(made) == 1 else build(create)


def none(create):
    return None


def near(*, inputs, outputs, reference_outputs):
    return {"key": "near", "score": 0.8 * (reference_outputs in outputs)}


async def odd(**_):
    return "good"
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delitem(sys.modules, "little_agent", raising=False)
    Path("little_agent.py").write_text(AGENT)
    places = [("key", "desk"), ("letter", "drawer"), ("lamp", "attic")] * 4
    lines = [
        {"id": f"t{at}", "input": f"Where is the {thing}?", "expected": place}
        for at, (thing, place) in enumerate(places)
    ]
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))


def compare(capsys, *options, agent="little_agent:build"):
    code = main(["compare", "tasks.jsonl", "--agent", agent, *options])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.slow
def test_the_planner_is_adopted_where_it_solves_more(capsys):
    options = (
        "--yes",
        "--price",
        "1",
        "2",
        "--pages",
        "searches",
        "--html",
        "report.html",
    )
    code, shown, _ = compare(capsys, *options)
    assert code == ADOPT
    assert "21 more runs: about" in shown
    assert (
        "received, $0.01, in about 1 min, by what 3 runs of the plain agent took."
        in " ".join(shown.split())
    )
    assert (
        "planner against the plain agent: 8 tasks gained, 0 lost (p = 0.0078), +"
        in shown
    )
    assert (
        "Adopt the planner: it solves more (+67% of the tasks, 95 % interval +25% to +90%)."
        in shown
    )
    pages = {path.name for path in Path("searches").glob("*.html")}
    assert len(pages) == len(list(Path("searches").glob("*.json"))) == 8
    assert f"The search of 'Where is the letter?': searches/{min(pages)[:8]}" in shown
    data = data_in(Path("report.html").read_text())
    assert data["verdicts"][0].startswith("Adopt the planner")
    assert {Path(row["page"]).name for row in data["unsolved"]} == pages
    assert data["unsolved"][0]["answer"] == "In the drawer."
    assert (
        compare(capsys, *options)[0] == ADOPT
    )  # the same runs, and their report again
    assert (
        "is there already" in compare(capsys, *options, "--journal", "another.jsonl")[2]
    )


@pytest.mark.slow
def test_it_goes_on_from_its_journal_and_runs_nothing_twice(capsys):
    compare(capsys, "--yes", "--limit", "4")
    made = sys.modules["little_agent"].made
    assert len(made) == 8
    journal = Path("tasks.compare.jsonl")
    text = journal.read_text().splitlines()
    journal.write_text(
        "\n".join([*text[:-1], text[-1][:20]])
    )  # the process was killed as it wrote
    code, shown, _ = compare(capsys, "--yes", "--json")
    report = json.loads(shown)
    assert (code, report["tasks"], report["agents"]["planner"]["solved"]) == (
        ADOPT,
        12,
        12,
    )
    assert len(made) == 8 + 16 + 1
    compare(capsys, "--yes")
    assert len(made) == 25
    assert (
        "was begun with other settings"
        in compare(capsys, "--yes", "--check", "exact")[2]
    )


def test_a_model_judges_and_its_calls_are_in_the_estimate(capsys, monkeypatch):
    judge = ScriptedChatModel(replies=[{"reason": "Fine.", "right": True}] * 8)
    monkeypatch.setattr("langchain_tooltree.cli.compare.model_named", lambda _: judge)
    code, shown, _ = compare(capsys, "--yes", "--limit", "4", "--judge", "some:judge")
    assert code == UNCERTAIN
    assert "5 calls of the judge come on top" in shown
    asked = "\n".join(call[-1].content for call in judge.calls)
    assert '"task":"Where is the key?","expected":"desk"' in asked


@pytest.mark.slow
def test_somebody_is_asked_whether_to_go_on(capsys, monkeypatch):
    answers = iter(["", "y"])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda *_: next(answers))
    code, shown, told = compare(capsys, "--limit", "4")
    assert (code, told) == (
        2,
        "Stopped. The same command goes on from tasks.compare.jsonl.\n",
    )
    assert shown.endswith("Go on? [y/N] ")
    assert compare(capsys, "--limit", "4")[0] == UNCERTAIN


@pytest.mark.slow
def test_experience_makes_a_third_agent_that_learns_from_each_task(capsys):
    pytest.importorskip("chromadb")
    options = ("--yes", "--limit", "6", "--check", "little_agent:near")
    compare(capsys, *options)
    before = len(sys.modules["little_agent"].made)
    code, shown, _ = compare(capsys, *options, "--experience", "store")
    assert code == UNCERTAIN
    assert (
        len(sys.modules["little_agent"].made) == before + 6
    )  # what is finished is not run again
    assert "Not enough tasks to tell whether the planner with experience helps" in shown
    with ChromaStore("store") as store:
        assert Experience(store, namespace=("compare",)).status().successes == 6


@pytest.mark.slow
def test_a_run_that_raises_is_not_solved_and_is_made_again_by_the_same_command(capsys):
    code, shown, _ = compare(
        capsys, "--yes", "--limit", "6", agent="little_agent:shaky"
    )
    assert code == UNCERTAIN
    assert "Error in t0 (plain agent): OSError: no world" in shown
    code, shown, _ = compare(
        capsys, "--yes", "--limit", "6", agent="little_agent:shaky"
    )
    assert "no world" not in shown
    assert len(sys.modules["little_agent"].made) == 25


def test_an_agent_that_always_raises_stops_the_comparison_at_once(capsys):
    code, _, told = compare(capsys, "--yes", agent="little_agent:broken")
    assert code == 2
    assert (
        told
        == "The plain agent has raised in each of its first 3 tasks: OSError: no world\n"
    )


@pytest.mark.parametrize(
    ("options", "agent", "problem"),
    [
        (
            (),
            "little_agent:build",
            "Nobody is there to be asked whether to go on; pass --yes",
        ),
        (("--yes",), "little_agent:other", "cannot be imported"),
        (("--yes",), "broken_agent:build", "cannot be imported: RuntimeError: no key"),
        (("--yes",), "little_agent", "Write MODULE:NAME"),
        (
            ("--yes", "--check", "json"),
            "little_agent:build",
            "needs an object of fields",
        ),
        (
            ("--yes", "--check", "little_agent:odd"),
            "little_agent:build",
            "The check returned 'good' for 't",
        ),
        (
            ("--yes", "--limit", "0"),
            "little_agent:build",
            "--limit must be a whole number of 1 or more",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    capsys, monkeypatch, options, agent, problem
):
    Path("broken_agent.py").write_text("raise RuntimeError('no key')")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, _, told = compare(capsys, *options, agent=agent)
    assert code == 2
    assert problem in told


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2 is no task .*Invalid JSON"),
        ('{"question": "?"}', 'line 2 is no task .*with an "input"'),
        ('{"input": 7}', "line 2"),
    ],
)
def test_a_line_that_is_no_task_is_named(line, problem):
    Path("bad.jsonl").write_text('{"input": "a"}\n' + line)
    with pytest.raises(ConfigurationError, match=problem):
        load_tasks("bad.jsonl")


def test_a_line_ends_where_json_lines_end(tmp_path):
    text = "two\u2028lines\x85of one text"
    (tmp_path / "tasks.jsonl").write_text(
        json.dumps({"input": text}, ensure_ascii=False) + "\r\n", encoding="utf-8"
    )
    [task] = load_tasks(str(tmp_path / "tasks.jsonl"))
    assert task.input == text
    Journal(tmp_path / "journal", {}).add(
        Run(task=task.id, version=task.version, agent="planner", answer=text)
    )
    assert Journal(tmp_path / "journal", {}).of(task, "planner").answer == text
    (tmp_path / "latin").write_bytes(b'{"input": "\xe9"}')
    with pytest.raises(ConfigurationError, match="latin is not written in UTF-8"):
        load_tasks(str(tmp_path / "latin"))


async def test_a_run_of_an_earlier_process_is_judged_by_its_task():
    tasks = [
        TrialTask(id="t", input="?", expected="yes"),
        TrialTask(id="t1", input="?", expected="no"),
    ]
    comparison = Comparison(None, check_of("exact", tasks), None, None, tasks=tasks)
    run = Trajectory.from_messages(
        [HumanMessage("?"), AIMessage("yes")], id="t planner with experience 1a2b3c4d"
    )
    assert await comparison.verdict(run) is True
    assert await comparison.verdict(replace(run, id="another")) is None


def test_a_dataset_of_langsmith_is_a_list_of_tasks(monkeypatch):
    def examples(_, *, dataset_name):
        for number, (inputs, outputs) in enumerate(datasets[dataset_name]):
            yield SimpleNamespace(id=number, inputs=inputs, outputs=outputs)

    messages = [{"role": "user", "content": "Where?"}]
    two = {"city": "Oslo", "day": 1}
    datasets = {
        "desk": [
            ({"question": "Who?"}, {"answer": "Ada"}),
            ({"messages": messages, "k": 1}, two),
            (two, None),
        ]
    }
    monkeypatch.setattr("langsmith.Client.list_examples", examples)
    assert [
        (task.id, task.input, task.expected) for task in load_tasks("langsmith:desk")
    ] == [
        ("0", "Who?", "Ada"),
        ("1", messages, two),
        ("2", '{"city":"Oslo","day":1}', None),
    ]
    monkeypatch.setattr(
        "langsmith.Client.list_examples",
        lambda *_, **__: (_ for _ in ()).throw(LangSmithError("no")),
    )
    with pytest.raises(
        ConfigurationError, match=r"'desk' cannot be read .*LANGSMITH_API_KEY"
    ):
        load_tasks("langsmith:desk")


def test_tasks_have_ids_of_their_own():
    Path("two.jsonl").write_text('{"input": "a"}\n{"input": "a"}')
    with pytest.raises(ConfigurationError, match="are the same"):
        load_tasks("two.jsonl")
    Path("none.jsonl").write_text("\n")
    with pytest.raises(ConfigurationError, match="no task in"):
        load_tasks("none.jsonl")


@pytest.mark.parametrize(
    ("check", "expected", "answer", "score"),
    [
        ("contains", "Oslo", "It is  OSLO.", 1),
        ("contains", ["Oslo", "Lyon"], "Oslo and Bergen", 0),
        ("contains", 42, "It is 42.", 1),
        ("contains", 42, "It is R-420, or 42.5, or 1.42.", 0),
        ("exact", "It is Oslo", " it is  oslo ", 1),
        ("exact", "Oslo", "Oslo.", 0),
        ("json", {"city": "Oslo"}, '{"city": "Oslo", "nights": 2}', 1),
        ("json", {"city": "Oslo"}, "Oslo", 0),
    ],
)
def test_checks(check, expected, answer, score):
    assert CHECKS[check](outputs=answer, reference_outputs=expected) == score


def test_differences_by_hand():
    # n = 12, gained 8, lost 0: p12 = 9 / 14, p21 = 1 / 14; p = 2 / 2^8
    found = paired_difference(12, 8, 0)
    assert found[:4] == (12, 8, 0, pytest.approx(2 / 3))
    assert (found.low, found.high, found.p) == pytest.approx(
        (0.2452, 0.8976, 2 / 256), abs=1e-4
    )
    assert paired_difference(10, 3, 3).p == 1.0
    # gained 9, lost 1: p = 2 * (1 + 10) / 2^10
    assert paired_difference(30, 9, 1).p == pytest.approx(22 / 1024)


@pytest.mark.parametrize(
    ("paired", "failed", "code", "words"),
    [
        (paired_difference(12, 8, 0), 8, ADOPT, "Adopt it"),
        (paired_difference(12, 0, 8), 2, REJECT, "solves fewer"),
        (paired_difference(400, 4, 4), 9, REJECT, "solves hardly more"),
        (
            paired_difference(6, 4, 0),
            5,
            UNCERTAIN,
            "at this rate it takes about 3 more",
        ),
        (paired_difference(10, 5, 0), 6, UNCERTAIN, "but p = 0.062 in the exact test"),
        (paired_difference(6, 0, 0), 1, UNCERTAIN, "it takes about 50 more"),
        (paired_difference(6, 0, 0), 0, UNCERTAIN, "Add tasks in which it fails"),
    ],
)
def test_verdicts(paired, failed, code, words):
    assert paired.code == code
    assert words in recommendation(paired, "it", failed=failed)


def test_a_file_that_is_no_journal_is_left_alone(tmp_path):
    (tmp_path / "notes").write_text("my notes")
    with pytest.raises(ConfigurationError, match="is no journal"):
        Journal(tmp_path / "notes", {})
    assert (tmp_path / "notes").read_text() == "my notes"
    journal = Journal(tmp_path / "new", {"a": 1})
    task = TrialTask(id="t", input="?")
    journal.add(
        Run(task="t", version=task.version, agent="planner", answer="x" * 10_000)
    )
    journal = Journal(tmp_path / "new", {"a": 1})
    assert len(journal.of(task, "planner").answer) < 5_000
    assert (
        journal.of(TrialTask(id="t", input="?", expected="edited"), "planner") is None
    )


def test_doctor_says_what_a_search_could_do(capsys):
    assert main(["doctor", "little_agent:build"]) == 1
    shown = capsys.readouterr().out
    assert "At a doubt, a search can try 1 of 2 tools: look." in shown
    assert 'effects={"get_places": "read"}' in shown
    assert "Checkpointer: no, so a run that is killed starts over" in shown
    assert main(["doctor", "little_agent:build", "--json"]) == 1
    tools = json.loads(capsys.readouterr().out)["tools"]
    assert tools[0] == {
        "tool": "look",
        "declared": "read",
        "looks_like": "a read",
        "may_run": "yes",
    }
    assert main(["doctor", "little_agent:none"]) == 2
    assert "has not made its agent" in capsys.readouterr().err


def test_doctor_has_advice_on_tools_that_cannot_or_should_not_be_tried(capsys):
    Path("odd_agent.py").write_text(ODD_AGENT)
    assert main(["doctor", "odd_agent:build", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {
        row["tool"]: (row["looks_like"], row["may_run"]) for row in report["tools"]
    } == {
        "delete_order": ("a write", "yes"),
        "find_order": ("a read", "no: return_direct"),
        "orders": ("a read", "no"),
    }
    advice = " ".join(report["advice"])
    for part in (
        "delete_order is declared read-only, and looks like a write",
        '"orders": "read"',
        "ProviderStrategy",
    ):
        assert part in advice
    assert main(["doctor", "odd_agent:build"]) == 1
    assert "a search can try 1 of 3 tools: delete_order." in capsys.readouterr().out
    assert report["checkpointer"]
    assert report["middleware"] == ["ModelCallLimitMiddleware"]
    assert main(["doctor", "odd_agent:broken"]) == 2
    assert capsys.readouterr().err.startswith(
        "The agent cannot be made (ValueError: no key). Does it need a key"
    )


ODD_AGENT = """
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree.testing import ScriptedChatModel


@tool
def delete_order(number: str) -> str:
    "Delete an order."


@tool(return_direct=True)
def find_order(number: str) -> str:
    "Find an order."


@tool
def orders() -> str:
    "All orders."


orders.metadata = {"readOnlyHint": True}


def build(create):
    return create(
        ScriptedChatModel(),
        [delete_order, find_order, orders],
        effects={"delete_order": "read", "find_order": "read"},
        middleware=[ModelCallLimitMiddleware(run_limit=9)],
        checkpointer=InMemorySaver(),
        response_format=ProviderStrategy({"title": "Answer", "type": "object", "properties": {}}),
    )


def broken(create):
    raise ValueError("no key")
"""
