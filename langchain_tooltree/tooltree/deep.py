"""Deep search: the planner searches before it acts, with the pure kernel and many rollouts.

The driver asks the kernel for operations (propose, score, execute, evaluate), performs them side by side, and tells
their outcomes in the order of launch, so that the tree never depends on timing. Declared reads really run; calls of
tools that a sandbox binds run in a fork; everything else is a deferred write, judged and left to the agent. Nothing is
kept on the way: a search that is interrupted starts again.
"""

import copy
import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError

from langchain_tooltree._langgraph import tool_node_input
from langchain_tooltree.conversation import Conversation, is_observation, transcript
from langchain_tooltree.effects.calls import CallEffects
from langchain_tooltree.errors import ConfigurationError, EmptyQueryError, described
from langchain_tooltree.events import Event, FallbackEvent, StartEvent
from langchain_tooltree.experience.records import call_key, readable
from langchain_tooltree.flows import (
    EventSink,
    Flow,
    FunctionStep,
    TwinStep,
    awaited,
    begun,
    current_writer,
    done_within,
    emit_all,
    has_handlers,
    to_stream,
)
from langchain_tooltree.models import AGENT_NAME, Meter, inner_marks, resolve_model
from langchain_tooltree.text import shortened
from langchain_tooltree.tool_runs import ToolStep
from langchain_tooltree.tools import ToolLibrary, injected_names
from langchain_tooltree.tooltree.ask import ProposalRequest, Proposer
from langchain_tooltree.tooltree.coarse_plan import plan_tools
from langchain_tooltree.tooltree.judge import Judge, Judged, JudgedCall, JudgeRequest, resolve_judge
from langchain_tooltree.tooltree.prompts import DEFAULT_PROMPTS, Prompts
from langchain_tooltree.tooltree.result import (
    PlanStep,
    SearchCost,
    SearchResult,
    messages_of,
    steps_of,
    without_failed_writes,
)
from langchain_tooltree.tooltree.sandbox import Sandbox, Worlds, names_bound_by
from langchain_tooltree.tooltree.search import (
    Call,
    Effect,
    KernelConfig,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    SearchConfig,
    Spent,
    TreeSearch,
)

logger = logging.getLogger(__name__)

FAILURES_ENOUGH = 2
"""So often a call may fail, or be rejected, after a request before it is proposed no more: once may be chance."""

JUDGED_CHARS = 8_000
"""Characters of an observation that a judge is asked about: about 2,000 tokens."""

GRACE = 1.0
"""Seconds that calls in flight get when the time is up; then they are left behind."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses of servers that are busy, starting or briefly out of reach: the same call may succeed next time."""


class DeepSearch:
    """A planner that searches before it acts.

    Args:
        model: Proposes calls, and scores them where there is no judge.
        tools: The tools; those that are not declared reads, nor bound by the sandbox, are never run.
        effects: Which calls only read.
        config: The settings, of a deep search.
        judge: Scores calls before and after they run; the model itself if left out.
        post_judge: Scores them after they ran; the judge if left out.
        prompts: What the models are told, where it differs from the default.
        sandbox: A forkable world, in which the writes of its tools are tried.

    Raises:
        ConfigurationError: If the parts do not fit together.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        tools: Iterable[BaseTool | Callable[..., Any]],
        *,
        effects: CallEffects,
        config: SearchConfig,
        judge: str | BaseChatModel | Judge | None = None,
        post_judge: str | BaseChatModel | Judge | None = None,
        prompts: Prompts | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.config = KernelConfig.of(config)
        if (judge is not None or post_judge is not None) and self.config.pre_evaluation == "fused":
            self.config = replace(self.config, pre_evaluation="batched")
        self.model = resolve_model(model)
        self.library = tools if isinstance(tools, ToolLibrary) else ToolLibrary(tools)
        self.cards = self.library.to_dicts()
        self.effects = effects
        self.prompts = prompts or DEFAULT_PROMPTS
        self.sandbox = sandbox
        self.bound_tools = names_bound_by(sandbox)
        self.proposer = Proposer(self.model, self.library, self.effect_of, self.config, prompts=self.prompts)
        resolve = partial(resolve_judge, seed=self.config.seed, prompts=self.prompts)
        self.pre_judge = resolve(self.model if judge is None else judge)
        self.post_judge = self.pre_judge if post_judge is None else resolve(post_judge)

    def effect_of(self, tool: str, arguments: Mapping[str, Any]) -> Effect:
        """What a call does while searching: it reads, acts in a fork, or is left to the agent."""
        if self.effects.of(tool, arguments) == "read":
            return "read"
        return "sandboxed" if tool in self.bound_tools else "write"

    def run(
        self,
        messages: Sequence[BaseMessage],
        *,
        system: Sequence[BaseMessage] = (),
        state: Mapping[str, Any] | None = None,
        messages_key: str = "messages",
        sinks: Sequence[EventSink] = (),
    ) -> Flow[SearchResult]:
        """Search for the calls that fulfil the latest request of a conversation.

        Args:
            messages: The conversation.
            system: Messages that stand before it for the models.
            state: The graph's state, for tools that have it injected.
            messages_key: Where in it the messages stand.
            sinks: Hear every progress event; inside a graph its stream and callback handlers do, too.

        Returns:
            The best trajectory without an answer, the tree and the cost.

        Raises:
            EmptyQueryError: If there is no request.
        """
        conversation = Conversation.of(messages)
        if not conversation.goal:
            msg = f"There is no request to plan for: of {len(messages)} messages, none is a user message with text."
            raise EmptyQueryError(msg)
        writer = current_writer()  # inside a graph
        listeners = [*sinks, to_stream(writer)] if writer else sinks
        run = _Run(self, conversation, system, state or {}, messages_key)
        return (yield from run.to_the_end(listeners, handled=writer is not None and has_handlers()))


class _Run:
    """One search: the kernel, and what its operations mean for models, tools and forks."""

    def __init__(
        self,
        planner: DeepSearch,
        conversation: Conversation,
        system: Sequence[BaseMessage],
        state: Mapping[str, Any],
        messages_key: str,
    ) -> None:
        self._planner, self._conversation, self._messages = planner, conversation, conversation.messages
        self._system, self._state, self._messages_key = system, state, messages_key
        outcomes = [step for step in conversation.steps if step.outcome]
        failed = [step for step in outcomes if step.outcome and step.outcome.status == "error"]
        # How often a call, by its key, has failed since the request.
        self._failures = Counter(call_key(step.tool, step.arguments or {}) for step in failed)
        self._search = TreeSearch(
            planner.config,
            tools=len(planner.library),
            judge_calls=max(planner.pre_judge.calls_per_question, planner.post_judge.calls_per_question),
            reserved_model_calls=1,
            begun=bool(outcomes) and outcomes[-1] not in failed,
        )
        self._tree = self._search.tree
        self._id = uuid.uuid4().hex
        self._agent_name = ensure_config().get("metadata", {}).get(AGENT_NAME)
        self._history = transcript([*system, *self._messages])
        self._worlds = Worlds(planner.sandbox) if planner.sandbox is not None else None
        self._tool_nodes: dict[str, ToolNode] = {}
        self._messages_to: dict[int, list[BaseMessage]] = {}  # of the path to a node whose call has run
        self._began = time.monotonic()

    # --- the driver ---

    def to_the_end(self, sinks: Sequence[EventSink], *, handled: bool) -> Flow[SearchResult]:
        """Launch what the kernel asks for and tell it the outcomes in the order of launch, until it is done."""
        search = self._search
        outstanding: deque[Any] = deque()  # tasks in the order of launch
        limits = search.limits
        start = StartEvent(
            type="start",
            query=self._conversation.goal,
            tools=len(self._planner.library),
            max_rollouts=limits.rollouts,
            max_model_calls=limits.model_calls,
            max_tool_calls=limits.tool_calls,
        )
        events: list[Event] = [start]
        try:
            while True:
                for operation in search.ask():
                    flow = self._perform(operation)
                    outstanding.append((yield begun(flow, "tooltree")))
                yield from emit_all([*events, *search.take_events()], sinks, handled=handled)
                events = []
                if not outstanding:
                    break
                outcome = yield from self._wait(outstanding[0])
                if outcome is None:
                    search.stop("max_seconds")
                    break
                outstanding.popleft()
                search.tell(outcome)
        finally:
            for task in outstanding:
                task.cancel()
        result = self._result()
        if result.fallback:
            root = self._tree.root
            fallback = FallbackEvent(type="fallback", reason=result.fallback, details=[*root.dropped, *search.problems])
            events.append(fallback)
            logger.warning("Planning failed, the plain model takes the turn: %s", result.fallback)
        yield from emit_all([*events, *search.take_events()], sinks, handled=handled)
        return result

    def _wait(self, task: Any) -> Flow[OperationOutcome | None]:
        """The outcome of an operation; `None` if it does not come in time."""
        limit = self._planner.config.max_seconds
        left = None if limit is None else max(0.0, self._began + limit + GRACE - time.monotonic())
        if not (yield done_within(task, left)):
            return None
        outcome: OperationOutcome = yield TwinStep(task.result, partial(awaited, task))
        return outcome

    # --- operations ---

    def _perform(self, operation: Operation) -> Flow[OperationOutcome]:
        """Carry out one operation."""
        search, began = self._search, time.monotonic()
        meter = Meter(operation.model_calls)
        node = self._tree[operation.node]
        observation = (yield from self._run(node, operation)) if operation.run else None
        facts: dict[str, Any] = {}
        match operation.kind:
            case "plan":
                planner, reads = self._planner, self._planner.effects.reads
                facts["tools"] = yield from plan_tools(
                    planner.model, planner.library, reads, self._conversation.goal, meter, prompt=planner.prompts.plan
                )
            case "propose":
                # After a write that failed for a passing reason nobody knows what the world is like.
                if not (observation and observation.transient and node.call and node.call.effect != "read"):
                    facts = yield from self._propose(operation, node, observation, meter)
            case "score":
                candidates = [self._tree[candidate] for candidate in operation.candidates]
                groups = [[each] for each in candidates] if search.config.pre_evaluation == "single" else [candidates]
                verdicts: list[Judged] = []
                for group in groups:
                    question = self._question("pre", group, operation)
                    verdicts += yield from self._planner.pre_judge.pre(question, meter)
                facts["scores"] = [each.score for each in verdicts]
                facts["reasons"] = [each.reason for each in verdicts]
                facts["error"] = _cause(meter) if None in facts["scores"] else None
            case "evaluate":
                question = self._question("post", [node], operation)
                (reward, reason), goal = yield from self._planner.post_judge.post(question, meter)
                facts = {"reward": reward, "goal": goal, "reasons": [reason] if reason else []}
                facts["error"] = _cause(meter) if reward is None else None
        return OperationOutcome(
            operation.id,
            observation=observation,
            spent=Spent(
                model_calls=meter.model_calls,
                tool_calls=int(operation.run),
                calls=dict(meter.calls),
                usage=dict(meter.usage or {}),
            ),
            elapsed=operation.elapsed + time.monotonic() - began,
            **facts,
        )

    def _propose(
        self, operation: Operation, node: Node, observation: Observation | None, meter: Meter
    ) -> Flow[dict[str, Any]]:
        request = ProposalRequest(
            conversation=[*self._system, *self._messages, *self._path_messages(node, observation)],
            tools=self._search.kept_tools or self._planner.library.names,
            attempt=operation.attempt,
            tried=[child.label for child in self._tree.children(node)],
            missing=node.missing,
            metadata={**_place(operation, node), "attempt": operation.attempt},
        )
        proposal = yield from self._planner.proposer.propose(request, meter)
        hopeless = {call.key for call in proposal.calls if self._failures[call.key] >= FAILURES_ENOUGH}
        kept = [at for at, call in enumerate(proposal.calls) if call.key not in hopeless]
        why = f"failed {FAILURES_ENOUGH} times already"
        dropped = [f"{call.label}: {why}" for call in proposal.calls if call.key in hopeless]
        return {
            "calls": [proposal.calls[at] for at in kept],
            "confidences": [proposal.confidences[at] for at in kept],
            "dropped": [*proposal.problems, *dropped],
            "finished": proposal.is_empty,
            "reward": proposal.reward,
            "goal": proposal.standing.goal,
            "missing": proposal.standing.missing,
            "error": proposal.error,
        }

    def _question(self, stage: Literal["pre", "post"], nodes: Sequence[Node], operation: Operation) -> JudgeRequest:
        """A question about calls, after what had come to pass in the state in which they are made."""
        first = nodes[0]
        before = self._tree.state_before(first)
        calls = [(f"c{node.id}", node.call) for node in nodes if node.call]
        observation = first.observation
        return JudgeRequest(
            stage=stage,
            query=self._conversation.goal,
            history=[*self._history, *transcript(self._path_messages(before))],
            calls=[
                JudgedCall(key, call.tool, call.arguments, call.effect == "write", call.effect != "read")
                for key, call in calls
            ],
            tools=[self._planner.cards[name] for name in sorted({call.tool for _, call in calls})],
            observation=shortened(readable(observation.content), JUDGED_CHARS) if observation else None,
            metadata=_place(operation, self._tree[operation.node]),
            tool_names=tuple(self._search.kept_tools or self._planner.library.names)[:60],  # about 300 tokens
            tried=[child.label for child in self._tree.children(before) if child.offer < first.offer],
        )

    def _steps(self, node: Node) -> list[PlanStep]:
        return steps_of(self._tree.path(node), search_id=self._id, taken=self._conversation.call_ids)

    def _path_messages(self, node: Node, observation: Observation | None = None) -> list[BaseMessage]:
        """The messages of the path to a node; its own observation may be one that the tree does not hold yet."""
        if node.call is None:
            return []
        if node.id not in self._messages_to:
            before = self._path_messages(self._tree.state_before(node))
            step = replace(self._steps(node)[-1], observation=observation or node.observation)
            self._messages_to[node.id] = [*before, *messages_of([step], name=self._agent_name)]
        return self._messages_to[node.id]

    # --- running calls ---

    def _run(self, node: Node, operation: Operation) -> Flow[Observation]:
        """Run the call of a node, which is no deferred write: for real, or in a fork of the sandbox."""
        call, config = cast("Call", node.call), inner_marks(_place(operation, node))
        if self._worlds is None or call.tool not in self._planner.bound_tools:
            return (yield from self._observe(self._planner.library.by_name.get(call.tool), node, config))
        worlds, before = self._worlds, self._tree.state_before(node)
        try:
            yield from self._rebuild(worlds, before, config)
            world = yield FunctionStep(worlds.fork, before.world)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a sandbox may live behind a network
            problem = f"the sandbox could not be forked: {described(error)}"
            return Observation(problem, kind="exception", transient=True)
        observation = yield from self._observe(_bound(world, call.tool), node, config)
        # A call that timed out may still be at work in its fork, so that fork stands for no known world.
        if node.world != before.world and not observation.transient:
            worlds.keep(node.world, world)
        return observation

    def _rebuild(self, worlds: Worlds, node: Node, config: RunnableConfig) -> Flow[None]:
        """Make the world after a node known again, if it was forgotten, by repeating the writes that led to it."""
        version = ""
        for step in self._tree.path(node) if not worlds.knows(node.world) else ():
            if step.world != version and not worlds.knows(step.world):
                world = yield FunctionStep(worlds.fork, version)
                yield from self._observe(_bound(world, step.call.tool if step.call else ""), step, config)
                worlds.keep(step.world, world)
            version = step.world

    def _observe(self, tool: BaseTool | None, node: Node, config: RunnableConfig) -> Flow[Observation]:
        """Run a call with a tool; what the tool raises is an observation, too."""
        if tool is None:
            return Observation(f"There is no tool to run {node.label}.", kind="unsupported")
        step = self._steps(node)[-1]
        call = ToolCall(name=tool.name, args=copy.deepcopy(step.call.arguments), id=step.call_id, type="tool_call")
        state: dict[str, Any] = {}
        if injected_names(tool):
            before = self._path_messages(self._tree.state_before(node))
            messages = [*self._messages, *before, *messages_of([replace(step, observation=None)])]
            state = self._copied({**self._state, self._messages_key: messages}, tool, node)
        timeout = self._planner.config.tool_timeout
        tool_step = ToolStep(self._node_of(tool), tool, tool_node_input(call, state), timeout, config)
        try:
            output = yield tool_step
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is something to learn from
            return _failure(tool.name, error, timeout)
        results = output.get("messages", []) if isinstance(output, dict) else []
        result = next((each for each in results if is_observation(each)), None)
        if result is None:
            problem = "returned a Command, which only the graph itself can apply. Declare the tool a write."
            return Observation(f"{tool.name} {problem}", kind="unsupported")
        return Observation(result.content, kind="ok" if result.status == "success" else "exception", message=result)

    def _copied(self, state: dict[str, Any], tool: BaseTool, node: Node) -> dict[str, Any]:
        """A copy of the state, because what a search tries must not reach the host's."""
        try:
            return copy.deepcopy(state)
        except Exception as error:
            if node.world == self._tree.state_before(node).world:
                return state  # declared a read
            msg = f"{tool.name!r} has the graph state injected, which cannot be copied for a fork: {error}."
            raise ConfigurationError(msg) from error

    def _node_of(self, tool: BaseTool) -> ToolNode:
        """A `ToolNode` around a tool, made once; that of a fork is another tool each time."""
        node = self._tool_nodes.get(tool.name)
        if node is None or node.tools_by_name[tool.name] is not tool:
            node = self._tool_nodes[tool.name] = ToolNode([tool], handle_tool_errors=False)
        return node

    # --- the result ---

    def _result(self) -> SearchResult:
        search = self._search
        best, spent = search.best(), search.budget.spent
        pruned = Counter(node.pruned for node in self._tree.nodes)
        steps = without_failed_writes(self._steps(best)) if best else ()
        return SearchResult(
            query=self._conversation.goal,
            tree=self._tree,
            steps=steps,
            cost=SearchCost(
                rollouts=search.rollouts,
                nodes=len(self._tree) - 1,
                pruned_before=pruned["pre_evaluation"] + pruned["top_k"],
                pruned_after=pruned["post_evaluation"],
                model_calls=spent.model_calls,
                tokens=spent.tokens,
                tool_calls=spent.tool_calls,
                cache_hits=search.cache_hits,
                seconds=time.monotonic() - self._began,
                calls=spent.calls,
                usage=cast("UsageMetadata", dict(spent.usage)) if spent.usage else None,
            ),
            stop_reason=search.stop_reason or "exhausted",
            fallback=None if best else self._why_no_plan(),
            search_id=self._id,
        )

    def _why_no_plan(self) -> str | None:
        """Why nothing is kept; `None` if the model said that no call is needed."""
        root, stopped = self._tree.root, self._search.stop_reason
        if stopped == "exhausted" and not (root.children or root.dropped):
            return None
        causes = [f"no call was worth keeping ({stopped})", *self._search.problems[-1:], *root.dropped[-1:]]
        return ": ".join(causes[:2])


def _failure(tool: str, error: Exception, timeout: float | None) -> Observation:
    """What an exception of a tool says."""
    text = shortened(described(error), 20_000)  # about 5,000 tokens; without a planner it would end the run
    if not isinstance(error, TimeoutError | ToolInvocationError):  # which an agent's tools node would raise
        logger.warning("%s raised while searching, and its result says so: %s", tool, text, exc_info=error)
    if isinstance(error, TimeoutError):
        return Observation(f"TimeoutError: no answer within {timeout} s", kind="timeout", transient=True)
    if isinstance(error, ToolInvocationError):
        return Observation(text, kind="invalid_arguments")
    if isinstance(error, NotImplementedError):
        return Observation(text, kind="unsupported")
    is_passing = isinstance(error, ConnectionError) or getattr(error, "status_code", None) in TRANSIENT_STATUS
    return Observation(text, kind="exception", transient=is_passing)


def _bound(world: Sandbox, name: str) -> BaseTool | None:
    """The tool of this name that acts on a fork."""
    return next((tool for tool in world.tools if tool.name == name), None)


def _place(operation: Operation, node: Node) -> dict[str, Any]:
    """Where in the search an inner run stands, for traces; scores are `None` where nobody gave one."""
    r_pre, r_post = node.r_pre if node.pre_scored else None, node.r_post if node.post_scored else None
    return {"node": node.id, "rollout": operation.rollout, "r_pre": r_pre, "r_post": r_post}


def _cause(meter: Meter) -> str:
    return meter.problems[-1] if meter.problems else "the budget left no question"
