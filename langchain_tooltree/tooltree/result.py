"""What a search hands back: the best trajectory, the whole tree, what it cost, and what its messages carry."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from langchain_core.messages import LC_AUTO_PREFIX, AIMessage, BaseMessage, ToolCall, ToolMessage, messages_from_dict
from langchain_core.messages.ai import UsageMetadata, subtract_usage
from pydantic import Field
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict  # pydantic checks those of `typing` from Python 3.12 on only

from langchain_tooltree.anomaly.rules import has_failed
from langchain_tooltree.experience.hints import MOST_HINTS, SECOND_HINT
from langchain_tooltree.experience.notes import as_suggested
from langchain_tooltree.experience.records import Outcome, Step
from langchain_tooltree.experience.reference import ADVISED, SUGGESTED
from langchain_tooltree.models import usage_sum
from langchain_tooltree.pages.page import in_notebook
from langchain_tooltree.text import counts_added, digest
from langchain_tooltree.tooltree import draw, tree_page, tree_svg
from langchain_tooltree.tooltree.search import Call, Node, Observation, StopReason, Tree
from langchain_tooltree.tooltree.signed_reasoning import CALL_BLOCKS, fields_together

if TYPE_CHECKING:
    from rich.tree import Tree as TerminalTree

KEY = "tooltree"
"""Where a message keeps its `PlanMetadata`, or an answer its `CostMetadata`: under this key of its `response_metadata`.

Providers never see it.
"""

ALTERNATIVES = 3
"""Other paths that are shown beside a plan: as many as a person compares at a glance."""


Score = Annotated[float, Field(ge=0, le=1)]


class Suggested(TypedDict):
    """A tool that came next in past runs: in what share of them, and how many speak for it."""

    tool: str
    share: Score
    runs: int


class PlannedCall(TypedDict):
    """A call of a plan or of an alternative; `effect` is what running it does to the world."""

    tool: str
    arguments: dict[str, Any]
    effect: str


class Alternative(TypedDict):
    """A path that the search also found, and its value in [0, 1]."""

    calls: list[PlannedCall]
    value: Score


class CostMetadata(TypedDict):
    """What it cost to come to the last message of a turn; plain data."""

    search: str  # by which `search_result` finds the search
    cost: dict[str, int]  # by name, time and replayed calls aside
    calls: dict[str, int]  # the model calls among it by the names of their runs, without `tooltree.`
    stop_reason: str  # why the search ended
    tools: NotRequired[list[str]]  # what the model was shown until then, where it was not all
    suggested: NotRequired[list[Suggested]]  # how past runs went on there, as far as they say so
    advised: NotRequired[list[str]]  # what a reflection has said there


class PlanMetadata(TypedDict):
    """Where a message of a plan comes from, and what it was weighed against; plain data.

    It is what a person who approves a write is shown, and how a later search finds the tree that it can go on from.
    Scores are those of `PlanStep`; of a message with several calls, `r_pre` is that of the first, the rest that of the
    last. Only a message whose calls wait to be carried out has what is not required, `reasons` aside.
    """

    search: str
    node: int  # the state that the message leads to: the node of its last call
    r_pre: Score | None
    r_post: Score | None
    goal: Score | None
    reasons: NotRequired[dict[str, str]]  # of the judge, for `r_pre` and for `r_post` with `goal`, if it gave any
    plan: NotRequired[list[PlannedCall]]  # the calls that are planned after it
    alternatives: NotRequired[list[Alternative]]  # the best other paths, best first
    tried: NotRequired[list[PlannedCall]]  # the reads that ran while searching and whose results are not kept
    wrote: NotRequired[list[str]]  # tools that are declared reads and have changed the sandbox
    cost: NotRequired[dict[str, int]]  # this and what follows as in `CostMetadata`
    calls: NotRequired[dict[str, int]]
    stop_reason: NotRequired[str]
    tools: NotRequired[list[str]]
    suggested: NotRequired[list[Suggested]]
    advised: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call of the best trajectory."""

    call: Call  # by its effect, it ran for real (`read`), in a fork (`sandboxed`), or not at all (`write`)
    call_id: str  # also the idempotency key of a write
    observation: Observation | None  # `None` if it was deferred
    r_pre: float | None  # score before it ran, in [0, 1]; `None` if nobody gave one, as for the agent's own steps
    r_post: float | None  # score of the observation, in [0, 1]; `None` if it did not have to be judged
    goal: float | None  # whether the task is done after it, in [0, 1]; `None` without goal scores
    node: int  # its node in the tree
    batched: bool = False  # whether it was made in the same reply as the call before it
    pre_reason: str = ""  # why the judge gave `r_pre`, if it said so
    post_reason: str = ""  # why it gave `r_post` and `goal`


def rounds(steps: Iterable[PlanStep]) -> list[list[PlanStep]]:
    """Steps by the messages that make them: the calls of one reply together, its deferred ones apart."""
    made: list[list[PlanStep]] = []
    for step in steps:
        if made and step.batched and (step.observation is None) == (made[-1][-1].observation is None):
            made[-1].append(step)
        else:
            made.append([step])
    return made


def without_vain_writes(steps: Sequence[PlanStep], threshold: float) -> tuple[PlanStep, ...]:
    """A plan without the writes that were tried in vain: they left the sandbox as it was, and failed or scored low.

    What the plan makes next was tried in the same world, so it does not need them, and nobody wants them made for real.
    One that ends the plan, or was made in the same reply as others, stays.
    """

    def in_vain(step: PlanStep, following: PlanStep | None) -> bool:
        alone = following is not None and not (step.batched or following.batched)
        unchanged = step.observation is not None and step.observation.unchanged
        if not (alone and unchanged and step.observation):
            return False
        return has_gone_wrong(step.call, step.observation) if step.r_post is None else step.r_post < threshold

    return tuple(step for step, following in zip_longest(steps, steps[1:]) if not in_vain(step, following))


def has_gone_wrong(call: Call, seen: Observation) -> bool:
    """Whether what a call brought back says by itself that it failed or was refused."""
    outcome = Outcome(seen.content, "success" if seen.kind == "ok" else "error")
    return has_failed(Step(call.tool, call.arguments, outcome))


def request_of(steps: Sequence[PlanStep], *, signed: bool = True, name: str | None = None) -> AIMessage:
    """The calls of one reply as the message of a model, with the signed reasoning that the model expects back.

    `name` is that of the agent whose message it is.
    """
    calls = [ToolCall(name=step.call.tool, args=dict(step.call.arguments), id=step.call_id) for step in steps]
    reasoned = [(step.call.signed_reasoning, step.call_id) for step in steps if step.call.signed_reasoning]
    fields = fields_together(reasoned) if signed and reasoned else {"content": ""}
    fields["content"] = _with_words(fields["content"], steps[0].call.said)
    return AIMessage(**fields, tool_calls=calls, name=name)


def _with_words(content: Any, said: str) -> Any:
    """Content with what was said before the calls, unless it is signed and stands there already."""
    if isinstance(content, str):
        return said
    if not said or any("text" in block for block in content):
        return content
    at = next((place for place, block in enumerate(content) if block.get("type") in CALL_BLOCKS), len(content))
    return [*content[:at], {"type": "text", "text": said}, *content[at:]]


def messages_of(steps: Sequence[PlanStep], *, signed: bool = True, name: str | None = None) -> list[BaseMessage]:
    """The calls of one reply and their answers, as every provider accepts them; a deferred call has no answer."""
    answers = [_answer(step, step.observation) for step in steps if step.observation]
    return [request_of(steps, signed=signed, name=name), *answers]


def _answer(step: PlanStep, seen: Observation) -> ToolMessage:
    """What a call brought back, as the agent's tools node would put it into the state."""
    brought = {"content": seen.content, "artifact": seen.artifact, "tool_call_id": step.call_id}
    if isinstance(seen.message, dict):  # a strict checkpointer keeps the fields of a tool's own class, not the class
        return ToolMessage.model_validate({**seen.message, **brought})
    if seen.message is not None:
        return cast("ToolMessage", seen.message.model_copy(update=brought))
    return ToolMessage(**brought, name=step.call.tool, status="success" if seen.kind == "ok" else "error")


def comparable(content: Any) -> Any:
    """Message content without the identifiers that LangChain makes up for blocks: equal for equal results."""
    return content if isinstance(content, str) else [_without_made_up_id(block) for block in content]


def _without_made_up_id(block: Any) -> Any:
    if isinstance(block, dict) and str(block.get("id", "")).startswith(LC_AUTO_PREFIX):
        return {key: value for key, value in block.items() if key != "id"}
    return block


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What a search cost."""

    rollouts: int = 0
    nodes: int = 0  # of the tree, the root left out
    inherited: int = 0  # nodes that were taken over from an earlier search of the conversation
    pruned_before: int = 0  # candidates pruned before they ran
    pruned_after: int = 0  # calls pruned by what they brought back
    model_calls: int = 0  # requests to models, the answer included
    tokens: int = 0  # sent and received, as far as the models reported them
    tool_calls: int = 0  # tools run
    cache_hits: int = 0  # calls whose observation was reused instead
    replayed: int = 0  # tools run again to rebuild a fork of the sandbox
    seconds: float = 0.0  # the time it took, waiting for calls included
    calls: Mapping[str, int] = field(default_factory=dict)  # model calls by the names of their runs
    usage: UsageMetadata | None = None  # of all model calls, as far as the models reported it, details included

    def counts(self) -> dict[str, int]:
        """The numbers by name, without the time, which no two runs share."""
        return {name: getattr(self, name) for name in SearchCost.__slots__ if name not in {"seconds", "calls", "usage"}}

    def with_calls(self, calls: Mapping[str, int], usage: UsageMetadata | None) -> "SearchCost":
        """The cost with other model calls and their usage."""
        tokens = usage["input_tokens"] + usage["output_tokens"] if usage else 0
        return replace(
            self,
            model_calls=self.model_calls + sum(calls.values()),
            tokens=self.tokens + tokens,
            calls=counts_added(self.calls, calls),
            usage=usage_sum(self.usage, usage),
        )


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
        answer: The final answer, which the model gave where the plan ends or was asked for; `None` while a write of
            the plan waits to be carried out.
        search_id: Unique to the search and the same when it is resumed.
        tools: Names of the tools that the model was shown in the end; none where it was shown all of them.
    """

    query: str
    tree: Tree
    steps: tuple[PlanStep, ...]
    cost: SearchCost
    stop_reason: StopReason
    fallback: str | None = None
    answer: AIMessage | None = field(default=None)
    search_id: str = ""
    tools: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the best trajectory."""
        return tuple(step.call for step in self.steps)

    @property
    def waiting(self) -> tuple[PlanStep, ...]:
        """The calls that still have to be carried out in the real world, and together: those of one reply.

        They are the first call that changes something and what the same reply made after it. The rest of the plan
        depends on what they bring back.
        """
        first = next((place for place, step in enumerate(self.steps) if step.call.effect != "read"), len(self.steps))
        later = self.steps[first + 1 :]
        return (*self.steps[first : first + 1], *takewhile(lambda step: step.batched, later))

    @property
    def pending(self) -> PlanStep | None:
        """The first of the calls that are `waiting`, if any is."""
        return next(iter(self.waiting), None)

    @property
    def messages(self) -> list[BaseMessage]:
        """The plan as messages to append to the conversation.

        Every read with its result, in order, then the calls that are `waiting`, unanswered, for the agent's own tools
        node, or the answer. Calls of one reply are one message, which carries a `PlanMetadata` in its
        `response_metadata["tooltree"]`; an answer carries a `CostMetadata` there. The `usage_metadata` of the messages
        is, in all, that of every model call of the search: an answer has its own, the last message with calls the rest,
        or an answer without calls before it all.
        """
        return self._messages(signed=True)

    @property
    def plain_messages(self) -> list[BaseMessage]:
        """The same messages for another model than the one that proposed the calls: without its signed reasoning."""
        return self._messages(signed=False)

    def _messages(self, *, signed: bool) -> list[BaseMessage]:
        messages: list[BaseMessage] = []
        waiting = self.waiting
        done = self.steps[: self.steps.index(waiting[0])] if waiting else self.steps
        for steps in rounds(done):
            made = messages_of(steps, signed=signed)
            made[0].response_metadata[KEY] = self._metadata(steps)
            if waiting and waiting[0].batched and steps[-1] is done[-1]:
                # The reasoning goes with the calls that wait; providers want it only once.
                made[0].content = steps[0].call.said
            messages.extend(made)
        if waiting:
            request = request_of(waiting, signed=signed)
            request.response_metadata[KEY] = {
                **self._metadata(waiting),
                "plan": [planned(later.call) for later in self.steps[len(done) + len(waiting) :]],
                "alternatives": self.alternatives,
                "tried": self._tried(),
                **({"wrote": wrote} if (wrote := self._wrote()) else {}),
                **self.cost_metadata,
            }
            messages.append(request)
        answer = None if waiting else self.answer
        if calling := [message for message in messages if isinstance(message, AIMessage)]:
            own = usage_sum(answer.usage_metadata if answer else None, None)
            rest = self.cost.usage and subtract_usage(self.cost.usage, own)
            calling[-1].usage_metadata = rest if rest and rest["total_tokens"] else None
        for place, message in enumerate(messages if self.search_id else ()):
            # With an id, a stream may show it before its node is done.
            message.id = message.id or f"{KEY}-{digest(f'{self.search_id}:{place}')}"
        return messages if answer is None else [*messages, answer]

    def with_answer(self, answer: AIMessage, *, asked: bool = True) -> "SearchResult":
        """The result with an answer that was found, or for which a model was `asked` after the search.

        The answer gets a `CostMetadata`, and without calls before it the usage of all model calls.
        """
        cost = self.cost.with_calls({"answer": 1}, answer.usage_metadata) if asked else self.cost
        result = replace(self, cost=cost)
        told = {**result.cost_metadata, **_told_at(self.tree[self.steps[-1].node if self.steps else 0])}
        update: dict[str, Any] = {"response_metadata": {**answer.response_metadata, KEY: told}}
        if not self.steps:
            update["usage_metadata"] = cost.usage
        return replace(result, answer=answer.model_copy(update=update))

    def after(self, earlier: SearchCost) -> "SearchResult":
        """The result with the model calls of an earlier search for the same turn, of which nothing is kept."""
        result = replace(self, cost=self.cost.with_calls(earlier.calls, earlier.usage))
        return result if self.answer is None else result.with_answer(self.answer, asked=False)

    @property
    def cost_metadata(self) -> CostMetadata:
        """What the last message of a turn says of the search."""
        # What was replayed depends on crashes, but a resumed search says what the undisturbed one would have.
        cost = {name: count for name, count in self.cost.counts().items() if name != "replayed"}
        calls = dict(self.cost.calls)
        metadata = CostMetadata(search=self.search_id, cost=cost, calls=calls, stop_reason=self.stop_reason)
        if self.tools:
            metadata["tools"] = [*self.tools]
        return metadata

    def _metadata(self, steps: Sequence[PlanStep]) -> PlanMetadata:
        last = steps[-1]
        metadata = PlanMetadata(
            search=self.search_id, node=last.node, r_pre=steps[0].r_pre, r_post=last.r_post, goal=last.goal
        )
        if reasons := _reasons(steps[0].pre_reason, last.post_reason):
            metadata["reasons"] = reasons
        told = _told_at(self.tree.parent(self.tree[steps[0].node]))
        return cast("PlanMetadata", {**metadata, **told})

    def _tried(self) -> list[PlannedCall]:
        """The reads that ran for other paths, each once."""
        kept = [planned(call) for call in self.calls]
        ran = (node.call for node in self.tree.nodes if node.call and node.call.effect == "read" and node.observation)
        found: list[PlannedCall] = []
        for call in map(planned, ran):
            if call not in kept and call not in found:
                found.append(call)
        return found

    def _wrote(self) -> list[str]:
        """The tools that were taken for reads until they changed the sandbox."""
        ran = (node for node in self.tree.nodes if node.call and node.observation and node.observation.wrote)
        return sorted({node.call.tool for node in ran if node.call})

    @property
    def alternatives(self) -> list[Alternative]:
        """The best paths beside the chosen one, best first."""
        return alternatives(self.tree, self._best_ids())

    def to_mermaid(self) -> str:
        """The tree as a Mermaid flowchart: Q, N and scores on each node, why pruned, the best path marked."""
        return draw.to_mermaid(self.to_dict())

    def to_rich(self) -> "TerminalTree":
        """The tree for a terminal, to be printed by rich."""
        return draw.to_rich(self.to_dict())

    def to_svg(self) -> str:
        """The tree as an SVG picture for light and dark pages, without scripts and without references to elsewhere.

        Of a search with more than 150 calls it shows the most promising ones, and how many are left out where.
        """
        return tree_svg.to_svg(self.to_dict())

    def _repr_svg_(self) -> str:
        """What a viewer of notebooks shows that runs no scripts."""
        return self.to_svg()

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the page, unless it is too long for one."""
        return in_notebook(tree_page.to_html(self.to_dict()))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the search as a page to explore in a browser.

        The page is one file. It shows each call with its arguments, what it brought back, its scores with the judge's
        reasons and what it cost, in which words models were asked for it and its scores, and replays the search step by
        step. Your agent's instructions and what was recalled are named in these words, and not shown. It sends nothing
        anywhere. Of a search with much text, long texts are shortened so that the file stays below 1 MB for 500 calls.
        """
        Path(path).write_text(tree_page.to_html(self.to_dict()), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-like data, ids of tool calls and times left out: equal for equal searches."""
        return {
            "query": self.query,
            "stop_reason": self.stop_reason,
            "best": self._best_ids(),
            "cost": self.cost.counts(),
            "nodes": [_node_to_dict(node) for node in self.tree.nodes],
            "history": [asdict(change) for change in self.tree.history],
            "words": {**self.tree.words},
            "alternatives": [node.id for node in _alternative_ends(self.tree, self._best_ids())],
        }

    def _best_ids(self) -> list[int]:
        return [step.node for step in self.steps]


def answer_at(node: Node) -> AIMessage | None:
    """The agent's answer in a state, if it gave one there."""
    if node.answer is None:
        return None
    (answer,) = messages_from_dict([node.answer])
    return cast("AIMessage", answer)


def _node_to_dict(node: Node) -> dict[str, Any]:
    answer = answer_at(node)
    return {
        "id": node.id,
        "parent": node.parent,
        "call": node.call.model_dump(exclude={"signed_reasoning", "said", "of_path"}) if node.call else None,
        "world": node.world,
        "r_pre": node.r_pre,
        "r_post": node.r_post,
        "goal": node.goal,
        "scored": [node.pre_scored, node.post_scored],
        "observation": _seen(node.observation) if node.observation else None,
        "N": node.visits,
        "Q": round(node.value, 12),
        "proposals": node.proposals,
        "dropped": node.dropped,
        "pruned": node.pruned,
        "closed": node.closed,
        **({"batched": True} if node.batched else {}),
        **({"reasons": reasons} if (reasons := _reasons(node.pre_reason, node.post_reason)) else {}),
        **({"answer": answer.text} if answer else {}),
        **({"missing": [*node.missing]} if node.missing else {}),
    }


def _seen(observation: Observation) -> dict[str, Any]:
    """An observation as JSON-like data; of an object in the artifact that JSON has no form for, its type."""
    seen = observation.model_dump(exclude_defaults=True, exclude={"artifact", "message"})
    seen["content"] = comparable(observation.content)
    if observation.artifact is not None:
        seen["artifact"] = to_jsonable_python(
            observation.artifact, bytes_mode="base64", fallback=lambda value: f"<{type(value).__name__}>"
        )
    return seen


def _reasons(pre: str, post: str) -> dict[str, str]:
    return {name: reason for name, reason in (("r_pre", pre), ("r_post", post)) if reason}


def _told_at(state: Node | None) -> dict[str, Any]:
    """What past runs and a reflection have said to who chose a call in a state, or answered there."""
    shares = state.prior.shares if state and state.prior else {}
    runs = state.prior.runs if state and state.prior else {}
    usual = (tool for tool in runs if shares[tool] >= SECOND_HINT)
    best = sorted(usual, key=lambda tool: (-shares[tool], tool))[:MOST_HINTS]
    suggested = as_suggested((tool, shares[tool], runs[tool]) for tool in best)
    advised = [state.advice] if state and state.advice else []
    return {**({SUGGESTED: suggested} if suggested else {}), **({ADVISED: advised} if advised else {})}


def plan_metadata(message: BaseMessage) -> Mapping[str, Any]:
    """The `PlanMetadata` of a message, or what a client left of it; empty for one that no plan made."""
    metadata = message.response_metadata.get(KEY) if isinstance(message, AIMessage) else None
    return metadata if isinstance(metadata, dict) and "node" in metadata else {}


def tools_shown_in(messages: Sequence[BaseMessage]) -> list[str]:
    """Names of the tools that the latest search of a conversation ended with; none where it was shown all of them."""
    told = (message.response_metadata.get(KEY) for message in reversed(messages) if isinstance(message, AIMessage))
    kept: Any = next((said["tools"] for said in told if isinstance(said, dict) and "tools" in said), None)
    return [name for name in kept if isinstance(name, str)] if isinstance(kept, list) else []


def planned(call: Call) -> PlannedCall:
    """A call as plain data, for people."""
    return PlannedCall(tool=call.tool, arguments=dict(call.arguments), effect=call.effect)


def alternatives(tree: Tree, best: Collection[int]) -> list[Alternative]:
    """The best paths beside the chosen one, best first; none is part of that path or of another alternative."""
    return [
        Alternative(
            calls=[planned(step.call) for step in tree.path(end) if step.call], value=round(_value(tree, end), 6)
        )
        for end in _alternative_ends(tree, best)
    ]


def _alternative_ends(tree: Tree, best: Collection[int]) -> list[Node]:
    chosen: list[list[Node]] = []
    best_path = tree.path(max((tree[node] for node in best), key=lambda node: node.depth)) if best else []
    shown = set(best)
    ranked = sorted(
        (node for node in tree.nodes if node.accepted or _is_idea(node)),
        key=lambda node: (not node.evaluated, -_value(tree, node), node.depth, node.id),
    )
    for node in ranked:
        path = tree.path(node)
        ids = {step.id for step in path}
        extends = any(ids >= {step.id for step in other} for other in (*chosen, best_path) if other)
        if node.id in shown or extends:
            continue
        chosen.append(path)
        shown |= ids
        if len(chosen) == ALTERNATIVES:
            break
    return [path[-1] for path in chosen]


def _is_idea(node: Node) -> bool:
    """Whether a call is a candidate that the judge let pass and that came to nothing so far."""
    return node.r_pre is not None and node.pre_scored and not node.evaluated and node.pruned is None


def _value(tree: Tree, node: Node) -> float:
    """What judged calls are worth; for others, what was expected of them."""
    if not node.evaluated:
        return node.r_pre or 0.0
    return node.value if node.goal is None else tree.path_value(node)
