"""Models that sign their reasoning get calls back in the message that made them: in prompts, plans, after a resume."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from conversations import check_conversation, check_pairs, outline
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import PrivateAttr
from travel import APART, BOOKING, EFFECTS, PRICE, Agency, TravelPolicy, asking

from langchain_tooltree import SearchConfig, SearchResult, ToolTreeNode, asearch, search
from langchain_tooltree.testing import OfflineChatModel, read_question

THREAD: Any = {"configurable": {"thread_id": "1"}}
SIGNATURES = "__gemini_function_call_thought_signatures__"

Calls = Sequence[dict[str, Any]]


def anthropic_reply(thought: str, calls: Calls) -> AIMessage:
    """Extended thinking, then words about the candidates, then the calls."""
    uses = [{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]} for call in calls]
    thinking = {"type": "thinking", "thinking": thought, "signature": f"signed {thought}"}
    blocks = [thinking, {"type": "redacted_thinking", "data": thought}, {"type": "text", "text": "Candidates:"}, *uses]
    return AIMessage(blocks, tool_calls=calls, response_metadata={"model_provider": "anthropic", "id": "msg_1"})


def standard_reply(thought: str, calls: Calls) -> AIMessage:
    """The same in the provider-independent form of `output_version="v1"`."""
    reply = anthropic_reply(thought, calls)
    metadata = {**reply.response_metadata, "output_version": "v1"}
    return AIMessage(reply.content_blocks, tool_calls=calls, response_metadata=metadata)


def gemini_reply(thought: str, calls: Calls) -> AIMessage:
    """A thought, a text that is signed, and a signature that only the first call gets."""
    keywords = {"function_call": {"name": calls[-1]["name"]}, SIGNATURES: {calls[0]["id"]: thought}}
    text = {"type": "text", "text": "Candidates:", "extras": {"signature": thought}}
    blocks = [{"type": "thinking", "thinking": thought}, text]
    metadata = {"model_provider": "google_genai"}
    return AIMessage(blocks, tool_calls=calls, additional_kwargs=keywords, response_metadata=metadata)


def responses_reply(thought: str, calls: Calls) -> AIMessage:
    """Items of OpenAI's Responses API."""
    items = [
        {
            "type": "function_call",
            "id": f"fc_{call['id']}",
            "call_id": call["id"],
            "name": call["name"],
            "arguments": json.dumps(call["args"]),
        }
        for call in calls
    ]
    reasoning = {"type": "reasoning", "id": f"rs_{thought}", "summary": [], "encrypted_content": thought}
    text = {"type": "text", "text": "Candidates:", "id": "msg_1", "annotations": []}
    metadata = {"model_provider": "openai", "id": "resp_1"}
    return AIMessage([reasoning, text, *items], tool_calls=calls, response_metadata=metadata, id="resp_1")


def deepseek_reply(thought: str, calls: Calls) -> AIMessage:
    """Reasoning beside the content."""
    return AIMessage("Candidates:", tool_calls=calls, additional_kwargs={"reasoning_content": thought, "refusal": None})


DIALECTS = [anthropic_reply, standard_reply, gemini_reply, responses_reply, deepseek_reply]


class PowerCutError(Exception):
    """Ends a run at its answer."""


class SigningModel(OfflineChatModel):
    """Signs the reasoning behind its calls, and keeps what it was asked."""

    dialect: Callable[[str, Calls], AIMessage]
    salt: str = ""
    repeats_ids: bool = False
    fails_at: int | None = None
    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        return self._prompts

    def _respond(self, messages: Any, tools: Any) -> Any:
        self._prompts.append(messages)
        if len(self._prompts) == self.fails_at:
            raise PowerCutError
        reply = super()._respond(messages, tools)
        if not isinstance(reply, AIMessage) or not reply.tool_calls:
            return reply
        asked = repr([(message.type, message.text, getattr(message, "tool_calls", [])) for message in messages])
        thought = hashlib.sha256(f"{self.salt} {asked}".encode()).hexdigest()[:8]
        prefix = "call" if self.repeats_ids else thought
        calls = [{**call, "id": f"{prefix}_{place}"} for place, call in enumerate(reply.tool_calls)]
        return self.dialect(thought, calls)


def signing_model(dialect: Callable[[str, Calls], AIMessage], **options: Any) -> SigningModel:
    return SigningModel(policy=TravelPolicy(), dialect=dialect, **options)


def find(
    request: str, model: OfflineChatModel, *, path: str = "sync", config: SearchConfig | None = APART
) -> SearchResult:
    given: Any = {"model": model, "effects": EFFECTS, "config": config}
    tools = Agency().tools
    return search(request, tools, **given) if path == "sync" else asyncio.run(asearch(request, tools, **given))


@dataclass(frozen=True)
class Carried:
    """What a message carries beside its tool calls."""

    content: Any
    keywords: Any
    provider: Any


def carried(message: BaseMessage) -> Carried:
    return Carried(message.content, message.additional_kwargs, message.response_metadata.get("model_provider"))


def calls_in(messages: Sequence[BaseMessage]) -> list[AIMessage]:
    return [message for message in messages if isinstance(message, AIMessage) and message.tool_calls]


def check_frame(message: AIMessage, dialect: Any) -> None:
    """Fail unless the message is the reply of the dialect, reduced to its one call."""
    [call] = message.tool_calls
    thought = str(call["id"]).partition("_")[0]
    whole = dialect(thought, [call])
    blocks = whole.content if isinstance(whole.content, list) else []
    content = [block for block in blocks if block["type"] != "text" or "extras" in block]
    keywords = {
        name: value for name, value in whole.additional_kwargs.items() if name in ("reasoning_content", SIGNATURES)
    }
    expected = Carried(content or "", keywords, whole.response_metadata.get("model_provider"))
    assert carried(message) == expected


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.__name__)
def dialect(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_each_call_of_a_plan_comes_in_the_reply_that_made_it_without_its_siblings(dialect: Any, path: str) -> None:
    result = find(BOOKING, signing_model(dialect), path=path)

    messages = check_conversation(result.messages, pending="book")
    assert [step.call.tool for step in result.steps] == ["find_flights", "read_price", "book"]
    assert len(calls_in(messages)) == 3
    for message in calls_in(messages):
        check_frame(message, dialect)


def outlined(content: Any) -> Any:
    """Content as what each block is and says."""
    return content if isinstance(content, str) else [(block["type"], block.get("text")) for block in content]


def test_the_agents_own_step_comes_back_whole_in_its_words_too(dialect: Any, path: str) -> None:
    model = signing_model(dialect)

    result = find(BOOKING, model, path=path, config=None)

    messages = check_conversation(result.messages, pending="book")
    assert len(calls_in(messages)) == 3
    asked = [calls_in(prompt) for prompt in model.prompts]
    assert [len(calls) for calls in asked] == [0, 1, 2]
    for message in (*calls_in(messages), *asked[-1]):
        [call] = message.tool_calls
        whole = dialect(str(call["id"]).partition("_")[0], [call])
        assert outlined(message.content) == outlined(whole.content)
        assert message.text == whole.text


def test_deeper_proposals_are_asked_with_the_reasoning_behind_the_calls_before(dialect: Any) -> None:
    model = signing_model(dialect)

    find(BOOKING, model)

    asked = [calls_in(prompt) for prompt in model.prompts if read_question(prompt)[0].kind == "propose"]
    assert {len(calls) for calls in asked} >= {0, 1, 2}
    for call in (call for calls in asked for call in calls):
        check_frame(call, dialect)


def test_signing_changes_nothing_for_the_judge_nor_in_the_tree(dialect: Any) -> None:
    def judged(model: SigningModel) -> list[str]:
        return [prompt[1].text for prompt in model.prompts if read_question(prompt)[0].kind in {"pre", "post"}]

    signing = signing_model(dialect)
    plain = signing_model(lambda _, calls: AIMessage("", tool_calls=calls))
    signed, unsigned = find(BOOKING, signing), find(BOOKING, plain)

    assert sorted(judged(signing)) == sorted(judged(plain))
    different = {"cost": None, "history": None}  # a signature is tokens, too
    assert {**signed.to_dict(), **different} == {**unsigned.to_dict(), **different}
    assert [carried(message) for message in calls_in(unsigned.messages)] == [Carried("", {}, None)] * 3


def test_another_model_gets_the_plan_without_the_reasoning(dialect: Any) -> None:
    result = find(BOOKING, signing_model(dialect))

    plain = check_conversation(result.plain_messages, pending="book")

    assert [carried(message) for message in calls_in(plain)] == [Carried("", {}, None)] * 3
    assert [message.tool_calls for message in calls_in(plain)] == [m.tool_calls for m in calls_in(result.messages)]


def test_ids_that_a_provider_uses_again_are_replaced_and_the_reasoning_stays(dialect: Any) -> None:
    result = find(BOOKING, signing_model(dialect, repeats_ids=True))

    check_pairs(result.messages, may_end_open=True)
    first, *others = calls_in(result.messages)
    assert str(first.tool_calls[0]["id"]).startswith("call_")
    for message in others:
        [call] = message.tool_calls
        assert len(str(call["id"])) > len("call_0")
        kept = [block["type"] for block in message.content if isinstance(block, dict)]
        assert not {"tool_use", "tool_call", "function_call"} & set(kept)
        assert kept or message.additional_kwargs["reasoning_content"]
        if signatures := message.additional_kwargs.get(SIGNATURES):
            assert list(signatures) == [call["id"]]


def agent(agency: Agency, model: OfflineChatModel, saver: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, agency.tools, effects=EFFECTS, config=APART))
    graph.add_node("tools", ToolNode(agency.tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def invoke(graph: Any, given: Any, *, path: str) -> Any:
    return asyncio.run(graph.ainvoke(given, THREAD)) if path == "async" else graph.invoke(given, THREAD)


def test_in_a_graph_writes_run_under_the_providers_ids_over_several_turns(dialect: Any, path: str) -> None:
    agency = Agency()
    graph = agent(agency, signing_model(dialect), InMemorySaver())

    for request in (BOOKING, PRICE):
        messages = invoke(graph, asking(request), path=path)["messages"]

    check_conversation(messages)
    assert outline(messages).count("result book") == agency.calls["book OS-1"] == 1
    assert len(calls_in(messages)) == 5
    for message in calls_in(messages):
        check_frame(message, dialect)


def test_a_resumed_search_brings_back_the_reasoning_that_was_persisted(dialect: Any, path: str) -> None:
    whole = signing_model(dialect)
    invoke(agent(Agency(), whole, InMemorySaver()), asking(PRICE), path=path)
    saver = InMemorySaver()
    killed = signing_model(dialect, salt="first", fails_at=len(whole.prompts))
    with pytest.raises(PowerCutError):
        invoke(agent(Agency(), killed, saver), asking(PRICE), path=path)

    rest = signing_model(dialect, salt="second")
    messages = check_conversation(invoke(agent(Agency(), rest, saver), None, path=path)["messages"])

    assert len(rest.prompts) == 1, "all but the answer was persisted"
    shown = [carried(call) for prompt in killed.prompts for call in calls_in(prompt)]
    assert all(carried(call) in shown for call in calls_in(messages))
    assert [carried(call) for call in calls_in(rest.prompts[0])] == [carried(call) for call in calls_in(messages)]
    for message in calls_in(messages):
        check_frame(message, dialect)


def conversation(dialect: Any, **options: Any) -> list[BaseMessage]:
    result = find(BOOKING, signing_model(dialect, **options))
    return [SystemMessage("Be kind."), HumanMessage(BOOKING), *result.messages]


@pytest.mark.parametrize("repeats_ids", [False, True])
def test_openai_gets_its_reasoning_items_each_before_its_call(*, repeats_ids: bool) -> None:
    model = ChatOpenAI(model="gpt-5-mini", api_key="none", use_responses_api=True)

    sent = model._get_request_payload(conversation(responses_reply, repeats_ids=repeats_ids))["input"]

    step = ["reasoning", "function_call", "function_call_output"]
    assert [item["type"] for item in sent] == ["message", "message", *step, *step, *step[:2]]
    thoughts, calls, results = ([item for item in sent if item["type"] == kind] for kind in step)
    assert [item["call_id"] for item in results] == [item["call_id"] for item in calls[:2]]
    assert [item["name"] for item in calls] == ["find_flights", "read_price", "book"]
    assert len({item["encrypted_content"] for item in thoughts}) == 3


@pytest.mark.parametrize("dialect", [anthropic_reply, standard_reply])
@pytest.mark.parametrize("repeats_ids", [False, True])
def test_anthropic_gets_its_thinking_blocks_before_each_tool_use(dialect: Any, *, repeats_ids: bool) -> None:
    integration = pytest.importorskip("langchain_anthropic")
    model = integration.ChatAnthropic(model="claude-sonnet-4-5", api_key="none")

    sent = model._get_request_payload(conversation(dialect, repeats_ids=repeats_ids))["messages"]

    assert [turn["role"] for turn in sent] == ["user", *["assistant", "user"] * 2, "assistant"]
    for turn in sent[1::2]:
        assert [block["type"] for block in turn["content"]] == ["thinking", "redacted_thinking", "tool_use"]
        assert turn["content"][0]["signature"] == f"signed {turn['content'][0]['thinking']}"
    assert [turn["content"][2]["name"] for turn in sent[1::2]] == ["find_flights", "read_price", "book"]


@pytest.mark.parametrize("repeats_ids", [False, True])
def test_gemini_gets_a_signature_on_each_call(*, repeats_ids: bool) -> None:
    integration = pytest.importorskip("langchain_google_genai.chat_models")

    _, sent = integration._parse_chat_history(
        conversation(gemini_reply, repeats_ids=repeats_ids), model="gemini-3-pro-preview"
    )

    made = [part for turn in sent for part in turn.parts if part.function_call]
    assert [part.function_call.name for part in made] == ["find_flights", "read_price", "book"]
    assert all(isinstance(part.thought_signature, bytes) for part in made)
    assert len({part.thought_signature for part in made}) == 3
