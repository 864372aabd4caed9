"""Experience: what an agent has been through makes its next run better and cheaper, and stays whose it is."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    ConfigurationError,
    Experience,
    ExperienceStore,
    SITGraph,
    ToolTreeMiddleware,
    Trajectory,
    create_tooltree_agent,
)
from langchain_tooltree.testing import ScriptedChatModel

ALL = ("tooltree",)
ANSWER = 'It is on the desk. {"missing": "nothing"}'
QUESTION = {"messages": [("user", "Where is the red key?")]}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"On the {place} lie a red key and a pen."


def looking(number="1", place="desk"):
    return AIMessage("", tool_calls=[{"name": "look", "args": {"place": place}, "id": number}])


def finder(experience, *, turns=1, **options):
    """An agent that looks at the desk in each turn, and its model."""
    replies = [reply for turn in range(turns) for reply in (looking(str(turn)), ANSWER)]
    model = ScriptedChatModel(replies=replies)
    options = {"system_prompt": "You find what people have mislaid in a large old house. " * 20, **options}
    return create_tooltree_agent(model, [look], effects={"look": "read"}, experience=experience, **options), model


def in_thread(name, **values):
    return {"configurable": {"thread_id": name, **values}}


def run_of(task="Where is the red key?", *, success=True, **fields):
    messages = [
        {"role": "user", "content": task},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": '{"place": "desk"}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "On the desk lie a red key and a pen."},
        {"role": "assistant", "content": "It is on the desk."},
    ]
    return Trajectory.from_chat(messages, success=success, **fields)


def test_a_run_without_a_thread_counts_for_the_next_one():
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=ALL)
    agent, _ = finder(experience)

    agent.invoke(QUESTION)

    status = experience.status()
    assert (status.runs, status.judged, status.pending, status.successes, status.in_graph) == (1, 1, 0, 1, 1)
    [suggestion] = experience.graph.suggest(None)
    assert suggestion.tool == "look"
    agent, _ = finder(experience)
    agent.invoke(QUESTION)
    first, second = sorted(experience.store.trajectories(), key=lambda run: len(run.metadata["recalled"]["runs"]))
    assert second.metadata["recalled"] == {"runs": [first.id], "tips": []}
    assert [offered["function"]["name"] for offered in second.metadata["tools"]] == ["look"]


async def test_an_agent_learns_on_the_async_path_as_well():
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=ALL)
    agent, _ = finder(experience)

    await agent.ainvoke(QUESTION)

    assert (await experience.astatus()).in_graph == 1


def test_without_experience_the_agent_has_no_node_more():
    def nodes(**options):
        middleware = [ToolTreeMiddleware(effects={"look": "read"}, **options)]
        return set(create_agent(ScriptedChatModel(), [look], middleware=middleware).get_graph().nodes)

    learning = nodes(experience=Experience(InMemoryStore(), namespace=ALL))

    assert learning - nodes() == {"ToolTreeMiddleware.before_agent", "ToolTreeMiddleware.after_agent"}


def test_a_planner_of_a_kind_of_ones_own_learns_too():
    class Mine(ToolTreeMiddleware):
        """A planner of my own."""

    planner = Mine(experience=Experience(InMemoryStore(), namespace=ALL))

    assert isinstance(planner, Mine)
    assert planner.name == "Mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"experience": InMemoryStore()}, "experience must be an Experience, got InMemoryStore"),
        ({"graph": SITGraph()}, "An Experience has a graph of its own"),
        ({"memory": CFGMMemory(ScriptedChatModel(), InMemoryStore())}, "An Experience has a memory of its own"),
        ({"verdict": lambda _: True}, "This Experience has a verdict"),
        ({"experience": None, "verdict": lambda _: True}, "judges runs for an experience, a graph or a memory"),
    ],
    ids=["another thing", "a graph", "a memory", "two verdicts", "a verdict alone"],
)
def test_what_cannot_go_together_is_refused(options, message):
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    with pytest.raises(ConfigurationError, match=message):
        create_tooltree_agent(ScriptedChatModel(), [look], **{"experience": experience, **options})


def test_the_middleware_refuses_what_is_no_experience():
    with pytest.raises(ConfigurationError, match="experience must be an Experience, got InMemoryStore"):
        ToolTreeMiddleware(experience=InMemoryStore())


def test_experience_without_a_verdict_is_warned_of():
    with pytest.warns(UserWarning, match="without a verdict"):
        finder(Experience(InMemoryStore(), namespace=ALL))
    with pytest.warns(UserWarning, match="without a verdict"):
        create_tooltree_agent(ScriptedChatModel(), [look], memory=CFGMMemory(ScriptedChatModel(), InMemoryStore()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"store_or_path": object()}, "store_or_path must be a folder"),
        ({"settle_seconds": -1}, "settle_seconds must be a number of 0 or more, got -1"),
        ({"store_or_path": ExperienceStore(InMemoryStore()), "namespace": ALL}, "has its own namespace"),
    ],
    ids=["no store", "before its end", "two namespaces"],
)
def test_what_no_experience_can_be_made_of_is_refused(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        Experience(**{"store_or_path": InMemoryStore(), **arguments})


def test_who_has_no_users_is_told_how_to_do_without():
    agent, _ = finder(Experience(InMemoryStore(), verdict=lambda _: True))
    with pytest.raises(ConfigurationError, match=r"needs 'user_id'.*namespace=\('tooltree',\)"):
        agent.invoke(QUESTION)


def test_what_one_user_did_is_never_suggested_to_another():
    experience = Experience(InMemoryStore(), verdict=lambda _: True)
    agent, model = finder(experience, turns=2)

    agent.invoke(QUESTION, in_thread("a", user_id="ann"))
    experience.within(user_id="ann").settle()
    agent.invoke(QUESTION, in_thread("b", user_id="bob"))

    assert experience.within(user_id="ann").status().in_graph == 1
    assert experience.within(user_id="bob").status().in_graph == 0
    assert not experience.within(user_id="bob").graph.suggest(None)
    assert [call[0].text for call in model.calls[:2]] == [call[0].text for call in model.calls[2:]]
    [bobs] = experience.within(user_id="bob").store.trajectories()
    assert bobs.metadata["recalled"] == {"runs": [], "tips": []}


def test_a_thread_is_judged_when_it_rests_and_counts_from_then_on():
    asked = []
    experience = Experience(InMemoryStore(), verdict=lambda run: asked.append(len(run.steps)) or True, namespace=ALL)
    agent, _ = finder(experience, turns=4, checkpointer=InMemorySaver())

    agent.invoke(QUESTION, in_thread("one"))
    agent.invoke(QUESTION, in_thread("one"))
    assert asked == []
    assert experience.status().pending == 1
    agent.invoke(QUESTION, in_thread("two"))
    assert asked == [2]
    assert experience.status().in_graph == 1
    agent.invoke(QUESTION, in_thread("one"))
    assert experience.status().in_graph == 0
    status = experience.settle()

    assert sorted(asked) == [1, 2, 3]
    assert (status.judged, status.pending, status.in_graph) == (2, 0, 2)


def test_a_thread_rests_after_some_time():
    asked = []
    experience = Experience(
        InMemoryStore(), verdict=lambda run: asked.append(run.id) or True, namespace=ALL, settle_seconds=0
    )
    agent, _ = finder(experience, checkpointer=InMemorySaver())

    agent.invoke(QUESTION, in_thread("one"))

    assert asked == ["one"]
