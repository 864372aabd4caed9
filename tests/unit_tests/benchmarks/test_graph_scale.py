import math

import pytest

from tests.benchmarks.graph_scale import World, measure_graph, save


@pytest.mark.slow
def test_a_graph_is_opened_asked_and_added_to(tmp_path):
    world = World(20, 200)
    save(world, tmp_path / "graph")

    figures = measure_graph(world, tmp_path / "graph", 5)

    assert figures["add_p95_ms"] > 0
    assert all(map(math.isfinite, figures.values()))
