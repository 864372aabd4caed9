"""Which of many tools is a model shown, and what does that cost?

    python -m tests.benchmarks.selection [--json out.json] [--model openai:gpt-4.1-mini --turns 24]

The tools of all APIs of the Berkeley function-calling benchmark in one agent, and the user turns of its 200 multi-turn
base tasks. A turn needs the tools of the benchmark's own solution. Counted are the share of the needed tools that are
shown; the turns in which all of them are; and tokens, four characters each: what the shown tools take in each request
of the turn, and what selecting takes by itself.

- `words`, `words and graph`: the ranking of `ToolSelectionMiddleware`, alone and with a graph of the solutions of every
  second task, for the turns of the others.
- `embeddings`: the nearest tools by `store.search`, as langgraph-bigtool finds them, with the user's words for a query
  and `HashingEmbeddings`. There, a model writes the query, in a call of its own, which is not counted here.
- `model`: LangChain's `LLMToolSelectorMiddleware`, where a model is given (`--model`), on some turns, evenly spread,
  on which the others are compared with it.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, LLMToolSelectorMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.store.memory import InMemoryStore
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree import HashingEmbeddings, SITGraph, ToolRetriever, Trajectory
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.bfcl_data import (
    fetch_package,
    load_entries,
    owners_of,
    parse_call,
    tool_specs,
)

SIZES = (5, 10, 20)
"""How many tools are shown."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user turn: its task, what the user has said so far, the tool called last, and the tools that are needed."""

    task: int
    texts: tuple[str, ...]
    last_tool: str | None
    needed: tuple[str, ...]


Ranking = Callable[[UserTurn, int], Sequence[str]]
"""Names of the tools that a turn is shown, at most so many."""


def load(cache: Path) -> tuple[list[StructuredTool], list[UserTurn]]:
    """All tools, and the user turns whose solution calls one."""
    package = fetch_package(cache)
    tools: dict[str, StructuredTool] = {}
    turns: list[UserTurn] = []
    for task, entry in enumerate(load_entries(package, "base")):
        owners = owners_of(entry)
        specs = tool_specs(package, owners)
        for spec in specs:
            tool = StructuredTool(
                name=spec.name,
                description=spec.description,
                args_schema=dict(spec.schema),
                func=lambda **_: "",
            )
            tools.setdefault(spec.name, tool)
        methods = {spec.name: owners[spec.owner] for spec in specs}
        texts: list[str] = []
        last_tool = None
        for question, solution in zip(
            entry["question"], entry["ground_truth"], strict=True
        ):
            texts += [message["content"] for message in question]
            if needed := [parse_call(text, methods).tool for text in solution]:
                turns.append(UserTurn(task, tuple(texts), last_tool, tuple(needed)))
                last_tool = needed[-1]
    return [*tools.values()], turns


def solutions(turns: Sequence[UserTurn]) -> Iterator[Trajectory]:
    """The solutions of tasks as runs that went well."""
    for task in dict.fromkeys(turn.task for turn in turns):
        messages: list[BaseMessage] = []
        for turn in (turn for turn in turns if turn.task == task):
            messages.append(HumanMessage(turn.texts[-1]))
            for name in turn.needed:
                call = {"name": name, "args": {}, "id": f"c{len(messages)}"}
                messages += [
                    AIMessage("", tool_calls=[call]),
                    ToolMessage("done", tool_call_id=call["id"], name=name),
                ]
            messages.append(AIMessage("Done."))
        yield Trajectory.from_messages(messages, id=str(task), success=True)


def rankings(
    tools: Sequence[StructuredTool], turns: Sequence[UserTurn]
) -> dict[str, Ranking]:
    """The rankings that need no model, by name."""
    halves = [[turn for turn in turns if turn.task % 2 == half] for half in range(2)]
    words = ToolRetriever(tools)
    joined = [
        ToolRetriever(tools, graph=SITGraph.from_trajectories(solutions(half)))
        for half in reversed(halves)
    ]
    store = InMemoryStore(
        index={"embed": HashingEmbeddings(), "dims": HashingEmbeddings().dims}
    )
    for tool in tools:
        store.put(
            ("tools",), tool.name, {"description": f"{tool.name}: {tool.description}"}
        )

    def by_words(turn: UserTurn, k: int) -> Sequence[str]:
        return [tool.name for tool in words.top(turn.texts, k)]

    def by_graph(turn: UserTurn, k: int) -> Sequence[str]:
        return [
            tool.name
            for tool in joined[turn.task % 2].top(
                turn.texts, k, last_tool=turn.last_tool
            )
        ]

    def by_embedding(turn: UserTurn, k: int) -> Sequence[str]:
        return [
            item.key for item in store.search(("tools",), query=turn.texts[-1], limit=k)
        ]

    return {"words": by_words, "words and graph": by_graph, "embeddings": by_embedding}


class Shown(AgentMiddleware[Any, Any, Any]):
    """Notes the tools that reach the model."""

    names: Sequence[str] = ()

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Note them."""
        self.names = [tool.name for tool in request.tools]
        return handler(request)


@dataclass
class ByModel:
    """The selection of `LLMToolSelectorMiddleware`; counts the tokens of what its model is sent and replies."""

    tools: Sequence[BaseTool]
    model: Any
    tokens: int = 0

    def __call__(self, turn: UserTurn, k: int) -> Sequence[str]:
        """Run an agent whose model only answers, and see what it is shown."""
        shown, usage = Shown(), UsageMetadataCallbackHandler()
        selector = LLMToolSelectorMiddleware(model=self.model, max_tools=k)
        agent = create_agent(
            ScriptedChatModel(replies=[AIMessage("Done.")]),
            self.tools,
            middleware=[selector, shown],
        )
        agent.invoke(
            {"messages": [("user", text) for text in turn.texts]},
            {"callbacks": [usage]},
        )
        own = usage.usage_metadata.values()
        self.tokens += sum(each["total_tokens"] for each in own)
        return shown.names


def tokens_of(tools: Sequence[BaseTool]) -> int:
    """Tokens of the schemas of tools."""
    return len(json.dumps([convert_to_openai_tool(tool) for tool in tools])) // 4


def figures(
    ranking: Ranking, tools: Sequence[BaseTool], turns: Sequence[UserTurn], k: int
) -> dict[str, float]:
    """What a ranking shows, over turns."""
    by_name = {tool.name: tool for tool in tools}
    shown = [ranking(turn, k) for turn in track(turns, f"{k} tools", transient=True)]
    needed = [set(turn.needed) for turn in turns]
    return {
        "needed": fmean(
            len(need.intersection(names)) / len(need)
            for need, names in zip(needed, shown, strict=True)
        ),
        "complete": fmean(
            need.issubset(names) for need, names in zip(needed, shown, strict=True)
        ),
        "tokens": fmean(
            tokens_of([by_name[name] for name in names]) for names in shown
        ),
        "selecting": getattr(ranking, "tokens", 0) / len(turns),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write JSON where wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument(
        "--model", help="for LLMToolSelectorMiddleware, as for init_chat_model"
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=24,
        help="turns to ask that model about, with 10 tools shown",
    )
    options = parser.parse_args(arguments)
    tools, turns = load(Path(".cache"))
    ranked = rankings(tools, turns)
    rows = {
        f"{name}, {k}": figures(rank, tools, turns, k)
        for name, rank in ranked.items()
        for k in SIZES
    }
    rows["all tools"] = {
        "needed": 1,
        "complete": 1,
        "tokens": tokens_of(tools),
        "selecting": 0,
    }
    if options.model:
        some = turns[:: max(len(turns) // options.turns, 1)][: options.turns]
        by_model = ByModel(tools, init_chat_model(options.model))
        for name, rank in {**ranked, "model": by_model}.items():
            rows[f"{name}, 10, {len(some)} turns"] = figures(rank, tools, some, 10)
    table = Table(
        "selection",
        "needed tools shown",
        "turns complete",
        "tokens of tools",
        "tokens of selecting",
    )
    for name, row in rows.items():
        table.add_row(
            name,
            *(f"{row[key]:.3f}" for key in ("needed", "complete")),
            f"{row['tokens']:,.0f}",
            f"{row['selecting']:,.0f}",
        )
    Console(width=110).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
