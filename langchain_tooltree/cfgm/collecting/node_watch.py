"""What a node of a graph does with models and tools, as its callbacks tell."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs, set_config_context

from langchain_tooltree.cfgm.collecting.report import Cost
from langchain_tooltree.rate_limits import was_refused


class Watch(BaseCallbackHandler):
    """Sees what a node does with models and tools.

    Attributes:
        cost: What its model calls have cost.
        asked: Whether it called a model.
        acted: Whether it called a tool.
        errors: What its models raised.
    """

    run_inline = True

    def __init__(self) -> None:
        self.cost = Cost()
        self.asked = False
        self.acted = False
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """A chat model is asked."""
        self.asked = True

    def on_llm_start(self, *_: Any, **__: Any) -> None:
        """A model of the older kind is asked."""
        self.asked = True

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """A model has replied."""
        message = next((getattr(each, "message", None) for row in response.generations for each in row), None)
        usage = getattr(message, "usage_metadata", None) or {}
        self._count(Cost(1, usage.get("input_tokens", 0), usage.get("output_tokens", 0)))

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """A model could not be asked."""
        self.errors.append(error)
        if not was_refused(error):  # it may have cost something
            self._count(Cost(1))

    def on_tool_start(self, *_: Any, **__: Any) -> None:
        """A tool is called."""
        self.acted = True

    def _count(self, cost: Cost) -> None:
        with self._lock:
            self.cost += cost


class WatchedCall:
    """Doing what a node does, as a step.

    Args:
        bound: What it does.
        given: Its input.
        config: Its configuration.
        options: Further arguments.
        tell: Told in the end what was seen, also if it fails.

    Attributes:
        watch: Sees what it does.
    """

    def __init__(
        self,
        bound: Runnable[Any, Any],
        given: Any,
        config: RunnableConfig,
        options: Mapping[str, Any],
        tell: Callable[[Watch], None],
    ) -> None:
        self.watch = Watch()
        self._bound = bound
        self._given = given
        self._config = merge_configs(config, {"callbacks": [self.watch]})
        self._options = options
        self._tell = tell

    def run(self) -> Any:
        """Do it."""
        try:
            with set_config_context(self._config) as context:
                return context.run(self._bound.invoke, self._given, self._config, **self._options)
        finally:
            self._tell(self.watch)

    async def arun(self) -> Any:
        """Do it without blocking the loop."""
        try:
            with set_config_context(self._config) as context:
                doing = self._bound.ainvoke(self._given, self._config, **self._options)
                return await asyncio.create_task(doing, context=context)
        finally:
            self._tell(self.watch)
