"""A search is experience: what it has run and given up are failed attempts at the same task."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import CFGMMemory, Experience, ObjectSandbox, SearchConfig, create_tooltree_agent, search
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.tooltree import MOST_ATTEMPTS, PathDialogue, failed_attempts

TASK = "Get me the letter."
TOGETHER = SearchConfig(proposals="together", pre_evaluation="batched", post_evaluation="always", max_rollouts=12)
TIPS = {"tips": [{"reasoning": "Prying failed.", "tip": "Unlock a drawer rather than pry it."}]}


class Drawer:
    """A locked drawer with a letter in it."""

    def __init__(self):
        self.locked = True

    def pry(self) -> str:
        """Pry the drawer open."""
        return "Error: the drawer does not give way."

    def kick(self) -> str:
        """Kick the drawer."""
        raise ValueError("Kicking is not allowed.")

    def wait(self) -> str:
        """Wait."""
        return "Time passes."

    def unlock(self) -> str:
        """Unlock the drawer."""
        self.locked = False
        return "The drawer is open."

    def take(self) -> str:
        """Take the letter."""
        return "You have the letter."


def offers(*tools):
    return [(tool, {}) for tool in tools]


WAYS = {
    (): offers("pry", "kick", "wait", "unlock"),
    ("unlock",): offers("take"),
    ("wait",): offers("pry"),
}
HOUSE = {
    "offers": WAYS,
    "r_pre": {"pry": 0.95, "kick": 0.94, "wait": 0.93, "unlock": 0.9},
    "r_post": {"pry": 0.05, "kick": 0.05, "wait": 0.1},
    "goal": {"take": 0.9},
}


@pytest.fixture
def searched(offline):
    """A search in which the drawer is unlocked and the letter taken, after the other ways were tried."""

    def run():
        sandbox = ObjectSandbox.of_methods(Drawer())
        return search(TASK, sandbox.tools, model=offline(**HOUSE), sandbox=sandbox, config=TOGETHER)

    return run


def attempts_of(result, *, messages=None, run="run"):
    messages = messages or [HumanMessage(TASK)]
    dialogue = PathDialogue(result.tree, messages)
    return failed_attempts(result, dialogue, run=run, threshold=TOGETHER.post_threshold)


def test_siblings_that_failed_or_scored_low_are_failed_attempts_with_their_reasons(searched):
    result = searched()

    attempts = attempts_of(result)

    assert [call.tool for call in result.calls] == ["unlock", "take"]
    told = {tuple(step.tool for step in attempt.steps): attempt.reasons for attempt in attempts}
    assert told == {
        ("pry",): "pry failed: Error: the drawer does not give way.",
        ("kick",): "kick failed: ValueError: Kicking is not allowed.",
        ("wait",): "wait() was given up with a score of 0.10.",
    }
    assert {attempt.success for attempt in attempts} == {False}
    assert [attempt.metadata for attempt in attempts] == [{"attempt_of": "run"}] * MOST_ATTEMPTS
    assert {attempt.task for attempt in attempts} == {TASK}


def test_they_hold_what_was_said_before_and_the_same_attempt_has_the_same_id(searched):
    call = AIMessage("", tool_calls=[{"name": "wait", "args": {}, "id": "1"}])
    before = [HumanMessage(TASK), call, ToolMessage("Time passes.", tool_call_id="1")]

    attempts, again = (attempts_of(searched(), messages=before) for _ in range(2))

    assert [step.tool for step in attempts[0].steps] == ["wait", "pry"]
    assert [attempt.id for attempt in attempts] == [attempt.id for attempt in again]
    assert {attempt.id for attempt in attempts}.isdisjoint(each.id for each in attempts_of(searched()))
    assert {attempt.id for attempt in attempts}.isdisjoint(each.id for each in attempts_of(searched(), run="other"))


def test_what_is_given_up_again_in_a_later_turn_is_no_other_attempt(searched):
    turn = [AIMessage("", tool_calls=[{"name": "wait", "args": {}, "id": "1"}]), ToolMessage("Hm.", tool_call_id="1")]
    once = [HumanMessage(TASK), *turn]

    first = attempts_of(searched(), messages=once)
    later = attempts_of(searched(), messages=[*once, AIMessage("It is locked."), HumanMessage("Go on."), *turn])

    assert [attempt.id for attempt in later] == [attempt.id for attempt in first]
    assert len({attempt.id for attempt in later}) == MOST_ATTEMPTS


def test_few_are_kept_those_that_part_late_first_and_none_for_a_reason_that_another_tells(searched):
    result = searched()
    tree, end = result.tree, result.tree[result.steps[-1].node]
    late = tree.add(tree.parent(end), tree[1].call.model_copy(update={"arguments": {"with": "a knife"}}))
    late.observation = tree[1].observation.model_copy(update={"content": "Error: too blunt."})
    same = tree.add(tree.root, tree[1].call.model_copy(update={"arguments": {"with": "both hands"}}))
    same.observation = tree[1].observation
    passing = tree.add(tree.parent(end), tree[1].call.model_copy(update={"arguments": {"with": "a spoon"}}))
    lost = {"content": "Error: no answer.", "kind": "timeout", "transient": True}
    passing.observation = tree[1].observation.model_copy(update=lost)
    below = tree.add(late, tree[1].call)
    below.observation = late.observation.model_copy(update={"content": "Error: the knife is broken."})

    attempts = attempts_of(result)

    assert len(attempts) == MOST_ATTEMPTS
    assert [step.tool for step in attempts[0].steps] == ["unlock", "pry"]
    assert [attempt.reasons for attempt in attempts[1:]] == [
        "pry failed: Error: the drawer does not give way.",
        "kick failed: ValueError: Kicking is not allowed.",
    ]


def test_a_search_that_gives_nothing_up_has_no_failed_attempts(offline):
    sandbox = ObjectSandbox.of_methods(Drawer())
    model = offline(offers={(): offers("take")}, goal={"take": 0.9})
    assert attempts_of(search(TASK, sandbox.tools, model=model, sandbox=sandbox)) == []


def test_tips_are_taken_by_comparing_them_with_the_success(offline):
    asked = ScriptedChatModel(replies=[TIPS, {"tips": [], "bears_out": []}])
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=("all",))

    sandbox = ObjectSandbox.of_methods(Drawer())
    options = {"sandbox": sandbox, "config": TOGETHER, "experience": experience}
    agent = create_tooltree_agent(offline(**HOUSE), sandbox.tools, checkpointer=InMemorySaver(), **options)
    agent.invoke({"messages": [("user", TASK)]}, {"configurable": {"thread_id": "1"}})
    experience.settle()
    memory = CFGMMemory(asked, experience.store)
    [tip] = memory.extract_tips()

    assert (tip.source, tip.text) == ("comparison", TIPS["tips"][0]["tip"])
    document = str(asked.calls[0][-1].content)
    assert '"failed"' in document
    assert "the drawer does not give way" in document
    [success] = experience.store.trajectories(success=True)
    failures = list(experience.store.trajectories(success=False))
    assert {each.metadata["attempt_of"] for each in failures} == {success.id}
    assert set(tip.trajectories) == {success.id, *(each.id for each in failures)}
    assert len(experience.graph) == 1
