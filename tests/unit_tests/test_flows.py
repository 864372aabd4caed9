import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import logging
import threading
import time
from functools import partial

import pytest
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from langchain_tooltree import ConfigurationError
from langchain_tooltree.flows import (
    CallStep,
    FlowStep,
    FunctionStep,
    GatherStep,
    arun_flow,
    is_event_loop_running,
    run_flow,
    run_in_daemon_thread,
    run_or_default,
)

TIMEOUT = 5.0

color = contextvars.ContextVar("color", default="none")


@pytest.fixture(params=["run_flow", "arun_flow"])
def drive(request):
    """Return the driver under test; `run_flow` blocks the thread of the test."""

    async def drive_by_run_flow(flow):
        return run_flow(flow)

    return drive_by_run_flow if request.param == "run_flow" else arun_flow


def build_value_step(value):
    async def return_value():
        return value

    return CallStep(lambda: value, return_value)


def build_failing_step(error):
    def fail():
        raise error

    async def afail():
        raise error

    return CallStep(fail, afail)


async def return_value(value):
    return await build_value_step(value)


async def await_step(step):
    return await step


async def raise_error(error):
    return await build_failing_step(error)


class Meeting:
    """Barrier that the steps of concurrent flows wait at."""

    def __init__(self, parties):
        self._barrier = threading.Barrier(parties, timeout=TIMEOUT)
        self._abarrier = asyncio.Barrier(parties)

    def build_step(self):
        async def wait():
            await asyncio.wait_for(self._abarrier.wait(), TIMEOUT)

        return CallStep(self._barrier.wait, wait)


class Signal:
    """Event that one flow sets and another flow waits for."""

    def __init__(self):
        self._event = threading.Event()
        self._aevent = asyncio.Event()

    def set(self):
        self._event.set()
        self._aevent.set()

    def build_wait_step(self):
        def wait():
            assert self._event.wait(TIMEOUT)

        async def await_event():
            await asyncio.wait_for(self._aevent.wait(), TIMEOUT)

        return CallStep(wait, await_event)


class Counter:
    """The example of the module's docstring."""

    def __init__(self):
        self.calls = []
        self.total = 0

    def read(self):
        self.calls.append("read")
        return self.total

    async def aread(self):
        self.calls.append("aread")
        return self.total

    def write(self, total):
        self.calls.append("write")
        self.total = total

    async def awrite(self, total):
        self.calls.append("awrite")
        self.total = total

    def add(self, number):
        return run_flow(self.add_flow(number))

    async def aadd(self, number):
        return await arun_flow(self.add_flow(number))

    async def add_flow(self, number):
        total = await CallStep(self.read, self.aread) + number
        await CallStep(partial(self.write, total), partial(self.awrite, total))
        return total


class TestDrivers:
    def test_sync_example_without_event_loop(self):
        counter = Counter()
        assert counter.add(2) == 2
        assert counter.add(3) == 5
        assert counter.calls == ["read", "write"] * 2

    async def test_async_example(self):
        counter = Counter()
        assert await counter.aadd(2) == 2
        assert await counter.aadd(3) == 5
        assert counter.calls == ["aread", "awrite"] * 2

    async def test_flow_without_steps(self, drive):
        async def return_seven():
            return 7

        assert await drive(return_seven()) == 7

    async def test_flow_awaits_other_flows(self, drive):
        counter = Counter()

        async def add_twice():
            first = await counter.add_flow(1)
            second = await counter.add_flow(10)
            return first, second

        assert await drive(add_twice()) == (1, 11)

    async def test_steps_run_on_the_thread_of_the_caller(self, drive):
        async def aget_ident():
            return threading.get_ident()

        step = CallStep(threading.get_ident, aget_ident)
        assert await drive(await_step(step)) == threading.get_ident()

    async def test_flow_shares_the_context_of_the_caller(self, drive):
        async def set_color():
            seen = color.get()
            await build_value_step(None)
            color.set("blue")
            return seen

        color.set("red")
        assert await drive(set_color()) == "red"
        assert color.get() == "blue"

    async def test_step_is_abstract(self):
        with pytest.raises(TypeError, match="abstract"):
            FlowStep()

    async def test_flow_without_driver_fails_on_the_event_loop(self):
        with pytest.raises(RuntimeError, match="bad yield"):
            await return_value(1)


class TestErrorsOfSteps:
    async def test_error_is_raised_at_the_await(self, drive):
        async def recover():
            try:
                await build_failing_step(ValueError("broken"))
            except ValueError as error:
                return f"caught {error}, then {await build_value_step('more')}"

        assert await drive(recover()) == "caught broken, then more"

    async def test_uncaught_error_reaches_the_caller(self, drive):
        error = ValueError("broken")
        with pytest.raises(ValueError, match="broken") as raised:
            await drive(raise_error(error))
        assert raised.value is error
        # The traceback shows the place in the flow.
        assert "raise_error" in [entry.name for entry in raised.traceback]

    async def test_flow_can_replace_the_error(self, drive):
        async def translate():
            try:
                await build_failing_step(ValueError("broken"))
            except ValueError as error:
                raise LookupError("nothing found") from error

        with pytest.raises(LookupError) as raised:
            await drive(translate())
        assert isinstance(raised.value.__cause__, ValueError)

    async def test_several_errors_in_a_row(self, drive):
        async def count_errors(attempts):
            errors = 0
            for _ in range(attempts):
                try:
                    await build_failing_step(ValueError())
                except ValueError:
                    errors += 1
            return errors

        assert await drive(count_errors(3)) == 3

    async def test_stop_iteration_of_a_step_does_not_end_the_flow(self, drive):
        async def take_next():
            try:
                return await build_failing_step(StopIteration("wrong result"))
            except RuntimeError:
                return "right result"

        assert await drive(take_next()) == "right result"

    async def test_error_of_the_flow_itself(self, drive):
        async def fail():
            await build_value_step(1)
            raise LookupError("own error")

        with pytest.raises(LookupError, match="own error"):
            await drive(fail())


class TestExceptionsThatLeaveTheDriver:
    @pytest.mark.parametrize(
        "error",
        [
            GraphInterrupt(),
            GraphBubbleUp(),
            KeyboardInterrupt(),
            SystemExit(),
            asyncio.CancelledError(),
        ],
        ids=repr,
    )
    async def test_flow_does_not_see_it_and_is_closed(self, drive, error):
        lock = threading.Lock()
        log = []

        async def hold_lock():
            with lock:
                try:
                    await build_failing_step(error)
                except Exception as caught:  # noqa: BLE001
                    log.append(caught)
                except BaseException as caught:
                    log.append(type(caught))
                    raise

        flow = hold_lock()
        with pytest.raises(type(error)) as raised:
            await drive(flow)

        assert raised.value is error
        assert log == [GeneratorExit]
        assert not lock.locked()
        assert inspect.getcoroutinestate(flow) == inspect.CORO_CLOSED

    async def test_flow_may_raise_an_interrupt_itself(self, drive):
        async def interrupt():
            await build_value_step(1)
            raise GraphInterrupt

        with pytest.raises(GraphInterrupt):
            await drive(interrupt())

    @pytest.mark.parametrize("error", [None, ValueError("broken")])
    async def test_flow_is_closed_after_every_end(self, drive, error):
        flow = raise_error(error) if error else return_value(1)
        await asyncio.gather(drive(flow), return_exceptions=True)
        assert inspect.getcoroutinestate(flow) == inspect.CORO_CLOSED

    async def test_nested_flows_are_closed_from_the_inside(self, drive):
        log = []

        async def run_inner():
            try:
                await build_failing_step(GraphInterrupt())
            finally:
                log.append("inner")

        async def run_outer():
            try:
                await run_inner()
            finally:
                log.append("outer")

        with pytest.raises(GraphInterrupt):
            await drive(run_outer())
        assert log == ["inner", "outer"]

    async def test_cancellation_of_the_caller_releases_the_lock(self):
        lock = threading.Lock()
        is_waiting = asyncio.Event()

        async def wait_forever():
            is_waiting.set()
            await asyncio.Event().wait()

        async def hold_lock():
            with lock:
                await CallStep(pytest.fail, wait_forever)

        task = asyncio.create_task(arun_flow(hold_lock()))
        await is_waiting.wait()
        assert lock.locked()

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lock.locked()


class TestForeignAwaitables:
    MATCH = "Flows await only steps and other flows"

    @pytest.mark.parametrize(
        ("build_awaitable", "awaited"),
        [
            (lambda: asyncio.sleep(0), "None"),
            (lambda: asyncio.sleep(1), "<Future pending"),
            (lambda: asyncio.Event().wait(), "<Future pending"),
            (lambda: asyncio.get_running_loop().create_future(), "<Future pending"),
        ],
        ids=["sleep(0)", "sleep(1)", "event", "future"],
    )
    async def test_error_names_the_object(self, drive, build_awaitable, awaited):
        async def await_foreign():
            await build_value_step(1)
            return await build_awaitable()

        with pytest.raises(TypeError, match=self.MATCH) as raised:
            await drive(await_foreign())
        assert awaited in str(raised.value)
        assert "await_foreign" in [entry.name for entry in raised.traceback]

    async def test_flow_can_catch_the_error_and_go_on(self, drive):
        async def recover():
            errors = 0
            for _ in range(2):
                try:
                    await asyncio.sleep(0)
                except TypeError:
                    errors += 1
            return errors, await build_value_step("result")

        assert await drive(recover()) == (2, "result")

    async def test_flow_is_closed_after_the_error(self, drive):
        lock = threading.Lock()

        async def hold_lock():
            with lock:
                await asyncio.sleep(0)

        with pytest.raises(TypeError, match=self.MATCH):
            await drive(hold_lock())
        assert not lock.locked()

    def test_without_event_loop(self):
        async def await_sleep():
            await asyncio.sleep(0)

        with pytest.raises(TypeError, match=self.MATCH):
            run_flow(await_sleep())

    def test_future_of_another_loop_without_event_loop(self):
        loop = asyncio.new_event_loop()

        async def await_future():
            await loop.create_future()

        try:
            with pytest.raises(TypeError, match="<Future pending"):
                run_flow(await_future())
        finally:
            loop.close()


class AsyncCallable:
    async def __call__(self, number):
        await asyncio.sleep(0)
        return number + 1, threading.get_ident()


class PlainCallable:
    def __call__(self, number):
        return number + 1, threading.get_ident()


class CustomAwaitable:
    def __init__(self, value):
        self._value = value

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self._value, threading.get_ident()


def add_one(number):
    return number + 1, threading.get_ident()


async def async_add_one(number):
    await asyncio.sleep(0)
    return number + 1, threading.get_ident()


def async_lambda(number):
    return async_add_one(number)


async def async_add(number, *, addend):
    await asyncio.sleep(0)
    return number + addend, threading.get_ident()


def decorate(function):
    @functools.wraps(function)
    def call(number):
        return function(number)

    return call


PLAIN_FUNCTIONS = [add_one, PlainCallable(), PlainCallable().__call__]
ASYNC_FUNCTIONS = [
    async_add_one,
    AsyncCallable(),
    AsyncCallable().__call__,
    async_lambda,
    partial(async_add, addend=1),
    partial(AsyncCallable()),
    decorate(async_add_one),
    lambda number: CustomAwaitable(number + 1),
]


class TestFunctionStep:
    @pytest.mark.parametrize("function", PLAIN_FUNCTIONS + ASYNC_FUNCTIONS)
    async def test_result(self, drive, function):
        result, _ = await drive(await_step(FunctionStep(function, 1)))
        assert result == 2

    @pytest.mark.parametrize("function", PLAIN_FUNCTIONS + ASYNC_FUNCTIONS)
    def test_result_without_event_loop(self, function):
        result, _ = run_flow(await_step(FunctionStep(function, 1)))
        assert result == 2

    @pytest.mark.parametrize("function", PLAIN_FUNCTIONS)
    async def test_run_calls_plain_function_on_the_same_thread(self, function):
        _, thread = run_flow(await_step(FunctionStep(function, 1)))
        assert thread == threading.get_ident()

    @pytest.mark.parametrize("function", ASYNC_FUNCTIONS)
    async def test_run_awaits_on_another_thread(self, function):
        _, thread = run_flow(await_step(FunctionStep(function, 1)))
        assert thread != threading.get_ident()

    @pytest.mark.parametrize("function", PLAIN_FUNCTIONS)
    async def test_arun_calls_plain_function_on_a_worker_thread(self, function):
        _, thread = await arun_flow(await_step(FunctionStep(function, 1)))
        assert thread != threading.get_ident()

    @pytest.mark.parametrize("function", ASYNC_FUNCTIONS)
    async def test_arun_awaits_on_the_event_loop(self, function):
        _, thread = await arun_flow(await_step(FunctionStep(function, 1)))
        assert thread == threading.get_ident()

    @pytest.mark.parametrize("function", [async_add_one, AsyncCallable()])
    async def test_arun_calls_async_function_without_a_worker_thread(
        self, function, monkeypatch
    ):
        monkeypatch.setattr("langchain_tooltree.flows.run_in_executor", pytest.fail)
        result, _ = await arun_flow(await_step(FunctionStep(function, 1)))
        assert result == 2

    async def test_plain_function_does_not_block_the_event_loop(self):
        is_released = threading.Event()

        def wait_for_release(_):
            return is_released.wait(TIMEOUT)

        task = asyncio.create_task(
            arun_flow(await_step(FunctionStep(wait_for_release, None)))
        )
        await asyncio.sleep(0)
        is_released.set()
        assert await task is True

    async def test_error_is_raised_at_the_await(self, drive):
        def fail(number):
            raise ValueError(f"plain {number}")

        async def afail(number):
            await asyncio.sleep(0)
            raise ValueError(f"async {number}")

        async def collect_errors():
            errors = []
            for function in (fail, afail):
                try:
                    await FunctionStep(function, 1)
                except ValueError as error:
                    errors.append(str(error))
            return errors

        assert await drive(collect_errors()) == ["plain 1", "async 1"]

    async def test_stop_iteration_of_the_function(self, drive):
        with pytest.raises(RuntimeError):
            await drive(await_step(FunctionStep(next, iter([]))))

    async def test_interrupt_of_the_function(self, drive):
        def interrupt(_):
            raise GraphInterrupt

        async def ainterrupt(_):
            raise GraphInterrupt

        async def swallow(function):
            try:
                await FunctionStep(function, None)
            except Exception:  # noqa: BLE001
                return "swallowed"

        for function in (interrupt, ainterrupt):
            with pytest.raises(GraphInterrupt):
                await drive(swallow(function))

    async def test_function_sees_the_context(self, drive):
        def get_color(_):
            return color.get()

        async def aget_color(_):
            return color.get()

        color.set("red")
        assert await drive(await_step(FunctionStep(get_color, None))) == "red"
        assert await drive(await_step(FunctionStep(aget_color, None))) == "red"

    async def test_none_is_a_valid_argument_and_result(self, drive):
        step = FunctionStep(lambda argument: argument, None)
        assert await drive(await_step(step)) is None


class TestGatherStep:
    async def test_results_in_the_order_of_the_flows(self, drive):
        is_second_done = Signal()

        async def run_first():
            await is_second_done.build_wait_step()
            return "first"

        async def run_second():
            value = await build_value_step("second")
            is_second_done.set()
            return value

        async def gather():
            first, second = await GatherStep([run_first(), run_second()])
            return first, second

        assert await drive(gather()) == ("first", "second")

    async def test_flows_run_at_the_same_time(self, drive):
        meeting = Meeting(3)
        flows = [await_step(meeting.build_step()) for _ in range(3)]
        assert len(await drive(await_step(GatherStep(flows)))) == 3

    async def test_no_flows(self, drive):
        assert await drive(await_step(GatherStep([]))) == []

    async def test_nested(self, drive):
        async def gather(depth):
            if depth == 0:
                return await build_value_step(1)
            return sum(await GatherStep([gather(depth - 1), gather(depth - 1)]))

        assert await drive(gather(3)) == 8

    async def test_result_may_be_an_exception_object(self, drive):
        error = ValueError("a result")
        assert await drive(await_step(GatherStep([return_value(error)]))) == [error]

    async def test_first_error_in_the_order_of_the_flows(self, drive):
        is_second_done = Signal()

        async def fail_late():
            await is_second_done.build_wait_step()
            raise ValueError("first flow")

        async def fail_early():
            is_second_done.set()
            raise LookupError("second flow")

        async def catch():
            try:
                await GatherStep([return_value(0), fail_late(), fail_early()])
            except (ValueError, LookupError) as error:
                return str(error)

        assert await drive(catch()) == "first flow"

    async def test_all_run_to_their_end_if_one_fails(self, drive):
        has_failed = Signal()
        log = []

        async def fail():
            has_failed.set()
            raise ValueError("broken")

        async def go_on():
            await has_failed.build_wait_step()
            # Without this pause, a driver that does not wait could pass the test.
            await CallStep(partial(time.sleep, 0.05), partial(asyncio.sleep, 0.05))
            log.append("end")

        with pytest.raises(ValueError, match="broken"):
            await drive(await_step(GatherStep([fail(), go_on()])))
        assert log == ["end"]

    async def test_interrupt_is_not_raised_in_the_outer_flow(self, drive):
        async def swallow():
            try:
                await GatherStep([raise_error(GraphInterrupt()), return_value(1)])
            except Exception:  # noqa: BLE001
                return "swallowed"

        with pytest.raises(GraphInterrupt):
            await drive(swallow())

    async def test_each_flow_has_its_own_context(self, drive):
        meeting = Meeting(2)

        async def set_color(value):
            inherited = color.get()
            color.set(value)
            await meeting.build_step()
            return inherited, color.get()

        async def gather():
            color.set("red")
            results = await GatherStep([set_color("blue"), set_color("green")])
            return results, color.get()

        results, caller_color = await drive(gather())
        assert results == [("red", "blue"), ("red", "green")]
        assert caller_color == "red"

    async def test_run_uses_daemon_threads(self):
        async def get_thread():
            return threading.current_thread()

        threads = run_flow(await_step(GatherStep([get_thread(), get_thread()])))
        assert threads[0] is not threads[1]
        assert [thread for thread in threads if not thread.daemon] == []
        assert threading.current_thread() not in threads

    async def test_arun_stays_on_the_thread(self):
        async def get_thread():
            return threading.current_thread()

        threads = await arun_flow(await_step(GatherStep([get_thread(), get_thread()])))
        assert threads == [threading.current_thread()] * 2

    def test_without_event_loop(self):
        step = GatherStep([return_value(1), return_value(2)])
        assert run_flow(await_step(step)) == [1, 2]


class TestCancellationOfGatherStep:
    async def test_flows_are_cancelled_and_waited_for(self):
        meeting = asyncio.Barrier(3)
        lock = threading.Lock()
        log = []

        async def clean_up_slowly(name):
            try:
                await meeting.wait()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                log.append(name)

        async def hold_lock():
            with lock:
                await CallStep(pytest.fail, partial(clean_up_slowly, "first"))

        async def hold_nothing():
            await CallStep(pytest.fail, partial(clean_up_slowly, "second"))

        step = GatherStep([hold_lock(), hold_nothing()])
        task = asyncio.create_task(arun_flow(await_step(step)))
        await meeting.wait()
        assert lock.locked()

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(log) == ["first", "second"]
        assert not lock.locked()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_cancelled_with_a_failed_flow(self):
        has_failed = asyncio.Event()

        async def fail():
            has_failed.set()
            raise ValueError("broken")

        async def wait_forever():
            await CallStep(pytest.fail, asyncio.Event().wait)

        step = GatherStep([fail(), wait_forever()])
        task = asyncio.create_task(arun_flow(await_step(step)))
        await has_failed.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_flows_that_have_not_started_are_closed(self):
        flows = [return_value(1), return_value(2)]
        task = asyncio.create_task(arun_flow(await_step(GatherStep(flows))))
        # This runs between the creation of the tasks and their first step.
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        states = [inspect.getcoroutinestate(flow) for flow in flows]
        assert states == [inspect.CORO_CLOSED] * 2


class TestRunInDaemonThread:
    def test_result_and_thread(self):
        thread = run_in_daemon_thread(threading.current_thread, "my-name").result()
        assert thread.daemon
        assert thread.name == "my-name"
        assert thread is not threading.current_thread()

    @pytest.mark.parametrize(
        "error", [ValueError("broken"), KeyboardInterrupt(), asyncio.CancelledError()]
    )
    def test_every_exception_reaches_the_future(self, error):
        def fail():
            raise error

        future = run_in_daemon_thread(fail, "fails")
        assert future.exception(TIMEOUT) is error

    def test_context_is_copied(self):
        def set_color():
            inherited = color.get()
            color.set("blue")
            return inherited

        def call_with_red():
            color.set("red")
            future = run_in_daemon_thread(set_color, "colors")
            return future.result(TIMEOUT), color.get()

        context = contextvars.copy_context()
        assert context.run(call_with_red) == ("red", "red")

    def test_context_is_the_one_at_the_call(self):
        is_changed = threading.Event()

        def get_color():
            assert is_changed.wait(TIMEOUT)
            return color.get()

        def change_after_start():
            color.set("red")
            future = run_in_daemon_thread(get_color, "colors")
            color.set("blue")
            is_changed.set()
            return future.result(TIMEOUT)

        assert contextvars.copy_context().run(change_after_start) == "red"

    def test_future_can_not_be_cancelled(self):
        is_released = threading.Event()
        future = run_in_daemon_thread(lambda: is_released.wait(TIMEOUT), "waits")
        assert future.running()
        assert not future.cancel()
        is_released.set()
        assert future.result(TIMEOUT) is True

    def test_many_hanging_calls_do_not_stop_others(self):
        is_released = threading.Event()
        hanging = [run_in_daemon_thread(is_released.wait, "hangs") for _ in range(50)]
        assert run_in_daemon_thread(lambda: 7, "returns").result(TIMEOUT) == 7
        is_released.set()
        done, not_done = concurrent.futures.wait(hanging, TIMEOUT)
        assert len(done) == 50
        assert not not_done


class TestIsEventLoopRunning:
    def test_without_event_loop(self):
        assert not is_event_loop_running()

    async def test_on_and_beside_the_thread_of_the_event_loop(self):
        assert is_event_loop_running()
        assert not await asyncio.to_thread(is_event_loop_running)


class TestRunOrDefault:
    PURPOSE = "a memory of past runs"

    async def run(self, drive, start):
        return await drive(
            run_or_default(start, default="default", purpose=self.PURPOSE)
        )

    async def test_result(self, drive, caplog):
        start = partial(return_value, "result")
        assert await self.run(drive, start) == "result"
        assert not caplog.records

    async def test_failure_is_logged(self, drive, caplog):
        start = partial(raise_error, OSError("disk full"))
        assert await self.run(drive, start) == "default"
        assert caplog.record_tuples == [
            (
                "langchain_tooltree.flows",
                logging.WARNING,
                "The run goes on without a memory of past runs: OSError: disk full",
            )
        ]

    async def test_description_is_shortened(self, drive, caplog):
        start = partial(raise_error, OSError("x" * 10_000))
        await self.run(drive, start)
        assert len(caplog.messages[0]) < 3_000

    async def test_error_of_start(self, drive, caplog):
        def fail():
            raise OSError("disk full")

        assert await self.run(drive, fail) == "default"
        assert len(caplog.records) == 1

    @pytest.mark.parametrize(
        "error", [GraphInterrupt(), ConfigurationError("wrong"), KeyboardInterrupt()]
    )
    async def test_errors_that_are_raised(self, drive, error, caplog):
        async def raise_itself():
            await build_value_step(1)
            raise error

        for start in (partial(raise_error, error), raise_itself):
            with pytest.raises(type(error)):
                await self.run(drive, start)
        assert not caplog.records
