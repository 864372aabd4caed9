"""Tools of real MCP servers, which run as subprocesses and note every call that reaches them."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conversations import check_conversation, outline
from doubts import node_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from cookbook.offline_model import Made, OfflineChatModel, Question
from langchain_tooltree import SearchConfig, SearchResult, asearch, mcp_effects, search
from langchain_tooltree.testing import ScriptedChatModel

SERVER = Path(__file__).with_name("mcp_server.py")
DOOR = Path(__file__).with_name("mcp_door.py")
PATIENCE = 60
"""Seconds that the server may take to start."""
TRUSTED, LYING = "archive", "mallory"

Step = tuple[str, Mapping[str, Any]]

LIST: Step = ("list_letters", {})
READ: Step = ("read_letter", {"name": "ada.txt"})
READ_MISSING: Step = ("read_letter", {"name": "eve.txt"})
DESCRIBE: Step = ("describe_letter", {"name": "ada.txt"})
BURN: Step = ("burn_letter", {"name": "ada.txt"})
STAMP: Step = ("stamp_letter", {"name": "ada.txt"})


class ErrandPolicy:
    """Wants the steps of one errand in their order; the goal is reached with the last."""

    def __init__(self, *errand: Step, prefix: str = "") -> None:
        self._errand = [(f"{prefix}{tool}", arguments) for tool, arguments in errand]

    def propose(self, question: Question) -> Sequence[Step]:
        """The next step, and the last of all beside it, so that there is something to choose from."""
        left = self._errand[len(question.path) :]
        return [*left[:1], *left[-1:]]

    def score_call(self, question: Question, call: Made) -> float:
        """High for the next step."""
        return (
            0.9
            if (call.tool, call.arguments) == self._errand[len(question.path)]
            else 0.1
        )

    def score_observation(self, question: Question, _: Made) -> tuple[float, float]:
        """High for any step."""
        return 0.9, 0.95 if len(question.path) + 1 == len(self._errand) else 0.2

    def answer(self, question: Question) -> str:
        """The latest observation, in a sentence."""
        return f"It says {question.path[-1].observation}"


def errand_model(*errand: Step, prefix: str = "") -> OfflineChatModel:
    return OfflineChatModel(policy=ErrandPolicy(*errand, prefix=prefix))


class Servers:
    """An honest server and one that runs the same script and lies about its tools."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self._journals = {name: folder / name for name in (TRUSTED, LYING)}
        connections: Any = {
            name: {
                "transport": "stdio",
                "command": sys.executable,
                "args": ["-S", str(DOOR), str(socket), str(journal)],
            }
            for name, journal in self._journals.items()
        }
        connections[LYING]["args"].append("--lying")
        self.client = MultiServerMCPClient(connections)
        self.client_with_prefixes = MultiServerMCPClient(
            connections, tool_name_prefix=True
        )

    def journal(self, name: str = TRUSTED) -> list[str]:
        """The calls that have reached a server."""
        journal = self._journals[name]
        return (
            journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
        )

    def forget(self) -> None:
        """Empty the journals."""
        for journal in self._journals.values():
            journal.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # the path of a socket has to be short
        socket = Path(folder, "socket")
        with subprocess.Popen([sys.executable, str(SERVER), str(socket)]) as server:  # noqa: S603 - our own script
            deadline = time.monotonic() + PATIENCE
            while not socket.exists():
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.02)
            yield Servers(tmp_path_factory.mktemp("journals"), socket)
            server.kill()


@pytest.fixture(scope="module")
def loaded(started: Servers) -> list[BaseTool]:
    """The tools of the honest server; each of their calls starts a server of its own."""
    return asyncio.run(started.client.get_tools(server_name=TRUSTED))


@pytest.fixture
def servers(started: Servers) -> Servers:
    started.forget()
    return started


@pytest.fixture
def find(path: str, loaded: list[BaseTool]) -> Callable[..., SearchResult]:
    """Searches for an errand with the tools of the honest server."""

    def run(*errand: Step, config: SearchConfig | None = None) -> SearchResult:
        effects = mcp_effects(loaded, server=TRUSTED)
        given: Any = {
            "model": errand_model(*errand),
            "effects": effects,
            "config": config,
        }
        request = "Go through the archive."
        return (
            search(request, loaded, **given)
            if path == "sync"
            else asyncio.run(asearch(request, loaded, **given))
        )

    return run


def results_in(result: SearchResult) -> list[ToolMessage]:
    return [message for message in result.messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("write", [BURN, STAMP], ids=["hinted", "without a hint"])
def test_reads_run_while_searching_and_a_write_waits(
    find: Any, servers: Servers, write: Step
) -> None:
    result = find(LIST, READ, write)

    assert outline(check_conversation(result.messages, pending=write[0]))[:4] == [
        "call list_letters",
        "result list_letters",
        "call read_letter",
        "result read_letter",
    ]
    assert results_in(result)[1].text == "The key is under the mat."
    assert servers.journal() == ["list_letters", "read_letter ada.txt"]


def test_an_error_is_an_observation_and_the_search_goes_on(find: Any) -> None:
    result = find(READ_MISSING, READ)

    missing, found = results_in(result)
    assert (missing.status, found.status) == ("error", "success")
    assert "eve.txt" in missing.text
    assert result.steps[0].observation.kind == "exception"
    assert result.answer.text == "It says The key is under the mat."


def test_structured_content_comes_along_as_the_artifact(find: Any) -> None:
    [facts] = results_in(find(DESCRIBE))

    assert facts.artifact == {"structured_content": {"name": "ada.txt", "words": 6}}
    assert '"words": 6' in facts.text


def planning_graph(model: Any, tools: list[BaseTool]) -> Any:
    return node_agent(model, tools, effects=mcp_effects(tools, server=TRUSTED))


def test_in_a_graph_a_write_reaches_the_server_once(
    loaded: list[BaseTool], servers: Servers
) -> None:
    given: Any = {"messages": [HumanMessage("Burn Ada's letter.")]}

    messages = asyncio.run(
        planning_graph(errand_model(LIST, READ, BURN), loaded).ainvoke(given)
    )["messages"]

    assert messages[-1].text == "It says ada.txt is burnt"
    assert outline(check_conversation(messages))[-3:] == [
        "call burn_letter",
        "result burn_letter",
        "answer",
    ]
    assert servers.journal() == [
        "list_letters",
        "read_letter ada.txt",
        "burn_letter ada.txt",
    ]


@pytest.mark.parametrize("where", ["search", "graph"])
async def test_a_search_tries_what_the_server_hints_to_be_a_read(
    loaded: list[BaseTool], servers: Servers, where: str
) -> None:
    doubt = '{"missing": "what the letter of Ada says"}\nI do not know.'
    offered = [
        {"name": name, "args": dict(given), "id": name}
        for name, given in (BURN, STAMP, READ)
    ]
    model = ScriptedChatModel(
        replies=[doubt] * 3
        + [
            AIMessage("", tool_calls=offered),
            '{"missing": "nothing"}\nThe key is under the mat.',
        ]
    )

    if where == "graph":
        ended = await planning_graph(model, loaded).ainvoke(
            {"messages": [HumanMessage("What does Ada say?")]}
        )
        answer = ended["messages"][-1]
    else:
        effects = mcp_effects(loaded, server=TRUSTED)
        answer = (
            await asearch("What does Ada say?", loaded, model=model, effects=effects)
        ).answer

    assert answer.text == "The key is under the mat."
    assert servers.journal() == ["read_letter ada.txt"]


async def test_tools_of_one_open_session_can_be_searched_with(servers: Servers) -> None:
    async with servers.client.session(TRUSTED) as session:
        tools = await load_mcp_tools(session)
        effects = mcp_effects(tools, server=TRUSTED)
        result = await asearch(
            "Read it.", tools, model=errand_model(LIST, READ), effects=effects
        )

    assert result.answer.text == "It says The key is under the mat."
    assert servers.journal() == ["list_letters", "read_letter ada.txt"]


@pytest.mark.parametrize(
    "written",
    [BURN, STAMP, READ],
    ids=["claimed-read", "claimed-read-unhinted", "real-read"],
)
async def test_hints_of_a_server_that_nobody_named_are_not_believed(
    written: Step, servers: Servers
) -> None:
    tools = await servers.client_with_prefixes.get_tools()
    effects = mcp_effects(tools, server=TRUSTED)
    liar = f"{LYING}_{written[0]}"
    claims = {tool.name: (tool.metadata or {}).get("readOnlyHint") for tool in tools}
    assert claims[liar] is True

    result = await asearch(
        "Go through the archive.",
        tools,
        model=errand_model(written, written, prefix=f"{LYING}_"),
        effects=effects,
    )

    assert {name for name in effects if name.startswith(LYING)} == set()
    assert effects[f"{TRUSTED}_read_letter"] == "read"
    assert result.waiting == result.steps[:1]
    check_conversation(result.messages, pending=liar)
    assert servers.journal(LYING) == servers.journal(TRUSTED) == []
