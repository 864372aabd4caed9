"""Prints what LangGraph's own stores and ChromaStore do where they differ, as a Markdown table.

    python -m tests.benchmarks.store_differences --json out.json

What they have in common is tested in `tests/integration_tests/test_store_conformance.py`, which also says whom
ChromaStore follows.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from langgraph.store.base import GetOp, PutOp

sys.path.insert(0, str(Path(__file__).parents[1] / "integration_tests"))  # its helpers import each other by bare name

from store_references import NAMES, PATHS, References, Subject

DOCS = ("docs",)

Probe = Callable[[Subject], Awaitable[Any]]
PROBES: list[tuple[str, bool, Probe]] = []


def probe(title: str, *, indexed: bool = False) -> Callable[[Probe], Probe]:
    def register(function: Probe) -> Probe:
        PROBES.append((title, indexed, function))
        return function

    return register


def keys(found: Any) -> str:
    return ", ".join(sorted(item.key for item in found)) or "nothing"


async def filtered(store: Subject, value: Any, conditions: Any) -> str:
    await store.put(DOCS, "key", value)
    return "match" if await store.search(DOCS, filter=conditions) else "no match"


@probe("order of results without a query, after a, b, c were put and a again")
async def order(store: Subject) -> str:
    for key in ("a", "b", "c", "a"):
        await store.put(DOCS, key, {"n": 1})
        await asyncio.sleep(1.1 if store.name == "sqlite" else 0.01)  # SqliteStore counts in seconds
    return ", ".join(item.key for item in await store.search(DOCS))


@probe("`created_at` after an update")
async def created(store: Subject) -> str:
    await store.put(DOCS, "key", {"n": 1})
    before = (await store.get(DOCS, "key")).created_at
    await asyncio.sleep(1.1)
    await store.put(DOCS, "key", {"n": 2})
    return "kept" if (await store.get(DOCS, "key")).created_at == before else "renewed"


@probe("times have a time zone")
async def zone(store: Subject) -> str:
    await store.put(DOCS, "key", {"n": 1})
    return "yes" if (await store.get(DOCS, "key")).created_at.tzinfo else "no"


@probe("`$ne` on a missing key")
async def ne_missing(store: Subject) -> str:
    return await filtered(store, {"a": 1}, {"b": {"$ne": 1}})


@probe("`$ne` a text on `None`")
async def ne_none(store: Subject) -> str:
    return await filtered(store, {"a": None}, {"a": {"$ne": "x"}})


@probe("`None` on a missing key")
async def none_missing(store: Subject) -> str:
    return await filtered(store, {"a": 1}, {"b": None})


@probe("`True` on 1")
async def true_one(store: Subject) -> str:
    return await filtered(store, {"a": 1}, {"a": True})


@probe("`$gt` 9 on 10")
async def gt_number(store: Subject) -> str:
    return await filtered(store, {"a": 10}, {"a": {"$gt": 9}})


@probe("`$gt` on texts that are no numbers")
async def gt_text(store: Subject) -> str:
    return await filtered(store, {"day": "2026-10-02"}, {"day": {"$gt": "2026-09-30"}})


@probe("`$gt` 4 on the text 5")
async def gt_mixed(store: Subject) -> str:
    return await filtered(store, {"a": "5"}, {"a": {"$gt": 4}})


@probe("`$gt` on a missing key")
async def gt_missing(store: Subject) -> str:
    return await filtered(store, {"a": 1}, {"b": {"$gt": 1}})


@probe("a mapping in a filter, on one with more keys")
async def mapping(store: Subject) -> str:
    return await filtered(store, {"a": {"x": 1, "y": 2}}, {"a": {"x": 1}})


@probe("`$eq` with an equal mapping")
async def eq_mapping(store: Subject) -> str:
    return await filtered(store, {"a": {"x": 1}}, {"a": {"$eq": {"x": 1}}})


@probe("a filter's key with a dot, on a nested value")
async def dotted(store: Subject) -> str:
    return await filtered(store, {"a": {"b": 1}}, {"a.b": 1})


@probe("a filter's key with a space")
async def spaced(store: Subject) -> str:
    return await filtered(store, {"a b": 1}, {"a b": 1})


@probe("an emptied namespace is listed")
async def emptied(store: Subject) -> str:
    await store.put(DOCS, "key", {})
    await store.delete(DOCS, "key")
    return "yes" if await store.list_namespaces() else "no"


@probe("a namespace that was only read is listed")
async def read_only(store: Subject) -> str:
    await store.get(DOCS, "key")
    return "yes" if await store.list_namespaces() else "no"


@probe("`batch` with a period in a label")
async def batch_label(store: Subject) -> str:
    await store.batch([GetOp(("a.b",), "key")])
    return "goes on"


@probe("a value with a key that is a number")
async def number_key(store: Subject) -> str:
    await store.put(DOCS, "key", {"a": {1: "x"}})
    return f"comes back as {(await store.get(DOCS, 'key')).value['a']}"


@probe("a tuple in a value")
async def tuple_value(store: Subject) -> str:
    await store.put(DOCS, "key", {"a": (1, 2)})
    return f"comes back as {(await store.get(DOCS, 'key')).value['a']}"


@probe("not a number (NaN)")
async def nan(store: Subject) -> str:
    await store.put(DOCS, "key", {"a": float("nan")})
    return f"comes back as {(await store.get(DOCS, 'key')).value['a']}"


@probe("an integer of 80 bits")
async def big(store: Subject) -> str:
    await store.put(DOCS, "key", {"a": 2**80})
    same = (await store.get(DOCS, "key")).value["a"]
    return "comes back" if same == 2**80 and isinstance(same, int) else f"comes back as {same!r}"


@probe("a NUL in a text")
async def nul(store: Subject) -> str:
    await store.put(DOCS, "key", {"a": "x\x00y"})
    return "comes back" if (await store.get(DOCS, "key")).value["a"] == "x\x00y" else "changes"


@probe("the order of a value's keys")
async def key_order(store: Subject) -> str:
    await store.put(DOCS, "key", {"zz": 1, "a": 2})
    return "kept" if list((await store.get(DOCS, "key")).value) == ["zz", "a"] else "changed"


@probe("a result is a copy")
async def copies(store: Subject) -> str:
    await store.put(DOCS, "key", {"a": []})
    (await store.get(DOCS, "key")).value["a"].append(1)
    return "yes" if (await store.get(DOCS, "key")).value == {"a": []} else "no, changes are stored"


@probe("`put(ttl=60)`")
async def expiry(store: Subject) -> str:
    await store.put(DOCS, "key", {}, ttl=60)
    return "supported" if store.store.supports_ttl else "taken"


@probe("`PutOp(ttl=60)` in a batch")
async def expiry_batch(store: Subject) -> str:
    await store.batch([PutOp(DOCS, "key", {}, ttl=60)])
    return "supported" if store.store.supports_ttl else "taken"


@probe("items without a vector in the results of a query", indexed=True)
async def unindexed(store: Subject) -> str:
    await store.put(DOCS, "key", {"t": "stone"}, index=False)
    return keys(await store.search(DOCS, query="stone"))


@probe('`index=["$"]` of an item', indexed=True)
async def whole(store: Subject) -> str:
    await store.put(DOCS, "key", {"t": "stone"}, index=["$"])
    found = await store.search(DOCS, query="stone")
    return "whole item" if found and found[0].score is not None else "not indexed"


@probe("vectors of fields that an updated item no longer has", indexed=True)
async def stale(store: Subject) -> str:
    await store.put(DOCS, "key", {"parts": ["grey stone", "red apple"]}, index=["parts[*]"])
    await store.put(DOCS, "key", {"parts": ["blue sky"]}, index=["parts[*]"])
    score = (await store.search(DOCS, query="grey stone"))[0].score
    return "still find it" if score > 0.9 else "are gone"


async def answers(references: References, name: str, path: str) -> dict[str, str]:
    found = {}
    for title, indexed, function in PROBES:
        async with references.open(name, path) as store:
            if indexed and not store.indexed:
                found[title] = "no vectors here"
                continue
            try:
                found[title] = str(await function(store))
            except Exception as error:  # noqa: BLE001 - an error is an answer
                found[title] = type(error).__name__
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    table: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder, References(Path(folder)) as references:
        for name in NAMES:
            if reason := references.missing(name):
                print(f"{name} is left out: {reason}", file=sys.stderr)
                continue
            sync, other = (asyncio.run(answers(references, name, path)) for path in PATHS)
            table[name] = {
                title: sync[title] if sync[title] == other[title] else f"{sync[title]} (async: {other[title]})"
                for title, _, _ in PROBES
            }
    print(f"| | {' | '.join(table)} |\n|---|{'---|' * len(table)}")
    for title, _, _ in PROBES:
        print(f"| {title} | {' | '.join(rows[title] for rows in table.values())} |")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
