"""Every peer of the comparison finds its way in a small world, if the judge is never wrong. Nothing is downloaded."""

from itertools import pairwise

import pytest

from tests.benchmarks.bfcl_model import gold_arguments
from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec
from tests.benchmarks.compare.desk import Desk
from tests.benchmarks.compare.noise import usual
from tests.benchmarks.compare.peers.a_star import AStar
from tests.benchmarks.compare.peers.beam import Beam
from tests.benchmarks.compare.peers.best_first import BestFirst
from tests.benchmarks.compare.peers.best_of_n import BestOfN
from tests.benchmarks.compare.peers.lats import LATS
from tests.benchmarks.compare.simulation import Simulation

BUDGET = 160
PEERS = [BestOfN(), Beam(), BestFirst(), AStar(), LATS()]


class Lamp:
    def __init__(self):
        self.history = []

    def turn(self, to):
        self.history.append(("turn", to))
        return {"now": to}

    def dim(self, by):
        self.history.append(("dim", by))
        return {"by": by}


def schema(name, kind):
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


TASK = Task(
    id="lamp",
    request="Turn the lamp green, dim it by 7, then turn it off.",
    tools=(
        ToolSpec("turn", "Lamp", "Turn the lamp.", schema("to", "string")),
        ToolSpec("dim", "Lamp", "Dim the lamp.", schema("by", "integer")),
    ),
    gold=(PlainCall("turn", {"to": "green"}), PlainCall("dim", {"by": 7}), PlainCall("turn", {"to": "off"})),
    make_objects=lambda: {"Lamp": Lamp()},
    same_state=lambda found, wanted: found["Lamp"].history == wanted["Lamp"].history,
)


def worked(peer, seed, *, auc=1.0, max_model_calls=BUDGET):
    simulation = Simulation(TASK, gold_arguments([TASK]), seed=seed)
    desk = Desk(simulation, usual(auc), max_model_calls, lambda question, answer: 0)
    desk.work(peer)
    return desk


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: type(peer).__name__)
@pytest.mark.parametrize("seed", range(5))
def test_a_peer_with_a_perfect_judge_solves_the_task(peer, seed):
    desk = worked(peer, seed)

    assert desk.plan_at(BUDGET).done
    assert desk.model_calls < BUDGET


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: type(peer).__name__)
def test_a_peer_with_a_smaller_budget_keeps_what_it_would_have_kept_by_then(peer):
    whole, cut = worked(peer, seed=0, auc=0.85), worked(peer, seed=0, auc=0.85, max_model_calls=12)

    assert [(calls, state.name) for calls, state in cut.kept] == [
        (calls, state.name) for calls, state in whole.kept if calls <= cut.model_calls
    ]
    assert all(earlier <= later for (earlier, _), (later, _) in pairwise(whole.kept))
