"""Fills the template of all pages: one file that holds its data, its script and its style, and asks nobody for more."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from langchain_tooltree.secrets import masked
from langchain_tooltree.svg import visible
from langchain_tooltree.text import one_line, plain, shortened_in

ROOM = 500_000
"""Characters of texts in a page: with what else it holds, it stays below 1 MB."""

LEAST_TEXT = 120
"""Characters that are shown of a text however many there are."""

MAX_IN_NOTEBOOK = 300_000
"""Characters of a page that a notebook shows and saves: about 100 calls. A picture stands for longer ones."""

MAX_CELL = 200
"""Characters of a text in a table."""

_INCLUDED = re.compile(r"/\* include ([a-z.]+) \*/\n")
"""Where the text of another file in this folder stands."""

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page(kind: str, title: str, data: Mapping[str, Any]) -> str:
    """Data as a page that runs its own script alone and may send nothing anywhere; without secrets.

    `kind` chooses the view in that script: `search`, `graph`, `run`, `experience` or `list`. Where texts would make the
    page larger than 1 MB, long ones are shortened.
    """
    text = _INCLUDED.sub(lambda include: _read(include[1]), _read("page.html"))
    hashes = {tag: _hash(inside) for tag, inside in _INLINE.findall(text)}
    policy = (
        f"default-src 'none'; script-src '{hashes['script']}'; style-src '{hashes['style']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = plain(data)
    shown = masked(shortened_in(data, _longest(sorted(map(len, _texts_in(data))))))
    name = escape(visible(masked(title)))
    written = json.dumps({**shown, "kind": kind}, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":  # with which data could end the element that they stand in
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    parts = {"{title}": name, "{policy}": policy, "{data}": written}
    return re.sub("|".join(map(re.escape, parts)), lambda place: parts[place[0]], text)


def followed(page: str, version: str) -> str:
    """A page as its server gives it: it asks that server, and may ask nobody else, for what is newer than a version."""
    script = _read("watch.js")
    for before, after in (
        ("default-src 'none'; script-src '", f"default-src 'none'; connect-src 'self'; script-src '{_hash(script)}' '"),
        ('<html lang="en">', f'<html lang="en" data-version="{version}">'),
        ("</body>", f"<script>{script}</script>\n</body>"),
    ):
        page = page.replace(before, after, 1)
    return page


def in_notebook(page: str) -> str | None:
    """A page as a notebook shows it: in a frame that reaches nothing of the notebook's; `None` if it is too long."""
    if len(page) > MAX_IN_NOTEBOOK:
        return None
    style = "width: 100%; height: 600px; border: 1px solid #8888; border-radius: 6px"
    return f'<iframe title="Page to explore" sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'


def table(rows: Mapping[str, Any]) -> str:
    """A table as a notebook shows it: plain HTML without scripts, styles or pictures, which every viewer leaves so."""
    cells = (
        f"<tr><th>{escape(name)}</th><td>{escape(visible(one_line(str(each), MAX_CELL)))}</td></tr>"
        for name, each in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"


def data_in(page: str) -> str:
    """The data of a page, as JSON."""
    return page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]


def _texts_in(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for each in data.values() if isinstance(data, dict) else data:
            yield from _texts_in(each)


def _longest(lengths: list[int]) -> int:
    """The longest text for which there is room, so that long ones are shortened before short ones."""
    left = ROOM
    for place, length in enumerate(lengths):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, LEAST_TEXT)
        left -= length
    return ROOM


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a Content-Security-Policy knows an inline script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
