import io

import pytest
from rich.console import Console

from tests.internals.hall import one_line
from tests.internals.tooltree import Call, Observation, Tree, figures, status, to_mermaid, to_rich


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
    lines = to_mermaid(tree, best=[1]).splitlines()
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
    label = to_mermaid(tree).splitlines()[2]
    inside = label[label.index('["') + 2 : label.rindex('"]')].replace("<br/>", "")
    assert not set('"<>[]{}()`&') & set(inside)


def test_an_empty_tree_is_a_chart_too():
    assert 'n0(["request"])' in to_mermaid(Tree())
    assert "class n" not in to_mermaid(Tree())


def test_a_terminal_shows_calls_figures_and_observations(tree):
    shown = terminal(to_rich(tree, best=[1]))
    assert 'look(at="a \\"b\\" <c>")' in shown
    assert "Q=0.70 N=1 r_pre=0.90 r_post=0.70" in shown
    assert "blue sky" in shown
    assert "pruned before" in shown


def test_markup_in_calls_and_observations_is_shown_as_it_is():
    tree = Tree()
    node = tree.add(tree.root, Call(tool="tag", arguments={"x": "[bold]"}, effect="read"))
    node.observation = Observation(content="[/red] text")
    shown = terminal(to_rich(tree))
    assert "[bold]" in shown
    assert "[/red] text" in shown


def test_every_reason_for_pruning_has_words(tree):
    for reason in ("pre_evaluation", "top_k", "post_evaluation"):
        tree[1].pruned = reason
        assert status(tree[1]).startswith("pruned ")


def test_an_answer_that_leaves_something_out_says_what(tree):
    assert "answered" not in status(tree[1])
    tree[1].answer, tree[1].missing = {"type": "ai"}, ["the mail", "a <date>"]
    assert status(tree[1]) == "answered, missing: the mail; a <date>"
    assert "the mail; a #60;date#62;" in to_mermaid(tree)
    assert "missing: the mail" in terminal(to_rich(tree))


def test_calls_of_one_reply_and_answers_have_words(tree):
    asked = tree.add(tree[1], Call(tool="ask", arguments={}, effect="write"), batched=True)
    assert status(asked) == "in the same reply, write, not run"
    tree[1].answer = {"type": "ai", "data": {"content": "Blue."}}
    assert status(tree[1]) == "answered"


def test_a_node_that_is_nowhere_yet_has_no_figures():
    assert figures(Tree().root) == ""
    assert status(Tree().root) == ""


def test_texts_are_shortened_to_one_line():
    assert one_line("a\n  b", 10) == "a b"
    assert one_line("abcdef", 4) == "abc…"
