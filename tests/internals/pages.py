"""Searches as plain data to draw, and what is checked of any page."""

import base64
import hashlib
import json
import re
from typing import Any

COSTS = (
    "model_calls",
    "tokens",
    "tool_calls",
    "rollouts",
    "nodes",
    "cache_hits",
    "pruned_before",
    "pruned_after",
)


def made(
    tool: str | None = "look",
    *,
    parent: int | None = 0,
    effect: str = "read",
    **values: Any,
) -> dict[str, Any]:
    """A node of a search as `SearchResult.to_dict()` has it, its `id` aside; `seen` is what its call brought back."""
    call = {
        "tool": tool,
        "arguments": values.pop("arguments", {"at": tool}),
        "effect": effect,
    }
    kind = {"kind": values.pop("kind")} if "kind" in values else {}
    observation = {"content": values.pop("seen"), **kind} if "seen" in values else None
    known = {
        "r_pre": None,
        "r_post": None,
        "goal": None,
        "scored": [True, True],
        "N": 0,
        "Q": 0.0,
    }
    rest = {"world": "", "proposals": 0, "dropped": [], "pruned": None, "closed": False}
    return {
        "parent": parent,
        "call": None if tool is None else call,
        "observation": observation,
        **known,
        **rest,
        **values,
    }


def search_of(
    *nodes: dict[str, Any], query: str = "Go on.", **values: Any
) -> dict[str, Any]:
    """A search as `SearchResult.to_dict()` has it: the request and some nodes, which get the ids 1, 2, ..."""
    numbered = [
        {"id": place, **node}
        for place, node in enumerate((made(None, parent=None), *nodes))
    ]
    told = {
        "query": query,
        "stop_reason": "solved",
        "best": [],
        "cost": dict.fromkeys(COSTS, 0),
        "nodes": numbered,
    }
    return {**told, "history": [], "alternatives": [], **values}


def data_in(page: str) -> Any:
    """The data of a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def check_asks_nobody(page: str) -> None:
    """A page may run its own script alone, and names nothing that lies elsewhere."""
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"default-src 'none'; script-src 'sha256-{known}'; style-src 'sha256-" in page
    )
    assert "/* include" not in page
    markup = re.sub(
        r"<script.*?</script>|<style>.*?</style>|<title>[^<]*</title>",
        "",
        page,
        flags=re.DOTALL,
    )
    assert re.findall(r'href="(?!data:,")', markup) == []
    assert (
        re.findall(r"<(?:img|iframe|script)\b|\s(?:src|srcset|style|on\w+)=", markup)
        == []
    )
    found = re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch\(|https?:|import\(",
        script,
    )
    assert found == []
