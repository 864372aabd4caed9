"""A planner, resolved and checked once, and one search with it: what each operation means for models, tools and forks.

A `Planner` is shared by all its searches; a `SearchSession` holds that of one search.
"""

import functools
import inspect
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, get_type_hints

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool

from langchain_tooltree._langgraph import has_answers, numbered_apart, state_reader, thread_in, without_reserved
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects.calls import CallEffects, Effects, ToolKey
from langchain_tooltree.errors import ConfigurationError, check_arguments, described
from langchain_tooltree.events import Event, FallbackEvent, StartEvent
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.guide import Guide
from langchain_tooltree.experience.records import readable
from langchain_tooltree.experience.run_identity import caller_of
from langchain_tooltree.flows import EventSink, Flow, TogetherStep, TwinStep
from langchain_tooltree.models import (
    AGENT_NAME,
    TAG,
    Meter,
    Patience,
    ask_patiently,
    bind_tools,
    inner_marks,
    resolve_model,
)
from langchain_tooltree.replies import received
from langchain_tooltree.text import digest, shortened
from langchain_tooltree.tooltree.ask import ProposalRequest, Proposer
from langchain_tooltree.tooltree.dialogue import Fresh, PathDialogue, SoFar, so_far_in
from langchain_tooltree.tooltree.guidance import Guidance
from langchain_tooltree.tooltree.judge import Judge, Judged, JudgedCall, JudgeRequest, resolve_judge
from langchain_tooltree.tooltree.narrowing import ToolNarrowing, plan_tools
from langchain_tooltree.tooltree.prompts import DEFAULT_PROMPTS, Prompts
from langchain_tooltree.tooltree.result import SearchCost, SearchResult, answer_at, tools_shown_in, without_vain_writes
from langchain_tooltree.tooltree.retrieval import Retriever, ToolRetriever
from langchain_tooltree.tooltree.sandbox import Same, Sandbox, checked_comparison
from langchain_tooltree.tooltree.saved import SearchFile, folder_named
from langchain_tooltree.tooltree.search import (
    MAX_TOOLS,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    Prior,
    SearchConfig,
    Spent,
    TreeSearch,
    WarmStart,
)
from langchain_tooltree.tooltree.tool_executor import HostHooks, ToolExecutor
from langchain_tooltree.tooltree.tools import ToolLibrary, classify_tools, injected_names

logger = logging.getLogger(__name__)

FAILURES_ENOUGH = 2
"""So often a call may fail, or be rejected, after a request before it is proposed no more: once may be chance."""

JUDGED_CHARS = 8_000
"""Characters of an observation that a judge gets to see: about 2,000 tokens."""

LISTED_TOOLS = 60
"""Names of tools that a judge gets to see: about 300 tokens, and few agents have more."""

KEPT = 8
"""So many planners, for the models and tool selections of requests, are kept: few agents change between more, and a
planner of 1,000 tools takes megabytes."""

KEPT_SEARCHES = 64
"""So many finished searches, and plans without an answer, are kept: those of as many runs at the same time, of which
each goes on from its own. A search of 100 rollouts takes 0.2 MB."""

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class PlannerOptions(TypedDict, total=False):
    """The keyword arguments of whatever makes a planner, as `search` describes them; `None` is the default of each."""

    judge: str | BaseChatModel | Judge | None
    post_judge: str | BaseChatModel | Judge | None
    config: SearchConfig | None
    effects: Effects | CallEffects | None
    approve_reads: Iterable[ToolKey] | None
    sandbox: Sandbox | None
    same: Same | None
    embeddings: Embeddings | str | None
    retriever: Retriever | None
    prompts: Prompts | None
    record_searches: str | os.PathLike[str] | None


def with_options(function: FunctionT) -> FunctionT:
    """Show `**options` as the keyword arguments that they are, in `help()` and signatures, and refuse any other."""
    signature = inspect.signature(function)
    *own, _ = signature.parameters.values()
    shown = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in get_type_hints(PlannerOptions).items()
    ]
    end = next(
        (at for at, each in enumerate(own) if each.kind is each.KEYWORD_ONLY and each.default is not each.empty),
        len(own),
    )
    parameters = {each.name: each for each in (*own[:end], *shown, *own[end:])}

    @functools.wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        check_arguments(function.__qualname__.removesuffix(".__init__"), options, parameters, SearchConfig)
        return function(*arguments, **options)

    checked.__dict__["__signature__"] = signature.replace(parameters=list(parameters.values()))
    checked.__annotations__ = {each.name: each.annotation for each in parameters.values()}
    return cast("FunctionT", checked)


class Planner:
    """Models, tools, judges, effects and sandbox of a planner, and its latest searches.

    `host_hooks` is what the host puts around its tool calls, and searched calls pass through. With `selection`, the
    tools are a selection made for this turn, so effects and sandbox may name others. `model_settings` are those of the
    requests for calls, such as a temperature, by name.
    """

    @with_options
    def __init__(
        self,
        model: str | BaseChatModel,
        tools: Iterable[BaseTool | Callable[..., Any]],
        *,
        host_hooks: HostHooks | None = None,
        selection: bool = False,
        model_settings: Mapping[str, Any] | None = None,
        **options: Unpack[PlannerOptions],
    ) -> None:
        config, sandbox = options.get("config"), options.get("sandbox")
        if config is not None and not isinstance(config, SearchConfig):
            msg = f"config must be a SearchConfig, got {type(config).__name__} {config!r}."
            raise ConfigurationError(msg)
        if isinstance(sandbox, type) or not isinstance(sandbox, Sandbox | None):
            msg = f"sandbox must have `tools` and `fork()`, got {type(sandbox).__name__}. See ObjectSandbox."
            raise ConfigurationError(msg)
        embeddings = resolve_embeddings(options.get("embeddings"))
        prompts = options.get("prompts")
        if prompts is not None and not isinstance(prompts, Prompts):
            msg = f"prompts must be a Prompts, got {type(prompts).__name__} {prompts!r}; see Prompts(pre_judge=...)."
            raise ConfigurationError(msg)
        self.prompts = prompts or DEFAULT_PROMPTS
        self.same = checked_comparison(options.get("same"))
        self.searches_folder = folder_named(options.get("record_searches"))
        self.config = config or SearchConfig()
        own_judges = options.get("judge") is not None or options.get("post_judge") is not None
        if own_judges and self.config.pre_evaluation == "fused":
            self.config = replace(self.config, pre_evaluation="batched", post_evaluation="needed")
        self.model = resolve_model(model)
        self.library = ToolLibrary(tools)
        self.host_hooks = host_hooks or HostHooks()
        self.effects = classify_tools(
            self.library,
            options.get("effects"),
            sandbox,
            held_back=self.host_hooks.held_back,
            approve_reads=options.get("approve_reads"),
            selection=selection,
        )
        self.sandbox = sandbox
        self.bound_tools = frozenset(tool.name for tool in sandbox.tools) if sandbox is not None else frozenset()
        self.cards = self.library.to_dicts()
        # What is injected, such as the state, may change from one request to the next.
        self.repeatable = frozenset(tool.name for tool in self.library if not injected_names(tool))
        self.proposer = Proposer(
            self.model, self.library, self.effects, self.config, model_settings, prompts=self.prompts
        )
        judge, post_judge = options.get("judge"), options.get("post_judge")
        resolved = partial(resolve_judge, seed=self.config.seed, prompts=self.prompts)
        self.pre_judge = resolved(self.model if judge is None else judge)
        self.post_judge = self.pre_judge if post_judge is None else resolved(post_judge)
        self.judge_calls = max(self.pre_judge.calls_per_question, self.post_judge.calls_per_question)
        # States of the latest searches by their ids, for hosts without a checkpointer; see `driver.py`.
        self.finished: dict[str, Any] = {}
        retriever = ToolRetriever(self.library, embeddings, options.get("retriever"))
        self.narrowing = ToolNarrowing(self.library, self.config, retriever)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that decides which operations a search launches, its models' answers aside."""
        cards = list(self.cards.values())
        effects = [(name, self.effects.described(name)) for name in sorted(self.library.names)]
        return digest(repr((self.config, self.prompts, effects, cards, self.judge_calls)))

    def answer(
        self,
        conversation: Sequence[BaseMessage],
        config: RunnableConfig,
        patience: Patience,
        *,
        tools: Sequence[str] = (),
    ) -> Flow[AIMessage]:
        """The agent's plain model step: answer from what is known, or, without a plan, do what the model thinks best.

        `tools` are those that it was shown so far; it has all that a provider takes if none is named.
        Its tokens are the user's, so this is the one model call that is not hidden from streams.
        """
        shown = (tools or self.library.names)[:MAX_TOOLS]
        model = bind_tools(self.model, [self.library.by_name[name] for name in shown])
        named: RunnableConfig = {**config, "run_name": f"{TAG}.answer"}
        asked = (list(conversation), named)
        step = TwinStep(partial(model.invoke, *asked), partial(model.ainvoke, *asked))
        return received((yield from ask_patiently(step, patience)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A conversation in which it is the planner's turn."""

    planner: Planner
    messages: Sequence[BaseMessage]
    system: Sequence[BaseMessage] = ()  # put before the conversation for the models
    config: RunnableConfig | None = None  # the host's; the one of the current context if left out
    state: Mapping[str, Any] = field(default_factory=dict)  # for injected arguments
    messages_key: str = "messages"
    cancelled: Callable[[], bool] | None = None  # once it says so, the best plan so far is returned
    sinks: Sequence[EventSink] = ()
    guide: Guide | None = None  # what past runs say; under Eq. 1 nobody asks it
    read: Conversation | None = None  # the messages, where somebody has begun to read them

    @property
    def said(self) -> Conversation:
        """The conversation, which is read once for all that is asked of it."""
        if self.read is None:
            object.__setattr__(self, "read", Conversation.of(self.messages))
        return cast("Conversation", self.read)


class SearchSession:
    """The pure search of a turn, and the conversation along the paths of its tree.

    `identity` is a digest of what may tell one user's run from another's. `so_far` is how far the run had come when the
    search began: for a search that is replayed, later than that.
    """

    def __init__(self, turn: Turn, *, so_far: SoFar | None = None) -> None:
        self.turn = turn
        self.planner = planner = turn.planner
        said = turn.said
        self.so_far = so_far or so_far_in(said)
        self.search = TreeSearch(
            planner.config,
            tools=len(planner.cards),
            judge_calls=planner.judge_calls,
            reserved_model_calls=1,
            shown_tools=planner.narrowing.kept(
                tools_shown_in(said.messages),
                (call["name"] for call in said.calls),
                new_request=said.latest == "request",
            ),
            **self.so_far,
        )
        self._tree = self.search.tree
        host = ensure_config()
        name = host.get("metadata", {}).get(AGENT_NAME)
        self.dialogue = PathDialogue(self._tree, said, system=turn.system, name=name)
        self._executor = ToolExecutor(
            self._tree,
            self.dialogue,
            planner.library.by_name,
            sandbox=planner.sandbox,
            bound_tools=planner.bound_tools,
            host_hooks=planner.host_hooks,
            config=planner.config,
            state=turn.state,
            messages_key=turn.messages_key,
        )
        guide = turn.guide if planner.config.selection == "posterior" else None
        self._guidance = Guidance(guide, self._tree, self.dialogue, said, planner.prompts)
        self._is_cancelled = turn.cancelled or (lambda: False)
        self._recursion_limit = host["recursion_limit"]  # the host's: a tool may be an agent
        self._host_state = state_reader(host)
        self.identity = caller_of(without_reserved(host.get("configurable", {}), place=False))
        self.thread = thread_in(host.get("configurable", {}))
        self.file: SearchFile | None = None  # where it is recorded, once it is known when it began
        self._launched_at: dict[int, float] = {}
        self._begun = self._announced = False
        self._conclusion: tuple[Node | None, str | None] | None = None

    def warm_start(self, start: Mapping[str, Any]) -> None:
        """Begin with a `WarmStart` as plain data; a session that has begun already is left alone."""
        if not self._begun:
            self._begun = True
            self.search.warm_start(WarmStart.model_validate(start))
            for node in self._tree.nodes:
                if node.answer:  # the earlier search has reported its usage
                    node.answer = {**node.answer, "data": {**node.answer["data"], "usage_metadata": None}}

    def advance(self, outcome: Mapping[str, Any] | None, until: int) -> tuple[list[Operation], list[Event]]:
        """Give the search an outcome, and say what to launch now, if not `until` so many are, and what has happened.

        The driver of a search and the replay of one both go through here: the same outcomes give the same tree.
        """
        if outcome is not None:
            self.search.tell(OperationOutcome.model_validate(outcome))
            self._guidance.take_in(outcome)
        operations = self.search.ask() if self.search.launched < until else []
        self._guidance.launch(operations)
        for operation in operations:
            self._launched_at[operation.id] = time.monotonic()  # the time that it waits for its turn counts, too
        events = self.search.take_events()
        for tool in [event["tool"] for event in events if event["type"] == "wrote"]:
            self.planner.effects.declared.wrote(tool)  # so that other searches, and who reviews, know it
        if self._announced and self.search.stop_reason is None:
            return operations, events
        return operations, self._with_announcements(events)

    def _with_announcements(self, events: list[Event]) -> list[Event]:
        """What happened in the search, its beginning announced, and its end where no plan came of it."""
        if not self._announced:
            self._announced = True
            limits = self.search.limits
            start = StartEvent(
                type="start",
                query=self.dialogue.query,
                tools=len(self.planner.cards),
                max_rollouts=limits.rollouts,
                max_model_calls=limits.model_calls,
                max_tool_calls=limits.tool_calls,
                inherited=self.search.inherited,
                anew=self.search.anew,
            )
            events = [start, *events]
            if self.search.anew:
                logger.info("The search before is not gone on from: %s", self.search.anew)
        if self.search.stop_reason and self._conclusion is None and self.search.finished:
            if reason := self._concluded()[1]:
                details = [*self._tree.nodes[0].dropped, *self.search.problems]
                events.append(FallbackEvent(type="fallback", reason=reason, details=details))
                logger.warning("Planning failed, the plain model takes the turn: %s", reason)
            elif self.search.stop_reason in {"proposer_failed", "judge_failed"}:
                logger.warning("A model failed, and the search ended with what it had: %s", self.search.problems[-1:])
        return events

    def perform(self, operation: Operation) -> Flow[dict[str, Any]]:
        """Carry out one operation; its `OperationOutcome` is plain data, so that a checkpointer can keep it."""
        planner = self.planner
        began = self._launched_at.pop(operation.id, time.monotonic())
        deadline = began + (planner.config.max_seconds or math.inf) - operation.elapsed
        meter = Meter(operation.model_calls, Patience(deadline=deadline, cancelled=self._is_cancelled))
        node = self._tree.nodes[operation.node]
        place = _place(operation, node)
        seen, replayed = yield from self._run(operation)
        match operation.kind:
            case "plan":
                query = self.dialogue.query
                narrowed = planner.model, planner.narrowing, planner.effects.reads, query, meter
                tools = yield from plan_tools(*narrowed, instruction=planner.prompts.plan)
                found: dict[str, Any] = {"tools": tools}
            case "propose":
                # After a write that failed for a passing reason nobody knows what the world is like.
                calls = {made: self._tree[made].call for made in seen}
                lost = [made for made, call in calls.items() if call and call.effect != "read" and seen[made].transient]
                found = {} if lost else (yield from self._propose(operation, node, place, seen, meter))
                found["observations"] = list(seen.values())
            case "score":
                batches = [self._tree.batch(self._tree[candidate]) for candidate in operation.candidates]
                single = planner.config.pre_evaluation == "single"
                verdicts: list[Judged] = []
                for group in [[each] for each in batches] if single else [batches]:
                    judged = self._judge_request("pre", [*chain(*group)], node, operation)
                    given = iter((yield from planner.pre_judge.pre(judged, meter)))
                    # Calls of one reply are right if all of them are.
                    for batch in group:
                        known = [each for each in islice(given, len(batch)) if each.score is not None]
                        verdicts.append(min(known, default=Judged()))
                scores = [each.score for each in verdicts]
                found = {"scores": scores, "error": _cause(meter) if None in scores else None}
                found["reasons"] = [each.reason for each in verdicts]
            case "execute":
                found = {"observations": list(seen.values())}
            case "evaluate" if planner.config.pre_evaluation == "fused":  # it is an answer that is checked
                judged = self._judge_request("post", [node] if node.call else [], node, operation)
                standing = yield from planner.post_judge.check(judged, meter)
                found = {"goal": standing.goal, "missing": standing.missing}
                found["error"] = _cause(meter) if standing.goal is None else None
            case "evaluate":
                judged = self._judge_request("post", [node], self._tree.state_before(node), operation)
                (reward, reason), goal = yield from planner.post_judge.post(judged, meter)
                found = {"reward": reward, "goal": goal, "reasons": [reason] if reason else []}
                found["error"] = _cause(meter) if reward is None else None
        seconds = time.monotonic() - began
        spent = Spent(
            model_calls=meter.model_calls,
            tool_calls=len(seen),
            replayed=replayed,
            calls=dict(meter.calls),
            usage=dict(meter.usage or {}),
            seconds=seconds,
        )
        return OperationOutcome(
            operation=operation.id,
            kind=operation.kind,
            node=operation.node,
            cancelled=self._is_cancelled(),
            spent=spent,
            elapsed=operation.elapsed + seconds,
            **self._tree.in_paragraphs(meter.asked),
            **found,
        ).model_dump()

    def _run(self, operation: Operation) -> Flow[tuple[dict[int, Observation], int]]:
        """Run the calls that an operation begins with, reads at the same time, and count those repeated for forks."""
        flows = []
        for position, node in enumerate(map(self._tree.__getitem__, operation.run)):
            config: RunnableConfig = {**inner_marks(_place(operation, node)), **self._host_state}
            config["recursion_limit"] = self._recursion_limit
            if len(operation.run) > 1:
                config["configurable"] = {**config.get("configurable", {}), **numbered_apart(position)}
            flows.append(self._executor.run(node, config))
        calls = [self._tree[node].call for node in operation.run]
        only_reads = all(call is not None and call.effect == "read" for call in calls)
        if len(flows) > 1 and only_reads and not has_answers():
            ran = yield TogetherStep(flows)
        else:
            ran = []
            for flow in flows:
                ran.append((yield from flow))
        seen = {node: observation for node, (observation, _) in zip(operation.run, ran, strict=True)}
        return seen, sum(repeated for _, repeated in ran)

    def _propose(
        self, operation: Operation, node: Node, place: Mapping[str, Any], seen: Fresh, meter: Meter
    ) -> Flow[dict[str, Any]]:
        try:
            choice = yield from self.planner.narrowing.choose(
                self.dialogue.requests,
                partial(self.dialogue.context_at, node, fresh=seen),
                self.search.kept_tools or self.planner.library.names,
                attempt=operation.attempt,
                before=operation.tools,
            )
        except Exception as error:  # noqa: BLE001 - embeddings that are down end in the fallback, not in a crash
            return {"error": f"the tools could not be ranked: {described(error)}"}
        tools = {name: self.planner.library.by_name[name] for name in choice.shown}
        hints = yield from self._guidance.hints(operation, node, tools, seen, meter)
        asked = ProposalRequest(
            conversation=self.dialogue.prompt_at(node, fresh=seen),
            advice=self._guidance.advice,
            hint=hints.text,
            tools=choice.shown,
            hidden=choice.hidden,
            attempt=operation.attempt,
            tried=self._offered(node),
            extra_candidates=operation.extra_candidates,
            metadata={**place, "attempt": operation.attempt},
            own_step=operation.own_step,
            missing=operation.missing,
        )
        propose = partial(self.planner.narrowing.proposed, self.planner.proposer)
        proposal, choice, hopeless = yield from self._guidance.proposed(propose, asked, choice, hints, meter)
        failed = (call.label for call in proposal.calls if self.dialogue.failures[call.key] >= FAILURES_ENOUGH)
        hopeless |= dict.fromkeys(failed, f"failed {FAILURES_ENOUGH} times already")
        kept = [
            (action, confidence)
            for calls, confidence in zip(proposal.actions, proposal.confidences, strict=True)
            if (action := [call for call in calls if call.label not in hopeless])
        ]
        if lost := proposal.dropped:
            logger.info("Not made at node %s: %s", node.id, "; ".join(lost))
        return {
            "prior": hints.known
            and Prior.of(hints.known, called={call.tool for call in proposal.calls}, tools=len(choice.shown)),
            "remedy": hints.remedy,
            "actions": [action for action, _ in kept],
            "confidences": [confidence for _, confidence in kept],
            "dropped": [*lost, *(f"{label}: {why}" for label, why in hopeless.items())],
            # A model that saw only some of the tools may know of a call once it sees the others.
            "finished": proposal.finished and not choice.hidden,
            "tools": choice.added,
            "several": proposal.largest_reply > 1,
            "gained": proposal.gained,
            "reward": proposal.reward,
            "goal": proposal.goal,
            "missing": proposal.missing,
            "answer": None if proposal.answer is None else message_to_dict(proposal.answer),
            "error": proposal.error,
        }

    def _judge_request(
        self, stage: Literal["pre", "post"], nodes: Sequence[Node], state: Node, operation: Operation
    ) -> JudgeRequest:
        """A question about calls, after what had come to pass in a state; without a call, about the state."""
        last = nodes[0] if nodes else state
        first = self._tree.reply_of(last)[0] if nodes else None
        tools = dict.fromkeys((*operation.tools, *(self.search.kept_tools or self.planner.library.names)))
        observation = last.observation
        answer = answer_at(last) if stage == "post" else None
        made = [(node, node.call) for node in nodes if node.call]
        return JudgeRequest(
            stage=stage,
            query=self.dialogue.query,
            history=self.dialogue.history_at(state),
            calls=[
                JudgedCall(f"c{node.id}", call.tool, call.arguments, call.effect == "write", call.effect != "read")
                for node, call in made
            ],
            tools=[self.planner.cards[name] for name in sorted({call.tool for _, call in made})],
            observation=shortened(readable(observation.content), JUDGED_CHARS) if observation else None,
            answer=str(answer.text) if answer else None,
            metadata=_place(operation, self._tree[operation.node]),
            tool_names=tuple(islice(tools, LISTED_TOOLS)),
            tried=self._offered(self._tree.state_before(first), before=first.offer) if first else (),
        )

    def _offered(self, state: Node, *, before: float = math.inf) -> list[str]:
        """The calls that were offered in a state, or by proposals before one of them, each action as a line."""
        actions = (self._tree.batch(each) for each in self._tree.children(state) if each.offer < before)
        return [" together with ".join(made.label for made in action) for action in actions]

    def result(self) -> SearchResult:
        """The outcome of the search so far; its answer is what the agent said where the plan ends, if it did."""
        search = self.search
        best, fallback = self._concluded() if search.finished else (search.best(), None)
        spent = search.budget.spent
        pruned = [node.pruned for node in self._tree.nodes if node.pruned]
        after = pruned.count("post_evaluation")
        result = SearchResult(
            query=self.dialogue.query,
            tree=self._tree,
            steps=without_vain_writes(self.dialogue.steps_to(best), search.config.post_threshold) if best else (),
            cost=SearchCost(
                rollouts=search.rollouts,
                nodes=len(self._tree.nodes) - 1,
                inherited=search.inherited,
                pruned_before=len(pruned) - after,
                pruned_after=after,
                model_calls=spent.model_calls,
                tokens=spent.tokens,
                tool_calls=spent.tool_calls,
                cache_hits=search.cache_hits,
                replayed=spent.replayed,
                seconds=search.budget.elapsed,
                calls=spent.calls,
                usage=cast("UsageMetadata", spent.usage) if spent.usage else None,
            ),
            stop_reason=search.stop_reason or "exhausted",
            fallback=fallback,
            search_id=self.dialogue.run_key,
            tools=search.shown_tools,
        )
        answer = None if result.waiting else answer_at(best or self._tree.root)
        return result if answer is None else result.with_answer(answer, asked=False)

    def _concluded(self) -> tuple[Node | None, str | None]:
        """The end of the best path of the finished search, and why nothing is kept."""
        if self._conclusion is None:
            best = self.search.best()
            if best is not None and best.call is None and best.answer is None:
                best = None  # nobody has said that no call is needed
            self._conclusion = best, self._why_no_plan(best)
        return self._conclusion

    def _why_no_plan(self, best: Node | None) -> str | None:
        """Why nothing is kept; `None` if a plan is, or if the model said that no call is needed."""
        root, stopped = self._tree.nodes[0], self.search.stop_reason
        needless = stopped == "exhausted" and not (root.children or root.dropped)
        if stopped == "solved" or needless or root.answer is not None or best is not None:
            return None
        reason = f"no call was worth keeping ({stopped})"
        causes = self.search.problems or ([] if root.children else root.dropped)
        return f"{reason}: {causes[-1]}" if causes else reason


def _place(operation: Operation, node: Node) -> dict[str, Any]:
    """Where in the search an inner run stands, for traces.

    The scores are those of the call that is run or judged, or of the call that led to the state that is asked for more;
    `None` for one that is not known yet, or that nobody gave.
    """
    r_pre, r_post = node.r_pre if node.pre_scored else None, node.r_post if node.post_scored else None
    return {"node": node.id, "rollout": operation.rollout, "r_pre": r_pre, "r_post": r_post}


def _cause(meter: Meter) -> str:
    return meter.problems[-1] if meter.problems else "the budget left no question"
