"""Every search of the live benchmark finds its way around a trap, within its budget, whatever the model says."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from safe_episode import REQUEST, STEPS, Locksmith, SafeEpisode, calling, candidates

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.live.episode import Experience, Setting, UsageError
from tests.benchmarks.live.methods import tooltree_deep
from tests.benchmarks.live.search_driver import LESSONS_PROMPT, Driver
from tests.benchmarks.live.searches import METHODS, TEMPERATURE, lats

MANY = 200
RUBBISH = {
    "nothing": AIMessage(""),
    "a tool that is not there": calling(("explode", {"confidence": 1})),
    "arguments that do not fit": calling(("dial", {"number": 3, "confidence": 0.7})),
    "broken arguments": AIMessage(
        "", invalid_tool_calls=[{"name": "dial", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}]
    ),
    "scores that are none": calling(("dial", {"code": "1", "confidence": "high"}), ("assess", {"last_result": [1]})),
    "words": AIMessage("Ich weiß nicht."),
    "the form alone": candidates(7, "?"),
}


class Named(BaseCallbackHandler):
    """Notes the names of the model's runs."""

    def __init__(self):
        self.names = []

    def on_chat_model_start(self, serialized, messages, **kwargs):
        self.names.append(kwargs["name"])


class NoCopies(SafeEpisode):
    """The same, in a world that cannot be copied."""

    def __post_init__(self):
        super().__post_init__()
        self.real, self.sandbox = self.sandbox, None

    @property
    def tools(self):
        return self.real.tools


def worked(method, replies, *, episode=None, **setting):
    episode, named = episode or SafeEpisode(), Named()
    model = ScriptedChatModel(replies=replies, callbacks=[named])
    setting = Setting(model=model, **setting)
    return METHODS[method][0](setting, episode, [HumanMessage(REQUEST)]), episode, model, named


def check_form(messages):
    assert isinstance(messages[-1], AIMessage)
    assert not messages[-1].tool_calls
    asked = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    assert asked == [message.tool_call_id for message in messages if isinstance(message, ToolMessage)]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_avoids_the_trap_and_does_in_the_real_world_what_it_chose(method):
    messages, episode, model, named = worked(method, [Locksmith()] * MANY)
    check_form(messages)
    assert episode.safe.open
    assert not episode.safe.jammed
    assert [message.text for message in messages if message.type == "tool"][-1] == "The door is open."
    assert messages[-1].text == "It is open."
    assert len(named.names) == len(model.calls) <= Setting(model=model).model_calls
    assert set(named.names) <= {"propose", "step", "value", "reflect", "answer"}


def test_deep_search_avoids_the_trap_with_the_same_model():
    episode, model = SafeEpisode(), ScriptedChatModel(replies=[Locksmith()] * MANY)
    messages = tooltree_deep(Setting(model=model), episode, [HumanMessage(REQUEST)])
    check_form(messages)
    assert episode.safe.open
    assert messages[-1].text == "It is open."
    assert len(model.calls) < 15


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [1, 2, 3, 6])
def test_a_search_keeps_to_its_budget_of_model_calls(method, budget):
    messages, _, model, _ = worked(method, [Locksmith()] * MANY, model_calls=budget)
    check_form(messages)
    assert len(model.calls) <= budget


@pytest.mark.parametrize("method", METHODS)
def test_a_search_keeps_to_the_step_limit(method):
    endless = candidates(0.5, ["more"], ("read_note", {}, 0.9), ("pry", {}, 0.8))

    def reply(messages):
        return endless if "assess" in messages[0].text else calling(("read_note", {}))

    messages, *_ = worked(method, [reply] * MANY, steps=4)
    assert sum(message.type == "tool" for message in messages) <= 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rubbish", RUBBISH)
def test_rubbish_is_asked_for_once_more_and_then_dropped(method, rubbish):
    messages, _, model, _ = worked(method, [RUBBISH[rubbish]] * MANY)
    check_form(messages)
    assert len(model.calls) <= Setting(model=model).model_calls


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rubbish", [RUBBISH["nothing"], RuntimeError("down")])
def test_one_bad_reply_does_no_harm(method, rubbish):
    messages, episode, *_ = worked(method, [rubbish, *[Locksmith()] * MANY])
    check_form(messages)
    assert episode.safe.open


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_cannot_be_reached_at_all_is_an_error(method):
    with pytest.raises(ConnectionError):
        worked(method, [ConnectionError("down")] * MANY)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_known_from_before_and_the_instructions_are_in_each_question(method):
    _, _, model, _ = worked(method, [Locksmith()] * MANY, experience=Experience("Notes help."))
    asked = [call[0].text for call in model.calls if "locksmith" in call[0].text]
    assert asked
    assert all("Notes help." in text for text in asked)


@pytest.mark.parametrize("method", METHODS)
def test_a_world_that_cannot_be_copied_is_searched_only_if_all_its_tools_are_reads(method):
    with pytest.raises(UsageError, match="safe cannot be searched"):
        worked(method, [Locksmith()] * MANY, episode=NoCopies())
    readable = NoCopies(effects=dict.fromkeys(("pry", "read_note", "dial", "pull"), "read"))
    messages, *_ = worked(method, [Locksmith()] * MANY, episode=readable)
    check_form(messages)


def test_lats_tells_later_questions_what_an_end_has_taught():
    episode, model = SafeEpisode(), ScriptedChatModel(replies=[Locksmith()] * MANY)
    driver = Driver(Setting(model=model), episode, [HumanMessage(REQUEST)])
    lats(driver, tried=1, hopeless=0.0)
    assert driver.lessons == ["Do not pry."]
    assert LESSONS_PROMPT.format(lessons="- Do not pry.") in model.calls[-1][0].text


def test_a_call_made_in_a_fork_leaves_the_world_before_it_alone():
    driver = Driver(Setting(model=ScriptedChatModel()), SafeEpisode(), [HumanMessage(REQUEST)])
    jammed = driver.run(driver.start, calling(("pry", {})))
    fine = driver.run(driver.start, calling(("read_note", {}), ("dial", {"code": "7-4-9"})))
    assert driver.run(jammed, STEPS["The bolt is bent."]).results[0].text == "The door does not move."
    assert driver.run(fine, STEPS["The bolt is bent."]).results[0].text == "The door is open."
    assert driver.run(driver.start, calling(("pry", {}))) is jammed


@pytest.mark.parametrize("method", ["beam", "best_first", "a_star", "lats"])
def test_a_state_of_which_nothing_could_be_used_is_asked_again(method):
    _, episode, model, _ = worked(method, [*[RUBBISH["a tool that is not there"]] * 2, *[Locksmith()] * MANY])
    assert episode.safe.open
    assert "explode: there is no tool of this name" in model.calls[1][0].text


@pytest.mark.parametrize("method", ["beam", "best_first", "a_star", "lats"])
def test_who_offers_a_call_is_not_at_an_end(method):
    def sure(messages):
        reply = Locksmith()(messages)
        calls = [
            {**call, "args": {**call["args"], "fulfilled": True, "missing": []}} if call["name"] == "assess" else call
            for call in reply.tool_calls
        ]
        return AIMessage("", tool_calls=calls)

    def reply(messages):
        return sure(messages) if "assess" in messages[0].text else Locksmith()(messages)

    _, episode, *_ = worked(method, [reply] * MANY)
    assert episode.safe.open or episode.safe.jammed


def test_a_model_that_refuses_a_temperature_is_asked_without():
    class FixedTemperature(ScriptedChatModel):
        def _generate(self, messages, *rest, **options):
            if "temperature" in options:
                refused.append(options["temperature"])
                raise ValueError("temperature")
            return super()._generate(messages, *rest, **options)

    refused, episode = [], SafeEpisode()
    setting = Setting(model=FixedTemperature(replies=[Locksmith()] * MANY))
    METHODS["best_of_n"][0](setting, episode, [HumanMessage(REQUEST)])
    assert episode.safe.open
    assert refused == [TEMPERATURE]


@pytest.mark.parametrize("method", ["beam", "best_first", "a_star", "lats"])
@pytest.mark.parametrize("fulfilled", [True, False])
def test_what_is_said_at_an_end_is_the_answer(method, fulfilled):
    """An agent that has to ask its user says so in the same way."""
    end = candidates(None, [] if fulfilled else ["the code"])
    end = AIMessage("Which safe?", tool_calls=end.tool_calls)
    messages, _, model, named = worked(method, [end, *["A lesson."] * MANY])
    assert [message.text for message in messages] == ["Which safe?"]
    assert named.names == ["propose", *(["reflect"] if method == "lats" and not fulfilled else [])]
    assert "what the user is told" in model.calls[0][0].text
