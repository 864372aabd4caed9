"""The function-calling benchmark, turn by turn; only where its package was downloaded before into `.cache`."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.bfcl_data import REQUIREMENT, owners_of, parse_call
from tests.benchmarks.live.bench_bfcl import CATEGORIES, BfclBench, calls_by_turn
from tests.benchmarks.live.episode import Options, Setting
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import converse

CACHE = Path(".cache")

needs_the_package = pytest.mark.skipif(
    not (CACHE / REQUIREMENT.replace("==", "-")).exists(),
    reason="the benchmark's package was not downloaded",
)


def tasks_of(category="base", *ids):
    return BfclBench().tasks(Options(category=category, ids=ids, cache=CACHE))


def gold_replies(task, end="Done."):
    """What a model says that makes gold's calls, one in each reply."""
    owners = {
        spec: owners_of(task.entry)[found.owner]
        for spec, found in task.start()._specs.items()
    }
    for turn in task.entry["ground_truth"]:
        for text in turn:
            call = parse_call(text, owners)
            yield AIMessage(
                "",
                tool_calls=[
                    {"name": call.tool, "args": dict(call.arguments), "id": text[:30]}
                ],
            )
        yield AIMessage(end)


def play(task, replies, method="react", **settings):
    model = ScriptedChatModel(replies=list(replies))
    return *converse(
        task, METHODS[method][0], Setting(model=model, **settings), None
    ), model


@needs_the_package
@pytest.mark.parametrize("category", CATEGORIES)
def test_gold_is_right(category):
    for task in tasks_of(category)[::40]:
        messages, outcome, _ = play(task, gold_replies(task))
        assert outcome.success, (task.id, outcome.detail)
        turns = len(task.entry["question"])
        assert sum(isinstance(message, HumanMessage) for message in messages) == turns


@needs_the_package
def test_who_calls_tools_for_ever_has_failed_and_the_rest_is_not_asked():
    (task,) = tasks_of("base", "multi_turn_base_12")
    again = AIMessage("", tool_calls=[{"name": "pwd", "args": {}, "id": "again"}])
    messages, outcome, model = play(task, [again] * 30)
    assert (
        len(model.calls) == 21
    )  # the 21st reply with calls is the benchmark's end of the task
    assert isinstance(messages[-1], ToolMessage)
    assert (outcome.success, outcome.detail) == (False, "stopped in turn 1 of 3")


def test_the_checker_meets_only_literals():
    call = {"name": "put", "args": {"a=__import__('os')": "x"}, "id": "1"}
    other = {"name": "not_there", "args": {}, "id": "2"}
    turns = calls_by_turn(
        [HumanMessage("?"), AIMessage("", tool_calls=[call, other])], {"put": None}
    )
    assert turns == [[["put(**{\"a=__import__('os')\": 'x'})"]]]
