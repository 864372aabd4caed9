"""Replace the model node of a ReAct graph by ToolTreeNode.

Before, the graph below had a model node that calls tools one after another as it sees fit:

    graph.add_node("model", lambda state: {"messages": [model.bind_tools(tools).invoke(state["messages"])]})

Now that one line changes; `tools_condition`, the tools node, the checkpointer and everything else stay. The tools and
the stand-in for a model come from the package's demo, so the recipe runs without an API key. With a key, write
`model = "openai:gpt-4.1-mini"`.
"""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_tooltree import SearchConfig, ToolTreeNode
from langchain_tooltree.demo import EFFECTS, REQUEST, TOOLS, offline_model

model = offline_model()

graph = StateGraph(MessagesState)
graph.add_node("model", ToolTreeNode(model, TOOLS, effects=EFFECTS, config=SearchConfig(max_rollouts=30)))
graph.add_node("tools", ToolNode(TOOLS))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
agent = graph.compile(checkpointer=InMemorySaver())

thread = {"configurable": {"thread_id": "1"}}
for mode, chunk in agent.stream({"messages": [("user", REQUEST)]}, thread, stream_mode=["updates", "custom"]):
    if mode == "custom" and chunk["tooltree"]["type"] in {"propose", "execute", "best"}:
        print({key: value for key, value in chunk["tooltree"].items() if key in {"type", "call", "calls", "value"}})

for message in agent.get_state(thread).values["messages"]:
    message.pretty_print()
