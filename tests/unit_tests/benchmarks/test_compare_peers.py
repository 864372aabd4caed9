"""Every peer of the comparison finds its way in a small world, if the judge is never wrong. Nothing is downloaded."""

from itertools import pairwise

import pytest
from lamp import TASK

from tests.benchmarks.bfcl_model import gold_arguments
from tests.benchmarks.compare.desk import Desk
from tests.benchmarks.compare.noise import usual
from tests.benchmarks.compare.peers.a_star import AStar
from tests.benchmarks.compare.peers.beam import Beam
from tests.benchmarks.compare.peers.best_first import BestFirst
from tests.benchmarks.compare.peers.best_of_n import BestOfN, FusedBestOfN
from tests.benchmarks.compare.peers.fused import BestScored
from tests.benchmarks.compare.peers.greedy import FusedGreedy
from tests.benchmarks.compare.peers.lats import LATS, FusedLATS
from tests.benchmarks.compare.simulation import Simulation

pytest.importorskip(
    "treequest", reason="peers are installed with the extra `benchmarks`"
)

from tests.benchmarks.compare.peers.tooltree_mcts import ToolTreeMCTS
from tests.benchmarks.compare.peers.treequest_ab_mcts import (
    ABMCTS,
    FusedAnswer,
    ranked_answer,
)

BUDGET = 100
PICK = BestScored(consistency=0.4, asks=2, promising=0.6)
PEERS = {
    "best-of-n": BestOfN(),
    "beam": Beam(),
    "best-first": BestFirst(),
    "a-star": AStar(),
    "lats": LATS(),
    "treequest-ab-mcts": ABMCTS(ranked_answer),
    "greedy-fused": FusedGreedy(PICK),
    "best-of-n-fused": FusedBestOfN(PICK),
    "beam-fused": Beam(fused=True),
    "best-first-fused": BestFirst(fused=True),
    "a-star-fused": AStar(fused=True),
    "lats-fused": FusedLATS(),
    "tooltree-mcts-fused": ToolTreeMCTS(fused=True),
    "treequest-ab-mcts-fused": ABMCTS(FusedAnswer(PICK)),
}
ENDLESS = ("treequest-ab-mcts", "tooltree-mcts-fused", "treequest-ab-mcts-fused")


def worked(name, seed, *, auc=1.0, max_model_calls=BUDGET):
    simulation = Simulation(TASK, gold_arguments([TASK]), seed=seed)
    asked = []
    desk = Desk(
        simulation,
        usual(auc),
        max_model_calls,
        lambda question, answer: asked.append(question) or 0,
    )
    desk.work(PEERS[name])
    return desk, asked


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("seed", range(2))
def test_a_peer_with_a_perfect_judge_solves_the_task(peer, seed):
    desk, _ = worked(peer, seed)

    assert desk.plan_at(BUDGET).done
    assert desk.model_calls < BUDGET or peer in ENDLESS


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_with_a_smaller_budget_keeps_what_it_would_have_kept_by_then(peer):
    whole, _ = worked(peer, seed=0, auc=0.85)
    cut, _ = worked(peer, seed=0, auc=0.85, max_model_calls=12)

    assert [(calls, state.name) for calls, state in cut.kept] == [
        (calls, state.name) for calls, state in whole.kept if calls <= cut.model_calls
    ]
    assert all(earlier <= later for (earlier, _), (later, _) in pairwise(whole.kept))
