"""Copying an experience from one store to another, such as from a folder to a database that several processes share."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, GetOp, PutOp

from langchain_tooltree.experience.run_identity import Namespace
from langchain_tooltree.experience.store import HEAD, PAGE, TASKS, TOKEN, TRAJECTORIES, StoreCall, listing
from langchain_tooltree.flows import Flow
from langchain_tooltree.learning.segments import SEGMENTS

MOST_NAMESPACES = 1_000_000
"""Namespaces that are asked for: more than anybody has, since a store gives ten where nobody says."""


@dataclass(slots=True)
class Copied:
    """How much was copied.

    Attributes:
        runs: Records that were copied.
        there: Records that were there already, in the same version.
        differing: Records and others that were there in another version, and were left alone.
        others: What else stands beside the records, such as tips, and was copied.
    """

    runs: int = 0
    there: int = 0
    differing: int = 0
    others: int = 0


def copied(
    source: BaseStore, target: BaseStore, *, force: bool = False, on_runs: Callable[[int], None] = lambda _: None
) -> Flow[Copied]:
    """Copy all namespaces with records, as a flow: the records, their entries, and what else stands beside them.

    What stands in the target is left alone, so that a copy that was interrupted goes on where it stopped; with `force`,
    what stands there in another version is replaced. Segments are made again in the target.
    """
    counts = Copied()
    for root, labels in (yield from held_in(source)).items():
        for label in (TASKS, *labels):
            items = {item.key: item.value for item in (yield from listing(source, (*root, label)))}
            there = {item.key: item.value for item in (yield from listing(target, (*root, label)))}
            same = {key for key in items if key in there and _content(items[key]) == _content(there[key])}
            differing = set() if force else items.keys() & there.keys() - same
            new = [key for key in items if key not in same | differing]
            for page in batch_iterate(PAGE, new):
                index: Any = ["task"] if label == TASKS else False
                puts = [PutOp((*root, label), key, items[key], index=index) for key in page]
                if label == TASKS:
                    gets = [GetOp((*root, TRAJECTORIES), key) for key in page]
                    records = yield StoreCall(source, "batch", (gets,), {})
                    kept = [PutOp(each.namespace, each.key, each.value, index=False) for each in records if each]
                    puts = [*kept, *puts, PutOp((*root, HEAD), HEAD, {TOKEN: uuid.uuid4().hex}, index=False)]
                yield StoreCall(target, "batch", (puts,), {})
                if label == TASKS:
                    on_runs(len(page))
            counts.differing += len(differing)
            if label == TASKS:
                counts.runs, counts.there = counts.runs + len(new), counts.there + len(same)
            else:
                counts.others += len(new)
    return counts


def _content(value: Mapping[str, Any]) -> Any:
    """What tells two versions of an item apart: an entry says which one it is."""
    return value.get("version") or value


def held_in(store: BaseStore) -> Flow[dict[Namespace, list[str]]]:
    """The namespaces with records, as a flow, and the labels of what else stands there beside them, such as tips."""
    given: list[Namespace] = yield StoreCall(store, "list_namespaces", (), {"limit": MOST_NAMESPACES})
    places = sorted(tuple(each) for each in given if len(each) > 1)
    roots = {each[:-1] for each in places if each[-1] in (TASKS, TRAJECTORIES)}
    own = (TASKS, TRAJECTORIES, HEAD, SEGMENTS)
    return {root: [each[-1] for each in places if each[:-1] == root and each[-1] not in own] for root in sorted(roots)}
