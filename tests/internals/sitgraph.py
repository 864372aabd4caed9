"""What tests use of SIT-Graph beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.experience.hints import hints
from langchain_tooltree.sitgraph import files as files_module
from langchain_tooltree.sitgraph import mining as mining_module
from langchain_tooltree.sitgraph import sit_graph as sit_graph_module
from langchain_tooltree.sitgraph import states as states_module
from langchain_tooltree.sitgraph import transitions as views_module
from langchain_tooltree.sitgraph import votes as votes_module
from langchain_tooltree.sitgraph.drift import DriftReport, schema_hash, toolset_of
from langchain_tooltree.sitgraph.files import LARGE, MANIFEST, load_graph
from langchain_tooltree.sitgraph.graph import INVERSE_TURN, Contribution, Edges, Graph, Snapshot
from langchain_tooltree.sitgraph.mining import Encoder, state_of
from langchain_tooltree.sitgraph.refusals import LEAST_REFUSED, Refusals
from langchain_tooltree.sitgraph.sit_graph import DEFAULT_ALPHA
from langchain_tooltree.sitgraph.states import (
    DIMENSIONS,
    END,
    REMOVED,
    SKETCH_BITS,
    Codes,
    Floats,
    GrowingRows,
    Rows,
    States,
    cosines,
    distances,
    fitted,
    numbers_of,
    packed,
    random_signs,
    sketched,
    summed,
    unpacked,
    vector_of,
)
from langchain_tooltree.sitgraph.suggest import (
    BANDWIDTH,
    Ablation,
    Evidence,
    Recommender,
)
from langchain_tooltree.sitgraph.summarize import ACKNOWLEDGEMENT, DEFAULT_SUMMARY_PROMPT, backfill_summaries
from langchain_tooltree.sitgraph.summarize import write_summary as written_summary
from langchain_tooltree.sitgraph.transitions import (
    MAX_CALLS,
    MAX_CHARACTERS,
    START,
    TEXT_VIEWS,
    VIEWS,
    WRITTEN_SUMMARIES,
    features_of,
    last_tool_in,
    moment_of,
    summary_of,
    texts_of,
    transitions_of,
)
from langchain_tooltree.sitgraph.transitions import (
    both_ends as shortened,
)
from langchain_tooltree.sitgraph.votes import Fit, Points, kernel, vote
from langchain_tooltree.sitgraph.votes import fitted as fitted_vote
