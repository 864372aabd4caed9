"""What a search hands back: the best trajectory, the whole tree, what it cost, and what its messages carry."""

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolCall,
    ToolMessage,
    messages_from_dict,
)
from langchain_core.messages.ai import UsageMetadata

from langchain_tooltree.errors import (
    ConfigurationError,
    MissingExtraError,
)
from langchain_tooltree.experience.guide import latest_searches
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.kinds import get_tool_calls, is_tool_result
from langchain_tooltree.models import usage_sum
from langchain_tooltree.pages import in_notebook
from langchain_tooltree.pages import search as search_page
from langchain_tooltree.pages.search import SEARCH_FORMAT_VERSION
from langchain_tooltree.secrets import masked
from langchain_tooltree.text import digest, get_mapping
from langchain_tooltree.tooltree.branches import (
    KEY,
    Best,
    Branches,
    Ended,
    Mark,
    Plan,
    repeated,
    results_of,
)
from langchain_tooltree.tooltree.search.policies import StopReason
from langchain_tooltree.tooltree.search.tree import Action, Node, Observation, Tree

if TYPE_CHECKING:
    from rich.tree import Tree as TerminalTree


ALTERNATIVES = 3  # other paths that are shown beside a plan: as many as a person compares at a glance


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call of the best trajectory."""

    call: Action  # by its effect, it ran for real (`read`), in a fork (`sandboxed`), or not at all (`write`)
    call_id: str  # also the idempotency key of a write
    observation: Observation | None = None  # `None` if it was deferred
    node: int = 0  # its node in the tree, which has its scores
    batched: bool = (
        False  # whether it was made in the same message as the call before it
    )


def steps_of(
    nodes: Iterable[Node], *, search_id: str = "", taken: Collection[str | None] = ()
) -> list[PlanStep]:
    """The calls of a path as steps, each with an id that no other call of the conversation has.

    A call whose model expects its own id back keeps it, unless it is `taken` by a call before.
    """
    ids = set(taken)
    steps: list[PlanStep] = []
    for node in nodes:
        call = cast("Action", node.call)
        own = call.reply["data"]["tool_calls"][0]["id"] if call.reply else None
        call_id = (
            own
            if own and own not in ids
            else f"call_{digest(f'{search_id}:{node.id}', 24)}"
        )
        ids.add(call_id)
        steps.append(PlanStep(call, call_id, node.observation, node.id, node.batched))
    return steps


def messages_of(steps: Iterable[PlanStep]) -> list[BaseMessage]:
    """Steps as messages: each call, in the reply that its model expects back if it does, and what it brought back."""
    messages: list[BaseMessage] = []
    for step in steps:
        call = ToolCall(
            name=step.call.tool, args=dict(step.call.arguments), id=step.call_id
        )
        if step.call.reply is None:
            messages.append(AIMessage("", tool_calls=[call]))
        else:
            (reply,) = cast("list[AIMessage]", messages_from_dict([step.call.reply]))
            messages.append(repeated(reply, call))
        if step.observation is not None:
            messages.append(_answer(step, step.observation))
    return messages


def _answer(step: PlanStep, observation: Observation) -> ToolMessage:
    """What a call brought back, as the agent's tools node would put it into the state."""
    if is_tool_result(observation.message):
        return observation.message.model_copy(update={"tool_call_id": step.call_id})
    status: Any = "success" if observation.kind == "ok" else "error"
    return ToolMessage(
        observation.content,
        tool_call_id=step.call_id,
        name=step.call.tool,
        status=status,
    )


def without_failed_writes(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """A plan without the writes that failed in the sandbox, unless one is the last call of the plan."""
    return tuple(
        step
        for step in steps
        if step is steps[-1]
        or step.call.effect != "sandboxed"
        or not step.observation
        or step.observation.kind == "ok"
    )


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What a search cost."""

    rollouts: int = 0
    nodes: int = 0  # of the tree, the root left out
    pruned_before: int = 0  # candidates pruned before they ran
    pruned_after: int = 0  # calls pruned by what they brought back
    model_calls: int = 0  # requests to models, the answer included
    tokens: int = 0  # sent and received, as far as the models reported them
    tool_calls: int = 0  # tools run
    cache_hits: int = 0  # calls whose observation was reused instead
    seconds: float = 0.0  # the time it took, waiting for calls included
    usage: UsageMetadata | None = (
        None  # of all model calls, as far as the models reported it, details included
    )

    def counts(self) -> dict[str, int]:
        """The numbers by name, without the time, which no two runs share."""
        return {
            name: getattr(self, name)
            for name in SearchCost.__slots__
            if name not in {"seconds", "usage"}
        }


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of a search.

    Attributes:
        query: The request that was planned for.
        tree: The whole tree.
        steps: The best trajectory, from the first call on; empty if planning failed.
        cost: What it cost.
        stop_reason: Why the search ended.
        fallback: Why planning failed, so that the plain model answers; `None` also if the model said that no call is
            needed.
        answer: The final answer; `None` while a write of the plan waits to be carried out, or nobody has answered yet.
        search_id: Unique to the search.
        messages: What to append to the conversation: every read with its result, in order, then the calls that are
            `waiting`, unanswered, for the agent's own tools node, or the answer. The last message of a plan carries the
            `metadata`. The `usage_metadata` of the messages is, in all, that of every model call of the search.
    """

    query: str
    tree: Tree
    steps: tuple[PlanStep, ...]
    cost: SearchCost
    stop_reason: StopReason | str
    fallback: str | None = None
    answer: AIMessage | None = None
    search_id: str = ""
    messages: list[BaseMessage] = field(default_factory=list)

    @property
    def calls(self) -> tuple[Action, ...]:
        """The calls of the best trajectory."""
        return tuple(step.call for step in self.steps)

    @property
    def waiting(self) -> tuple[PlanStep, ...]:
        """The calls that still have to be carried out in the real world, and together: those of one message.

        They are the first call that changes something and what the same message made after it. The rest of the plan
        depends on what they bring back.
        """
        first = next(
            (
                place
                for place, step in enumerate(self.steps)
                if step.call.effect != "read"
            ),
            len(self.steps),
        )
        later = self.steps[first + 1 :]
        return (
            *self.steps[first : first + 1],
            *takewhile(lambda step: step.batched, later),
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """What the last message says of the search, in `response_metadata["tooltree"]`, as plain data.

        `search` is the key for `search_result`; `stop_reason`; `model_calls`, that for the answer included. Where calls
        wait to be carried out: `plan`, the calls that are planned after them; `alternatives`, the best other paths,
        best first; and `tried`, the reads that ran for other paths.
        """
        about = {
            "search": self.search_id,
            "stop_reason": self.stop_reason,
            "model_calls": self.cost.model_calls,
        }
        waiting = self.waiting
        if not waiting:
            return about
        planned = {call.key for call in self.calls}
        ran = (node.call for node in self.tree.nodes if node.call and node.observation)
        tried = {
            call.key: call.label
            for call in ran
            if call.effect == "read" and call.key not in planned
        }
        return {
            **about,
            "plan": [
                step.call.label
                for step in self.steps[self.steps.index(waiting[-1]) + 1 :]
            ],
            "alternatives": self.alternatives,
            "tried": [*tried.values()],
        }

    def with_answer(self, answer: AIMessage) -> "SearchResult":
        """The result with an answer for which a model was asked after the search."""
        usage = answer.usage_metadata
        cost = replace(
            self.cost,
            model_calls=self.cost.model_calls + 1,
            tokens=self.cost.tokens
            + (usage["input_tokens"] + usage["output_tokens"] if usage else 0),
            usage=usage_sum(self.cost.usage, usage),
        )
        result = replace(self, cost=cost)
        metadata = {**answer.response_metadata, KEY: result.metadata}
        answer = answer.model_copy(update={"response_metadata": metadata})
        return replace(result, answer=answer, messages=[*self.messages, answer])

    @property
    def alternatives(self) -> list[list[str]]:
        """The best paths beside the chosen one, best first, none part of another; each call as a line of text."""
        return [
            [step.label for step in self.tree.path(end)]
            for end in self._alternative_ends()
        ]

    def _alternative_ends(self) -> list[Node]:
        """The leaves of highest value that are not on the plan and not pruned."""
        on_plan = {step.node for step in self.steps}
        leaves = (
            node
            for node in self.tree.nodes[1:]
            if not node.children
            and node.id not in on_plan
            and node.pruned is None
            and node.r_pre is not None
        )
        ranked = sorted(
            leaves,
            key=lambda node: (
                not node.evaluated,
                -_value(self.tree, node),
                node.depth,
                node.id,
            ),
        )
        return ranked[:ALTERNATIVES]

    def to_rich(self) -> "TerminalTree":
        """The tree for a terminal, to be printed by rich; needs the extra `[cli]`."""
        return search_page.to_rich(self.to_dict())

    def to_svg(self) -> str:
        """The tree as an SVG picture of what `to_rich` shows in a terminal, without scripts; needs `[cli]`, too."""
        return search_page.to_svg(self.to_dict())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the search as a page to explore in a browser.

        The page is one file, which sends nothing anywhere. It shows each call with its arguments, result, scores and
        reasons, and replays the search. Long texts are shortened so that it stays below 1 MB for 500 calls.
        """
        Path(path).write_text(search_page.to_html(self.to_dict()), encoding="utf-8")

    def _repr_svg_(self) -> str | None:
        """What a viewer of notebooks shows that runs no scripts; nothing without the extra `[cli]`."""
        with suppress(MissingExtraError):
            return self.to_svg()
        return None

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the page, unless it is too long for one."""
        return in_notebook(search_page.to_html(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-like data, ids of tool calls and times left out: equal for equal searches."""
        return as_data(self, [node.id for node in self._alternative_ends()])


def plan_messages(result: SearchResult) -> list[BaseMessage]:
    """The plan of a deep search as messages, without an answer; see `SearchResult.messages`."""
    waiting = result.waiting
    reads = result.steps[: result.steps.index(waiting[0])] if waiting else result.steps
    # What ran in a fork has still to be made for real, so its result there does not count.
    messages = messages_of(
        [*reads, *(replace(step, observation=None) for step in waiting)]
    )
    for place, message in enumerate(messages):
        message.id = f"{KEY}-{digest(f'{result.search_id}:{place}')}"
    if last := next(
        (each for each in reversed(messages) if isinstance(each, AIMessage)), None
    ):
        last.response_metadata = {**last.response_metadata, KEY: result.metadata}
        last.usage_metadata = result.cost.usage
    return messages


def _value(tree: Tree, node: Node) -> float:
    """What judged calls are worth; for others, what was expected of them."""
    if not node.evaluated:
        return node.r_pre or 0.0
    return node.value if node.goal is None else tree.path_value(node)


# --- searches that are kept ---

MOST_SEARCHES = (
    64  # searches of which a process keeps the tree, the latest: some 0.2 MB each
)


def search_result(message: BaseMessage) -> SearchResult:
    """The search behind an answer of an agent, with its tree, its pictures and its cost.

    ```python
    out = agent.invoke({"messages": [...]})
    rich.print(search_result(out["messages"][-1]).to_rich())
    ```

    A process keeps its latest searches, so ask soon. What a search tried and cost stays with the answer, under
    `response_metadata["tooltree"]`. An answer that was accepted at once has no search behind it.

    Raises:
        ConfigurationError: If no search made the message, or it is no longer kept.
    """
    key = (
        get_mapping(message.response_metadata, KEY).get("search")
        if isinstance(message, AIMessage)
        else None
    )
    if not isinstance(key, str):
        msg = (
            f"No search made this {type(message).__name__}. Pass an answer whose response_metadata has {KEY!r}; one "
            "that was accepted at once has none."
        )
        raise ConfigurationError(msg)
    if key not in latest_searches:
        msg = (
            f"The search {key!r} is no longer kept: a process keeps its latest {MOST_SEARCHES}, until runs are "
            "forgotten. Ask right after the run, in the same process, or pass record_searches= to keep each search in "
            "a file."
        )
        raise ConfigurationError(msg)
    return cast("SearchResult", latest_searches[key])


def result_of(ended: Ended) -> SearchResult:
    """The tree of a search in the host's loop, out of the messages of its turn."""
    branches, mark, best = ended.branches, ended.mark, ended.mark.best
    path_ids = set(best.path if best else ())
    turn = (
        branches.messages
        if branches.begin is None
        else branches.messages[branches.begin + 1 :]
    )
    tree = Tree()
    ends: dict[str, Node] = {}
    latest = tree.root
    steps: list[PlanStep] = []
    for place, message in enumerate(turn):
        calls = get_tool_calls(message)
        results = {each.tool_call_id: each for each in results_of(turn, place)}
        if not calls:
            ends[str(message.id)] = latest
            continue
        latest = (
            ends.get(mark.parents[str(message.id)], tree.root)
            if message.id in mark.parents
            else latest
        )
        latest.proposals += 1
        for at, call in enumerate(calls):
            effect = "read" if branches.is_read(call["name"], call["args"]) else "write"
            action = Action(
                tool=call["name"], arguments=call["args"], effect=cast("Any", effect)
            )
            latest = tree.add(latest, action, batched=at > 0)
            latest.r_pre, latest.pre_scored = 1.0, False
            if (result := results.get(str(call["id"]))) is not None:
                kind: Any = "exception" if result.status == "error" else "ok"
                latest.observation = Observation(result.content, kind)
            if message.id in path_ids:
                observed = latest.observation
                steps.append(
                    PlanStep(
                        action,
                        str(call["id"]),
                        observed,
                        node=latest.id,
                        batched=latest.batched,
                    )
                )
            else:
                latest.pruned = "post_evaluation"
        ends[str(message.id)] = latest
    for candidate in mark.queue:  # offered, and not tried
        opened = (
            ends.get([*mark.parents.values()][-1], tree.root)
            if mark.parents
            else tree.root
        )
        idea = tree.add(
            opened, Action(tool=candidate.name, arguments=candidate.args, effect="read")
        )
        idea.r_pre, idea.pre_scored = candidate.score, candidate.score is not None
    end = tree[steps[-1].node] if steps else tree.root
    end.missing = (best.missing,) if best and best.missing else ()
    for last_id, lacks in mark.doubts:
        doubtful = ends.get(last_id, tree.root)
        if lacks not in doubtful.missing:  # an answer given again
            doubtful.missing = (*doubtful.missing, lacks)
    on_path = [
        message
        for message in turn
        if message.id in path_ids and message.id != ended.answer.id
    ]
    usage = reduce(
        usage_sum,
        (getattr(each, "usage_metadata", None) for each in on_path),
        ended.answer.usage_metadata,
    )
    own_steps = sum(
        isinstance(message, AIMessage) and message.id not in mark.parents
        for message in turn
    )
    is_answered = (
        bool(turn) and isinstance(turn[-1], AIMessage) and not get_tool_calls(turn[-1])
    )
    unseen = mark.stops + mark.asked - is_answered
    cost = SearchCost(
        rollouts=len(mark.parents),
        nodes=len(tree) - 1,
        pruned_after=sum(node.pruned is not None for node in tree.nodes),
        model_calls=own_steps + unseen,
        tokens=usage["total_tokens"] if usage else 0,
        tool_calls=sum(is_tool_result(message) for message in turn),
        usage=usage,
    )
    return SearchResult(
        query=Conversation(branches.messages).goal,
        tree=tree,
        steps=tuple(steps),
        cost=cost,
        stop_reason=ended.reason,
        answer=ended.answer,
        search_id=mark.search,
        messages=[*on_path, ended.answer],
    )


def result_of_path(
    messages: Sequence[BaseMessage],
    is_read: Callable[[str, Any], bool],
    plan: Plan | None,
) -> SearchResult:
    """A run without a doubt, as a search of one path, which ends in the answer or in calls that wait.

    These may be the first step of a `plan` that was tried in a sandbox.
    """
    last = cast("AIMessage", messages[-1])
    best = Best({}, [str(message.id) for message in messages], missing="")
    mark = Mark(search=uuid.uuid4().hex, best=best, stops=int(not get_tool_calls(last)))
    result = result_of(
        Ended(Branches(messages, Mark(), is_read), mark, last, "answered")
    )
    if not get_tool_calls(last):
        return result
    steps = [*result.steps]
    for step in plan.steps[1:] if plan else ():
        (message,) = messages_from_dict([step.message])
        for at, call in enumerate(get_tool_calls(message)):
            action = Action(
                tool=call["name"], arguments=call["args"], effect="sandboxed"
            )
            outcome = Observation(content=step.tried.get(str(call["id"]), ""))
            steps.append(PlanStep(action, str(call["id"]), outcome, batched=at > 0))
    return replace(result, steps=tuple(steps), answer=None)


# --- experience ---


def as_saved(result: "SearchResult") -> dict[str, Any]:
    """A search as data for a file, without secrets."""
    return masked(
        {
            "version": SEARCH_FORMAT_VERSION,
            "answer": result.answer.text if result.answer else None,
            **result.to_dict(),
        }
    )


def as_data(result: "SearchResult", alternatives: Sequence[int]) -> dict[str, Any]:
    """A search as JSON-like data, without ids of calls and times; in the nodes `alternatives` other paths end."""
    nodes = [_node_to_dict(node) for node in result.tree.nodes]
    best = [step.node for step in result.steps]
    if result.answer is not None and not result.waiting:
        nodes[best[-1] if best else 0]["answer"] = result.answer.text
    return {
        "query": result.query,
        "stop_reason": result.stop_reason,
        "best": best,
        "cost": result.cost.counts(),
        "nodes": nodes,
        "history": [asdict(change) for change in result.tree.history],
        "alternatives": [*alternatives],
    }


def _node_to_dict(node: "Node") -> dict[str, Any]:
    reasons = {
        name: why
        for name, why in (("r_pre", node.pre_reason), ("r_post", node.post_reason))
        if why
    }
    call = node.call and {
        "tool": node.call.tool,
        "arguments": dict(node.call.arguments),
        "effect": node.call.effect,
    }
    return {
        "id": node.id,
        "parent": node.parent,
        "call": call,
        "world": node.world,
        "r_pre": node.r_pre,
        "r_post": node.r_post,
        "goal": node.goal,
        "scored": [node.pre_scored, node.post_scored],
        "observation": _observation_to_dict(node.observation)
        if node.observation
        else None,
        "N": node.visits,
        "Q": round(node.value, 12),
        "proposals": node.proposals,
        "dropped": node.dropped,
        "pruned": node.pruned,
        "closed": node.closed,
        **({"batched": True} if node.batched else {}),
        **({"reasons": reasons} if reasons else {}),
        **({"missing": [*node.missing]} if node.missing else {}),
    }


def _observation_to_dict(observation: "Observation") -> dict[str, Any]:
    """An observation as JSON-like data; ids of content blocks, which LangChain makes up in each run, are left out."""
    content: Any = observation.content
    if isinstance(content, list):
        content = [
            {key: value for key, value in block.items() if key != "id"}
            if isinstance(block, dict)
            else block
            for block in content
        ]
    kind = {"kind": observation.kind} if observation.kind != "ok" else {}
    return {"content": content, **kind}
