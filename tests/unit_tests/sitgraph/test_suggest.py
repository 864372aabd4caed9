"""Suggestions: by the agent's summary, by the state of the dialogue, by weight, or none; and what speaks for them."""

import math

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from little_runs import (
    TableEmbeddings,
    called,
    names,
    routine,
    run_of,
    says,
    shares,
    summed_up,
    user,
)

from langchain_tooltree import ConfigurationError, SITGraph
from langchain_tooltree.sitgraph.suggest import BANDWIDTH, Evidence

REFUND, ROOM = (
    [user("I want a refund."), *called("a")],
    [user("Book me a room."), *called("a")],
)
MIXED = [
    *(
        run_of(f"refund {number}", *REFUND, *called("pay"), says("Done."))
        for number in range(2)
    ),
    *(
        run_of(f"room {number}", *ROOM, *called("book"), says("Done."))
        for number in range(6)
    ),
]

# Summaries on the edges from a to b, c and d, of which those to b and c are known, beside weights that say otherwise.
TABLE = {
    "east": [1, 0, 0],
    "north": [0, 1, 0],
    "between": [1, 1, 0],
    "up": [0, 0, 1],
    "down": [0, 0, -1],
}
SUMMED = [
    run_of(
        "1", user("?"), *called("a"), *summed_up("east"), *called("b"), says("Done.")
    ),
    run_of(
        "2", user("?"), *called("a"), *summed_up("between"), *called("c"), says("Done.")
    ),
    run_of(
        "3", user("?"), *called("a"), *summed_up("north"), *called("c"), says("Done.")
    ),
    run_of("4", user("north"), *called("a", "d"), says("Done.")),
    run_of("5", user("north"), *called("a", "d"), says("Done.")),
    run_of("6", user("north"), *called("a", "d"), says("Done.")),
]


def mixed(**settings):
    return SITGraph.from_trajectories(MIXED, alpha=0, **settings)


def summed(runs=SUMMED, **settings):
    return SITGraph.from_trajectories(
        runs, alpha=0, embeddings=TableEmbeddings(TABLE, dims=3), **settings
    )


def softmax(*similarities):
    votes = [math.exp(each / BANDWIDTH) for each in similarities]
    return [vote / sum(votes) for vote in votes]


def test_without_a_state_the_weights_decide():
    suggested = mixed().suggest("a")

    assert shares(suggested) == pytest.approx({"book": 0.75, "pay": 0.25})
    assert {each.mode for each in suggested} == {"procedural"}
    assert [each.support for each in suggested] == [6, 2]
    assert {each.evidence for each in suggested} == {()}


def test_the_state_of_the_dialogue_decides_where_it_is_known():
    graph = mixed()

    refund, room = (graph.suggest("a", messages=said) for said in (REFUND, ROOM))

    assert (names(refund), names(room)) == (["pay", "book"], ["book", "pay"])
    assert {each.mode for each in refund} == {"contextual"}
    assert refund[0].support == 2
    assert {each.trajectory for each in refund[0].evidence} == {"refund 0", "refund 1"}
    assert refund[0].evidence[0].similarity > refund[1].evidence[0].similarity
    assert refund[0].evidence[0].summary == ""


def test_langchain_messages_and_chat_messages_are_the_same_state():
    said = [
        HumanMessage("I want a refund."),
        AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "a {}"}]),
        ToolMessage("done", tool_call_id="a {}"),
    ]

    assert mixed().suggest("a", messages=said) == mixed().suggest("a", messages=REFUND)


def test_the_first_call_is_suggested_too():
    graph = SITGraph.from_trajectories(
        [routine("1", "pay", request="Refund"), routine("2", "book", request="A room")]
    )

    assert names(graph.suggest(None, messages=[user("A room")], k=1)) == ["book"]
    assert names(graph.suggest(None, messages=[user("Refund")], k=1)) == ["pay"]


def test_a_tool_that_never_followed_the_last_one_is_suggested_where_the_state_calls_for_it():
    runs = [
        *(
            run_of(f"c {number}", user("Complain."), *called("b"), *called("write"))
            for number in range(3)
        ),
        *(
            run_of(f"r {number}", user("Refund."), *called("a"), *called("pay"))
            for number in range(3)
        ),
    ]

    suggested = SITGraph.from_trajectories(runs).suggest(
        "a", messages=[user("Complain."), *called("a")], k=1
    )

    assert names(suggested) == ["write"]
    assert suggested[0].support == 3


def test_the_most_similar_summary_of_an_edge_decides():
    suggested = summed(SUMMED[:3]).suggest("a", state="north")

    assert shares(suggested) == pytest.approx(
        dict(zip("cb", softmax(1, 0), strict=True))
    )
    assert {each.mode for each in suggested} == {"episodic"}
    assert suggested[0].evidence == (
        Evidence("3", 1.0, "north"),
        Evidence("2", 0.7071, "between"),
    )
    assert suggested[1].evidence == (Evidence("1", 0.0, "east"),)


def test_only_edges_with_summaries_are_compared():
    suggested = summed().suggest("a", state="north", k=9)

    assert shares(suggested) == pytest.approx(
        dict(zip("cb", softmax(1, 0), strict=True))
    )
    assert names(summed().suggest("a", k=9)) == ["d", "c", "b"]


def test_where_nothing_is_similar_the_weights_decide():
    suggested = summed(SUMMED[:3]).suggest("a", state="up")

    assert {each.mode for each in suggested} == {"procedural"}
    assert shares(suggested) == pytest.approx({"c": 2 / 3, "b": 1 / 3})


def test_a_summary_counts_for_more_than_the_dialogue():
    suggested = summed().suggest(
        "a", state="east", messages=[user("north"), *called("a")]
    )

    assert suggested[0].tool == "b"
    assert suggested[0].mode == "episodic"


def test_the_dialogue_is_asked_where_no_summary_can_be_compared():
    graph = mixed()

    assert graph.suggest("a", state="Money back", messages=REFUND) == graph.suggest(
        "a", messages=REFUND
    )


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_summary_is_none(blank):
    assert mixed().suggest("a", state=blank, messages=REFUND) == mixed().suggest(
        "a", messages=REFUND
    )
    assert {each.mode for each in mixed().suggest("a", state=blank)} == {"procedural"}


def test_each_of_several_summaries_on_an_edge_keeps_its_text(tmp_path):
    said = [
        *called("a"),
        *summed_up("east"),
        *summed_up("up"),
        *called("a"),
        *summed_up("north"),
        *called("a"),
    ]
    graph = summed([run_of("1", user("?"), *said)])
    graph.save(tmp_path / "g")

    for each in (
        graph,
        SITGraph.load(tmp_path / "g", embeddings=TableEmbeddings(TABLE, dims=3)),
    ):
        for state in ("east", "up", "north"):
            assert each.suggest("a", state=state)[0].evidence[0] == Evidence(
                "1", 1.0, state
            )


def test_evidence_is_the_same_after_saving_and_learning(tmp_path):
    graph = summed()
    expected = graph.suggest("a", state="north", k=3)
    graph.save(tmp_path / "g")
    loaded = SITGraph.load(tmp_path / "g", embeddings=TableEmbeddings(TABLE, dims=3))

    assert loaded.suggest("a", state="north", k=3) == expected
    loaded.add(
        run_of(
            "0",
            user("?"),
            *called("z", "a"),
            *summed_up("up"),
            *called("b"),
            says("Done."),
        )
    )
    assert loaded.suggest("a", state="up", k=1)[0].evidence[0] == Evidence(
        "0", 1.0, "up"
    )
    assert loaded.suggest("a", state="north", k=1)[0].evidence == expected[0].evidence
    loaded.remove("3")
    assert loaded.suggest("a", state="between", k=1)[0].evidence == (
        Evidence("2", 1.0, "between"),
    )


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        ("unknown", {}),
        ("unknown", {"state": "A refund"}),
        ("pay", {}),
        ("a", {"allowed": []}),
        ("a", {"allowed": ["a", "unknown"]}),
    ],
)
def test_where_the_graph_knows_nothing_it_says_nothing(tool, options):
    assert mixed().suggest(tool, **options) == []


def test_an_edge_followed_too_seldom_is_not_suggested():
    assert "pay" not in names(mixed(min_support=3).suggest("a", messages=REFUND))
    assert shares(mixed(min_support=3).suggest("a")) == {"book": 1.0}
    assert mixed(min_support=7).suggest("a") == []
    assert names(mixed(min_support=2).suggest("a")) == ["book", "pay"]


ASKED = {
    "procedural": {},
    "contextual": {"messages": ROOM},
    "episodic": {"state": "between"},
}
MANY = [
    *SUMMED,
    *(
        run_of(
            f"more {number}",
            user("?"),
            *called("a"),
            *summed_up("between"),
            *called(f"t{number % 7}"),
        )
        for number in range(20)
    ),
]


@pytest.mark.parametrize("mode", ASKED)
def test_shares_sum_to_one_and_come_best_first(mode):
    suggested = summed(MANY).suggest("a", k=100, **ASKED[mode])

    assert {each.mode for each in suggested} == {mode}
    assert len(suggested) >= 9
    assert math.fsum(each.score for each in suggested) == pytest.approx(1)
    assert [each.score for each in suggested] == sorted(
        (each.score for each in suggested), reverse=True
    )
    assert [each for each in suggested if not (0 <= each.score <= 1)] == []


@pytest.mark.parametrize("mode", ASKED)
def test_only_tools_that_there_are_share_among_themselves(mode):
    allowed = {"b", "c", "t1", "not in the graph"}
    graph = summed(MANY)

    few = graph.suggest("a", k=9, allowed=allowed, **ASKED[mode])

    assert set(names(few)) == {"b", "c", "t1"}
    assert math.fsum(each.score for each in few) == pytest.approx(1)
    assert {each.mode for each in few} == {mode}
    assert (
        graph.suggest("a", k=9, allowed=(name for name in allowed), **ASKED[mode])
        == few
    )


@pytest.mark.parametrize("options", [{}, {"messages": ROOM}, {"state": "Something"}])
def test_of_equal_tools_the_first_by_name_is_suggested_whatever_came_first(options):
    runs = [
        run_of(f"{tool}", user("?"), *called("a", tool), says("Done."))
        for tool in "dbac"
    ]

    for order in (runs, runs[::-1]):
        graph = SITGraph.from_trajectories(order)
        assert names(graph.suggest("a", k=3, **options)) == ["a", "b", "c"]


def test_of_equal_shares_the_edge_followed_more_often_comes_first():
    runs = [
        run_of(str(n), user("?"), *called("a"), *summed_up("up"), *called(tool))
        for n, tool in enumerate("bcc")
    ]

    assert names(summed(runs).suggest("a", state="up")) == ["c", "b"]


def test_without_weights_counts_break_no_ties():
    runs = [routine(str(number), "a", tool) for number, tool in enumerate("bcc")]
    graph = SITGraph.from_trajectories(runs, ablation="w/o weight")

    assert [(each.tool, each.support) for each in graph.suggest("a")] == [
        ("b", 1),
        ("c", 2),
    ]


@pytest.mark.parametrize("k", [0, -1, 1.0, True, None, "2"])
def test_k_is_a_whole_number_of_one_or_more(k):
    with pytest.raises(
        ConfigurationError, match="k must be a whole number of 1 or more"
    ):
        mixed().suggest("a", k=k)


def test_the_paper_goes_by_weight_on_routine_steps_and_by_summary_otherwise():
    graph = SITGraph.paper(alpha=0, embeddings=TableEmbeddings(TABLE, dims=3))
    for run in SUMMED:
        graph.add(run)

    assert graph.suggest("a", messages=[user("east"), *called("a")]) == graph.suggest(
        "a"
    )
    assert graph.suggest("a", state="east")[0].mode == "episodic"
    assert graph.suggest("a", state="east")[0].tool == "b"


def test_without_states_only_the_weights_decide():
    graph = summed(ablation="w/o state")

    for options in ({}, {"state": "east"}, {"messages": [user("east"), *called("a")]}):
        assert graph.suggest("a", k=3, **options) == summed().suggest("a", k=3)


def test_without_efficiency_runs_of_few_messages_count_for_no_more():
    runs = [
        routine("1", "a", "b"),
        routine("2", "a", "c", "d", "e"),
        routine("3", "a", "c", "d", "e"),
    ]
    plain, ablated = (
        SITGraph.from_trajectories(runs, alpha=10, ablation=each)
        for each in (None, "only weight w/o efficiency")
    )

    assert shares(ablated.suggest("a")) == pytest.approx({"c": 2 / 3, "b": 1 / 3})
    assert shares(plain.suggest("a")) != pytest.approx({"c": 2 / 3, "b": 1 / 3})
    assert ablated.suggest("a", messages=REFUND, state="b") == ablated.suggest("a")


def test_without_weights_the_states_alone_decide():
    plain, ablated = (
        mixed(ablation=each).suggest("a", messages=REFUND)
        for each in (None, "w/o weight")
    )

    assert names(ablated) == ["pay", "book"]
    assert ablated == plain
    assert shares(mixed(ablation="w/o weight").suggest("a")) == pytest.approx(
        {"pay": 0.5, "book": 0.5}
    )


def test_without_the_graph_nothing_is_suggested():
    graph = summed(ablation="w/o graph")

    for options in ({}, {"state": "east"}, {"messages": [user("east"), *called("a")]}):
        assert graph.suggest("a", **options) == []
    assert graph.next_tools([user("east"), *called("a")]) is None


def test_without_adapting_summaries_decide_wherever_an_edge_has_some():
    graph, plain = (
        SITGraph.paper(embeddings=TableEmbeddings(TABLE, dims=3), ablation=each)
        for each in ("w/o adapt", None)
    )
    lone = [
        run_of(f"lone {n}", user("east"), *called("lone", tool))
        for n, tool in enumerate("bcc")
    ]
    for run in [*SUMMED, *lone]:
        graph.add(run)
        plain.add(run)
    east = [user("east"), *called("a")]

    assert plain.suggest("a", messages=east)[0].mode == "procedural"
    forced = graph.suggest("a", messages=east)
    assert (forced[0].mode, forced[0].tool) == ("episodic", "b")
    assert graph.suggest("a", state="east", messages=east) == plain.suggest(
        "a", state="east"
    )
    for options in (
        {},
        {"messages": [user("east"), *called("lone")]},
        {"state": "east"},
    ):
        found = graph.suggest("lone", **options)
        assert (found, found[0].mode) == (plain.suggest("lone"), "procedural")


def test_suggestions_can_be_written_down():
    first, _ = summed(SUMMED[:3]).suggest("a", state="between")

    assert first.to_dict() == {
        "tool": "c",
        "score": first.score,
        "mode": "episodic",
        "support": 2,
        "evidence": [
            {"trajectory": "2", "similarity": 1.0, "summary": "between"},
            {"trajectory": "3", "similarity": 0.7071, "summary": "north"},
        ],
        "of": 3,
    }


def test_where_few_edges_have_summaries_states_vote():
    runs = [
        run_of(f"{n} {tool}", user("up"), *called("a", tool))
        for n, tool in enumerate("ddddef")
    ]
    runs.append(
        run_of("1", user("down"), *called("a"), *summed_up("east"), *called("b"))
    )
    said = [user("up"), *called("a")]
    graph = summed(runs)

    assert graph.suggest("a", messages=said, state="east") == graph.suggest(
        "a", messages=said
    )
    assert graph.suggest("a", state="east")[0].tool == "b"
