"""Drop-in planning and experience for the LangGraph and LangChain agents you already have."""

from langchain_tooltree.agent import create_tooltree_agent
from langchain_tooltree.cfgm.anomaly.detector import AnomalyDetector, anomaly_condition
from langchain_tooltree.cfgm.anomaly.phrases import (
    ALFWORLD_PHRASES,
    DEFAULT_PHRASES,
    SCIENCEWORLD_PHRASES,
    WEBSHOP_PHRASES,
    Phrase,
)
from langchain_tooltree.cfgm.anomaly.rules import Anomaly
from langchain_tooltree.cfgm.collect.report import CollectionReport, Cost, Task, TaskOutcome
from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.middleware import CFGMMiddleware
from langchain_tooltree.cfgm.node import CFGMReflectionNode
from langchain_tooltree.cfgm.recall import RecalledRun, Recollection, recall_text
from langchain_tooltree.cfgm.recovery import Reflector
from langchain_tooltree.cfgm.reflection import Reflection
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.errors import (
    ConfigurationError,
    EmbedderMismatchError,
    EmptyQueryError,
    GraphFileError,
    ReplyError,
    ResumeError,
    StoreError,
    StoreLockedError,
    SummaryError,
    ToolDefinitionError,
    ToolTreeError,
    TrajectoryFormatError,
)
from langchain_tooltree.experience.embeddings import HashingEmbeddings
from langchain_tooltree.experience.files import dump_trajectories, load_trajectories
from langchain_tooltree.experience.recorder import TrajectoryRecorder
from langchain_tooltree.experience.records import Branch, Outcome, Step
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.threads import aload_thread, load_thread
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.verdict import ModelVerdict, Verdict
from langchain_tooltree.sitgraph.drift import DriftReport
from langchain_tooltree.sitgraph.middleware import SITGraphMiddleware
from langchain_tooltree.sitgraph.node import SITGraphNode, with_suggestions
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.suggest import Evidence, Suggestion
from langchain_tooltree.sitgraph.summarize import abackfill_summaries, backfill_summaries, create_summarize_state_tool
from langchain_tooltree.stores.chroma.store import ChromaStore
from langchain_tooltree.tooltree.driver import asearch, search
from langchain_tooltree.tooltree.judge import Judge, JudgedCall, JudgeRequest
from langchain_tooltree.tooltree.middleware import ToolTreeMiddleware, deserves_search
from langchain_tooltree.tooltree.node import ToolTreeNode
from langchain_tooltree.tooltree.plan_metadata import Alternative, PlanMetadata, PlannedCall
from langchain_tooltree.tooltree.result import PlanStep, SearchCost, SearchResult
from langchain_tooltree.tooltree.review import PlanReviewMiddleware, PlanReviewNode, ReviewRequest, review_condition
from langchain_tooltree.tooltree.sandbox import ObjectSandbox, Sandbox, SnapshotSandbox
from langchain_tooltree.tooltree.search.config import Estimate, SearchConfig
from langchain_tooltree.tooltree.tools import ToolCard, ToolLibrary, mcp_effects

__all__ = [
    "ALFWORLD_PHRASES",
    "DEFAULT_PHRASES",
    "SCIENCEWORLD_PHRASES",
    "WEBSHOP_PHRASES",
    "Alternative",
    "Anomaly",
    "AnomalyDetector",
    "Branch",
    "CFGMMemory",
    "CFGMMiddleware",
    "CFGMReflectionNode",
    "ChromaStore",
    "CollectionReport",
    "ConfigurationError",
    "Cost",
    "DriftReport",
    "EmbedderMismatchError",
    "EmptyQueryError",
    "Estimate",
    "Evidence",
    "ExperienceStore",
    "GraphFileError",
    "HashingEmbeddings",
    "Judge",
    "JudgeRequest",
    "JudgedCall",
    "ModelVerdict",
    "ObjectSandbox",
    "Outcome",
    "Phrase",
    "PlanMetadata",
    "PlanReviewMiddleware",
    "PlanReviewNode",
    "PlanStep",
    "PlannedCall",
    "RecalledRun",
    "Recollection",
    "Reflection",
    "Reflector",
    "ReplyError",
    "ResumeError",
    "ReviewRequest",
    "SITGraph",
    "SITGraphMiddleware",
    "SITGraphNode",
    "Sandbox",
    "SearchConfig",
    "SearchCost",
    "SearchResult",
    "SnapshotSandbox",
    "Step",
    "StoreError",
    "StoreLockedError",
    "Suggestion",
    "SummaryError",
    "Task",
    "TaskOutcome",
    "Tip",
    "ToolCard",
    "ToolDefinitionError",
    "ToolLibrary",
    "ToolTreeError",
    "ToolTreeMiddleware",
    "ToolTreeNode",
    "Trajectory",
    "TrajectoryFormatError",
    "TrajectoryRecorder",
    "Verdict",
    "abackfill_summaries",
    "aload_thread",
    "anomaly_condition",
    "asearch",
    "backfill_summaries",
    "create_summarize_state_tool",
    "create_tooltree_agent",
    "deserves_search",
    "dump_trajectories",
    "load_thread",
    "load_trajectories",
    "mcp_effects",
    "recall_text",
    "review_condition",
    "search",
    "with_suggestions",
]
