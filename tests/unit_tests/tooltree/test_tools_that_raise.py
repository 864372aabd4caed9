"""Whatever a tool, a hook, a judge, a guide or a listener raises, a run goes on; only a real end ends it."""

import asyncio
import logging
import threading

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import asearch, create_tooltree_agent, search
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import arun_flow
from tests.internals.tooltree import HostHooks, Planner, Turn, searched

pytestmark = pytest.mark.slow

CALL = {"name": "look", "args": {"q": "x"}, "id": "1"}
READS = {"look": "read"}


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self):
        msg = "no words"
        raise ValueError(msg)

    __repr__ = __str__


class AlienError(BaseException):
    """Of some framework."""


RAISED = {
    "SystemExit": lambda: SystemExit(3),
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "StopIteration": lambda: StopIteration(3),
    "ExceptionGroup": lambda: ExceptionGroup("g", [ValueError("a")]),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("g", [SystemExit(1), asyncio.CancelledError()]),
    "MuteError": MuteError,
    "AlienError": AlienError,
}


class Hook(AgentMiddleware):
    """Stands around tool calls, and may fail itself."""

    def __init__(self, error=None):
        self.error = error

    def wrap_tool_call(self, request, handler):
        if self.error:
            raise self.error()
        return handler(request)

    async def awrap_tool_call(self, request, handler):
        if self.error:
            raise self.error()
        return await handler(request)


def model(answer="Done."):
    return ScriptedChatModel(replies=[AIMessage("", tool_calls=[CALL]), *[AIMessage(answer)] * 6])


def tool_of(kind, raised):
    def look(q: str) -> str:
        raise raised()

    async def alook(q: str) -> str:
        await asyncio.sleep(0)
        raise raised()

    functions = {"sync": {"func": look}, "async": {"coroutine": alook}, "both": {"func": look, "coroutine": alook}}
    return StructuredTool.from_function(**functions[kind], name="look", description="Look.")


FINE = StructuredTool.from_function(lambda q: q, name="look", description="Look.")


def observed(result):
    return [node.observation for node in result.tree.nodes if node.observation]


@pytest.mark.parametrize("hooked", [False, True], ids=["alone", "hooked"])
@pytest.mark.parametrize("kind", ["sync", "async", "both"])
@pytest.mark.parametrize("name", RAISED)
async def test_what_a_tool_raises_is_an_observation(drive, name, kind, hooked):
    hooks = HostHooks.of([Hook()] if hooked else [])
    planner = Planner(model(), [tool_of(kind, RAISED[name])], effects=READS, host_hooks=hooks)
    (seen,) = observed(await drive(searched(Turn(planner=planner, messages=[HumanMessage("Look.")]))))
    assert seen.kind == "exception"
    said = {name, "RuntimeError"} if name == "StopIteration" else {name}  # so LangChain and Python pass it on
    assert any(word in seen.content for word in said)


@pytest.mark.parametrize("name", RAISED)
async def test_what_a_hook_raises_is_an_observation(drive, name):
    planner = Planner(model(), [FINE], effects=READS, host_hooks=HostHooks.of([Hook(RAISED[name])]))
    (seen,) = observed(await drive(searched(Turn(planner=planner, messages=[HumanMessage("Look.")]))))
    assert name in seen.content


@pytest.mark.parametrize("name", sorted(RAISED.keys() - {"AlienError"}))
async def test_what_a_judge_a_listener_or_a_retriever_raises_does_not_end_a_search(find, name, caplog):
    def fail(_):
        error = RAISED[name]()
        raise error

    async def afail(_):
        error = RAISED[name]()
        raise error

    more = [StructuredTool.from_function(lambda q: q, name=f"tool{n}", description="Do.") for n in range(21)]
    for options in ({"judge": fail}, {"judge": afail}, {"retriever": afail}, {"on_event": fail}):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert (await find("Look.", [FINE, *more], model=model(), effects=READS, **options)).stop_reason
        assert sum("listener" in record.message for record in caplog.records) <= 1


def test_a_real_interrupt_ends_a_search():
    with pytest.raises(KeyboardInterrupt):
        search("Look.", [tool_of("sync", KeyboardInterrupt)], model=model(), effects=READS)


@pytest.mark.parametrize("hooked", [False, True], ids=["alone", "hooked"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_real_cancellation_ends_a_search(kind, hooked):
    began, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def look(q: str) -> str:
        loop.call_soon_threadsafe(began.set)
        let_go.wait(5)
        return q

    async def alook(q: str) -> str:
        began.set()
        await asyncio.sleep(5)
        return q

    functions = {"func": look} if kind == "sync" else {"coroutine": alook}
    waiting = StructuredTool.from_function(**functions, name="look", description="Look.")
    hooks = [Hook()] if hooked else []
    planner = Planner(model(), [waiting], effects=READS, host_hooks=HostHooks.of(hooks))
    task = asyncio.create_task(arun_flow(searched(Turn(planner=planner, messages=[HumanMessage("Look.")]))))
    await asyncio.wait_for(began.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    let_go.set()


ODD = {"big": 2**70, "nan": float("nan"), "half": "\ud800", "key": {"\ud800": 1}, "number": {1: 2}, "mute": MuteError()}


@pytest.mark.parametrize("odd", ODD)
def test_odd_data_in_calls_results_and_answers_do_not_end_an_agent_with_a_checkpointer(odd):
    value = ODD[odd]
    config = {"configurable": {"thread_id": "1"}}

    class Given:
        """What the tool brings back next."""

    def give(q):
        return Given.back

    tool = StructuredTool.from_function(give, name="look", description="Look.")
    for returned in ([{"type": "text", "text": "x", "more": value}], value, "x"):
        first = AIMessage("", tool_calls=[CALL])
        first.tool_calls[0]["args"] = {"q": value} if returned == "x" and odd != "mute" else {"q": "x"}
        last = AIMessage("Done.") if odd == "mute" else AIMessage("Done.", response_metadata={"more": value})
        replies = [first, *[last.model_copy() for _ in range(6)]]
        Given.back = returned
        agent = create_tooltree_agent(
            ScriptedChatModel(replies=replies), [tool], effects=READS, checkpointer=InMemorySaver()
        )
        assert agent.invoke({"messages": [("user", "Look.")]}, config)["messages"][-1].text == "Done."


async def test_odd_names_in_a_reply_do_not_end_a_search():
    reply = AIMessage.model_construct(
        content=None, tool_calls=[CALL, {"name": 3}, None], usage_metadata=[1], type="ai", id={}, response_metadata=3
    )
    scripted = ScriptedChatModel(replies=[AIMessage("")])
    scripted.replies = [reply, *[AIMessage("Done.")] * 6]
    assert (await asearch("Look.", [FINE], model=scripted, effects=READS)).stop_reason
