"""The search kernel: it decides what to do next, and knows no LangChain and no I/O. Pure.

Ask it for operations, perform them in any way, and tell it the outcomes in the order of launch:

    search = TreeSearch(KernelConfig(max_rollouts=30, parallel_rollouts=4))
    outstanding = deque(search.ask())
    while outstanding:
        search.tell(perform(outstanding.popleft()))
        outstanding.extend(search.ask())
    best = search.tree.path(search.best())  # the nodes from the first call to the last

What `perform` does is up to the driver. One that asks nobody and knows a single tool:

    def perform(operation):
        match operation.kind:
            case "propose":  # which calls may follow in this state?
                outcome = {"calls": [Call("look", {}, effect="read")], "confidences": [0.8]}
            case "score":  # r_pre of each candidate, before it runs
                outcome = {"scores": [0.8 for _ in operation.candidates]}
            case "evaluate":  # r_post of the observation, and whether the task is done
                outcome = {"reward": 0.9, "goal": 1.0}
            case "execute":
                outcome = {}
        if operation.run:  # run search.tree[operation.node].call first
            outcome["observation"] = Observation("A map.")
        return OperationOutcome(operation.id, **outcome)

Read `search` for the rollout, `policies` for where it works (Eq. 1) and for the end, `posterior` for the other policy's
arithmetic, `tree` for values and pruning.
"""

from langchain_tooltree.tooltree.search.config import KernelConfig, SearchConfig
from langchain_tooltree.tooltree.search.policies import PosteriorPolicy, StopReason, UCTPolicy
from langchain_tooltree.tooltree.search.search import Operation, OperationOutcome, Spent, TreeSearch
from langchain_tooltree.tooltree.search.tree import Call, Effect, Frontier, Node, Observation, Tree, Work

__all__ = [
    "Call",
    "Effect",
    "Frontier",
    "KernelConfig",
    "Node",
    "Observation",
    "Operation",
    "OperationOutcome",
    "PosteriorPolicy",
    "SearchConfig",
    "Spent",
    "StopReason",
    "Tree",
    "TreeSearch",
    "UCTPolicy",
    "Work",
]
