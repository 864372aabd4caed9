"""Pictures of a search: Mermaid for documents, a tree for the terminal. `tree_svg` draws the same in SVG.

They are drawn of a search as plain data (`SearchResult.to_dict()`), so that one that was saved looks like a live one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_tooltree.experience.records import readable
from langchain_tooltree.svg import visible_lines
from langchain_tooltree.text import mermaid_text, one_line
from langchain_tooltree.tooltree.search import Call

if TYPE_CHECKING:
    from rich.tree import Tree as TerminalTree

REASONS = {"pre_evaluation": "pruned before", "top_k": "pruned before: not in top k", "post_evaluation": "pruned after"}
"""Why a node was pruned, for people."""

MAX_LABEL = 60
"""Characters of a call in a picture: one line of a box."""

MAX_OBSERVATION = 70
"""Characters of an observation in a terminal: with its indentation, it stays on one line of 100."""


def to_mermaid(found: Mapping[str, Any]) -> str:
    """A search as a Mermaid flowchart, the nodes of the best path marked."""
    nodes, best = found["nodes"], found["best"]
    lines = ["flowchart TD", '  n0(["request"])']
    links: list[str] = []
    for node in nodes[1:]:
        shown = (mermaid_text(one_line(label(node), MAX_LABEL)), figures(node), mermaid_text(status(node)))
        text = "<br/>".join(filter(None, shown))
        left, right = ("[/", "/]") if node["call"]["effect"] == "write" else ("[", "]")
        lines.append(f'  n{node["id"]}{left}"{text}"{right}')
        arrow = "==>" if node["id"] in best else "-.->" if node["pruned"] else "-->"
        links.append(f"  n{node['parent']} {arrow} n{node['id']}")
    lines.extend(links)
    lines.append("  classDef best fill:#d3f9d8,stroke:#2b8a3e,stroke-width:2px")
    lines.append("  classDef pruned fill:#f1f3f5,stroke:#adb5bd,color:#868e96")
    if marked := [f"n{node['id']}" for node in nodes if node["id"] in best]:
        lines.append(f"  class {','.join(marked)} best")
    if cut := [f"n{node['id']}" for node in nodes if node["pruned"]]:
        lines.append(f"  class {','.join(cut)} pruned")
    return "\n".join(lines)


def to_rich(found: Mapping[str, Any]) -> "TerminalTree":
    """A search as a tree that `rich.print` shows, the nodes of the best path marked."""
    from rich.tree import Tree as TerminalTree  # noqa: PLC0415 - only who prints a tree needs rich

    drawn = TerminalTree("[bold]request[/bold]", guide_style="dim")
    branches = {0: drawn}
    for node in found["nodes"][1:]:
        branches[node["id"]] = branches[node["parent"]].add(_terminal_label(node, is_best=node["id"] in found["best"]))
    return drawn


def _terminal_label(node: Mapping[str, Any], *, is_best: bool) -> str:
    from rich.markup import escape  # noqa: PLC0415 - as above

    call = escape(one_line(label(node), MAX_LABEL))
    style = "bold green" if is_best else "dim" if node["pruned"] else "default"
    lines = [f"[{style}]{'✔ ' if is_best else ''}{call}[/]"]
    if node["observation"]:
        lines.append(f"[dim]{escape(one_line(seen(node), MAX_OBSERVATION))}[/]")
    known = f"[cyan]{figures(node)}[/]" if figures(node) else ""
    note = f"[yellow]{escape(status(node))}[/]" if status(node) else ""
    lines.append("  ".join(filter(None, (known, note))))
    return visible_lines("\n".join(filter(None, lines)))  # whatever console prints it


def recovery(found: Mapping[str, Any]) -> str:
    """The story of an answer that came too early, if there is one."""
    nodes, best = found["nodes"], found["best"]
    early = next((node for node in nodes if "answer" in node and node.get("missing")), None)
    if early is None or not best or early["id"] == best[-1]:
        return ""
    way = [early]
    while way[0]["parent"] is not None:
        way.insert(0, nodes[way[0]["parent"]])
    after = " then ".join(label(node) for node in way[1:]) or "nothing"
    siblings = Counter(node["parent"] for node in nodes)
    alone = not any(node["scored"][0] or siblings[node["parent"]] > 1 for node in way[1:])  # nothing was weighed before
    said = "the agent by itself would have ended with" if alone else "this answer was not accepted:"
    missing, plan = "; ".join(early["missing"]), " → ".join(nodes[node]["call"]["tool"] for node in best)
    return f"Recovered: after {after} {said} {early['answer']!r} (missing: {missing}). The plan: {plan}."


def label(node: Mapping[str, Any]) -> str:
    """The call of a node in one line."""
    return Call.model_validate(node["call"]).label


def seen(node: Mapping[str, Any]) -> str:
    """What a call has brought back, as text."""
    return readable(node["observation"]["content"]) if node["observation"] else ""


def figures(node: Mapping[str, Any]) -> str:
    """Q, N, r_pre, r_post and goal score of a node; a score that nobody gave is left out."""
    pre_scored, post_scored = node["scored"]
    parts = []
    if node["N"]:
        parts.append(f"Q={node['Q']:.2f} N={node['N']}")
    if node["r_pre"] is not None and pre_scored:
        parts.append(f"r_pre={node['r_pre']:.2f}")
    if node["r_post"] is not None and post_scored:
        parts.append(f"r_post={node['r_post']:.2f}")
    if node["goal"] is not None:
        parts.append(f"goal={node['goal']:.2f}")
    return " ".join(parts)


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
