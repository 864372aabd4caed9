"""Pictures of a search tree: Mermaid for documents, a tree for the terminal."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from langchain_tooltree.experience.records import readable
from langchain_tooltree.text import mermaid_text, one_line
from langchain_tooltree.tooltree.search import Node, Tree

if TYPE_CHECKING:
    from rich.tree import Tree as TerminalTree

REASONS = {
    "pre_evaluation": "pruned before",
    "top_k": "pruned before: not in top k",
    "post_evaluation": "pruned after",
}
"""Why a node was pruned, for people."""

MAX_LABEL = 60
"""Characters of a call in a picture: one line of a box."""

MAX_OBSERVATION = 70
"""Characters of an observation in a terminal: with its indentation, it stays on one line of 100."""


def to_mermaid(tree: Tree, best: Collection[int] = ()) -> str:
    """A tree as a Mermaid flowchart, the nodes of the best path marked."""
    lines = ["flowchart TD", '  n0(["request"])']
    links: list[str] = []
    for node in tree.nodes[1:]:
        shown = (mermaid_text(one_line(node.label, MAX_LABEL)), figures(node), mermaid_text(status(node)))
        text = "<br/>".join(filter(None, shown))
        left, right = ("[/", "/]") if node.deferred else ("[", "]")
        lines.append(f'  n{node.id}{left}"{text}"{right}')
        arrow = "==>" if node.id in best else "-.->" if node.pruned else "-->"
        links.append(f"  n{node.parent} {arrow} n{node.id}")
    lines.extend(links)
    lines.append("  classDef best fill:#d3f9d8,stroke:#2b8a3e,stroke-width:2px")
    lines.append("  classDef pruned fill:#f1f3f5,stroke:#adb5bd,color:#868e96")
    if marked := [f"n{node.id}" for node in tree.nodes if node.id in best]:
        lines.append(f"  class {','.join(marked)} best")
    if cut := [f"n{node.id}" for node in tree.nodes if node.pruned]:
        lines.append(f"  class {','.join(cut)} pruned")
    return "\n".join(lines)


def to_rich(tree: Tree, best: Collection[int] = ()) -> "TerminalTree":
    """A tree that `rich.print` shows, the nodes of the best path marked."""
    from rich.tree import Tree as TerminalTree  # noqa: PLC0415 - only who prints a tree needs rich

    drawn = TerminalTree("[bold]request[/bold]", guide_style="dim")
    branches = {0: drawn}
    for node in tree.nodes[1:]:
        branches[node.id] = branches[node.parent or 0].add(_terminal_label(node, best))
    return drawn


def _terminal_label(node: Node, best: Collection[int]) -> str:
    from rich.markup import escape  # noqa: PLC0415 - as above

    call = escape(one_line(node.label, MAX_LABEL))
    style = "bold green" if node.id in best else "dim" if node.pruned else "default"
    tick = "✔ " if node.id in best else ""
    lines = [f"[{style}]{tick}{call}[/]"]
    if node.observation:
        seen = one_line(readable(node.observation.content), MAX_OBSERVATION)
        lines.append(f"[dim]{escape(seen)}[/]")
    known = f"[cyan]{figures(node)}[/]" if figures(node) else ""
    note = f"[yellow]{escape(status(node))}[/]" if status(node) else ""
    lines.append("  ".join(filter(None, (known, note))))
    return "\n".join(filter(None, lines))


def figures(node: Node) -> str:
    """Q, N, r_pre, r_post and goal score of a node; a score that nobody gave is left out."""
    parts = []
    if node.visits:
        parts.append(f"Q={node.value:.2f} N={node.visits}")
    if node.r_pre is not None and node.pre_scored:
        parts.append(f"r_pre={node.r_pre:.2f}")
    if node.r_post is not None and node.post_scored:
        parts.append(f"r_post={node.r_post:.2f}")
    if node.goal is not None:
        parts.append(f"goal={node.goal:.2f}")
    return " ".join(parts)


def status(node: Node) -> str:
    """What became of a node, if that is worth a word."""
    failed = node.observation is not None and node.observation.kind != "ok"
    answered = f"answered, missing: {'; '.join(node.missing)}" if node.missing else "answered"
    notes = [
        "in the same reply" if node.batched else "",
        "write, not run" if node.deferred else "",
        REASONS[node.pruned] if node.pruned else node.observation.kind if failed and node.observation else "",
        one_line(answered, MAX_LABEL) if node.answer is not None else "",
    ]
    return ", ".join(filter(None, notes))
