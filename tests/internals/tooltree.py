"""What tests use of ToolTree beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.types import Command

from langchain_tooltree.effects.calls import CallEffects, DeclaredEffect
from langchain_tooltree.experience.records import readable
from langchain_tooltree.tooltree import driver as driver_module
from langchain_tooltree.tooltree import resume as resume_module
from langchain_tooltree.tooltree import sandbox as sandbox_module
from langchain_tooltree.tooltree import saved as saved_module
from langchain_tooltree.tooltree import search as kernel
from langchain_tooltree.tooltree.approval import ReviewRequest
from langchain_tooltree.tooltree.ask import ProposalRequest, Proposer, with_reference
from langchain_tooltree.tooltree.ask import propose_messages as propose_messages_of
from langchain_tooltree.tooltree.attempts import MOST_ATTEMPTS, failed_attempts
from langchain_tooltree.tooltree.channel import (
    SAID_DONE,
    SAID_OPEN,
    ScoredTools,
    Standing,
    answer_in,
    as_score,
    hidden_prompt,
    named_of,
    standing_of,
    step_prompt,
)
from langchain_tooltree.tooltree.channel import step_messages as step_messages_with
from langchain_tooltree.tooltree.dialogue import PathDialogue, transcript
from langchain_tooltree.tooltree.draw import figures, status, to_mermaid, to_rich
from langchain_tooltree.tooltree.driver import answered, searched
from langchain_tooltree.tooltree.guidance import REFUSED_ENOUGH
from langchain_tooltree.tooltree.judge import FunctionEvaluator, JudgedCall, JudgeRequest, ModelEvaluator, resolve_judge
from langchain_tooltree.tooltree.middleware import deserves_search
from langchain_tooltree.tooltree.narrowing import FEWEST_SHOWN, ToolChoice, ToolNarrowing, plan_tools
from langchain_tooltree.tooltree.planner import JUDGED_CHARS, KEPT, Planner, SearchSession, Turn
from langchain_tooltree.tooltree.prompts import (
    ASSESS_DESCRIPTION,
    CONFIDENCE_DESCRIPTION,
    DEFAULT_ASSESS_PROMPT,
    DEFAULT_ATTEMPT_PROMPT,
    DEFAULT_CANDIDATES_PROMPT,
    DEFAULT_CHECK_PROMPT,
    DEFAULT_DRAFT_PROMPT,
    DEFAULT_HIDDEN_PROMPT,
    DEFAULT_NOTHING_PROMPT,
    DEFAULT_POST_JUDGE_PROMPT,
    DEFAULT_PRE_JUDGE_PROMPT,
    DEFAULT_PROPOSE_PROMPT,
    DEFAULT_REPAIR_PROMPT,
    DEFAULT_STEP_CALLS_PROMPT,
    DEFAULT_STEP_PROMPT,
    DEFAULT_TRIED_PROMPT,
    CandidateScores,
    ObservationScore,
)
from langchain_tooltree.tooltree.result import (
    ALTERNATIVES,
    KEY,
    PlanStep,
    SearchCost,
    alternatives,
    comparable,
    messages_of,
    plan_metadata,
    request_of,
    rounds,
)
from langchain_tooltree.tooltree.resume import last_search, warm_start_of
from langchain_tooltree.tooltree.retrieval import LexicalIndex, ToolRetriever, terms
from langchain_tooltree.tooltree.sandbox import Worlds, snapshot_of
from langchain_tooltree.tooltree.search.config import Estimate
from langchain_tooltree.tooltree.search.policies import PosteriorPolicy, SelectionPolicy, UCTPolicy
from langchain_tooltree.tooltree.search.posterior import (
    BETWEEN,
    DEEPER,
    DEVIATION,
    DONE,
    DONE_AT_START,
    DONE_SCORE,
    EARLY,
    EARLY_ASTRAY,
    FIRST,
    GOAL_DEVIATION,
    HARMLESS_READ,
    HARMLESS_WRITE,
    LEAST_DEVIATION,
    NAMED,
    NAMED_ASTRAY,
    OFFERED,
    OFFERED_ASTRAY,
    OPEN_SCORE,
    OWN_DONE,
    OWN_RIGHT,
    RANK_TRUST,
    SCORES_ASSUMED,
    SILENT_ASTRAY,
    SILENT_IF_DONE,
    SILENT_IF_OPEN,
    STRONGEST,
    JudgeCalibration,
    PathPosterior,
)
from langchain_tooltree.tooltree.search.prior import (
    FEWEST_WRITE_RUNS,
    KEPT_SHARES,
    OWN_SAME_TOOL,
    RARE_ENDS,
    RUNS_ASSUMED,
    SAME_TOOL,
    STRONGEST_SHARE,
    SURE_RUNS,
    USUAL_ENDS,
    Prior,
)
from langchain_tooltree.tooltree.search.scheduler import (
    Budget,
    ExtraCandidates,
    Operation,
    OperationOutcome,
    Rollout,
    Scheduler,
    Spent,
)
from langchain_tooltree.tooltree.search.search import FAILURES_TO_GIVE_UP, TreeSearch
from langchain_tooltree.tooltree.search.tree import Call, Effect, Frontier, Node, Observation, Openings, Tree, Work
from langchain_tooltree.tooltree.search.warm_start import WarmStart
from langchain_tooltree.tooltree.shown import describe, fit_to_show, origins
from langchain_tooltree.tooltree.signed_reasoning import Reply, SignedReasoning, fields_together, signed_reasoning_of
from langchain_tooltree.tooltree.tool_executor import HostHooks, ToolNodes, ToolStep, observe
from langchain_tooltree.tooltree.tools import SearchEffects, checked_arguments
from langchain_tooltree.tooltree.tools import classify_tools as effects_of
from langchain_tooltree.tooltree.tree_page import to_html
from langchain_tooltree.tooltree.tree_svg import to_svg

MANY_QUESTIONS: Any = {"proposals": "together", "pre_evaluation": "batched", "post_evaluation": "needed"}
"""Settings of a search that asks the proposer and the judge each by itself, for tests of what they are asked."""

OWN_STEP: Any = {"proposals": "own_step", "pre_evaluation": "fused"}
"""Settings of a search that begins with the agent's own step."""


def deciding(asked: Iterable[Any], *decisions: Mapping[str, Any]) -> Command[Any]:
    """Decisions on all that a person is asked, in its order: requests, or interrupts that hold them."""
    requests = [getattr(question, "value", question) for question in asked]
    named = [name for request in requests for name in request["decisions"]]
    return Command(resume={"decisions": [{**name, **each} for name, each in zip(named, decisions, strict=True)]})


def clean_arguments(tool, written):
    """The arguments that are left of those that a model wrote."""
    return checked_arguments(tool, written)[0]


def effects_as(told):
    """Effects of tools, by name, as a planner holds them."""
    reads = CallEffects.declared_as({name: "read" for name, effect in told.items() if effect == "read"})
    return SearchEffects(reads, frozenset(name for name, effect in told.items() if effect == "sandboxed"))


def classify_tools(library, effects=None, sandbox=None, **options):
    """What each tool does while searching, by what is known of it without arguments."""
    known = effects_of(library, effects, sandbox, **options)
    return {name: known.of(name, {}) for name in library.names}


def find_problem(tool, arguments):
    """What is wrong with the arguments of a call."""
    return checked_arguments(tool, arguments)[1]


def step_messages(conversation, prompt=DEFAULT_STEP_PROMPT):
    """The prompt that asks for the agent's own step."""
    return step_messages_with(conversation, prompt)


def propose_messages(conversation, *, instruction, attempt, tried, offered=()):
    """The prompt that asks for calls."""
    return propose_messages_of(ProposalRequest(conversation, (), attempt, tried), instruction, offered)
