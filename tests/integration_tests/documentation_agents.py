"""The agents of LangChain's tutorials, each plain or planned, around any model, and a stand-in that is right.

Those that the documentation shows before and after stand in `cookbook/docs/apps`; here are their variants.

`build(name, model, planned=...)` makes an agent, `run` asks it what its example asks, approvals included, and `SCRIPT`
is what a model that is right replies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from agents import THREAD, invoke
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from langgraph_supervisor import create_supervisor
from pydantic import BaseModel, Field

from cookbook.docs.apps.rag_before import retrieve_context
from cookbook.docs.apps.sql_before import LOOKUPS, run_query
from cookbook.docs.apps.supervisor_before import create_event, free_slots, send_mail
from cookbook.docs.apps.weather_before import PROMPT, User, get_user_location, get_weather
from langchain_tooltree import ToolTreeNode, create_tooltree_agent
from langchain_tooltree.testing import Made, OfflineChatModel, Question, read_question

Step = tuple[str, Mapping[str, Any]]

RAG = "How does an agent split up a task, and what do people add to that method?"
SQL = "Which genre has the longest tracks on average?"
WEATHER = "What is the weather outside?"
THANKS = "Thank you!"
MAIL = "Answer the mail of Ann."
MEETING = "Set up a meeting with the design team on Tuesday at two, and remind them by mail to look at the drafts."
SUMS = "What do both offices employ together?"

MEET = "Meeting with the design team on Tuesday at two"
REMIND = "Remind design@example.com to look at the drafts"

QUERY = "SELECT name, AVG(minutes) FROM track JOIN genre ON genre.id = genre_id GROUP BY name ORDER BY 2 DESC LIMIT 1"

REPLY = {"to": "ann@example.com", "subject": "Lunch", "body": "Gladly, see you at noon."}
SLOT = {"title": "Design team", "start": "Tue 14:00", "end": "Tue 15:00"}
REMINDER = {"to": "design@example.com", "subject": "Drafts", "body": "Please look at the drafts."}

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
    WEATHER: ([[("get_user_location", {})], [("get_weather", {"city": "Florida"})]], "It is sun-derful in Florida."),
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
    SUMS: (
        [[("headcount", {"office": "Oslo"}), ("headcount", {"office": "Rome"})], [("add", {"a": 30, "b": 12})]],
        "42.",
    ),
}
"""What each request takes, reply by reply, and the answer."""


class Pun(BaseModel):
    """What the forecaster says."""

    punny_response: str
    conditions: str | None = None


class Script:
    """Knows the replies of every request, and is sure of them."""

    def act(self, question: Question) -> Sequence[Step]:
        """All calls of the next reply."""
        left = self._left(question)
        return left[0] if left else []

    def propose(self, question: Question) -> Sequence[Step]:
        """The next call."""
        return self.act(question)[:1]

    def missing(self, question: Question) -> Sequence[str]:
        """What is not done yet."""
        return [f"the call of {name}" for reply in self._left(question) for name, _ in reply]

    def score_call(self, _: Question, __: Made) -> float:
        """High: all of them are right."""
        return 0.9

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High; the goal is reached once nothing is left."""
        return 0.9, float(not self._left(Question("post", question.request, (*question.path, call))))

    def answer(self, question: Question) -> str:
        """The prepared answer."""
        return SCRIPT[question.request][1]

    @staticmethod
    def _left(question: Question) -> list[list[Step]]:
        made = [(each.tool, dict(each.arguments)) for each in question.path]
        replies = [
            [step for step in reply if (step[0], dict(step[1])) not in made] for reply in SCRIPT[question.request][0]
        ]
        return [reply for reply in replies if reply]


class ScriptModel(OfflineChatModel):
    """A model that replies to the plain agent's question as to that of a search."""

    policy: Any = Field(default_factory=Script)

    def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
        question, _ = read_question(messages, tools)
        names = [each["function"]["name"] for each in tools]
        if question.kind not in {"answer", "step"} or not tools:
            return super()._respond(messages, tools)
        calls = [*self.policy.act(question)]
        if not calls and "Pun" in names:
            calls = [("Pun", {"punny_response": self.policy.answer(question), "conditions": "sunny"})]
        if not calls:
            return super()._respond(messages, tools)
        made = sum(len(message.tool_calls) for message in messages if isinstance(message, AIMessage))
        asked = [
            {"name": name, "args": dict(given), "id": f"call_{made + at}"} for at, (name, given) in enumerate(calls)
        ]
        return AIMessage("", tool_calls=asked)


# --- the tools ---


@tool
def read_inbox() -> list[dict[str, str]]:
    """Read the mails that came in."""
    return [{"type": "text", "text": "From ann@example.com: lunch at noon?"}]


@tool
def headcount(office: str) -> int:
    """Tell how many people work in an office."""
    return {"Oslo": 30, "Rome": 12}[office]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


READS = frozenset({"get_weather", "get_user_location", "read_inbox", "free_slots", "headcount", "add"})

# --- the agents ---


@dataclass(frozen=True)
class Example:
    """A tutorial: what is asked, turn by turn, and with which context."""

    requests: tuple[str, ...]
    context: Any = None
    node: bool = False  # whether it is also written as a graph of one's own


EXAMPLES = {
    "rag": Example((RAG,), node=True),
    "sql": Example((SQL,), node=True),
    "weather": Example((WEATHER, THANKS), context=User("1")),
    "weather in a form": Example((WEATHER, THANKS), context=User("1")),
    "weather in a schema": Example((WEATHER, THANKS), context=User("1")),
    "mail": Example((MAIL,)),
    "supervisor": Example((MEETING,)),
    "supervisor with approval": Example((MEETING,)),
    "handoffs": Example((SUMS,)),
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
            app = import_module(f"cookbook.docs.apps.{name}_{'after' if planned else 'before'}")
            return app.build(model)
        case "weather in a form" | "weather in a schema":
            form: dict[str, Any] = {"response_format": ToolStrategy(Pun) if name == "weather in a form" else Pun}
            form |= {"context_schema": User, "checkpointer": InMemorySaver()}
            return _agent(model, [get_user_location, get_weather], planned=planned, system_prompt=PROMPT, **form)
        case "mail":
            approval = HumanInTheLoopMiddleware({"send_mail": True, "read_inbox": False})
            return _agent(
                model,
                [read_inbox, send_mail],
                planned=planned,
                system_prompt="You look after a mailbox.",
                middleware=[approval],
                checkpointer=InMemorySaver(),
            )
        case "supervisor with approval":
            return _supervisor(model, planned=planned)
        case "handoffs":
            return _handoffs(model, planned=planned)
    msg = f"There is no example {name!r}; there are {', '.join(EXAMPLES)}."
    raise ValueError(msg)


def _supervisor(model: Any, *, planned: bool) -> Any:
    guards = [[HumanInTheLoopMiddleware({name: True})] for name in ("create_event", "send_mail")]
    keeps: dict[str, Any] = {"system_prompt": "You keep a calendar.", "middleware": guards[0]}
    writes: dict[str, Any] = {"system_prompt": "You write mails.", "middleware": guards[1]}
    calendar = _agent(model, [free_slots, create_event], planned=planned, **keeps)
    mail = _agent(model, [send_mail], planned=planned, **writes)

    @tool
    def schedule_event(request: str) -> str:
        """Have the calendar kept, in words."""
        return str(calendar.invoke({"messages": [HumanMessage(request)]})["messages"][-1].text)

    @tool
    def manage_mail(request: str) -> str:
        """Have mails written, in words."""
        return str(mail.invoke({"messages": [HumanMessage(request)]})["messages"][-1].text)

    prompt = "You are an assistant. Break a request down into calls, and put their results together."
    tools = [schedule_event, manage_mail]
    return _agent(model, tools, planned=planned, system_prompt=prompt, checkpointer=InMemorySaver())


class Dispatcher(OfflineChatModel):
    """Hands over to the clerk, and then repeats what the clerk has found out."""

    def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
        said = [message for message in messages if isinstance(message, AIMessage) and message.name == "clerk"]
        if said and said[-1].text:
            return SCRIPT[SUMS][1]
        call = {"name": tools[0]["function"]["name"], "args": {}, "id": "call_handoff"}
        return AIMessage("", tool_calls=[call])


def _handoffs(model: Any, *, planned: bool) -> Any:
    prompt = "You know how many people work where."
    clerk = _agent(model, [headcount, add], planned=planned, name="clerk", system_prompt=prompt)
    chief = Dispatcher(policy=None)
    return create_supervisor([clerk], model=chief, prompt="You hand over to your clerk.").compile()


def build_node(name: str, model: Any, *, planned: bool) -> Any:
    """The same as a graph of one's own: a model node, or the planner in its place."""
    tools: list[Any] = {"rag": [retrieve_context], "sql": [*LOOKUPS, run_query]}[name]
    prompt = "Answer the user's questions with the tools."

    def ask(state: MessagesState) -> Any:
        return {
            "messages": [model.bind_tools(tools).invoke([{"role": "system", "content": prompt}, *state["messages"]])]
        }

    effects: Any = [(each, "read") for each in tools]
    node = ToolTreeNode(model, tools, effects=effects, system_prompt=prompt) if planned else ask
    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def run(name: str, agent: Any, *, path: str, callbacks: Sequence[Any] = ()) -> dict[str, Any]:
    """Ask the agent of an example, turn by turn; whatever waits for approval is approved."""
    example = EXAMPLES[name]
    config = {**THREAD, "callbacks": list(callbacks)}
    options = {} if example.context is None else {"context": example.context}
    state: dict[str, Any] = {}
    for request in example.requests:
        state = invoke(agent, {"messages": [HumanMessage(request)]}, config, path=path, **options)
        while waiting := state.get("__interrupt__"):
            approved = {
                each.id: {"decisions": [{"type": "approve"} for _ in each.value["action_requests"]]} for each in waiting
            }
            state = invoke(agent, Command(resume=approved), config, path=path, **options)
    return state
