"""What tests use of ToolTree beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from typing import Any

from langchain_tooltree.conversation import transcript
from langchain_tooltree.effects.calls import CallEffects, DeclaredEffect
from langchain_tooltree.experience.records import readable
from langchain_tooltree.pages import saved as saved_module
from langchain_tooltree.pages.search_page import figures, status, to_html, to_mermaid, to_rich, to_svg
from langchain_tooltree.tools import check_effects, checked_arguments
from langchain_tooltree.tooltree import deep as deep_module
from langchain_tooltree.tooltree import search as kernel
from langchain_tooltree.tooltree.ask import (
    BoundTools,
    Proposal,
    ProposalRequest,
    Proposer,
    plan_tools,
    proposal_messages,
)
from langchain_tooltree.tooltree.branches import Branches, Candidate, Mark
from langchain_tooltree.tooltree.deep import JUDGED_CHARS, DeepSearch
from langchain_tooltree.tooltree.host import Planner, PlannerHost
from langchain_tooltree.tooltree.judge import (
    SAID_DONE,
    SAID_OPEN,
    FunctionEvaluator,
    JudgedCall,
    JudgeRequest,
    ModelEvaluator,
    Standing,
    as_score,
    resolve_judge,
)
from langchain_tooltree.tooltree.prompts import (
    AGAIN_PROMPT,
    ASSESS_DESCRIPTION,
    ASSESS_PROMPT,
    CANDIDATES_PROMPT,
    CHECK_PROMPT,
    CONFIDENCE_DESCRIPTION,
    DEFAULT_CHECK_PROMPT,
    DEFAULT_POST_JUDGE_PROMPT,
    DEFAULT_PRE_JUDGE_PROMPT,
    DRAFT_PROMPT,
    IDLE_PROMPT,
    NOTE,
    NOTHING_PROMPT,
    OPEN_PROMPT,
    OTHERS_PROMPT,
    PLAN_PROMPT,
    PROPOSE_PROMPT,
    REPAIR_PROMPT,
    TRIED_PROMPT,
    UNDONE_PROMPT,
    CandidateScores,
    ObservationScore,
)
from langchain_tooltree.tooltree.report import (
    REPORT_AND_CALL_PROMPT,
    REPORT_AND_UNDO_PROMPT,
    REPORT_PROMPT,
    Move,
    NamedCall,
    Report,
    Stop,
    admits,
    is_better,
    is_trouble,
    may_be_report,
    next_move,
    parse_report,
    split_report,
)
from langchain_tooltree.tooltree.result import (
    ALTERNATIVES,
    KEY,
    PlanStep,
    SearchCost,
    messages_of,
    plan_messages,
    steps_of,
    without_failed_writes,
)
from langchain_tooltree.tooltree.search import (
    Call,
    Effect,
    Frontier,
    KernelConfig,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    PosteriorPolicy,
    Tree,
    TreeSearch,
    UCTPolicy,
    Work,
)
from langchain_tooltree.tooltree.search.posterior import (
    BETWEEN,
    DEEPER,
    DEVIATION,
    DONE,
    DONE_AT_START,
    DONE_SCORE,
    FIRST,
    GOAL_DEVIATION,
    HARMLESS_READ,
    HARMLESS_WRITE,
    LEAST_DEVIATION,
    OFFERED,
    OFFERED_ASTRAY,
    OPEN_SCORE,
    RANK_TRUST,
    SCORES_ASSUMED,
    SILENT_ASTRAY,
    SILENT_IF_DONE,
    SILENT_IF_OPEN,
    STRONGEST,
    JudgeCalibration,
    PathPosterior,
)
from langchain_tooltree.tooltree.search.search import FAILURES_TO_GIVE_UP, Rollout, Scheduler, Spent

MANY_QUESTIONS: Any = {"selection": "posterior", "pre_evaluation": "batched", "post_evaluation": "needed"}
"""Settings of a search that asks the proposer and the judge each by itself, for tests of what they are asked."""


def clean_arguments(tool, written):
    """The arguments that are left of those that a model wrote."""
    return checked_arguments(tool, written)[0]


def find_problem(tool, arguments):
    """What is wrong with the arguments of a call."""
    return checked_arguments(tool, arguments)[1]


def propose_messages(conversation, instruction, *, attempt=1, tried=(), **others):
    """The prompt that asks a state for candidates."""
    return proposal_messages(ProposalRequest(conversation, (), attempt=attempt, tried=tried, **others), instruction)


class _Host(PlannerHost):
    """A host whose agent is never asked."""

    def own_step(self, _):
        raise NotImplementedError

    def offer(self, _):
        raise NotImplementedError


def deep_search(model, tools, messages, *, sinks=(), **options):
    """The flow of a deep search without an agent, whose events go to functions."""
    planner = Planner(**options)
    host = _Host(planner, planner.offering(tools), sinks=sinks, model=model)
    return DeepSearch(host, messages).run()
