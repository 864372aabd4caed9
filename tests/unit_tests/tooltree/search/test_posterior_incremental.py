"""The posterior over a tree after each change is what Bayes' rule over the whole tree gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import Frontier, PathPosterior, Tree, TreeSearch

CONFIGS = st.builds(
    SearchConfig,
    selection=st.just("posterior"),
    max_rollouts=st.sampled_from([60, 30, 12]),
    max_depth=st.sampled_from([5, 3, 1]),
    parallel_rollouts=st.integers(1, 8),
    pre_threshold=st.sampled_from([0.3, 0.0, 0.6]),
    post_threshold=st.sampled_from([0.4, 0.0, 0.8]),
    top_k=st.sampled_from([4, 2]),
    max_proposals=st.integers(1, 3),
    post_evaluation=st.sampled_from(["needed", "always"]),
    proposals=st.sampled_from(["together", "per_tool"]),
    confidence=st.sampled_from([1.0, 0.95]),
    patience=st.sampled_from([60, 12]),
)
WORLDS = {"seed": st.integers(0, 10_000), "trouble": st.sampled_from([0.05, 0.0, 0.3])}


@pytest.mark.slow
@given(config=CONFIGS, world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=100, deadline=None)
def test_what_is_carried_upwards_equals_what_is_inferred_from_the_whole_tree(config, world, pure_world, run_pure):
    search = TreeSearch(config, tools=4)

    def check(_):
        tree = Tree()
        whole = PathPosterior(config, tree, Frontier(tree, config))
        tree.adopt(search.tree.nodes)
        assert search._posterior.root == whole.root
        assert search._posterior._nodes == whole._nodes

    run_pure(search, pure_world(**world), watch=check)
