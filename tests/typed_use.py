"""How somebody else's code uses the public names; `.ci/package` has mypy and pyright check it, both strict."""

from dataclasses import dataclass
from typing import Any, assert_type

from langchain.agents.middleware.types import (
    AgentState,
    InputAgentState,
    OutputAgentState,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel

from langchain_tooltree import (
    CFGMMemory,
    Experience,
    ExperienceStore,
    SearchConfig,
    SearchResult,
    SITGraph,
    SITGraphMiddleware,
    Suggestion,
    ToolTreeMiddleware,
    ToolTreeNode,
    Trajectory,
    asearch,
    create_tooltree_agent,
    load_trajectories,
    search,
    search_result,
)
from langchain_tooltree.effects import http_reads, sql_reads
from langchain_tooltree.errors import ToolTreeError
from langchain_tooltree.tooltree.judge import JudgeRequest


class Answer(BaseModel):
    miles: float


@dataclass
class Whose:
    user_id: str


def judge(request: JudgeRequest) -> list[float]:
    return [0.5 for _ in request.calls]


async def plan(model: BaseChatModel, tools: list[BaseTool]) -> None:
    config = SearchConfig(effort="frugal", max_seconds=3.0)
    result = search(
        "?", tools, model=model, config=config, judge=judge, effects={"look": "read"}
    )
    assert_type(result, SearchResult)
    effects = {
        "query": sql_reads("sql", dialect="sqlite"),
        "fetch": http_reads("method"),
    }
    assert_type(
        await asearch("?", tools, model="openai:gpt-4.1-mini", effects=effects),
        SearchResult,
    )
    agent = create_tooltree_agent(  # pyright: ignore[reportUnknownVariableType] - so is `create_agent`'s
        model, tools, system_prompt="Look.", effects={"look": "read"}, review=True
    )
    out: dict[str, Any] = agent.invoke({"messages": [{"role": "user", "content": "?"}]})  # pyright: ignore[reportUnknownMemberType]
    assert_type(search_result(out["messages"][-1]).to_svg(), str)
    ToolTreeNode(model, tools)
    answers = create_tooltree_agent(
        model, tools, response_format=Answer, context_schema=Whose
    )
    assert_type(
        answers,
        CompiledStateGraph[
            AgentState[Answer], Whose, InputAgentState, OutputAgentState[Answer]
        ],
    )
    create_tooltree_agent(model, tools, experiense=None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def learn(model: BaseChatModel) -> None:
    graph = SITGraph.from_trajectories(load_trajectories("runs.jsonl"))
    middleware: list[Any] = [
        ToolTreeMiddleware(effects={"look": "read"}),
        SITGraphMiddleware(graph),
    ]
    assert middleware
    assert_type(graph.suggest(None), list[Suggestion])
    assert_type(await graph.asuggest(None), list[Suggestion])
    run = Trajectory.from_messages([])
    await ExperienceStore(InMemoryStore()).aadd(run)
    await graph.aadd(run)
    experience = Experience("folder", verdict="openai:gpt-4.1-mini")
    await experience.within(user_id="ada").alearn(run)
    assert_type((await experience.asettle()).runs, int)
    await CFGMMemory(model, InMemoryStore()).arecall("A task")
    try:
        experience.forget(user="ada")
    except ToolTreeError as error:
        raise SystemExit(str(error)) from error
