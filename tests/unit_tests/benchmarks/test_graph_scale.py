import math

import pytest

from langchain_tooltree import SITGraph
from tests.internals.sitgraph import Graph

pytest.importorskip("chromadb")  # one of the arms

from tests.benchmarks.graph_scale import measure_graph
from tests.benchmarks.graph_scale_world import World


@pytest.mark.slow
def test_a_graph_is_loaded_asked_and_added_to(tmp_path):
    world = World(20, 200, 8)
    graph = SITGraph()
    graph._graph = Graph(world.snapshot())
    graph.save(tmp_path / "graph")

    figures = measure_graph(world, tmp_path / "graph", 5)

    assert figures["adds_per_s"] > 0
    assert all(map(math.isfinite, figures.values()))
