import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from langchain_tooltree import ConfigurationError
from langchain_tooltree.models import Meter, StructuredQuestion, bind_tools, call_tools, inner_config, resolve_model
from langchain_tooltree.testing import ScriptedChatModel


class Answer(BaseModel):
    number: int


class PlainChatModel(ScriptedChatModel):
    """A chat model without structured output."""

    def with_structured_output(self, *_, **__):
        raise NotImplementedError


def question(model, usable=lambda reply: "number" in reply):
    return StructuredQuestion(model, Answer, [HumanMessage("How many?")], usable, inner_config("test", {"node": 1}))


def test_a_meter_counts_calls_and_the_tokens_that_are_reported():
    meter = Meter(3)
    meter.count(AIMessage("", usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}))
    meter.count(AIMessage("no usage"))
    meter.count(None)
    assert (meter.model_calls, meter.input_tokens, meter.output_tokens, meter.left) == (3, 5, 2, 0)


def test_inner_calls_are_named_tagged_and_kept_out_of_streams():
    config = inner_config("judge", {"node": 3})
    assert config["run_name"] == "tooltree.judge"
    assert set(config["tags"]) == {"tooltree", TAG_NOSTREAM}
    assert config["metadata"] == {"tooltree_node": 3}


def test_a_chat_model_is_taken_as_it_is_and_others_are_refused():
    model = ScriptedChatModel()
    assert resolve_model(model) is model
    with pytest.raises(ConfigurationError, match=r"got .*Binding\. Pass the model itself, before bind_tools"):
        resolve_model(model.bind(stop=["x"]))


def test_a_name_goes_to_init_chat_model():
    with pytest.raises((ImportError, ValueError)):
        resolve_model("nosuchprovider:model")


def test_a_model_that_cannot_call_tools_is_refused(numbered_tools):
    model = FakeListChatModel(responses=["hi"])
    with pytest.raises(ConfigurationError, match="FakeListChatModel cannot call tools"):
        bind_tools(model, numbered_tools("alpha"))
    assert bind_tools(model, []) is model


async def test_a_failed_call_is_counted_too(drive):
    meter = Meter(2)
    with pytest.raises(ConnectionError):
        await drive(call_tools(ScriptedChatModel(replies=[ConnectionError("busy")]), [], [], meter, {}))
    assert meter.model_calls == 1


async def test_a_usable_reply_is_asked_for_once(drive):
    model, meter = ScriptedChatModel(replies=[{"number": 3}]), Meter(2)
    assert await drive(question(model).ask(meter)) == [{"number": 3}]
    assert meter.model_calls == 1
    assert meter.input_tokens > 0


async def test_an_unusable_reply_is_kept_and_asked_for_once_more(drive):
    model, meter = ScriptedChatModel(replies=[{"count": 3}, {"number": 3}, {"number": 4}]), Meter(9)
    asked = question(model)
    assert await drive(asked.ask(meter)) == [{"count": 3}, {"number": 3}]
    assert meter.model_calls == 2
    assert meter.problems[0].startswith("the reply is not of the form asked for")


@pytest.mark.parametrize("allowance", [0, 1, 2])
async def test_a_question_never_costs_more_than_its_allowance(drive, allowance):
    model, meter = ScriptedChatModel(replies=["no"] * 5), Meter(allowance)
    assert await drive(question(model).ask(meter)) == []
    assert meter.model_calls == allowance


async def test_errors_of_the_model_are_noted_and_counted(drive):
    asked, meter = question(ScriptedChatModel(replies=[ConnectionError("busy"), {"number": 1}])), Meter(2)
    assert await drive(asked.ask(meter)) == [{"number": 1}]
    assert meter.problems == ["ConnectionError: busy"]
    assert meter.model_calls == 2


@pytest.mark.parametrize("text", ['{"number": 3}', '```json\n{"number": 3}\n```', 'Sure:\n```\n{"number": 3}\n```'])
async def test_without_structured_output_the_text_is_read(drive, text):
    model = PlainChatModel(replies=[text])
    assert await drive(question(model).ask(Meter(2))) == [{"number": 3}]
    assert "Reply with one JSON object" in model.calls[0][-1].text


@pytest.mark.parametrize("text", ["three", "[3]", "", "null"])
async def test_text_that_is_no_object_is_no_reply(drive, text):
    assert await drive(question(PlainChatModel(replies=[text, text])).ask(Meter(2))) == []
