"""Fills the template of all pages: one file that holds its data, its script and its style, and asks nobody for more."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from langchain_tooltree.secrets import masked
from langchain_tooltree.svg import visible
from langchain_tooltree.text import cut

MAX_TITLE = 120
"""Characters of a page's title, of which a browser shows fewer."""

MAX_IN_NOTEBOOK = 300_000
"""Characters of a page that a notebook shows and saves: about 100 calls. A picture stands for longer ones."""

_INCLUDED = re.compile(r"/\* include ([a-z.]+) \*/\n")
"""Where the text of another file in this folder stands."""

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page(kind: str, title: str, data: Mapping[str, Any]) -> str:
    """Data, without secrets, as a page that runs its own script alone and may send nothing anywhere.

    `kind` chooses the view in that script: `search`, `graph`, `run`, `experience` or `list`.
    """
    text = _INCLUDED.sub(lambda include: _read(include[1]), _read("page.html"))
    hashes = {tag: _hash(inside) for tag, inside in _INLINE.findall(text)}
    policy = (
        f"default-src 'none'; script-src '{hashes['script']}'; style-src '{hashes['style']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    name = escape(visible(cut(masked(title), MAX_TITLE)))
    parts = {"{title}": name, "{policy}": policy, "{data}": as_json({**masked(data), "kind": kind})}
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


def data_in(page: str) -> str:
    """The data of a page, as JSON."""
    found = _DATA.search(page)
    return found[1] if found else "null"


def longest_text(texts: Iterable[str], room: int, least: int) -> int:
    """The longest text for which there is room, so that long ones are shortened before short ones; at least `least`."""
    lengths = sorted(map(len, texts))
    left = room
    for place, length in enumerate(lengths):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, least)
        left -= length
    return room


def as_json(data: Any) -> str:
    """Data as JSON that cannot end the element of a page that it stands in; any character survives."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, default=str, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a Content-Security-Policy knows an inline script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
