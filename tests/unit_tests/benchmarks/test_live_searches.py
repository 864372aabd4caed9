"""Every search of the live benchmark finds its way around a trap, within its budget, whatever the model says."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from safe_episode import REQUEST, STEPS, Locksmith, SafeEpisode, calling

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.live.episode import Setting
from tests.benchmarks.live.search_driver import Driver
from tests.benchmarks.live.searches import METHODS

MANY = 200


class Named(BaseCallbackHandler):
    """Notes the names of the model's runs."""

    def __init__(self):
        self.names = []

    def on_chat_model_start(self, serialized, messages, **kwargs):
        self.names.append(kwargs["name"])


def worked(method, replies, *, episode=None, **setting):
    episode, named = episode or SafeEpisode(), Named()
    model = ScriptedChatModel(replies=replies, callbacks=[named])
    setting = Setting(model=model, **setting)
    return (
        METHODS[method][0](setting, episode, [HumanMessage(REQUEST)]),
        episode,
        model,
        named,
    )


def check_form(messages):
    assert isinstance(messages[-1], AIMessage)
    assert not messages[-1].tool_calls
    asked = [
        call["id"]
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]
    assert asked == [
        message.tool_call_id for message in messages if isinstance(message, ToolMessage)
    ]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_avoids_the_trap_and_does_in_the_real_world_what_it_chose(method):
    messages, episode, model, named = worked(method, [Locksmith()] * MANY)
    check_form(messages)
    assert episode.safe.open
    assert not episode.safe.jammed
    assert [message.text for message in messages if message.type == "tool"][
        -1
    ] == "The door is open."
    assert messages[-1].text == "It is open."
    assert len(named.names) == len(model.calls) <= Setting(model=model).model_calls
    assert set(named.names) <= {"propose", "step", "value", "reflect", "answer"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [1, 2, 3, 6])
def test_a_search_keeps_to_its_budget_of_model_calls(method, budget):
    messages, _, model, _ = worked(method, [Locksmith()] * MANY, model_calls=budget)
    check_form(messages)
    assert len(model.calls) <= budget


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rubbish", [AIMessage(""), RuntimeError("down")])
def test_one_bad_reply_does_no_harm(method, rubbish):
    messages, episode, *_ = worked(method, [rubbish, *[Locksmith()] * MANY])
    check_form(messages)
    assert episode.safe.open


def test_a_call_made_in_a_fork_leaves_the_world_before_it_alone():
    driver = Driver(
        Setting(model=ScriptedChatModel()), SafeEpisode(), [HumanMessage(REQUEST)]
    )
    jammed = driver.run(driver.start, calling(("pry", {})))
    fine = driver.run(
        driver.start, calling(("read_note", {}), ("dial", {"code": "7-4-9"}))
    )
    assert (
        driver.run(jammed, STEPS["The bolt is bent."]).results[0].text
        == "The door does not move."
    )
    assert (
        driver.run(fine, STEPS["The bolt is bent."]).results[0].text
        == "The door is open."
    )
    assert driver.run(driver.start, calling(("pry", {}))) is jammed
