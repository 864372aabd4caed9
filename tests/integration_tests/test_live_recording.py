"""A live run over a real client is recorded, and replayed without the server: every form in which a client asks."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from openai_server import OpenAIServer
from travel import EFFECTS, PRICE, Agency, travel_model

from tests.benchmarks.live.bench_files import FileTask
from tests.benchmarks.live.cassette import RecordedMethod, Recorder, read_cassette
from tests.benchmarks.live.episode import Setting
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import CallCounter, run_task

CLIENTS = {
    "chat completions": {"use_responses_api": False},
    "streaming": {"use_responses_api": False, "streaming": True, "stream_usage": True},
    "responses": {"use_responses_api": True},
}


def make_tools() -> Any:
    return Agency().tools


def names_the_price(messages: list[BaseMessage]) -> bool:
    return "90" in messages[-1].text


TASK = FileTask(
    id="price", turns=(PRICE,), tools=make_tools, check=names_the_price, effects=EFFECTS
)


@pytest.mark.parametrize(
    ("client", "method"),
    [*((each, "tooltree") for each in CLIENTS), ("responses", "tooltree-paper")],
)
async def test_a_recording_over_http_is_replayed_in_process(
    client: str, method: str, tmp_path: Path
) -> None:
    path = tmp_path / "recording.jsonl"
    server = OpenAIServer(travel_model())
    async with server.client(**CLIENTS[client]) as model:
        counter, recorder = CallCounter(), Recorder(path, {"method": method})
        model.callbacks = [counter, recorder]
        live = run_task(
            TASK, METHODS[method][0], Setting(model=model), None, [counter], recorder
        )
    assert (live.success, live.error) == (True, None)
    assert (
        live.model_calls == len(server.requests) == len(read_cassette(path, method)[0])
    )
    assert live.input_tokens + live.output_tokens == server.tokens

    counter, again = CallCounter(), RecordedMethod(path=path, method=method)
    again.callbacks = [counter]
    replayed = run_task(TASK, METHODS[method][0], Setting(model=again), None, [counter])
    assert (again.unmatched, again.left) == ([], [])
    assert (replayed.success, replayed.calls) == (live.success, live.calls)
    assert (replayed.input_tokens, replayed.output_tokens) == (
        live.input_tokens,
        live.output_tokens,
    )
