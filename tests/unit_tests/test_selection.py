"""Of many tools a model is shown the relevant ones: which they are, and what stays within a turn."""

import asyncio
import math
from functools import cache

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from langchain_tooltree import (
    ConfigurationError,
    Suggestion,
    ToolCard,
    ToolLibrary,
    ToolRetriever,
    ToolSelectionMiddleware,
)
from langchain_tooltree.testing import ScriptedChatModel

TOPICS = [
    "weather", "flights", "hotels", "trains", "currency", "email", "calendar", "contacts", "music", "movies", "recipes",
    "stocks", "news", "maps", "translation", "photos", "alarms", "shopping", "banking", "taxis", "parking", "museums",
    "sports", "fitness", "insurance",
]  # fmt: skip
VERBS = [
    f"{verb}{number}"
    for number in range(4)
    for verb in ("find", "list", "rate", "book", "send", "drop", "copy")
]


class Where(BaseModel):
    where: str = Field(description="The place in question.")


def tool_named(name, description="", **more):
    def run(where: str) -> str:
        return f"{name}: {where}"

    return StructuredTool.from_function(
        run,
        name=name,
        description=description or f"{name.replace('_', ' ')}.",
        args_schema=Where,
        **more,
    )


@cache
def library(things=7):
    """Tools with much in common: each does one of some things, at most forty, with one of twenty-five."""
    verbs = [*VERBS, *(f"make{number}" for number in range(12))][:things]
    return tuple(
        tool_named(f"{verb}_{topic}", f"Do {verb} for {topic}.")
        for verb in verbs
        for topic in TOPICS
    )


def topics():
    return [tool_named(topic, f"Find out about {topic}.") for topic in TOPICS]


def names(tools):
    return [tool["name"] if isinstance(tool, dict) else tool.name for tool in tools]


def top(retriever, query, k):
    """Names of the best tools."""
    return names(retriever.top(query, k))


# --- ranking ---


@pytest.mark.slow
def test_among_a_thousand_tools_the_ones_that_are_asked_for_come_first():
    retriever = ToolRetriever(library(40))
    assert len(library(40)) == 1000
    assert top(retriever, "Please find2 museums", 1) == ["find2_museums"]
    assert set(
        top(retriever, "First list3 the hotels. Then book1 taxis; make11 recipes", 3)
    ) == {
        "list3_hotels",
        "book1_taxis",
        "make11_recipes",
    }
    assert (
        len(top(retriever, "", 20)) == len(top(retriever, ["...", "What?"], 20)) == 20
    )


def test_the_ranking_is_bm25_where_one_sentence_is_asked():
    rows = {
        "a": "book flight",
        "b": "book hotel hotel room",
        "c": "weather",
        "d": "room",
    }
    tools = [tool_named(name, text, tags=["trip"]) for name, text in rows.items()]
    lengths = {name: len([name, *text.split(), "trip", "where", "The", "place", "in", "question"])
               for name, text in rows.items()}  # fmt: skip

    def weight(times, name, having):
        rarity = math.log(1 + (4 - having + 0.5) / (having + 0.5))
        share = lengths[name] / (sum(lengths.values()) / 4)
        return rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * share))

    hotel_b, room_b, room_d, book_a = (
        weight(2, "b", 1),
        weight(1, "b", 2),
        weight(1, "d", 2),
        weight(1, "a", 2),
    )
    assert hotel_b + room_b > room_d > book_a > 0, (
        "what the shorter text says counts more, repeated words count less"
    )
    assert top(ToolRetriever(tools), "hotels rooms", 2) == ["b", "d"]
    assert top(ToolRetriever(tools), "booking rooms hotels", 4) == ["b", "d", "a", "c"]


@pytest.mark.parametrize(
    "query",
    ["copied planes", "copy planePlan", "Copying THE plane_plan", "copies, planes"],
)
def test_forms_of_a_word_and_ways_to_write_names_are_the_same(query):
    tools = [tool_named("paint_walls"), tool_named("copyPlane"), tool_named("sail")]
    assert top(ToolRetriever(tools), query, 1) == ["copyPlane"]


def test_tags_arguments_and_the_cards_of_a_library_count():
    class Currency(BaseModel):
        iso: str = Field(description="Code of the currency.")

    def convert(iso: str) -> str:
        return iso

    tools = [
        *topics()[:3],
        StructuredTool.from_function(
            convert, description="Do it.", args_schema=Currency
        ),
    ]
    tools.append(tool_named("other", tags=["cooking"]))
    tools.append(
        StructuredTool.from_function(
            convert,
            name="remote",
            description="Far.",
            args_schema={"type": "object", "properties": {"moon": {}}},
        )
    )
    assert top(ToolRetriever(tools), "currency code", 1) == ["convert"]
    assert top(ToolRetriever(tools), "cooking", 1) == ["other"]
    assert top(ToolRetriever(tools), "the moon", 1) == ["remote"]
    cards = ToolLibrary(tools, cards=[ToolCard("hotels", "", domains=("lodging",))])
    assert top(ToolRetriever(cards), "lodging", 1) == ["hotels"]


def test_the_last_text_counts_as_much_as_all_before_it():
    retriever = ToolRetriever(topics())
    talk = ["The weather, please.", "Sunny. What of trains? Of hotels?", "No: music!"]
    assert top(retriever, talk, 4)[0] == "music"
    assert set(top(retriever, talk, 4)) == {"music", "weather", "trains", "hotels"}


@pytest.mark.parametrize("order", [1, -1])
def test_equal_tools_gain_nothing_by_their_place(order):
    """Most sentences say nothing of any tool; the first tools must not win by them."""
    retriever = ToolRetriever(topics()[::order])
    assert top(retriever, "Well. Good. Fine. So. Music, please.", 1) == ["music"]


# --- in agents ---


class Watched(ScriptedChatModel):
    """Keeps what is bound to it."""

    bound: list = Field(default_factory=list)

    def bind_tools(self, tools, **settings):
        self.bound.append(names(tools))
        return super().bind_tools(tools, **settings)


def calling(*called):
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": {"where": "Oslo"}, "id": name} for name in called
        ],
    )


@pytest.fixture
def talk(either):
    """What an agent says to requests of one thread: `await talk(agent, "Hello", "Go on")`."""

    async def run(agent, *requests):
        config, state = {"configurable": {"thread_id": "t"}}, {}
        for request in requests:
            state = await either(agent.invoke, agent.ainvoke)(
                {"messages": [HumanMessage(request)]}, config
            )
        return state["messages"]

    return run


async def test_within_a_turn_the_tools_stay_what_is_called_joins_and_each_request_has_its_own(
    talk,
):
    model = Watched(
        replies=[
            calling("find0_museums"),
            calling("drop0_email"),  # it is not shown, and runs all the same
            "Done.",
            calling("list0_hotels"),
            "Done.",
            "Right.",
        ]
    )
    web = {"type": "web_search", "name": "web"}
    agent = create_agent(
        model,
        [*library()[:90], web, *library()[90:]],
        middleware=[
            ToolSelectionMiddleware(max_tools=5, always_include=("send0_taxis",))
        ],
        checkpointer=InMemorySaver(),
    )
    messages = await talk(
        agent, "Please find0 museums.", "Now list0 hotels!", "And again, that one."
    )
    came = [message.content for message in messages if isinstance(message, ToolMessage)]
    one, two, three = model.bound[0], model.bound[3], model.bound[5]

    assert came == ["find0_museums: Oslo", "drop0_email: Oslo", "list0_hotels: Oslo"]
    assert model.bound == [one, one, [*one, "drop0_email"], two, two, three]
    assert [len(one), len(two), len(three)] == [7, 7, 7]
    assert {"web", "send0_taxis", "find0_museums"} <= set(one)
    assert {"web", "send0_taxis", "list0_hotels"} <= set(two)
    assert "list0_hotels" in three, "a request is understood by what was said before"
    assert one == [name for name in [*names(library()), "web"] if name in one], (
        "the agent's own order"
    )


async def test_a_turn_is_ranked_once_and_a_new_process_ranks_the_same(
    talk, monkeypatch
):
    asked = []
    top = ToolRetriever.top
    monkeypatch.setattr(
        ToolRetriever,
        "top",
        lambda *given, **options: asked.append(given[1]) or top(*given, **options),
    )

    def agent(model, saver):
        middleware = [ToolSelectionMiddleware(max_tools=3)]
        return create_agent(
            model,
            library(),
            middleware=middleware,
            checkpointer=saver,
            interrupt_before=["tools"],
        )

    saver, first, second = (
        InMemorySaver(),
        Watched(replies=[calling("find0_maps")]),
        Watched(replies=["Done."]),
    )
    await talk(agent(first, saver), "Go.")
    config = {"configurable": {"thread_id": "t"}}
    await asyncio.to_thread(agent(second, saver).invoke, None, config)
    assert first.bound[0] == second.bound[0][:3]
    assert asked == [["Go."], ["Go."]], "once in each process"


async def test_few_tools_are_all_shown_and_nothing_is_ranked(talk):
    model = Watched(replies=["Hello."])
    await talk(
        create_agent(model, topics()[:20], middleware=[ToolSelectionMiddleware()]),
        "Music, please.",
    )
    assert model.bound == [TOPICS[:20]]
    assert ToolRetriever([]).top("Music, please.") == []


class FewAtATime(AgentMiddleware):
    """Another middleware that selects."""

    def wrap_model_call(self, request, handler):
        return handler(request.override(tools=request.tools[:22]))

    async def awrap_model_call(self, request, handler):
        return await handler(request.override(tools=request.tools[:22]))


# --- what is refused ---


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_tools": 0}, "max_tools must be a whole number of 1 or more, got 0"),
        ({"max_tools": "20"}, "max_tools must be"),
        ({"always_include": "news"}, "always_include must be names of tools"),
        ({"always_include": (3,)}, "always_include must be names of tools"),
        ({"always_include": None}, "always_include must be names of tools"),
        ({"graph": 3}, "graph must be a SITGraph"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings, said):
    with pytest.raises(ConfigurationError, match=said):
        ToolSelectionMiddleware(**settings)


async def test_a_name_that_no_tool_has_is_refused_where_the_tools_are_known(talk):
    agent = create_agent(
        Watched(replies=["Hi."]),
        topics(),
        middleware=[ToolSelectionMiddleware(always_include=("golf", "news"))],
    )
    with pytest.raises(
        ConfigurationError, match="always_include names golf, and no tool of the agent"
    ):
        await talk(agent, "Hello")
    with pytest.raises(ConfigurationError, match="k must be a whole number"):
        ToolRetriever(topics()).top("Hello", 0)


class Follows:
    """A graph in which one tool came after another one."""

    def __init__(self, support=3, **following):
        self._following, self._support = following, support

    def suggest(self, last_tool, *, k=2):
        next_tool = self._following.get(last_tool)
        return (
            [Suggestion(next_tool, 1.0, "procedural", self._support)][:k]
            if next_tool
            else []
        )


def test_a_graph_brings_the_tools_that_came_next():
    words = ToolRetriever(topics()).top("book flights", 2)
    joined = ToolRetriever(topics(), graph=Follows(flights="insurance")).top(
        "book flights", 2
    )

    assert names(words)[0] == "flights"
    assert "insurance" not in names(words)
    assert set(names(joined)) == {"flights", "insurance"}


def test_a_graph_speaks_of_two_steps_ahead_and_of_the_tool_called_last():
    graph = Follows(flights="insurance", insurance="parking", stocks="news")

    assert set(names(ToolRetriever(topics(), graph=graph).top("flights", 3))) == {
        "flights",
        "insurance",
        "parking",
    }
    assert "news" in names(
        ToolRetriever(topics(), graph=graph).top("flights", 4, last_tool="stocks")
    )


def test_the_middleware_follows_the_graph_from_the_last_call_before_the_turn():
    graph = Follows(stocks="news")
    model = Watched(replies=[AIMessage("Done.")])
    agent = create_agent(
        model, topics(), middleware=[ToolSelectionMiddleware(max_tools=2, graph=graph)]
    )
    call = {"name": "stocks", "args": {"where": "Oslo"}, "id": "1"}
    said = [
        HumanMessage("Buy."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("done", tool_call_id="1"),
        AIMessage("Done."),
    ]

    agent.invoke({"messages": [*said, HumanMessage("Go on.")]})

    assert "news" in model.bound[-1]


def test_turns_of_the_same_words_are_ranked_each_by_itself():
    graph, model = Follows(stocks="news"), Watched(replies=[AIMessage("Done.")] * 3)
    agent = create_agent(
        model, topics(), middleware=[ToolSelectionMiddleware(max_tools=2, graph=graph)]
    )

    def ask(tool):
        call = {"name": tool, "args": {"where": "Oslo"}, "id": "1"}
        said = [
            HumanMessage("Buy."),
            AIMessage("", tool_calls=[call]),
            ToolMessage("done", tool_call_id="1"),
        ]
        agent.invoke({"messages": [*said, AIMessage("Done."), HumanMessage("Go on.")]})
        return model.bound[-1]

    assert "news" not in ask("hotels")
    assert "news" in ask("stocks")
    graph._following["hotels"] = "music"
    assert "music" in ask("hotels"), "what the graph has learnt since counts"


async def test_a_tool_of_the_provider_may_be_named_as_always_included(talk):
    web, model = {"type": "web_search", "name": "web"}, Watched(replies=["Hello."])
    middleware = [ToolSelectionMiddleware(max_tools=1, always_include=["web"])]
    await talk(create_agent(model, [*topics(), web], middleware=middleware), "Music!")
    assert model.bound == [["music", "web"]]


async def test_what_other_middleware_selects_is_all_there_is_to_rank(talk):
    model = Watched(replies=["Hello."])
    middleware = [FewAtATime(), ToolSelectionMiddleware(max_tools=2)]
    await talk(
        create_agent(model, topics(), middleware=middleware),
        "Insurance for sports. Or music? Maps!",
    )
    assert model.bound == [["music", "maps"]]
