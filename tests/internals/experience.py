"""What tests use of experience beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree._langgraph import NodeRun
from langchain_tooltree.effects.names import EFFECTS, is_read
from langchain_tooltree.experience import records as reference_module
from langchain_tooltree.experience import store as catalogue_module
from langchain_tooltree.experience import store as store_module
from langchain_tooltree.experience.excerpts import DEFAULT_MAX_CHARACTERS, excerpt, review
from langchain_tooltree.experience.guide import Advice, NextTools
from langchain_tooltree.experience.recorder import RunRecorder
from langchain_tooltree.experience.recording import path_of
from langchain_tooltree.experience.records import (
    LONGEST_AIM,
    MARK,
    TAG,
    Branch,
    ChatMessage,
    Outcome,
    Record,
    Step,
    aim_of,
    as_reference,
    call_key,
    count_unread,
    first_request,
    function_of,
    is_reference,
    own_messages,
    remarked,
    steps_in,
    text_of,
    without_reference,
)
from langchain_tooltree.experience.run_identity import (
    MOST_RUNS,
    NamespaceTemplate,
    OfferedTools,
    as_metadata,
    collecting,
    label_of,
    tools_in,
)
from langchain_tooltree.experience.store import HEAD, TASKS, TRAJECTORIES
from langchain_tooltree.experience.trajectory import from_json, to_chat, to_json, to_message, to_messages
from langchain_tooltree.experience.verdict import resolve_verdict, verdict_prompt
from langchain_tooltree.flows import async_twin, driven
from langchain_tooltree.text import LONGEST_TEXT, digest, shortened


@driven
def judged(trajectory, verdict):
    """A trajectory with its verdict, as recorders give it one."""
    given = yield from resolve_verdict(verdict)(trajectory)
    return trajectory.judged(given.success, given.reasons)


ajudged = async_twin(judged)
