"""What a host puts around its tool calls is put around searched ones: in its order, without asking anybody."""

import asyncio

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    PIIMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import ToolMessage
from langgraph.func import entrypoint
from langgraph.types import Command

from langchain_tooltree import ConfigurationError
from tests.internals.tooltree import HostHooks


class Suffix(AgentMiddleware):
    """Adds its name to the result of a call."""

    def __init__(self, name):
        super().__init__()
        self.added = name

    def wrap_tool_call(self, request, handler):
        return self._marked(handler(request))

    async def awrap_tool_call(self, request, handler):
        return self._marked(await handler(request))

    def _marked(self, result):
        return result.model_copy(update={"content": f"{result.content} {self.added}"})


def called(result, guards, path):
    """What comes of a call with a result under guards, inside a graph as in a search."""
    outcomes = []

    async def aexecute(_):
        return result

    @entrypoint()
    def call(request):
        outcomes.append(guards.wrap(request, lambda _: result))

    @entrypoint()
    async def acall(request):
        outcomes.append(await guards.awrap(request, aexecute))

    call.invoke("request") if path == "sync" else asyncio.run(acall.ainvoke("request"))
    return outcomes[0]


def said(text):
    return ToolMessage(text, tool_call_id="1")


def redacting(kind, pattern, **options):
    return PIIMiddleware(kind, detector=pattern, **{"apply_to_tool_results": True, **options})


def test_the_first_wrapper_is_the_outermost(path):
    guards = HostHooks.of([Suffix("last"), Suffix("second"), Suffix("first")])
    assert called(said("found"), guards, path).content == "found first second last"


def test_results_are_redacted_after_all_wrappers_and_in_order(path):
    guards = HostHooks.of([redacting("name", "Ann"), Suffix("Ann"), redacting("note", "REDACTED_NAME")])
    assert called(said("Bob"), guards, path).content == "Bob [[REDACTED_NOTE]]"


def test_what_is_not_to_be_redacted_stays(path):
    guards = HostHooks.of([redacting("name", "Ann")])
    update = Command(update={"name": "Ann"})
    assert called(said("Bob"), guards, path).content == "Bob"
    assert called(update, guards, path) is update


@pytest.mark.parametrize(
    "middleware",
    [
        [],
        [TodoListMiddleware(), ToolCallLimitMiddleware(run_limit=1)],
        [redacting("name", "Ann", apply_to_tool_results=False)],
        [HumanInTheLoopMiddleware({"send": True})],
        [HumanInTheLoopMiddleware({"send": True}, interrupt_mode="per_call")],
    ],
    ids=["none", "others", "input only", "approval", "approval of each call"],
)
def test_middleware_that_wraps_no_tool_calls_wraps_no_searched_ones(middleware):
    guards = HostHooks.of(middleware)
    assert guards.wrap is None
    assert guards.awrap is None


def test_tools_that_wait_for_approval_are_held_back():
    asking = HumanInTheLoopMiddleware({"send": True, "look": False, "pay": {"allowed_decisions": ["approve"]}})
    assert HostHooks.of([ToolRetryMiddleware(), asking]).held_back == {"send", "pay"}


def test_what_is_no_middleware_is_refused():
    with pytest.raises(ConfigurationError, match="got str 'retry'"):
        HostHooks.of(["retry"])
