"""What the documentation's site needs beside its pages: notebooks, files from elsewhere, and links to the reference.

Links are written for readers on GitHub, relative to the file in which they stand. Here those that leave the pages are
led on: to the page that is made of a file, else to the file in the repository.
"""

import base64
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import langchain_tooltree
from langchain_tooltree import errors

logger = logging.getLogger(
    "mkdocs.hooks"
)  # of which a strict build counts the warnings

COOKBOOK = Path(__file__).resolve().parent
ROOT = COOKBOOK.parent
NOTEBOOKS = {
    path: f"notebooks/{path.stem}.md" for path in sorted(COOKBOOK.glob("*.ipynb"))
}
TEXTS = {
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / ".github" / "CONTRIBUTING.md": "contributing.md",
    ROOT / "langchain_tooltree" / "ARCHITECTURE.md": "architecture.md",
    ROOT / "tests" / "benchmarks" / "README.md": "benchmarks.md",
}
"""Texts that are pages of the site, and where."""
MADE = NOTEBOOKS | TEXTS
INCLUDED = {
    COOKBOOK / "README.md": "cookbook.md",
    ROOT / ".github" / "SECURITY.md": "safety.md",
}
"""Texts that stand within a page, in place of `<!-- include: path -->`."""

INCLUDE = re.compile(r"<!-- include: (\S+) -->")
ON_GITHUB = re.compile(r"^<!-- on GitHub -->\n.*?\n(?:\n|\Z)", re.DOTALL | re.MULTILINE)
"""A paragraph for readers on GitHub, of what only the site puts in."""
LINK = re.compile(
    r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)|(?<=\bsrc=\")(?!https?:|data:)([^\"#]+)"
)
"""Addresses of Markdown's links and images, and of images in HTML, that are no absolute ones."""

CHART = re.compile(r"^```mermaid\n.*?^```$", re.DOTALL | re.MULTILINE)
"""What GitHub draws, and a page that asks no other server for a script cannot."""
ANSI = re.compile(r"\x1b\[[0-9;]*m")
PICTURES = ("image/svg+xml", "image/png")
"""What a browser shows of an output, the best first."""

LEFT_ALONE = re.compile(r"(<a\b.*?</a>|<h\d.*?</h\d>)", re.DOTALL)
"""Links and headings, in which there are no links."""
ADDRESSES = {
    name: f"langchain_tooltree.{name}" for name in langchain_tooltree.__all__
} | {
    name: f"langchain_tooltree.errors.{name}"
    for name in vars(errors)
    if name.endswith("Error")
}
ERROR = re.compile(r"^### (\w+Error)$", re.MULTILINE)
"""A heading in whose place the site has what the reference says of an error."""
ADDRESSES |= {
    name: f"langchain_tooltree.effects.{name}" for name in ("sql_reads", "http_reads")
}
"""Where the reference has each public name."""
NAME = re.compile(rf"<code>({'|'.join(ADDRESSES)})(\(\))?</code>")
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)
FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\ssrc=["']?(?:https?:)?//[^>]*>
    |<link\b(?![^>]*rel=["']?canonical)[^>]*\shref=["']?(?:https?:)?//[^>]*>
    |@import\s+url\(["']?https?://[^)]*""",
    re.VERBOSE,
)
"""What a browser fetches by itself from another server."""


class Flows(griffe.Extension):
    """Show what a method returns that is written as a flow, and the name of its async twin."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Take `Flow[...]` off."""
        returned = func.returns
        if isinstance(returned, griffe.ExprSubscript) and str(returned.left) == "Flow":
            func.returns = returned.slice
            func.labels.add(f"async: a{func.name}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files from elsewhere, and the notebooks to the navigation."""
    titles: dict[str, str] = {}
    for path, uri in (NOTEBOOKS | TEXTS).items():
        text = notebook_text(path, config) if path in NOTEBOOKS else path.read_text()
        text = CHART.sub(
            f"[The chart]({config.repo_url}/blob/main/{path.relative_to(ROOT)}) is drawn on GitHub.",
            text,
        )
        files.append(
            File.generated(config, uri, content=relocated(text, path, uri, config))
        )
        titles[uri] = text.partition("\n")[0].lstrip("# ")
    index = (
        (COOKBOOK / "README.md").read_text()
        if (COOKBOOK / "README.md").exists()
        else ""
    )
    ordered = sorted(
        NOTEBOOKS,
        key=lambda path: (index.find(path.name) % (len(index) + 1), path.name),
    )
    for entry in config.nav or ():
        if "Cookbook" in entry:
            entry["Cookbook"] = [
                "cookbook.md",
                *({titles[NOTEBOOKS[path]]: NOTEBOOKS[path]} for path in ordered),
            ]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Put in what a page includes and what the reference says, and lead links on."""
    if page.file.abs_src_path is None:
        return markdown
    here = Path(page.file.abs_src_path)
    markdown = ON_GITHUB.sub("", markdown)
    if page.file.src_uri == "errors.md":
        markdown = ERROR.sub(lambda found: f"::: {ADDRESSES[found[1]]}", markdown)
    parts = INCLUDE.split(markdown)
    for at, part in enumerate(parts):
        source = (here.parent / part).resolve() if at % 2 else here
        text = (
            source.read_text().partition("\n")[2] if at % 2 else part
        )  # the page has a title of its own
        parts[at] = relocated(text, source, page.file.src_uri, config)
    return "".join(parts)


def relocated(text: str, source: Path, uri: str, config: MkDocsConfig) -> str:
    """A text that stands in one file, with links for a page at another address."""
    pages = Path(config.docs_dir)

    def moved(found: re.Match[str]) -> str:
        target = (source.parent / found[0]).resolve()
        if (made := (MADE | INCLUDED).get(target, uri)) != uri:
            address = made
        elif target.is_relative_to(pages) and target.suffix != ".py":
            address = target.relative_to(pages).as_posix()
        elif target.exists() and target.is_relative_to(ROOT):
            kind = "tree" if target.is_dir() else "blob"
            return (
                f"{config.repo_url}/{kind}/main/{target.relative_to(ROOT).as_posix()}"
            )
        else:
            return found[0]  # which the strict build then finds to lead nowhere
        return Path(os.path.relpath(address, Path(uri).parent)).as_posix()

    return LINK.sub(moved, text)


def notebook_text(path: Path, config: MkDocsConfig) -> str:
    """A notebook as Markdown, with the outputs that it was saved with."""
    cells = json.loads(path.read_text())["cells"]
    parts: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts += [fenced(source, "python"), *outputs_of(cell)]
    first, *rest = parts
    title, _, more = first.partition("\n")
    link = f"This page is the notebook [{path.name}]({config.repo_url}/blob/main/cookbook/{path.name})."
    return "\n\n".join((title, link, more.strip(), *rest)) + "\n"


def outputs_of(cell: Mapping[str, Any]) -> Iterator[str]:
    """The outputs of a cell as Markdown."""
    for output in cell["outputs"]:
        data = output.get("data", {})
        picture = next((kind for kind in PICTURES if kind in data), None)
        if picture:
            held = "".join(data[picture])
            encoded = (
                held.replace("\n", "")
                if picture == "image/png"
                else base64.b64encode(held.encode()).decode()
            )
            yield f'<img class="output" alt="Output of the cell above" src="data:{picture};base64,{encoded}">'
        elif "text/html" in data:
            yield f'<div class="output">{"".join(data["text/html"])}</div>'
        else:
            text = "".join(output.get("text", data.get("text/plain", ()))) or "\n".join(
                output.get("traceback", ())
            )
            yield fenced(ANSI.sub("", text), "text")


def fenced(text: str, language: str) -> str:
    """A block of code, which may hold fences itself."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Link each public name in the text to its place in the reference, and have browsers draw formulas themselves."""

    def drawn(found: re.Match[str]) -> str:
        return convert(
            unescape(found[2]).strip(),
            display="inline" if found[1] == "span" else "block",
        )

    def link(found: re.Match[str]) -> str:
        return f'<autoref identifier="{ADDRESSES[found[1]]}">{found[0]}</autoref>'

    html = FORMULA.sub(drawn, html)
    if (
        page.file.src_uri in TEXTS.values()
    ):  # they speak of files, some of which are named alike
        return html
    parts = LEFT_ALONE.split(html)
    return "".join(
        part if at % 2 else NAME.sub(link, part) for at, part in enumerate(parts)
    )


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Have a page ask nobody else's server for anything; where it still would, the strict build fails."""
    output = output.replace(
        ' data-md-component="source"', ""
    )  # would ask GitHub for its numbers of stars
    for foreign in FOREIGN.findall(output):
        logger.warning(
            "%s loads something from elsewhere: %s", page.file.src_uri, foreign
        )
    return output
