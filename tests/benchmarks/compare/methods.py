"""Every method of the comparison, by name, and where it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from langchain_tooltree import SearchConfig
from langchain_tooltree.tooltree.search import KernelConfig
from tests.benchmarks.compare.desk import IN_FLIGHT, Desk, Method
from tests.benchmarks.compare.names import (
    A_STAR,
    ABLATION,
    DEFAULT,
    HANDICAPPED,
    LATS,
    PAPER,
    TOOLTREE_MCTS,
    ablation,
    fused,
    in_flight,
)
from tests.benchmarks.compare.ours import TreeSearchMethod
from tests.benchmarks.compare.peers import lats
from tests.benchmarks.compare.peers.a_star import AStar
from tests.benchmarks.compare.peers.beam import Beam
from tests.benchmarks.compare.peers.best_first import BestFirst
from tests.benchmarks.compare.peers.best_of_n import BestOfN, FusedBestOfN
from tests.benchmarks.compare.peers.fused import BestScored
from tests.benchmarks.compare.peers.greedy import FusedGreedy, greedy
from tests.benchmarks.compare.peers.tooltree_mcts import FUSED_CONFIG, ToolTreeMCTS
from tests.benchmarks.compare.peers.treequest_ab_mcts import (
    ABMCTS,
    FusedAnswer,
    ranked_answer,
)
from tests.benchmarks.compare.simulation import PROPOSALS
from tests.benchmarks.compare.variants import VARIANTS

AUCS = (1.0, 0.95, 0.9, 0.85)
ARM_AUCS = (1.0, 0.95)
HANDICAP_AUCS = (0.95, 0.9, 0.85)
HANDICAP = 0.05

ABLATION_PROPOSALS = 8
ABLATION_WRONG_CALL = 0.22
"""With the usual five proposals, wrong ones scored around .32, the paper's pre-pruning would never fire."""

AS_OFFERED: dict[str, Any] = {"proposals": "together", "pre_evaluation": "batched"}
"""The simulated model offers its calls together, and the judge scores them together, for every method."""

PICK = BestScored(consistency=0.4, asks=2, promising=0.6)
"""Which of its proposals a peer with fused calls makes, where it makes one after another."""

Evaluation = Literal["pre", "post"]

OFFERING: dict[str, Any] = {
    "selection": "posterior",
    "effort": "thorough",
    "max_rollouts": 200,
}
"""The package's deep search; rollouts are not the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A method of the comparison.

    Attributes:
        name: Its name in the figures.
        play: Lets it work at a desk; returns its rollouts and the nodes of its tree.
        aucs: The judges that it is tried with.
        proposals: How many calls the model offers it.
        handicap: By how much the judge's AUC is lower where a call is fused.
        wrong_pre: Mean r_pre of a call that is not the next gold one; the usual one if left out.
        ours: Whether it is of this package.
        arm: Whether it is another one under other conditions, out of the race: an ablation, or another number of
            calls in flight.
    """

    name: str
    play: Callable[[Desk], tuple[int, int]]
    aucs: tuple[float, ...] = AUCS
    proposals: int = PROPOSALS
    handicap: float = 0.0
    wrong_pre: float | None = None
    ours: bool = False
    arm: bool = False


def _peer(name: str, method: Method, *, calls_per_rollout: int = 1) -> Contender:
    """A peer, a rollout of which tries so many calls; a node is a state that a call led to."""

    def play(desk: Desk) -> tuple[int, int]:
        desk.work(method)
        return desk.tool_calls // calls_per_rollout, desk.tool_calls + 1

    return Contender(name=name, play=play)


def _own(
    name: str,
    config: KernelConfig,
    *,
    without: frozenset[Evaluation] = frozenset(),
    **others: Any,
) -> Contender:
    return _search(name, TreeSearchMethod(config=config, without=without), **others)


def _search(name: str, method: TreeSearchMethod, **others: Any) -> Contender:
    def play(desk: Desk) -> tuple[int, int]:
        search = method(desk)
        return search.rollouts, len(search.tree)

    return Contender(name=name, play=play, ours=True, **others)


def _arm_of_ablation(
    name: str, *, without: frozenset[Evaluation] = frozenset(), **changes: Any
) -> Contender:
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
        _own(DEFAULT, KernelConfig.of(SearchConfig(**OFFERING))),
        _own(PAPER, SearchConfig.paper(**AS_OFFERED)),
        _peer("greedy", greedy),
        _peer("best-of-n", BestOfN()),
        _peer("beam", Beam()),
        _peer("best-first", BestFirst()),
        _peer(A_STAR, AStar()),
        _peer(LATS, lats.LATS(), calls_per_rollout=PROPOSALS),
        _peer(TOOLTREE_MCTS, ToolTreeMCTS()),
        _peer("treequest-ab-mcts", ABMCTS(ranked_answer)),
        _peer(fused("greedy"), FusedGreedy(PICK)),
        _peer(fused("best-of-n"), FusedBestOfN(PICK)),
        _peer(fused("beam"), Beam(fused=True, after=0.75)),
        _peer(fused("best-first"), BestFirst(fused=True, promising=0.5)),
        _peer(
            fused(A_STAR),
            AStar(fused=True, promising=0.45, asks=2, enough=0.65, to_come=0.59),
        ),
        _peer(fused(LATS), lats.FusedLATS(), calls_per_rollout=lats.FusedLATS().tried),
        _peer(fused(TOOLTREE_MCTS), ToolTreeMCTS(FUSED_CONFIG, fused=True)),
        _peer(fused("treequest-ab-mcts"), ABMCTS(FusedAnswer(PICK))),
        *(_search(name, method) for name, method in VARIANTS.items()),
        *(
            _own(
                in_flight(count),
                KernelConfig(**OFFERING, parallel_rollouts=count),
                aucs=ARM_AUCS,
                arm=True,
            )
            for count in IN_FLIGHT
            if count != SearchConfig().parallel_rollouts
        ),
        _own(
            HANDICAPPED,
            KernelConfig(**OFFERING),
            aucs=HANDICAP_AUCS,
            handicap=HANDICAP,
            arm=True,
        ),
        _arm_of_ablation(ABLATION),
        _arm_of_ablation(ablation("pre-pruning"), pre_threshold=0),
        _arm_of_ablation(ablation("pre-evaluation"), without=frozenset({"pre"})),
        _arm_of_ablation(ablation("post-pruning"), post_threshold=0),
        _arm_of_ablation(ablation("post-evaluation"), without=frozenset({"post"})),
        _arm_of_ablation(ablation("both prunings"), pre_threshold=0, post_threshold=0),
        _arm_of_ablation(
            ablation("both evaluations"), without=frozenset({"pre", "post"})
        ),
    )
}
"""In the order of the tables. Settings of peers were chosen on the development tasks, as the mean success at 20, 40, 80
and 160 calls with AUCs of .95, .9 and .85, for both forms; what was tried stands in their modules."""
