"""What may be worked on in a tree: calls to run, states to ask for calls, observations to judge. Pure."""

from dataclasses import dataclass
from typing import Literal

from langchain_tooltree.tooltree.config import SearchConfig
from langchain_tooltree.tooltree.tree import Node, Tree


@dataclass(frozen=True, slots=True)
class Work:
    """Something that a rollout can do.

    Attributes:
        kind: Ask a state for calls, run a call, or judge what one has brought back.
        node: The state, or the call.
    """

    kind: Literal["propose", "execute", "evaluate"]
    node: Node


class Frontier:
    """The open ends of a tree.

    Args:
        tree: The tree.
        config: Supplies the bounds on proposals and depth, and which observations have to be judged.
    """

    def __init__(self, tree: Tree, config: SearchConfig) -> None:
        self._tree = tree
        self._config = config

    def runnable(self, node: Node) -> bool:
        """Whether a call may be run now: a candidate that nobody works on."""
        out = node.pruned is not None or node.closed or node.evaluated or node.in_flight > 0
        return node.r_pre is not None and node.observation is None and not out

    def askable(self, node: Node) -> bool:
        """Whether a state may be asked for calls now: its call has run, and the model may have others to offer."""
        out = node.closed or node.deferred or node.proposing or node.pruned is not None or self.is_deepest(node)
        return self._reached(node) and not out and self._may_ask(node)

    def judgeable(self, node: Node) -> bool:
        """Whether what a call has brought back may be judged now."""
        seen = node.observation is not None and not (node.evaluated or node.evaluating)
        return seen and node.pruned is None

    def is_deepest(self, node: Node) -> bool:
        """Whether no call may follow: the path is as long as it may be."""
        return node.depth >= self._config.max_depth

    def spent(self, node: Node) -> bool:
        """Whether nothing is left of what a state has offered: every child is pruned or closed."""
        return all(child.pruned is not None or child.closed for child in self._tree.children(node))

    def close_upwards(self, node: Node | None) -> None:
        """Close a state that cannot be asked again and whose children are all spent, then its parents likewise."""
        while node is not None:
            if not node.closed:
                if self._may_ask(node) or node.proposing or not self.spent(node):
                    return
                node.closed = True
            node = self._tree.parent(node)

    def _may_ask(self, node: Node) -> bool:
        return not node.finished and node.proposals < self._config.max_proposals

    def _reached(self, node: Node) -> bool:
        if node.call is None or node.evaluated:
            return True
        # What changes the world, or has failed, is judged before anything is built upon it.
        needed = self._config.selection == "posterior" and self._config.post_evaluation == "needed"
        read = node.observation is not None and node.observation.kind == "ok" and node.call.effect == "read"
        return needed and read
