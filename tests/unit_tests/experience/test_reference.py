"""Reference material: marked in a conversation, and left out of every record of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tooltree import Branch, Trajectory
from tests.internals.experience import as_reference, said_without_reference, to_chat, without_reference

TEXT = st.text(max_size=60)
NOTE = as_reference("In a past run, <b>look</b> came first.", source="past runs")
CALL = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])


@given(TEXT, TEXT, TEXT)
def test_what_is_marked_can_be_taken_out_again_whatever_it_says(before, noted, after):
    before, after = before.replace("<", "").strip(), after.replace("<", "").strip()
    rest = without_reference(f"{before}\n\n{as_reference(noted, source='past runs')}\n\n{after}")
    assert rest == "\n\n".join(part for part in (before, after) if part)


@pytest.mark.slow
@given(
    TEXT, st.sampled_from(["</reference_material>", "</ Reference_Material >", NOTE, NOTE[:60], "<reference_material"])
)
def test_a_text_can_neither_end_its_own_mark_nor_begin_another(noted, mark):
    marked = as_reference(f"{noted}\n{mark}{noted}", source="x")
    assert without_reference(marked) == ""
    assert without_reference(f"before {marked} after") == "before\n\nafter"


def test_code_and_data_are_shown_as_they_are():
    query = "SELECT a FROM t WHERE x < 3 AND y > 2 & z; <b>&amp;</b>"
    assert query in as_reference(query, source="x")


@pytest.mark.parametrize(
    "observation",
    [
        "<reference_material> Nothing happens.",
        '<reference_material source="x" id="0123456789ab">\nNothing happens.',
        '<reference_material source="x" id="0123456789ab">\nNothing happens.\n</reference_material>',
    ],
)
def test_what_a_tool_returns_is_not_hidden_by_a_mark_of_its_own(observation):
    assert without_reference(observation) is observation
    assert without_reference(f"{observation}\n\n{NOTE}") == observation


def test_many_beginnings_cost_no_more_than_their_length():
    begun = NOTE.partition("\n")[0] + "\n"
    text = begun * 20_000 + NOTE
    assert len(without_reference(text)) == len(begun) * 20_000 - 1


@given(TEXT)
def test_what_is_not_marked_stays_as_it_is(text):
    assert without_reference(text) is text


@pytest.mark.parametrize(
    "text",
    ["<reference_material>no end", "no beginning</reference_material>", "<reference_materials>a</reference_materials>"],
)
def test_what_only_looks_like_a_mark_stays(text):
    assert without_reference(text) is text


@pytest.mark.parametrize("text", [f"{NOTE} kept {NOTE}", f"{NOTE}\n\n{NOTE}\n\nkept", f"kept{NOTE}{NOTE}"])
def test_several_marks_go_and_what_stands_between_them_stays(text):
    assert without_reference(text) == "kept"


def test_only_the_marked_part_of_content_blocks_goes():
    image = {"type": "image", "url": "picture"}
    note = {"type": "text", "text": NOTE, "cache_control": {"type": "ephemeral"}}
    mixed = {"type": "text", "text": f"It is red.\n\n{NOTE}"}
    assert without_reference([image, note, mixed, f"{NOTE}"]) == [image, {"type": "text", "text": "It is red."}]
    plain = [image, {"type": "text", "text": "It is red."}]
    assert without_reference(plain) is plain


def test_messages_that_were_nothing_else_are_told_apart():
    messages = [
        {"role": "system", "content": NOTE},
        {"role": "user", "content": f"{NOTE}\n\nWhat is here?"},
        {"role": "assistant", "content": NOTE},
        {"role": "tool", "content": NOTE, "tool_call_id": "1"},
        {"role": "user", "content": ""},
    ]
    assert said_without_reference(messages) == [
        None,
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": ""},
        {"role": "tool", "content": "", "tool_call_id": "1"},
        {"role": "user", "content": ""},
    ]


def test_a_trajectory_is_the_same_with_and_without_reference_material():
    plain = [
        HumanMessage("What is here?", id="a"),
        CALL,
        ToolMessage("A door.", tool_call_id="1", id="b"),
        AIMessage("A door."),
    ]
    advised = [
        SystemMessage(NOTE),
        HumanMessage(f"{NOTE}\n\nWhat is here?", id="a"),
        CALL,
        ToolMessage(f"A door.\n\n{NOTE}", tool_call_id="1", id="b"),
        AIMessage("A door."),
    ]
    assert Trajectory.from_messages(advised) == Trajectory.from_messages(plain)


def test_a_branch_still_begins_where_it_did():
    said = [to_chat(each) for each in (SystemMessage(NOTE), HumanMessage("What is here?"), CALL, AIMessage("A door."))]
    helper = [to_chat(AIMessage(f"I look.\n\n{NOTE}"))]
    record = Trajectory.from_chat(said, branches=[Branch("helper", 3, tuple(helper))])
    assert [message["role"] for message in record.messages] == ["user", "assistant", "assistant"]
    assert record.branches == (Branch("helper", 2, (to_chat(AIMessage("I look.")),)),)
