"""ScienceWorld in several processes: each Python process has one Java process of its own."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing.util import Finalize
from typing import Any, Self, TypeVar

from rich.console import Console
from rich.progress import Progress

from tests.benchmarks.scienceworld_world import World

T = TypeVar("T")


class Pool:
    """Processes with a world each; to be used in a `with` statement.

    Args:
        size: How many.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # Not forked: a fork would share the sockets to the Java process of its parent.
        self._executor = ProcessPoolExecutor(
            size, mp_context=multiprocessing.get_context("spawn")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def map(
        self, function: Callable[..., T], jobs: Sequence[tuple[Any, ...]], title: str
    ) -> Iterator[T]:
        """Call a function of a world, and of what a job says, for each job.

        Args:
            function: A function of a module, called as `function(world, *job)`.
            jobs: The jobs.
            title: What the progress bar says.

        Yields:
            What came of the jobs, in their order.
        """
        futures = [self._executor.submit(_call, function, job) for job in jobs]
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for future in progress.track(
                as_completed(futures), total=len(futures), description=title
            ):
                future.result()
        for future in futures:
            yield future.result()


@cache
def _world() -> World:
    """The world of this process, which is closed when the process ends."""
    world = World()
    Finalize(None, world.close, exitpriority=1)
    return world


def _call(function: Callable[..., T], job: tuple[Any, ...]) -> T:
    return function(_world(), *job)
