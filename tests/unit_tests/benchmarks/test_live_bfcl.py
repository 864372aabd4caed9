"""The function-calling benchmark, turn by turn; only where its package was downloaded before into `.cache`."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.bfcl_data import REQUIREMENT, owners_of, parse_call
from tests.benchmarks.live.bench_bfcl import CATEGORIES, BfclBench, calls_by_turn
from tests.benchmarks.live.episode import Options, Setting, UsageError
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import converse

CACHE = Path(".cache")

needs_the_package = pytest.mark.skipif(
    not (CACHE / REQUIREMENT.replace("==", "-")).exists(), reason="the benchmark's package was not downloaded"
)


def tasks_of(category="base", *ids):
    return BfclBench().tasks(Options(category=category, ids=ids, cache=CACHE))


def gold_replies(task, end="Done."):
    """What a model says that makes gold's calls, one in each reply."""
    owners = {spec: owners_of(task.entry)[found.owner] for spec, found in task.start()._specs.items()}
    for turn in task.entry["ground_truth"]:
        for text in turn:
            call = parse_call(text, owners)
            yield AIMessage("", tool_calls=[{"name": call.tool, "args": dict(call.arguments), "id": text[:30]}])
        yield AIMessage(end)


def play(task, replies, method="react", **settings):
    model = ScriptedChatModel(replies=list(replies))
    return *converse(task, METHODS[method][0], Setting(model=model, **settings), None), model


@needs_the_package
@pytest.mark.parametrize("category", CATEGORIES)
def test_gold_is_right(category):
    for task in tasks_of(category)[::40]:
        messages, outcome, _ = play(task, gold_replies(task))
        assert outcome.success, (task.id, outcome.detail)
        turns = len(task.entry["question"])
        assert sum(isinstance(message, HumanMessage) for message in messages) == turns


@needs_the_package
def test_the_planner_commits_what_it_tried_in_forks():
    (task,) = tasks_of("base", "multi_turn_base_12")
    _, outcome, model = play(task, gold_replies(task, '{"missing": "nothing"}\nDone.'), "tooltree")
    assert outcome.success
    assert len(model.calls) == 7


@needs_the_package
def test_tools_are_held_back_until_their_turn():
    (task,) = tasks_of("miss_func", "multi_turn_miss_func_0")
    episode, messages, seen = task.start(), [], []
    while (request := episode.next_request(messages)) is not None:
        seen.append((request, "sort" in {tool.name for tool in episode.tools}))
        messages += [HumanMessage(request), AIMessage("I cannot.")]
    assert [there for _, there in seen] == [False, False, False, True, True]
    assert seen[3][0] == "I have updated some more functions you can choose from. What about now?"
    assert episode.tools[-1].name == "sort"
    assert not episode.outcome(messages).success


@needs_the_package
def test_a_long_context_fills_the_world():
    short, long = (tasks_of(category, f"multi_turn_{category}_1")[0].start() for category in ("base", "long_context"))
    listed = [next(t for t in each.tools if t.name == "find").invoke({}) for each in (short, long)]
    assert len(listed[1]) > len(listed[0])


@needs_the_package
def test_who_calls_tools_for_ever_has_failed_and_the_rest_is_not_asked():
    (task,) = tasks_of("base", "multi_turn_base_12")
    again = AIMessage("", tool_calls=[{"name": "pwd", "args": {}, "id": "again"}])
    messages, outcome, model = play(task, [again] * 30)
    assert len(model.calls) == 21  # the 21st reply with calls is the benchmark's end of the task
    assert isinstance(messages[-1], ToolMessage)
    assert (outcome.success, outcome.detail) == (False, "stopped in turn 1 of 3")


@needs_the_package
def test_a_check_starts_anew_each_time():
    (task,) = tasks_of("base", "multi_turn_base_12")
    replies = list(gold_replies(task))
    assert [play(task, replies)[1].success for _ in range(2)] == [True, True]
    assert not play(task, [replies[0], *replies[2:]])[1].success  # the file was never made


@needs_the_package
def test_an_unknown_category_is_named():
    with pytest.raises(UsageError, match="'easy' is unknown to bfcl; choose one of base, miss_func"):
        tasks_of("easy")


def test_the_checker_meets_only_literals():
    call = {"name": "put", "args": {"a=__import__('os')": "x"}, "id": "1"}
    other = {"name": "not_there", "args": {}, "id": "2"}
    turns = calls_by_turn([HumanMessage("?"), AIMessage("", tool_calls=[call, other])], {"put": None})
    assert turns == [[["put(**{\"a=__import__('os')\": 'x'})"]]]
