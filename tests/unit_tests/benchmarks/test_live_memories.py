"""What a method of the live benchmark is told of earlier tasks, and what that costs."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from safe_episode import REQUEST, Locksmith, SafeEpisode, calling

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.live.episode import Experience, Finished, Outcome, Setting
from tests.benchmarks.live.memories import EXPEL_PROMPT, make_memory
from tests.benchmarks.live.runs import CallCounter, run_task
from tests.benchmarks.live.searches import METHODS

TIP = {"op": "add", "text": "Read notes first."}
ITEM = {"title": "Notes", "description": "Read first.", "content": "Notes hold codes."}


def finished(task=REQUEST, *, success=True, learnt=None, id="1"):  # noqa: A002 - as the field is named
    call = calling(("read_note", {}))
    result = ToolMessage(
        "The code is 7-4-9.", name="read_note", tool_call_id=call.tool_calls[0]["id"]
    )
    messages = [
        HumanMessage(task),
        call,
        result,
        AIMessage("It is open." if success else "It is stuck."),
    ]
    return Finished(id, messages, Outcome(success, float(success)), learnt)


def memory_of(name, *replies, graph=False, **more):
    counter = CallCounter()
    model = ScriptedChatModel(replies=list(replies), callbacks=[counter])
    return make_memory(name, graph, model, **more), model, counter


def test_the_run_with_the_most_similar_task_is_told_if_it_succeeded():
    memory, *_ = memory_of("runs")
    assert memory.recall(REQUEST).advice == ""
    memory.learn(finished("Open the safe in the hall.", success=False))
    memory.learn(finished("Water the plants."))
    memory.learn(finished("Open the safe in the cellar."))
    advice = memory.recall(REQUEST).advice
    assert "Open the safe in the cellar." in advice
    assert "call: read_note({})" in advice
    assert "plants" not in advice


def test_expel_edits_one_list_for_all_tasks():
    edited = {
        "operations": [
            {"op": "edit", "number": 1, "text": "Read all notes first."},
            {"op": "remove", "number": 9},
        ]
    }
    memory, model, counter = memory_of("expel", {"operations": [TIP]}, edited)
    kept = memory.learn(finished("Open the safe in the hall."))
    assert kept == [TIP]
    memory.learn(finished(success=False))
    assert "- Read all notes first." in memory.recall("Water the plants.").advice
    shown = json.loads(model.calls[1][1].text)
    assert shown["tips"] == ["1. Read notes first."]
    assert "Open the safe in the hall." in shown["similar success"]
    assert counter.calls == {"expel": 2}


def test_reasoningbank_tells_the_items_of_the_most_similar_task():
    memory, model, counter = memory_of(
        "reasoningbank", {"items": [ITEM] * 5}, {"items": [{**ITEM, "title": "Water"}]}
    )
    assert len(memory.learn(finished(success=False))) == 3
    memory.learn(finished("Water the plants."))
    assert json.loads(model.calls[0][1].text)["succeeded"] is False
    advice = memory.recall("Open the safe now.").advice
    assert "# Notes\nRead first.\nNotes hold codes." in advice
    assert "# Water" not in advice
    assert counter.calls == {"reasoningbank": 2}


@pytest.mark.parametrize("name", ["expel", "reasoningbank"])
def test_what_was_learnt_is_not_asked_for_again(name):
    first, *_ = memory_of(name, {"operations": [TIP], "items": [ITEM]})
    kept = json.loads(json.dumps(first.learn(finished())))
    again, model, _ = memory_of(name)
    again.learn(finished(learnt=kept))
    assert model.calls == []
    assert again.recall(REQUEST) == first.recall(REQUEST) != Experience()


def test_what_learning_costs_is_counted_with_the_task_and_kept_with_it():
    class SafeTask:
        id = "safe"

        def start(self):
            return SafeEpisode()

    def reply(messages):
        return (
            {"operations": [TIP]}
            if messages[0].text == EXPEL_PROMPT
            else locksmith(messages)
        )

    locksmith = Locksmith()
    memory, model, counter = memory_of("expel", *[reply] * 50)
    run = run_task(
        SafeTask(), METHODS["beam"][0], Setting(model=model), memory, [counter]
    )
    assert run.success
    assert run.calls["expel"] == 1
    assert sum(run.calls.values()) == len(model.calls)
    assert run.finished.learnt == [TIP]
