"""Planning ahead in forks of a sandbox, and what then really happens."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_tooltree import ConfigurationError, ObjectSandbox
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.completeness_report import REPORT_AND_UNDO_PROMPT
from tests.unit_tests.tooltree.loops import FORMS, check_clean, report, scripted, shown

ASKED = [HumanMessage("Put tea, milk, bread and salt into the cart.", id="go")]
THREAD = {"configurable": {"thread_id": "1"}}
ONE_BY_ONE = {"max_concurrency": 1}
"""The calls of one reply then come in their order, as they are tried."""


class Cart:
    """A shopping cart. What is done in a fork of it is noted apart, in `tried`."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.sold_out: list[str] = []
        self.tried: list[str] = []
        self.is_real = True

    def __deepcopy__(self, memo):
        copy = Cart()
        copy.items, copy.tried, copy.is_real = [*self.items], self.tried, False
        return copy

    def put(self, item: str) -> str:
        """Put an item into the cart."""
        if item == "stone":
            raise ToolException("this is no quarry")
        if self.is_real and item in self.sold_out:
            return f"there is no {item}"
        self.items.append(item)
        if not self.is_real:
            self.tried.append(item)
        return f"{len(self.items)} in the cart"

    def pay(self, item: str) -> str:
        """Start to pay for an item."""
        return f"payment {uuid.uuid4()}"

    def confirm(self, item: str) -> str:
        """Confirm a payment by its id."""
        self.items.append(f"paid {item}")
        return "confirmed"


def put(*items: str, name: str = "put") -> AIMessage:
    made = [
        {"name": name, "args": {"item": item}, "id": f"{name}_{item}_{at}"}
        for at, item in enumerate(items)
    ]
    return AIMessage("", tool_calls=made)


def weather(item: str) -> str:
    """Tell the weather."""
    return f"{item}: rain"


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def cart():
    return Cart()


@pytest.fixture
def plan(form, cart, either):
    """Runs a scripted model with the cart as a sandbox, in either form; returns the model and the conversation."""

    async def play(*replies, **options):
        model = scripted(*replies)
        sandbox = ObjectSandbox.of_methods(cart)
        tools = [*sandbox.tools, StructuredTool.from_function(weather)]
        graph = FORMS[form](
            model, tools, sandbox=sandbox, **{"effects": {"weather": "read"}, **options}
        )
        messages = (
            await either(graph.invoke, graph.ainvoke)({"messages": ASKED}, ONE_BY_ONE)
        )["messages"]
        check_clean(messages)
        return model, messages

    return play


ITEMS = ["tea", "milk", "bread", "salt"]


async def test_four_writes_that_go_as_tried_cost_five_model_calls(plan, cart):
    model, messages = await plan(*map(put, ITEMS), report("All in."))
    assert len(model.calls) == 5
    assert cart.items == cart.tried == ITEMS
    assert shown(messages)[1::2] == [*(f"put({item})" for item in ITEMS), "All in."]
    assert [message.text for message in messages[2::2]] == [
        f"{n} in the cart" for n in range(1, 5)
    ]
    assert [
        prompt for prompt in model.calls if prompt[0].text != REPORT_AND_UNDO_PROMPT
    ] == []


async def test_calls_of_one_reply_are_made_together(plan, cart):
    # Of what is made at once, the results must not depend on which comes first.
    model, messages = await plan(
        put("tea", "milk", name="confirm"), put("bread"), report("All in.")
    )
    assert len(model.calls) == 3
    assert sorted(cart.items) == ["bread", "paid milk", "paid tea"]
    assert shown(messages)[1] == "confirm(tea), confirm(milk)"


async def test_a_wrong_write_that_an_answer_admits_is_left_out_of_the_plan(plan, cart):
    doubtful = report("Tea, a brick and milk.", "the brick was wrong", wrong=2)
    replies = (
        put("tea"),
        put("brick"),
        put("milk"),
        doubtful,
        put("milk"),
        report("Tea and milk."),
    )
    model, messages = await plan(*replies)
    assert cart.items == ["tea", "milk"]
    assert cart.tried == ["tea", "brick", "milk", "milk"]
    note = model.calls[4][-1].text
    assert 'put(item="brick")' in note
    assert "It was undone" in note
    assert shown(model.calls[4])[-3:-1] == ["put(tea)", "1 in the cart"]
    assert messages[-1].text == "Tea and milk."


async def test_a_step_that_failed_when_tried_is_left_out(plan, cart):
    _, messages = await plan(put("stone"), put("tea"), report("Tea. No stones."))
    assert cart.items == ["tea"]
    assert shown(messages)[1:] == ["put(tea)", "1 in the cart", "Tea. No stones."]


async def test_what_goes_otherwise_than_tried_is_planned_anew_from_there(plan, cart):
    cart.sold_out.append("milk")
    again = put("cream"), report("Tea and cream.")
    model, messages = await plan(
        put("tea"), put("milk"), put("bread"), report("All in."), *again
    )
    assert cart.items == ["tea", "cream"]
    assert "there is no milk" in shown(model.calls[4])[-1]
    assert messages[-1].text == "Tea and cream."


async def test_made_up_identifiers_are_the_real_ones_in_what_follows(plan, cart):
    def confirm(messages):
        return put(messages[-1].text.split()[1], name="confirm")

    def answer(messages):
        return report(f"Paid with {messages[-2].tool_calls[0]['args']['item']}.")

    model, messages = await plan(put("tea", name="pay"), confirm, answer)
    real = messages[2].text.split()[1]
    assert len(model.calls) == 3
    assert cart.items == [f"paid {real}"]
    assert messages[-1].text == f"Paid with {real}."


class Payer(ScriptedChatModel):
    """Pays, confirms and answers by what it is shown alone, so that it serves many runs at once."""

    def _respond(self, messages, tools):
        self.calls.append(messages)
        results = [
            message.text.split() for message in messages if message.type == "tool"
        ]
        if not results:
            return put("tea", name="pay")
        payment = results[0][1]
        return (
            put(payment, name="confirm")
            if len(results) == 1
            else report(f"Paid with {payment}.")
        )


@pytest.mark.slow
def test_runs_at_the_same_time_do_not_mix_without_a_checkpointer(form, cart):
    sandbox, model, count = ObjectSandbox.of_methods(cart), Payer(), 16
    graph = FORMS[form](model, list(sandbox.tools), sandbox=sandbox)
    with ThreadPoolExecutor(count) as pool:
        runs = list(
            pool.map(
                lambda _: graph.invoke({"messages": ASKED})["messages"], range(count)
            )
        )
    payments = {messages[2].text.split()[1]: messages[-1].text for messages in runs}
    assert payments == {payment: f"Paid with {payment}." for payment in payments}
    assert sorted(cart.items) == sorted(f"paid {payment}" for payment in payments)
    assert len(payments) == count
    assert len(model.calls) == 3 * count


async def test_a_read_that_no_sandbox_binds_goes_to_the_host_before_and_amid_a_plan(
    plan, cart
):
    replies = (
        put("Rome", name="weather"),
        put("tea"),
        put("Oslo", name="weather"),
        put("milk"),
        report("In."),
    )
    model, messages = await plan(*replies)
    assert len(model.calls) == 5
    assert cart.items == ["tea", "milk"]
    assert shown(messages)[1::2] == [
        "weather(Rome)",
        "put(tea)",
        "weather(Oslo)",
        "put(milk)",
        "In.",
    ]


async def test_without_calls_of_the_sandbox_it_is_the_loop_as_ever(plan, cart):
    model, messages = await plan(
        put("Rome", name="weather"),
        report("Rain.", "the wind"),
        report("Rain, no wind."),
    )
    assert len(model.calls) == 3
    assert (messages[-1].text, cart.tried) == ("Rain, no wind.", [])


def asking(cart, *replies):
    sandbox = ObjectSandbox.of_methods(cart)
    approval = HumanInTheLoopMiddleware(
        {"put": {"allowed_decisions": ["approve", "edit", "reject"]}}
    )
    options = {
        "sandbox": sandbox,
        "middleware": [approval],
        "checkpointer": InMemorySaver(),
    }
    model = scripted(*replies)
    return model, FORMS["agent"](model, sandbox.tools, **options)


def test_a_person_who_rejects_a_planned_write_has_the_rest_planned_anew(cart):
    model, agent = asking(
        cart, put("tea"), put("milk"), put("bread"), report("In."), report("Tea.")
    )
    agent.invoke({"messages": ASKED}, THREAD)
    asked = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert cart.items == ["tea"]
    [question] = asked["__interrupt__"]
    assert question.value["action_requests"][0]["args"] == {"item": "milk"}
    no = Command(resume={"decisions": [{"type": "reject", "message": "No milk."}]})
    messages = agent.invoke(no, THREAD)["messages"]
    check_clean(messages)
    assert (cart.items, messages[-1].text, len(model.calls)) == (["tea"], "Tea.", 5)
    assert "No milk." in shown(model.calls[4])[-1]


def test_what_a_person_edits_is_done_and_planned_on_from(cart):
    model, agent = asking(
        cart, put("milk"), put("bread"), report("In."), report("Cream.")
    )
    agent.invoke({"messages": ASKED}, THREAD)
    edited = {
        "type": "edit",
        "edited_action": {"name": "put", "args": {"item": "cream"}},
    }
    messages = agent.invoke(Command(resume={"decisions": [edited]}), THREAD)["messages"]
    check_clean(messages)
    assert cart.items[0] == "cream"
    assert len(model.calls) >= 3
    assert messages[-1].text in {"In.", "Cream."}


def test_a_plan_goes_on_in_another_process_after_a_stop_between_its_steps(form, cart):
    saver = InMemorySaver()
    sandbox = ObjectSandbox.of_methods(cart)

    def made(*replies):
        model = scripted(*replies)
        return model, FORMS[form](
            model, list(sandbox.tools), sandbox=sandbox, checkpointer=saver
        )

    _, graph = made(*map(put, ITEMS), report("All in."))
    for step in graph.stream({"messages": ASKED}, THREAD, stream_mode="updates"):
        if "tools" in step and len(cart.items) == 2:
            break
    model, other = made()
    messages = other.invoke(None, THREAD)["messages"]
    check_clean(messages)
    assert (cart.items, model.calls, messages[-1].text) == (ITEMS, [], "All in.")


def test_a_world_that_cannot_be_forked_ends_the_turn_with_the_remedy(form):
    class Locked(Cart):
        def __deepcopy__(self, memo):
            raise TypeError("a lock")

    sandbox = ObjectSandbox.of_methods(Locked())
    graph = FORMS[form](scripted(put("tea")), list(sandbox.tools), sandbox=sandbox)
    with pytest.raises(
        ConfigurationError,
        match=r"cannot deep-copy its state: a lock.*fork\(\) of your own",
    ):
        graph.invoke({"messages": ASKED})
