"""Drop-in planning and experience for the LangGraph and LangChain agents you already have.

A name is imported when it is first used, so `import langchain_tooltree` costs next to nothing, and what an agent does
not use is never loaded. Names for rarer needs stand in their modules: all exceptions in `langchain_tooltree.errors`,
the parts of records in `langchain_tooltree.experience.trajectory`, tasks and tips in `langchain_tooltree.cfgm`,
`sql_reads` and `http_reads` in `langchain_tooltree.effects`, phrases in
`langchain_tooltree.anomaly.rules`, models for tests in `langchain_tooltree.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC_NAMES = {
    # Agents: what takes the place of an agent, of its planner, or of its model node
    "agent": ("create_tooltree_agent",),
    "tooltree.middleware": ("ToolTreeMiddleware",),
    "tooltree.node": ("ToolTreeNode", "search", "asearch"),
    "selection": ("ToolSelectionMiddleware", "ToolRetriever"),
    # Search: how it is asked, set up and judged, and where writes may be tried
    "tooltree.search.config": ("SearchConfig",),
    "tooltree.result": ("SearchResult", "search_result"),
    "tools": ("ToolCard", "ToolLibrary"),
    "effects": ("mcp_effects",),
    "tooltree.judge": ("Judge",),
    "tooltree.prompts": ("Prompts",),
    "sandbox": ("ObjectSandbox", "Sandbox"),
    # Approval: a person sees a plan before it is carried out
    "review": ("PlanReviewMiddleware", "PlanReviewNode", "review_condition"),
    # Experience: what happened, how it is recorded and judged, and where it is kept
    "learning.experience": ("Experience",),
    "experience.recorder": ("TrajectoryRecorder", "load_thread", "aload_thread"),
    "experience.store": ("ExperienceStore",),
    "stores.chroma": ("ChromaStore",),
    "embeddings": ("HashingEmbeddings",),
    "experience.verdict": ("ModelVerdict",),
    "experience.trajectory": ("Trajectory",),
    "experience.files": ("load_trajectories", "dump_trajectories"),
    # Graph: which tools came next
    "sitgraph.sit_graph": ("SITGraph",),
    "sitgraph.agents": (
        "SITGraphMiddleware",
        "SITGraphNode",
        "create_summarize_state_tool",
    ),
    "sitgraph.suggest": ("Suggestion",),
    # Memory: what was learnt from similar tasks, and help when something goes wrong
    "cfgm.memory": ("CFGMMemory",),
    "cfgm.agents": ("CFGMMiddleware", "CFGMRecallNode", "CFGMReflectionNode"),
    "anomaly.detector": ("AnomalyDetector", "anomaly_condition"),
    "cfgm.online": ("Reflector",),
    # Pages: what was learnt, to read in a browser
    "pages.writer": ("write_page", "awrite_page"),
    # Errors
    "errors": ("ToolTreeError", "ConfigurationError"),
}
"""The public names of each module, by task; the ordinary case stands first. A test compares it with the imports below,
which type checkers and editors read."""

_MODULES = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}
__all__ = list(_MODULES)

if TYPE_CHECKING:
    from langchain_tooltree.agent import create_tooltree_agent as create_tooltree_agent
    from langchain_tooltree.anomaly.detector import AnomalyDetector as AnomalyDetector
    from langchain_tooltree.anomaly.detector import (
        anomaly_condition as anomaly_condition,
    )
    from langchain_tooltree.cfgm.agents import CFGMMiddleware as CFGMMiddleware
    from langchain_tooltree.cfgm.agents import CFGMRecallNode as CFGMRecallNode
    from langchain_tooltree.cfgm.agents import CFGMReflectionNode as CFGMReflectionNode
    from langchain_tooltree.cfgm.memory import CFGMMemory as CFGMMemory
    from langchain_tooltree.cfgm.online import Reflector as Reflector
    from langchain_tooltree.effects import mcp_effects as mcp_effects
    from langchain_tooltree.embeddings import HashingEmbeddings as HashingEmbeddings
    from langchain_tooltree.errors import ConfigurationError as ConfigurationError
    from langchain_tooltree.errors import ToolTreeError as ToolTreeError
    from langchain_tooltree.experience.files import (
        dump_trajectories as dump_trajectories,
    )
    from langchain_tooltree.experience.files import (
        load_trajectories as load_trajectories,
    )
    from langchain_tooltree.experience.recorder import (
        TrajectoryRecorder as TrajectoryRecorder,
    )
    from langchain_tooltree.experience.recorder import aload_thread as aload_thread
    from langchain_tooltree.experience.recorder import load_thread as load_thread
    from langchain_tooltree.experience.store import ExperienceStore as ExperienceStore
    from langchain_tooltree.experience.trajectory import Trajectory as Trajectory
    from langchain_tooltree.experience.verdict import ModelVerdict as ModelVerdict
    from langchain_tooltree.learning.experience import Experience as Experience
    from langchain_tooltree.pages.writer import awrite_page as awrite_page
    from langchain_tooltree.pages.writer import write_page as write_page
    from langchain_tooltree.review import PlanReviewMiddleware as PlanReviewMiddleware
    from langchain_tooltree.review import PlanReviewNode as PlanReviewNode
    from langchain_tooltree.review import review_condition as review_condition
    from langchain_tooltree.sandbox import ObjectSandbox as ObjectSandbox
    from langchain_tooltree.sandbox import Sandbox as Sandbox
    from langchain_tooltree.selection import ToolRetriever as ToolRetriever
    from langchain_tooltree.selection import (
        ToolSelectionMiddleware as ToolSelectionMiddleware,
    )
    from langchain_tooltree.sitgraph.agents import (
        SITGraphMiddleware as SITGraphMiddleware,
    )
    from langchain_tooltree.sitgraph.agents import SITGraphNode as SITGraphNode
    from langchain_tooltree.sitgraph.agents import (
        create_summarize_state_tool as create_summarize_state_tool,
    )
    from langchain_tooltree.sitgraph.sit_graph import SITGraph as SITGraph
    from langchain_tooltree.sitgraph.suggest import Suggestion as Suggestion
    from langchain_tooltree.stores.chroma import ChromaStore as ChromaStore
    from langchain_tooltree.tools import ToolCard as ToolCard
    from langchain_tooltree.tools import ToolLibrary as ToolLibrary
    from langchain_tooltree.tooltree.judge import Judge as Judge
    from langchain_tooltree.tooltree.middleware import (
        ToolTreeMiddleware as ToolTreeMiddleware,
    )
    from langchain_tooltree.tooltree.node import ToolTreeNode as ToolTreeNode
    from langchain_tooltree.tooltree.node import asearch as asearch
    from langchain_tooltree.tooltree.node import search as search
    from langchain_tooltree.tooltree.prompts import Prompts as Prompts
    from langchain_tooltree.tooltree.result import SearchResult as SearchResult
    from langchain_tooltree.tooltree.result import search_result as search_result
    from langchain_tooltree.tooltree.search.config import SearchConfig as SearchConfig
else:

    def __getattr__(name: str) -> Any:
        """Import a public name where it is first used."""
        if name not in _MODULES:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value = globals()[name] = getattr(
            import_module(f"{__name__}.{_MODULES[name]}"), name
        )
        return value

    def __dir__() -> list[str]:
        return [*__all__, *(name for name in globals() if name.startswith("__"))]
