"""Finding, in a conversation, the search that the next one can go on from."""

from collections.abc import Collection, Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tooltree.experience.reference import without_reference
from langchain_tooltree.tooltree.continuation import Continuation, below, reads_tried
from langchain_tooltree.tooltree.execute import clip
from langchain_tooltree.tooltree.marks import plan_mark
from langchain_tooltree.tooltree.search import TreeSearch
from langchain_tooltree.tooltree.tree import Effect, Node, call_key


def last_search(messages: Sequence[BaseMessage]) -> str | None:
    """The search whose plan stands last in a conversation."""
    position = _last_marked(messages)
    return None if position is None else str(plan_mark(messages[position]).get("search"))


def continuation_of(
    search: TreeSearch,
    messages: Sequence[BaseMessage],
    *,
    effects: Mapping[str, Effect],
    same_request: bool,
    repeatable: Collection[str],
    max_chars: int,
) -> Continuation | None:
    """What an earlier search leaves to the next one, if the world is still the one that it explored.

    Args:
        search: The finished search whose plan stands last in the conversation.
        messages: The conversation.
        effects: The effect of every tool, by name.
        same_request: Whether the user wants what they wanted then; a tree is worth nothing for another request.
        repeatable: Tools whose reads may be believed after a new request.
        max_chars: The length to which observations were cut.

    Returns:
        Its tree from the state that the conversation has come to; after a new request, the reads that it tried;
        `None` if its plan was not carried out as it was tried, or something else may have changed the world.
    """
    position = _last_marked(messages)
    node = None if position is None else _node(search, messages[position])
    if position is None or node is None:
        return None
    answer = messages[position + 1] if len(messages) > position + 1 else None
    if not _came_out(node, answer, max_chars):
        return None
    rest = messages[position + 2 :]
    if not rest:
        if not same_request:
            return None
        best = search.best()
        return below(search.tree, node, carried_out=best is not None and best.id == node.id)
    made = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    later = [call["name"] for message in rest if isinstance(message, AIMessage) for call in message.tool_calls]
    if not isinstance(rest[-1], HumanMessage) or any(effects.get(name) != "read" for name in later):
        return None
    shown = {call_key(call["name"], call["args"]) for call in made}
    return reads_tried(search.tree, node.world, tools=repeatable, shown=shown)


def _last_marked(messages: Sequence[BaseMessage]) -> int | None:
    return next((place for place in reversed(range(len(messages))) if plan_mark(messages[place])), None)


def _node(search: TreeSearch, message: BaseMessage) -> Node | None:
    """The node of a planned call, unless somebody has changed the call since."""
    number = plan_mark(message).get("node")
    node = search.tree[number] if isinstance(number, int) and 0 < number < len(search.tree) else None
    if node is None or node.call is None or not isinstance(message, AIMessage):
        return None
    written = [(call["name"], call["args"]) for call in message.tool_calls]
    return node if written == [(node.call.tool, node.call.arguments)] else None


def _came_out(node: Node, answer: BaseMessage | None, max_chars: int) -> bool:
    """Whether a planned call brought back, for real, what it had while searching."""
    observation = node.observation
    return (
        isinstance(answer, ToolMessage)
        and observation is not None
        and not observation.transient
        and (answer.status == "success") == (observation.kind == "ok")
        and clip(without_reference(answer.content), max_chars) == observation.content
    )
