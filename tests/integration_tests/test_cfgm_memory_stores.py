"""Memory in LangGraph's own stores and in ChromaStore: what is recalled does not depend on where it is kept."""

import inspect
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from store_references import Subject

from langchain_tooltree import CFGMMemory, ExperienceStore, Trajectory
from langchain_tooltree.testing import ScriptedChatModel

POINTS = {"focus_points": [{"reasoning": "It is dark.", "focus_point": "Look first."}]}
SHOWN = [{"tool": "act", "quote": "boil"}]
TIP = {
    "tips": [
        {
            "tip": "Take it.",
            "reasoning": "It boiled.",
            "when": "a kettle is there",
            "bears_out": SHOWN,
        }
    ]
}
NOTHING = {"tips": [], "followed": []}


def attempt(task: str, observation: str) -> Trajectory:
    call = {"name": "act", "args": {"action": "boil"}, "id": "1"}
    messages = [
        HumanMessage(task),
        AIMessage("", tool_calls=[call]),
        ToolMessage(observation, tool_call_id="1"),
    ]
    return Trajectory.from_messages(messages, success=observation == "It boils.")


async def test_memory_is_kept_for_each_tenant(store: Subject) -> None:
    async def call(thing: Any, method: str, *arguments: Any, **options: Any) -> Any:
        result = getattr(thing, method if store.path == "sync" else f"a{method}")(
            *arguments, **options
        )
        return await result if inspect.isawaitable(result) else result

    experience = ExperienceStore(store.store, namespace=("memory", "{user}"))
    ada, bob = ({"configurable": {"user": user}} for user in ("ada", "a_a"))
    for task, observation in (
        ("Boil water.", "It boils."),
        ("Boil water.", "No."),
        ("Paint it red.", "It boils."),
    ):
        await call(experience.within_config(ada), "add", attempt(task, observation))
    model = ScriptedChatModel(replies=[POINTS, TIP, NOTHING, NOTHING])
    memory = CFGMMemory(model, experience, max_concurrency=1)

    assert await call(memory, "focus_points", "A kitchen.", config=ada) == [
        "Look first."
    ]
    (tip,) = await call(memory, "extract_tips", config=ada)
    assert (tip.source, tip.tools, len(tip.trajectories)) == ("comparison", (), 2)
    assert await call(memory, "extract_tips", config=ada) == [tip]
    recollection = await call(memory, "recall", "Boil water, please.", 1, config=ada)
    assert [run.task for run in recollection.runs] == ["Boil water."]
    assert recollection.tips == (tip,)
    assert (await call(memory, "recall", "Boil water.", config=bob)).runs == ()
    assert await call(memory, "extract_tips", config=bob) == []
