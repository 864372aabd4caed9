"""A search as a page to explore: what the page is given of each call. `page.html` shows it."""

import json
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from langchain_tooltree.pages.draw import fate, figures, label, seen
from langchain_tooltree.pages.page import longest_text, page
from langchain_tooltree.text import LONGEST_TEXT, one_line, plain, shortened, shortened_in

ROOM = 600_000  # characters of arguments, results and answers in a page: with what else it holds, it stays below 1 MB
LEAST_TEXT = 120  # characters that are shown of a text however many there are
MAX_LABEL = 200  # characters of a call in one line: the picture shows fewer, and its arguments stand beside it
MOST_DROPPED = 20  # proposals that came to nothing and are named


def to_html(found: Mapping[str, Any]) -> str:
    """A search, as `SearchResult.to_dict()` gives it, as one page without references to elsewhere."""
    nodes = found["nodes"]
    longest = longest_text(chain.from_iterable(map(_texts, nodes)), ROOM, LEAST_TEXT)
    data = {
        "query": shortened(found["query"], 20 * LONGEST_TEXT),
        "stop_reason": found["stop_reason"],
        "cost": found["cost"],
        "plan": found["best"],
        "alternatives": found["alternatives"],
        "history": found["history"],
        "nodes": [_shown(node, longest) for node in nodes],
    }
    return page("search", f"Search: {one_line(found['query'], MAX_LABEL)}", plain(data))


def _texts(node: Mapping[str, Any]) -> list[str]:
    arguments = _written(node["call"]["arguments"]) if node["call"] else ""
    others = (*node.get("reasons", {}).values(), *node.get("missing", ()), *node["dropped"][:MOST_DROPPED])
    return [arguments, seen(node), node.get("answer", ""), *others]


def _written(arguments: Any) -> str:
    return json.dumps(arguments, default=str, ensure_ascii=False)


def _shown(node: Mapping[str, Any], longest: int) -> dict[str, Any]:
    call, observation = node["call"], node["observation"]
    told: dict[str, Any] = {"id": node["id"], "parent": node["parent"]}
    if call:
        arguments = shortened_in(call["arguments"], longest)
        if len(written := _written(arguments)) > 2 * longest + MAX_LABEL:  # of many values, or long names
            arguments = shortened(written, longest)
        told |= {"tool": shortened(call["tool"], MAX_LABEL), "arguments": arguments, "effect": call["effect"]}
        told["label"] = one_line(label(node), MAX_LABEL)
    if observation:
        told |= {"seen": shortened(seen(node), longest), "kind": observation.get("kind", "ok")}
    scored = zip(("r_pre", "r_post", "goal"), (*node["scored"], True), strict=True)
    told["scores"] = {name: node[name] for name, given in scored if given and node[name] is not None}
    if node["N"]:
        told["scores"] |= {"Q": node["Q"], "N": node["N"]}
    dropped = Counter(shortened(text, longest) for text in node["dropped"][:MOST_DROPPED])
    extra = {
        "figures": figures(node),
        "fate": fate(node),
        "pruned": node["pruned"],
        "reasons": {name: shortened(reason, longest) for name, reason in node.get("reasons", {}).items()},
        "missing": [shortened(each, longest) for each in node.get("missing", [])],
        "dropped": [f"{text} ({times} times)" if times > 1 else text for text, times in dropped.items()],
        **({"answer": shortened(node["answer"], longest)} if "answer" in node else {}),
    }
    return told | {name: value for name, value in extra.items() if value or name == "answer"}
