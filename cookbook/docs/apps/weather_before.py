"""The weather agent of LangChain's quick start: it finds out where the user is, and remembers the conversation."""

from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langgraph.checkpoint.memory import InMemorySaver

PROMPT = "You forecast the weather, in puns. If the user means where they are, find out where that is."


@dataclass
class User:
    """Who asks."""

    user_id: str


def get_user_location(runtime: ToolRuntime[User]) -> str:
    """Find out where the user is."""
    return "Florida" if runtime.context.user_id == "1" else "Portland"


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"It is always sunny in {city}!"


def build(model: Any) -> Any:
    """The agent, around a model or the name of one."""
    return create_agent(
        model,
        [get_user_location, get_weather],
        system_prompt=PROMPT,
        context_schema=User,
        checkpointer=InMemorySaver(),
    )
