"""Three graphs for LangGraph Studio and `langgraph dev`: see `langgraph.json` beside this folder.

They run without a key: a stand-in plays the model. Set TOOLTREE_MODEL, to "openai:gpt-4.1-mini" for example, for a real
one.
"""

import os
from functools import cache

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from langgraph_sdk.runtime import ServerRuntime
from offline_model import OfflineChatModel
from travel import EFFECTS, TOOLS, Clerk

from langchain_tooltree import (
    Experience,
    PlanReviewNode,
    ToolTreeNode,
    Trajectory,
    create_tooltree_agent,
    review_condition,
)

name = os.environ.get("TOOLTREE_MODEL")
model = init_chat_model(name) if name else OfflineChatModel(policy=Clerk())

# 1. An agent that plans, and asks a person before it books.
planning_agent = create_tooltree_agent(
    model, TOOLS, effects=EFFECTS, review=True, name="planning_agent"
)

# 2. The same in a graph of your own.
review = PlanReviewNode(EFFECTS)
builder = StateGraph(MessagesState)
builder.add_node("model", ToolTreeNode(model, TOOLS, effects=EFFECTS))
builder.add_node("review", review)
builder.add_node("tools", ToolNode(TOOLS))
builder.add_edge(START, "model")
builder.add_edge("model", "review")
builder.add_conditional_edges("review", review_condition, ["tools", "model", END])
builder.add_edge("tools", "model")
own_graph = builder.compile(name="own_graph")


# 3. The three systems together: search, graph and memory, as an Experience in the server's store.
def three_systems(runtime: ServerRuntime) -> CompiledStateGraph:
    """The agent for one run: a server hands its store to a function."""
    return learning_agent(runtime.store)


@cache
def learning_agent(store: BaseStore) -> CompiledStateGraph:
    """One agent for all runs, which has read at once what it learnt."""
    experience = Experience(
        store,
        verdict=went_well,
        namespace=(
            "tooltree",
        ),  # all users share it; ("tooltree", "{user_id}") tells them apart
        settle_seconds=0,  # runs are judged at once, and not when their threads have rested for half an hour
    )
    return create_tooltree_agent(
        model,
        TOOLS,
        effects=EFFECTS,
        review=True,
        experience=experience,
        name="three_systems",
    )


def went_well(run: Trajectory) -> bool:
    """The verdict on a run: a price was read, and nothing failed or was rejected. For more, name a model as verdict."""
    well = [
        call.tool
        for call in run.calls
        if call.result and call.result.status == "success"
    ]
    return "read_price" in well and len(well) == len(run.calls)
