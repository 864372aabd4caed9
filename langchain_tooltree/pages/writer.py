"""Write a run, a tool graph or an experience as a page to read in a browser.

A page is one HTML file that loads nothing from elsewhere. Long texts are shortened so
that a file stays below about 1 MB. A search has its own page: `SearchResult.to_html`.
"""

import os
from functools import partial
from pathlib import Path

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import FunctionStep, arun_flow, run_flow
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.pages.records import experience_page, graph_page, run_page
from langchain_tooltree.sitgraph.sit_graph import SITGraph

Viewable = Trajectory | SITGraph | Experience


def write_page(what: Viewable, path: str | os.PathLike[str]) -> None:
    """Write a run, a tool graph or an experience as an HTML page.

    The page of a run shows who said what, calls with their results, what was off, and
    the verdict. The page of a graph shows its edges with the states, tasks, sources and
    runs behind them. The page of an experience shows the runs of its namespace, and of
    no other, with verdicts, dialogues and tips; of many runs, the latest are listed.

    Args:
        what: The run, graph or experience to show.
        path: File to write. An existing file is overwritten.

    Raises:
        ConfigurationError: If `what` is something else.
    """
    run_flow(write_page_flow(what, path))


async def awrite_page(what: Viewable, path: str | os.PathLike[str]) -> None:
    """Async version of `write_page`."""
    await arun_flow(write_page_flow(what, path))


async def write_page_flow(what: Viewable, path: str | os.PathLike[str]) -> None:
    """Flow of `write_page` and `awrite_page`; other flows await it."""
    text = await render_page_flow(what)
    write_text = partial(Path(path).write_text, encoding="utf-8")
    await FunctionStep(write_text, text)


async def render_page_flow(what: Viewable) -> str:
    """Return the HTML page of a run, a tool graph or an experience.

    Raises:
        ConfigurationError: If `what` is something else.
    """
    if isinstance(what, Trajectory):
        return run_page(what)
    if isinstance(what, SITGraph):
        return what.read_graph(partial(graph_page, alpha=what.alpha))
    if isinstance(what, Experience):
        return await experience_page(await what.refresh_fold_flow())
    msg = (
        "write_page shows a Trajectory, a SITGraph or an Experience, got "
        f"{type(what).__name__}. A SearchResult has to_html."
    )
    raise ConfigurationError(msg)
