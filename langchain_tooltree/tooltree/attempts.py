"""What a search has tried and given up, as failed attempts at its task: experience for later runs."""

from collections.abc import Iterator
from itertools import islice

from langchain_tooltree.experience.records import ATTEMPT_OF, call_key, readable
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.text import digest, one_line
from langchain_tooltree.tooltree.dialogue import PathDialogue
from langchain_tooltree.tooltree.result import SearchResult, has_gone_wrong
from langchain_tooltree.tooltree.search import Node, Tree

MOST_ATTEMPTS = 3
"""Failed attempts that are kept of a search: as many as a success is compared with at the most (CFGM, Alg. 2)."""

LONGEST_REASON = 300
"""Characters of what a refusal says, or a judge, that are kept as a reason: about 75 tokens."""


def failed_attempts(result: SearchResult, dialogue: PathDialogue, *, run: str, threshold: float) -> list[Trajectory]:
    """What a finished search has run and given up, beside its best path: those that tell most.

    They part from the best path as late as possible, and no two were given up for the same reason. A call that failed
    tells why itself; other calls were scored below the `threshold`. `run` is the id of the run that the search is part
    of. What is given up again in a later turn of it, after the same call, is the same attempt and has the same id: a
    conversation that goes on for long leaves one record for each way that was wrong, not one for each time.
    """
    best, tree = {0, *(step.node for step in result.steps)}, result.tree
    found = sorted(_given_up(tree, best, threshold), key=lambda each: (-_shared(tree, each[0], best), each[0].id))
    telling: dict[str, Node] = {}
    for node, why in found:
        telling.setdefault(why, node)
    return [_attempt(dialogue, tree, node, why, run) for why, node in islice(telling.items(), MOST_ATTEMPTS)]


def _given_up(tree: Tree, best: set[int], threshold: float) -> Iterator[tuple[Node, str]]:
    """The calls at which paths beside the best one went wrong first, with the reasons."""
    wrong: set[int | None] = set()
    for node in tree.nodes:  # parents stand before their children
        if node.parent in wrong:
            wrong.add(node.id)
        elif node.id not in best and (why := _why(node, threshold)):
            wrong.add(node.id)
            yield node, why


def _why(node: Node, threshold: float) -> str:
    """Why a call was given up after it had run; empty if it was not."""
    call, seen = node.call, node.observation
    if call is None or seen is None or seen.transient or seen.kind == "unsupported":
        return ""  # which says nothing about the task
    if has_gone_wrong(call, seen):
        return f"{call.tool} failed: {one_line(readable(seen.content), LONGEST_REASON)}"
    if node.r_post is None or not node.post_scored or node.r_post >= threshold:
        return ""
    reason = f": {one_line(node.post_reason, LONGEST_REASON)}" if node.post_reason else "."
    return f"{call.label} was given up with a score of {node.r_post:.2f}{reason}"


def _shared(tree: Tree, node: Node, best: set[int]) -> int:
    """How many calls a path has in common with the best one."""
    return sum(step.id in best for step in tree.path(node))


def _attempt(dialogue: PathDialogue, tree: Tree, node: Node, why: str, run: str) -> Trajectory:
    end = next(each for each in reversed(tree.reply_of(node)) if each.observation is not None)
    chat = dialogue.chat_at(end)
    made = [call_key(step.tool, step.arguments or {}) for step in Trajectory.from_chat(chat).steps]
    return Trajectory.from_chat(
        chat, id=digest([run, *made[-2:]]), success=False, reasons=why, metadata={ATTEMPT_OF: run}
    )
