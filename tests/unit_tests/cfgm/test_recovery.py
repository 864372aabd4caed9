"""Which anomalies are worth a reflection: trouble that goes on."""

import json

import pytest
from boiler_memory import PAST, THREAD, helped, memory_of
from boiler_room import (
    ANSWER,
    ASKED,
    MISTAKE,
    TIP,
    advised,
    call,
    either,
    in_trouble,
    mistakes,
    reflector,
    told,
)
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import CFGMReflectionNode
from langchain_tooltree.cfgm.online import DEFAULT_PATIENCE

pytestmark = pytest.mark.parametrize("path", ["sync", "async"])
WELL = [
    call("turn_valve", number, valve="red" if number % 2 else "blue")
    for number in range(20, 30)
]
WAIT = [call("read_gauge", number, gauge=f"gauge {number}") for number in range(30, 40)]


def by_default(*replies, **options):
    """An agent with the middleware as it comes, and who reflects."""
    model = reflector()
    agent, _ = helped(
        *replies, model=model, options={"patience": DEFAULT_PATIENCE}, **options
    )
    return agent, model


def test_a_single_anomaly_is_told_and_left_to_the_agent(path):
    agent, model = by_default(
        MISTAKE, *WELL[:4], call("turn_valve", 9, valve="main"), ANSWER
    )

    events = told(path, agent)

    assert [event["type"] for event in events] == ["anomaly", "anomaly"]
    assert model.calls == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "between",
    [[], WAIT[:6], WELL[:1]],
    ids=["at once", "nothing but other tools", "lately"],
)
def test_trouble_that_goes_on_is_reflected_upon(path, between):
    agent, model = by_default(
        MISTAKE, *between, call("turn_valve", 9, valve="main"), ANSWER
    )

    messages = either(path, agent)(ASKED)["messages"]

    assert advised(messages) == [False, *(False for _ in between), True]
    assert len(model.calls) == 1


def test_a_user_who_says_something_in_between_does_not_end_an_episode(path):
    agent, _ = by_default(
        MISTAKE,
        "Hm.",
        call("turn_valve", 9, valve="main"),
        ANSWER,
        checkpointer=InMemorySaver(),
    )

    either(path, agent)(ASKED, THREAD)
    messages = either(path, agent)({"messages": [("user", "Try again.")]}, THREAD)[
        "messages"
    ]

    assert advised(messages) == [False, True]


def test_a_loop_has_gone_on_already(path):
    again = [call("read_gauge", number, gauge="water") for number in range(3)]
    agent, _ = by_default(*again, ANSWER)

    assert advised(either(path, agent)(ASKED)["messages"]) == [False, False, True]


def test_the_mark_is_not_set_twice(path):
    node = either(path, CFGMReflectionNode(reflector()))
    messages = in_trouble()

    (marked,) = node({"messages": messages})["messages"]

    assert node({"messages": [*messages[:-1], marked]}) == {}


def test_a_reflection_sees_the_recalled_runs(path):
    model = reflector()
    agent, _ = helped(MISTAKE, ANSWER, model=model, memory=memory_of(PAST, tips=[TIP]))

    told(path, agent)

    (example,) = json.loads(model.calls[0][1].text)["examples"]
    assert example.startswith(f"Run: {PAST}\nturn_valve(")
    assert TIP.text not in example


def test_advice_for_other_trouble_is_no_earlier_advice(path):
    model = reflector()
    again = [call("read_gauge", number, gauge="water") for number in range(20, 23)]
    agent, _ = helped(
        *mistakes(4), *again, ANSWER, model=model, options={"cooldown": 1}
    )

    either(path, agent)({"messages": [HumanMessage("Get the boiler to 2 bar.")]})

    advice = [
        json.loads(messages[1].text).get("earlier_advice", [])
        for messages in model.calls
    ]
    assert [len(each) for each in advice] == [0, 1, 2, 3, 0]
