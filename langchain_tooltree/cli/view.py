"""`langchain-tooltree view`: a search or a graph in a browser."""

import argparse
import webbrowser
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from langchain_tooltree.cli.show import looked_at, write_picture
from langchain_tooltree.cli.terminal import Terminal
from langchain_tooltree.errors import ConfigurationError

SHOWN_BY_BROWSERS = (".html", ".svg")
"""Endings of the pictures that a browser opens, the best first."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Draw it to a file that only this user can read, and open that."""
    told, _, pictures = looked_at(options)
    ending = next((each for each in SHOWN_BY_BROWSERS if each in pictures), None)
    if ending is None:
        msg = (
            f"There is no page of {options.what}: view is for searches and graphs. `langchain-tooltree show` prints it."
        )
        raise ConfigurationError(msg)
    page = Path(mkdtemp(prefix="tooltree-")) / f"{told['kind']}{ending}"
    write_picture(pictures, page)
    opened = webbrowser.open(page.as_uri())
    terminal.print("Opened in your browser:" if opened else "Open this file in a browser:")
    terminal.print(str(page), markup=False, highlight=False, soft_wrap=True)
    return {"kind": told["kind"], "page": str(page), "opened": opened}, 0
