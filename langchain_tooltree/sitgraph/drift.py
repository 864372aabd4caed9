"""What has become of the tools that the graph knows. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.transitions import START, SUMMARIZE_STATE


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The tools of a graph beside those that an agent has now.

    Attributes:
        removed: Tools that the graph knows and the agent has no more; they are not suggested.
        added: Tools that the agent has and the graph knows nothing of.
        changed: Tools that take other arguments than when the graph was mined.
        renamed: For tools of `removed`, the one of `added` that takes the same arguments: candidates for `aliases`.
        dead_ends: Tools of the agent after which only removed ones came.
        unknown: Tools of both whose schema the graph does not know, so that a change could not be seen.
        lost: Share of all transitions that lead to a removed tool, in [0, 1].
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: Mapping[str, str]
    dead_ends: tuple[str, ...]
    unknown: tuple[str, ...]
    lost: float

    @property
    def healthy(self) -> bool:
        """Whether nothing that the graph knows has been removed or changed."""
        return not self.removed and not self.changed


def drift(graph: Graph, tools: Mapping[str, str]) -> DriftReport:
    """Compare a graph with the tools of an agent.

    Args:
        graph: The graph.
        tools: The tools now, as hash of the schema by name; an empty hash is not compared.

    Returns:
        The report.
    """
    followed = Counter[str]()
    leads_to: dict[str, set[str]] = {}
    for source, outgoing in graph.edges():
        names = [graph.names[target] for target in outgoing.targets.tolist()]
        followed.update(dict(zip(names, outgoing.counts.tolist(), strict=True)))
        leads_to[source] = set(names)
    known = {*followed, *leads_to} - {START}
    removed, added = sorted(known - tools.keys()), sorted(tools.keys() - known - {SUMMARIZE_STATE})
    schemas: dict[str, set[str]] = {}
    for toolset in graph.toolsets():
        for name, schema in toolset.items():
            if schema:
                schemas.setdefault(name, set()).add(schema)
    shared = [name for name in sorted(known & tools.keys()) if tools[name] and name in schemas]
    alike = {old: [new for new in added if tools[new] and tools[new] in schemas.get(old, ())] for old in removed}
    total = followed.total()
    return DriftReport(
        removed=tuple(removed),
        added=tuple(added),
        changed=tuple(name for name in shared if tools[name] not in schemas[name]),
        renamed={old: new[0] for old, new in alike.items() if len(new) == 1},
        dead_ends=tuple(name for name in sorted(leads_to) if name in tools and not leads_to[name] & tools.keys()),
        unknown=tuple(name for name in sorted(known & tools.keys()) if name not in schemas),
        lost=sum(followed[name] for name in removed) / total if total else 0.0,
    )
