"""Names in the figures that something is said of elsewhere; those of this package begin with `tooltree-`."""

DEFAULT = "tooltree-default"
PAPER = "tooltree-paper"
LATS = "lats"
A_STAR = "a-star"
TOOLTREE_MCTS = "tooltree-mcts"

HANDICAPPED = f"{DEFAULT}-handicapped"
"""The default where scores that come with fused calls are worse than those of separate ones."""

ABLATION = "tooltree-paper-ablation"
"""The paper preset under the conditions of its ablation (Table 4)."""


def fused(peer: str) -> str:
    """The name of a peer that asks for everything at once."""
    return f"{peer}-fused"


def ablation(without: str) -> str:
    """The name of the arm of the ablation that does without something."""
    return f"{ABLATION}-without-{without.replace(' ', '-')}"


def in_flight(count: int) -> str:
    """The name of the default with so many calls in flight."""
    return f"{DEFAULT}-{count}-in-flight"
