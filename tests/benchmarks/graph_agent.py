"""An agent with a graph goes once more through recorded dialogues, and sums up the state where it is in doubt.

    python -m tests.benchmarks.graph_agent FILE [--paper] [--dialogue ID] [--json PATH]

The file is that of `next_tool`, and so are its folds: the agent of a fold knows the successful dialogues of the
other four. It is a `create_agent` with a `SITGraphMiddleware`. Its model is scripted: it says and calls what was
recorded, and in between it calls `summarize_state` whenever the best suggestion in its prompt has less than half of all
shares. The summary is made by rule out of what the user said and what was called, and so are those that the known
dialogues have at every step. Its tools bring back what was recorded.

Printed are the transcript of one dialogue, as a Markdown table, and how often the tool that was called had been
suggested: in routine steps, and at the points of doubt before and after the summary. The model knows what comes next
whatever the prompt says, so this shows what an agent is told, and not what it would make of it. `--paper` has routine
steps go by weight, as in the paper.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from rich.progress import track

from langchain_tooltree import SITGraph, SITGraphMiddleware, Trajectory
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.next_tool_protocol import FOLDS, fold_of, load_successes
from tests.internals.experience import to_messages
from tests.internals.sitgraph import SUMMARIZE_STATE, WRITTEN_SUMMARIES, hints, transitions_of

DOUBT = 0.5
K = 2


@dataclass(frozen=True)
class Seen:
    """One model call that leads to a tool call: what its prompt suggested, in which mode, and what the model called."""

    mode: str
    answered: bool
    suggested: tuple[tuple[str, float], ...]
    called: str
    summarized: bool

    def hit(self, k: int) -> bool:
        """Whether the tool that was called was among the first `k` suggestions."""
        return self.called in [tool for tool, _ in self.suggested[:k]]


class Actor(BaseCallbackHandler):
    """Plays the agent's part of a dialogue, and notes what it is told."""

    def __init__(self, lines: list[AIMessage]) -> None:
        self.lines = lines
        self.seen: list[Seen] = []
        self._told: dict[str, Any] = {}

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Hear what is suggested for the coming model call."""
        if name == "tooltree.suggest":
            self._told = data

    def reply(self, prompt: list[BaseMessage]) -> AIMessage:
        """Say the next line, or sum up the state first."""
        told, self._told = self._told.get("suggestions", []), {}
        if not self.lines:
            return AIMessage("")
        line = self.lines[0]
        suggested = tuple((each["tool"], each["score"]) for each in told)
        assert hints(told) in f"{prompt[0].text}\n{prompt[-1].text}"
        answered = isinstance(prompt[-1], ToolMessage) and prompt[-1].name == SUMMARIZE_STATE
        if line.tool_calls:
            doubtful = bool(suggested) and suggested[0][1] < DOUBT and not answered
            mode = told[0]["mode"] if told else "none"
            self.seen.append(Seen(mode, answered, suggested, line.tool_calls[0]["name"], doubtful))
            if doubtful:
                return AIMessage(
                    "",
                    tool_calls=[
                        {"name": SUMMARIZE_STATE, "args": {"summary": summary(prompt)}, "id": f"doubt {len(self.seen)}"}
                    ],
                )
        return self.lines.pop(0)


def summary(prompt: Sequence[BaseMessage]) -> str:
    """A summary by rule: what the user wants, what they said last, and what was called."""
    said = [message.text for message in prompt if isinstance(message, HumanMessage)]
    calls = [call["name"] for message in prompt if isinstance(message, AIMessage) for call in message.tool_calls]
    called = [name for name in calls if name != SUMMARIZE_STATE]
    return f"The user wants: {said[0]} Last they said: {said[-1]} Called last: {', '.join(called[-3:])}."


def with_summaries(run: Trajectory) -> Trajectory:
    """A run that was summed up by the same rule before each tool call."""
    moments = [transition.moment for transition in transitions_of(run)]
    written = {
        str(place): summary(to_messages(moment.messages))
        for place, moment in enumerate(moments)
        if any(message["role"] == "user" for message in moment.messages)
    }
    return replace(run, metadata={**run.metadata, WRITTEN_SUMMARIES: written})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--paper", action="store_true", help="routine steps go by weight")
    parser.add_argument("--dialogue", help="id of the dialogue to print; the first one with both ways if left out")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    runs = load_successes(options.file)
    played: dict[str, list[Seen]] = {}
    for fold in range(FOLDS):
        known = [run for run in runs if fold_of(run) != fold]
        graph = SITGraph.from_trajectories(map(with_summaries, known), contextual=not options.paper)
        for run in track(
            [run for run in runs if fold_of(run) == fold and run.steps], f"fold {fold + 1} of {FOLDS}", transient=True
        ):
            played[run.id] = play(run, graph)
    last = list(played)[-1]
    chosen = options.dialogue or next(
        each for each, seen in played.items() if any(step.summarized for step in seen) or each == last
    )
    print(f"{chosen}\n")
    print("\n".join(table(played[chosen])))
    figures = summed_up([step for seen in played.values() for step in seen])
    print()
    for name, figure in figures.items():
        print(f"{name:32} {figure['steps']:5} steps   hit@1 {figure['hit1']:.3f}   hit@2 {figure['hit2']:.3f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def play(run: Trajectory, graph: SITGraph) -> list[Seen]:
    """Have an agent go through a dialogue.

    Args:
        run: The dialogue.
        graph: What the agent knows.

    Returns:
        What it was told before each tool call.
    """
    messages = [message for message in run.to_messages() if not isinstance(message, SystemMessage)]
    observations = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    actor = Actor([message for message in after_the_user(messages) if isinstance(message, AIMessage)])

    @wrap_tool_call
    def recorded(request: Any, handler: Any) -> Any:
        return observations.get(request.tool_call["id"]) or handler(request)

    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
    names = {step.tool for step in run.steps} | set(graph.to_networkx()) - {""}
    tools = [
        StructuredTool(name=name, description=name, args_schema=schema, func=lambda **_: "") for name in sorted(names)
    ]
    model = ScriptedChatModel(replies=[actor.reply] * (3 * len(messages) + 3))
    agent = create_agent(
        model, tools, middleware=[SITGraphMiddleware(graph, k=K), recorded], checkpointer=InMemorySaver()
    )
    for turn in turns(messages):
        if actor.lines:
            config = {"configurable": {"thread_id": "1"}, "recursion_limit": 200, "callbacks": [actor]}
            agent.invoke({"messages": turn}, config)
    return actor.seen


def after_the_user(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What comes after the first user message; a greeting before it is not the agent's to say again."""
    first = next((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), len(messages))
    return list(messages[first:])


def turns(messages: Sequence[BaseMessage]) -> Iterator[list[BaseMessage]]:
    """What is said to the agent, turn by turn; the first turn begins with what was said before."""
    rest = after_the_user(messages)
    waiting: list[BaseMessage] = list(messages[: len(messages) - len(rest)])
    for message, after in zip(rest, [*rest[1:], None], strict=True):
        if isinstance(message, HumanMessage):
            waiting.append(message)
            if not isinstance(after, HumanMessage):
                yield waiting
                waiting = []


def table(seen: Sequence[Seen]) -> Iterator[str]:
    """A dialogue as a Markdown table."""
    yield "| mode | suggested | the agent calls |"
    yield "|---|---|---|"
    for step in seen:
        told = ", ".join(f"`{tool}` {share:.0%}" for tool, share in step.suggested) or "(the graph abstains)"
        called = (
            f"`{SUMMARIZE_STATE}`, as it is in doubt"
            if step.summarized
            else f"`{step.called}`{' ✔' if step.hit(K) else ''}"
        )
        yield f"| {step.mode} | {told} | {called} |"


def summed_up(seen: Sequence[Seen]) -> dict[str, dict[str, float]]:
    """How often the tool that was called had been suggested."""
    kinds = {
        "routine": [step for step in seen if not step.answered and not step.summarized],
        "in doubt, before the summary": [step for step in seen if step.summarized],
        "in doubt, after the summary": [step for step in seen if step.answered],
    }
    return {
        name: {
            "steps": len(steps),
            "hit1": sum(step.hit(1) for step in steps) / max(len(steps), 1),
            "hit2": sum(step.hit(2) for step in steps) / max(len(steps), 1),
        }
        for name, steps in kinds.items()
    }


if __name__ == "__main__":
    sys.exit(main())
