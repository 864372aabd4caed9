"""A planner's agent as a member of a larger graph, made in either of the two ways."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from travel import EFFECTS, TravelPolicy

from langchain_tooltree import PlanReviewNode, ToolTreeNode, create_tooltree_agent, review_condition
from langchain_tooltree.testing import OfflineChatModel

KINDS = ("node", "agent")
"""A planner in a graph of one's own, and one made by `create_tooltree_agent`."""


def planner_agent(
    kind: str,
    tools: Sequence[BaseTool],
    *,
    policy: Any = None,
    effects: Mapping[str, Any] | None = None,
    sandbox: Any = None,
    config: Any = None,
    review: bool = False,
    **options: Any,
) -> Any:
    """An agent that plans.

    Args:
        kind: One of `KINDS`.
        tools: Its tools.
        policy: What its model thinks; that of the travel agency if left out.
        effects: Those of the travel agency if left out.
        sandbox: For the planner.
        config: The settings of its searches.
        review: Whether a person approves its writes.
        **options: For the compiled graph, such as `name` and `checkpointer`.
    """
    model = OfflineChatModel(policy=policy or TravelPolicy())
    names = {each.name for each in tools}
    declared = {name: effect for name, effect in (effects or EFFECTS).items() if name in names}
    if kind == "agent":
        parts: Any = {"effects": declared, "sandbox": sandbox, "config": config, "review": review}
        return create_tooltree_agent(model, tools, **parts, **options)
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, tools, effects=declared, sandbox=sandbox, config=config))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    if review:
        graph.add_node("review", PlanReviewNode(declared))
        graph.add_edge("model", "review")
        graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    else:
        graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(**options)
