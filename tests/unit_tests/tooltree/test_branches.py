"""The tree as a conversation holds it, and random runs of the loop in both forms."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from langchain_tooltree import SearchConfig
from langchain_tooltree.tooltree.branches import (
    Best,
    Branches,
    Candidate,
    Mark,
    Plan,
    PlannedStep,
    is_fruitless,
)
from langchain_tooltree.tooltree.report import is_trouble
from tests.unit_tests.tooltree.loops import FORMS, check_clean, shown

NAMES = st.text("abc", min_size=1, max_size=3)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
    lambda parts: (
        st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=3)
    ),
    max_leaves=5,
)
COUNTS = st.integers(0, 9)
NOTES = st.dictionaries(NAMES, NAMES, max_size=2)
SHARES = st.floats(0, 1)
DATA = st.dictionaries(NAMES, PLAIN, min_size=1, max_size=2)
MARKS = st.builds(
    Mark,
    turn=st.none() | NAMES,
    search=NAMES | st.just(""),
    hidden=st.lists(NAMES, max_size=3),
    parents=st.dictionaries(NAMES, NAMES, max_size=3),
    used=COUNTS,
    usage=st.dictionaries(NAMES, COUNTS, max_size=2),
    stops=COUNTS,
    again=COUNTS,
    asked=COUNTS,
    missing=NAMES | st.just(""),
    writes=st.lists(NAMES, max_size=2),
    evident=st.booleans(),
    resumed=st.booleans(),
    best=st.none() | st.builds(Best, DATA, st.lists(NAMES, max_size=2), NAMES),
    queue=st.lists(
        st.builds(
            Candidate,
            NAMES,
            DATA,
            st.lists(NAMES, max_size=2),
            DATA,
            st.none() | SHARES,
        ),
        max_size=2,
    ),
    plan=st.none()
    | st.builds(
        Plan,
        st.lists(st.builds(PlannedStep, DATA, NOTES), max_size=2),
        st.none() | DATA,
    ),
    step=COUNTS,
    began=st.floats(0, 1e9),
)


@pytest.mark.slow
@given(mark=MARKS)
def test_a_mark_is_plain_data_and_comes_back_from_it(mark):
    data = mark.to_dict()
    assert Mark.from_dict(json.loads(json.dumps(data))) == mark
    empty = {key: value for key, value in data.items() if not value}
    assert empty == {}, "what says nothing is left out"


@pytest.mark.slow
@given(
    data=PLAIN
    | st.fixed_dictionaries({}, optional=dict.fromkeys(Mark.__slots__, PLAIN))
)
def test_whatever_a_client_writes_is_read_as_a_mark_of_the_right_kinds(data):
    mark = Mark.from_dict(data)
    for name in Mark.__slots__:
        default = getattr(Mark(), name)
        kinds = (str, Best, Plan, type(None)) if default is None else (type(default),)
        assert isinstance(getattr(mark, name), kinds)
    assert [
        each
        for each in [*mark.hidden, *mark.writes, *mark.parents.values()]
        if not isinstance(each, str)
    ] == []


@st.composite
def conversations(draw):
    """Two turns of reads, writes and their results, of which any steps of the second may be hidden."""
    messages = [SystemMessage("Be kind.", id="s")]
    steps = []
    for turn in range(2):
        messages.append(HumanMessage(f"request {turn}", id=f"h{turn}"))
        for step in range(draw(st.integers(0, 4))):
            name, fails = draw(st.sampled_from(["look", "write"])), draw(st.booleans())
            key = f"{turn}{step}"
            call = {"name": name, "args": {"n": draw(st.integers(0, 2))}, "id": key}
            result = ToolMessage(
                "" if fails else "seen", tool_call_id=key, id=f"r{key}", name=name
            )
            pair = [AIMessage("", tool_calls=[call], id=f"a{key}"), result]
            messages += pair
            steps.append([each.id for each in pair])
    gone = (
        draw(st.lists(st.sampled_from(steps), unique_by=tuple, max_size=4))
        if steps
        else []
    )
    hidden = [key for step in gone for key in step if step[0].startswith("a1")]
    return messages, Mark(turn="h1", hidden=hidden)


def is_look(name, _):
    return name == "look"


@pytest.mark.slow
@given(given=conversations())
def test_a_path_is_everything_but_what_is_hidden_and_gives_up_no_write(given):
    messages, mark = given
    branches = Branches(messages, mark, is_look)
    path = branches.path()
    assert [each for each in messages if each.id not in mark.hidden] == list(path)
    made = [
        call
        for each in messages[messages.index(branches.request) :]
        for call in getattr(each, "tool_calls", ())
    ]
    assert {(call["name"], call["args"]["n"]) for call in branches.tried.values()} == {
        (call["name"], call["args"]["n"]) for call in made
    }
    weakest = branches.weakest()
    assert set(mark.hidden) <= set(weakest)
    beyond = set(weakest) - set(mark.hidden)
    assert branches.may_be_given_up(beyond)
    assert [
        each for each in path[len(path) - len(beyond) :] if each.id not in beyond
    ] == [], "what is given up stands at the end"
    if beyond:
        assert next(each for each in path if each.id in beyond).tool_calls


@pytest.mark.slow
@given(given=conversations())
def test_the_mark_of_another_turn_keeps_what_is_hidden_and_what_is_gone_is_forgotten(
    given,
):
    messages, mark = given
    old = Mark(
        turn="h0",
        hidden=mark.hidden,
        used=3,
        search="x",
        best=Best({}, ["h0"], ""),
        missing="all",
    )
    assert Branches(messages, old, is_look).mark == Mark(turn="h1", hidden=mark.hidden)
    searching = Mark(
        turn="h1",
        hidden=[*mark.hidden, "gone"],
        used=3,
        best=Best({}, ["h1", "gone"], ""),
        parents={"gone": "s"},
    )
    assert Branches(messages, searching, is_look).mark == Mark(
        turn="h1", hidden=mark.hidden, used=3
    )


# --- random runs ---


class Number(BaseModel):
    n: int


READS = {"alpha": "read", "beta": "read"}


def counted(made):
    """Two reads and a write that note what was called; some calls bring nothing back."""

    def tool_of(name):
        def run(n: int) -> str:
            made.append((name, n))
            return "" if n == 1 else f"{name} of {n}"

        return StructuredTool.from_function(
            run, name=name, description=f"Use {name}.", args_schema=Number
        )

    return [tool_of(name) for name in ("alpha", "beta", "delta")]


@pytest.mark.slow
@pytest.mark.parametrize("effort", ["frugal", "thorough"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))]
)
def test_random_runs_begin_as_the_plain_agent_s_end_clean_and_are_the_same_in_both_forms(
    hashed, seed, effort
):
    asked = [HumanMessage("Use alpha or delta.", id="go")]
    plainly = []
    plain = create_agent(hashed(seed), counted(plainly), system_prompt="Go.").invoke(
        {"messages": asked}
    )["messages"]
    ends = []
    for form in FORMS.values():
        made = []
        config = SearchConfig(effort=effort)
        messages = form(
            hashed(seed), counted(made), effects=READS, config=config
        ).invoke({"messages": asked}, {"recursion_limit": 200})["messages"]
        check_clean(messages)
        assert made[: len(plainly)] == plainly or len(plain) > len(messages)
        kept = Counter(
            (call["name"], call["args"]["n"])
            for each in messages[1:]
            for call in getattr(each, "tool_calls", ())
        )
        assert {
            call: count for call, count in Counter(made).items() if call[0] == "delta"
        } == {call: count for call, count in kept.items() if call[0] == "delta"}, (
            "what was written stays told"
        )
        ends.append(
            (
                shown(messages),
                made,
                messages[-1].response_metadata.get("tooltree", {}).get("tried"),
            )
        )
    assert ends[0] == ends[1]


def test_a_search_goes_back_before_a_read_that_failed_and_not_before_one_that_a_person_refused():
    call = AIMessage(
        "", tool_calls=[{"name": "look", "args": {"n": 1}, "id": "1"}], id="call"
    )
    refused = "User rejected the tool call for `look`"
    for text, given_up in (("Error: no such thing", ["call", "result"]), (refused, [])):
        result = ToolMessage(
            text, tool_call_id="1", name="look", status="error", id="result"
        )
        assert (
            Branches(
                [HumanMessage("Look.", id="h1"), call, result], Mark(turn="h1"), is_look
            ).weakest()
            == given_up
        )


def test_a_result_that_repeats_its_query_has_not_failed():
    for args, failed in (
        ({"query": "Error: cannot open file"}, False),
        ({"query": "hello"}, True),
    ):
        call = AIMessage("", tool_calls=[{"name": "search", "args": args, "id": "1"}])
        result = ToolMessage("Error: cannot open file", tool_call_id="1", name="search")
        assert is_fruitless(call, [result]) is failed


@pytest.mark.parametrize(
    ("results", "stands"),
    [
        ([], False),
        ([("book", "error"), ("search", "success")], True),
        ([("book", "error"), ("search", "success"), ("book", "success")], False),
        ([("book", "success"), ("book", "error")], True),
    ],
)
def test_a_failure_stands_until_the_same_tool_has_succeeded(results, stands):
    turn = [
        ToolMessage("x", tool_call_id="1", name=name, status=status)
        for name, status in results
    ]
    path = [HumanMessage("Go.", id="h"), *turn]
    assert is_trouble(Branches(path, Mark(), lambda *_: True).results(path)) is stands
