"""What a finished search leaves to the next one in the same conversation. Pure.

Once a planned write was carried out and brought back what its trial in the sandbox had, the world is the one that the
tree below that write was explored in: the next search starts there. Identifiers that the real world has made up are put
in the place of those of the sandbox. After a new request the old scores mean nothing, but reads that were tried and not
kept are still known.
"""

from collections.abc import Collection
from dataclasses import replace

from pydantic import BaseModel

from langchain_tooltree.text import SAME, MadeUp, mentions, renamed_in
from langchain_tooltree.tooltree.search.tree import Call, Node, Observation, Tree


class WarmStart(BaseModel):
    """What a search begins with; plain data, so that a checkpointer can keep it."""

    nodes: list[Node] = []  # the tree to begin with, its root first; empty to begin with nothing
    carried_out: bool = False  # whether the plan ended in the root's state
    known: list[tuple[Call, Observation]] = []  # reads made before in the world as it is now, with what they brought
    anew: str = ""  # why the tree of the search before is not gone on from, if it is not

    @classmethod
    def below(cls, tree: Tree, state: Node, *, carried_out: bool, differing: MadeUp = SAME) -> "WarmStart":
        """The tree of a finished search below a state, for a search that begins in that state.

        Calls that were proposed and never scored are left out, and those that depend on what the real world has made
        up otherwise, `differing` in more than a name; their states may be asked again. Where something is gone, what
        was read and answered below may have told of it in any words, so only the writes are kept. The root keeps the
        goal score, and as visits and value what was found below it.
        """
        grown = Tree()
        root = grown.root
        root.goal = state.goal
        root.proposals = state.proposals
        root.finished = state.finished
        root.answer, root.missing, root.prior = state.answer, state.missing, state.prior
        root.closed = state.closed and bool(state.children)
        root.visits = max(state.visits - state.evaluated, 0)
        if root.visits:
            root.value = (state.value * state.visits - (state.r_post or 0.0)) / root.visits
        copies = {state.id: root}
        ask_again: set[int] = set()
        for node in tree.nodes[state.id + 1 :]:
            parent = copies.get(node.parent) if node.parent is not None else None
            if parent is None or node.call is None:
                continue
            call = None if node.r_pre is None else _carried_call(node.call, differing)
            observation = node.observation and _carried_observation(node.call, node.observation, differing)
            if call is None or (node.observation is not None and observation is None):
                ask_again.add(parent.id)
                continue
            place = grown.add(parent, call)
            world = parent.world if observation and observation.unchanged else place.world
            copies[node.id] = grown.nodes[place.id] = replace(
                node,
                id=place.id,
                parent=place.parent,
                depth=place.depth,
                call=call,
                observation=observation,
                world=world,
                children=[],
                dropped=list(node.dropped),
                in_flight=0,
                proposing=False,
                evaluating=False,
            )
        if differing != SAME:
            ask_again.update(node.id for node in grown.nodes if not _carry_answer(node, differing))
        for asked in map(grown.nodes.__getitem__, ask_again):
            asked.proposals = max(asked.proposals - 1, 0)
            if differing != SAME:
                asked.finished = False
                for each in (root, *grown.path(asked)):
                    each.closed = False
        return cls(nodes=grown.nodes, carried_out=carried_out)

    @classmethod
    def from_reads(cls, tree: Tree, world: str, *, tools: Collection[str], shown: Collection[str]) -> "WarmStart":
        """The reads of `tools`, whose results still hold, that a search tried in the world that is now the real one.

        `shown` are the keys of calls whose results stand in the conversation: a model that makes one of them again
        wants a new result.
        """
        return cls(
            known=[
                (node.call, node.observation)
                for node in tree.nodes
                if node.call and node.call.effect == "read" and node.call.tool in tools and node.call.key not in shown
                if node.world == world and node.observation and not node.observation.transient
            ]
        )


def _carried_call(call: Call, differing: MadeUp) -> Call | None:
    """A call as it is to be made in the real world; `None` if that cannot be said."""
    if mentions(call.arguments, differing.gone):
        return None
    arguments = renamed_in(call.arguments, differing.renamed)
    if arguments == call.arguments:
        return call
    # A model takes its signed reasoning back only with the very call that it made.
    signed = call.signed_reasoning is not None
    return (
        None
        if signed
        else Call(tool=call.tool, arguments=arguments, effect=call.effect, said=call.said, of_path=call.of_path)
    )


def _carried_observation(call: Call, observation: Observation, differing: MadeUp) -> Observation | None:
    """What a call would have brought back in the real world; `None` if that cannot be said."""
    if differing == SAME:
        return observation
    seen = {"content": observation.content, "artifact": observation.artifact}
    # A snapshot in which everything has another name is none to go on in: that world is built anew out of the real one.
    changes = {**renamed_in(seen, differing.renamed), "snapshot": None}
    retold = differing.gone and (call.effect == "read" or mentions(seen, differing.gone))
    return None if retold else observation.model_copy(update=changes)


def _carry_answer(node: Node, differing: MadeUp) -> bool:
    """Let what was said in a state name the real world's things; whether that can be done."""
    if node.answer is None:
        return True
    answer = renamed_in(node.answer, differing.renamed)
    signed = answer != node.answer and not isinstance(node.answer.get("data", node.answer).get("content"), str)
    if signed or differing.gone:
        node.answer, node.missing, node.goal = None, (), None
        return False
    node.answer, node.missing = answer, tuple(renamed_in(node.missing, differing.renamed))
    return True
