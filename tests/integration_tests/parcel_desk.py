"""A shop's parcel desk: its tools, dialogues that were recorded there, and an agent that works there by a script.

Run as a script, it prints the transcript of that agent as a Markdown table.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import SITGraph, SITGraphMiddleware, Trajectory
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.experience import from_json

STUCK = {"order": "A-71", "parcel": "P-204", "status": "lost in transit, last seen 9 days ago"}


@tool
def find_order(email: str) -> str:
    """Find a customer's latest order."""
    return f"order {STUCK['order']} of {email}, parcel {STUCK['parcel']}"


@tool
def track_parcel(parcel: str) -> str:
    """Ask the carrier where a parcel is."""
    return f"{parcel}: {STUCK['status']}"


@tool
def open_trace(parcel: str) -> str:
    """Have the carrier search for a parcel."""
    return f"trace opened for {parcel}"


@tool
def resend_order(order: str) -> str:
    """Send the goods of an order once more."""
    return f"{order} is sent again"


@tool
def refund_order(order: str) -> str:
    """Pay the price of an order back."""
    return f"{order} is refunded"


@tool
def change_address(parcel: str, address: str) -> str:
    """Send a parcel that is on its way to another address."""
    return f"{parcel} goes to {address}"


TOOLS = [find_order, track_parcel, open_trace, resend_order, refund_order, change_address]

LATE = "The customer waits for a parcel. It is late but still moving, and nothing else is wrong."
LOST_WANTED = "The customer waits for a parcel. The carrier has lost it, and the customer still needs the goods."
LOST_UNWANTED = "The customer waits for a parcel. The carrier has lost it, and the customer wants the money back."

Line = tuple[str, str] | tuple[str, dict[str, Any], str]

FOUND: Line = ("find_order", {"email": "lee@example.org"}, "order A-17 of lee@example.org, parcel P-118")
MOVING: Line = ("track_parcel", {"parcel": "P-118"}, "P-118: delayed, left the sorting centre in Ulm today")
LOST: Line = ("track_parcel", {"parcel": "P-118"}, "P-118: lost in transit, last seen 11 days ago")


def noted(summary: str) -> Line:
    """A call of `summarize_state`."""
    return ("summarize_state", {"summary": summary}, "The state is noted. Go on.")


DIALOGUES: list[tuple[float, list[Line]]] = [
    (
        1.0,
        [
            ("user", "Hi, my parcel should have been here on Monday. I ordered as lee@example.org."),
            FOUND,
            MOVING,
            noted(LATE),
            ("open_trace", {"parcel": "P-118"}, "trace opened for P-118"),
            ("assistant", "It was delayed but is moving again; the carrier keeps an eye on it."),
        ],
    ),
    (
        1.0,
        [
            ("user", "Where on earth are the boots I ordered? lee@example.org"),
            FOUND,
            MOVING,
            ("open_trace", {"parcel": "P-118"}, "trace opened for P-118"),
            ("assistant", "They left Ulm today."),
        ],
    ),
    (
        1.0,
        [
            ("user", "The tracking page has not changed for ages, and I need the tent for Friday. lee@example.org"),
            FOUND,
            LOST,
            noted(LOST_WANTED),
            ("resend_order", {"order": "A-17"}, "A-17 is sent again"),
            ("assistant", "I am sorry it was lost. A new one is on its way."),
        ],
    ),
    (
        1.0,
        [
            ("user", "My parcel never came and by now I have bought the book elsewhere. lee@example.org"),
            FOUND,
            LOST,
            noted(LOST_UNWANTED),
            ("refund_order", {"order": "A-17"}, "A-17 is refunded"),
            ("assistant", "It was lost; you get your money back."),
        ],
    ),
    (
        1.0,
        [
            ("user", "I have moved house! Can my order go to 4 Mill Lane? I am lee@example.org"),
            FOUND,
            ("change_address", {"parcel": "P-118", "address": "4 Mill Lane"}, "P-118 goes to 4 Mill Lane"),
            ("assistant", "It will be brought to 4 Mill Lane."),
        ],
    ),
    (
        0.0,
        [
            ("user", "Any news of my parcel? lee@example.org"),
            FOUND,
            ("refund_order", {"order": "A-17"}, "A-17 is refunded"),
            ("assistant", "You get your money back."),
            ("user", "But I only wanted to know when it comes!"),
        ],
    ),
]


def recorded() -> list[dict[str, Any]]:
    """The dialogues as lines of a JSON lines file, in the OpenAI chat format with a reward."""
    return [
        {"id": f"recorded {number}", "reward": reward, "messages": list(_chat(lines))}
        for number, (reward, lines) in enumerate(DIALOGUES)
    ]


def _chat(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    for number, (speaker, said, *result) in enumerate(lines):
        if not result:
            yield {"role": speaker, "content": said}
            continue
        function = {"name": speaker, "arguments": json.dumps(said)}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": f"call_{number}", "name": speaker, "content": result[0]}


def recorded_runs() -> list[Trajectory]:
    """The dialogues as trajectories."""
    return [from_json(line) for line in recorded()]


def call(name: str, **arguments: Any) -> AIMessage:
    """The model calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"made {name}"}])


ASKED: Any = {"messages": [("user", "Hello, where is my parcel? I need the lamp by Sunday. I am mo@example.org.")]}
SYSTEM = "You work at the parcel desk of a shop."
ANSWER = "I am sorry, the carrier has lost it. A new lamp is on its way."
SCRIPT = (
    call("find_order", email="mo@example.org"),
    call("track_parcel", parcel="P-204"),
    call("summarize_state", summary="The carrier has lost the parcel, but the customer still needs the goods."),
    call("resend_order", order="A-71"),
    ANSWER,
)


def desk_agent(graph: SITGraph, *others: Any, replies: Sequence[Any] = SCRIPT, **options: Any) -> Any:
    """An agent with suggestions, and the model that it works with by a script.

    Args:
        graph: Suggests.
        *others: Other middleware, in front.
        replies: The script.
        **options: Arguments of the middleware.
    """
    model = ScriptedChatModel(replies=list(replies))
    middleware = [*others, SITGraphMiddleware(graph, **options)]
    agent = create_agent(model, TOOLS, system_prompt=SYSTEM, middleware=middleware, checkpointer=InMemorySaver())
    return agent, model


def transcript(parts: Sequence[tuple[str, Any]]) -> list[tuple[str, str, str, str]]:
    """A conversation with what was suggested before each step of the model.

    Args:
        parts: The stream of a run, in the modes `custom` and `updates`.

    Returns:
        Rows of role, what was said or done, the mode of the suggestions, and the suggestions.
    """
    rows = [("user", str(HumanMessage(ASKED["messages"][0][1]).text), "", "")]
    event: dict[str, Any] = {"suggestions": []}
    for mode, part in parts:
        if mode == "custom":
            event = part["tooltree"]
            continue
        for message in (each for update in part.values() for each in (update or {}).get("messages", [])):
            if isinstance(message, AIMessage):
                suggestions = event["suggestions"]
                shares = ", ".join(f"{each['tool']} {each['score']:.0%}" for each in suggestions)
                rows.append(("assistant", _said(message), suggestions[0]["mode"] if suggestions else "", shares))
                event = {"suggestions": []}
            else:
                rows.append(("tool", _said(message), "", ""))
    return rows


def _said(message: BaseMessage) -> str:
    if isinstance(message, AIMessage) and message.tool_calls:
        (made,) = message.tool_calls
        arguments = ", ".join(f"{name}={value!r}" for name, value in made["args"].items())
        return f"`{made['name']}({arguments})`"
    return f"{message.name}: {message.text}" if isinstance(message, ToolMessage) else str(message.text)


def as_table(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Rows of a transcript as a Markdown table."""
    header = ("role", "what", "mode", "suggested before")
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(' '.join(cell.split()).replace('|', '/') for cell in line)} |" for line in lines)


def example() -> list[tuple[str, str, str, str]]:
    """The transcript of the scripted agent with the graph of the recorded dialogues."""
    agent, _ = desk_agent(SITGraph.from_trajectories(recorded_runs()))
    thread: Any = {"configurable": {"thread_id": "1"}}
    return transcript(list(agent.stream(ASKED, thread, stream_mode=["custom", "updates"])))


if __name__ == "__main__":
    print(as_table(example()))  # noqa: T201 - what it is for
