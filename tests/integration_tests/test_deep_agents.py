"""The planner inside `create_deep_agent`, among its file tools, todos and subagents."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import THREAD, Witness, invoke
from conversations import check_conversation, outline
from deepagents import create_deep_agent
from deepagents.backends.utils import create_file_data, file_data_to_string
from langchain.agents.middleware import TodoListMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from travel import BOOKING, EFFECTS, Agency, asking, travel_model

from langchain_tooltree import ToolTreeMiddleware
from langchain_tooltree.testing import Made, OfflineChatModel, Question

Offer = tuple[str, dict[str, Any]]

CONFIG: Any = {**THREAD, "recursion_limit": 40}
"""An agent that repeats itself is to fail, not to hang: that of deep agents is ten thousand."""

FILE_READS: dict[str, Any] = dict.fromkeys(("ls", "glob", "grep"), "read")

NOTES = {"/notes.txt": create_file_data("Oslo is cold.")}

READ_NOTES: Offer = ("read_file", {"file_path": "/notes.txt"})

DETOURS: list[Offer] = [
    ("write_file", {"file_path": "/junk.txt", "content": "junk"}),
    ("edit_file", {"file_path": "/notes.txt", "old_string": "cold", "new_string": "hot"}),
    ("delete", {"file_path": "/notes.txt"}),
]
"""Writes that a model may well think of, and that the judge finds poor."""


@dataclass(frozen=True)
class Errand:
    """Knows the steps of one errand, and offers detours beside them."""

    steps: Sequence[Offer]
    detours: Sequence[Offer] = field(default_factory=list)

    def propose(self, question: Question) -> list[Offer]:
        """The next step first."""
        done = self._done(question.path)
        return [self.steps[done], *self.detours] if done < len(self.steps) else []

    def score_call(self, question: Question, call: Made) -> float:
        """High for the next step."""
        return 0.9 if self._done((*question.path, call)) > self._done(question.path) else 0.4

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High for a step that worked; the goal is reached with the last."""
        done = self._done((*question.path, call))
        failed = "Error" in (call.observation or "")
        if failed or done == self._done(question.path):
            return 0.45, 0.1
        return 0.9, 0.9 if done == len(self.steps) else 0.3

    def answer(self, question: Question) -> str:
        """What was seen on the way."""
        return "; ".join(str(made.observation) for made in question.path)

    def _done(self, path: Sequence[Made]) -> int:
        done = 0
        for made in path:
            done += done < len(self.steps) and (made.tool, made.arguments) == self.steps[done]
        return done


def deep_agent(errand: Errand, *, effects: Any = FILE_READS, middleware: Sequence[Any] = (), **options: Any) -> Any:
    """A deep agent that plans with the middleware's defaults."""
    model = OfflineChatModel(policy=errand)
    planner = ToolTreeMiddleware(effects=effects)
    return create_deep_agent(model, middleware=[*middleware, planner], checkpointer=InMemorySaver(), **options)


def tried(witness: Witness) -> set[str]:
    """Names of the tools that were run while searching."""
    return {event["call"].partition("(")[0] for event in witness.of("execute")}


def contents(state: Any) -> dict[str, str]:
    """The files of an agent's state as text."""
    return {path: file_data_to_string(data) for path, data in state["files"].items()}


def test_files_are_searched_while_planning_and_written_by_the_agent_alone(path: str) -> None:
    report = ("write_file", {"file_path": "/report.txt", "content": "It is cold."})
    steps = [("ls", {"path": "/"}), ("grep", {"pattern": "Oslo"}), report]
    witness = Witness()
    agent = deep_agent(Errand(steps, DETOURS))

    state = invoke(agent, {**asking("Report on Oslo."), "files": NOTES}, {**CONFIG, "callbacks": [witness]}, path=path)

    plan = [f"{what} {name}" for name, _ in steps for what in ("call", "result")]
    assert outline(check_conversation(state["messages"])) == ["human", *plan, "answer"]
    assert "/notes.txt" in state["messages"][4].text
    assert contents(state) == {"/notes.txt": "Oslo is cold.", "/report.txt": "It is cold."}
    assert tried(witness) == {"ls", "grep"}


def test_a_file_may_be_read_while_planning_though_reading_one_may_end_in_a_command(path: str) -> None:
    witness = Witness()
    agent = deep_agent(Errand([READ_NOTES], DETOURS), effects={"read_file": "read"})

    state = invoke(agent, {**asking("What is cold?"), "files": NOTES}, {**CONFIG, "callbacks": [witness]}, path=path)

    assert "Oslo is cold." in state["messages"][-1].text
    assert tried(witness) == {"read_file"}


def test_no_built_in_tool_runs_while_searching_unless_it_is_declared_a_read(path: str) -> None:
    steps = [("ls", {"path": "/"}), ("write_file", {"file_path": "/report.txt", "content": "It is cold."})]
    witness = Witness()
    agent = deep_agent(Errand(steps, DETOURS), effects={})

    state = invoke(agent, {**asking("Report on Oslo."), "files": NOTES}, {**CONFIG, "callbacks": [witness]}, path=path)

    assert tried(witness) == set()
    plan = [f"{what} {name}" for name, _ in steps for what in ("call", "result")]
    assert outline(check_conversation(state["messages"])) == ["human", *plan, "answer"]


def test_a_write_under_approval_waits_and_is_carried_out_once_approved(path: str) -> None:
    steps = [("grep", {"pattern": "cold"}), ("write_file", {"file_path": "/report.txt", "content": "It is cold."})]
    agent = deep_agent(Errand(steps, DETOURS), interrupt_on={"write_file": True})

    stopped = invoke(agent, {**asking("Report on Oslo."), "files": NOTES}, CONFIG, path=path)
    [question] = stopped["__interrupt__"]
    assert [action["name"] for action in question.value["action_requests"]] == ["write_file"]
    assert contents(stopped) == {"/notes.txt": "Oslo is cold."}
    state = invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), CONFIG, path=path)

    check_conversation(state["messages"])
    assert contents(state) == {"/notes.txt": "Oslo is cold.", "/report.txt": "It is cold."}


def test_todos_are_written_by_the_agent_alone(path: str) -> None:
    todos = [{"content": "Read the notes", "status": "in_progress"}]
    witness = Witness()
    agent = deep_agent(
        Errand([("glob", {"pattern": "*.txt"}), ("write_todos", {"todos": todos})], DETOURS),
        middleware=[TodoListMiddleware()],
    )

    state = invoke(agent, {**asking("Plan the report."), "files": NOTES}, {**CONFIG, "callbacks": [witness]}, path=path)

    assert outline(check_conversation(state["messages"]))[-3:] == ["call write_todos", "result write_todos", "answer"]
    assert state["todos"] == todos
    assert tried(witness) == {"glob"}


def test_a_subagent_that_plans_works_for_an_agent_that_plans(agency: Agency, path: str) -> None:
    task = ("task", {"description": BOOKING, "subagent_type": "clerk"})
    witness = Witness()
    clerk = {
        "name": "clerk",
        "description": "Books flights.",
        "system_prompt": "You book flights.",
        "model": travel_model(),
        "tools": agency.tools,
        "middleware": [ToolTreeMiddleware(effects=EFFECTS)],
    }
    agent = deep_agent(Errand([("ls", {"path": "/"}), task]), subagents=[clerk])

    state = invoke(
        agent, {**asking("See to my journey."), "files": NOTES}, {**CONFIG, "callbacks": [witness]}, path=path
    )

    plan = ["call ls", "result ls", "call task", "result task"]
    assert outline(check_conversation(state["messages"])) == ["human", *plan, "answer"]
    assert state["messages"][4].text == "All is done for you and it says OS-1 is booked"
    assert {event["query"] for event in witness.of("start")} == {"See to my journey.", BOOKING}
    assert agency.calls["book OS-1"] == 1
    assert "task" not in tried(witness)


def test_a_conversation_of_several_turns_stays_valid(path: str) -> None:
    agent = deep_agent(Errand([("ls", {"path": "/"}), ("glob", {"pattern": "*.txt"})], DETOURS))

    for turn in range(3):
        given = asking(f"What do the notes say? #{turn}") | ({"files": NOTES} if turn == 0 else {})
        messages = invoke(agent, given, CONFIG, path=path)["messages"]

    one = ["human", "call ls", "result ls", "call glob", "result glob", "answer"]
    assert outline(check_conversation(messages)) == one * 3
