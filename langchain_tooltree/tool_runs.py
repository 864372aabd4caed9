"""Tools on both paths: a sync-only one in an event loop, an async-only one without."""

import asyncio
from dataclasses import dataclass
from functools import wraps
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolNode

from langchain_tooltree._langgraph import with_runtime
from langchain_tooltree.flows import awaited, containing, in_thread


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool call, as a step of a flow; it raises `TimeoutError` if it takes too long.

    A sync-only tool runs in a thread on the async path, an async-only one in an event loop of its own on the sync path.
    A sync tool cannot be stopped: its thread is left behind.
    """

    node: ToolNode
    tool: BaseTool
    input: dict[str, Any]
    timeout: float | None  # in seconds, `None` for no limit
    config: RunnableConfig

    def run(self) -> Any:
        """Run the tool on a thread: one that hangs takes no place of others in a pool."""
        async_only = isinstance(self.tool, StructuredTool) and self.tool.func is None
        work = (lambda: asyncio.run(self.arun())) if async_only else self._invoke
        return in_thread(work, f"tooltree-{self.tool.name}").result(self.timeout)

    async def arun(self) -> Any:
        """Run the tool without blocking the loop."""
        async with asyncio.timeout(self.timeout):
            if isinstance(self.tool, StructuredTool) and self.tool.coroutine is None:
                return await asyncio.wrap_future(in_thread(self._invoke, f"tooltree-{self.tool.name}"))
            with containing():
                return await self.node.ainvoke(self.input, self._whole_config)

    def _invoke(self) -> Any:
        with containing():
            return self.node.invoke(self.input, self._whole_config)

    @property
    def _whole_config(self) -> RunnableConfig:
        return with_runtime(merge_configs(ensure_config(), self.config))


def with_sync_form(tool: BaseTool) -> BaseTool:
    """A tool that can be run on the sync path as well: in an event loop of its own if it is async-only."""
    coroutine = tool.coroutine if isinstance(tool, StructuredTool) and tool.func is None else None
    if coroutine is None:
        return tool

    @wraps(coroutine)
    def run(*args: Any, **kwargs: Any) -> Any:
        return in_thread(lambda: asyncio.run(awaited(coroutine(*args, **kwargs))), f"tooltree-{tool.name}").result()

    return tool.model_copy(update={"func": run})
