"""Four writes of which each brings back a time and names made up anew: a sandbox has them tried in one search."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any

import pytest
from agents import ListeningModel, invoke
from conversations import check_pairs
from doubts import middleware_agent, node_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from travel import Step

from langchain_tooltree import (
    ObjectSandbox,
)
from langchain_tooltree.testing import Made, Question

WRITES = ("create_order", "pay", "ship", "notify")

REQUEST: Any = {"messages": [HumanMessage("Order a lamp, pay for it, have it shipped and tell me.")]}

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Shop:
    """What is done to an order; names and times are never the same twice, in whatever copy of the shop.

    What is done is replaced and never changed, so that it can be copied while other runs go on.
    """

    tick: Iterator[int] = count(1)
    lock = Lock()

    def __init__(self, price: Callable[[], int] = lambda: 90) -> None:
        self.done: dict[str, list[str]] = {}
        self.price = price

    def create_order(self, item: str) -> str:
        """Create an order."""
        order = f"ord_{_made_up()}"
        with self.lock:
            self.done = {**self.done, order: ["create_order"]}
        return _told(order_id=order, item=item, total=self.price())

    def pay(self, order: str) -> str:
        """Pay an order."""
        return self._did("pay", order)

    def ship(self, order: str) -> str:
        """Have an order shipped."""
        return self._did("ship", order)

    def notify(self, order: str) -> str:
        """Tell the customer."""
        return self._did("notify", order)

    def _did(self, what: str, order: str) -> str:
        if order not in self.done:
            return f"There is no order {order}."
        with self.lock:
            self.done = {**self.done, order: [*self.done[order], what]}
        return _told(order_id=order, receipt_id=_made_up(), status="ok")


def _made_up() -> str:
    return f"7e{sha256(str(next(Shop.tick)).encode()).hexdigest()[:10]}"


def _told(**facts: Any) -> str:
    at = datetime(2026, 3, 1, 9, 30, 0, 120_000, tzinfo=UTC) + timedelta(seconds=next(Shop.tick))
    return json.dumps({**facts, "at": at.isoformat()})


class Clerk:
    """Knows the four steps, and takes the order's name out of what was brought back."""

    def act(self, question: Question) -> Sequence[Step]:
        """The next step."""
        done = self._done(question.path)
        if done == len(WRITES):
            return []
        return [(WRITES[done], {"order": self._order(question.path)} if done else {"item": "lamp"})]

    def propose(self, question: Question) -> Sequence[Step]:
        """The next step, and one that leads nowhere."""
        return [*self.act(question), ("notify", {"order": "none"})]

    def missing(self, question: Question) -> Sequence[str]:
        """What is not done yet."""
        return WRITES[self._done(question.path) :]

    def score_call(self, question: Question, call: Made) -> float:
        """High for the next step."""
        return 0.9 if [(call.tool, call.arguments)] == [*self.act(question)] else 0.2

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High for a step; the goal is reached with the last one."""
        before, after = self._done(question.path), self._done((*question.path, call))
        return (0.9 if after > before else 0.3), (0.9 if after == len(WRITES) else 0.2)

    def answer(self, question: Question) -> str:
        """The order's name."""
        return f"Order {self._order(question.path)} is on its way"

    def _done(self, path: Sequence[Made]) -> int:
        made = [call.tool for call in path if "no order" not in str(call.observation)]
        return next((at for at, tool in enumerate(WRITES) if tool not in made), len(WRITES))

    def _order(self, path: Sequence[Made]) -> str:
        return str(json.loads(str(path[0].observation))["order_id"]) if path else ""


def clerk() -> ListeningModel:
    return ListeningModel(policy=Clerk())


def check(shop: Shop, messages: Sequence[Any]) -> None:
    """Each step was made once, with the order of the real shop, of which the answer speaks."""
    check_pairs(list(messages))
    (order,) = shop.done
    assert shop.done[order] == list(WRITES)
    assert messages[-1].text.startswith(f"Order {order} is on its way")
    assert all(order in message.content for message in messages if message.type == "tool")


@pytest.fixture(params=[node_agent, middleware_agent], ids=["node", "middleware"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes an agent around a model and a sandbox."""
    return lambda model, sandbox, **options: request.param(model, list(sandbox.tools), sandbox=sandbox, **options)


@pytest.mark.parametrize("checkpointer", [InMemorySaver, lambda: None], ids=["checkpointer", "none"])
def test_a_plan_of_four_writes_takes_five_model_calls(make: Any, checkpointer: Any, path: str) -> None:
    shop, model = Shop(), clerk()
    agent = make(model, ObjectSandbox.of_methods(shop), checkpointer=checkpointer())
    check(shop, invoke(agent, REQUEST, THREAD, path=path)["messages"])
    assert len(model.heard) == 5


def test_runs_at_the_same_time_do_not_mix_without_a_checkpointer() -> None:
    sandbox, model = ObjectSandbox.of_methods(shop := Shop()), clerk()
    agent = middleware_agent(model, list(sandbox.tools), sandbox=sandbox)
    runs = 16
    with ThreadPoolExecutor(runs) as pool:
        ended = list(pool.map(lambda _: agent.invoke(REQUEST)["messages"], range(runs)))
    assert len(shop.done) == len(ended) == runs
    assert all(steps == list(WRITES) for steps in shop.done.values())
    for messages in ended:
        named = {json.loads(message.text)["order_id"] for message in messages if message.type == "tool"}
        assert len(named) == 1
        assert messages[-1].text.startswith(f"Order {named.pop()} is on its way")
    assert len(model.heard) == runs * 5


def test_a_price_that_differs_is_no_name_so_that_the_rest_is_planned_anew(make: Any, path: str) -> None:
    prices = count(90)
    shop, model = Shop(price=lambda: next(prices)), clerk()
    agent = make(model, ObjectSandbox.of_methods(shop), checkpointer=InMemorySaver())
    check(shop, invoke(agent, REQUEST, THREAD, path=path)["messages"])
    assert len(model.heard) == 5 + 4
