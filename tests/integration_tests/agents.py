"""How tests run an agent, on either path; and a model that counts its requests."""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import Field

from langchain_tooltree.testing import OfflineChatModel


def invoke(agent: Any, given: Any, config: Any = None, *, path: str, **options: Any) -> Any:
    """Invoke an agent on one of the two paths."""
    if path == "async":
        return asyncio.run(agent.ainvoke(given, config, **options))
    return agent.invoke(given, config, **options)


def stream(agent: Any, given: Any, config: Any = None, *, path: str, **options: Any) -> list[Any]:
    """Stream an agent to its end on one of the two paths."""

    async def collect() -> list[Any]:
        return [chunk async for chunk in agent.astream(given, config, **options)]

    return asyncio.run(collect()) if path == "async" else list(agent.stream(given, config, **options))


class ListeningModel(OfflineChatModel):
    """A model with a policy, which remembers every request."""

    heard: list[list[BaseMessage]] = Field(default_factory=list)

    def _message(self, messages: list[BaseMessage], options: Mapping[str, Any]) -> AIMessage:
        self.heard.append(messages)
        return super()._message(messages, options)
