"""Memory that acts in environments, its models by role, and its settings of the paper."""

import asyncio
import sys
from pathlib import Path

import pytest
from boiler_room import ANSWER, ASKED, MISTAKE, NEXT_STEP, REPLY, TOOLS, room_graph
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.memory import InMemoryStore
from teacher import Teacher, attempt

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    CFGMReflectionNode,
    ConfigurationError,
    ExperienceStore,
    HashingEmbeddings,
    Trajectory,
)
from langchain_tooltree.cfgm.memory import PAPER_EMBEDDINGS
from langchain_tooltree.cfgm.online import NEXT_STEP as NEXT_STEP_MARK
from langchain_tooltree.testing import ScriptedChatModel

REFUSED = "Nothing happens."


class Cellar:
    """Refuses all but a few words; `light` ends the episode with a reward."""

    def __init__(self):
        self.actions = []

    def reset(self, task):
        return "It is dark."

    def step(self, action):
        self.actions.append(action)
        known = action in {"look", "wait", "light"}
        return (
            f"You {action}." if known else REFUSED,
            float(action == "light"),
            action == "light",
        )


def does(*actions):
    return [
        AIMessage(
            "", tool_calls=[{"name": "act", "args": {"action": each}, "id": each}]
        )
        for each in actions
    ]


def memory_for(*actions, make=CFGMMemory, known=(), **settings):
    replies = [REPLY["key_information"], REPLY] if make == CFGMMemory.paper else [REPLY]
    policy, reflector = (
        ScriptedChatModel(replies=does(*actions)),
        ScriptedChatModel(replies=replies * 9),
    )
    models = {"policy": policy, "reflection": reflector}
    store = ExperienceStore(InMemoryStore())
    for each in known:
        store.add(each)
    return make(None, store, models=models, **settings), policy, reflector


def advised(policy, call=-1):
    return [
        message.text for message in policy.calls[call] if NEXT_STEP_MARK in message.text
    ]


@pytest.mark.parametrize("path", ["act", "aact"])
def test_what_is_remembered_stands_before_the_task_and_is_no_part_of_the_run(path):
    past = attempt("light the cellar", ("light", "You light."))
    memory, policy, _ = memory_for("look", "light", known=[past])
    world = Cellar()

    run = getattr(memory, path)(world, "light the dark cellar")
    run = asyncio.run(run) if path == "aact" else run

    first = policy.calls[0][-1].text
    assert "Run: light the cellar" in first
    assert first.endswith("light the dark cellar\n\nIt is dark.")
    assert world.actions == ["look", "light"]
    assert (run.success, run.task, run.metadata["reward"]) == (
        True,
        "light the dark cellar",
        1.0,
    )
    assert run.metadata["recalled"] == {"runs": [past.id], "tips": []}
    assert "Run:" not in str(run.messages)
    assert len(list(memory.experience.trajectories())) == 1


def test_trouble_that_goes_on_is_reflected_upon_and_the_advice_stands_at_the_observation():
    memory, policy, reflector = memory_for("jump", "dance", "light")

    run = memory.act(Cellar(), "light the cellar")

    assert len(reflector.calls) == 1
    assert not advised(policy, 1)
    (told,) = advised(policy)
    assert told.startswith(REFUSED)
    assert REPLY["next_step"] in told
    assert [step.result.text for step in run.calls] == [REFUSED, REFUSED, "You light."]


def test_advice_stands_at_the_latest_of_the_observations_whose_calls_share_an_id():
    memory, policy, _ = memory_for(make=CFGMMemory.paper)
    policy.replies = [
        AIMessage(
            "", tool_calls=[{"name": "act", "args": {"action": each}, "id": "call_0"}]
        )
        for each in ("look", "jump", "light")
    ]

    memory.act(Cellar(), "light the cellar")

    assert [
        REPLY["next_step"] in message.text
        for message in policy.calls[-1]
        if message.type == "tool"
    ] == [
        False,
        True,
    ]


def test_the_paper_reflects_on_each_anomaly_at_once():
    memory, policy, reflector = memory_for(
        "jump", "dance", "sing", "light", make=CFGMMemory.paper
    )

    memory.act(Cellar(), "light the cellar")

    assert (
        len(reflector.calls) == 3 * 2
    )  # key information, then questions and the next step
    assert len(advised(policy)) == 3


@pytest.mark.parametrize("form", ["node", "middleware"])
def test_with_the_papers_memory_a_first_anomaly_is_reflected_upon_in_two_questions(
    form,
):
    extractor, reflecting = (
        ScriptedChatModel(replies=[reply])
        for reply in (REPLY["key_information"], REPLY)
    )
    settings = {"embeddings": HashingEmbeddings(), "models": {"extraction": extractor}}
    memory = CFGMMemory.paper(None, InMemoryStore(), **settings)
    if form == "node":
        graph, model = room_graph(
            MISTAKE, ANSWER, node=CFGMReflectionNode(reflecting, memory)
        )
    else:
        model = ScriptedChatModel(replies=[MISTAKE, ANSWER])
        helping = CFGMMiddleware(reflecting, memory, record=False)
        graph = create_agent(model, TOOLS, middleware=[helping])

    graph.invoke(ASKED)

    assert NEXT_STEP in model.calls[1][-1].text
    assert (len(extractor.calls), len(reflecting.calls)) == (1, 1)


def test_the_examples_of_the_focus_points_are_shown_in_each_attempt():
    form = {
        "focus_points": [{"reasoning": "It is dark.", "focus_point": "Look for light."}]
    }
    writer, policy = (
        ScriptedChatModel(replies=[form]),
        ScriptedChatModel(replies=does("light")),
    )
    memory = CFGMMemory(writer, InMemoryStore(), models={"policy": policy})
    memory.focus_points("A cellar.", ["> light\nYou light."])

    memory.collect(Cellar(), ["light the cellar"], None)

    prompt = "\n".join(message.text for message in policy.calls[0])
    assert "Look for light." in prompt
    assert (
        "Examples of tasks done in this environment:\n\n> light\nYou light." in prompt
    )


def test_the_paper_recalls_the_nearest_runs_whatever_they_have_in_common():
    runs = [attempt(task) for task in ("sell a boat", "paint a house", "read a book")]
    ours, paper = (
        memory_for(make=make, known=runs)[0] for make in (CFGMMemory, CFGMMemory.paper)
    )

    assert ours.recall("light the cellar").runs == ()
    assert len(paper.recall("light the cellar").runs) == 2
    assert len(paper.recall("light the cellar", 1).runs) == 1


def test_the_paper_names_its_embedder(monkeypatch):
    named = []
    monkeypatch.setattr(
        sys.modules["langchain_tooltree.experience.store"],
        "resolve_embeddings",
        lambda given: named.append(given) or HashingEmbeddings(),
    )
    CFGMMemory.paper(None, InMemoryStore())
    CFGMMemory.paper(None, InMemoryStore(), embeddings="another:one")
    assert named == [PAPER_EMBEDDINGS, "another:one"]


def test_each_role_has_its_own_model_and_the_others_the_common_one():
    common = ScriptedChatModel(
        replies=[
            {
                "focus_points": [
                    {"reasoning": "It is dark.", "focus_point": "Look for light."}
                ]
            }
        ]
    )
    tips = Teacher(replies=[])
    memory = CFGMMemory(common, InMemoryStore(), models={"tips": tips})
    memory.experience.add(attempt("light the cellar"))

    assert memory.focus_points("A cellar.") == ["Look for light."]
    assert memory.extract_tips()
    assert (len(common.calls), len(tips.documents)) == (1, 1)
    with pytest.raises(
        ConfigurationError, match=r"models has models by role.*got \['judge'\]"
    ):
        CFGMMemory(common, InMemoryStore(), models={"judge": tips})


def test_a_collection_acts_by_one_model_and_reflects_by_another():
    failure = {"what_went_wrong": "It stayed dark.", "next_time": "Strike a match."}
    policy = ScriptedChatModel(replies=[*does("jump"), "Done.", *does("light")])
    reflector = ScriptedChatModel(replies=[failure])
    memory = CFGMMemory(
        None,
        InMemoryStore(),
        models={"policy": policy, "reflection": reflector, "focus": reflector},
    )

    report = memory.collect(Cellar(), ["light the cellar"], None)

    assert (len(report.outcomes[0].trajectories), report.successes) == (2, 1)
    assert len(reflector.calls) == 1
    assert "Strike a match." in policy.calls[-1][-1].text


def test_examples_are_shown_with_each_attempt():
    memory, policy, _ = memory_for("light")
    run = Trajectory.from_messages(
        [HumanMessage("light the attic"), *does("strike match")], success=True
    )

    memory.collect(
        Cellar(), ["light the cellar"], None, examples=["Task: wait. Action: wait", run]
    )

    first = policy.calls[0][-1].text
    assert (
        first.index("Examples of tasks done")
        < first.index("Action: wait")
        < first.index("Run: light the attic")
    )
    assert first.index("strike match") < first.index("light the cellar")
    with pytest.raises(ConfigurationError, match="examples must be lists"):
        memory.collect(Cellar(), ["light it"], None, examples="one")


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        (Path(), {}, "environment must have reset and step"),
        (Cellar(), {"max_steps": 0}, "max_steps"),
    ],
)
def test_what_cannot_be_acted_in_is_refused(world, options, message):
    with pytest.raises(ConfigurationError, match=message):
        memory_for()[0].act(world, "light the cellar", **options)


def test_who_runs_out_of_steps_has_failed():
    memory, _, _ = memory_for("look", "wait", "look")
    run = memory.act(Cellar(), "light the cellar", max_steps=2)
    assert run.success is False
    assert "limit of 2 steps" in run.reasons
