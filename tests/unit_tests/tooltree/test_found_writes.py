"""Reads that write, found out in the sandbox that binds them."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_tooltree import ObjectSandbox, SearchConfig, ToolTreeNode
from tests.internals.tooltree import plan_metadata

UNREAD, SEARCH, SHOW = ("get_unread_emails", {}), ("search_emails", {"word": "rent"}), ("show_read", {})
EFFECTS = {"get_unread_emails": "read", "search_emails": "read", "show_read": "read"}


class Mailbox:
    def __init__(self):
        self.mails = [{"text": "The rent is due.", "read": False}]

    def get_unread_emails(self) -> str:
        """List the emails that were not read yet."""
        unread = [mail for mail in self.mails if not mail["read"]]
        for mail in unread:
            mail["read"] = True
        return f"{[mail['text'] for mail in unread]}"

    def search_emails(self, word: str) -> str:
        """Search all emails."""
        return f"{[mail['text'] for mail in self.mails if word in mail['text']]}"

    def show_read(self) -> str:
        """Say how many emails were read."""
        return f"{sum(mail['read'] for mail in self.mails)} read"


class StoredMailbox:
    """The same behind a sandbox that stores its state."""

    def __init__(self, mails=None):
        self.box = Mailbox()
        self.box.mails = mails or self.box.mails
        self.tools = ObjectSandbox.of_methods(self.box).tools

    def fork(self):
        return self.restore(self.snapshot())

    def snapshot(self):
        return [dict(mail) for mail in self.box.mails]

    def restore(self, snapshot):
        return StoredMailbox([dict(mail) for mail in snapshot])


class ColdMailbox(StoredMailbox):
    """One that says nothing of its state."""

    snapshot = restore = None

    def fork(self):
        return ColdMailbox([dict(mail) for mail in self.box.mails])


def objects():
    return ObjectSandbox.of_methods(Mailbox())


@pytest.mark.parametrize("world", [objects, StoredMailbox])
async def test_a_declared_read_that_changes_the_sandbox_is_told_and_left_to_the_host(find, offline, caplog, world):
    sandbox, told = world(), []
    model = offline(offers={(): [UNREAD, SEARCH]}, r_pre={"get_unread_emails": 0.9}, goal={"get_unread_emails": 0.9})
    result = await find(
        "What is new?", sandbox.tools, model=model, sandbox=sandbox, effects=EFFECTS, on_event=told.append
    )
    assert [step.call.tool for step in result.steps] == ["get_unread_emails"]
    assert result.steps[0].call.effect == "sandboxed"
    assert [step.call.tool for step in result.waiting] == ["get_unread_emails"]
    assert [event["tool"] for event in told if event["type"] == "wrote"] == ["get_unread_emails"]
    assert plan_metadata(result.messages[-1])["wrote"] == ["get_unread_emails"]
    assert len([message for message in caplog.messages if "has changed the sandbox" in message]) == 1
    assert sandbox.tools[-1].invoke({}) == "0 read", "the user's own world is as it was"


async def test_once_it_is_found_out_every_call_of_the_tool_leads_to_a_world_of_its_own(find, offline):
    sandbox = objects()
    model = offline(
        offers={
            (): [SEARCH, SHOW],
            ("search_emails",): [UNREAD, SHOW],
            ("show_read",): [UNREAD],
            ("show_read", "get_unread_emails"): [SHOW],
        },
        r_pre={"get_unread_emails": 0.9, "show_read": 0.8},
        goal={"get_unread_emails": 0.3, "show_read": 0.2},
    )
    config = SearchConfig(max_rollouts=12, pre_evaluation="batched", proposals="together", selection="smoothed")
    result = await find("What is new?", sandbox.tools, model=model, sandbox=sandbox, effects=EFFECTS, config=config)
    made = [node for node in result.tree.nodes[1:] if node.call.tool == "get_unread_emails"]
    assert len(made) == 2
    assert {node.call.effect for node in made} == {"sandboxed"}
    after = [node for node in result.tree.nodes[1:] if node.call.tool == "show_read" and node.world]
    assert {node.observation.content for node in after if node.observation} == {"1 read"}


async def test_where_the_states_cannot_be_compared_a_read_is_believed(find, offline):
    sandbox = ColdMailbox()
    model = offline(offers={(): [UNREAD]}, goal={"get_unread_emails": 0.9})
    result = await find("What is new?", sandbox.tools, model=model, sandbox=sandbox, effects=EFFECTS)
    assert [step.call.effect for step in result.steps] == ["read"]


async def test_a_read_that_reads_stays_one(find, offline, caplog):
    sandbox = objects()
    model = offline(offers={(): [SEARCH]}, goal={"search_emails": 0.9})
    result = await find("What is due?", sandbox.tools, model=model, sandbox=sandbox, effects=EFFECTS)
    assert [step.call.effect for step in result.steps] == ["read"]
    assert not caplog.messages


@pytest.mark.slow
async def test_the_same_answers_give_the_same_tree_at_any_timing(find, hashed):
    config = SearchConfig(max_rollouts=12, parallel_rollouts=4, selection="smoothed")
    trees = []
    for _ in range(3):
        sandbox = objects()
        model = hashed(3, delay=0.004)
        options = {"model": model, "sandbox": sandbox, "effects": EFFECTS, "config": config}
        trees.append((await find("What is new?", sandbox.tools, **options)).to_dict())
    assert trees == trees[:1] * 3
    assert any(node["call"] and node["call"]["effect"] == "sandboxed" for node in trees[0]["nodes"])


async def test_a_search_goes_on_below_a_read_that_was_found_to_write(path, offline):
    told = []
    world = Mailbox()
    model = offline(
        offers={(): [UNREAD], ("get_unread_emails",): [SHOW]},
        r_pre={"get_unread_emails": 0.9, "show_read": 0.9},
        goal={"get_unread_emails": 0.2, "show_read": 0.9},
    )
    sandbox = ObjectSandbox.of_methods(world)
    node = ToolTreeNode(model, sandbox.tools, sandbox=sandbox, effects=EFFECTS)
    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.add_node("tools", ToolNode(sandbox.tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    run = graph.compile(checkpointer=InMemorySaver())
    question = {"messages": [HumanMessage("How many were read?")]}
    thread = {"configurable": {"thread_id": "1"}}
    streamed = run.astream(question, thread, stream_mode="custom") if path == "async" else None
    events = [each async for each in streamed] if streamed else [*run.stream(question, thread, stream_mode="custom")]
    told = [event["tooltree"] for event in events]
    starts = [event for event in told if event["type"] == "start"]
    assert len(starts) == 2
    assert starts[1]["inherited"] > 0
    assert [mail["read"] for mail in world.mails] == [True], "it ran for real, once it was left to the host"
    assert [event["tool"] for event in told if event["type"] == "wrote"] == ["get_unread_emails"]
