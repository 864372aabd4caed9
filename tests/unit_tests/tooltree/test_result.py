"""What a search hands back, built from trees that tests draw."""

import json
from dataclasses import replace

from langchain_core.messages import AIMessage, ToolMessage, message_to_dict

from langchain_tooltree import SearchResult
from langchain_tooltree.tooltree.result import (
    SearchCost,
    plan_messages,
    steps_of,
    without_failed_writes,
)
from langchain_tooltree.tooltree.search.tree import Action, Observation, Tree

USAGE = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}


def result_of(*calls):
    """What a deep search hands back whose best path makes these calls: (tool, effect, observation or None)."""
    tree, node = Tree(), None
    path = []
    for tool, effect, content in calls:
        node = tree.add(node or tree.root, Action(tool, {"n": len(tree)}, effect))
        node.r_pre = 0.8
        node.observation = None if content is None else Observation(content)
        path.append(node)
    cost = SearchCost(model_calls=2, usage=USAGE)
    result = SearchResult(
        "Do it.",
        tree,
        tuple(steps_of(path, search_id="s")),
        cost,
        "solved",
        search_id="s",
    )
    return replace(result, messages=plan_messages(result))


def shape(messages):
    return [
        message.content
        if isinstance(message, ToolMessage)
        else [call["name"] for call in message.tool_calls]
        for message in messages
    ]


def test_reads_come_with_their_results_and_the_first_write_waits():
    result = result_of(("a", "read", "x"), ("b", "read", "y"), ("w", "write", None))
    assert shape(result.messages) == [["a"], "x", ["b"], "y", ["w"]]
    waiting = result.messages[-1]
    assert waiting.usage_metadata == USAGE
    told = waiting.response_metadata["tooltree"]
    assert (told["search"], told["model_calls"], told["stop_reason"]) == (
        "s",
        2,
        "solved",
    )
    assert result.waiting[0].call_id == waiting.tool_calls[0]["id"]


def test_what_ran_in_a_fork_waits_unanswered_and_what_follows_is_the_plan():
    result = result_of(("w", "sandboxed", "done"), ("r", "read", "seen"))
    assert shape(result.messages) == [["w"]]
    assert result.metadata["plan"] == ["r(n=2)"]


def test_an_answer_stands_last_and_the_usage_adds_up():
    answer = AIMessage("It is x.", usage_metadata=USAGE)
    result = result_of(("a", "read", "x")).with_answer(answer)
    made, _, last = result.messages
    assert (last.text, last.response_metadata["tooltree"]["model_calls"]) == (
        "It is x.",
        3,
    )
    assert (made.usage_metadata, last.usage_metadata) == (USAGE, USAGE)


def test_ids_of_calls_are_new_in_the_conversation_and_those_of_signed_replies_stay():
    reply = AIMessage(
        [
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "a"},
        ],
        tool_calls=[{"name": "a", "args": {}, "id": "t1"}],
    )
    tree = Tree()
    node = tree.add(tree.root, Action("a", {}, "read", message_to_dict(reply)))
    node.observation = Observation("x")
    [kept] = steps_of([node], search_id="s")
    [renamed] = steps_of([node], search_id="s", taken={"t1"})
    assert kept.call_id == "t1"
    assert renamed.call_id.startswith("call_")
    result = SearchResult("Do it.", tree, (renamed,), SearchCost(), "solved")
    assert plan_messages(result)[0].content[1]["id"] == renamed.call_id


def test_a_write_that_failed_in_its_fork_is_left_out_unless_it_ends_the_plan():
    tree = Tree()
    vain = tree.add(tree.root, Action("w", {}, "sandboxed"))
    vain.observation = Observation("refused", kind="exception")
    read = tree.add(vain, Action("r", {}, "read"))
    read.observation = Observation("seen")
    assert [
        step.call.tool for step in without_failed_writes(steps_of([vain, read]))
    ] == ["r"]
    assert [step.call.tool for step in without_failed_writes(steps_of([vain]))] == ["w"]


def test_a_result_is_plain_data_and_a_picture():
    result = result_of(("a", "read", "x"), ("w", "write", None))
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert result.to_svg().startswith("<svg")
