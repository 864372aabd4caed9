"""Conversations for the tests of the detector."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage


def calls(*pairs, request="Do it."):
    """A conversation of calls, as (tool, arguments, observation); arguments may be a text, the only argument."""
    messages = [HumanMessage(request)]
    for number, (tool, arguments, observation) in enumerate(pairs):
        args = {"action": arguments} if isinstance(arguments, str) else arguments
        messages.append(
            AIMessage(
                "", tool_calls=[{"name": tool, "args": args, "id": f"call_{number}"}]
            )
        )
        messages.append(
            ToolMessage(observation, tool_call_id=f"call_{number}", name=tool)
        )
    return messages


def seen(observation, **options):
    """A conversation of one call."""
    message = ToolMessage(observation, tool_call_id="call_0", name="act", **options)
    return [*calls(("act", "try it", ""))[:-1], message]
