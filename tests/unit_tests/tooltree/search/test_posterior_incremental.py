"""The posterior over a tree after each change is what Bayes' rule over the whole tree gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree.tooltree.search import Frontier, KernelConfig, Tree, TreeSearch
from langchain_tooltree.tooltree.search.posterior import DONE, DONE_AT_START, PathPosterior

QUESTIONS = ("together", "fused"), ("together", "batched"), ("per_tool", "single")


def configured(questions, **chosen):
    proposals, pre_evaluation = questions
    return KernelConfig(proposals=proposals, pre_evaluation=pre_evaluation, **chosen)


CONFIGS = st.builds(
    configured,
    questions=st.sampled_from(QUESTIONS),
    max_rollouts=st.sampled_from([60, 30, 12]),
    max_depth=st.sampled_from([5, 3, 1]),
    parallel_rollouts=st.integers(1, 8),
    top_k=st.sampled_from([4, 2]),
    max_proposals=st.integers(1, 3),
    post_evaluation=st.sampled_from(["needed", "always"]),
    effort=st.sampled_from(["thorough", "frugal"]),
)
WORLDS = {
    "seed": st.integers(0, 10_000),
    "trouble": st.sampled_from([0.05, 0.0, 0.3]),
}


@pytest.mark.slow
@given(config=CONFIGS, world=st.fixed_dictionaries(WORLDS), begun=st.booleans())
@settings(max_examples=100, deadline=None)
def test_what_is_carried_upwards_equals_what_is_inferred_from_the_whole_tree(
    config, world, begun, pure_world, run_pure
):
    search = TreeSearch(config, tools=4, begun=begun)
    carried = search._best.posterior

    def check(_):
        tree = Tree()
        frontier = Frontier(tree, config)
        whole = PathPosterior(config, tree, frontier, done_at_start=DONE if begun else DONE_AT_START)
        tree.nodes = search.tree.nodes
        tree.changed.update(range(len(tree)))
        assert carried.best is not None
        # What is learnt of goal scores depends on the order in which they came.
        whole._goals, whole._goals_learnt = carried._goals, set(carried._goals_learnt)
        assert (carried.best, carried.busy, carried.solution) == (whole.best, whole.busy, whole.solution)
        assert carried._nodes == whole._nodes

    run_pure(search, pure_world(**world), watch=check)
