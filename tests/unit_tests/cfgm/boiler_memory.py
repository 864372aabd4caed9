"""Agents of the boiler room that remember: the middleware, what it remembers, and what the model is told of it."""

from boiler_room import TOOLS, call, reflector, room_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import CFGMMemory, CFGMMiddleware, Trajectory
from langchain_tooltree.testing import ScriptedChatModel

SYSTEM = "You look after the boiler."
THREAD = {"configurable": {"thread_id": "boiler 1"}}
PAST = "Get the cold boiler in the cellar going before the guests arrive."
SHOWN = "Get the cold boiler"
LEARNT = "The green valve was stuck, so it took the red one, and then some patience with the gauge."


def past_run(task):
    """A run that went well."""
    messages = [HumanMessage(task), call("turn_valve", valve="red"), AIMessage(LEARNT)]
    return Trajectory.from_messages(messages, success=True, id=f"past {task}")


def memory_of(*tasks, store=None, tips=()):
    """Memory of runs that went well, and of tips for the task of the first one."""
    seen = [{"tool": "turn_valve", "quote": "red"}]
    forms = [
        {
            "reasoning": tip.reasoning,
            "tip": tip.text,
            "when": tip.when,
            "bears_out": seen,
        }
        for tip in tips
    ]
    written = {"tips": forms, "followed": []}
    memory = CFGMMemory(
        ScriptedChatModel(replies=[written] if tips else []), store or InMemoryStore()
    )
    for task in tasks:
        memory.experience.add(past_run(task))
        if tips and task == tasks[0]:
            assert [tip.text for tip in memory.extract_tips()] == [
                tip.text for tip in tips
            ]
    return memory


def helped(
    *replies,
    model=None,
    memory=None,
    before=(),
    tools=TOOLS,
    options=None,
    **agent_options,
):
    """An agent with the middleware, and its model."""
    middleware = [
        *before,
        CFGMMiddleware(
            reflector() if model is None else model,
            memory,
            **{"patience": 0, **(options or {})},
        ),
    ]
    return room_agent(*replies, tools=tools, middleware=middleware, **agent_options)


def systems(model):
    """The system prompt of each call."""
    return [
        messages[0].text if isinstance(messages[0], SystemMessage) else None
        for messages in model.calls
    ]


def kept(memory):
    """The runs in memory that are not past ones."""
    return [
        each
        for each in memory.experience.trajectories()
        if not each.id.startswith("past")
    ]
