"""Every method of the comparison, by name, and where it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from langchain_tooltree import SearchConfig
from tests.benchmarks.compare.desk import IN_FLIGHT, Desk, Method
from tests.benchmarks.compare.names import ABLATION, DEFAULT, LATS, PAPER, TOOLTREE_MCTS, ablation, in_flight
from tests.benchmarks.compare.ours import TreeSearchMethod
from tests.benchmarks.compare.peers import lats
from tests.benchmarks.compare.peers.a_star import AStar
from tests.benchmarks.compare.peers.beam import Beam
from tests.benchmarks.compare.peers.best_first import BestFirst
from tests.benchmarks.compare.peers.best_of_n import BestOfN
from tests.benchmarks.compare.peers.greedy import greedy
from tests.benchmarks.compare.peers.tooltree_mcts import tooltree_mcts
from tests.benchmarks.compare.peers.treequest_ab_mcts import ab_mcts
from tests.benchmarks.compare.simulation import PROPOSALS
from tests.benchmarks.compare.variants import VARIANTS

AUCS = (1.0, 0.95, 0.9, 0.85)
ARM_AUCS = (1.0, 0.95)

ABLATION_PROPOSALS = 8
ABLATION_WRONG_CALL = 0.22
"""With the usual five proposals, wrong ones scored around .32, the paper's pre-pruning would never fire."""

AS_OFFERED: dict[str, Any] = {"proposals": "together", "pre_evaluation": "batched"}
"""The simulated model offers its calls together, and the judge scores them together, for every method."""

Evaluation = Literal["pre", "post"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A method of the comparison.

    Attributes:
        name: Its name in the figures.
        play: Lets it work at a desk; returns its rollouts and the nodes of its tree.
        aucs: The judges that it is tried with.
        proposals: How many calls the model offers it.
        wrong_pre: Mean r_pre of a call that is not the next gold one; the usual one if left out.
        ours: Whether it is of this package.
        arm: Whether it is another one under other conditions, out of the race: an ablation, or another number of
            calls in flight.
    """

    name: str
    play: Callable[[Desk], tuple[int, int]]
    aucs: tuple[float, ...] = AUCS
    proposals: int = PROPOSALS
    wrong_pre: float | None = None
    ours: bool = False
    arm: bool = False


def _peer(name: str, method: Method, *, calls_per_rollout: int = 1) -> Contender:
    """A peer, a rollout of which tries so many calls; a node is a state that a call led to."""

    def play(desk: Desk) -> tuple[int, int]:
        desk.work(method)
        return desk.tool_calls // calls_per_rollout, desk.tool_calls + 1

    return Contender(name=name, play=play)


def _own(name: str, config: SearchConfig, *, without: frozenset[Evaluation] = frozenset(), **others: Any) -> Contender:
    return _search(name, TreeSearchMethod(config=config, without=without), **others)


def _search(name: str, method: TreeSearchMethod, **others: Any) -> Contender:
    def play(desk: Desk) -> tuple[int, int]:
        search = method(desk)
        return search.rollouts, len(search.tree)

    return Contender(name=name, play=play, ours=True, **others)


def _arm_of_ablation(name: str, *, without: frozenset[Evaluation] = frozenset(), **changes: Any) -> Contender:
    return _own(
        name,
        SearchConfig.paper(top_k=ABLATION_PROPOSALS, **AS_OFFERED, **changes),
        without=without,
        aucs=ARM_AUCS,
        proposals=ABLATION_PROPOSALS,
        wrong_pre=ABLATION_WRONG_CALL,
        arm=True,
    )


CONTENDERS = {
    contender.name: contender
    for contender in (
        _own(DEFAULT, SearchConfig()),
        _own(PAPER, SearchConfig.paper(**AS_OFFERED)),
        _peer("greedy", greedy),
        _peer("best-of-n", BestOfN()),
        _peer("beam", Beam()),
        _peer("best-first", BestFirst()),
        _peer("a-star", AStar()),
        _peer(LATS, lats.LATS(), calls_per_rollout=PROPOSALS),
        _peer(TOOLTREE_MCTS, tooltree_mcts),
        _peer("treequest-ab-mcts", ab_mcts),
        *(_search(name, method) for name, method in VARIANTS.items()),
        *(
            _own(in_flight(count), SearchConfig(parallel_rollouts=count), aucs=ARM_AUCS, arm=True)
            for count in IN_FLIGHT
            if count != SearchConfig().parallel_rollouts
        ),
        _arm_of_ablation(ABLATION),
        _arm_of_ablation(ablation("pre-pruning"), pre_threshold=0),
        _arm_of_ablation(ablation("pre-evaluation"), without=frozenset({"pre"})),
        _arm_of_ablation(ablation("post-pruning"), post_threshold=0),
        _arm_of_ablation(ablation("post-evaluation"), without=frozenset({"post"})),
        _arm_of_ablation(ablation("both prunings"), pre_threshold=0, post_threshold=0),
        _arm_of_ablation(ablation("both evaluations"), without=frozenset({"pre", "post"})),
    )
}
"""In the order of the tables."""
