"""One search: what each operation means in terms of models, tools and forks of the world."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_tooltree._langgraph import state_reader
from langchain_tooltree.events import Event, FallbackEvent, StartEvent
from langchain_tooltree.experience.records import readable
from langchain_tooltree.experience.run_identity import caller_of
from langchain_tooltree.flows import EventSink, Flow
from langchain_tooltree.models import Meter, Patience, inner_marks
from langchain_tooltree.text import digest
from langchain_tooltree.tooltree.ask import ProposalRequest, plan_tools
from langchain_tooltree.tooltree.dialogue import PathDialogue
from langchain_tooltree.tooltree.judge import JudgedCall, JudgeRequest, Score
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.prompts import transcript
from langchain_tooltree.tooltree.result import SearchCost, SearchResult
from langchain_tooltree.tooltree.search.scheduler import Operation, OperationOutcome, Spent
from langchain_tooltree.tooltree.search.search import TreeSearch
from langchain_tooltree.tooltree.search.tree import Node
from langchain_tooltree.tooltree.search.warm_start import WarmStart
from langchain_tooltree.tooltree.tool_executor import ToolExecutor, clip

logger = logging.getLogger(__name__)


FAILURES_ENOUGH = 2
"""So often a call may fail, or be rejected, after a request before it is proposed no more."""

JUDGED_CHARS = 8_000
"""Characters of an observation that a judge gets to see."""


class SearchSession:
    """One search over one conversation.

    Args:
        planner: The parts.
        messages: The conversation to plan for.
        system: Messages put before it for the models.
        state: Graph state for injected arguments.
        messages_key: Where in it the messages stand; they are replaced by those of the path.
        cancelled: Asked after every operation; once true, the search launches nothing more.
        sinks: Called with every event.

    Attributes:
        planner: The parts.
        messages: The conversation.
        search: The pure search.
        dialogue: The conversation along the paths of its tree.
        sinks: Called with every event.
        caller: A digest of what may tell one user's run from another's.

    Raises:
        EmptyQueryError: If the conversation holds no user message with text.
    """

    def __init__(
        self,
        planner: Planner,
        messages: Sequence[BaseMessage],
        *,
        system: Sequence[BaseMessage],
        state: Mapping[str, Any],
        messages_key: str,
        cancelled: Callable[[], bool],
        sinks: Sequence[EventSink] = (),
    ) -> None:
        self.planner = planner
        self.messages = messages
        self.sinks = sinks
        self._judge_calls = max(planner.pre_judge.calls_per_question, planner.post_judge.calls_per_question)
        self.search = TreeSearch(
            planner.config,
            tools=len(planner.library),
            judge_calls=self._judge_calls,
            reserved_model_calls=1,
        )
        self.dialogue = PathDialogue(self.search.tree, messages, system=system)
        self._trial = ToolExecutor(planner, self.search.tree, self.dialogue, state=state, messages_key=messages_key)
        self._cancelled = cancelled
        host = ensure_config()
        self._recursion_limit = host["recursion_limit"]  # the host's: a tool may be an agent
        self._host_state = state_reader(host)
        self.caller = caller_of(host)
        self.launched_at: dict[int, float] = {}
        self._going_on = False
        self._announced = False
        self._concluded = False

    def afresh(self) -> "SearchSession":
        """A session of the same planner that has not begun, to replay an earlier search of the conversation in."""
        return SearchSession(
            self.planner, self.messages, system=(), state={}, messages_key="messages", cancelled=lambda: False
        )

    def go_on(self, continuation: Mapping[str, Any]) -> None:
        """Begin where an earlier search has come to; a session that has begun already is left alone.

        Args:
            continuation: A `WarmStart` as plain data.
        """
        if not self._going_on:
            self._going_on = True
            self.search.warm_start(WarmStart.model_validate(continuation))

    def fingerprint(self) -> str:
        """A digest of all that decides which operations the search launches, its models' answers aside."""
        cards = [self.planner.library.card(name).to_dict() for name in self.planner.library.names]
        parts = (self.planner.config, sorted(self.planner.effects.items()), cards, self._judge_calls)
        return digest(repr(parts))

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order; the announcement of the search first."""
        events: list[Event] = [] if self._announced else [self._start_event()]
        self._announced = True
        events.extend(self.search.take_events())
        if self.search.finished and not self._concluded:
            self._concluded = True
            if reason := self._why_no_plan():
                details = [*self.search.tree.root.dropped, *self.search.problems]
                events.append(FallbackEvent(type="fallback", reason=reason, details=details))
                logger.warning("Planning failed, the plain model takes the turn: %s", reason)
        return events

    def _start_event(self) -> StartEvent:
        limits = self.search.limits
        return StartEvent(
            type="start",
            query=self.dialogue.query,
            tools=len(self.planner.library),
            max_rollouts=limits.rollouts,
            max_model_calls=limits.model_calls,
            max_tool_calls=limits.tool_calls,
            inherited=self.search.inherited,
        )

    def perform(self, operation: Operation) -> Flow[dict[str, Any]]:
        """Carry out one operation.

        Args:
            operation: What the search asks for.

        Returns:
            Its `Outcome` as plain data, so that a checkpointer can keep it.
        """
        began = self.launched_at.pop(operation.id, time.monotonic())
        deadline = began + (self.planner.config.max_seconds or math.inf) - operation.elapsed
        meter = Meter(operation.model_calls, patience=Patience(deadline=deadline, cancelled=self._cancelled))
        node = self.search.tree[operation.node]
        tool_calls = replayed = 0
        match operation.kind:
            case "plan":
                planner = self.planner
                tools = yield from plan_tools(
                    planner.model, planner.library, self.dialogue.query, planner.config, meter
                )
                found: dict[str, Any] = {"tools": tools}
            case "propose":
                found = yield from self._propose(operation, node, meter)
            case "score":
                scores = yield from self._score(operation, meter)
                found = {"scores": scores, "error": _cause(meter) if None in scores else None}
            case "execute":
                config: RunnableConfig = {
                    **inner_marks(self._place(operation)),
                    **self._host_state,
                    "recursion_limit": self._recursion_limit,
                }
                observation, replayed = yield from self._trial.run(node, config)
                found, tool_calls = {"observation": observation}, 1
            case "evaluate":
                reward, goal = yield from self._evaluate(node, operation, meter)
                found = {"reward": reward, "goal": goal, "error": _cause(meter) if reward is None else None}
        seconds = time.monotonic() - began
        outcome = OperationOutcome(
            operation=operation.id,
            kind=operation.kind,
            node=operation.node,
            cancelled=self._cancelled(),
            spent=Spent(
                model_calls=meter.model_calls,
                tool_calls=tool_calls,
                replayed=replayed,
                input_tokens=meter.input_tokens,
                output_tokens=meter.output_tokens,
                seconds=seconds,
            ),
            elapsed=operation.elapsed + seconds,
            **found,
        )
        return outcome.model_dump()

    def result(self) -> SearchResult:
        """The outcome of the finished search, without an answer."""
        search = self.search
        best = search.best()
        spent = search.budget.spent
        pruned = [node.pruned for node in search.tree.nodes if node.pruned]
        return SearchResult(
            query=self.dialogue.query,
            tree=search.tree,
            steps=self.dialogue.steps_to(best) if best else (),
            cost=SearchCost(
                rollouts=search.rollouts,
                nodes=len(search.tree) - 1,
                inherited=search.inherited,
                pruned_before=sum(reason != "post_evaluation" for reason in pruned),
                pruned_after=sum(reason == "post_evaluation" for reason in pruned),
                model_calls=spent.model_calls,
                tokens=spent.tokens,
                tool_calls=spent.tool_calls,
                cache_hits=search.cache_hits,
                replayed=spent.replayed,
                seconds=search.budget.elapsed,
            ),
            stop_reason=search.stop_reason or "exhausted",
            fallback=self._why_no_plan(),
            search_id=self.dialogue.run_key,
        )

    # --- operations ---

    def _propose(self, operation: Operation, node: Node, meter: Meter) -> Flow[dict[str, Any]]:
        allowed = self.search.kept_tools or self.planner.library.names
        try:
            context = self.dialogue.context_at(node)
            shown = yield from self.planner.retriever.retrieve(context, allowed, attempt=operation.attempt)
        except Exception as error:  # noqa: BLE001 - embeddings that are down end in the fallback, not in a crash
            return {"error": f"the tools could not be ranked: {type(error).__name__}: {error}"}
        request = ProposalRequest(
            conversation=self.dialogue.prompt_at(node),
            tools=shown,
            attempt=operation.attempt,
            tried=[child.label for child in self.search.tree.children(node)],
            extra_candidates=operation.extra_candidates,
            metadata=self._place(operation),
        )
        proposal = yield from self.planner.proposer.propose(request, meter)
        hopeless = [call for call in proposal.calls if self.dialogue.failures[call.key] >= FAILURES_ENOUGH]
        problems = [str(problem) for problem in proposal.problems]
        return {
            "calls": [call for call in proposal.calls if call not in hopeless],
            "dropped": [*problems, *(f"{call.label}: failed {FAILURES_ENOUGH} times already" for call in hopeless)],
            # A model that saw only some of the tools cannot know that no tool can help.
            "finished": proposal.finished and len(shown) == len(allowed),
            "several": proposal.largest_reply > 1,
            "gained": proposal.gained,
            "error": proposal.error,
        }

    def _score(self, operation: Operation, meter: Meter) -> Flow[list[Score]]:
        candidates = [self.search.tree[candidate] for candidate in operation.candidates]
        single = self.planner.config.pre_evaluation == "single"
        groups = [[candidate] for candidate in candidates] if single else [candidates]
        scores: list[Score] = []
        for group in groups:
            request = self._judge_request("pre", group, operation)
            scores.extend((yield from self.planner.pre_judge.pre(request, meter)))
        return scores

    def _evaluate(self, node: Node, operation: Operation, meter: Meter) -> Flow[tuple[Score, Score]]:
        return (yield from self.planner.post_judge.post(self._judge_request("post", [node], operation), meter))

    def _judge_request(
        self, stage: Literal["pre", "post"], nodes: Sequence[Node], operation: Operation
    ) -> JudgeRequest:
        parent = self.search.tree.parent(nodes[0]) or self.search.tree.root
        observation = nodes[0].observation
        library = self.planner.library
        return JudgeRequest(
            stage=stage,
            query=self.dialogue.query,
            history=transcript(self.dialogue.prompt_at(parent, framed=False)),
            calls=[
                JudgedCall(f"c{node.id}", node.call.tool, node.call.arguments, deferred=node.deferred)
                for node in nodes
                if node.call
            ],
            tools=[library.card(name).to_dict() for name in sorted({node.call.tool for node in nodes if node.call})],
            observation=clip(readable(observation.content), JUDGED_CHARS) if observation else None,
            metadata=self._place(operation),
        )

    def _place(self, operation: Operation) -> dict[str, Any]:
        """Where in the search an inner run stands, for traces.

        The scores are those of the call that is run or judged, or of the call that led to the state that is asked for
        more; `None` for one that is not known when the run begins.
        """
        node = self.search.tree[operation.node]
        return {"node": node.id, "rollout": operation.rollout, "r_pre": node.r_pre, "r_post": node.r_post}

    def _why_no_plan(self) -> str | None:
        """Why nothing is kept; `None` if a plan is, or if the model said that no call is needed."""
        root = self.search.tree.root
        carried_out = self.search.stop_reason == "solved"
        needless = self.search.stop_reason == "exhausted" and not (root.children or root.dropped)
        if carried_out or needless or self.search.best() is not None:
            return None
        reason = f"no call was worth keeping ({self.search.stop_reason})"
        causes = self.search.problems or ([] if root.children else root.dropped)
        return f"{reason}: {causes[-1]}" if causes else reason


def _cause(meter: Meter) -> str:
    return meter.problems[-1] if meter.problems else "the budget left no question"
