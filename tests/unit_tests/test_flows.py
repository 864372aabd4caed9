import asyncio
import threading
from contextvars import ContextVar

import pytest
from langgraph.errors import GraphInterrupt

from langchain_tooltree.flows import (
    FlowStep,
    FunctionStep,
    TogetherStep,
    arun_flow,
    in_thread,
    run_flow,
)


class Step(FlowStep):
    """Gives a value, or raises it if it is an exception."""

    def __init__(self, value):
        self.value = value

    def run(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    async def arun(self):
        return self.run()


async def adding(*steps):
    total = 0
    for step in steps:
        total += await step
    return total


async def test_a_flow_is_sent_what_came_of_its_steps(drive):
    assert await drive(adding(Step(1), Step(2), Step(3))) == 6


async def test_an_error_of_a_step_is_thrown_into_the_flow(drive):
    async def catching():
        try:
            await Step(ValueError("bad"))
        except ValueError as error:
            return f"caught {error}, then {await Step('more')}"

    assert await drive(catching()) == "caught bad, then more"


async def test_an_error_that_the_flow_does_not_catch_comes_out(drive):
    with pytest.raises(ValueError, match="bad"):
        await drive(adding(Step(1), Step(ValueError("bad"))))


async def test_an_interrupt_of_the_graph_passes_the_flow_by(drive):
    async def greedy():
        try:
            await Step(GraphInterrupt())
        except Exception:  # noqa: BLE001 - what a careless flow would do
            return "swallowed"

    with pytest.raises(GraphInterrupt):
        await drive(greedy())


@pytest.mark.parametrize("passing", [KeyboardInterrupt(), GraphInterrupt()], ids=repr)
async def test_what_passes_a_flow_by_leaves_nothing_held(drive, passing):
    held = threading.Lock()

    async def holding():
        with held:
            await Step(passing)

    with pytest.raises(
        type(passing)
    ):  # whose traceback a prompt keeps, and all that stands in it
        await drive(holding())
    assert not held.locked()


async def test_an_async_function_is_awaited_on_the_sync_path_of_a_notebook():
    async def twice(number):
        await asyncio.sleep(0)
        return 2 * number

    async def flow():
        return await FunctionStep(twice, 3)

    assert run_flow(flow()) == 6


async def test_functions_sync_and_async_are_steps_on_both_paths(drive):
    async def double(number):
        await asyncio.sleep(0)
        return 2 * number

    class Callable:
        async def __call__(self, number):
            return 3 * number

    assert await drive(adding(FunctionStep(lambda n: n, 1))) == 1
    assert await drive(adding(FunctionStep(double, 1))) == 2
    assert await drive(adding(FunctionStep(Callable(), 1))) == 3


async def test_a_plain_function_does_not_block_the_loop():
    blocked = threading.Event()
    flow = asyncio.create_task(
        arun_flow(adding(FunctionStep(lambda _: int(blocked.wait(5)), None)))
    )
    await asyncio.sleep(0.01)
    blocked.set()
    assert await flow == 1


class Meeting(FlowStep):
    """Gives its value once so many others have come, and is lost if they cannot come at the same time."""

    def __init__(self, value, door) -> None:
        self.value, self.door = value, door

    def run(self):
        self.door.wait(5)
        return self.value

    async def arun(self):
        return await asyncio.to_thread(self.run)


@pytest.mark.parametrize("number", [0, 1, 3])
async def test_flows_run_together_and_are_told_in_their_order(drive, number):
    door = threading.Barrier(max(number, 1))

    async def flow():
        return await TogetherStep([adding(Meeting(n, door)) for n in range(number)])

    assert await drive(flow()) == list(range(number))


async def test_of_flows_that_fail_together_the_first_in_order_is_told_once_all_have_ended(
    drive,
):
    ended = []

    async def failing(error, *before):
        await adding(*before)
        ended.append(error.args[0])
        raise error

    late = Meeting(1, threading.Barrier(1))

    async def flow():
        return await TogetherStep(
            [
                adding(Step(1)),
                failing(ValueError("first"), late),
                failing(KeyError("second")),
            ]
        )

    with pytest.raises(ValueError, match="first"):
        await drive(flow())
    assert sorted(ended) == ["first", "second"]


async def test_an_interrupt_of_the_graph_leaves_flows_that_run_together(drive):
    with pytest.raises(GraphInterrupt):
        await drive(
            adding(TogetherStep([adding(Step(GraphInterrupt())), adding(Step(1))]))
        )


@pytest.mark.parametrize("numbers", [[1], [1, 2]])
async def test_flows_that_run_together_see_the_context_and_keep_what_they_set_there(
    drive, numbers
):
    who = ContextVar("who")
    who.set("host")

    async def guest(number):
        before = who.get()
        who.set(number)
        await Step(None)
        return before, who.get()

    async def flow():
        return (await TogetherStep([guest(n) for n in numbers])), who.get()

    assert await drive(flow()) == ([("host", n) for n in numbers], "host")


async def test_cancelled_flows_that_run_together_are_waited_for():
    waiting, left = asyncio.Semaphore(0), []

    class Hanging(Step):
        async def arun(self):
            waiting.release()
            try:
                await asyncio.Event().wait()
            finally:
                left.append(self.value)

    running = asyncio.create_task(
        arun_flow(adding(TogetherStep([adding(Hanging(1)), adding(Hanging(2))])))
    )
    await waiting.acquire()
    await waiting.acquire()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left == [1, 2]


def test_work_that_hangs_takes_no_place_of_other_work():
    door = threading.Event()
    hanging = [in_thread(lambda: door.wait(5), "slow") for _ in range(50)]
    assert (
        in_thread(lambda: threading.current_thread().name, "quick").result(5) == "quick"
    )
    assert not any(future.done() for future in hanging)
    door.set()
    assert [future.result(5) for future in hanging] == [True] * 50


class Counter:
    """Two methods of one flow."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int, *, times: int = 1) -> int:
        """Add a number several times."""
        return run_flow(self.add_flow(number, times=times))

    async def aadd(self, number: int, *, times: int = 1) -> int:
        """Async version of `add`."""
        return await arun_flow(self.add_flow(number, times=times))

    async def add_flow(self, number: int, *, times: int = 1) -> int:
        for _ in range(times):
            self.total += await Step(number)
        return self.total


async def test_one_flow_makes_a_method_and_its_async_twin():
    counter = Counter()
    assert counter.add(2, times=2) == 4
    assert await counter.aadd(number=3) == 7


async def test_another_flow_goes_through_the_flow_of_a_method(drive):
    counter = Counter()

    async def twice():
        await counter.add_flow(1)
        return await counter.add_flow(1, times=2)

    assert await drive(twice()) == 3
