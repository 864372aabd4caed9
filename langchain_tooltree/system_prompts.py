"""Saying something more in the system prompt of a single model call, for whoever has something to add there."""

from langchain_core.messages import SystemMessage


def extended(system: SystemMessage | None, text: str) -> SystemMessage:
    """A system message that says something more at its end, where providers' caches of what stands before survive.

    Args:
        system: The message so far, if there is one. Its blocks stay as they are, cache marks included.
        text: What to add.

    Returns:
        A new message.
    """
    if system is None or not system.content:
        return SystemMessage(text)
    added = f"\n\n{text}"
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}{added}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": added}]})
