import logging
from contextlib import contextmanager
from typing import TypedDict

import pytest
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    CallbackManager,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from langchain_tooltree import streaming
from langchain_tooltree.flows import arun_flow, run_flow
from langchain_tooltree.streaming import (
    emit_events,
    get_current_runtime,
    get_stream_writer,
)

EVENTS = [{"type": "plan", "number": 1}, {"type": "search", "number": 2}]
CHUNKS = [{"tooltree": event} for event in EVENTS]
CUSTOM_EVENTS = [("tooltree.plan", EVENTS[0]), ("tooltree.search", EVENTS[1])]


class State(TypedDict):
    number: int


class Recorder(BaseCallbackHandler):
    def __init__(self):
        self.events = []

    def on_custom_event(self, name, data, **kwargs):
        self.events.append((name, data))


class AsyncRecorder(AsyncCallbackHandler):
    def __init__(self):
        self.events = []

    async def on_custom_event(self, name, data, **kwargs):
        self.events.append((name, data))


@contextmanager
def current_config(config):
    token = var_child_runnable_config.set(config)
    yield
    var_child_runnable_config.reset(token)


def build_graph(*, node=None, anode=None):
    builder = StateGraph(State)
    builder.add_node("node", RunnableLambda(node, anode))
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


def build_emitting_graph(sinks=()):
    """Return a graph whose only node emits `EVENTS`, in both ways."""

    def emit(state):
        run_flow(emit_events(EVENTS, get_stream_writer(), sinks))
        return {"number": 1}

    async def aemit(state):
        await arun_flow(emit_events(EVENTS, get_stream_writer(), sinks))
        return {"number": 1}

    return build_graph(node=emit, anode=aemit)


@pytest.fixture(params=["sync", "async"])
def stream(request):
    """Run a graph and return the chunks of its custom stream."""

    async def stream_sync(graph, **config):
        return list(graph.stream({"number": 0}, config, stream_mode="custom"))

    async def stream_async(graph, **config):
        chunks = graph.astream({"number": 0}, config, stream_mode="custom")
        return [chunk async for chunk in chunks]

    return stream_sync if request.param == "sync" else stream_async


@pytest.fixture
def dispatched(monkeypatch):
    """Names that were dispatched, without the dispatching itself."""
    names = []

    def dispatch(name, data):
        names.append(name)

    async def adispatch(name, data):
        names.append(name)

    monkeypatch.setattr(streaming, "dispatch_custom_event", dispatch)
    monkeypatch.setattr(streaming, "adispatch_custom_event", adispatch)
    return names


class TestEmitEventsOutsideOfAGraph:
    async def test_sinks_get_the_events_in_order(self, drive, dispatched):
        calls = []
        sinks = [
            lambda event: calls.append(("first", event)),
            lambda event: calls.append(("second", event)),
        ]
        await drive(emit_events(EVENTS, None, sinks))
        assert calls == [
            ("first", EVENTS[0]),
            ("second", EVENTS[0]),
            ("first", EVENTS[1]),
            ("second", EVENTS[1]),
        ]
        assert dispatched == []

    async def test_handlers_get_nothing_without_a_writer(self, drive, dispatched):
        with current_config({"callbacks": CallbackManager([Recorder()])}):
            await drive(emit_events(EVENTS, None))
        assert dispatched == []

    async def test_events_may_be_an_iterator(self, drive):
        received = []
        await drive(emit_events(iter(EVENTS), None, [received.append]))
        assert received == EVENTS

    async def test_failing_sink_costs_nothing_else(self, drive, caplog, dispatched):
        received = []
        written = []

        def fail(event):
            raise ValueError("x" * 10_000)

        await drive(emit_events(EVENTS, written.append, [fail, received.append]))

        assert received == EVENTS
        assert written == CHUNKS
        assert dispatched == ["tooltree.plan", "tooltree.search"]
        assert len(caplog.records) == 2
        record = caplog.records[0]
        assert record.name == "langchain_tooltree.streaming"
        assert record.levelno == logging.WARNING
        assert record.getMessage().startswith(
            "A listener to events has failed: ValueError: xxx"
        )
        assert len(record.getMessage()) < 3_000

    async def test_ctrl_c_in_a_sink_is_raised(self, drive):
        def interrupt(event):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await drive(emit_events(EVENTS, None, [interrupt]))

    async def test_error_of_the_writer_is_raised(self, drive):
        def fail(chunk):
            raise ValueError("closed")

        with pytest.raises(ValueError, match="closed"):
            await drive(emit_events(EVENTS, fail))


class TestDispatching:
    @pytest.mark.parametrize(
        ("callbacks", "is_dispatched"),
        [
            (CallbackManager([]), False),
            (CallbackManager([Recorder()]), True),
            ([Recorder()], True),
            (None, True),
        ],
        ids=["no handlers", "handler", "list", "unknown"],
    )
    async def test_only_a_run_without_handlers_is_left_out(
        self, drive, dispatched, callbacks, is_dispatched
    ):
        written = []
        with current_config({"callbacks": callbacks}):
            await drive(emit_events(EVENTS, written.append))
        assert written == CHUNKS
        assert bool(dispatched) is is_dispatched

    async def test_handlers_are_looked_up_once(self, drive, dispatched, monkeypatch):
        calls = []

        def ensure_config():
            calls.append("ensure_config")
            return {}

        monkeypatch.setattr(streaming, "ensure_config", ensure_config)
        await drive(emit_events(EVENTS, lambda chunk: None))
        assert calls == ["ensure_config"]
        assert len(dispatched) == 2


class TestEmitEventsInAGraph:
    async def test_custom_stream(self, stream):
        assert await stream(build_emitting_graph()) == CHUNKS

    async def test_sinks(self, stream):
        received = []
        await stream(build_emitting_graph([received.append]))
        assert received == EVENTS

    @pytest.mark.parametrize("recorder_type", [Recorder, AsyncRecorder])
    async def test_callback_handlers(self, stream, recorder_type):
        recorder = recorder_type()
        chunks = await stream(build_emitting_graph(), callbacks=[recorder])
        assert chunks == CHUNKS
        assert recorder.events == CUSTOM_EVENTS

    async def test_nothing_is_dispatched_without_handlers(self, stream, dispatched):
        assert await stream(build_emitting_graph()) == CHUNKS
        assert dispatched == []

    async def test_astream_events(self):
        stream = build_emitting_graph().astream_events({"number": 0}, version="v2")
        custom_events = [
            (event["name"], event["data"])
            async for event in stream
            if event["event"] == "on_custom_event"
        ]
        assert custom_events == CUSTOM_EVENTS

    def test_without_event_loop(self):
        recorder = Recorder()
        graph = build_emitting_graph()
        result = graph.invoke({"number": 0}, {"callbacks": [recorder]})
        assert result == {"number": 1}
        assert recorder.events == CUSTOM_EVENTS


class TestRuntime:
    async def test_outside_of_a_run(self):
        assert get_current_runtime() is None
        assert get_stream_writer() is None

    async def test_in_a_runnable_outside_of_a_graph(self):
        def get_both(_):
            return get_current_runtime(), get_stream_writer()

        assert RunnableLambda(get_both).invoke(None) == (None, None)

    async def test_with_a_config_without_configurable(self):
        with current_config({"tags": ["a tag"]}):
            assert get_current_runtime() is None
            assert get_stream_writer() is None

    async def test_in_a_graph(self, stream):
        runtimes = []

        def record(state):
            runtime = get_current_runtime()
            assert get_stream_writer() is runtime.stream_writer
            runtimes.append(runtime)
            return state

        async def arecord(state):
            return record(state)

        await stream(build_graph(node=record, anode=arecord))
        assert [type(runtime) for runtime in runtimes] == [Runtime]
