"""Conversation: requests, rounds of calls, where a run begins, and that all rooms see the same."""

from collections import Counter
from types import SimpleNamespace

import pytest
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    HashingEmbeddings,
    SITGraph,
    SITGraphNode,
    Trajectory,
    search,
)
from langchain_tooltree.errors import EmptyQueryError
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.messages.tool_calls import pair_calls
from langchain_tooltree.testing import ScriptedChatModel

TASK = "The house is cold. Get the boiler to 2 bar."
RECALLED = HumanMessage(mark_as_reference("Turn the green valve.", source="memory"))
ASKED = HumanMessage(TASK)
KNOWN = "They want the boiler at 2 bar."
SUMMARY = HumanMessage(
    f"Here is a summary of the conversation to date:\n\n{KNOWN}",
    additional_kwargs={"lc_source": "summarization"},
)


def call(tool, number=1):
    return AIMessage(
        "", tool_calls=[{"name": tool, "args": {}, "id": f"{tool} {number}"}]
    )


def called(tool, number=1, **fields):
    return [
        call(tool, number),
        ToolMessage("1.2 bar", tool_call_id=f"{tool} {number}", name=tool, **fields),
    ]


def gauged(number=1):
    return called("read_gauge", number)


def failed(number=1):
    return called("turn_valve", number, status="error")


def together(*names):
    """Calls made in parallel, and what they brought back."""
    calls = [
        {"name": "read_gauge", "args": {"gauge": name}, "id": name} for name in names
    ]
    return [
        AIMessage("", tool_calls=calls),
        *(ToolMessage(name, tool_call_id=name) for name in names),
    ]


def ids(rounds):
    return [[message.tool_call_id for message in each.results] for each in rounds]


@pytest.mark.parametrize(
    "last", [ASKED, AIMessage("Done."), call("read_gauge"), SystemMessage("Go on.")]
)
def test_where_something_else_was_said_there_are_none(last):
    assert [
        each.tool_call_id for each in Conversation([ASKED, *together("a", "b")]).results
    ] == ["a", "b"]
    assert Conversation([ASKED, *gauged(), last]).results == []
    assert Conversation([]).results == []


def test_rounds_come_latest_first_back_to_the_request():
    messages = [
        ASKED,
        *failed(1),
        AIMessage("Done."),
        ASKED,
        *gauged(1),
        *together("a", "b"),
        *gauged(2),
        *failed(2),
    ]

    assert ids(Conversation(messages).rounds()) == [
        ["turn_valve 2"],
        ["read_gauge 2"],
        ["a", "b"],
        ["read_gauge 1"],
    ]
    assert ids(Conversation(messages).rounds(beyond_request=True))[4:] == [
        ["turn_valve 1"]
    ]


def test_what_memory_says_is_no_request():
    messages = [ASKED, *gauged(1), RECALLED, *gauged(2)]

    assert Conversation(messages).request is ASKED
    assert Conversation(messages).task == TASK
    assert ids(Conversation(messages).rounds()) == [["read_gauge 2"], ["read_gauge 1"]]


@pytest.mark.parametrize(
    "content", [TASK, [{"type": "text", "text": TASK}], f"{TASK}\n\n{RECALLED.content}"]
)
def test_the_task_is_the_text_of_the_latest_request(content):
    said = Conversation(
        [HumanMessage("Hello."), AIMessage("Hello."), HumanMessage(content), *gauged()]
    )
    assert said.task == TASK
    assert said.requests == ["Hello.", TASK]


def test_without_a_request_there_is_no_task():
    assert Conversation([]).request is None
    assert Conversation([AIMessage("Hello."), RECALLED]).task == ""


@pytest.mark.parametrize(
    "messages",
    [[("user", TASK)], [{"role": "user", "content": TASK}], [ASKED], (ASKED,)],
)
def test_messages_of_any_form_in_states_of_any_form_are_read(messages):
    for state in (
        messages,
        {"said": messages},
        SimpleNamespace(said=messages),
        Conversation(messages),
    ):
        assert Conversation.of(state, "said").messages == [ASKED]
    assert (
        Conversation.of({}, "said").messages
        == Conversation.of({"said": None}, "said").messages
        == []
    )


def test_a_summary_is_no_request():
    assert Conversation([SUMMARY, *gauged()]).request is None
    assert Conversation([ASKED, SUMMARY, *gauged()]).request is ASKED
    assert (
        Conversation([SUMMARY, RECALLED, ASKED, HumanMessage("And now?")]).first_task
        == TASK
    )
    assert Conversation([SUMMARY, ASKED]).is_summarized
    assert not Conversation([ASKED]).is_summarized


def test_a_summary_is_planned_for_where_nothing_else_tells_what_the_user_wants():
    assert Conversation([SUMMARY, *gauged()]).goals == [KNOWN]
    assert Conversation([SUMMARY, *gauged(), ASKED]).goals == [TASK]
    assert Conversation(
        [HumanMessage("In short.", additional_kwargs=SUMMARY.additional_kwargs)]
    ).goals == ["In short."]
    assert Conversation([]).goals == []


def test_what_was_removed_does_not_count():
    old, new = HumanMessage("Hello.", id="1"), HumanMessage(TASK, id="2")

    assert Conversation([new, old, RemoveMessage(id="1")]).requests == [TASK]
    assert Conversation(
        [old, RemoveMessage(id="1"), HumanMessage(TASK, id="1")]
    ).requests == [TASK]
    assert Conversation([old, RemoveMessage(REMOVE_ALL_MESSAGES), new]).messages == [
        new
    ]
    assert Conversation([old, RemoveMessage(id="1")]).latest_kind is None
    assert Conversation([old, RemoveMessage(REMOVE_ALL_MESSAGES), new]).get_ends(
        99, longest=9, call_size=9
    ) == ([new], 0)
    assert Conversation([old, new, RemoveMessage(id="1")]).get_ends(
        99, longest=9, call_size=9
    ) == ([new], 0)


def test_the_steps_of_the_run_have_their_outcomes():
    said = Conversation(
        [*gauged(1), ASKED, *failed(2), *gauged(3), call("read_gauge", 4)]
    )

    assert [
        (step.call_id, step.result and step.result.status) for step in said.calls
    ] == [
        ("turn_valve 2", "error"),
        ("read_gauge 3", "success"),
        ("read_gauge 4", None),
    ]
    assert [made["id"] for made in said.tool_calls] == [
        "read_gauge 1",
        *(step.call_id for step in said.calls),
    ]


def test_calls_of_two_messages_may_have_the_same_id():
    calls = [
        AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "0"}])
        for name in "ab"
    ]
    result = ToolMessage("A", tool_call_id="0")
    failed = ToolMessage("boom", tool_call_id="0", status="error")
    for last, told in ([failed], "boom"), ([], None):
        steps = Conversation(
            [HumanMessage("Go on."), calls[0], result, calls[1], *last]
        ).calls
        assert [(step.tool, step.result and step.result.text) for step in steps] == [
            ("a", "A"),
            ("b", told),
        ]


def test_calls_that_nobody_has_answered_are_known_by_their_place():
    *most, _ = together("a", "b")

    assert {
        place: made["id"]
        for place, made in Conversation([ASKED, *most]).open_calls.items()
    } == {1: "b"}
    assert Conversation([*most, ASKED]).open_calls.keys() == {1}
    assert Conversation([ASKED]).open_calls == {}


def test_instructions_and_what_came_last_are_told_apart():
    said = Conversation(
        [
            SystemMessage("Be kind."),
            ASKED,
            *gauged(),
            AIMessage("Low."),
            HumanMessage("And now?"),
        ]
    )

    assert said.instructions == "Be kind."
    assert said.latest_kind == "request"


class Counted(list):
    """A conversation that counts how often each of its messages is read."""

    def __init__(self, messages):
        super().__init__(messages)
        self.reads = Counter()

    def __getitem__(self, place):
        self.reads[place] += 1
        return super().__getitem__(place)

    def __reversed__(self):
        for place in range(len(self) - 1, -1, -1):
            yield self[place]

    def __iter__(self):
        pytest.fail("all of it is read")


def test_each_message_is_read_once_and_only_as_far_as_needed():
    messages = Counted([*gauged() * 5_000, ASKED, *gauged(1), *failed(2)])
    said = Conversation(messages)

    assert (said.task, len(list(said.rounds())), len(said.calls), said.latest_kind) == (
        TASK,
        2,
        2,
        "result",
    )

    assert set(messages.reads.values()) == {1}
    assert len(messages.reads) == 5


@pytest.mark.parametrize(
    "form",
    [
        lambda said: said,
        lambda said: {"said": said},
        lambda said: SimpleNamespace(said=said),
    ],
)
def test_a_long_conversation_in_a_state_is_not_copied(form):
    messages = Counted([*gauged() * 5_000, ASKED])

    assert Conversation.of(form(messages), "said").request is ASKED
    assert messages.reads.total() == 1


# --- all rooms see the same request ---


@tool
def read_gauge(gauge: str) -> str:
    """Read a gauge."""
    return gauge


class Noting(HashingEmbeddings):
    """Embeddings that note the texts they are given."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def embed_documents(self, texts):
        self.noted += texts
        return super().embed_documents(texts)


def seen_by_the_planner(messages):
    model = ScriptedChatModel(replies=["There is nothing to do."] * 3)
    return search(
        messages, [read_gauge], model=model, effects={"read_gauge": "read"}
    ).query


def seen_by_the_graph(messages):
    """The only text that the views of the state are made of; the thread holds no reply and no observation."""
    embeddings = Noting()
    run = Trajectory.from_messages([HumanMessage("Warm up."), *gauged()], success=True)
    graph = SITGraph.from_trajectories([run], embeddings=embeddings)
    embeddings.noted.clear()
    (suggestion,) = SITGraphNode(graph).invoke({"messages": messages})["suggestions"]
    assert suggestion["tool"] == "read_gauge"
    (text,) = set(embeddings.noted)
    return text


def seen_by_memory(messages):
    memory = CFGMMemory(ScriptedChatModel(replies=[]), InMemoryStore())
    reflector, model = (
        ScriptedChatModel(replies=[]),
        ScriptedChatModel(replies=["It is warm."]),
    )
    agent = create_agent(
        model, [read_gauge], middleware=[CFGMMiddleware(reflector, memory, patience=0)]
    )
    (event,) = agent.stream({"messages": messages}, stream_mode="custom")
    (recorded,) = memory.experience.trajectories()
    assert recorded.task == event["tooltree"]["task"]
    return recorded.task


def seen_by_the_record(messages):
    return Trajectory.from_messages(add_messages([], messages)).task


@pytest.mark.slow
@pytest.mark.parametrize(
    "messages",
    [
        [ASKED],
        [("user", TASK)],
        [{"role": "user", "content": TASK}],
        [HumanMessage(f"{TASK}\n\n{RECALLED.content}")],
        [
            HumanMessage(
                [
                    {"type": "text", "text": TASK},
                    {"type": "text", "text": RECALLED.content},
                ]
            )
        ],
        [ASKED, RECALLED],
        [SUMMARY, ASKED],
        [SUMMARY, RECALLED, ASKED],
        [
            HumanMessage(
                [
                    {"type": "text", "text": TASK},
                    {"type": "image", "url": "https://example.org/gauge.png"},
                ]
            )
        ],
        [HumanMessage("Paint the fence.", id="1"), RemoveMessage(id="1"), ASKED],
        [HumanMessage("Paint the fence.", id="1"), ASKED, RemoveMessage(id="1")],
    ],
    ids=[
        "a plain one",
        "a pair",
        "a dict",
        "ends in reference material",
        "a block of reference material",
        "nothing but reference material after it",
        "a summary before it",
        "a summary and reference material before it",
        "with a picture",
        "another one was removed before",
        "another one was removed after",
    ],
)
@pytest.mark.parametrize(
    "seen_by",
    [seen_by_the_planner, seen_by_the_graph, seen_by_memory, seen_by_the_record],
    ids=lambda room: room.__name__,
)
def test_all_rooms_see_the_same_request(seen_by, messages):
    assert seen_by(messages) == TASK


def test_a_summary_is_no_task_of_a_record_in_any_format():
    run = Trajectory.from_messages([SUMMARY, *gauged()])

    assert run.task == Trajectory.from_chat(run.messages).task == ""
    assert (
        Trajectory.from_chat([*run.messages, {"role": "user", "content": TASK}]).task
        == TASK
    )
    assert run.to_messages() == [SUMMARY, *gauged()]


def test_a_thread_of_nothing_but_a_summary_is_planned_on():
    assert seen_by_the_planner([SUMMARY, *failed()]) == KNOWN
    assert seen_by_the_planner([SUMMARY, *gauged(), ASKED]) == TASK
    with pytest.raises(EmptyQueryError):
        seen_by_the_planner([RECALLED])


def test_a_dialogue_reads_as_its_record_does():
    said = [
        SystemMessage("Be brief."),
        RECALLED,
        *(each for n in range(40) for each in (ASKED, *called("look", n))),
    ]
    said.insert(
        30,
        HumanMessage(mark_as_reference("Knock.", source="memory") + "\nAnd the pump?"),
    )
    recorded = Trajectory.from_messages(said).messages
    assert Conversation(said).chat == recorded
    graph = SITGraph.from_trajectories(
        [Trajectory.from_messages(said, success=True)], embeddings=HashingEmbeddings()
    )
    assert graph.next_tools(Conversation(said).chat) == graph.next_tools(recorded)


def test_results_belong_to_the_latest_response_where_ids_are_numbered_anew():
    def response(*arguments):
        entries = [
            {"id": str(number), "function": {"name": "look", "arguments": each}}
            for number, each in enumerate(arguments)
        ]
        return {"role": "assistant", "tool_calls": entries}

    def result(call_id, content):
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    messages = [
        response('{"x": 1}', '{"x": 2}'),
        result("0", "of 1"),
        result("1", "of 2"),
        response('{"x": 3}', '{"x": 4}'),
        result("1", "of 4"),
        result("0", "of 3"),
        response('{"x": 5}', '{"x": 6}'),
        result("1", "of 6"),
        result("1", "of nobody"),
    ]

    paired = pair_calls(messages)

    found = [
        (call.arguments["x"], call.result and call.result.text) for call in paired.calls
    ]
    assert found == [
        (1, "of 1"),
        (2, "of 2"),
        (3, "of 3"),
        (4, "of 4"),
        (5, None),
        (6, "of 6"),
    ]
    assert 8 not in paired.call_of_result
