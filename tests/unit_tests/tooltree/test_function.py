"""search() and asearch(): a request answered by the planner, without an agent of one's own."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import ToolException, tool

from langchain_tooltree import (
    ConfigurationError,
    ToolCard,
    ToolLibrary,
    search,
    search_result,
)
from langchain_tooltree.errors import EmptyQueryError, ToolDefinitionError
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.search.config import KernelConfig
from tests.unit_tests.tooltree.loops import READS, Shop, calls, naming, report, scripted


@pytest.fixture
def shop():
    return Shop()


async def test_reads_are_run_and_the_answer_comes_with_its_tree_and_cost(find, shop):
    model = scripted(calls(("stock", "tea")), report("7, at 2 euros."))
    result = await find(
        "How much tea is there?", shop.tools(), model=model, effects=READS
    )
    assert (result.answer.text, result.query, result.stop_reason) == (
        "7, at 2 euros.",
        "How much tea is there?",
        "answered",
    )
    [step] = result.steps
    assert (step.call.label, step.observation.content) == (
        'stock(item="tea")',
        "7 of tea",
    )
    assert (result.cost.model_calls, result.cost.tool_calls) == (2, 1)
    assert [message.type for message in result.messages] == ["ai", "tool", "ai"]


async def test_a_write_waits_for_whoever_asked(find, shop):
    model = scripted(calls(("stock", "tea")), calls(("order", "tea")))
    result = await find(
        "Order tea if there is none.", shop.tools(), model=model, effects=READS
    )
    assert shop.made == ["stock(tea)"]
    assert result.answer is None
    assert result.waiting[0].call.label == 'order(item="tea")'
    assert [step.call.tool for step in result.waiting] == ["order"]
    assert result.messages[-1].tool_calls[0]["name"] == "order"


async def test_an_undeclared_tool_never_runs(find, shop):
    result = await find(
        "Count the tea.", shop.tools(), model=scripted(calls(("stock", "tea")))
    )
    assert (shop.made, result.waiting[0].call.tool) == ([], "stock")


async def test_a_doubt_is_settled_and_told_by_events_in_order(find, shop):
    events = []
    model = scripted(
        report("I do not know.", "the price", **naming("price", "tea")),
        report("2 euros."),
    )
    result = await find(
        "What is it?", shop.tools(), model=model, effects=READS, on_event=events.append
    )
    assert (result.answer.text, shop.made) == ("2 euros.", ["price(tea)"])
    assert [event["type"] for event in events] == ["doubt", "explore", "stop"]
    assert events[1]["call"] == 'price(item="tea")'
    assert search_result(result.answer).search_id == result.search_id
    assert result.cost.model_calls == 2
    assert result.cost.tokens == result.answer.usage_metadata["total_tokens"]


async def test_what_a_listener_raises_does_not_end_a_search(find, shop, caplog):
    def listen(event):
        raise KeyError(f"{find!r:.40}: {event['type']}")  # what recurs is logged once

    model = scripted(
        report("I do not know.", "it", **naming("price", "tea")), report("2 euros.")
    )
    result = await find(
        "What is it?", shop.tools(), model=model, effects=READS, on_event=listen
    )
    assert result.answer.text == "2 euros."
    assert "KeyError" in caplog.text


async def test_a_conversation_may_be_given_in_any_form(find, shop):
    conversation = [
        ("system", "Be brief."),
        {"role": "user", "content": "Hello?"},
        ("ai", "Yes?"),
        ("user", "Go."),
    ]
    for query in (conversation, HumanMessage("Go."), [HumanMessage("Go.")], "Go."):
        result = await find(
            query, shop.tools(), model=scripted(report("Gone.")), effects=READS
        )
        assert (result.query, result.answer.text) == ("Go.", "Gone.")


async def test_a_tool_that_refuses_is_an_observation_and_a_model_that_is_down_is_an_error(
    find,
):
    @tool
    def locked(item: str) -> str:
        """Open it."""
        raise ToolException("it is locked")

    model = scripted(
        calls(("locked", "tea")), report("Locked."), report("It is locked.")
    )
    result = await find("Open it.", [locked], model=model, effects={"locked": "read"})
    assert (result.answer.text, result.steps[0].observation.kind) == (
        "It is locked.",
        "exception",
    )
    with pytest.raises(ConnectionError, match="down"):
        await find(
            "Open it.",
            [locked],
            model=scripted(ConnectionError("down")),
            effects={"locked": "read"},
        )


def test_callbacks_hear_the_runs_of_models_and_tools(shop):
    class Names(BaseCallbackHandler):
        def __init__(self):
            self.seen = []

        def on_chat_model_start(self, *_, **__):
            self.seen.append("model")

        def on_tool_start(self, serialized, *_, **__):
            self.seen.append(serialized["name"])

    names = Names()
    model = scripted(calls(("stock", "tea")), report("7."))
    search("Count.", shop.tools(), model=model, effects=READS, callbacks=[names])
    assert names.seen == ["model", "stock", "model"]


async def test_the_cards_of_a_library_reach_the_coarse_planner_of_a_deep_search(
    find, shop
):
    asked = []

    def plan(messages):
        asked.append(messages[-1].text)
        return {"domains": ["trade"], "tools": []}

    tools = ToolLibrary(
        shop.tools(), [ToolCard(name="stock", description="", domains=("trade",))]
    )
    model = ScriptedChatModel(replies=[plan, *["No call can help."] * 9])
    config = KernelConfig(coarse_planner=True)
    result = await find(
        "How much tea is there?", tools, model=model, effects=READS, config=config
    )
    assert asked[0].count('"domains":["trade"]') == 1
    assert (result.answer.text, shop.made) == ("No call can help.", [])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            {"query": 7},
            ConfigurationError,
            "query must be a text, a message or a list of messages, got int 7",
        ),
        (
            {"query": {"messages": ["Go."]}},
            ConfigurationError,
            "query must be a text, .*, got dict",
        ),
        ({"query": []}, EmptyQueryError, "There is nothing to plan for"),
        (
            {"query": [AIMessage("Hello.")]},
            EmptyQueryError,
            "There is nothing to plan for",
        ),
        (
            {"tools": 7},
            ToolDefinitionError,
            "tools must be a list of tools and functions, .*, got int",
        ),
        ({"effects": {"stok": "read"}}, ToolDefinitionError, "effects names stok"),
        ({"model": 7}, ConfigurationError, "model must be a chat model"),
        (
            {"config": {"max_rollouts": 3}},
            ConfigurationError,
            "config must be a SearchConfig, got dict",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
async def test_what_cannot_work_is_refused(find, shop, wrong, error, message):
    with pytest.raises(error, match=message):
        await find(
            **{
                "query": "Go.",
                "tools": shop.tools(),
                "model": scripted(),
                "effects": READS,
                **wrong,
            }
        )
