"""What becomes of a graph when tools are removed, changed or renamed."""

import pytest
from little_runs import called, names, routine, run_of, saved, says, shares, summed_up, user

from langchain_tooltree import SITGraph
from langchain_tooltree.errors import ToolDefinitionError
from tests.internals.sitgraph import DriftReport


def tool(name, *arguments):
    properties = {argument: {"type": "string"} for argument in arguments}
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


FIND, PAY, ASK, TELL = tool("find", "query"), tool("pay", "amount"), tool("ask", "whom", "what"), tool("tell", "what")
TOOLS = [FIND, PAY, ASK, TELL]
RUNS = [
    routine("1", "find", "pay", metadata={"tools": TOOLS}),
    routine("2", "find", "ask", metadata={"tools": TOOLS}),
    routine("3", "tell", "ask", metadata={"tools": TOOLS}),
]


def known():
    return SITGraph.from_trajectories(RUNS, alpha=0)


def test_nothing_has_drifted_while_the_tools_are_the_same():
    report = known().drift(TOOLS)

    assert report == DriftReport(removed=(), added=(), changed=(), renamed={}, dead_ends=(), unknown=(), lost=0.0)
    assert report.healthy


def test_removed_tools_are_reported_with_what_is_lost():
    report = known().drift([FIND, PAY, TELL])

    assert report.removed == ("ask",)
    assert report.dead_ends == ("tell",)
    assert report.lost == pytest.approx(2 / 6)
    assert not report.healthy


def test_removed_tools_are_never_suggested_when_the_tools_are_given():
    graph = known()

    assert names(graph.suggest("find", allowed=[FIND, PAY, TELL], k=9)) == ["pay"]
    assert graph.suggest("tell", allowed=[FIND, PAY, TELL]) == []
    assert names(graph.suggest("find", state="Ask them", messages=[user("Ask them")], allowed=["pay"])) == ["pay"]


def test_new_tools_are_reported():
    report = known().drift([*TOOLS, tool("write", "text")])

    assert report.added == ("write",)
    assert report.healthy


def test_the_tool_that_sums_up_the_state_is_not_new():
    assert known().drift([*TOOLS, tool("summarize_state", "summary")]).added == ()


def test_changed_arguments_are_reported():
    report = known().drift([FIND, tool("pay", "amount", "currency"), ASK, TELL])

    assert report.changed == ("pay",)
    assert not report.healthy


def test_what_is_not_known_is_not_taken_for_a_change():
    assert known().drift(["find", "pay", "ask", "tell"]).healthy
    assert SITGraph.from_trajectories([routine("1", "find")]).drift([FIND]).healthy


def test_a_form_that_one_of_the_runs_knew_is_no_change():
    graph = known()
    graph.add(routine("4", "pay"), tools=[tool("pay", "amount", "currency")])

    assert graph.drift(TOOLS).changed == ()
    graph.remove("1"), graph.remove("2"), graph.remove("3")
    assert graph.drift([PAY]).changed == ("pay",)


def test_a_new_tool_that_takes_the_same_arguments_is_probably_the_old_one():
    report = known().drift([FIND, PAY, TELL, tool("consult", "whom", "what")])

    assert report.removed == ("ask",)
    assert report.added == ("consult",)
    assert report.renamed == {"ask": "consult"}


def test_of_several_candidates_none_is_named():
    alike = [tool(name, "whom", "what") for name in ("consult", "question")]

    assert known().drift([FIND, PAY, TELL, *alike]).renamed == {}


def test_an_empty_graph_knows_nothing():
    assert SITGraph().drift([FIND]) == DriftReport((), ("find",), (), {}, (), (), 0.0)


def test_what_is_no_tool_is_refused():
    with pytest.raises(ToolDefinitionError):
        known().drift([7])


def test_tools_in_the_record_that_mean_something_else_do_not_stop_mining():
    odd = [routine(str(number), "a", metadata={"tools": each}) for number, each in enumerate([7, True, [{}], "a", {}])]

    assert len(SITGraph.from_trajectories(odd)) == 5


def test_tools_that_are_passed_have_to_be_tools():
    graph = SITGraph()

    with pytest.raises(ToolDefinitionError):
        graph.add(routine("1", "a"), tools=[{}])
    assert len(graph) == 0


def test_a_tool_under_its_old_name_is_taken_for_the_one_under_the_new():
    graph = SITGraph.from_trajectories(RUNS, aliases={"ask": "consult"})

    assert set(names(graph.suggest("find"))) == {"pay", "consult"}
    assert graph.drift([FIND, PAY, TELL, tool("consult", "whom", "what")]).healthy
    assert graph.drift([FIND, PAY, TELL, tool("consult", "whom")]).changed == ("consult",)
    assert names(graph.suggest("ask")) == names(graph.suggest("consult")) == []


def test_a_renamed_graph_follows_the_new_names():
    graph = known().renamed({"ask": "consult", "find": "look_up"})

    assert shares(graph.suggest("look_up")) == pytest.approx({"pay": 0.5, "consult": 0.5})
    assert graph.suggest("find") == graph.suggest("look_up")
    assert graph.add(routine("5", "find", "ask"))
    assert shares(graph.suggest("look_up")) == pytest.approx({"consult": 2 / 3, "pay": 1 / 3})
    assert set(graph.to_networkx().nodes) == {"", "look_up", "pay", "consult", "tell"}


def test_the_graph_that_was_renamed_stays_as_it_was():
    graph = known()
    before = graph.to_mermaid()
    graph.renamed({"ask": "consult"}).remove("1")

    assert graph.to_mermaid() == before
    assert "1" in graph


def test_schemas_follow_their_tools_to_the_new_names():
    graph = known().renamed({"ask": "consult"})

    assert graph.drift([FIND, PAY, TELL, tool("consult", "whom", "what")]).healthy
    assert graph.drift([FIND, PAY, TELL, tool("consult", "whom")]).changed == ("consult",)


def test_a_tool_may_be_renamed_more_than_once():
    graph = known().renamed({"ask": "consult"}).renamed({"consult": "question"})

    assert graph.aliases == {"ask": "question", "consult": "question"}
    graph.add(routine("5", "pay", "ask"))
    graph.add(routine("6", "pay", "consult"))
    assert shares(graph.suggest("pay")) == {"question": 1.0}


def test_two_tools_may_change_names():
    graph = known().renamed({"pay": "ask", "ask": "pay"})

    assert graph.to_networkx().edges["tell", "pay"]["count"] == 1
    assert not graph.to_networkx().has_edge("tell", "ask")


def test_tools_that_become_one_add_up():
    runs = [
        run_of("1", user("?"), *called("a"), *summed_up("Left."), *called("left"), says("Done.")),
        run_of("2", user("?"), *called("a"), *summed_up("Right."), *called("right"), says("Done.")),
        *(routine(f"3{number}", "a", "left", request=f"Wish {number}") for number in range(5)),
    ]
    merged = SITGraph.from_trajectories(runs, alpha=1.0).renamed({"left": "turn", "right": "turn"})
    edge = merged.to_networkx().edges["a", "turn"]

    assert edge["count"] == 7
    assert edge["summaries"] == 2
    assert edge["raw_weight"] == pytest.approx(7 + 2 / 4 + 5 / 3)
    assert [len(merged.suggest("a", state=state)[0].evidence) for state in ("Left.", "Right.")] == [2, 2]
    assert merged.remove("1")
    assert merged.to_networkx().edges["a", "turn"]["count"] == 6


def test_what_lay_on_the_edges_of_two_tools_lies_on_those_of_one(tmp_path):
    runs = [
        run_of(
            f"{number}", user("?"), *called(tool), *summed_up(f"{tool} knows {number}."), *called("end"), says("Done.")
        )
        for number, tool in enumerate(["left", "right"] * 4)
    ]
    merged, other = (
        SITGraph.from_trajectories(order).renamed({"left": "turn", "right": "turn"}) for order in (runs, runs[::-1])
    )

    for number, tool in enumerate(["left", "right"] * 4):
        [suggestion] = merged.suggest("turn", state=f"{tool} knows {number}.")
        assert suggestion.evidence[0].trajectory == str(number)
        assert suggestion.evidence[0].summary == f"{tool} knows {number}."
    assert saved(merged, tmp_path / "merged") == saved(other, tmp_path / "other")
