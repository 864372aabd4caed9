"""The tasks with a simulated user: who speaks when, what ends it, and what is checked."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from safe_episode import calling

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.live.bench_tau import GREETING, MOST_MESSAGES, STOPS, TauBench
from tests.benchmarks.live.episode import Options, Setting, UsageError
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import converse

TASK = {
    "id": "send_1",
    "user_scenario": {
        "persona": "In a hurry",
        "instructions": {
            "reason_for_call": "Parcel 7 has to go to Oslo.",
            "known_info": None,
        },
    },
    "initial_state": {
        "initialization_data": {"agent_data": {"parcels": {"7": "Rome", "8": "Rome"}}}
    },
    "evaluation_criteria": {
        "actions": [{"name": "send", "arguments": {"parcel": "7", "to": "Oslo"}}],
        "communicate_info": ["1000 km"],
        "env_assertions": [
            {"func_name": "assert_at", "arguments": {"parcel": "7", "place": "Oslo"}}
        ],
        "reward_basis": ["DB", "COMMUNICATE", "ENV_ASSERTION", "ACTION"],
    },
}
FILE = {
    "policy": "Be quick.",
    "world": "parcel_counter:Counter",
    "effects": {"find": "read"},
    "tasks": [TASK],
}
SEND = calling(("send", {"parcel": "7", "to": "Oslo"}))
TOLD = "It goes 1,000 km."


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tasks.json"


def bench_tasks(
    file, given=FILE, user=("Send parcel 7.", f"Thanks. {STOPS[0]}"), **options
):
    file.write_text(json.dumps(given))
    model = ScriptedChatModel(replies=list(user))
    return TauBench().tasks(Options(file=file, user_model=model, **options)), model


def talked(file, replies, method="react", **given):
    [task], user = bench_tasks(file, **given)
    model = ScriptedChatModel(replies=list(replies))
    messages, outcome = converse(task, METHODS[method][0], Setting(model=model), None)
    return messages, outcome, model, user


def test_a_conversation_goes_on_until_the_user_says_that_it_is_over(file):
    messages, outcome, model, user = talked(file, [SEND, TOLD])
    assert outcome.success
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert "Be quick." in model.calls[0][0].text
    first, second = user.calls
    assert "Persona: In a hurry" in first[0].text
    assert "Parcel 7 has to go to Oslo." in first[0].text
    assert [message.text for message in first[1:]] == [GREETING]
    assert [(message.type, message.text) for message in second[1:]] == [
        ("human", GREETING),
        ("ai", "Send parcel 7."),
        ("human", TOLD),
    ]


@pytest.mark.parametrize(
    ("replies", "missed"),
    [
        ([TOLD], "DB, ENV_ASSERTION, ACTION"),
        ([SEND, "Done."], "COMMUNICATE"),
        ([calling(("send", {"parcel": "8", "to": "Oslo"})), SEND, TOLD], "DB"),
        (
            [calling(("send", {"parcel": "7", "to": "Bonn"})), TOLD],
            "DB, ENV_ASSERTION, ACTION",
        ),
        ([calling(("lose", {"parcel": "7"})), TOLD], "DB, ENV_ASSERTION, ACTION"),
    ],
)
def test_each_part_of_the_reward_is_needed(file, replies, missed):
    _, outcome, *_ = talked(file, replies)
    assert (outcome.success, outcome.detail) == (False, f"missed: {missed}")


def test_arguments_that_are_not_compared_may_differ(file):
    loose = json.loads(json.dumps(FILE))
    action = loose["tasks"][0]["evaluation_criteria"]["actions"][0]
    loose["tasks"][0]["evaluation_criteria"]["reward_basis"] = ["ACTION"]
    replies = [calling(("send", {"parcel": "7", "to": "Bonn"})), TOLD]
    assert not talked(file, replies, given=loose)[1].success
    action["compare_args"] = ["parcel"]
    assert talked(file, replies, given=loose)[1].success


def test_a_conversation_without_an_end_has_failed(file):
    [task], _ = bench_tasks(file)
    episode = task.start()
    assert episode.next_request([]) == "Send parcel 7."
    assert episode.next_request([HumanMessage("Send."), SEND]) is None
    assert episode.next_request([AIMessage("?")] * MOST_MESSAGES) is None
    assert episode.outcome([]).detail == "the conversation did not come to its end"


def test_a_task_that_a_model_has_to_judge_is_refused(file):
    judged = {**TASK, "evaluation_criteria": {"reward_basis": ["NL_ASSERTION"]}}
    [task], _ = bench_tasks(file, {**FILE, "tasks": [judged]})
    with pytest.raises(UsageError, match="NL_ASSERTION"):
        task.start()
