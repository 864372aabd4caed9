"""The detector as a whole: what it looks at, in which order, and at what cost."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from runs_to_read import calls, seen

from langchain_tooltree import AnomalyDetector, ConfigurationError
from langchain_tooltree.anomaly.rules import Anomaly
from langchain_tooltree.messages.reference import mark_as_reference

CHECK = AnomalyDetector().check


@tool
def search(query: str) -> str:
    """Search."""
    return query


class Counted(list):
    """A conversation that counts how many of its messages are read."""

    reads = 0

    def __getitem__(self, place):
        assert isinstance(place, int), "a copy is made"
        self.reads += 1
        return super().__getitem__(place)

    def __iter__(self):
        pytest.fail("the whole conversation is read")


def test_nothing_new_is_nothing_to_look_at():
    assert CHECK([]) is None
    assert CHECK([HumanMessage("Error: no")]) is None
    assert CHECK([*seen("Error: no"), AIMessage("Sorry")]) is None
    assert CHECK([*seen("Error: no"), HumanMessage("And now?")]) is None


def test_an_error_is_told_by_its_status_and_says_which_call_it_was():
    anomaly = CHECK(seen("odd", status="error"))
    assert anomaly == Anomaly(
        "error",
        '`act(try it)` failed: "odd".',
        1.0,
        recoverable=True,
        tool="act",
        call_id="call_0",
    )


def test_what_the_tools_node_writes_is_an_error_without_the_status_too():
    assert (
        CHECK(seen("Error: KeyError('x')\n Please fix your mistakes.")).kind == "error"
    )
    assert (
        CHECK(
            seen(
                "Error executing tool 'act' with kwargs {} with error:\n no\n Please fix"
            )
        ).kind
        == "error"
    )


def test_a_tool_that_never_was_is_told_from_one_that_is_gone():
    message = "Error: fly is not a valid tool, try one of [walk]."
    assert CHECK(calls(("fly", {}, message))).kind == "unknown_tool"
    assert (
        CHECK(
            calls(
                ("fly", {}, "You fly."), ("walk", {}, "You walk."), ("fly", {}, message)
            )
        ).kind
        == "drift"
    )
    failed = seen("No.", status="error")
    assert CHECK(failed, tools=["walk", search]).kind == "unknown_tool"
    assert CHECK(failed, tools=["walk", "act"]).kind == "error"


def test_a_tool_that_brings_something_is_there_be_it_in_no_list():
    assert CHECK(calls(("fly", {}, "You fly.")), tools=["walk", search]) is None
    assert (
        CHECK(
            calls(
                ("fly", {}, "You fly."), ("walk", {}, "You walk."), ("fly", {}, "Up!")
            ),
            tools=["walk"],
        )
        is None
    )


def test_an_observation_of_nobody_knows_what_is_no_unknown_tool():
    lonely = [HumanMessage("Go"), ToolMessage("No.", tool_call_id="1", status="error")]
    assert CHECK(lonely, tools=[search]).kind == "error"
    assert (
        CHECK(
            [HumanMessage("Go"), ToolMessage("Fine.", tool_call_id="1")], tools=[search]
        )
        is None
    )


def test_the_rejection_of_a_person_is_an_instruction():
    said = "User rejected the tool call for `act` with reason: this cannot be undone"
    assert CHECK(seen(said, status="error")) is None
    said = "The user rejected this call of act; it was not carried out. They said: no. Do not make it again."
    assert CHECK(seen(said, status="error")) is None


def test_all_parallel_observations_are_looked_at():
    made = [{"name": "act", "args": {}, "id": str(number)} for number in range(3)]
    texts = ["All is well.", "Error: no", "All is well."]
    answers = [
        ToolMessage(text, tool_call_id=str(number), name="act")
        for number, text in enumerate(texts)
    ]
    assert (
        CHECK([HumanMessage("Go"), AIMessage("", tool_calls=made), *answers]).call_id
        == "1"
    )


def test_dicts_and_tuples_are_messages_too():
    made = {
        "id": "1",
        "type": "function",
        "function": {"name": "act", "arguments": "{}"},
    }
    messages = [
        ("user", "Go"),
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "1", "content": '{"error": "no"}'},
    ]
    anomaly = CHECK(messages)
    assert (anomaly.kind, anomaly.tool) == ("error_field", "act")


def test_what_was_advised_is_not_taken_for_the_observation():
    advice = mark_as_reference("Error: you cannot open the door.", source="advice")
    noted = {"response_metadata": {"tooltree": {"added": [advice]}}}
    look = calls(
        ("look", {}, "A table."),
        ("look", {}, f"A table.\n\n{advice}"),
        ("look", {}, "A table."),
    )
    assert CHECK(
        [
            each.model_copy(update=noted) if advice in each.content else each
            for each in look
        ]
    ).kind == ("repetition")
    assert CHECK(look) is None  # a tool may write what looks like it


@pytest.mark.parametrize(
    ("text", "recoverable"),
    [
        ("Error: invalid API key", False),
        ("429 Too Many Requests", False),
        ("402 Payment Required", False),
        ("Error: you exceeded your current quota", False),
        ("503 Service Unavailable", False),
        ("Error: wrong password", False),
        ("Error: the file was not found", True),
        ("You are not logged in. Log in first.", True),
    ],
)
def test_what_the_agent_cannot_help_is_said_to_be_so(text, recoverable):
    assert CHECK(seen(text)).recoverable is recoverable


ODD = [
    *(
        "x" * 1_000_000,
        "{" * 1_000_000,
        " " * 1_000_000,
        "\x00\xff" * 1_000,
        "a " * 500_000,
        '"' * 100_000,
    ),
    *(
        "\\" * 100_000,
        "(" * 5_000,
        "[[[{" * 5_000,
        "error " * 100_000,
        "not " * 100_000,
        "a: " * 100_000,
    ),
    *(
        [{"type": "image", "base64": "abc"}],
        ["All", {"type": "text", "text": "is well."}],
        [],
    ),
]


@pytest.mark.parametrize("content", ODD, ids=lambda content: str(content)[:12])
def test_odd_observations_are_read_without_an_error(content):
    assert CHECK(seen(content)) is None


def test_blocks_are_read_as_text():
    assert CHECK(seen([{"type": "text", "text": "Error: no"}])).kind == "phrase"


@pytest.mark.slow
def test_a_long_conversation_is_read_from_its_end_only():
    pairs = [
        ("act", f"look at thing {number}", f"Thing {number}.")
        for number in range(5_000)
    ]
    messages = Counted(calls(*pairs))
    assert CHECK(messages) is None
    assert messages.reads < 30


def test_a_classifier_is_asked_where_no_rule_has_found_anything():
    asked = []

    def classify(step):
        asked.append(step.result.text)
        return "the colour is wrong" if "green" in step.result.text else None

    detector = AnomalyDetector(classifier=classify)
    assert detector.check(seen("Error: no")).kind == "phrase"
    assert detector.check(seen("A red ball.")) is None
    anomaly = detector.check(seen("A green ball."))
    assert anomaly.kind == "classified"
    assert "the colour is wrong" in anomaly.evidence
    assert asked == ["A red ball.", "A green ball."]


async def test_the_async_twin_does_the_same_with_an_async_classifier():
    async def classify(step):
        await asyncio.sleep(0)
        return "green" in step.result.text

    detector = AnomalyDetector(classifier=classify)
    assert (await detector.acheck(seen("A green ball."))).confidence == 0.7
    assert await detector.acheck(seen("A red ball.")) is None


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"pollers": "wait"}, "pollers"),
        ({"phrases": "no"}, "phrases"),
        ({"classifier": 7}, "classifier"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, word):
    with pytest.raises(ConfigurationError, match=word):
        AnomalyDetector(**options)


def looked_up(*names, asked="Where does Mia Li live?", answer="User {} not found"):
    """Somebody is looked up by names, one after the other."""
    messages = [HumanMessage(asked)]
    for number, name in enumerate(names):
        call = {"name": "find_user", "args": {"name": name}, "id": f"{number}"}
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage(
                answer.format(name), tool_call_id=f"{number}", name="find_user"
            ),
        ]
    return messages


def test_that_there_is_nothing_under_a_name_of_the_user_s_is_weak_evidence():
    assert AnomalyDetector().check(looked_up("mia li")) is None
    again = AnomalyDetector().check(looked_up("mia li", "mia"))
    assert (again.kind, again.confidence) == ("phrase", 0.5)


def test_a_name_that_the_agent_made_up_is_no_such_case():
    assert AnomalyDetector().check(looked_up("M. Lee")).confidence > 0.5
    assert (
        AnomalyDetector()
        .check(looked_up("mia li", answer="Error: the database is locked"))
        .confidence
        > 0.5
    )


def reads(*outcomes, tool="find_orders", parallel=False):
    """Reads by name, one after the other or in one message, with what they brought back."""
    made = [
        {"name": tool, "args": {"buyer": f"buyer {n}"}, "id": f"{n}"}
        for n in range(len(outcomes))
    ]
    seen = [
        ToolMessage(outcome, tool_call_id=f"{n}", name=tool)
        for n, outcome in enumerate(outcomes)
    ]
    replies = (
        [AIMessage("", tool_calls=made)]
        if parallel
        else [AIMessage("", tool_calls=[each]) for each in made]
    )
    later = (
        seen
        if parallel
        else [each for pair in zip(replies, seen, strict=True) for each in pair]
    )
    return [HumanMessage("Whose is it?"), *(replies + seen if parallel else later)]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    "nothing",
    ["[]", "{}", "", "null", '{"orders": [], "count": 0, "ok": true}', "No results."],
)
def test_a_second_empty_result_for_something_named_is_trouble_and_the_first_is_none(
    nothing, parallel
):
    assert CHECK(reads(nothing)) is None
    assert CHECK(reads('[{"id": 7}]', nothing, parallel=parallel)) is None
    again = CHECK(reads(nothing, '[{"id": 7}]', "[]", parallel=parallel))
    assert (again.kind, again.confidence, again.recoverable, again.call_id) == (
        "empty",
        0.5,
        True,
        "2",
    )


def test_what_holds_something_or_names_nothing_or_is_a_write_is_not_empty():
    assert CHECK(reads("[]", '{"orders": [], "total": 3}')) is None
    assert CHECK(reads("", "", tool="save_order")) is None
    unnamed = [{"name": "find_orders", "args": {"page": 7}, "id": "1"}] * 2
    assert (
        CHECK(
            [
                AIMessage("", tool_calls=unnamed),
                *[ToolMessage("[]", tool_call_id="1")] * 2,
            ]
        )
        is None
    )
