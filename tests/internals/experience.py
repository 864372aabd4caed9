"""Runs that tests make up."""

from langchain_tooltree import Trajectory
from langchain_tooltree.messages.chat_format import build_tool_call_entry


def run_of_calls(task, *calls, id="t", success=True):  # noqa: A002 - the field's name
    """A run of calls, one a turn: tool, arguments, what came back if anything did, and whether it is an error."""
    messages = [{"role": "user", "content": task}]
    for number, (tool, arguments, *result) in enumerate(calls):
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [build_tool_call_entry(f"{number}", tool, arguments)],
            }
        )
        if result:
            failed = {"error": True} if "error" in result[1:] else {}
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": f"{number}",
                    "name": tool,
                    "content": result[0],
                    **failed,
                }
            )
    return Trajectory.from_chat(messages, id=id, task=task, success=success)
