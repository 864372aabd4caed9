"""Of many tools a model is shown the relevant ones: which they are, and what stays within a turn."""

import asyncio
import math
import threading
from functools import cache

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from langchain_tooltree import (
    ConfigurationError,
    HashingEmbeddings,
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
VERBS = [f"{verb}{number}" for number in range(4) for verb in ("find", "list", "rate", "book", "send", "drop", "copy")]


class Where(BaseModel):
    where: str = Field(description="The place in question.")


def tool_named(name, description="", **more):
    def run(where: str) -> str:
        return f"{name}: {where}"

    return StructuredTool.from_function(
        run, name=name, description=description or f"{name.replace('_', ' ')}.", args_schema=Where, **more
    )


@cache
def library(things=7):
    """Tools with much in common: each does one of some things, at most forty, with one of twenty-five."""
    verbs = [*VERBS, *(f"make{number}" for number in range(12))][:things]
    return tuple(tool_named(f"{verb}_{topic}", f"Do {verb} for {topic}.") for verb in verbs for topic in TOPICS)


def topics():
    return [tool_named(topic, f"Find out about {topic}.") for topic in TOPICS]


def names(tools):
    return [tool["name"] if isinstance(tool, dict) else tool.name for tool in tools]


@pytest.fixture
def top(either):
    """Names of the best tools, on either path: `await top(retriever, query, 3)`."""

    async def best(retriever, query, k):
        return names(await either(retriever.top, retriever.atop)(query, k))

    return best


# --- ranking ---


@pytest.mark.slow
async def test_among_a_thousand_tools_the_ones_that_are_asked_for_come_first(top):
    retriever = ToolRetriever(library(40))
    assert len(library(40)) == 1000
    assert await top(retriever, "Please find2 museums", 1) == ["find2_museums"]
    assert set(await top(retriever, "First list3 the hotels. Then book1 taxis; make11 recipes", 3)) == {
        "list3_hotels",
        "book1_taxis",
        "make11_recipes",
    }
    assert len(await top(retriever, "", 20)) == len(await top(retriever, ["...", "What?"], 20)) == 20


async def test_the_ranking_is_bm25_where_one_sentence_is_asked(top):
    rows = {"a": "book flight", "b": "book hotel hotel room", "c": "weather", "d": "room"}
    tools = [tool_named(name, text, tags=["trip"]) for name, text in rows.items()]
    lengths = {name: len([name, *text.split(), "trip", "where", "The", "place", "in", "question"])
               for name, text in rows.items()}  # fmt: skip

    def weight(times, name, having):
        rarity = math.log(1 + (4 - having + 0.5) / (having + 0.5))
        share = lengths[name] / (sum(lengths.values()) / 4)
        return rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * share))

    hotel_b, room_b, room_d, book_a = weight(2, "b", 1), weight(1, "b", 2), weight(1, "d", 2), weight(1, "a", 2)
    assert hotel_b + room_b > room_d > book_a > 0, "what the shorter text says counts more, repeated words count less"
    assert await top(ToolRetriever(tools), "hotels rooms", 2) == ["b", "d"]
    assert await top(ToolRetriever(tools), "booking rooms hotels", 4) == ["b", "d", "a", "c"]


@pytest.mark.parametrize("query", ["copied planes", "copy planePlan", "Copying THE plane_plan", "copies, planes"])
async def test_forms_of_a_word_and_ways_to_write_names_are_the_same(top, query):
    tools = [tool_named("paint_walls"), tool_named("copyPlane"), tool_named("sail")]
    assert await top(ToolRetriever(tools), query, 1) == ["copyPlane"]


async def test_tags_arguments_and_the_cards_of_a_library_count(top):
    class Currency(BaseModel):
        iso: str = Field(description="Code of the currency.")

    def convert(iso: str) -> str:
        return iso

    tools = [*topics()[:3], StructuredTool.from_function(convert, description="Do it.", args_schema=Currency)]
    tools.append(tool_named("other", tags=["cooking"]))
    tools.append(
        StructuredTool.from_function(
            convert, name="remote", description="Far.", args_schema={"type": "object", "properties": {"moon": {}}}
        )
    )
    assert await top(ToolRetriever(tools), "currency code", 1) == ["convert"]
    assert await top(ToolRetriever(tools), "cooking", 1) == ["other"]
    assert await top(ToolRetriever(tools), "the moon", 1) == ["remote"]
    cards = ToolLibrary(tools, cards=[ToolCard("hotels", "", domains=("lodging",))])
    assert await top(ToolRetriever(cards), "lodging", 1) == ["hotels"]


async def test_the_last_text_counts_as_much_as_all_before_it(top):
    retriever = ToolRetriever(topics())
    talk = ["The weather, please.", "Sunny. What of trains? Of hotels?", "No: music!"]
    assert (await top(retriever, talk, 4))[0] == "music"
    assert set(await top(retriever, talk, 4)) == {"music", "weather", "trains", "hotels"}


class Meaning(Embeddings):
    """Knows that an umbrella has to do with weather; all texts share most of their vectors."""

    def __init__(self):
        self.texts, self.threads = [], set()

    def embed_documents(self, texts):
        self.texts += texts
        self.threads.add(threading.current_thread())
        return [[9.0, 1.0, 0.0] if "umbrella" in text or "weather" in text else [9.0, 0.0, 1.0] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


async def test_embeddings_find_what_no_word_names_and_tools_are_embedded_once(top, path):
    meaning = Meaning()
    retriever = ToolRetriever(topics(), embeddings=meaning)
    for _ in range(2):
        assert await top(retriever, "Shall I take an umbrella?", 1) == ["weather"]
    assert meaning.texts.count("weather Find out about weather. where The place in question.") == 1
    if path == "async":
        assert threading.main_thread() not in meaning.threads, "the event loop waits for no embedding"


@pytest.mark.parametrize("order", [1, -1])
async def test_equal_tools_gain_nothing_by_their_place(top, order):
    """Most sentences say nothing of any tool; the first tools must not win by them."""
    retriever = ToolRetriever(topics()[::order], embeddings=HashingEmbeddings())
    assert await top(retriever, "Well. Good. Fine. So. Music, please.", 1) == ["music"]


async def listing(text):
    return ["news", "nothing", "maps", "news"] if "read" in text else []


@pytest.mark.parametrize(
    "ranking",
    [listing, lambda text: ["news", "maps"] if "read" in text else [], lambda text: topics()[12:14] if text else []],
)
async def test_a_ranking_of_the_users_own_decides_alone(top, ranking):
    retriever = ToolRetriever(topics(), retriever=ranking)
    assert await top(retriever, "Let me read.", 5) == ["news", "maps"]
    assert await top(retriever, "Let me read.", 1) == ["news"]
    assert await top(retriever, "", 5) == []


# --- in agents ---


class Watched(ScriptedChatModel):
    """Keeps what is bound to it."""

    bound: list = Field(default_factory=list)

    def bind_tools(self, tools, **settings):
        self.bound.append(names(tools))
        return super().bind_tools(tools, **settings)


def calling(*called):
    return AIMessage("", tool_calls=[{"name": name, "args": {"where": "Oslo"}, "id": name} for name in called])


@pytest.fixture
def talk(either):
    """What an agent says to requests of one thread: `await talk(agent, "Hello", "Go on")`."""

    async def run(agent, *requests):
        config, state = {"configurable": {"thread_id": "t"}}, {}
        for request in requests:
            state = await either(agent.invoke, agent.ainvoke)({"messages": [HumanMessage(request)]}, config)
        return state["messages"]

    return run


async def test_within_a_turn_the_tools_stay_what_is_called_joins_and_each_request_has_its_own(talk):
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
        middleware=[ToolSelectionMiddleware(max_tools=5, always_include=("send0_taxis",))],
        checkpointer=InMemorySaver(),
    )
    messages = await talk(agent, "Please find0 museums.", "Now list0 hotels!", "And again, that one.")
    came = [message.content for message in messages if isinstance(message, ToolMessage)]
    one, two, three = model.bound[0], model.bound[3], model.bound[5]

    assert came == ["find0_museums: Oslo", "drop0_email: Oslo", "list0_hotels: Oslo"]
    assert model.bound == [one, one, [*one, "drop0_email"], two, two, three]
    assert [len(one), len(two), len(three)] == [7, 7, 7]
    assert {"web", "send0_taxis", "find0_museums"} <= set(one)
    assert {"web", "send0_taxis", "list0_hotels"} <= set(two)
    assert "list0_hotels" in three, "a request is understood by what was said before"
    assert one == [name for name in [*names(library()), "web"] if name in one], "the agent's own order"


async def test_a_turn_is_ranked_once_and_a_new_process_ranks_the_same(talk):
    asked = []

    def ranking(text):
        asked.append(text)
        return names(library())[len(text) % 90 :]

    def agent(model, saver):
        middleware = [ToolSelectionMiddleware(max_tools=3, retriever=ranking)]
        return create_agent(model, library(), middleware=middleware, checkpointer=saver, interrupt_before=["tools"])

    saver, first, second = InMemorySaver(), Watched(replies=[calling("find0_maps")]), Watched(replies=["Done."])
    await talk(agent(first, saver), "Go.")
    config = {"configurable": {"thread_id": "t"}}
    await asyncio.to_thread(agent(second, saver).invoke, None, config)
    assert first.bound[0] == second.bound[0][:3]
    assert asked == ["Go.", "Go."], "once in each process"


async def test_few_tools_are_all_shown_and_nothing_is_ranked(talk):
    def never(text):
        raise AssertionError(text)

    model = Watched(replies=["Hello."])
    agent = create_agent(model, topics()[:20], middleware=[ToolSelectionMiddleware(retriever=never)])
    await talk(agent, "Hello")
    assert model.bound == [TOPICS[:20]]


class FewAtATime(AgentMiddleware):
    """Another middleware that selects."""

    def wrap_model_call(self, request, handler):
        return handler(request.override(tools=request.tools[:22]))

    async def awrap_model_call(self, request, handler):
        return await handler(request.override(tools=request.tools[:22]))


async def test_where_embeddings_or_a_ranking_fail_words_decide_and_the_log_says_so_once(talk, caplog):
    def down(text):
        raise ConnectionError(text)

    model = Watched(replies=["One.", "Two."])
    agent = create_agent(model, topics(), middleware=[ToolSelectionMiddleware(max_tools=1, retriever=down)])
    for _ in range(2):
        await talk(agent, "Music, please. It is urgent.")
    assert model.bound == [["music"], ["music"]]
    assert len([record for record in caplog.records if "ranking of the tools" in record.message]) <= 1


# --- what is refused ---


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_tools": 0}, "max_tools must be a whole number of 1 or more, got 0"),
        ({"max_tools": "20"}, "max_tools must be"),
        ({"always_include": "news"}, "always_include must be names of tools"),
        ({"always_include": (3,)}, "always_include must be names of tools"),
        ({"embeddings": 3}, "embeddings must be a LangChain Embeddings"),
        ({"retriever": "bm25"}, "retriever must be a function"),
        ({"retriever": listing, "embeddings": HashingEmbeddings()}, "no embeddings beside it"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings, said):
    with pytest.raises(ConfigurationError, match=said):
        ToolSelectionMiddleware(**settings)


@pytest.mark.parametrize("reply", ["news", None, 3, {"news": 1}, [3], [["news"]], ["golf"]])
async def test_a_ranking_that_names_no_tools_is_told_so_and_not_ignored(talk, reply):
    agent = create_agent(
        Watched(replies=["Hi."]), topics(), middleware=[ToolSelectionMiddleware(retriever=lambda _: reply)]
    )
    with pytest.raises(ConfigurationError, match="retriever must return a list of tools, or of names that tools have"):
        await talk(agent, "Hello")


async def test_a_name_that_no_tool_has_is_refused_where_the_tools_are_known(talk):
    agent = create_agent(
        Watched(replies=["Hi."]), topics(), middleware=[ToolSelectionMiddleware(always_include=("golf", "news"))]
    )
    with pytest.raises(ConfigurationError, match="always_include names golf, and no tool of the agent"):
        await talk(agent, "Hello")
    with pytest.raises(ConfigurationError, match="k must be a whole number"):
        ToolRetriever(topics()).top("Hello", 0)


class Follows:
    """A graph in which one tool came after another one."""

    def __init__(self, support=3, **following):
        self._following, self._support = following, support

    def suggest(self, last_tool, *, k=2):
        next_tool = self._following.get(last_tool)
        return [Suggestion(next_tool, 1.0, "procedural", self._support)][:k] if next_tool else []


def test_a_graph_brings_the_tools_that_came_next():
    words = ToolRetriever(topics()).top("book flights", 2)
    joined = ToolRetriever(topics(), graph=Follows(flights="insurance")).top("book flights", 2)

    assert names(words)[0] == "flights"
    assert "insurance" not in names(words)
    assert set(names(joined)) == {"flights", "insurance"}


def test_a_graph_speaks_of_two_steps_ahead_and_of_the_tool_called_last():
    graph = Follows(flights="insurance", insurance="parking", stocks="news")

    assert set(names(ToolRetriever(topics(), graph=graph).top("flights", 3))) == {"flights", "insurance", "parking"}
    assert "news" in names(ToolRetriever(topics(), graph=graph).top("flights", 4, last_tool="stocks"))


def test_the_middleware_follows_the_graph_from_the_last_call_before_the_turn():
    graph = Follows(stocks="news")
    model = Watched(replies=[AIMessage("Done.")])
    agent = create_agent(model, topics(), middleware=[ToolSelectionMiddleware(max_tools=2, graph=graph)])
    call = {"name": "stocks", "args": {"where": "Oslo"}, "id": "1"}
    said = [
        HumanMessage("Buy."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("done", tool_call_id="1"),
        AIMessage("Done."),
    ]

    agent.invoke({"messages": [*said, HumanMessage("Go on.")]})

    assert "news" in model.bound[-1]


async def test_what_other_middleware_selects_is_all_there_is_to_rank(talk):
    model = Watched(replies=["Hello."])
    middleware = [FewAtATime(), ToolSelectionMiddleware(max_tools=2)]
    await talk(create_agent(model, topics(), middleware=middleware), "Insurance for sports. Or music? Maps!")
    assert model.bound == [["music", "maps"]]
