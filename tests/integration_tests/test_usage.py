"""What an agent's messages report in all is what its model calls have used, whatever a search tried and removed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import invoke, stream
from composition import THREAD
from conversations import check_pairs
from doubts import ASKED, READS, REPLIES, look, middleware_agent, node_agent
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langgraph.checkpoint.memory import InMemorySaver
from rescued import Clerk, Files, Journal, asked
from travel import EFFECTS, PRICE, Agency, TravelPolicy

from cookbook.offline_model import OfflineChatModel
from langchain_tooltree import ObjectSandbox, SearchConfig, asearch, search
from langchain_tooltree.testing import ScriptedChatModel


def reported(message: AIMessage, replies: int) -> AIMessage:
    """A reply with usage as providers report it: with details, and some count more than what was sent and received."""
    used: Any = {**(message.usage_metadata or {})}
    used["total_tokens"] += replies
    used |= {
        "input_token_details": {"cache_read": 3, "audio": 1},
        "output_token_details": {"reasoning": 2},
    }
    return message.model_copy(
        update={
            "usage_metadata": used,
            "response_metadata": {"model_name": "reporting"},
        }
    )


class ScriptedReporter(ScriptedChatModel):
    """Says what is prepared."""

    def _message(self, messages: list[BaseMessage], options: Any) -> AIMessage:
        return reported(super()._message(messages, options), len(self.calls))


class Reporter(OfflineChatModel):
    """Says what its policy thinks."""

    count: int = 0

    def _message(self, messages: list[BaseMessage], options: Any) -> AIMessage:
        self.count += 1
        return reported(super()._message(messages, options), self.count)


class ReportingClerk(ScriptedReporter, Clerk):
    """Says what the clerk says."""


@pytest.fixture(params=[node_agent, middleware_agent], ids=["node", "middleware"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def returned(messages: Sequence[Any]) -> UsageMetadata | None:
    """The usage that messages report in all."""
    total: UsageMetadata | None = None
    for message in messages:
        total = (
            add_usage(total, message.usage_metadata)
            if getattr(message, "usage_metadata", None)
            else total
        )
    return total


def check_usage(messages: Sequence[Any], counter: UsageMetadataCallbackHandler) -> None:
    assert returned(messages) == counter.usage_metadata["reporting"]


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("judged", [False, True], ids=["report", "judge"])
def test_messages_report_what_a_counting_callback_sees(
    make: Any, path: str, replies: list[Any], *, judged: bool
) -> None:
    counter, model = UsageMetadataCallbackHandler(), ScriptedReporter(replies=replies)
    judge = ScriptedReporter(replies=[judgement] * 20) if judged else None
    agent = make(
        model, [look], effects=READS, judge=judge, checkpointer=InMemorySaver()
    )

    messages = invoke(agent, ASKED, {**THREAD, "callbacks": [counter]}, path=path)[
        "messages"
    ]

    check_pairs(messages)
    assert len(model.calls) == len(replies)
    check_usage(messages, counter)


def judgement(messages: Sequence[BaseMessage]) -> Any:
    """A judge who finds nothing missing, and every call worth a try."""
    text = str(messages)
    if "scores" in text and "candidate" in text.lower():
        return {
            "scores": [{"id": f"c{at}", "reason": "", "score": 0.9} for at in range(5)]
        }
    return {"missing": [], "fulfilled": True, "reason": "", "score": 0.9, "goal": 0.9}


@pytest.mark.parametrize(
    "config",
    [
        SearchConfig(),
        SearchConfig(selection="posterior"),
        SearchConfig.paper(max_rollouts=4),
    ],
    ids=["loop", "deep", "paper"],
)
def test_so_do_those_of_the_function(path: str, config: SearchConfig) -> None:
    counter = UsageMetadataCallbackHandler()
    given: Any = {
        "model": Reporter(policy=TravelPolicy()),
        "effects": EFFECTS,
        "config": config,
        "callbacks": [counter],
    }

    tools = Agency().tools
    result = (
        asyncio.run(asearch(PRICE, tools, **given))
        if path == "async"
        else search(PRICE, tools, **given)
    )

    assert result.cost.usage == counter.usage_metadata["reporting"]
    assert result.cost.model_calls == given["model"].count
    check_usage(result.messages, counter)


def test_a_plan_that_was_tried_in_a_sandbox_counts_every_call_once(
    make: Any, path: str, tmp_path: Path
) -> None:
    counter, journal = UsageMetadataCallbackHandler(), Journal(tmp_path / "log")
    sandbox = ObjectSandbox.of_methods(Files(journal))
    agent = make(
        ReportingClerk(journal=journal),
        list(sandbox.tools),
        sandbox=sandbox,
        checkpointer=InMemorySaver(),
    )

    messages = invoke(
        agent, asked("plan"), {**THREAD, "callbacks": [counter]}, path=path
    )["messages"]

    assert [message.text for message in messages if message.type == "tool"][
        -1
    ] == "write c: done"
    check_usage(messages, counter)


class Total(BaseCallbackHandler):
    """Counts what models report, also where they stream."""

    usage: UsageMetadata | None = None

    def on_llm_end(self, response: Any, **_: Any) -> None:
        self.usage = add_usage(
            self.usage, response.generations[0][0].message.usage_metadata
        )


def test_what_is_streamed_of_a_sure_answer_reports_every_token_once(
    make: Any, path: str
) -> None:
    total = Total()
    agent = make(ScriptedReporter(replies=REPLIES["straight"]), [look], effects=READS)

    shown = stream(
        agent, ASKED, {"callbacks": [total]}, path=path, stream_mode="messages"
    )

    assert returned([message for message, _ in shown]) == total.usage
