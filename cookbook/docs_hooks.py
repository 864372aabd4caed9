"""What the documentation's site needs beside its pages: the notebooks, and links to the reference."""

import logging
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import langchain_tooltree
from langchain_tooltree import errors

logger = logging.getLogger("mkdocs.hooks")  # of which a strict build counts the warnings

HERE = Path(__file__).parent
LEFT_ALONE = re.compile(r"(<a\b.*?</a>|<h\d.*?</h\d>)", re.DOTALL)
"""Links and headings, in which there are no links."""
ADDRESSES = {name: f"langchain_tooltree.{name}" for name in langchain_tooltree.__all__} | {
    name: f"langchain_tooltree.errors.{name}" for name in vars(errors) if name.endswith("Error")
}
"""Where the reference has each public name."""
NAME = re.compile(rf"<code>({'|'.join(ADDRESSES)})(\(\))?</code>")


FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\ssrc=["']?(?:https?:)?//[^>]*>
    |<link\b(?![^>]*rel=["']?canonical)[^>]*\shref=["']?(?:https?:)?//[^>]*>
    |@import\s+url\(["']?https?://[^)]*""",
    re.VERBOSE,
)
"""What a browser fetches by itself from another server."""


class Flows(griffe.Extension):
    """Show what a method returns that is written as a flow: its sync and its async form return what the flow does."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Take `Flow[...]` off."""
        returned = func.returns
        if isinstance(returned, griffe.ExprSubscript) and str(returned.left) == "Flow":
            func.returns = returned.slice


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Have a page ask nobody else's server for anything; where it still would, the strict build fails."""
    output = output.replace(' data-md-component="source"', "")  # would ask GitHub for its numbers of stars
    for foreign in FOREIGN.findall(output):
        logger.warning("%s loads something from elsewhere: %s", page.file.src_uri, foreign)
    return output


def on_page_content(html: str, **_: Any) -> str:
    """Link each public name in the text to its place in the reference."""

    def link(found: re.Match[str]) -> str:
        return f'<autoref identifier="{ADDRESSES[found[1]]}">{found[0]}</autoref>'

    parts = LEFT_ALONE.split(html)
    return "".join(part if at % 2 else NAME.sub(link, part) for at, part in enumerate(parts))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add `cookbook/*.ipynb` as `notebooks/*`."""
    for notebook in sorted(HERE.glob("*.ipynb")):
        files.append(added(notebook, f"notebooks/{notebook.name}", config))
    return files


def added(path: Path, uri: str, config: MkDocsConfig) -> Any:
    """A file from elsewhere, under an address of the site."""
    file = File.generated(config, uri, abs_src_path=str(path))
    file.edit_uri = None
    return file
