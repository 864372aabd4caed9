"""What has become of the tools that the graph knows: their schemas, and the report on them."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree.experience.reference import SUMMARIZE_STATE
from langchain_tooltree.experience.run_identity import GivenTools, names_of
from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.text import digest


def toolset_of(tools: GivenTools) -> dict[str, str]:
    """By name, a hash of the JSON schema of the arguments; empty for a tool that is given by name alone."""
    tools = tools if isinstance(tools, str) else list(tools)
    return dict(zip(names_of(tools), map(_hash_of, tools), strict=True))


def _hash_of(tool: Any) -> str:
    schema = None
    if isinstance(tool, Mapping):
        function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        schema = function.get("parameters", function.get("input_schema"))
    elif not isinstance(tool, str):
        with suppress(TypeError, ValueError, NameError):  # its arguments cannot be described
            schema = convert_to_openai_tool(tool)["function"].get("parameters")
    return schema_hash(schema) if schema is not None else ""


def schema_hash(schema: Mapping[str, Any]) -> str:
    """A hash without names and descriptions, so that a tool with a new name can be recognised."""
    return digest(json.dumps(_without_prose(schema), sort_keys=True, default=str), 16)


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        prose = {key for key in ("title", "description") if isinstance(schema.get(key), str)}
        return {key: _without_prose(part) for key, part in schema.items() if key not in prose}
    return [_without_prose(part) for part in schema] if isinstance(schema, list) else schema


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The tools of a graph beside those that an agent has now."""

    removed: tuple[str, ...]  # the graph knows them and the agent has them no more; they are not suggested
    added: tuple[str, ...]  # the agent has them and the graph knows nothing of them
    changed: tuple[str, ...]  # they take other arguments than when the graph was mined
    renamed: Mapping[str, str]  # of `removed`, the one of `added` that takes the same arguments, for `aliases`
    dead_ends: tuple[str, ...]  # the agent has them, and only removed ones came after them
    unknown: tuple[str, ...]  # both have them, and the graph does not know their schema: no change could be seen
    lost: float  # share of all transitions that lead to a removed tool, in [0, 1]

    @property
    def healthy(self) -> bool:
        """Whether nothing that the graph knows has been removed or changed."""
        return not self.removed and not self.changed


def drift(graph: Graph, tools: Mapping[str, str]) -> DriftReport:
    """Compare a graph with the tools of an agent; an empty hash is not compared."""
    followed = Counter[str]()
    leads_to: dict[str, set[str]] = {}
    for source, outgoing in graph.edges():
        followed.update({target: edge.count for target, edge in outgoing.items()})
        leads_to[source] = set(outgoing)
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
