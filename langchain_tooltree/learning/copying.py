"""Copying an experience from one store to another, such as from a folder to a database that several processes share."""

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, GetOp, PutOp

from langchain_tooltree.experience.run_identity import Namespace
from langchain_tooltree.experience.store import HEAD, MOST_ITEMS, PAGE, TASKS, TOKEN, TRAJECTORIES, StoreCall, listing
from langchain_tooltree.flows import Flow
from langchain_tooltree.learning.fold import SEGMENTS


def copy_all(source: BaseStore, target: BaseStore, *, force: bool = False) -> Flow[Counter[str]]:
    """Copy all namespaces with records: the records, their entries, and what else stands beside them, such as tips.

    What stands in the target is left alone, so that a copy that was interrupted goes on where it stopped; with `force`,
    what differs there is replaced. Counts `runs` and `others` that were copied, runs that were `there`, and what was
    `differing` and left alone.
    """
    counts = Counter(runs=0, there=0, differing=0, others=0)
    for root, labels in (yield from namespaces_of(source)).items():
        for label in (TASKS, *labels):
            items = {item.key: item.value for item in (yield from listing(source, (*root, label)))}
            there = {item.key: item.value for item in (yield from listing(target, (*root, label)))}
            # An entry says by its version whether the record is the same.
            same = {key for key in items.keys() & there.keys() if _version(items[key]) == _version(there[key])}
            differing = set() if force else items.keys() & there.keys() - same
            new = [key for key in items if key not in same | differing]
            for page in batch_iterate(PAGE, new):
                index: Any = ["task"] if label == TASKS else False
                puts = [PutOp((*root, label), key, items[key], index=index) for key in page]
                if label == TASKS:
                    gets = [GetOp((*root, TRAJECTORIES), key) for key in page]
                    records = yield StoreCall(source, "batch", (gets,), {})
                    records = [PutOp(each.namespace, each.key, each.value, index=False) for each in records if each]
                    puts = [*records, *puts, PutOp((*root, HEAD), HEAD, {TOKEN: uuid.uuid4().hex}, index=False)]
                yield StoreCall(target, "batch", (puts,), {})
            counts.update(differing=len(differing), **{"runs" if label == TASKS else "others": len(new)})
            counts.update(there=len(same) if label == TASKS else 0)
    return counts


def _version(value: Mapping[str, Any]) -> Any:
    return value.get("version") or value


def namespaces_of(store: BaseStore) -> Flow[dict[Namespace, list[str]]]:
    """The namespaces with records, as a flow, and the labels of what else stands there beside them, such as tips."""
    listed: list[Namespace] = yield StoreCall(store, "list_namespaces", (), {"limit": MOST_ITEMS})
    places = sorted(tuple(each) for each in listed if len(each) > 1)
    roots = sorted({each[:-1] for each in places if each[-1] in (TASKS, TRAJECTORIES)})
    own = (TASKS, TRAJECTORIES, HEAD, SEGMENTS)  # segments are made again in the target
    return {root: [each[-1] for each in places if each[:-1] == root and each[-1] not in own] for root in roots}
