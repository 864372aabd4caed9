"""Our own engine, searching with a model and a tool that cost nothing."""

import asyncio
import itertools
import sys
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from langchain_tooltree import SearchConfig, SearchResult
from langchain_tooltree.flows import arun_flow, run_flow
from tests.internals.tooltree import deep_search

REQUEST = "Look everywhere."
EFFECTS = {"look": "read"}
OFFERED = 5
PROMISING, NOT_DONE = 0.6, 0.2
"""What every call is rated, and whether the task is done after it."""

ASSESSED = {"last_result": PROMISING, "fulfilled": False, "missing": ["more places"]}
"""How things stand in every state: so the search goes on to the end."""

USAGE = UsageMetadata(input_tokens=1, output_tokens=1, total_tokens=2)


class FreeModel(BaseChatModel):
    """A chat model that offers new places to look at, and answers once it has no tools."""

    _places: Any = PrivateAttr(default_factory=itertools.count)
    _asked: list[int] = PrivateAttr(default_factory=list)
    _last: tuple[Any, Any] = PrivateAttr(default=None)

    @property
    def _llm_type(self) -> str:
        return "free"

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return len(self._asked)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(
            tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs
        )

    def latest(self) -> tuple[Any, Any]:
        """The last proposal asked for: the model with the tools bound, and the prompt."""
        options, prompt = self._last
        return self.bind(**options), prompt

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self._asked.append(1)
        calls = []
        if kwargs.get("tools"):
            self._last = kwargs, messages
            places = list(itertools.islice(self._places, OFFERED))
            calls = [
                {
                    "name": "look",
                    "args": {"place": place, "confidence": PROMISING},
                    "id": f"call_{place}",
                }
                for place in places
            ]
            if any(tool["function"]["name"] == "assess" for tool in kwargs["tools"]):
                calls.append(
                    {
                        "name": "assess",
                        "args": ASSESSED,
                        "id": f"call_{places[0]}_assessed",
                    }
                )
        message = AIMessage("", tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return self._generate(messages, stop, **kwargs)


@dataclass
class OwnRun:
    """A search of ours that is over; see `engine.Run`."""

    is_async: bool
    model: FreeModel
    tool: BaseTool
    looks: list[int]
    rollouts: int = 0
    result: SearchResult | None = None

    @property
    def nodes(self) -> int:
        return self.result.cost.nodes if self.result else 0

    @property
    def payload(self) -> int:
        tree = self.result.tree if self.result else ()
        return sum(
            sys.getsizeof(node.observation.content) for node in tree if node.observation
        )

    def bare(self) -> None:
        if self.is_async:
            asyncio.run(self._abare())
            return
        model, prompt = self.model.latest()
        for _ in range(self.model.asked):
            model.invoke(prompt)
        for place in tuple(self.looks):
            self.tool.invoke({"place": place})

    async def _abare(self) -> None:
        model, prompt = self.model.latest()
        for _ in range(self.model.asked):
            await model.ainvoke(prompt)
        for place in tuple(self.looks):
            await self.tool.ainvoke({"place": place})


@dataclass(frozen=True)
class OwnEngine:
    """Deep searches with one model call a rollout, as the forms of the planner run them.

    Args:
        is_async: Which of the two paths.
    """

    is_async: bool

    def __call__(self, rollouts: int) -> OwnRun:
        model, looks = FreeModel(), list[int]()
        tool = _tool(looks)
        config = SearchConfig(selection="posterior", max_rollouts=rollouts)
        flow = deep_search(
            model, [tool], [HumanMessage(REQUEST)], effects=EFFECTS, config=config
        )
        result = asyncio.run(arun_flow(flow)) if self.is_async else run_flow(flow)
        return OwnRun(self.is_async, model, tool, looks, result.cost.rollouts, result)


def _tool(looks: list[int]) -> BaseTool:
    def look(place: int) -> str:
        looks.append(place)
        return f"Nothing at {place}."

    async def alook(place: int) -> str:
        return look(place)

    return StructuredTool.from_function(
        look, coroutine=alook, name="look", description="Look at a place."
    )
