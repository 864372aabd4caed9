"""How tests run an agent, on either path."""

import asyncio
from typing import Any


def invoke(
    agent: Any, given: Any, config: Any = None, *, path: str, **options: Any
) -> Any:
    """Invoke an agent on one of the two paths."""
    if path == "async":
        return asyncio.run(agent.ainvoke(given, config, **options))
    return agent.invoke(given, config, **options)


def stream(
    agent: Any, given: Any, config: Any = None, *, path: str, **options: Any
) -> list[Any]:
    """Stream an agent to its end on one of the two paths."""

    async def collect() -> list[Any]:
        return [chunk async for chunk in agent.astream(given, config, **options)]

    return (
        asyncio.run(collect())
        if path == "async"
        else list(agent.stream(given, config, **options))
    )
