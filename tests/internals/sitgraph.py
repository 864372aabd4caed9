"""What tests use of SIT-Graph beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.experience.guide import hints
from langchain_tooltree.sitgraph import files as files_module
from langchain_tooltree.sitgraph import sit_graph as mining_module
from langchain_tooltree.sitgraph import sit_graph as sit_graph_module
from langchain_tooltree.sitgraph import states as states_module
from langchain_tooltree.sitgraph import suggest as votes_module
from langchain_tooltree.sitgraph import transitions as views_module
from langchain_tooltree.sitgraph.files import MANIFEST, save_graph
from langchain_tooltree.sitgraph.graph import Contribution, Edge, Graph, weights
from langchain_tooltree.sitgraph.sit_graph import DEFAULT_ALPHA, Encoder, state_of
from langchain_tooltree.sitgraph.states import (
    COMPARED,
    DIMENSIONS,
    END,
    LABELS,
    Codes,
    Floats,
    Rows,
    States,
    cosines,
    hashed,
    packed,
    projected,
    random_signs,
    unit,
    unpacked,
)
from langchain_tooltree.sitgraph.suggest import BANDWIDTH, Ablation, Evidence, Fit, Recommender, gram, kernel, vote
from langchain_tooltree.sitgraph.suggest import fitted as fitted_vote
from langchain_tooltree.sitgraph.summarize import ACKNOWLEDGEMENT, DEFAULT_SUMMARY_PROMPT
from langchain_tooltree.sitgraph.summarize import write_summary as written_summary
from langchain_tooltree.sitgraph.transitions import (
    MAX_CALLS,
    MAX_CHARACTERS,
    START,
    TEXT_VIEWS,
    VIEWS,
    features_of,
    moment_of,
    summary_of,
    texts_of,
    transitions_of,
)
from langchain_tooltree.sitgraph.transitions import (
    both_ends as shortened,
)
