"""A progress bar for a collection that may take hours."""

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from langchain_tooltree.cfgm.collecting.collection import Tally


class Progress:
    """Shows how far a collection is, on standard error.

    Args:
        tally: What it has done.
        tasks: How many tasks there are.
        shown: Whether to show it; where standard error is a terminal, if left out.
    """

    def __init__(self, tally: Tally, tasks: int, *, shown: bool | None) -> None:
        self._bar = _Live(
            tally,
            TextColumn("collecting"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks, {task.fields[attempts]} attempts, {task.fields[successes]} successes,"),
            TextColumn("{task.fields[calls]} model calls"),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            disable=not (sys.stderr.isatty() if shown is None else shown),
        )
        self._bar.add_task("", total=tasks, attempts=0, successes=0, calls=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()


class _Live(Bar):
    """A bar that reads its figures whenever it is drawn, so that no attempt has to wait for it."""

    def __init__(self, tally: Tally, *columns: str | ProgressColumn, console: Console, disable: bool) -> None:
        self._tally = tally
        super().__init__(*columns, console=console, disable=disable)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn."""
        tally = self._tally
        for task in self.tasks:
            task.completed = tally.done
            task.fields.update(attempts=tally.attempts, successes=tally.successes, calls=tally.cost.model_calls)
        return super().get_renderables()
