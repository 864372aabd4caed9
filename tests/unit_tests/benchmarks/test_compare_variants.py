"""Every variant of our search finds its way in a small world, if the judge is never wrong. Nothing is downloaded."""

import pytest
from lamp import TASK

from tests.benchmarks.bfcl_model import gold_arguments
from tests.benchmarks.compare.desk import Desk
from tests.benchmarks.compare.noise import usual
from tests.benchmarks.compare.simulation import Simulation
from tests.benchmarks.compare.variants import PUCT, VARIANTS, AdaptiveWidth, EarlyExit, Gumbel, Merged
from tests.internals.tooltree import Call, Frontier, KernelConfig, Observation, Tree

BUDGET = 160
CONFIG = KernelConfig(selection="smoothed")


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("seed", range(5))
def test_a_variant_with_a_perfect_judge_solves_the_task(name, seed):
    desk = Desk(Simulation(TASK, gold_arguments([TASK]), seed=seed), usual(1.0), BUDGET, lambda question, answer: 0)

    VARIANTS[name](desk)

    assert desk.plan_at(BUDGET).done
    assert desk.model_calls < BUDGET


def grown(*paths):
    """A tree of calls that were scored and run, each path with the r_pre and the reward of its last call."""
    tree = Tree()
    tree.root.proposals = 1
    ends = {(): tree.root}
    for path, r_pre, reward in paths:
        node = tree.add(ends[path[:-1]], Call(tool=path[-1], arguments={}, effect="sandboxed"))
        node.r_pre = r_pre
        if reward is not None:
            node.observation, node.r_post, node.proposals = Observation(content=""), reward, 1
            tree.backpropagate(node, reward)
        ends[path] = node
    return tree, ends


def selected(rule, tree):
    work = rule.select(tree, Frontier(tree, CONFIG))
    return None if work is None else (work.kind, work.node.label)


@pytest.mark.parametrize("best", ["a", "b", "c"])
def test_puct_tries_first_what_has_the_highest_r_pre(best):
    tree, _ = grown(*(((name,), 0.6 if name == best else 0.5, None) for name in ("a", "b", "c")))

    assert selected(PUCT(CONFIG), tree) == ("execute", f"{best}()")


def test_gumbel_drops_the_worse_half_of_the_root_after_a_phase():
    paths = [((name,), r_pre, None) for name, r_pre in (("a", 0.9), ("b", 0.8), ("c", 0.1), ("d", 0.1))]
    tree, ends = grown(*paths)
    rule = Gumbel(CONFIG, noise=0.0, phase=2)

    def order():
        return {child.label for child in rule.ranked(tree, tree.root, list(tree.children(tree.root)))[:2]}

    tree.backpropagate(ends["a",], 0.7)
    assert "a()" not in order()
    tree.backpropagate(ends["b",], 0.7)
    assert order() == {"a()", "b()"}


def test_merged_drops_a_call_that_only_swaps_two_reads():
    tree, ends = grown((("ls",), 0.8, 0.8), (("ls", "pwd"), 0.8, 0.8), (("pwd",), 0.7, 0.7), (("pwd", "ls"), 0.9, None))
    rule = Merged(CONFIG)
    rule.ranked(tree, ends["ls",], [ends["ls", "pwd"]])

    assert rule.ranked(tree, ends["pwd",], [ends["pwd", "ls"]]) == []
    assert ends["pwd", "ls"].pruned


def test_merged_keeps_calls_whose_order_may_matter():
    tree, ends = grown(
        (("ls",), 0.8, 0.8), (("ls", "touch"), 0.8, 0.8), (("touch",), 0.7, 0.7), (("touch", "ls"), 0.9, None)
    )
    rule = Merged(CONFIG)
    rule.ranked(tree, ends["ls",], [ends["ls", "touch"]])

    assert rule.ranked(tree, ends["touch",], [ends["touch", "ls"]]) == [ends["touch", "ls"]]


def test_early_exit_gives_up_for_good_what_has_not_gone_well():
    tree, ends = grown((("a",), 0.9, 0.2), (("b",), 0.1, None))
    rule = EarlyExit(CONFIG, bound=0.4, rollouts=2)

    rule.select(tree, Frontier(tree, CONFIG))
    assert not ends["a",].closed
    tree.backpropagate(ends["a",], 0.2)
    rule.select(tree, Frontier(tree, CONFIG))
    assert ends["a",].closed


def test_adaptive_width_asks_again_once_a_state_is_visited_more_often():
    tree, ends = grown((("a",), 0.9, 0.9), (("b",), 0.8, 0.8))
    rule = AdaptiveWidth(CONFIG, factor=1.0, power=0.5)

    assert not rule.asks(tree, tree.root, Frontier(tree, CONFIG))
    for _ in range(3):
        tree.backpropagate(ends["a",], 0.9)
    assert rule.asks(tree, tree.root, Frontier(tree, CONFIG))
