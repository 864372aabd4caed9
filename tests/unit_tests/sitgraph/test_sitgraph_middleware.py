"""SITGraphMiddleware: what the model is shown, and what stays in the thread."""

import asyncio
import re

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from library_desk import (
    ASKED,
    FOUND,
    RENEWABLE,
    THREAD,
    TOOLS,
    WANTED,
    calling,
    desk_agent,
    desk_graph,
    either,
    summing_up,
)

from langchain_tooltree import (
    ConfigurationError,
    HashingEmbeddings,
    SITGraph,
    SITGraphMiddleware,
    Trajectory,
)
from langchain_tooltree.sitgraph.agents import ACKNOWLEDGEMENT
from langchain_tooltree.testing import ScriptedChatModel

SYSTEM = "You work at the desk."
SCRIPT = (*FOUND, summing_up(WANTED), calling("reserve_book"), "It is reserved.")


def systems(model):
    """The system prompt of each call."""
    return [
        messages[0].text if isinstance(messages[0], SystemMessage) else None
        for messages in model.calls
    ]


def suggested(system):
    """The tools that a prompt suggests, best first."""
    _, _, told = (system or "").partition("went on here with: ")
    return re.findall(r"(\w+) in \d+ of \d+ runs", told)


def went_well(_):
    return True


def test_routine_steps_go_by_the_dialogue_and_a_summary_by_what_it_says(path):
    agent, model = desk_agent(
        *SCRIPT, system_prompt=SYSTEM, middleware=[SITGraphMiddleware(desk_graph())]
    )

    either(path, agent)(ASKED)

    at_start, after_reader, after_loans, after_summary, after_reserving = systems(model)
    noted = model.calls[3][-1].text
    assert suggested(at_start) == ["find_reader"]
    assert suggested(after_reader) == ["list_loans"]
    assert set(suggested(after_loans)) == {"renew_loan", "reserve_book"}
    assert suggested(noted)[0] == "reserve_book"
    assert WANTED not in noted
    assert after_summary == after_reserving == SYSTEM
    for system in (at_start, after_reader, after_loans):
        assert system.startswith(f"{SYSTEM}\n\n<reference_material ")


def test_the_thread_shows_what_was_asked_for_alone_and_no_record_learns_it(path):
    saver = InMemorySaver()
    middleware = [SITGraphMiddleware(desk_graph(), verdict=went_well)]
    agent, _ = desk_agent(
        *SCRIPT, system_prompt=SYSTEM, middleware=middleware, checkpointer=saver
    )
    plain, _ = desk_agent(
        *SCRIPT, system_prompt=SYSTEM, middleware=[SITGraphMiddleware(SITGraph())]
    )

    messages = either(path, agent)(ASKED, THREAD)["messages"]

    without = either(path, plain)(ASKED)["messages"]
    assert [message.type for message in messages] == [
        message.type for message in without
    ]
    differing = [
        one.name
        for one, other in zip(messages, without, strict=True)
        if one.content != other.content
    ]
    assert differing == ["summarize_state"]
    assert Trajectory.from_messages(messages).messages[6]["content"] == ACKNOWLEDGEMENT
    assert set(agent.get_state(THREAD).values) == {"messages"}


def test_what_was_suggested_is_noted_beside_the_reply_for_people_alone(path):
    agent, model = desk_agent(*SCRIPT, middleware=[SITGraphMiddleware(desk_graph())])

    messages = either(path, agent)(ASKED)["messages"]

    run = Trajectory.from_messages(messages)
    notes = [
        each.get("langchain", {}).get("response_metadata", {})
        for each in run.messages
        if each["role"] == "assistant"
    ]
    told = [
        [each["tool"] for each in note.get("tooltree", {}).get("suggested", ())]
        for note in notes
    ]
    assert told == [suggested(system) for system in systems(model)]
    assert notes[0]["tooltree"]["suggested"] == [
        {"tool": "find_reader", "share": 0.99, "runs": 4}
    ]
    assert WANTED not in repr(
        [step.result for step in run.calls if step.tool != "summarize_state"]
    )
    summed_up = next(
        each for each in run.messages if each.get("name") == "summarize_state"
    )
    assert summed_up["langchain"]["artifact"].keys() == {
        "summary"
    }  # what other runs did is theirs
    assert "suggested" not in repr(
        [message.content for call in model.calls for message in call]
    )


def test_a_graph_that_has_nothing_to_say_leaves_the_prompt_as_it_is(path):
    agent, model = desk_agent(
        *SCRIPT, system_prompt=SYSTEM, middleware=[SITGraphMiddleware(SITGraph())]
    )

    either(path, agent)(ASKED)

    assert set(systems(model)) == {SYSTEM}


def only(*names):
    """Middleware that leaves the model a selection of tools."""

    @wrap_model_call
    def select(request, handler):
        return handler(
            request.override(
                tools=[tool for tool in request.tools if tool.name in names]
            )
        )

    return select


def test_only_tools_of_the_request_are_suggested():
    selection = only("find_reader", "list_loans", "renew_loan")
    agent, model = desk_agent(
        *FOUND, "Done.", middleware=[selection, SITGraphMiddleware(desk_graph())]
    )

    agent.invoke(ASKED)

    assert suggested(systems(model)[2])[0] == "renew_loan"
    assert "reserve_book" not in systems(model)[2]


class ListeningModel(ScriptedChatModel):
    """Takes any tool, as those with tools of their provider do, and notes which it was given at each call."""

    def bind_tools(self, tools, **options):
        return self.bind(tools=list(tools), **options)

    def _message(self, messages, options):
        tools = options.pop("tools", ())
        self.__dict__.setdefault("bound", []).append(
            [getattr(tool, "name", tool) for tool in tools]
        )
        return super()._message(messages, options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hosted",
    [
        {
            "type": "function",
            "function": {"name": "reserve_book", "parameters": {"type": "object"}},
        },
        {"type": "reserver_2026", "name": "reserve_book"},
        {"type": "reserve_book"},
    ],
    ids=["function", "named", "typed"],
)
def test_tools_of_the_provider_may_be_suggested_too(path, hosted):
    nameless = {"web_search": {}}
    tools = [tool for tool in TOOLS if tool.name in {"find_reader", "list_loans"}]
    graph = desk_graph()
    model = ListeningModel(replies=[*FOUND, "Done."])
    agent = create_agent(
        model,
        [*tools, nameless, hosted],
        middleware=[SITGraphMiddleware(graph, verdict=went_well)],
    )

    either(path, agent)(ASKED)

    assert suggested(systems(model)[2]) == ["reserve_book"]
    assert (
        model.bound
        == [["summarize_state", "find_reader", "list_loans", nameless, hosted]] * 3
    )
    assert len(graph) == 5


@pytest.mark.parametrize(
    ("tools", "bound"), [([], []), (TOOLS[:1], ["summarize_state", "find_reader"])]
)
def test_an_agent_without_tools_has_no_state_to_sum_up(path, tools, bound):
    model = ListeningModel(replies=["Good morning."])
    agent = create_agent(model, tools, middleware=[SITGraphMiddleware(SITGraph())])

    either(path, agent)(ASKED)

    assert model.bound == [bound]


def test_a_graph_that_fails_costs_the_hint_and_not_the_run(path, caplog):
    class Broken(HashingEmbeddings):
        def embed_documents(self, texts):
            msg = "no vectors today"
            raise ConnectionError(msg)

    graph = SITGraph(embeddings=Broken())
    agent, model = desk_agent(
        *SCRIPT, system_prompt=SYSTEM, middleware=[SITGraphMiddleware(graph)]
    )

    assert either(path, agent)(ASKED)["messages"][-1].text == "It is reserved."
    assert set(systems(model)) == {SYSTEM}
    assert (
        "No tool could be suggested: ConnectionError: no vectors today" in caplog.text
    )


class Witness(BaseCallbackHandler):
    """Hears of custom events."""

    def __init__(self):
        self.heard = []

    def on_custom_event(self, name, data, **_):
        self.heard.append((name, data))


def test_suggestions_are_events(path):
    witness = Witness()
    agent, _ = desk_agent(*SCRIPT, middleware=[SITGraphMiddleware(desk_graph())])

    async def streamed():
        return [
            part
            async for part in agent.astream(
                ASKED, {"callbacks": [witness]}, stream_mode="custom"
            )
        ]

    config = {"callbacks": [witness]}
    parts = (
        asyncio.run(streamed())
        if path == "async"
        else list(agent.stream(ASKED, config, stream_mode="custom"))
    )

    events = [part["tooltree"] for part in parts]
    assert [(event["type"], event["last_tool"]) for event in events] == [
        ("suggest", None),
        ("suggest", "find_reader"),
        ("suggest", "list_loans"),
        ("suggest", "list_loans"),
    ]
    modes = [event["suggestions"][0]["mode"] for event in events]
    assert modes == ["contextual", "contextual", "contextual", "episodic"]
    assert witness.heard == [("tooltree.suggest", event) for event in events]


def test_a_model_may_write_the_summaries(path):
    writer = ScriptedChatModel(replies=[RENEWABLE])
    script = (
        *FOUND,
        calling("summarize_state", question="Renew?"),
        calling("renew_loan"),
        "Done.",
    )
    agent, model = desk_agent(
        *script, middleware=[SITGraphMiddleware(desk_graph(), model=writer)]
    )

    either(path, agent)(ASKED)

    assert suggested(model.calls[3][-1].text)[0] == "renew_loan"
    assert "went on here" not in writer.calls[0][0].text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": None}, "graph must be a SITGraph or an Experience, got None"),
        ({"k": 1.5}, "k must be a whole number of 1 or more, got 1.5"),
        ({"model": 3}, "model must be a chat model"),
        ({"verdict": 3}, "verdict must be a function"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        SITGraphMiddleware(**{"graph": SITGraph(), **options})
