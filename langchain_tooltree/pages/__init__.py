"""Pages to explore in a browser: one template for all, filled with data. Each is one file that asks nobody for more."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from langchain_tooltree.secrets import masked
from langchain_tooltree.text import shortened_in, to_plain_data, visible

ROOM = 900_000  # characters of a page's data: with the script and the style it stays below 1 MB
LENGTHS = (
    20_000,
    10_000,
    5_000,
    2_000,
    1_000,
    500,
    120,
)  # of the longest text in a page, until there is room for all
MAX_IN_NOTEBOOK = (
    300_000  # characters of a page that a notebook saves: about 100 calls of a search
)

_INCLUDED = re.compile(
    r"/\* include ([a-z.]+) \*/\n"
)  # where the text of another file in this folder stands
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page(kind: str, title: str, data: Mapping[str, Any]) -> str:
    """Data as a page that runs its own script alone and may send nothing anywhere; without secrets.

    `kind` chooses the view in that script: `search`, `graph`, `run`, `experience`, `list` or `compare`. Where texts
    would make the page larger than 1 MB, long ones are shortened.
    """
    text = _INCLUDED.sub(
        lambda include: _read_asset(include[1]), _read_asset("page.html")
    )
    hashes = {tag: _hash(inside) for tag, inside in _INLINE.findall(text)}
    policy = (
        f"default-src 'none'; script-src '{hashes['script']}'; style-src '{hashes['style']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    shown, written = masked(to_plain_data({**data, "kind": kind})), ""
    for longest in LENGTHS:
        written = json.dumps(
            shortened_in(shown, longest), allow_nan=False, separators=(",", ":")
        )
        if len(written) <= ROOM:
            break
    for sign in "<>&":  # with which data could end the element that they stand in
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    parts = {
        "{title}": escape(visible(masked(title))),
        "{policy}": policy,
        "{data}": written,
    }
    return re.sub("|".join(map(re.escape, parts)), lambda place: parts[place[0]], text)


def in_notebook(page: str) -> str | None:
    """A page as a notebook shows it: in a frame that reaches nothing of the notebook's; `None` if it is too long."""
    if len(page) > MAX_IN_NOTEBOOK:
        return None
    style = "width: 100%; height: 600px; border: 1px solid #8888; border-radius: 6px"
    return f'<iframe title="Page to explore" sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'


def _read_asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a Content-Security-Policy knows an inline script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
