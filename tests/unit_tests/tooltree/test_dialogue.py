"""The conversation as it stands at a node, asked for again and again while the tree grows."""

import pytest
from langchain_core.messages import HumanMessage

from tests.internals.tooltree import Call, Observation, PathDialogue, SignedReasoning, Tree


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
    assert len(dialogue.messages_at(node)) == 2
    node.observation = Observation(content="dust")
    assert dialogue.messages_at(node)[-1].content == "dust"
    assert dialogue.messages_at(node) == dialogue.messages_at(node)


def test_siblings_that_share_an_id_keep_their_own_messages(tree):
    dialogue = PathDialogue(tree, [HumanMessage("Go.")])
    for node in tree.nodes[1:]:
        node.observation = Observation(content=node.call.arguments["place"])
    assert [dialogue.messages_at(node)[-1].content for node in tree.nodes[1:]] == ["attic", "cellar"]


def test_ids_follow_the_key_of_the_run(tree):
    tree[1].observation = Observation(content="dust")
    node = tree.add(tree[1], Call(tool="look", arguments={}, effect="read"))
    node.observation = Observation(content="more dust")
    dialogue = PathDialogue(tree, [HumanMessage("Go.")])
    given = set()
    for key in ("one", "other"):
        dialogue.run_key = key
        assert dialogue.messages_at(node)[-1].tool_call_id == dialogue.request_at(node)[0]
        given.add(dialogue.request_at(node)[0])
    assert len(given) == 2
