"""The graph for others to look at: networkx, Mermaid, and labels that a picture shows as they are."""

import networkx as nx
import pytest
from langchain_core.tools import StructuredTool
from little_runs import called, routine, run_of, says, summed_up, user

from langchain_tooltree import SITGraph
from langchain_tooltree.text import mermaid_text, one_line

RUNS = [
    run_of(
        "1",
        user("Hi"),
        *called("find"),
        *summed_up("One."),
        *summed_up("Two."),
        *called("pay"),
        says("Done."),
    ),
    routine("2", "find", "pay"),
    routine("3", "find", "ask", "ask"),
]


def test_networkx_gets_nodes_edges_and_what_lies_on_them():
    graph = SITGraph.from_trajectories(RUNS, alpha=1.0).to_networkx()

    assert isinstance(graph, nx.DiGraph)
    assert set(graph.nodes) == {"", "find", "pay", "ask"}
    raw_pay, raw_ask = 2 + 1 / 5 + 1 / 3, 1 + 1 / 4
    assert graph.edges["find", "pay"] == {
        "count": 2,
        "summaries": 2,
        "raw_weight": pytest.approx(raw_pay),
        "weight": pytest.approx(raw_pay / (raw_pay + raw_ask)),
    }
    assert graph.edges["find", "ask"]["summaries"] == 0
    assert {type(value) for value in graph.edges["find", "pay"].values()} == {
        int,
        float,
    }


def test_nodes_of_tools_have_their_descriptions():
    find = StructuredTool.from_function(
        lambda: "", name="find", description="Finds an order."
    )
    other = StructuredTool.from_function(
        lambda: "", name="other", description="Never called."
    )
    nodes = (
        SITGraph.from_trajectories(RUNS)
        .to_networkx([find, other])
        .nodes(data="description")
    )
    assert dict(nodes) == {
        "": None,
        "find": "Finds an order.",
        "pay": None,
        "ask": None,
    }


def test_the_flowchart_of_a_small_graph():
    assert SITGraph.from_trajectories(RUNS, alpha=0).to_mermaid().splitlines() == [
        "flowchart LR",
        '  n0(["start"])',
        '  n1["ask"]',
        '  n2["find"]',
        '  n3["pay"]',
        '  n0 ==>|"1.00, 3x"| n2',
        '  n1 ==>|"1.00, 1x"| n1',
        '  n2 -->|"0.33, 1x"| n1',
        '  n2 ==>|"0.67, 2x"| n3',
    ]


def test_of_a_large_graph_the_edges_followed_most_often_are_drawn():
    chart = (
        SITGraph.from_trajectories(RUNS, alpha=0).to_mermaid(max_edges=2).splitlines()
    )

    assert chart == [
        "flowchart LR",
        '  n0(["start"])',
        '  n1["find"]',
        '  n2["pay"]',
        '  n0 ==>|"1.00, 3x"| n1',
        '  n1 ==>|"0.67, 2x"| n2',
        "  %% 2 edges that were followed less often are left out",
    ]


def test_an_empty_graph_is_an_empty_picture():
    assert SITGraph().to_mermaid() == "flowchart LR"
    assert not SITGraph().to_networkx().nodes


def test_odd_names_do_not_break_the_picture():
    chart = (
        SITGraph.from_trajectories([routine("1", 'a"|]b\n%% (c)', "|" * 99)])
        .to_mermaid()
        .splitlines()
    )

    assert chart[2] == '  n1["a#34;#124;#93;b %% #40;c#41;"]'
    assert chart[3] == f'  n2["{"#124;" * 39}…"]'
    assert len(chart) == 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain_name-1", "plain_name-1"),
        ('say "hi"', "say #34;hi#34;"),
        ("a|b[c](d){e}", "a#124;b#91;c#93;#40;d#41;#123;e#125;"),
        ("#1 & <b>`x`", "#35;1 #38; #60;b#62;#96;x#96;"),
        ("", ""),
    ],
)
def test_mermaid_shows_a_text_as_it_is(text, shown):
    assert mermaid_text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short", "short"),
        ("a \n\t b", "a b"),
        ("abcdef", "abcdef"),
        ("abcdefg", "abcde…"),
    ],
)
def test_a_long_text_is_cut_and_stands_on_one_line(text, shown):
    assert one_line(text, 6) == shown
