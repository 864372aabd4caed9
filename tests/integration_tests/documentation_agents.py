"""The agents of LangChain's tutorials, each plain or planned, around any model, and a stand-in that is right.

Those that the documentation shows before and after stand in `cookbook/docs/apps`; here are their variants.

`build(name, model, planned=...)` makes an agent, `run` asks it what its example asks, approvals included, and `SCRIPT`
is what a model that is right replies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from agents import invoke
from composition import THREAD, asks_for_report
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from cookbook.docs.apps.supervisor_before import send_mail
from cookbook.docs.apps.weather_before import (
    PROMPT,
    User,
    get_user_location,
    get_weather,
)
from langchain_tooltree import create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel

Step = tuple[str, Mapping[str, Any]]

RAG = "How does an agent split up a task, and what do people add to that method?"
SQL = "Which genre has the longest tracks on average?"
WEATHER = "What is the weather outside?"
THANKS = "Thank you!"
MAIL = "Answer the mail of Ann."
MEETING = "Set up a meeting with the design team on Tuesday at two, and remind them by mail to look at the drafts."

MEET = "Meeting with the design team on Tuesday at two"
REMIND = "Remind design@example.com to look at the drafts"

QUERY = "SELECT name, AVG(minutes) FROM track JOIN genre ON genre.id = genre_id GROUP BY name ORDER BY 2 DESC LIMIT 1"

REPLY = {
    "to": "ann@example.com",
    "subject": "Lunch",
    "body": "Gladly, see you at noon.",
}
SLOT = {"title": "Design team", "start": "Tue 14:00", "end": "Tue 15:00"}
REMINDER = {
    "to": "design@example.com",
    "subject": "Drafts",
    "body": "Please look at the drafts.",
}

SCRIPT: dict[str, tuple[list[list[Step]], str]] = {
    RAG: (
        [
            [("retrieve_context", {"query": "how an agent splits up a task"})],
            [("retrieve_context", {"query": "extensions of chain of thought"})],
        ],
        "It thinks step by step; people add a tree of thoughts.",
    ),
    SQL: (
        [
            [("list_tables", {})],
            [("table_schema", {"tables": ["track", "genre"]})],
            [("check_query", {"query": QUERY})],
            [("run_query", {"query": QUERY})],
        ],
        "Opera, with nine minutes.",
    ),
    WEATHER: (
        [[("get_user_location", {})], [("get_weather", {"city": "Florida"})]],
        "It is sun-derful in Florida.",
    ),
    THANKS: ([], "You are thunderously welcome."),
    MAIL: ([[("read_inbox", {})], [("send_mail", REPLY)]], "Ann has her answer."),
    MEETING: (
        [[("schedule_event", {"request": MEET}), ("manage_mail", {"request": REMIND})]],
        "The meeting stands, and the team is reminded.",
    ),
    MEET: (
        [[("free_slots", {"day": "Tuesday"})], [("create_event", SLOT)]],
        "Tuesday at two it is.",
    ),
    REMIND: ([[("send_mail", REMINDER)]], "The reminder is on its way."),
}
"""What each request takes, reply by reply, and the answer."""


class Pun(BaseModel):
    """What the forecaster says."""

    punny_response: str
    conditions: str | None = None


class ScriptModel(ScriptedChatModel):
    """Makes the calls of a request reply by reply, and then gives the prepared answer."""

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        asked = max(
            at
            for at, message in enumerate(messages)
            if isinstance(message, HumanMessage)
        )
        turn = [
            message for message in messages[asked:] if isinstance(message, AIMessage)
        ]
        made = [
            (call["name"], call["args"])
            for message in turn
            for call in message.tool_calls
        ]
        replies, answer = SCRIPT[messages[asked].text]
        left = [[step for step in reply if step not in made] for reply in replies]
        calls: list[Step] = next(filter(None, left), [])
        if not calls and any(each["function"]["name"] == "Pun" for each in tools):
            calls = [("Pun", {"punny_response": answer, "conditions": "sunny"})]
        if not calls:
            return (
                f'{{"missing": "nothing"}}\n{answer}'
                if asks_for_report(messages[0])
                else answer
            )
        first = sum(
            len(message.tool_calls)
            for message in messages
            if isinstance(message, AIMessage)
        )
        numbered = enumerate(calls, first)
        return AIMessage(
            "",
            tool_calls=[
                {"name": name, "args": dict(given), "id": f"call_{at}"}
                for at, (name, given) in numbered
            ],
        )


# --- the tools ---


@tool
def read_inbox() -> list[dict[str, str]]:
    """Read the mails that came in."""
    return [{"type": "text", "text": "From ann@example.com: lunch at noon?"}]


READS = frozenset({"get_weather", "get_user_location", "read_inbox", "free_slots"})

# --- the agents ---


@dataclass(frozen=True)
class Example:
    """A tutorial: what is asked, turn by turn, and with which context."""

    requests: tuple[str, ...]
    context: Any = None


EXAMPLES = {
    "rag": Example((RAG,)),
    "sql": Example((SQL,)),
    "weather": Example((WEATHER, THANKS), context=User("1")),
    "weather in a form": Example((WEATHER, THANKS), context=User("1")),
    "weather in a schema": Example((WEATHER, THANKS), context=User("1")),
    "mail": Example((MAIL,)),
    "supervisor": Example((MEETING,)),
}


def _agent(model: Any, tools: list[Any], *, planned: bool, **options: Any) -> Any:
    if not planned:
        return create_agent(model, tools, **options)
    names = {getattr(each, "name", None) or each.__name__ for each in tools}
    effects: dict[str, Any] = dict.fromkeys(names & READS, "read")
    return create_tooltree_agent(model, tools, effects=effects, **options)


def build(name: str, model: Any, *, planned: bool) -> Any:
    """The agent of an example, plain or planned, around a model."""
    match name:
        case "rag" | "sql" | "weather" | "supervisor":
            app = import_module(
                f"cookbook.docs.apps.{name}_{'after' if planned else 'before'}"
            )
            return app.build(model)
        case "weather in a form" | "weather in a schema":
            form: dict[str, Any] = {
                "response_format": ToolStrategy(Pun)
                if name == "weather in a form"
                else Pun
            }
            form |= {"context_schema": User, "checkpointer": InMemorySaver()}
            return _agent(
                model,
                [get_user_location, get_weather],
                planned=planned,
                system_prompt=PROMPT,
                **form,
            )
        case "mail":
            approval = HumanInTheLoopMiddleware(
                {"send_mail": True, "read_inbox": False}
            )
            return _agent(
                model,
                [read_inbox, send_mail],
                planned=planned,
                system_prompt="You look after a mailbox.",
                middleware=[approval],
                checkpointer=InMemorySaver(),
            )
    msg = f"There is no example {name!r}; there are {', '.join(EXAMPLES)}."
    raise ValueError(msg)


def run(
    name: str, agent: Any, *, path: str, callbacks: Sequence[Any] = ()
) -> dict[str, Any]:
    """Ask the agent of an example, turn by turn; whatever waits for approval is approved."""
    example = EXAMPLES[name]
    config = {**THREAD, "callbacks": list(callbacks)}
    options = {} if example.context is None else {"context": example.context}
    state: dict[str, Any] = {}
    for request in example.requests:
        state = invoke(
            agent, {"messages": [HumanMessage(request)]}, config, path=path, **options
        )
        while waiting := state.get("__interrupt__"):
            approved = {
                each.id: {
                    "decisions": [
                        {"type": "approve"} for _ in each.value["action_requests"]
                    ]
                }
                for each in waiting
            }
            state = invoke(
                agent, Command(resume=approved), config, path=path, **options
            )
    return state
