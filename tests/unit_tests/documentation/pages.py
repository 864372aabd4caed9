"""The pages that users read, their blocks of code, and what somebody who follows them has already.

A block of Python runs as it stands. Names of the reader's own (`model`, `tools`, `agent`, ...) come from `given`, and
a model by name (`"openai:gpt-4.1-mini"`) is a stand-in for as long as `offline` lasts. An HTML comment on the line
before a fence says more: `<!-- continues -->` runs a block behind the one before it, `<!-- needs: X -->` leaves it
out where there is no package X, or X is a service, and `<!-- prints -->` says that a block of text is what the
Python before it printed.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest import mock

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from cookbook.offline_model import Made, OfflineChatModel, Question, read_question
from langchain_tooltree import (
    ChromaStore,
    ConfigurationError,
    Experience,
    ExperienceStore,
    SITGraph,
    Trajectory,
    dump_trajectories,
)

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "cookbook" / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (
        ROOT / "README.md",
        ROOT / "cookbook" / "README.md",
        *sorted(DOCS.rglob("*.md")),
    )
    if path.exists()
}
"""The text of each page, by its path from the root."""

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
MARK = re.compile(r"<!-- (?P<word>[a-z]+)(?:: (?P<what>[^>]+))? -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Args:
        page: Path of the page from the root.
        line: Where its fence stands, from 1.
        language: As its fence says.
        code: What it holds.
        mark: The word of the comment before it: `continues`, `needs`, `prints`, or another that is not for tests.
        what: What the comment says behind its word.
    """

    page: str
    line: int
    language: str
    code: str
    mark: str = ""
    what: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    text = PAGES[page]
    found = []
    for fence in FENCE.finditer(text):
        said = MARK.search(
            text[: fence.start()].rstrip("\n").rpartition("\n")[2].strip()
        )
        word, what = (said["word"], said["what"] or "") if said else ("", "")
        line = text.count("\n", 0, fence.start()) + 1
        found.append(
            Block(page, line, fence["language"], dedent(fence["code"]), word, what)
        )
    return found


def blocks_in(*languages: str) -> list[Block]:
    """The blocks of all pages in these languages."""
    return [
        block
        for page in PAGES
        for block in blocks_of(page)
        if block.language in languages
    ]


def chains() -> list[list[Block]]:
    """The blocks of Python, each with those that continue it."""
    found: list[list[Block]] = []
    for block in blocks_in("python"):
        if block.mark == "continues":
            found[-1].append(block)
        else:
            found.append([block])
    return found


def printed_after(block: Block) -> str | None:
    """What the page shows as the output of a block; `None` where it shows none."""
    later = [each for each in blocks_of(block.page) if each.line > block.line]
    shown = next(iter(later), None)
    return (
        shown.code
        if shown and shown.language == "text" and shown.mark == "prints"
        else None
    )


def chain_with(words: str) -> list[Block]:
    """The one block with these words, behind those that it continues."""
    [chain] = [
        [
            *takewhile(lambda block: words not in block.code, each),
            next(block for block in each if words in block.code),
        ]
        for each in chains()
        if any(words in block.code for block in each)
    ]
    return chain


def followed(blocks: Sequence[Block], **names: Any) -> dict[str, Any]:
    """What there is once somebody has followed some blocks, with names of their own."""
    loggers = (logging.getLogger(), logging.getLogger("langchain_tooltree"))
    before = [(logger, logger.level, [*logger.handlers]) for logger in loggers]
    try:
        for block in blocks:
            code = (
                "\n" * block.line + block.code
            )  # so that an error names the line of the page
            exec(compile(code, str(ROOT / block.page), "exec"), names)  # noqa: S102 - our own pages
    finally:
        for (
            logger,
            level,
            handlers,
        ) in before:  # a page that shows the log does so for itself alone
            logger.setLevel(level)
            logger.handlers[:] = handlers
    return names


@tool
def search_flights(to: str) -> str:
    """Find the cheapest flight to a city."""
    return f"OS-1 to {to}, 80 EUR"


@tool
def book_flight(flight: str) -> str:
    """Book a flight. This spends money."""
    return f"{flight} is booked"


TOOLS = [search_flights, book_flight]
REQUEST = "Which flight to Oslo is cheapest?"
ANSWER = "OS-1, for 80 EUR."
PAST_RUN = [
    HumanMessage(REQUEST),
    AIMessage(
        "", tool_calls=[{"name": "search_flights", "args": {"to": "Oslo"}, "id": "1"}]
    ),
    ToolMessage("OS-1 to Oslo, 80 EUR", tool_call_id="1"),
    AIMessage(ANSWER),
]
SAMPLES = {
    "string": "Oslo",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}
"""Something of each type of JSON."""


def sample(schema: Mapping[str, Any]) -> Any:
    """Something that a schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    return SAMPLES[schema.get("type", "string")]


def filled_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a tool, or a form that is filled in."""
    schema = form["parameters"]
    asked = schema.get("required", schema["properties"])
    return {name: sample(schema["properties"].get(name, {})) for name in asked}


@dataclass(frozen=True)
class Traveller:
    """Looks something up with the first tool there is, books where the request says so, and tells what came back.

    Args:
        forms: The tools by name, as a model gets them.
    """

    forms: Mapping[str, Mapping[str, Any]]

    def propose(self, question: Question) -> list[tuple[str, dict[str, Any]]]:
        """The next call, and the same in a later attempt."""
        if (
            question.path
            and question.path[-1].tool == "search_flights"
            and "book" in question.request.lower()
        ):
            return [("book_flight", {"flight": "OS-1"})]
        wanted = [name for name in question.tools if name in self.forms]
        return (
            [(wanted[0], filled_in(self.forms[wanted[0]]))]
            if wanted and not question.path
            else []
        )

    def score_call(self, question: Question, call: Made) -> float:
        return 0.8

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        return (
            0.9,
            0.3
            if call.tool == "search_flights" and "book" in question.request.lower()
            else 0.95,
        )

    def answer(self, question: Question) -> str:
        return (
            f"It says: {question.path[-1].observation}."
            if question.path
            else "Nothing was found."
        )


class Reader(OfflineChatModel):
    """A stand-in for any model of a page: it plans, acts in a plain agent, and fills in forms."""

    policy: Any = None

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        forms = {tool["function"]["name"]: tool["function"] for tool in tools}
        if len(forms) == 1 and next(iter(forms)).endswith("Form"):
            return filled_in(next(iter(forms.values())))
        question, _ = read_question(messages, tools)
        policy = Traveller(forms)
        if tools and question.kind == "answer":  # an agent without a planner
            asked = Question("step", question.request, question.path, tuple(forms))
            if calls := policy.propose(asked):
                made = [
                    {"name": name, "args": given, "id": "call_0"}
                    for name, given in calls
                ]
                return AIMessage("", tool_calls=made)
        return OfflineChatModel(policy=policy)._respond(messages, tools)


def given() -> dict[str, Any]:
    """What a reader has already."""
    run = Trajectory.from_messages(PAST_RUN, success=True)
    model = Reader()
    return {
        "__name__": "__page__",
        "model": model,
        "tools": TOOLS,
        "checkpointer": InMemorySaver(),
        "store": InMemoryStore(),
        "agent": create_agent(model, TOOLS, checkpointer=InMemorySaver()),
        "graph": SITGraph.from_trajectories([run]),
        "experience": Experience(InMemoryStore()),
        "evaluate": lambda task, result: bool(result["messages"][-1].text),
    }


def asked(agent: Any) -> dict[str, Any]:
    """The state of an agent of a page once it was asked something."""
    thread = {"configurable": {"thread_id": "asked", "user_id": "ada"}}
    state: dict[str, Any] = agent.invoke({"messages": [("user", REQUEST)]}, thread)
    return state


@contextmanager
def offline() -> Iterator[None]:
    """Have every model that is asked for by name be the stand-in, and the reader's past runs in the current folder."""
    dump_trajectories(
        [Trajectory.from_messages(PAST_RUN, success=True)], "runs.jsonl.gz"
    )
    with mock.patch(
        "langchain.chat_models.base._init_chat_model_helper", return_value=Reader()
    ):
        yield


def put_away(names: Mapping[str, Any]) -> None:
    """Close what a page has opened, as the end of its process would."""
    for value in names.values():
        if isinstance(value, Experience):
            with suppress(
                ConfigurationError
            ):  # other namespaces are judged by the next process
                value.within(user_id="ada").settle()
        records = (
            getattr(value, "store", None) if isinstance(value, Experience) else value
        )
        store = records._store if isinstance(records, ExperienceStore) else records
        if isinstance(store, ChromaStore):
            store.close()
