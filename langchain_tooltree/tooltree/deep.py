"""Deep search: the planner searches before it acts, with the pure kernel and many rollouts.

The driver asks the kernel for operations (propose, score, execute, evaluate), performs them side by side, and tells
their outcomes in the order of launch, so that the tree never depends on timing. Declared reads really run; calls of
tools that a sandbox binds run in a fork; everything else is a deferred write, judged and left to the agent. Nothing is
kept on the way: a search that is interrupted starts again.
"""

import asyncio
import copy
import logging
import math
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.messages import BaseMessage, ToolCall
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError

from langchain_tooltree._langgraph import tool_node_input, with_runtime
from langchain_tooltree.conversation import Conversation, is_observation, transcript
from langchain_tooltree.errors import EmptyQueryError, described
from langchain_tooltree.events import Event
from langchain_tooltree.experience.trajectory import readable
from langchain_tooltree.flows import Flow, FunctionStep, TwinStep, arun_flow, awaited, in_thread, run_flow
from langchain_tooltree.models import ATTEMPTS, Meter, inner_marks
from langchain_tooltree.sandbox import Sandbox, forked
from langchain_tooltree.text import shortened
from langchain_tooltree.tools import injected_names
from langchain_tooltree.tooltree.ask import Proposal, ProposalRequest, Proposer, plan_tools
from langchain_tooltree.tooltree.judge import Evaluator, Judged, JudgedCall, JudgeRequest, ModelEvaluator
from langchain_tooltree.tooltree.result import (
    PlanStep,
    SearchCost,
    SearchResult,
    messages_of,
    plan_messages,
    steps_of,
    without_failed_writes,
)
from langchain_tooltree.tooltree.search import (
    Call,
    Effect,
    KernelConfig,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    TreeSearch,
)

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.host import PlannerHost

logger = logging.getLogger(__name__)

JUDGED_CHARS = 8_000  # characters of an observation that a judge is asked about: about 2,000 tokens
ANSWER_CALLS = 1  # model calls that are kept back for the answer


def _launch(flow: Flow[Any], name: str) -> TwinStep:
    """A step that starts a flow beside this one, as a task or on a thread of that name, and gives its future."""

    async def task() -> "asyncio.Task[Any]":
        task = asyncio.create_task(arun_flow(flow))
        # Once one flow has failed, nobody asks the others for their errors, which asyncio would log.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    return TwinStep(lambda: in_thread(partial(run_flow, flow), name), task)


class DeepSearch:
    """One search before the agent acts: the kernel, and what its operations mean for models, tools and forks.

    Args:
        host: The form that the planner has: its settings, its model, which scores calls where there is no judge, its
            tools, and what they may have injected.
        messages: The conversation.

    Raises:
        EmptyQueryError: If there is no request.
    """

    def __init__(self, host: "PlannerHost", messages: Sequence[BaseMessage]) -> None:
        planner, offering, model = host.planner, host.offering, host.model
        conversation = Conversation.of(messages)
        if not conversation.goal:
            msg = f"There is no request to plan for: of {len(messages)} messages, none is a user message with text."
            raise EmptyQueryError(msg)
        kernel = KernelConfig.of(planner.config)
        pre_judge, post_judge = planner.judges
        pre_judge = pre_judge or ModelEvaluator(model, kernel.seed, planner.prompts)
        self._pre_judge = _asked(pre_judge, explains=kernel.explains_before)
        self._post_judge = _asked(post_judge or pre_judge, explains=kernel.explains_after)
        self._host, self._effects, self._bound_tools = host, offering.effects, planner.bound_tools
        self._library = offering.library
        self._tools: Sequence[str] = self._library.names  # that may be proposed
        self._proposer = Proposer(model, self._library, self._effect_of, kernel)
        self._conversation, self._messages = conversation, conversation.messages
        self._system = [host.system] if host.system is not None else []
        self._history = transcript([*self._system, *self._messages])
        outcomes = [step.outcome for step in conversation.steps if step.outcome]
        self._search = TreeSearch(
            kernel,
            tools=len(self._library),
            judge_calls=max(self._pre_judge.calls_per_question, self._post_judge.calls_per_question),
            reserved_model_calls=ANSWER_CALLS,
            is_under_way=bool(outcomes) and outcomes[-1].status != "error",
        )
        self._config, self._tree = self._search.config, self._search.tree
        self._id = uuid.uuid4().hex
        # By version: what each write has led to, and the user's own world, which is only ever forked.
        self._worlds = {} if planner.sandbox is None else {"": planner.sandbox}
        self._forking = threading.Lock()  # a world may not be copied while it is being copied elsewhere
        self._messages_to: dict[int, list[BaseMessage]] = {}  # of the path to a node whose call has run
        self._meters: dict[int, Meter] = {}  # of each operation, by its launch number
        self._meter = Meter(0)  # of all that was told
        self._began = time.monotonic()
        self._deadline = self._began + (kernel.max_seconds or math.inf)

    def _effect_of(self, tool: str, arguments: Mapping[str, Any]) -> Effect:
        """What a call does while searching: it reads, acts in a fork, or is left to the agent."""
        if self._effects.of(tool, arguments) == "read":
            return "read"
        return "sandboxed" if tool in self._bound_tools else "write"

    # --- the driver ---

    def run(self) -> Flow[SearchResult]:
        """Launch what the kernel asks for and tell it the outcomes in the order of launch, until it is done.

        Returns:
            The best trajectory without an answer, the tree and the cost.
        """
        search, emit = self._search, self._host.emit
        running: deque[Any] = deque()  # in the order of launch
        start = Event(
            type="start",
            query=self._conversation.goal,
            tools=len(self._library),
            max_rollouts=self._config.max_rollouts,
            max_model_calls=search.max_model_calls,
        )
        yield from emit([start])
        try:
            if self._config.coarse_planner:
                yield from self._narrow_tools()
            while True:
                if time.monotonic() >= self._deadline:
                    search.stop("max_seconds")
                for operation in search.ask():
                    running.append((yield _launch(self._perform(operation), "tooltree")))
                yield from emit(search.take_events())
                if not running:
                    break
                task = running.popleft()
                outcome = yield TwinStep(task.result, partial(awaited, task))
                self._meter.add(self._meters[outcome.operation])
                search.tell(outcome)
        finally:
            for task in running:
                task.cancel()
        result, events = self._result(), list[Event]()
        if result.fallback:
            details = [*self._tree.root.dropped, *search.problems]
            events.append(Event(type="fallback", reason=result.fallback, details=details))
            logger.warning("Planning failed, the plain model takes the turn: %s", result.fallback)
        yield from emit([*events, *search.take_events()])
        return result

    # --- operations ---

    def _narrow_tools(self) -> Flow[None]:
        """Have the coarse planner choose the tools that may be proposed."""
        search, spent = self._search, self._search.spent
        meter = Meter(min(ATTEMPTS, search.max_model_calls - ANSWER_CALLS))
        self._tools = yield from plan_tools(self._host.model, self._library, self._conversation.goal, meter)
        self._meter.add(meter)
        spent.model_calls, spent.tokens = meter.model_calls, meter.input_tokens + meter.output_tokens

    def _perform(self, operation: Operation) -> Flow[OperationOutcome]:
        """Carry out one operation."""
        meter = self._meters[operation.id] = Meter(operation.model_calls)
        node = self._tree[operation.node]
        observation = (yield from self._run(node)) if operation.run else None
        facts: dict[str, Any] = {}
        match operation.kind:
            case "propose":
                facts = yield from self._propose(operation, node, observation, meter)
            case "score":
                candidates = [self._tree[candidate] for candidate in operation.candidates]
                groups = [[each] for each in candidates] if self._config.pre_evaluation == "single" else [candidates]
                verdicts: list[Judged] = []
                for group in groups:
                    verdicts += yield from self._pre_judge.pre(self._question("pre", group), meter)
                facts["scores"] = [each.score for each in verdicts]
                facts["reasons"] = [each.reason for each in verdicts]
                facts["error"] = _cause(meter) if None in facts["scores"] else None
            case "evaluate":
                question = self._question("post", [node])
                (reward, reason), goal = yield from self._post_judge.post(question, meter)
                facts = {"reward": reward, "goal": goal, "reasons": [reason] if reason else []}
                facts["error"] = _cause(meter) if reward is None else None
        tokens = meter.input_tokens + meter.output_tokens
        return OperationOutcome(
            operation.id, observation=observation, model_calls=meter.model_calls, tokens=tokens, **facts
        )

    def _propose(
        self, operation: Operation, node: Node, observation: Observation | None, meter: Meter
    ) -> Flow[dict[str, Any]]:
        request = ProposalRequest(
            conversation=[*self._system, *self._messages, *self._path_messages(node, observation)],
            tools=self._tools,
            attempt=operation.attempt,
            tried=[child.label for child in self._tree.children(node)],
            missing=node.missing,
        )
        proposal = yield from self._proposer.propose(request, meter)
        facts = {name: getattr(proposal, name) for name in Proposal.__slots__}
        return {**facts, "finished": proposal.is_empty}

    def _question(self, stage: Literal["pre", "post"], nodes: Sequence[Node]) -> JudgeRequest:
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
            tools=[self._library.card(name).to_dict() for name in sorted({call.tool for _, call in calls})],
            observation=shortened(readable(observation.content), JUDGED_CHARS) if observation else None,
            tool_names=tuple(self._tools)[:60],  # about 300 tokens
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
            self._messages_to[node.id] = [*before, *messages_of([step])]
        return self._messages_to[node.id]

    # --- running calls ---

    def _run(self, node: Node) -> Flow[Observation]:
        """Run the call of a node, which is no deferred write: for real, or in a fork of the sandbox."""
        call = cast("Call", node.call)
        if call.tool not in self._bound_tools:
            return (yield from self._observe(self._library.by_name.get(call.tool), node))
        before = self._tree.state_before(node)
        world = yield FunctionStep(self._fork, before.world)
        tool = next((tool for tool in world.tools if tool.name == call.tool), None)
        observation = yield from self._observe(tool, node)
        if node.world != before.world:
            self._worlds[node.world] = world
        return observation

    def _fork(self, version: str) -> Sandbox:
        with self._forking:
            return forked(self._worlds[version])

    def _observe(self, tool: BaseTool | None, node: Node) -> Flow[Observation]:
        """Run a call with a tool; what the tool raises is an observation, too."""
        if tool is None:
            return Observation(f"There is no tool to run {node.label}.", kind="unsupported")
        step = self._steps(node)[-1]
        call = ToolCall(name=tool.name, args=copy.deepcopy(step.call.arguments), id=step.call_id, type="tool_call")
        state: dict[str, Any] = {}
        if injected_names(tool):
            before = self._path_messages(self._tree.state_before(node))
            messages = [*self._messages, *before, *messages_of([replace(step, observation=None)])]
            state = {**self._host.state, self._host.messages_key: messages}
        runner = ToolNode([with_sync_form(tool)], handle_tool_errors=False)
        call_input, config = tool_node_input(call, state), with_runtime(merge_configs(ensure_config(), inner_marks({})))
        try:
            output = yield TwinStep(
                partial(runner.invoke, call_input, config), partial(runner.ainvoke, call_input, config)
            )
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is something to learn from
            return _failure(tool.name, error)
        results = output.get("messages", []) if isinstance(output, dict) else []
        result = next((each for each in results if is_observation(each)), None)
        if result is None:
            problem = "returned a Command, which only the graph itself can apply. Declare the tool a write."
            return Observation(f"{tool.name} {problem}", kind="unsupported")
        return Observation(result.content, kind="ok" if result.status == "success" else "exception", message=result)

    # --- the result ---

    def _result(self) -> SearchResult:
        search, spent = self._search, self._search.spent
        best = search.best()
        pruned = Counter(node.pruned for node in self._tree.nodes)
        cost = SearchCost(
            rollouts=search.rollouts,
            nodes=len(self._tree) - 1,
            pruned_before=pruned["pre_evaluation"] + pruned["top_k"],
            pruned_after=pruned["post_evaluation"],
            model_calls=spent.model_calls,
            tokens=spent.tokens,
            tool_calls=spent.tool_calls,
            cache_hits=search.cache_hits,
            seconds=time.monotonic() - self._began,
            usage=self._meter.usage,
        )
        result = SearchResult(
            query=self._conversation.goal,
            tree=self._tree,
            steps=without_failed_writes(self._steps(best)) if best else (),
            cost=cost,
            stop_reason=search.stop_reason or "exhausted",
            fallback=None if best else self._why_no_plan(),
            search_id=self._id,
        )
        return replace(result, messages=plan_messages(result))

    def _why_no_plan(self) -> str | None:
        """Why nothing is kept; `None` if the model said that no call is needed."""
        root, stopped = self._tree.root, self._search.stop_reason
        if stopped == "exhausted" and not (root.children or root.dropped):
            return None
        causes = [f"no call was worth keeping ({stopped})", *self._search.problems[-1:], *root.dropped[-1:]]
        return ": ".join(causes[:2])


def _asked(judge: Evaluator, *, explains: bool) -> Evaluator:
    """A judge that is asked in the paper's form, if it is a model."""
    return replace(judge, explains=explains) if isinstance(judge, ModelEvaluator) else judge


def _failure(tool: str, error: Exception) -> Observation:
    """What an exception of a tool says."""
    text = shortened(described(error), 20_000)  # about 5,000 tokens; without a planner it would end the run
    if isinstance(error, ToolInvocationError):
        return Observation(text, kind="invalid_arguments")
    # An agent's tools node would raise it.
    logger.warning("%s raised while searching, and its result says so: %s", tool, text)
    logger.debug("The traceback, which may hold secrets:", exc_info=error)
    return Observation(text, kind="unsupported" if isinstance(error, NotImplementedError) else "exception")


def _cause(meter: Meter) -> str:
    return meter.problems[-1] if meter.problems else "the budget left no question"


def with_sync_form(tool: BaseTool) -> BaseTool:
    """A tool that can be run on the sync path as well: in an event loop of its own if it is async-only."""
    coroutine = tool.coroutine if isinstance(tool, StructuredTool) and tool.func is None else None
    if coroutine is None:
        return tool

    @wraps(coroutine)
    def run(*args: Any, **kwargs: Any) -> Any:
        return in_thread(lambda: asyncio.run(awaited(coroutine(*args, **kwargs))), f"tooltree-{tool.name}").result()

    return tool.model_copy(update={"func": run})
