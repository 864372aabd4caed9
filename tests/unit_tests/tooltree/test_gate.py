"""What a stream shows of an answer with a report, however the model's reply comes in pieces."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from langchain_tooltree import SearchConfig, ToolTreeMiddleware

REPORT = '{"missing": "nothing"}'
DOUBT = '{"missing": "the price"}'
ASKED: Any = {"messages": [("user", "Hello there")]}

Pieces = Sequence[str | list[Any] | AIMessageChunk | Exception]


class PiecewiseModel(BaseChatModel):
    """Says prepared replies in prepared pieces; without streams it says them whole."""

    replies: list[Any]
    asked: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "piecewise"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[each.name for each in tools], **kwargs)

    def _pieces(self, messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
        self.asked.append(messages)
        for piece in self.replies[len(self.asked) - 1]:
            if isinstance(piece, Exception):
                raise piece
            yield piece if isinstance(piece, AIMessageChunk) else AIMessageChunk(piece)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        whole, *rest = self._pieces(messages)
        for piece in rest:
            whole += piece
        message = AIMessage(
            whole.content,
            tool_calls=whole.tool_calls,
            usage_metadata=whole.usage_metadata,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[Any]:
        for piece in self._pieces(messages):
            if run_manager:
                run_manager.on_llm_new_token(piece.text)
            yield ChatGenerationChunk(message=piece)

    async def _astream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        for piece in self._pieces(messages):
            yield ChatGenerationChunk(message=piece)


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def agent_of(
    *replies: Pieces,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    **options: Any,
) -> Any:
    planner = ToolTreeMiddleware(
        effects={"look": "read"}, config=SearchConfig(max_model_calls=1)
    )
    model = PiecewiseModel(replies=[*replies], asked=[], **options)
    return create_agent(model, [look], middleware=[planner, *middleware])


def streamed(agent: Any, path: str, mode: str = "messages") -> list[Any]:
    async def run() -> list[Any]:
        return [each async for each in agent.astream(ASKED, stream_mode=mode)]

    shown = (
        asyncio.run(run())
        if path == "async"
        else list(agent.stream(ASKED, stream_mode=mode))
    )
    return [message for message, _ in shown] if mode == "messages" else shown


def words(messages: Sequence[Any]) -> list[str]:
    return [message.text for message in messages if message.text]


def cut_in(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.fixture(params=["sync", "async"])
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ANSWERS = {
    "on the next line": (f"{REPORT}\nHello you", "Hello you"),
    "on the same line": (f"{REPORT} Hello you", "Hello you"),
    "right behind": (f"{REPORT}Hello you", "Hello you"),
    "with space before": (f"\n  {REPORT}\n\n  Hello you", "Hello you"),
    "no report": ("Hello you", "Hello you"),
    # A plain request follows, in whose reply nothing counts as a report.
    "nothing but a report": (REPORT, REPORT),
    "JSON": (
        '{"found": {"missing": 2}, "of": 3}',
        '{"found": {"missing": 2}, "of": 3}',
    ),
    "JSON that has a key of a report": (
        '{"missing": "two", "found": 3}',
        '{"missing": "two", "found": 3}',
    ),
    "JSON behind a report": (f'{REPORT}\n{{"missing": "two"}}', '{"missing": "two"}'),
    "a list": ('["a", "b"]', '["a", "b"]'),
    "an opened brace": ('{"missing": "noth', '{"missing": "noth'),
    "a brace in prose": ("{curly} words", "{curly} words"),
    "a report without end": (
        f'{{"missing": "{"x" * 2500}"}}\nHi',
        f'{{"missing": "{"x" * 2500}"}}\nHi',
    ),
}


@pytest.mark.all_combinations  # a model streams in two ways
@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("reply", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_streams_without_its_report(
    reply: str, answer: str, size: int, path: str
) -> None:
    agent = agent_of(cut_in(reply, size), cut_in(reply, size))

    shown = streamed(agent, path)

    assert "".join(words(shown)) == answer
    assert len({message.id for message in shown if message.text}) == 1


@pytest.mark.all_combinations  # a model streams in two ways
@pytest.mark.parametrize(("reply", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_a_reply_that_comes_whole_is_shown_without_its_report_too(
    reply: str, answer: str, path: str
) -> None:
    agent = agent_of([reply], [reply], disable_streaming=True)

    shown = streamed(agent, path)

    assert words(shown) == ([answer] if answer else [])


def test_an_answer_streams_as_soon_as_it_can_be_none_of_a_report() -> None:
    reply = ["{", '"found"', ": ", "3", "}"]

    assert words(streamed(agent_of(reply), "sync")) == ['{"found"', ": ", "3", "}"]
    assert words(streamed(agent_of([REPORT, "\n", "One", " two"]), "sync")) == [
        "One",
        " two",
    ]


@pytest.mark.parametrize("disable_streaming", [False, True])
def test_a_doubtful_answer_is_shown_only_if_it_is_the_best(
    path: str, *, disable_streaming: bool
) -> None:
    doubtful, call = (
        [DOUBT, "\nWho", " knows"],
        AIMessageChunk("", tool_call_chunks=[CALL]),
    )
    options: Any = {"disable_streaming": disable_streaming}

    mended = streamed(
        agent_of(doubtful, [call], [REPORT, "It is", " 90"], **options), path
    )
    kept = streamed(agent_of(doubtful, doubtful, **options), path)

    assert words(mended) == [
        "nothing in desk",
        *(["It is 90"] if disable_streaming else ["It is", " 90"]),
    ]
    assert words(kept) == ["Who knows"]


CALL = tool_call_chunk(name="look", args='{"place": "desk"}', id="c1", index=0)


def test_a_step_that_begins_with_a_report_streams_without_it(path: str) -> None:
    step = [DOUBT, "\nI will", " look.", AIMessageChunk("", tool_call_chunks=[CALL])]
    agent = agent_of(step, ["There."])

    shown = streamed(agent, path)

    assert "".join(words(shown)) == "I will look.nothing in deskThere."
    messages = agent_of(step, ["There."]).invoke(ASKED)["messages"]
    assert messages[1].text == "I will look."


def text_block(text: str, index: int, **rest: Any) -> list[Any]:
    return [{"type": "text", "text": text, "index": index, **rest}]


THOUGHT = [{"type": "thinking", "thinking": "Hm.", "signature": "s", "index": 0}]


def test_reasoning_streams_at_once_and_stays_with_a_doubtful_answer(path: str) -> None:
    doubtful = [
        THOUGHT,
        text_block('{"missing"', 1),
        text_block(': "it"}\nNo', 1),
        text_block(" idea", 1),
    ]
    agent = agent_of(doubtful, [REPORT, "Yes"])

    shown = streamed(agent, path)

    assert shown[0].content == THOUGHT
    assert words(shown) == ["Yes"]

    model = PiecewiseModel(replies=[doubtful, ["Yes"]], asked=[])
    create_agent(model, [look], middleware=[ToolTreeMiddleware()]).invoke(ASKED)
    assert [[*block] for block in model.asked[1][-2].content] == [
        [*THOUGHT[0]],
        ["type", "text", "index"],
    ]
    assert model.asked[1][-2].text == "No idea"


def test_what_stands_beside_the_text_of_a_report_is_kept(path: str) -> None:
    reply = [
        text_block(REPORT, 1, id="msg_1"),
        text_block("\n", 1),
        text_block("Yes.", 1),
        text_block("No.", 2, citations=["c"]),
        AIMessageChunk(
            [],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        ),
    ]

    shown = streamed(agent_of(reply), path)

    assert [message.text for message in shown[:2]] == ["Yes.", "No."]
    whole = shown[0] + shown[1] + shown[2]
    assert whole.content == [
        *text_block("Yes.", 1, id="msg_1"),
        *text_block("No.", 2, citations=["c"]),
    ]
    assert whole.usage_metadata["total_tokens"] == 3


def test_an_attempt_that_failed_in_the_middle_leaves_nothing_behind(path: str) -> None:
    failed = [DOUBT, "\nWho", ValueError("the line is dead")]
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)

    shown = streamed(agent_of(failed, ["Here", " I am"], middleware=[retry]), path)

    assert words(shown) == ["Here", " I am"]


def test_a_model_call_of_other_middleware_does_not_take_the_withheld_text(
    path: str,
) -> None:
    class Curious(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            response = handler(request)
            request.model.invoke("Is that so?")
            return response

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            response = await handler(request)
            await request.model.ainvoke("Is that so?")
            return response

    doubtful = [DOUBT, "\nWho knows"]

    agent = agent_of(doubtful, ["Yes."], doubtful, ["Yes."], middleware=[Curious()])

    assert streamed(agent, path, "values")[-1]["messages"][-1].text == "Who knows"


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize("version", ["messages", "v3"])
def test_a_cache_gives_back_no_answer_of_the_agents_own_steps(version: str) -> None:
    def shown(agent: Any) -> list[str]:
        if version == "messages":
            return ["".join(words(streamed(agent, "sync")))]
        return [
            str(message.text)
            for message in agent.stream_events(ASKED, version="v3").messages
        ]

    set_llm_cache(InMemoryCache())
    try:
        usage: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        last = AIMessageChunk("", usage_metadata=usage)
        first, second = (agent_of([REPORT, "\nHello", last]) for _ in range(2))
        assert shown(first) == shown(second) == ["Hello"]
        set_llm_cache(InMemoryCache())
        doubtful = [DOUBT, "\nHm", last]
        assert (
            shown(agent_of(doubtful, doubtful))[-1]
            == shown(agent_of(doubtful, doubtful))[-1]
            == "Hm"
        )
    finally:
        set_llm_cache(None)


@pytest.mark.parametrize("copied", [False, True], ids=["another", "a copy"])
def test_a_model_that_other_middleware_puts_in_the_place_streams_the_same(
    path: str, *, copied: bool
) -> None:
    doubtful = [DOUBT, "\nWho", " knows"]
    model = PiecewiseModel(replies=[doubtful, doubtful], asked=[])

    class Choosing(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(
                request.override(model=request.model.model_copy() if copied else model)
            )

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(
                request.override(model=request.model.model_copy() if copied else model)
            )

    assert words(
        streamed(agent_of(doubtful, doubtful, middleware=[Choosing()]), path)
    ) == ["Who knows"]


def test_the_model_of_the_agent_stays_as_it_is() -> None:
    seen: list[Any] = []

    class Watching(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(request.model)
            return handler(request)

    model = PiecewiseModel(replies=[[REPORT, "Yes"]], asked=[])
    create_agent(model, [look], middleware=[ToolTreeMiddleware(), Watching()]).invoke(
        ASKED
    )

    assert isinstance(seen[0], PiecewiseModel)
    assert seen[0].get_name() == "PiecewiseModel"
    assert type(model) is PiecewiseModel
    assert (
        "".join(
            chunk.text
            for chunk in PiecewiseModel(replies=[[REPORT, "Yes"]], asked=[]).stream(
                "Hi"
            )
        )
        == f"{REPORT}Yes"
    )
