"""Our own engine, searching through its public entries with a model and a tool that cost nothing."""

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
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import PrivateAttr

from langchain_tooltree import SearchConfig, SearchResult, ToolTreeNode, asearch, search

REQUEST = "Look everywhere."
EFFECTS: Any = {"look": "read"}
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
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def latest(self) -> tuple[Any, Any]:
        """The last proposal asked for: the model with the tools bound, and the prompt."""
        options, prompt = self._last
        return self.bind(**options), prompt

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self._asked.append(1)
        calls = []
        if kwargs.get("tools"):
            self._last = kwargs, messages
            places = list(itertools.islice(self._places, OFFERED))
            calls = [
                {"name": "look", "args": {"place": place, "confidence": PROMISING}, "id": f"call_{place}"}
                for place in places
            ]
            if any(tool["function"]["name"] == "assess" for tool in kwargs["tools"]):
                calls.append({"name": "assess", "args": ASSESSED, "id": f"call_{places[0]}_assessed"})
        message = AIMessage("", tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
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
    saver: InMemorySaver | None = None

    @property
    def nodes(self) -> int:
        return self.result.cost.nodes if self.result else 0

    @property
    def payload(self) -> int:
        tree = self.result.tree if self.result else ()
        return sum(sys.getsizeof(node.observation.content) for node in tree if node.observation)

    @property
    def checkpoint_bytes(self) -> int:
        """Everything that the checkpointer was ever given."""
        return _bytes_in([self.saver.storage, self.saver.writes, self.saver.blobs]) if self.saver else 0

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
    """Searches with `search()` or, with a checkpointer, with a `ToolTreeNode` in a graph.

    Args:
        is_async: Which of the two paths.
        kept: Whether there is a checkpointer.
    """

    is_async: bool
    kept: bool

    def __call__(self, rollouts: int) -> OwnRun:
        model, looks = FreeModel(), list[int]()
        tool = _tool(looks)
        run = OwnRun(self.is_async, model, tool, looks)
        config = SearchConfig(proposals="together", max_rollouts=rollouts)
        parts: Any = {"model": model, "tools": [tool], "effects": EFFECTS, "config": config}
        if self.kept:
            run.saver = InMemorySaver()
            graph = StateGraph(MessagesState)
            graph.add_node("model", ToolTreeNode(**parts))
            graph.add_edge(START, "model")
            agent = graph.compile(checkpointer=run.saver)
            given: Any = {"messages": [HumanMessage(REQUEST)]}, {"configurable": {"thread_id": "1"}}
            if self.is_async:
                asyncio.run(agent.ainvoke(*given))
            else:
                agent.invoke(*given)
            run.rollouts = rollouts
        else:
            run.result = asyncio.run(asearch(REQUEST, **parts)) if self.is_async else search(REQUEST, **parts)
            run.rollouts = run.result.cost.rollouts
        return run


def _tool(looks: list[int]) -> BaseTool:
    def look(place: int) -> str:
        looks.append(place)
        return f"Nothing at {place}."

    async def alook(place: int) -> str:
        return look(place)

    return StructuredTool.from_function(look, coroutine=alook, name="look", description="Look at a place.")


def _bytes_in(kept: Any) -> int:
    if isinstance(kept, bytes):
        return len(kept)
    if isinstance(kept, dict):
        return sum(_bytes_in(part) for part in kept.values())
    return sum(map(_bytes_in, kept)) if isinstance(kept, list | tuple) else 0
