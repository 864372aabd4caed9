"""Observations known already, and calls that are being run: no call is made twice in the same world. Pure.

It lives in the pure search and not in front of the tasks, so what it holds depends on the outcomes told and on nothing
else; a resumed search fills it again by replaying them.
"""

from langchain_tooltree.tooltree.launches import Rollout
from langchain_tooltree.tooltree.tree import Call, Node, Observation, Tree


class CallCache:
    """A cache by world, tool and canonical arguments, with one run in flight for all that ask for the same call.

    Attributes:
        hits: Calls whose observation was reused instead of running them again.
    """

    def __init__(self) -> None:
        self.hits = 0
        self._known: dict[tuple[str, str], Observation] = {}
        self._running: dict[tuple[str, str], list[Rollout]] = {}

    def ask(self, tree: Tree, rollout: Rollout) -> Observation | None:
        """The observation of a rollout's call, if it is known; otherwise the rollout joins those that wait for it."""
        key = _key(tree, rollout.node)
        if known := self._known.get(key):
            self.hits += 1
            return known
        waiting = self._running.setdefault(key, [])
        self.hits += bool(waiting)
        waiting.append(rollout)
        return None

    def is_first(self, tree: Tree, rollout: Rollout) -> bool:
        """Whether a rollout that waits has to run the call, for itself and all that join later."""
        return self._running[_key(tree, rollout.node)][0] is rollout

    def finish(self, tree: Tree, node: Node, observation: Observation) -> list[Rollout]:
        """Take in what a call brought back; a transient failure is not kept.

        Returns:
            The rollouts that waited for it, the one that ran it first.
        """
        if node.call:
            self.learn(_key(tree, node)[0], node.call, observation)
        return self._running.pop(_key(tree, node))

    def learn(self, world: str, call: Call, observation: Observation) -> None:
        """Keep what a call brought back in a world, unless it failed in passing."""
        if not observation.transient:
            self._known[world, call.key] = observation


def _key(tree: Tree, node: Node) -> tuple[str, str]:
    """World before the call, tool and canonical arguments."""
    parent = tree.parent(node)
    return (parent.world if parent else "", node.call.key if node.call else "")
