"""What the commands share: the terminal, tables, names of models, and files that must not be overwritten."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.models import resolve_model
from langchain_tooltree.text import visible_lines


class Terminal(Console):
    """The standard output: all that is printed there goes through it.

    What models, tools and files say never gives orders to a terminal, nor hides or turns what is read there: each such
    character is marked, as in pages and pictures.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Mark texts before they are laid out, so that they fit, and whatever else comes to be printed."""
        if isinstance(renderable, Text):
            renderable = renderable.copy()
            renderable.plain = visible_lines(
                renderable.plain
            )  # as long as it was, so that styles stay in place
        for part in super().render(renderable, options):
            yield (
                part if part.control else Segment(visible_lines(part.text), part.style)
            )

    def on_broken_pipe(self) -> None:
        """Leave it to `main` what a closed pipe means; rich would end the program with another exit code."""
        raise  # noqa: PLE0704 - called where it is handled

    def say(self, text: str) -> None:
        """Print a text as it is: without markup, and in one line however long it is."""
        self.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A table that folds what is too long and cuts nothing."""
    made = Table(*(Column(each, overflow="fold") for each in columns))
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


def progress(text: str) -> Status:
    """What is done at the moment, on stderr where somebody is looking at it."""
    return Status(text, console=Terminal(stderr=True, quiet=not sys.stderr.isatty()))


@contextmanager
def answering(failure: str, remedy: str) -> Iterator[None]:
    """Put whatever a database or a provider raises into one line, between what has failed and what to do."""
    try:
        yield
    except (ToolTreeError, OSError, ImportError):
        raise
    except Exception as error:
        reason = described(error).strip().split("\n", 1)[0].rstrip(".")
        msg = f"{failure} ({reason}). {remedy}"
        raise ConfigurationError(msg) from error


def using(name: str | None) -> AbstractContextManager[None]:
    """The same for a model."""
    return answering(
        f"Cannot use the model {name!r}",
        "Is its name right, its key set, and the network there?",
    )


def model_named(name: str) -> BaseChatModel:
    """The chat model of a name such as `openai:gpt-4.1-mini`."""
    with using(name):
        return resolve_model(name)


def imported(place: str) -> Any:
    """What `MODULE:NAME` names, also in the working folder."""
    module, _, name = place.partition(":")
    if not name:
        msg = f"{place!r} names nothing to import. Write MODULE:NAME, such as my_agent:build."
        raise ConfigurationError(msg)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # a module of the user's may raise anything
        msg = f"{place!r} cannot be imported: {described(error)}. Is the module in this folder, or installed?"
        raise ConfigurationError(msg) from error
    finally:
        sys.path.pop(0)


def check_free(path: Path, *, force: bool) -> None:
    """Refuse, before any work, a path that is taken, unless it is to be replaced, or whose folder is not there."""
    if not path.parent.is_dir():
        msg = f"There is no folder {path.parent} to write {path.name} to. Make it first: mkdir -p {path.parent}"
        raise ConfigurationError(msg)
    if path.exists() and not force:
        msg = (
            f"{path} is there already. Choose another path, or replace it with --force."
        )
        raise ConfigurationError(msg)
