import io
import json

import pytest
from langchain_core.messages import AIMessage, message_to_dict
from rich.console import Console

from langchain_tooltree import SearchResult
from tests.internals.hall import one_line
from tests.internals.tooltree import Call, Observation, SearchCost, Tree, figures, status, to_mermaid, to_rich


def data(tree, best=()):
    """A search that grew a tree, as plain data."""
    return {**SearchResult("Go on.", tree, (), SearchCost(), "solved").to_dict(), "best": [*best]}


@pytest.fixture
def tree():
    tree = Tree()
    for tool, effect, values in (
        ("look", "read", {"r_pre": 0.9, "r_post": 0.7, "observation": Observation(content="blue\nsky")}),
        ("send", "write", {"r_pre": 0.8, "r_post": 0.6}),
        ("guess", "read", {"r_pre": 0.1, "pruned": "pre_evaluation"}),
        ("fail", "read", {"r_pre": 0.3, "pre_scored": False, "observation": Observation(content="x", kind="timeout")}),
    ):
        node = tree.add(tree.root, Call(tool=tool, arguments={"at": 'a "b" <c>'}, effect=effect))
        for name, value in values.items():
            setattr(node, name, value)
        if node.r_post is not None:
            tree.backpropagate(node, node.r_post)
    return tree


def terminal(drawn):
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(drawn)
    return console.file.getvalue()


def test_a_chart_shows_figures_reasons_and_the_best_path(tree):
    lines = to_mermaid(data(tree, best=[1])).splitlines()
    assert lines[0] == "flowchart TD"
    assert "Q=0.70 N=1 r_pre=0.90 r_post=0.70" in lines[2]
    assert "write, not run" in lines[3]
    assert lines[3].lstrip().startswith("n2[/")
    assert "pruned before" in lines[4]
    assert "r_pre" not in lines[5]
    assert "timeout" in lines[5]
    assert [line.strip() for line in lines[6:10]] == ["n0 ==> n1", "n0 --> n2", "n0 -.-> n3", "n0 --> n4"]
    assert "  class n1 best" in lines
    assert "  class n3 pruned" in lines


def test_a_charts_labels_hold_nothing_that_mermaid_reads_as_syntax(tree):
    label = to_mermaid(data(tree)).splitlines()[2]
    inside = label[label.index('["') + 2 : label.rindex('"]')].replace("<br/>", "")
    assert not set('"<>[]{}()`&') & set(inside)


def test_a_search_that_was_written_as_json_is_drawn_as_the_live_one(tree):
    tree[1].answer = message_to_dict(AIMessage("Blue."))
    read = json.loads(json.dumps(data(tree, best=[1])))
    assert to_mermaid(read) == to_mermaid(data(tree, best=[1]))
    assert terminal(to_rich(read)) == terminal(to_rich(data(tree, best=[1])))


def test_an_empty_tree_is_a_chart_too():
    assert 'n0(["request"])' in to_mermaid(data(Tree()))
    assert "class n" not in to_mermaid(data(Tree()))


def test_a_terminal_shows_calls_figures_and_observations(tree):
    shown = terminal(to_rich(data(tree, best=[1])))
    assert 'look(at="a \\"b\\" <c>")' in shown
    assert "Q=0.70 N=1 r_pre=0.90 r_post=0.70" in shown
    assert "blue sky" in shown
    assert "pruned before" in shown


def test_markup_in_calls_and_observations_is_shown_as_it_is():
    tree = Tree()
    node = tree.add(tree.root, Call(tool="tag", arguments={"x": "[bold]"}, effect="read"))
    node.observation = Observation(content="[/red] text")
    shown = terminal(to_rich(data(tree)))
    assert "[bold]" in shown
    assert "[/red] text" in shown


def test_every_reason_for_pruning_has_words(tree):
    for reason in ("pre_evaluation", "top_k", "post_evaluation"):
        tree[1].pruned = reason
        assert status(data(tree)["nodes"][1]).startswith("pruned ")


def test_an_answer_that_leaves_something_out_says_what(tree):
    assert "answered" not in status(data(tree)["nodes"][1])
    tree[1].answer, tree[1].missing = message_to_dict(AIMessage("Blue.")), ["the mail", "a <date>"]
    assert status(data(tree)["nodes"][1]) == "answered, missing: the mail; a <date>"
    assert "the mail; a #60;date#62;" in to_mermaid(data(tree))
    assert "missing: the mail" in terminal(to_rich(data(tree)))


def test_calls_of_one_reply_and_answers_have_words(tree):
    asked = tree.add(tree[1], Call(tool="ask", arguments={}, effect="write"), batched=True)
    assert status(data(tree)["nodes"][asked.id]) == "in the same reply, write, not run"
    tree[1].answer = message_to_dict(AIMessage("Blue."))
    assert status(data(tree)["nodes"][1]) == "answered"


def test_a_node_that_is_nowhere_yet_has_no_figures():
    [root] = data(Tree())["nodes"]
    assert (figures(root), status(root)) == ("", "")


def test_texts_are_shortened_to_one_line():
    assert one_line("a\n  b", 10) == "a b"
    assert one_line("abcdef", 4) == "abc…"
