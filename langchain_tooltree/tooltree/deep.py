"""Deep search: the planner searches before it acts, with the pure kernel and many rollouts.

The driver asks the kernel for operations (propose, score, execute, evaluate), performs them side by side, and tells
their outcomes in the order of launch, so that the tree never depends on timing. Declared reads really run; calls of
tools that a sandbox binds run in a fork; everything else is a deferred write, judged and left to the agent. Nothing is
kept on the way: a search that is interrupted starts again.

A `Proposer` asks a model which calls may be made next. Candidates come as tool calls: all in one reply, with their
scores where those are fused, or one draft a tool. A question with scores has a field more in each tool, for a
confidence, and one tool more, by which the model says how the request stands. Replies are read as LangChain parsed
them; what does not validate is unknown.
"""

import asyncio
import copy
import logging
import math
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    ToolCall,
    message_to_dict,
)
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError

from langchain_tooltree._langgraph import tool_node_input, with_runtime
from langchain_tooltree.errors import EmptyQueryError, described
from langchain_tooltree.flows import (
    CallStep,
    Flow,
    FunctionStep,
    arun_flow,
    await_result,
    run_flow,
    run_in_daemon_thread,
)
from langchain_tooltree.messages.content import describe_content
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.kinds import is_tool_result
from langchain_tooltree.messages.transcript import build_transcript
from langchain_tooltree.messages.validation import INVALID_ARGUMENTS
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    UNTRUSTED,
    Meter,
    call_tools,
    document_prompt,
    filled_in,
    inner_config,
    inner_marks,
    validated,
)
from langchain_tooltree.sandbox import Sandbox, forked
from langchain_tooltree.text import compact_json, shortened
from langchain_tooltree.tools import ToolLibrary, checked_arguments
from langchain_tooltree.tooltree import prompts
from langchain_tooltree.tooltree.branches import with_only_call
from langchain_tooltree.tooltree.judge import (
    SAID_OPEN,
    Evaluator,
    Judged,
    JudgedCall,
    JudgeRequest,
    ModelEvaluator,
    Standing,
    as_score,
)
from langchain_tooltree.tooltree.result import (
    PlanStep,
    SearchCost,
    SearchResult,
    messages_of,
    plan_messages,
    steps_of,
    without_failed_writes,
)
from langchain_tooltree.tooltree.search import Operation, OperationOutcome, TreeSearch
from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.tree import Action, Effect, Node, Observation

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.host import PlannerHost

logger = logging.getLogger(__name__)

JUDGED_CHARS = 8_000  # characters of an observation that a judge is asked about: about 2,000 tokens
ANSWER_CALLS = 1  # model calls that are kept back for the answer


def _launch(flow: Flow[Any], name: str) -> CallStep:
    """A step that starts a flow beside this one, as a task or on a thread of that name, and gives its future."""

    async def task() -> "asyncio.Task[Any]":
        task = asyncio.create_task(arun_flow(flow))
        # Once one flow has failed, nobody asks the others for their errors, which asyncio would log.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    return CallStep(lambda: run_in_daemon_thread(partial(run_flow, flow), name), task)


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
        self._pre_judge = _in_form(pre_judge, explains=kernel.explains_before)
        self._post_judge = _in_form(
            post_judge or pre_judge, explains=kernel.explains_after
        )
        self._host, self._effects, self._bound_tools = (
            host,
            offering.effects,
            planner.bound_tools,
        )
        self._library = offering.library
        self._tools: Sequence[str] = self._library.names  # that may be proposed
        self._proposer = Proposer(model, self._library, self._effect_of, kernel)
        self._conversation, self._messages = conversation, conversation.messages
        self._system = [host.system] if host.system is not None else []
        self._history = build_transcript(Conversation([*self._system, *self._messages]))
        outcomes = [step.result for step in conversation.calls if step.result]
        self._search = TreeSearch(
            kernel,
            tools=len(self._library),
            judge_calls=max(
                self._pre_judge.calls_per_question, self._post_judge.calls_per_question
            ),
            reserved_model_calls=ANSWER_CALLS,
            is_under_way=bool(outcomes) and outcomes[-1].status != "error",
        )
        self._config, self._tree = self._search.config, self._search.tree
        self._id = uuid.uuid4().hex
        # By version: what each write has led to, and the user's own world, which is only ever forked.
        self._worlds = {} if planner.sandbox is None else {"": planner.sandbox}
        self._forking = (
            threading.Lock()
        )  # a world may not be copied while it is being copied elsewhere
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

    async def run(self) -> SearchResult:
        """Launch what the kernel asks for and tell it the outcomes in the order of launch, until it is done.

        Returns:
            The best trajectory without an answer, the tree and the cost.
        """
        search, emit = self._search, self._host.emit
        running: deque[Any] = deque()  # in the order of launch
        limits = {
            "max_rollouts": self._config.max_rollouts,
            "max_model_calls": search.max_model_calls,
        }
        await emit(
            [
                {
                    "type": "start",
                    "query": self._conversation.goal,
                    "tools": len(self._library),
                    **limits,
                }
            ]
        )
        try:
            if self._config.coarse_planner:
                await self._narrow_tools()
            while True:
                if time.monotonic() >= self._deadline:
                    search.stop("max_seconds")
                for operation in search.ask():
                    running.append(await _launch(self._perform(operation), "tooltree"))
                await emit(search.take_events())
                if not running:
                    break
                task = running.popleft()
                outcome = await CallStep(task.result, partial(await_result, task))
                self._meter.add(self._meters[outcome.operation])
                search.tell(outcome)
        finally:
            for task in running:
                task.cancel()
        result, events = self._result(), list[dict[str, Any]]()
        if result.fallback:
            details = [*self._tree.root.dropped, *search.problems]
            events.append(
                {"type": "fallback", "reason": result.fallback, "details": details}
            )
            logger.warning(
                "Planning failed, the plain model takes the turn: %s", result.fallback
            )
        await emit([*events, *search.take_events()])
        return result

    # --- operations ---

    async def _narrow_tools(self) -> None:
        """Have the coarse planner choose the tools that may be proposed."""
        search, spent = self._search, self._search.spent
        meter = Meter(min(REPLY_ATTEMPTS, search.max_model_calls - ANSWER_CALLS))
        self._tools = await plan_tools(
            self._host.model, self._library, self._conversation.goal, meter
        )
        self._meter.add(meter)
        spent.model_calls, spent.tokens = (
            meter.model_calls,
            meter.input_tokens + meter.output_tokens,
        )

    async def _perform(self, operation: Operation) -> OperationOutcome:
        """Carry out one operation."""
        meter = self._meters[operation.id] = Meter(operation.model_calls)
        node = self._tree[operation.node]
        observation = (await self._run(node)) if operation.run else None
        outcome = OperationOutcome(operation.id)
        match operation.kind:
            case "propose":
                request = ProposalRequest(
                    conversation=[
                        *self._system,
                        *self._messages,
                        *self._path_messages(node, observation),
                    ],
                    tools=self._tools,
                    operation=operation.id,
                    attempt=operation.attempt,
                    tried=[child.label for child in self._tree.children(node)],
                    missing=node.missing,
                )
                outcome = await self._proposer.propose(request, meter)
            case "score":
                candidates = [
                    self._tree[candidate] for candidate in operation.candidates
                ]
                groups = (
                    [[each] for each in candidates]
                    if self._config.pre_evaluation == "single"
                    else [candidates]
                )
                verdicts: list[Judged] = []
                for group in groups:
                    verdicts += await self._pre_judge.pre(
                        self._question("pre", group), meter
                    )
                outcome.scores = [each.score for each in verdicts]
                outcome.reasons = [each.reason for each in verdicts]
                outcome.error = _cause(meter) if None in outcome.scores else None
            case "evaluate":
                question = self._question("post", [node])
                (
                    (outcome.reward, reason),
                    outcome.goal,
                ) = await self._post_judge.post(question, meter)
                outcome.reasons = [reason] if reason else []
                outcome.error = _cause(meter) if outcome.reward is None else None
        outcome.observation = observation
        outcome.model_calls, outcome.tokens = (
            meter.model_calls,
            meter.input_tokens + meter.output_tokens,
        )
        return outcome

    def _question(
        self, stage: Literal["pre", "post"], nodes: Sequence[Node]
    ) -> JudgeRequest:
        """A question about calls, after what had come to pass in the state in which they are made."""
        first = nodes[0]
        before = self._tree.state_before(first)
        calls = [(f"c{node.id}", node.call) for node in nodes if node.call]
        observation = first.observation
        return JudgeRequest(
            stage=stage,
            query=self._conversation.goal,
            history=[
                *self._history,
                *build_transcript(Conversation(self._path_messages(before))),
            ],
            calls=[
                JudgedCall(
                    key,
                    call.tool,
                    call.arguments,
                    call.effect == "write",
                    call.effect != "read",
                )
                for key, call in calls
            ],
            tools=[
                self._library.card(name).to_dict()
                for name in sorted({call.tool for _, call in calls})
            ],
            observation=shortened(describe_content(observation.content), JUDGED_CHARS)
            if observation
            else None,
            tool_names=tuple(self._tools)[:60],  # about 300 tokens
            tried=[
                child.label
                for child in self._tree.children(before)
                if child.offer < first.offer
            ],
        )

    def _steps(self, node: Node) -> list[PlanStep]:
        return steps_of(
            self._tree.path(node), search_id=self._id, taken=self._conversation.call_ids
        )

    def _path_messages(
        self, node: Node, observation: Observation | None = None
    ) -> list[BaseMessage]:
        """The messages of the path to a node; its own observation may be one that the tree does not hold yet."""
        steps = self._steps(node)
        if observation is not None:
            steps[-1] = replace(steps[-1], observation=observation)
        return messages_of(steps)

    # --- running calls ---

    async def _run(self, node: Node) -> Observation:
        """Run the call of a node, which is no deferred write: for real, or in a fork of the sandbox."""
        call = cast("Action", node.call)
        if call.tool not in self._bound_tools:
            return await self._observe(self._library.by_name.get(call.tool), node)
        before = self._tree.state_before(node)
        world = await FunctionStep(self._fork, before.world)
        tool = next((tool for tool in world.tools if tool.name == call.tool), None)
        observation = await self._observe(tool, node)
        if node.world != before.world:
            self._worlds[node.world] = world
        return observation

    def _fork(self, version: str) -> Sandbox:
        with self._forking:
            return forked(self._worlds[version])

    async def _observe(self, tool: BaseTool | None, node: Node) -> Observation:
        """Run a call with a tool; what the tool raises is an observation, too."""
        if tool is None:
            return Observation(
                f"There is no tool to run {node.label}.", kind="unsupported"
            )
        step = self._steps(node)[-1]
        call = ToolCall(
            name=tool.name,
            args=copy.deepcopy(step.call.arguments),
            id=step.call_id,
            type="tool_call",
        )
        path = messages_of([*self._steps(node)[:-1], replace(step, observation=None)])
        state = {**self._host.state, self._host.messages_key: [*self._messages, *path]}
        runner = ToolNode([with_sync_form(tool)], handle_tool_errors=False)
        call_input, config = (
            tool_node_input(call, state),
            with_runtime(merge_configs(ensure_config(), inner_marks({}))),
        )
        try:
            output = await CallStep(
                partial(runner.invoke, call_input, config),
                partial(runner.ainvoke, call_input, config),
            )
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is something to learn from
            return _failure(tool.name, error)
        results = output.get("messages", []) if isinstance(output, dict) else []
        result = next((each for each in results if is_tool_result(each)), None)
        if result is None:
            problem = "returned a Command, which only the graph itself can apply. Declare the tool a write."
            return Observation(f"{tool.name} {problem}", kind="unsupported")
        return Observation(
            result.content,
            kind="ok" if result.status == "success" else "exception",
            message=result,
        )

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
        causes = [
            f"no call was worth keeping ({stopped})",
            *self._search.problems[-1:],
            *root.dropped[-1:],
        ]
        return ": ".join(causes[:2])


def _in_form(judge: Evaluator, *, explains: bool) -> Evaluator:
    """A judge that is asked in the paper's form, if it is a model."""
    return (
        replace(judge, explains=explains)
        if isinstance(judge, ModelEvaluator)
        else judge
    )


def _failure(tool: str, error: Exception) -> Observation:
    """What an exception of a tool says."""
    text = shortened(
        described(error), 20_000
    )  # about 5,000 tokens; without a planner it would end the run
    if isinstance(error, ToolInvocationError):
        return Observation(text, kind="invalid_arguments")
    # An agent's tools node would raise it.
    logger.warning("%s raised while searching, and its result says so: %s", tool, text)
    logger.debug("The traceback, which may hold secrets:", exc_info=error)
    return Observation(
        text,
        kind="unsupported" if isinstance(error, NotImplementedError) else "exception",
    )


def _cause(meter: Meter) -> str:
    return meter.problems[-1] if meter.problems else "the budget left no question"


def with_sync_form(tool: BaseTool) -> BaseTool:
    """A tool that can be run on the sync path as well: in an event loop of its own if it is async-only."""
    coroutine = (
        tool.coroutine
        if isinstance(tool, StructuredTool) and tool.func is None
        else None
    )
    if coroutine is None:
        return tool

    @wraps(coroutine)
    def run(*args: Any, **kwargs: Any) -> Any:
        return run_in_daemon_thread(
            lambda: asyncio.run(await_result(coroutine(*args, **kwargs))),
            f"tooltree-{tool.name}",
        ).result()

    return tool.model_copy(update={"func": run})


# --- asking a model which calls may be made next ---

ASSESS = "assess"
"""Name of the tool by which a model says how things stand; longer where the user has a tool of this name."""

READ_CANDIDATES = 2
"""So many times `top_k` calls are read from one reply: room for invalid ones, and a bound on what a model can offer."""

EffectOf = Callable[[str, Mapping[str, Any]], Effect]


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """A state to be asked for calls."""

    conversation: Sequence[BaseMessage]
    tools: Sequence[str]
    operation: int = 0  # launch number of the operation that asks
    attempt: int = 1  # for which time it is asked, from 1
    tried: Sequence[str] = ()  # the calls offered here before
    missing: Sequence[str] = ()  # what of the request is not done yet, in words


@dataclass(frozen=True, slots=True)
class BoundTools:
    """Tools as they are bound to a question: what the model sees, and what of its calls is for the planner."""

    tools: Sequence[BaseTool]
    bound: Sequence[BaseTool | dict[str, Any]]
    scored: frozenset[str] = (
        frozenset()
    )  # names of the tools that have a field for the confidence
    assess: str | None = (
        None  # name of the tool that says how the request stands, if there is one
    )

    @classmethod
    def with_scores(
        cls, tools: Sequence[BaseTool], *, assess: bool, observed: bool = False
    ) -> "BoundTools":
        """The tools with room for scores; the latest result is only asked about where there is one."""
        forms = {tool.name: _with_confidence(tool) for tool in tools}
        bound: list[BaseTool | dict[str, Any]] = [
            forms[tool.name] or tool for tool in tools
        ]
        scored = frozenset(name for name, form in forms.items() if form)
        if not assess:
            return cls(tools, bound, scored)
        name = ASSESS
        while name in forms:
            name += "_request"
        return cls(tools, [*bound, _assessment(name, observed=observed)], scored, name)


def _with_confidence(tool: BaseTool) -> dict[str, Any] | None:
    """A tool in OpenAI's form with a field for the confidence; `None` if it cannot have one."""
    form = copy.deepcopy(convert_to_openai_tool(tool))
    parameters = form.get("function", {}).setdefault("parameters", {"type": "object"})
    properties = parameters.setdefault("properties", {})
    if "function" not in form or prompts.CONFIDENCE in properties:
        return None
    properties[prompts.CONFIDENCE] = {
        "type": "number",
        "description": prompts.CONFIDENCE_DESCRIPTION,
    }
    parameters["required"] = [*parameters.get("required", ()), prompts.CONFIDENCE]
    return form


_ASSESSMENT = {
    name: {
        key: value
        for key, value in form.items()
        if key not in {"title", "default", "anyOf"}
    }
    for name, form in prompts.Assessment.model_json_schema()["properties"].items()
}


def _assessment(name: str, *, observed: bool) -> dict[str, Any]:
    properties = {each: _ASSESSMENT[each] for each in ("missing", "fulfilled")}
    if observed:
        properties = {
            "last_result": {"type": "number", **_ASSESSMENT["last_result"]},
            **properties,
        }
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    function = {
        "name": name,
        "description": prompts.ASSESS_DESCRIPTION,
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Proposer:
    """Asks a model with tool calling for candidates."""

    model: BaseChatModel
    library: ToolLibrary
    effect_of: EffectOf  # what a call does to the world, by tool and arguments
    config: KernelConfig  # how candidates are asked for

    async def propose(self, request: ProposalRequest, meter: Meter) -> OperationOutcome:
        """Ask a state for calls. Those that cannot be made are asked for again, once."""
        proposal = OperationOutcome(request.operation)
        tools = [self.library.by_name[name] for name in request.tools]
        ask = partial(self._ask, request, meter, proposal)
        if self.config.proposals == "per_tool":
            for tool in tools:
                await ask(
                    BoundTools([tool], [tool]),
                    prompts.DRAFT_PROMPT.format(tool=tool.name),
                )
        elif self.config.selection == "posterior":
            await self._ask_with_scores(request, meter, proposal, tools)
        else:
            await ask(
                BoundTools(tools, tools),
                prompts.PROPOSE_PROMPT.format(count=self.config.top_k),
            )
        if proposal.dropped and meter.left:
            await self._repair(request, meter, proposal, tools)
        if proposal.calls:
            proposal.error = None
        proposal.finished = _is_empty(proposal)
        return proposal

    async def _ask_with_scores(
        self,
        request: ProposalRequest,
        meter: Meter,
        proposal: OperationOutcome,
        tools: Sequence[BaseTool],
    ) -> None:
        observed = bool(request.conversation) and is_tool_result(
            request.conversation[-1]
        )
        candidates = prompts.CANDIDATES_PROMPT.format(count=self.config.top_k)
        bound = BoundTools.with_scores(tools, assess=True, observed=observed)
        end = prompts.ASSESS_PROMPT.format(assess=bound.assess)
        await self._ask(request, meter, proposal, bound, f"{candidates}\n\n{end}")
        if _is_empty(proposal) and proposal.goal == SAID_OPEN and meter.left:
            # Some models make one call in a reply, and theirs was to say how the request stands.
            instruction = f"{candidates}\n\n{prompts.NOTHING_PROMPT}"
            bound = BoundTools.with_scores(tools, assess=False)
            await self._ask(request, meter, proposal, bound, instruction)

    async def _repair(
        self,
        request: ProposalRequest,
        meter: Meter,
        proposal: OperationOutcome,
        tools: Sequence[BaseTool],
    ) -> None:
        """Have invalid calls written again; what is still invalid stays a problem."""
        propose = prompts.PROPOSE_PROMPT.format(count=len(proposal.dropped))
        repair = prompts.REPAIR_PROMPT.format(problems=_bullets(proposal.dropped))
        has_scores = self.config.selection == "posterior"
        shown = (
            BoundTools.with_scores(tools, assess=False)
            if has_scores
            else BoundTools(tools, tools)
        )
        first_time = replace(request, attempt=1, missing=())
        await self._ask(first_time, meter, proposal, shown, f"{propose}\n\n{repair}")

    async def _ask(
        self,
        request: ProposalRequest,
        meter: Meter,
        proposal: OperationOutcome,
        tools: BoundTools,
        instruction: str,
    ) -> None:
        """Ask for candidates, and take them."""
        if not meter.left:
            proposal.error = "the budget left no question"
            return
        cards = {name: self.library.additions(name) for name in request.tools}
        messages = proposal_messages(request, instruction, cards)
        try:
            reply = await call_tools(
                self.model, tools.bound, messages, meter, inner_config("propose", {})
            )
        except Exception as error:  # noqa: BLE001 - a model that fails ends the search with what it has
            proposal.error = f"the model failed: {described(error)}"
        else:
            proposal.error = None
            await FunctionStep(
                partial(self._take, reply, tools), proposal
            )  # which may parse what was proposed

    def _take(
        self, reply: AIMessage, tools: BoundTools, proposal: OperationOutcome
    ) -> None:
        """Read a reply: each call is a candidate, but for the one that says how the request stands."""
        names = {tool.name: tool for tool in tools.tools}
        offers = [call for call in reply.tool_calls if call["name"] != tools.assess]
        standing = next(
            (call["args"] for call in reply.tool_calls if call["name"] == tools.assess),
            None,
        )
        if assessment := validated(prompts.Assessment, standing):
            (proposal.goal, proposal.missing), proposal.reward = (
                Standing.of(assessment),
                assessment.last_result,
            )
        most = READ_CANDIDATES * self.config.top_k
        for call in offers[:most]:
            arguments = dict(call["args"])
            problem: str | None = "there is no tool of this name"
            confidence = (
                as_score(arguments.pop(prompts.CONFIDENCE, None))
                if call["name"] in tools.scored
                else None
            )
            if tool := names.get(call["name"]):
                arguments, problem = checked_arguments(tool, arguments)
            if problem:
                proposal.dropped.append(
                    shortened(
                        f"{Action(call['name'], arguments, 'write').label}: {problem}"
                    )
                )
                continue
            signed = (
                message_to_dict(with_only_call(reply, call))
                if _is_signed(reply)
                else None
            )
            effect = self.effect_of(call["name"], arguments)
            proposal.calls.append(Action(call["name"], arguments, effect, signed))
            proposal.confidences.append(confidence)
        if len(offers) > most:
            proposal.dropped.append(
                f"{len(offers) - most} calls: only {most} of one reply are read"
            )
        for broken in reply.invalid_tool_calls:
            proposal.dropped.append(
                shortened(
                    f"{broken.get('name')}({broken.get('args')}): {INVALID_ARGUMENTS}"
                )
            )


def _is_empty(proposal: OperationOutcome) -> bool:
    """Whether the model has replied, and offered nothing."""
    return not (proposal.calls or proposal.dropped or proposal.error)


def proposal_messages(
    request: ProposalRequest, instruction: str, cards: Mapping[str, Any] | None = None
) -> list[BaseMessage]:
    """One system message, with the agent's own instructions, what was tried and what is missing, and the conversation.

    `cards` is what the cards of tools say beyond what is bound, by name.
    """
    parts = [instruction, UNTRUSTED]
    if lines := [
        f"{name}: {compact_json(card)}" for name, card in (cards or {}).items() if card
    ]:
        parts.append(f"More about the tools:\n{_bullets(lines)}")
    instructions = list(
        takewhile(lambda each: isinstance(each, SystemMessage), request.conversation)
    )
    if instructions:
        own = "\n\n".join(str(each.text) for each in instructions)
        parts.append(prompts.INSTRUCTIONS_PROMPT.format(instructions=own))
    if request.attempt > 1:
        parts.append(
            prompts.TRIED_PROMPT.format(
                attempt=request.attempt, tried=_bullets(request.tried or ["nothing"])
            )
        )
    if request.missing:
        parts.append(prompts.MISSING_PROMPT.format(missing=_bullets(request.missing)))
    return [
        SystemMessage("\n\n".join(parts)),
        *request.conversation[len(instructions) :],
    ]


def _is_signed(reply: AIMessage) -> bool:
    """Whether a model may want more back than a call: reasoning or signatures, in blocks or additional arguments."""
    return isinstance(reply.content, list) or bool(
        reply.additional_kwargs.keys() - {"tool_calls", "refusal"}
    )


def _bullets(entries: Iterable[str]) -> str:
    # An entry is data: none of it begins a line of its own.
    return "\n".join(f"- {' '.join(entry.splitlines())}" for entry in entries)


RELEVANT = 0.3  # p_t in [0, 1] below which a tool is dropped, as the paper's ACL-format version prints it


async def plan_tools(
    model: BaseChatModel, library: ToolLibrary, query: str, meter: Meter
) -> tuple[str, ...]:
    """Ask for the tools that a request may need.

    A tool stays if it belongs to a domain of the request (or to none), its relevance p_t is at least .3, its input can
    be had, and its output is of use. All of the library stays if the reply is unusable or would leave none: a planner
    that fails must not take tools away.
    """
    cards = [library.card(name) for name in library.names]
    prompt = document_prompt(
        prompts.PLAN_PROMPT,
        {"request": query, "tools": [card.to_dict() for card in cards]},
    )
    plan = await filled_in(
        model, prompts.CoarsePlan, prompt, inner_config("plan", {}), meter
    )
    if plan is None:
        return library.names
    # A tool that nothing was said of is not judged irrelevant.
    unfit = {
        each.name
        for each in plan.tools
        if each.relevance < RELEVANT or not (each.obtainable and each.useful)
    }
    domains = set(plan.domains)
    chosen = (
        card.name
        for card in cards
        if card.name not in unfit
        and (not card.domains or not domains or not domains.isdisjoint(card.domains))
    )
    return tuple(chosen) or library.names
