"""Running one tool call: whatever comes of it becomes an observation."""

import asyncio
import threading
import time
from typing import Annotated

import pytest
from langchain.tools import ToolRuntime
from langchain_core.messages.content import create_text_block
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.func import entrypoint
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from tests.internals.hall import arun_flow, run_flow
from tests.internals.tooltree import Call, ToolStep, clip, observe


@pytest.fixture(params=["sync", "async"])
def call(request):
    """Calls a tool on either path, inside a graph, as a search does."""

    async def run(tool, *, limit=None, max_chars=20_000, state=None, **arguments):
        step = ToolStep(
            tool=tool,
            call=Call(tool=tool.name, arguments=arguments, effect="read"),
            call_id="call_1",
            state=state or {"messages": []},
            timeout=limit,
            config={},
        )

        @entrypoint()
        def graph(_):
            return run_flow(observe(step, max_chars=max_chars))

        @entrypoint()
        async def agraph(_):
            return await arun_flow(observe(step, max_chars=max_chars))

        return await (asyncio.to_thread(graph.invoke, 1) if request.param == "sync" else agraph.ainvoke(1))

    return run


def raising(error):
    def fail() -> str:
        """Fail."""
        raise error

    return StructuredTool.from_function(fail)


async def test_what_a_tool_returns_is_observed(call, numbered_tools):
    seen = await call(numbered_tools("echo")[0], n=3)
    assert (seen.content, seen.kind, seen.transient, seen.artifact) == ("echo of 3", "ok", False, None)


async def test_a_sync_only_tool_works_on_both_paths(call):
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert (await call(add, a=2, b=3)).content == "5"


async def test_an_async_only_tool_works_on_both_paths(call):
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        await asyncio.sleep(0)
        return a + b

    assert (await call(add, a=2, b=3)).content == "5"


async def test_a_tool_that_raises_is_observed_as_an_exception(call):
    seen = await call(raising(ValueError("no such city")))
    assert (seen.content, seen.kind, seen.transient) == ("ValueError: no such city", "exception", False)


async def test_a_tool_exception_is_observed_as_an_exception(call):
    seen = await call(raising(ToolException("closed on Sundays")))
    assert (seen.content, seen.kind, seen.transient) == ("ToolException: closed on Sundays", "exception", False)


class StatusError(Exception):
    def __init__(self, status_code):
        super().__init__(f"status {status_code}")
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ConnectionResetError("reset"), True),
        (StatusError(503), True),
        (StatusError(429), True),
        (StatusError(404), False),
        (StatusError("odd"), False),
        (KeyError("k"), False),
    ],
)
async def test_errors_that_may_pass_are_marked(call, error, transient):
    seen = await call(raising(error))
    assert (seen.kind, seen.transient) == ("exception", transient)


async def test_arguments_that_the_tool_refuses_are_observed(call, numbered_tools):
    seen = await call(numbered_tools("echo")[0], n="many")
    assert seen.kind == "invalid_arguments"
    assert "n" in seen.content


async def test_a_sync_tool_that_hangs_is_given_up(call):
    release = threading.Event()

    def hang() -> str:
        """Hang."""
        release.wait()
        return "late"

    began = time.monotonic()
    try:
        seen = await call(StructuredTool.from_function(hang), limit=0.05)
    finally:
        release.set()
    assert (seen.content, seen.kind, seen.transient) == ("TimeoutError: no answer within 0.05 s", "timeout", True)
    assert time.monotonic() - began < 5


async def test_an_async_tool_that_hangs_is_cancelled(call):
    cancelled = threading.Event()

    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    seen = await call(StructuredTool.from_function(coroutine=hang), limit=0.05)
    assert seen.kind == "timeout"
    assert await asyncio.to_thread(cancelled.wait, 1)


async def test_a_timeout_of_the_tools_own_keeps_its_words(call):
    seen = await call(raising(TimeoutError("the mail server is slow")), limit=5)
    assert (seen.content, seen.kind, seen.transient) == ("TimeoutError: the mail server is slow", "timeout", True)


async def test_five_megabytes_are_cut_in_the_middle_with_a_note(call):
    @tool
    def dump() -> str:
        """Dump."""
        return "head" + "x" * 5_000_000 + "tail"

    seen = await call(dump, max_chars=1_000)
    assert len(seen.content) < 1_100
    assert seen.content.startswith("head")
    assert seen.content.endswith("tail")
    assert "4999008 characters left out" in seen.content


async def test_five_megabytes_of_an_error_are_cut_as_well(call):
    assert len((await call(raising(ValueError("x" * 5_000_000)), max_chars=1_000)).content) < 1_100


async def test_bytes_become_text(call):
    @tool
    def scan() -> bytes:
        """Scan."""
        return b"\x00\xff\x89PNG"

    seen = await call(scan)
    assert seen.kind == "ok"
    assert isinstance(seen.content, str)
    assert "PNG" in seen.content


async def test_binary_blocks_stay_if_small_and_are_named_if_large(call):
    @tool
    def photograph(size: int) -> list[dict]:
        """Photograph."""
        image = {"type": "image", "base64": "A" * size, "mime_type": "image/png"}
        return [{"type": "text", "text": "a photo"}, image]

    small = await call(photograph, size=100)
    assert small.content[1]["base64"] == "A" * 100
    large = await call(photograph, size=5_000_000)
    assert large.content[0]["text"] == "a photo"
    assert large.content[1]["type"] == "text"
    assert large.content[1]["text"].startswith("[image of 50000")


async def test_content_and_artifact_are_told_apart(call):
    @tool(response_format="content_and_artifact")
    def table() -> tuple[str, dict]:
        """Make a table."""
        return "2 rows", {"rows": [1, 2]}

    seen = await call(table)
    assert (seen.content, seen.artifact) == ("2 rows", {"rows": [1, 2]})


@pytest.mark.parametrize("artifact", [object(), {"rows": "x" * 2_000}, {1, 2}], ids=["object", "large", "set"])
async def test_an_artifact_that_cannot_be_kept_is_left_out(call, artifact):
    @tool(response_format="content_and_artifact")
    def table() -> tuple[str, object]:
        """Make a table."""
        return "2 rows", artifact

    seen = await call(table, max_chars=1_000)
    assert (seen.content, seen.artifact, seen.kind) == ("2 rows", None, "ok")


async def test_an_error_that_the_tool_handles_itself_is_an_exception(call):
    def fail() -> str:
        """Fail."""
        msg = "closed"
        raise ToolException(msg)

    seen = await call(StructuredTool.from_function(fail, handle_tool_error=True))
    assert (seen.content, seen.kind) == ("closed", "exception")


async def test_a_command_cannot_be_applied_while_searching(call):
    @tool
    def jump(call_id: Annotated[str, InjectedToolCallId]):
        """Go elsewhere."""
        return Command(goto="there", update={"messages": []}, graph=Command.PARENT) if call_id else ""

    seen = await call(jump)
    assert seen.kind == "unsupported"
    assert "Declare the tool a write" in seen.content


async def test_state_runtime_and_call_id_are_injected(call):
    @tool
    def who(
        n: int,
        state: Annotated[dict, InjectedState],
        name: Annotated[str, InjectedState("name")],
        call_id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime,
    ) -> str:
        """Say who."""
        return f"{n} {state['name']} {name} {call_id} {runtime.tool_call_id} {runtime.state['name']}"

    seen = await call(who, n=1, state={"messages": [], "name": "Ada"})
    assert seen.content == "1 Ada Ada call_1 call_1 Ada"


async def test_a_tool_without_a_sync_form_on_the_sync_path_says_what_to_do(call):
    seen = await call(raising(NotImplementedError("no sync")))
    assert seen.kind == "unsupported"
    assert "ainvoke" in seen.content


@pytest.mark.parametrize("length", [10, 11, 12, 100])
def test_clipping_keeps_head_and_tail(length):
    text = "0123456789" * 10
    cut = clip(text, length)
    if length == 100:
        assert cut == text
    else:
        head, _, tail = cut.partition(f" [... {100 - length} characters left out ...] ")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) == length
        assert len(tail) == length // 3


def test_clipping_reaches_into_blocks():
    blocks = ["x" * 50, {"type": "text", "text": "y" * 50}, {"type": "image", "base64": "A" * 50}, {"type": "file"}]
    plain, text, image, small = clip(blocks, 20)
    assert len(plain) < 55
    assert "30 characters left out" in plain
    assert "30 characters left out" in text["text"]
    assert image == {"type": "text", "text": "[image of 81 characters left out]"}
    assert small == {"type": "file"}


def test_identifiers_that_are_made_up_for_blocks_are_left_out_and_others_stay():
    made_up, given = create_text_block("blue"), create_text_block("blue", id="b1")
    assert clip([made_up, given], 20) == [
        {"type": "text", "text": "blue"},
        {"type": "text", "text": "blue", "id": "b1"},
    ]
