"""Pictures of a search: Mermaid for documents, a tree for the terminal. `tree_svg` draws the same in SVG.

They are drawn of a search as plain data (`SearchResult.to_dict()`), so that one that was saved looks like a live one.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_tooltree.experience.records import readable
from langchain_tooltree.svg import visible_lines
from langchain_tooltree.text import mermaid_text, one_line

REASONS = {"pre_evaluation": "pruned before", "top_k": "pruned before: not in top k", "post_evaluation": "pruned after"}
if TYPE_CHECKING:
    from rich.tree import Tree

MAX_LABEL = 60  # characters of a call in a picture: one line of a box
MAX_OBSERVATION = 70  # characters of an observation in a terminal: with its indentation, it stays on one line of 100


def to_mermaid(search: Mapping[str, Any]) -> str:
    """A search as a Mermaid flowchart, the nodes of the best path marked."""
    nodes, best = search["nodes"], search["best"]
    lines, links = ["flowchart TD", '  n0(["request"])'], list[str]()
    for node in nodes[1:]:
        shown = (mermaid_text(one_line(label(node), MAX_LABEL)), figures(node), mermaid_text(status(node)))
        text = "<br/>".join(filter(None, shown))
        left, right = ("[/", "/]") if node["call"]["effect"] == "write" else ("[", "]")
        lines.append(f'  n{node["id"]}{left}"{text}"{right}')
        arrow = "==>" if node["id"] in best else "-.->" if node["pruned"] else "-->"
        links.append(f"  n{node['parent']} {arrow} n{node['id']}")
    lines += [*links, "  classDef best fill:#d3f9d8,stroke:#2b8a3e,stroke-width:2px"]
    lines.append("  classDef pruned fill:#f1f3f5,stroke:#adb5bd,color:#868e96")
    for look, ids in (("best", best), ("pruned", [node["id"] for node in nodes if node["pruned"]])):
        if ids:
            lines.append(f"  class {','.join(f'n{each}' for each in ids)} {look}")
    return "\n".join(lines)


def to_rich(search: Mapping[str, Any]) -> "Tree":
    """A search as a tree that `rich.print` shows, the nodes of the best path marked."""
    from rich.markup import escape  # noqa: PLC0415 - only who looks at a search in a terminal needs it
    from rich.tree import Tree  # noqa: PLC0415 - as above

    branches = {0: Tree("[bold]request[/bold]", guide_style="dim")}
    for node in search["nodes"][1:]:
        is_best = node["id"] in search["best"]
        style = "bold green" if is_best else "dim" if node["pruned"] else "default"
        scores, fate = figures(node), status(node)
        notes = (f"[cyan]{scores}[/]" if scores else "", f"[yellow]{escape(fate)}[/]" if fate else "")
        lines = (
            f"[{style}]{'✔ ' if is_best else ''}{escape(one_line(label(node), MAX_LABEL))}[/]",
            f"[dim]{escape(one_line(seen(node), MAX_OBSERVATION))}[/]" if node["observation"] else "",
            "  ".join(filter(None, notes)),
        )
        text = visible_lines("\n".join(filter(None, lines)))  # whatever console prints it
        branches[node["id"]] = branches[node["parent"]].add(text)
    return branches[0]


def label(node: Mapping[str, Any]) -> str:
    """The call of a node in one line."""
    arguments = node["call"]["arguments"].items()
    written = (f"{name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in arguments)
    return f"{node['call']['tool']}({', '.join(written)})"


def seen(node: Mapping[str, Any]) -> str:
    """What a call has brought back, as text."""
    return readable(node["observation"]["content"]) if node["observation"] else ""


def figures(node: Mapping[str, Any]) -> str:
    """Q, N, r_pre, r_post and goal score of a node; a score that nobody gave is left out."""
    pre_scored, post_scored = node["scored"]
    given = (("r_pre", pre_scored), ("r_post", post_scored), ("goal", True))
    parts = [f"{name}={node[name]:.2f}" for name, scored in given if scored and node[name] is not None]
    return " ".join([f"Q={node['Q']:.2f} N={node['N']}", *parts] if node["N"] else parts)


def status(node: Mapping[str, Any]) -> str:
    """What became of a node, if that is worth a word."""
    missing = "; ".join(node.get("missing", ()))
    answered = one_line(f"answered, missing: {missing}" if missing else "answered", MAX_LABEL)
    return ", ".join(filter(None, (fate(node), answered if "answer" in node else "")))


def fate(node: Mapping[str, Any]) -> str:
    """What became of the call of a node, answers aside."""
    notes = [
        "in the same reply" if node.get("batched") else "",
        "write, not run" if node["call"] and node["call"]["effect"] == "write" else "",
        REASONS[node["pruned"]] if node["pruned"] else (node["observation"] or {}).get("kind", ""),
    ]
    return ", ".join(filter(None, notes))
