"""What a plan's messages carry beside what models read: where they come from and what they were weighed against.

A mark is plain data under `message.response_metadata["tooltree"]`. Providers never get to see it. It is what a person
who approves a write is shown, and how a later search finds the tree that it can go on from.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tooltree.tooltree.search import Call, Node, Tree

KEY = "tooltree"

ALTERNATIVES = 3
"""Other paths that are shown beside a plan."""


class PlannedCall(TypedDict):
    """A call of a plan or of an alternative; `effect` is what running it does to the world."""

    tool: str
    arguments: dict[str, Any]
    effect: str


class Alternative(TypedDict):
    """A path that the search also found, and its value in [0, 1]."""

    calls: list[PlannedCall]
    value: float


class PlanMetadata(TypedDict):
    """The mark on a message of a plan.

    Attributes:
        search: Which search made the plan.
        node: Where in its tree the call stands.
        r_pre: Score before it ran, in [0, 1].
        r_post: Score of its observation, in [0, 1]; `None` if it was not judged.
        goal: Whether the request is fulfilled after it, in [0, 1]; `None` without goal scores.
        plan: Only on a call that waits to be carried out: the calls that are planned after it.
        alternatives: Likewise: the best other paths, best first.
        cost: Likewise: what the search cost, by name, time and replayed calls aside.
        stop_reason: Likewise: why it ended.
    """

    search: str
    node: int
    r_pre: float
    r_post: float | None
    goal: float | None
    plan: NotRequired[list[PlannedCall]]
    alternatives: NotRequired[list[Alternative]]
    cost: NotRequired[dict[str, int]]
    stop_reason: NotRequired[str]


def plan_metadata(message: BaseMessage) -> Mapping[str, Any]:
    """The mark of a message; empty for one that no plan made."""
    mark = message.response_metadata.get(KEY) if isinstance(message, AIMessage) else None
    return mark if isinstance(mark, dict) else {}


def planned(call: Call) -> PlannedCall:
    """A call as plain data."""
    return PlannedCall(tool=call.tool, arguments=dict(call.arguments), effect=call.effect)


def alternatives(tree: Tree, best: Collection[int]) -> list[Alternative]:
    """The best paths beside the chosen one.

    Args:
        tree: The tree of a finished search.
        best: Nodes of the chosen path.

    Returns:
        At most `ALTERNATIVES` paths, best first. None is part of the chosen path or of another alternative.
    """
    chosen: list[list[Node]] = []
    best_path = _best_path(tree, best)
    shown = set(best)
    ranked = sorted(
        (node for node in tree.nodes if node.accepted or _is_idea(node)),
        key=lambda node: (not node.evaluated, -_value(tree, node), node.depth, node.id),
    )
    for node in ranked:
        path = tree.path(node)
        ids = {step.id for step in path}
        extends = any(ids >= {step.id for step in other} for other in (*chosen, best_path) if other)
        if node.id in shown or extends:
            continue
        chosen.append(path)
        shown |= ids
        if len(chosen) == ALTERNATIVES:
            break
    return [
        Alternative(calls=[planned(step.call) for step in path if step.call], value=round(_value(tree, path[-1]), 6))
        for path in chosen
    ]


def _best_path(tree: Tree, best: Collection[int]) -> Sequence[Node]:
    return tree.path(max((tree[node] for node in best), key=lambda node: node.depth)) if best else []


def _is_idea(node: Node) -> bool:
    """Whether a call is a candidate that the judge let pass and that came to nothing so far."""
    return node.r_pre is not None and node.pre_scored and not node.evaluated and node.pruned is None


def _value(tree: Tree, node: Node) -> float:
    """What judged calls are worth; for others, what was expected of them."""
    if not node.evaluated:
        return node.r_pre or 0.0
    return node.value if node.goal is None else tree.path_value(node)
