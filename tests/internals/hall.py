"""What tests use of the hall beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree import events
from langchain_tooltree._langgraph import (
    NodeRun,
    SavedState,
    callbacks_here,
    can_be_answered,
    checkpoint_of,
    config_at,
    configurable_here,
    graph_around,
    interrupts_in,
    is_inside,
    namespace_here,
    namespace_of,
    nodes_in,
    runtime_in,
    steps_here,
    stream_now,
    tool_node_input,
    vacuum_of,
    variables_in,
    without_graph,
    without_reserved,
)
from langchain_tooltree.cli import CLOSED, EXIT_CODES, INCOMPLETE, REFUSED, STOPPED
from langchain_tooltree.cli import show as show_module
from langchain_tooltree.cli import view as view_module
from langchain_tooltree.cli.terminal import Terminal
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects import http_reads, sql_reads
from langchain_tooltree.effects.calls import CallEffects
from langchain_tooltree.effects.sql import LONGEST_SQL, only_reads
from langchain_tooltree.errors import check_arguments, check_count, import_extra
from langchain_tooltree.flows import (
    Flow,
    FunctionStep,
    TogetherStep,
    TwinStep,
    arun_flow,
    async_twin,
    driven,
    flow_of,
    in_thread,
    run_flow,
)
from langchain_tooltree.learning import copying as copying_module
from langchain_tooltree.learning import erasure as erasure_module
from langchain_tooltree.learning import experience as learning
from langchain_tooltree.learning import fold as background_module
from langchain_tooltree.learning import fold as fold_module
from langchain_tooltree.learning import segments as segments_module
from langchain_tooltree.learning.copying import copied
from langchain_tooltree.models import (
    ATTEMPTS,
    CORRECTION,
    UNTRUSTED,
    Meter,
    StructuredQuestion,
    bind_tools,
    call_tools,
    document_prompt,
    extended,
    http_status,
    inner_config,
    resolve_model,
    was_refused,
)
from langchain_tooltree.replies import read_as_form, received, sound, texts_of
from langchain_tooltree.secrets import masked
from langchain_tooltree.stores.locks import locked
from langchain_tooltree.svg import Picture, path
from langchain_tooltree.text import (
    INTRODUCED,
    LEVELS,
    SAME,
    MadeUp,
    compact_json,
    counts_added,
    cut,
    digest,
    is_plain,
    json_object,
    kinship,
    made_up,
    mentions,
    mermaid_text,
    one_line,
    plain,
    renamed_in,
    shortened,
    substance,
    whole_characters,
    words_of,
)
from langchain_tooltree.tools import check_effects, checked_arguments, injected_names


def told_as_data(instruction):
    """An instruction as a model reads it before a document."""
    return document_prompt(instruction, {})[0].text


def classify_tools(library, effects=None, sandbox=None):
    """What each tool's calls do, by what is known of it without arguments, as a planner with these options takes it."""
    declared = CallEffects.declared_as(effects)
    check_effects(library, declared, [tool.name for tool in sandbox.tools] if sandbox else ())
    known = declared.among(library)
    known.doubt()
    return {name: known.of(name, {}) for name in library.names}
