"""What it costs to learn a thread again after one more call, and a turn of a long conversation."""

import time
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, ToolTreeMiddleware, Trajectory
from langchain_tooltree.testing import ScriptedChatModel

CALLS = 800
MESSAGES = 3_000
TURNS = 8  # of which the median counts; the first two warm up


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Milliseconds of processor time per new call of a thread, and how a turn of a long one compares."""
    plain, ours = (_turn_ms(learns=learns) for learns in (False, True))
    return {
        "learn_ms_per_new_call_at_800": _learn_ms(),
        "turn_at_3000_messages": {
            "plain_ms": plain,
            "with_experience_ms": ours,
            "ratio": round(ours / plain, 2),
        },
    }


def _learn_ms() -> float:
    experience = Experience(
        InMemoryStore(), namespace=("trust",), verdict=lambda _: True
    )
    spent = []
    for calls in range(CALLS - 5, CALLS + 1):
        run = Trajectory.from_messages(_said(2 * calls), id="thread")
        began = time.process_time()
        experience.learn(run)
        spent.append(time.process_time() - began)
    return round(1_000 * median(spent[1:]), 1)


def _said(most: int) -> list[BaseMessage]:
    """A conversation of about so many messages: a call and its answer a turn."""
    said: list[BaseMessage] = []
    for number in range(most // 4):
        call = {
            "name": "look",
            "args": {"parcel": f"R-{number}"},
            "id": f"call {number}",
        }
        found = f"Parcel R-{number} lies in hall {number % 5}, last seen at {number}. {f'Detail {number}. ' * 20}"
        said += [
            HumanMessage(
                f"Please look at parcel R-{number} with care.", id=f"request {number}"
            ),
            AIMessage("", tool_calls=[call], id=f"reply {number}"),
            ToolMessage(
                found, tool_call_id=f"call {number}", name="look", id=f"result {number}"
            ),
            AIMessage(f"It lies in hall {number % 5}.", id=f"answer {number}"),
        ]
    return said


@tool
def look(parcel: str) -> str:
    """Look a parcel up."""
    return f"Parcel {parcel} lies in hall 3, last seen at noon."


def _replies() -> Any:
    for number in count(MESSAGES):
        yield AIMessage(
            "",
            tool_calls=[
                {
                    "name": "look",
                    "args": {"parcel": f"R-{number}"},
                    "id": f"call {number}",
                }
            ],
        )
        yield f'{{"missing": "nothing"}}\nIt lies in hall 3: {number}.'


def _turn_ms(*, learns: bool) -> float:
    experience = Experience(
        InMemoryStore(), namespace=("trust",), verdict=lambda _: True
    )
    planner = ToolTreeMiddleware(effects={"look": "read"}, experience=experience)
    model = ScriptedChatModel(replies=list(islice(_replies(), 9 * TURNS)))
    agent = create_agent(
        model,
        [look],
        checkpointer=InMemorySaver(),
        middleware=[planner] if learns else [],
    )
    thread: Any = {"configurable": {"thread_id": "long"}}
    agent.update_state(thread, {"messages": _said(MESSAGES)}, as_node="model")
    spent = []
    for turn in range(TURNS):
        began = time.process_time()
        agent.invoke(
            {"messages": [("user", f"Now look at parcel N-{turn}, too.")]}, thread
        )
        time.sleep(0.1)  # what goes on in the background counts as well
        spent.append(time.process_time() - began)
    return round(1_000 * median(spent[2:]), 1)
