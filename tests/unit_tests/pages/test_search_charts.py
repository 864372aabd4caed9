"""The tree of a search in a terminal: what it shows."""

import io

import pytest
from rich.console import Console

from langchain_tooltree.pages.search import figures, status, to_rich
from tests.internals.pages import made, search_of

AT = {"at": 'a "b" <c>'}


@pytest.fixture
def search():
    return search_of(
        made("look", arguments=AT, r_pre=0.9, r_post=0.7, N=1, Q=0.7, seen="blue\nsky"),
        made("send", arguments=AT, effect="write", r_pre=0.8, r_post=0.6, N=1, Q=0.6),
        made("guess", arguments=AT, r_pre=0.1, pruned="pre_evaluation"),
        made(
            "fail",
            arguments=AT,
            r_pre=0.3,
            scored=[False, True],
            seen="x",
            kind="timeout",
        ),
        best=[1],
    )


def terminal(drawn):
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(drawn)
    return console.file.getvalue()


def test_a_terminal_shows_calls_figures_and_observations(search):
    shown = terminal(to_rich(search))
    assert '✔ look(at="a \\"b\\" <c>")' in shown
    assert "Q=0.70 N=1 r_pre=0.90 r_post=0.70" in shown
    assert "blue sky" in shown
    assert "pruned before" in shown


def test_markup_in_calls_and_observations_is_shown_as_it_is():
    shown = terminal(
        to_rich(search_of(made("tag", arguments={"x": "[bold]"}, seen="[/red] text")))
    )
    assert "[bold]" in shown
    assert "[/red] text" in shown


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"pruned": "pre_evaluation"}, "pruned before"),
        ({"pruned": "top_k"}, "pruned before: not in top k"),
        ({"pruned": "post_evaluation", "seen": "x"}, "pruned after"),
        ({"effect": "write", "batched": True}, "in the same reply, write, not run"),
        ({"seen": "x", "answer": "Blue."}, "answered"),
        (
            {"answer": "Blue.", "missing": ["the mail", "a <date>"]},
            "answered, missing: the mail; a <date>",
        ),
        ({}, ""),
    ],
)
def test_what_became_of_a_call_is_said_in_words(values, words):
    [root, node] = search_of(made(**values))["nodes"]
    assert status(node) == words
    assert (figures(root), status(root)) == ("", "")


def test_what_an_answer_leaves_out_is_said():
    search = search_of(made(answer="Blue.", missing=["the mail", "a <date>"]))
    assert "missing: the mail" in terminal(to_rich(search))
