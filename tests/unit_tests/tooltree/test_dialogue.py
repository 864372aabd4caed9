"""The conversation as it stands at a node, asked for again and again while the tree grows."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.internals.experience import as_reference
from tests.internals.tooltree import Call, Observation, PathDialogue, SignedReasoning, Tree, transcript


@pytest.fixture
def tree():
    tree = Tree()
    for place in ("attic", "cellar"):
        tree.add(
            tree.root,
            Call(
                tool="look", arguments={"place": place}, effect="read", signed_reasoning=SignedReasoning(call_id="same")
            ),
        )
    return tree


def test_what_a_call_brings_back_stands_there_from_then_on(tree):
    dialogue, node = PathDialogue(tree, [HumanMessage("Go.")]), tree[1]
    assert len(dialogue.prompt_at(node)) == 2
    node.observation = Observation(content="dust")
    assert dialogue.prompt_at(node)[-1].content == "dust"
    assert dialogue.prompt_at(node) == dialogue.prompt_at(node)


def test_long_results_stand_whole_in_messages_and_without_their_middle_in_what_judges_and_retrieval_read(tree):
    call = {"name": "look", "args": {}, "id": "before"}
    said = [HumanMessage("Go. " * 50), AIMessage("", tool_calls=[call]), ToolMessage("y" * 100, tool_call_id="before")]
    dialogue, node = PathDialogue(tree, said, judged_chars=10), tree[1]
    node.observation = Observation(content="x" * 100)
    assert dialogue.prompt_at(node)[-1].content == "x" * 100
    history = dialogue.history_at(node)
    assert [len(entry["text"]) for entry in history if "text" in entry] == [len("Go. " * 50)]
    cut = "xxxxxxx [... 90 characters left out ...] xxx"
    assert [entry["observation"] for entry in history if "observation" in entry] == [cut.replace("x", "y"), cut]
    assert dialogue.context_at(node)[-1].endswith(cut)


def test_what_was_recalled_is_no_words_of_the_user_for_a_judge():
    recalled = HumanMessage(as_reference("Always pay first.", source="past runs"))
    assert [entry["role"] for entry in transcript([HumanMessage("Go."), recalled])] == ["user", "reference"]


def test_siblings_that_share_an_id_keep_their_own_messages(tree):
    dialogue = PathDialogue(tree, [HumanMessage("Go.")])
    for node in tree.nodes[1:]:
        node.observation = Observation(content=node.call.arguments["place"])
    assert [dialogue.prompt_at(node)[-1].content for node in tree.nodes[1:]] == ["attic", "cellar"]


def test_ids_follow_the_key_of_the_run(tree):
    tree[1].observation = Observation(content="dust")
    node = tree.add(tree[1], Call(tool="look", arguments={}, effect="read"))
    node.observation = Observation(content="more dust")
    dialogue = PathDialogue(tree, [HumanMessage("Go.")])
    given = set()
    for key in ("one", "other"):
        dialogue.run_key = key
        assert dialogue.prompt_at(node)[-1].tool_call_id == dialogue.request_at(node)[0]
        given.add(dialogue.request_at(node)[0])
    assert len(given) == 2


@pytest.fixture
def batch():
    """A tree with one reply of two reads and a write, below a read that has run."""
    tree = Tree()
    node = tree.add(tree.root, Call(tool="look", arguments={}, effect="read"))
    node.observation = Observation(content="two doors")
    for number, effect in enumerate(("read", "read", "write")):
        node = tree.add(node, Call(tool=f"open_{number}", arguments={}, effect=effect), batched=number > 0)
    return tree


def shape(messages):
    return [
        message.content if message.type != "ai" else [call["name"] for call in message.tool_calls]
        for message in messages
    ]


def test_a_tool_finds_the_whole_reply_that_made_its_call(batch):
    dialogue = PathDialogue(batch, [HumanMessage("Go.")])
    found = [dialogue.request_at(node) for node in batch.nodes[2:]]
    for position, (call_id, messages) in enumerate(found):
        assert shape(messages) == ["Go.", ["look"], "two doors", ["open_0", "open_1", "open_2"]]
        assert messages[-1].tool_calls[position]["id"] == call_id
    assert len({call_id for call_id, _ in found}) == 3


def test_what_calls_have_just_brought_back_is_read_before_the_tree_holds_it(batch):
    dialogue, node = PathDialogue(batch, [HumanMessage("Go.")]), batch[3]
    fresh = {2: Observation(content="a wall"), 3: Observation(content="a garden")}
    read = ["Go.", ["look"], "two doors", ["open_0", "open_1"], "a wall", "a garden"]
    assert shape(dialogue.prompt_at(node, fresh=fresh)) == read
    assert dialogue.context_at(node, fresh=fresh)[-1] == "open_1() a garden"
    other = {2: Observation(content="a wall"), 3: Observation(content="a street")}
    assert dialogue.prompt_at(node, fresh=other)[-1].content == "a street", "nothing is kept that the tree may not hold"
    assert "a garden" not in str(dialogue.prompt_at(node))


def test_the_words_and_the_name_of_the_agent_stand_in_its_messages():
    tree = Tree()
    node = tree.add(tree.root, Call(tool="look", arguments={}, effect="read", said="Let me look."))
    node.observation = Observation(content="dust")
    dialogue = PathDialogue(tree, [HumanMessage("Go.")], name="scout")
    _, made, _ = dialogue.prompt_at(node)
    assert (made.text, made.name) == ("Let me look.", "scout")
    assert dialogue.request_at(node)[1][-1].name == "scout"
    assert dialogue.history_at(node)[1] == {"role": "assistant", "text": "Let me look."}


def test_what_waits_stands_apart_from_what_was_run(batch):
    dialogue = PathDialogue(batch, [HumanMessage("Go.")])
    for node in batch.nodes[2:4]:
        node.observation = Observation(content=node.call.tool)
    read = ["Go.", ["look"], "two doors", ["open_0", "open_1"], "open_0", "open_1", ["open_2"]]
    assert shape(dialogue.prompt_at(batch[4])) == read
    called = [entry for entry in dialogue.history_at(batch[4]) if "call" in entry]
    assert [entry.get("executed") for entry in called] == [None, None, None, False]
