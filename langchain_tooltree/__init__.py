"""Drop-in planning for the LangGraph and LangChain agents you already have."""

from langchain_tooltree.agent import create_tooltree_agent
from langchain_tooltree.errors import (
    ConfigurationError,
    EmptyQueryError,
    ResumeError,
    ToolDefinitionError,
    ToolTreeError,
)
from langchain_tooltree.experience.embeddings import HashingEmbeddings
from langchain_tooltree.tooltree.cards import ToolCard, ToolLibrary
from langchain_tooltree.tooltree.config import Estimate, SearchConfig
from langchain_tooltree.tooltree.effects import mcp_effects
from langchain_tooltree.tooltree.judge import Judge, JudgedCall, JudgeRequest
from langchain_tooltree.tooltree.marks import Alternative, PlanMark, PlannedCall
from langchain_tooltree.tooltree.middleware import ToolTreeMiddleware, deserves_search
from langchain_tooltree.tooltree.node import ToolTreeNode
from langchain_tooltree.tooltree.result import PlanStep, SearchCost, SearchResult
from langchain_tooltree.tooltree.review import PlanReviewMiddleware, PlanReviewNode, ReviewRequest, review_condition
from langchain_tooltree.tooltree.sandbox import ObjectSandbox, Sandbox, SnapshotSandbox
from langchain_tooltree.tooltree.standalone import asearch, search

__all__ = [
    "Alternative",
    "ConfigurationError",
    "EmptyQueryError",
    "Estimate",
    "HashingEmbeddings",
    "Judge",
    "JudgeRequest",
    "JudgedCall",
    "ObjectSandbox",
    "PlanMark",
    "PlanReviewMiddleware",
    "PlanReviewNode",
    "PlanStep",
    "PlannedCall",
    "ResumeError",
    "ReviewRequest",
    "Sandbox",
    "SearchConfig",
    "SearchCost",
    "SearchResult",
    "SnapshotSandbox",
    "ToolCard",
    "ToolDefinitionError",
    "ToolLibrary",
    "ToolTreeError",
    "ToolTreeMiddleware",
    "ToolTreeNode",
    "asearch",
    "create_tooltree_agent",
    "deserves_search",
    "mcp_effects",
    "review_condition",
    "search",
]
