"""Real runs replayed as paths of a search: are suggestions at a node as good as in the conversation that it stands for?

The protocol is that of `tests.benchmarks.next_tool`. Inside a search a question stands at a node: the dialogue up to
the latest request is the conversation that is planned for, the rounds after it are nodes of a tree, and the planner's
own `PathDialogue` says what the dialogue at a node is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_tooltree import SITGraph
from tests.benchmarks.next_tool_graphs import told_apart
from tests.benchmarks.next_tool_protocol import Question, load_successes, questions_in, splits
from tests.internals.experience import ChatMessage, NextTools, steps_in, text_of, to_messages
from tests.internals.tooltree import Call, Node, Observation, PathDialogue, Tree

TOP = (1, 2)


def inside_a_search(path: Path) -> dict[str, float]:
    """Hit rates at the nodes of searches, outside of them, and where a search has suggestions for its start only."""
    hits: dict[str, float] = {"questions": 0}
    for train, test in splits(load_successes(path)):
        graph = SITGraph.from_trajectories(told_apart(train))
        for question in questions_in(test):
            hits["questions"] += 1
            root, inside = _dialogues(question)
            for name, messages in (("", inside), ("_outside", question.messages), ("_at_start", root)):
                ranked = _ranked(graph.next_tools(messages))
                for top in TOP:
                    hits[f"hit{top}{name}"] = hits.get(f"hit{top}{name}", 0) + (question.answer in ranked[:top])
    asked = hits.pop("questions")
    return {"questions": asked, **{name: round(count / asked, 4) for name, count in hits.items()}}


def _dialogues(question: Question) -> tuple[Sequence[ChatMessage], Sequence[ChatMessage]]:
    """The dialogue at the start of the search in which a question is asked, and at its node."""
    messages = question.messages
    begins = max(place for place, message in enumerate(messages) if message["role"] == "user") + 1
    tree = Tree()
    dialogue = PathDialogue(tree, to_messages(messages[:begins]))
    return dialogue.chat_at(tree.root), dialogue.chat_at(_grown(tree, messages[begins:]))


def _grown(tree: Tree, messages: Sequence[ChatMessage]) -> Node:
    """The end of a path in a tree that makes the calls of some messages, those of one message together."""
    node, position = tree.root, -1
    for step in steps_in(messages):
        call = Call(tool=step.tool, arguments=_arguments(step.arguments), effect="read")
        if step.position != position:
            call = call.model_copy(update={"said": text_of(messages[step.position].get("content"))})
        node = tree.add(node, call, batched=step.position == position)
        position = step.position
        if step.outcome:
            kind = "exception" if step.outcome.status == "error" else "ok"
            node.observation = Observation(content=text_of(step.outcome.content), kind=kind)
    return node


def _arguments(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(given or {})


def _ranked(past: NextTools | None) -> list[str]:
    shares = past.shares if past else {}
    return sorted(shares, key=lambda tool: (-shares[tool], tool))
