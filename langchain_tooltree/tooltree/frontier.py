"""Which states may still be asked for calls, and which are done with. Pure."""

from langchain_tooltree.tooltree.tree import Node, Tree


class Frontier:
    """The open states of a tree.

    Args:
        tree: The tree.
        max_proposals: How often one state may be asked for calls.
    """

    def __init__(self, tree: Tree, *, max_proposals: int) -> None:
        self._tree = tree
        self._max_proposals = max_proposals

    def expandable(self, node: Node) -> bool:
        """Whether a state may be asked for calls now: never asked, or nothing is left of what it offered."""
        return (
            (node.call is None or node.evaluated)
            and not (node.closed or node.deferred or node.proposing or node.pruned)
            and node.proposals < self._max_proposals
            and self._spent(node)
        )

    def close_upwards(self, node: Node | None) -> None:
        """Close a state that cannot be asked again and whose children are all spent, then its parents likewise."""
        while node is not None:
            if not node.closed:
                asked = node.proposals >= self._max_proposals and not node.proposing
                if not (asked and self._spent(node)):
                    return
                node.closed = True
            node = self._tree.parent(node)

    def _spent(self, node: Node) -> bool:
        """Whether every child is pruned or closed."""
        return all(child.pruned is not None or child.closed for child in self._tree.children(node))
