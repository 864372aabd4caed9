"""The personal assistant of LangChain's tutorial: a supervisor whose tools are two agents."""

from typing import Any

from langchain_tooltree import create_tooltree_agent as create_agent
from langchain_core.messages import HumanMessage


def free_slots(day: str) -> list[str]:
    """Tell when everybody is free on a day."""
    return [f"{day} 14:00", f"{day} 16:00"]


def create_event(title: str, start: str, end: str) -> str:
    """Put an event into the calendar."""
    return f"{title}, {start} to {end}"


def send_mail(to: str, subject: str, body: str) -> str:
    """Send a mail."""
    return f"Sent to {to}: {subject} ({len(body)} characters)"


def build(model: Any) -> Any:
    """The supervisor, around a model or the name of one."""
    calendar = create_agent(
        model,
        [free_slots, create_event],
        system_prompt="You keep a calendar.",
        effects={"free_slots": "read"},
    )
    mail = create_agent(model, [send_mail], system_prompt="You write mails.")

    def schedule_event(request: str) -> str:
        """Have the calendar kept, in words."""
        return str(
            calendar.invoke({"messages": [HumanMessage(request)]})["messages"][-1].text
        )

    def manage_mail(request: str) -> str:
        """Have mails written, in words."""
        return str(
            mail.invoke({"messages": [HumanMessage(request)]})["messages"][-1].text
        )

    return create_agent(
        model,
        [schedule_event, manage_mail],
        system_prompt="You are an assistant. Break a request down into calls, and put their results together.",
    )
