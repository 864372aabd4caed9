"""What a method may learn from the tasks before: a graph of tool calls, and one of several memories.

| `--memory` | what it keeps, and shows with a task |
|---|---|
| `cfgm` | the package's own: runs that succeeded and tips, recalled for similar tasks; reflection on anomalies |
| `runs`, `runs3` | the successful run whose task is most like this one, whole, or the three most like it |
| `expel` | tips (ExpeL, Zhao et al. 2024): one numbered list, which the model edits after each run |
| `reasoningbank` | what was learnt (ReasoningBank, Ouyang et al. 2025): titled items of successes and failures |
| `toolnet` | which tool followed which, by weight alone (ToolNet, Liu et al. 2024) |
| `sitgraph` | the package's graph as its paper has it; ablations: `sitgraph-without-weight`, `sitgraph-without-state` |
| `cfgm-paper` | the package's memory as its paper has it, reflecting at each anomaly; ablation: `cfgm-without-tips` |

`--graph` is the package's SIT-Graph of the successful runs; it goes with each memory. All of it is learnt in the order
of the tasks, from the benchmark's own verdict, and each memory has as many characters of the prompt. `--experience
FILE` has them learn from the runs in a file first: trajectories as `load_trajectories` reads them, with a verdict.
A model call that a memory makes is counted under its name, with the task that it learns from.

ExpeL and ReasoningBank are their online learning in short, in our words: the first is shown the list and one run, with
the most similar success where it failed; the second takes at most three items of a run, and recalls those of the one
most similar task, without scaling at test time.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    HashingEmbeddings,
    SITGraph,
    Trajectory,
    load_trajectories,
)
from langchain_tooltree.errors import ToolTreeError
from langchain_tooltree.models import REPLY_ATTEMPTS
from langchain_tooltree.text import shortened
from tests.benchmarks.live.episode import (
    Experience,
    Finished,
    Memory,
    Outcome,
    UsageError,
)
from tests.benchmarks.live.search_driver import object_in, transcript

logger = logging.getLogger(__name__)

ROOM = 6_000
"""Characters of advice in a prompt, 1,500 tokens: what the package's own memory takes by default."""

READ = 20_000
"""Characters of a run that a memory's question shows, 5,000 tokens: enough for all but the longest runs."""

TIPS = 20
"""Tips that ExpeL's list holds at most: what fits `ROOM`."""

FIRST_WORTH = 2
"""What a new tip is worth; it goes at 0, and each word for or against it is 1. As in ExpeL."""

ITEMS = 3
"""Items that ReasoningBank takes of a run at most, as in its paper."""

EXPEL_PROMPT = """\
You keep a numbered list of tips for an agent with tools, so that it does better at tasks to come. You get the list, a \
run of the agent and whether it succeeded; for a run that failed, a similar one that succeeded, if there is one. Say \
how the list changes: what the run teaches beyond its own task, as short rules; no facts of that one task. Reply with \
JSON alone: {"operations": [{"op": "add", "text": "..."}, {"op": "agree", "number": 1}, {"op": "edit", "number": 2, \
"text": "..."}, {"op": "remove", "number": 3}]}. At most four operations; none if the run teaches nothing new."""

BANK_PROMPT = """\
You get a run of an agent with tools, and whether it succeeded. Say what it teaches for similar tasks: of a success, \
why it succeeded; of a failure, what to do instead. At most three items, each on something else, none of them about \
names or values of this one task. Reply with JSON alone: {"items": [{"title": "a few words", "description": "one \
sentence", "content": "one to five sentences"}]}"""

HEADING = "From earlier tasks; what held there may not hold here:"


class Part:
    """A memory that learns nothing and knows nothing; the others change what they have to."""

    def recall(self, request: str) -> Experience:
        """What helps with a task."""
        return Experience()

    def learn(self, finished: Finished) -> Any:
        """Take in a task; returns what `finished.learnt` is to hold where it is taken in again, as JSON has it."""


@dataclass
class Graph(Part):
    """The package's graph."""

    graph: SITGraph = field(default_factory=SITGraph)

    def recall(self, request: str) -> Experience:
        """The graph."""
        return Experience(graph=self.graph)

    def learn(self, finished: Finished) -> None:
        """Add a run; the graph takes those that succeeded."""
        self.graph.add(_trajectory(finished))


@dataclass
class Own(Part):
    """The package's memory. Started again, it asks for its tips again."""

    memory: CFGMMemory
    reflecting: Mapping[str, Any] = field(default_factory=dict)
    with_tips: bool = True

    def recall(self, request: str) -> Experience:
        """The memory."""
        return Experience(memory=self.memory, reflecting=self.reflecting)

    def learn(self, finished: Finished) -> None:
        """Keep a run, and take tips from what is new."""
        self.memory.experience.add(_trajectory(finished))
        if self.with_tips:
            self.memory.extract_tips()


def _as_printed(model: BaseChatModel, *, with_tips: bool = True) -> Own:
    """The memory of the paper, reflecting at each anomaly; with the package's embedder, since the paper's is loaded."""
    memory = CFGMMemory.paper(
        model, InMemoryStore(), max_characters=ROOM, embeddings=HashingEmbeddings()
    )
    reflecting = {"patience": 0, "cooldown": 1}
    return Own(memory, reflecting, with_tips)


@dataclass
class Runs(Part):
    """Whole runs: so many of those most like a task."""

    count: int = 1
    kept: list[Finished] = field(default_factory=list)

    def recall(self, request: str) -> Experience:
        """The runs most like this one, most like it first."""
        left, texts = list(self.kept), []
        for _ in range(min(self.count, len(left))):
            found = nearest(request, [_request(each) for each in left])
            texts.append(
                shortened(transcript(left.pop(found or 0).messages), ROOM // self.count)
            )
        return Experience("\n\n".join([HEADING, *texts])) if texts else Experience()

    def learn(self, finished: Finished) -> None:
        """Keep a run that succeeded."""
        if finished.outcome.success:
            self.kept.append(finished)


@dataclass
class ExpeL(Part):
    """A list of tips that the model edits."""

    model: BaseChatModel
    successes: list[Finished] = field(default_factory=list)
    tips: list[tuple[str, int]] = field(default_factory=list)

    def recall(self, request: str) -> Experience:
        """The list."""
        listed = "\n".join(f"- {text}" for text, _ in self.tips)
        return (
            Experience(shortened(f"{HEADING}\n{listed}", ROOM))
            if listed
            else Experience()
        )

    def learn(self, finished: Finished) -> list[Any]:
        """Have the list edited; returns the operations."""
        operations = finished.learnt
        if operations is None:
            shown: dict[str, Any] = {
                "tips": [
                    f"{number}. {text}" for number, (text, _) in enumerate(self.tips, 1)
                ],
                **_shown(finished),
            }
            near = nearest(
                _request(finished), [_request(each) for each in self.successes]
            )
            if near is not None and not finished.outcome.success:
                shown["similar success"] = shortened(
                    transcript(self.successes[near].messages), READ
                )
            operations = asked(self.model, "expel", EXPEL_PROMPT, shown, "operations")
        if finished.outcome.success:
            self.successes.append(finished)
        self._edit([each for each in operations if isinstance(each, dict)])
        return list(operations)

    def _edit(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Carry out operations; numbers are those of the list as it was shown, and what cannot be done is left out."""
        tips: dict[int, tuple[str, int]] = dict(enumerate(self.tips, 1))
        for each in operations:
            kind, number, text = (
                each.get("op"),
                each.get("number"),
                str(each.get("text") or "").strip(),
            )
            if kind == "add" and text:
                tips[len(self.tips) + len(tips) + 1] = (text, FIRST_WORTH)
            elif isinstance(number, int) and number in tips:
                said, worth = tips[number]
                if kind in {"agree", "edit"}:
                    tips[number] = (
                        text if kind == "edit" and text else said,
                        worth + 1,
                    )
                elif kind == "remove":
                    tips[number] = (said, worth - 1)
        left = sorted(
            (tip for tip in tips.values() if tip[1] > 0), key=lambda tip: -tip[1]
        )
        self.tips = left[:TIPS]


@dataclass
class ReasoningBank(Part):
    """Titled items, by the task that they were learnt from."""

    model: BaseChatModel
    items: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)

    def recall(self, request: str) -> Experience:
        """The items of the task most like this one."""
        found = nearest(request, [task for task, _ in self.items])
        if found is None:
            return Experience()
        texts = [
            f"# {item.get('title', '')}\n{item.get('description', '')}\n{item.get('content', '')}"
            for item in self.items[found][1]
        ]
        return Experience(shortened(f"{HEADING}\n" + "\n".join(texts), ROOM))

    def learn(self, finished: Finished) -> list[Any]:
        """Have items taken from a run; returns them."""
        items = finished.learnt
        if items is None:
            items = asked(
                self.model, "reasoningbank", BANK_PROMPT, _shown(finished), "items"
            )[:ITEMS]
        if usable := [each for each in items if isinstance(each, dict)]:
            self.items.append((_request(finished), usable))
        return list(items)


@dataclass
class Together(Part):
    """A graph and a memory."""

    parts: Sequence[Part]

    def recall(self, request: str) -> Experience:
        """What all of them know."""
        found = [part.recall(request) for part in self.parts]
        return Experience(
            advice="\n\n".join(each.advice for each in found if each.advice),
            graph=next((each.graph for each in found if each.graph is not None), None),
            memory=next(
                (each.memory for each in found if each.memory is not None), None
            ),
            reflecting=next((each.reflecting for each in found if each.reflecting), {}),
        )

    def learn(self, finished: Finished) -> Any:
        """Have all of them learn; one of them at most has something to keep."""
        return next(
            (kept for part in self.parts if (kept := part.learn(finished)) is not None),
            None,
        )


MEMORIES: dict[str, Callable[[BaseChatModel], Part]] = {
    "none": lambda _: Part(),
    "cfgm": lambda model: Own(CFGMMemory(model, InMemoryStore(), max_characters=ROOM)),
    "cfgm-paper": _as_printed,
    "cfgm-without-tips": lambda model: _as_printed(model, with_tips=False),
    "runs": lambda _: Runs(),
    "runs3": lambda _: Runs(count=3),
    "toolnet": lambda _: Graph(SITGraph.paper(ablation="w/o state")),
    "sitgraph": lambda _: Graph(SITGraph.paper()),
    "sitgraph-without-weight": lambda _: Graph(SITGraph.paper(ablation="w/o weight")),
    "sitgraph-without-state": lambda _: Graph(SITGraph.paper(ablation="w/o state")),
    "expel": ExpeL,
    "reasoningbank": ReasoningBank,
}


def make_memory(
    name: str | None,
    graph: bool,  # noqa: FBT001
    model: BaseChatModel,
    experience: Path | None = None,
) -> Memory:
    """The memory of a run, with what it learns from a file of earlier runs.

    Raises:
        UsageError: If there is no memory of this name, or the file cannot be read.
    """
    if (name or "none") not in MEMORIES:
        msg = f"--memory {name!r} is unknown; choose one of {', '.join(MEMORIES)}."
        raise UsageError(msg)
    memory = Together([MEMORIES[name or "none"](model), *([Graph()] if graph else [])])
    try:
        runs = [*load_trajectories(experience)] if experience else []
    except (OSError, ToolTreeError) as error:
        msg = f"--experience {experience} cannot be read: {error}"
        raise UsageError(msg) from error
    for run in runs:
        if run.success is not None:
            outcome = Outcome(run.success, float(run.success))
            memory.learn(Finished(run.id, _without_system(run.to_messages()), outcome))
    return memory


def nearest(request: str, tasks: Sequence[str]) -> int | None:
    """The place of the task most like this one, the latest of equals; `None` without tasks."""
    if not tasks:
        return None
    embedder = HashingEmbeddings()
    likeness = np.array(embedder.embed_documents(list(tasks))) @ np.array(
        embedder.embed_query(request)
    )
    return int(len(tasks) - 1 - np.argmax(likeness[::-1]))


def asked(
    model: BaseChatModel, kind: str, prompt: str, shown: Mapping[str, Any], key: str
) -> list[Any]:
    """Ask a memory's question, and once more if the reply cannot be used; the list under a key, or an empty one."""
    document = json.dumps(shown, ensure_ascii=False, indent=1)
    for _ in range(REPLY_ATTEMPTS):
        try:
            reply = model.invoke(
                [SystemMessage(prompt), HumanMessage(document)], {"run_name": kind}
            )
        except Exception as error:  # noqa: BLE001 - nothing is learnt then, and the next task can be done
            logger.warning(
                "Nothing was learnt (%s): %s: %s", kind, type(error).__name__, error
            )
            continue
        found = (object_in(reply.text) or {}).get(key)
        if isinstance(found, list):
            return found
    return []


def _shown(finished: Finished) -> dict[str, Any]:
    run = shortened(transcript(finished.messages), READ)
    return {
        "run": run,
        "succeeded": finished.outcome.success,
        "verdict": finished.outcome.detail,
    }


def _request(finished: Finished) -> str:
    return next(
        (
            message.text
            for message in finished.messages
            if isinstance(message, HumanMessage)
        ),
        "",
    )


def _trajectory(finished: Finished) -> Trajectory:
    return Trajectory.from_messages(
        finished.messages, success=finished.outcome.success, id=finished.id
    )


def _without_system(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    return [message for message in messages if not isinstance(message, SystemMessage)]
