"""Have a person approve a plan before anything is written.

`review=True` stops the agent before every write with a LangGraph interrupt. Its value has the form of LangChain's
human-in-the-loop requests and also holds the plan, its alternatives, their scores, and what the search cost. The answer
may come from another process, days later, as long as the checkpointer is a persistent one.

The shop below is made up, and so is its model, which knows what the request needs; the recipe runs without an API key.
"""

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_tooltree import create_tooltree_agent
from langchain_tooltree.testing import OfflineChatModel

ordered: list[tuple[str, int]] = []


@tool
def find_lamp(style: str) -> str:
    """Find a lamp in the shop."""
    return {"modern": "L-1, 80 EUR, in stock", "antique": "L-7, 240 EUR, sold out"}[style]


@tool
def order(article: str, quantity: int) -> str:
    """Order an article. This spends money."""
    ordered.append((article, quantity))
    return f"{quantity} x {article} ordered"


class Shopper:
    """Looks for both kinds of lamp at once, and wants to order two of the one that is in stock."""

    def act(self, question):  # all that it does in its next reply
        return self.propose(question)

    def propose(self, question):
        if not question.path:
            return [("find_lamp", {"style": "antique"}), ("find_lamp", {"style": "modern"})]
        if question.path[-1].tool == "find_lamp":
            in_stock = [made.observation for made in question.path if "in stock" in made.observation]
            return [("order", {"article": found[:3], "quantity": 2}) for found in in_stock]
        return []

    def score_call(self, question, call):
        return 0.8

    def score_observation(self, question, call):
        return (0.9, 0.95) if call.tool == "order" else (0.8, 0.3)

    def answer(self, question):
        return f"Done: {question.path[-1].observation}."


agent = create_tooltree_agent(
    OfflineChatModel(policy=Shopper()),
    [find_lamp, order],
    effects={"find_lamp": "read"},
    review=True,
    checkpointer=InMemorySaver(),
)

thread = {"configurable": {"thread_id": "1"}}
state = agent.invoke({"messages": [("user", "Order lamps for my desks.")]}, thread)
request = state["__interrupt__"][0].value
print(request["action_requests"][0]["description"])
assert not ordered

# One lamp is enough. With "approve" two would be ordered, with "reject" none. What names the call goes with the answer.
(waiting,) = request["decisions"]
edit = {**waiting, "type": "edit", "edited_action": {"name": "order", "args": {"article": "L-1", "quantity": 1}}}
state = agent.invoke(Command(resume={"decisions": [edit]}), thread)

print()
print(state["messages"][-1].text)
assert ordered == [("L-1", 1)]
