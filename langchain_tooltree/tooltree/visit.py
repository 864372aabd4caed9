"""One visit of the model node: the agent's own step, and, where its answer is doubtful, one step of the search.

A visit restores the tree from the conversation, asks the agent's own step on the path that the model sees, and returns
its calls unchanged: the host's tools node runs them. Where an answer is doubtful (`report`), the visit asks on, and
returns the most promising read that was not tried yet as an ordinary message with that call. At the end the best answer
is returned, and the messages of abandoned branches are removed. How a model is asked is up to the form: see
`PlannerHost`.
"""

import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    message_to_dict,
    messages_from_dict,
)

from langchain_tooltree._langgraph import steps_here
from langchain_tooltree.experience.guide import Advice
from langchain_tooltree.experience.trajectory import Recall
from langchain_tooltree.messages.kinds import get_tool_calls, is_tool_result
from langchain_tooltree.messages.visible_messages import PLANNER_NOTE
from langchain_tooltree.models import usage_sum
from langchain_tooltree.text import call_label, cut, get_call_key, words_of
from langchain_tooltree.tooltree import prompts
from langchain_tooltree.tooltree.answer_checks import (
    find_problem,
    has_visible_content,
)
from langchain_tooltree.tooltree.branches import (
    KEY,
    Best,
    Branches,
    Candidate,
    Ended,
    Mark,
    VisitResult,
    call_blocks,
    is_decided,
    is_fruitless,
    made_anew,
    results_of,
    with_only_call,
)
from langchain_tooltree.tooltree.problems import AnswerProblem
from langchain_tooltree.tooltree.report import (
    Report,
    Stop,
    admits,
    is_better,
    is_trouble,
    next_move,
)

if TYPE_CHECKING:
    from langchain_tooltree.tooltree.host import PlannerHost

MOST_CANDIDATES = 5  # calls that are read of a reply that offers others
LONGEST_NOTE = 600  # characters of what is missing, and of the calls tried, in a note: about 150 tokens each
FIRST_ROUND = 8
"""Super-steps that a round of the host's loop is taken to have until one was measured: a model and a tools node, and
hooks of several middleware around them."""


class Visit:
    """One visit of a conversation, in the form that the planner has."""

    def __init__(self, branches: Branches, host: "PlannerHost") -> None:
        self._branches = branches
        self._host = host
        self._mark = branches.mark
        self._path = branches.path()
        self._is_undone = False

    async def run(self) -> VisitResult:
        """Make the visit: what to return, to remove and to note."""
        effects = self._host.offering.effects
        if effects.by_arguments:  # functions, which are asked off the event loop
            await effects.judged([*self._branches.tried.values()])
        messages, results = self._path, self._branches.latest
        step = self._path[-len(results) - 1 :]  # the latest step with its results
        if results and step[0].id in self._mark.parents:  # one that the search has made
            is_rejected = is_fruitless(step[0], results) or (
                await self._host.judge_result(self._path)
            )
            if is_rejected and (waiting := self._untried(self._mark.queue)):
                # Pruned after it ran: the next candidate takes its place without a question.
                self._mark = replace(
                    self._mark,
                    hidden=[*self._mark.hidden, *(str(each.id) for each in step)],
                )
                return await self._explore(waiting)
            # An agent that is not reminded merely stops once more.
            missing = self._mark.missing or "what was asked for"
            messages = [
                *messages,
                HumanMessage(
                    prompts.OPEN_PROMPT.format(missing=cut(missing, LONGEST_NOTE))
                ),
            ]
        while True:
            reply, report = await self._own_step(messages)
            if effects.by_arguments:
                named = [report.call] if report and report.call else []
                await effects.judged([*reply.tool_calls, *named])
            if reply.tool_calls:
                return await self._step(reply)
            note = await self._stop(reply, report)
            if isinstance(note, VisitResult):
                return note
            has_said = (
                bool(reply.text) and not self._is_undone
            )  # providers refuse a message that says nothing
            messages = [*self._path, *([reply] if has_said else []), HumanMessage(note)]

    # --- own steps ---

    async def _own_step(
        self, messages: Sequence[BaseMessage]
    ) -> tuple[AIMessage, Report | None]:
        """The agent's own step; it is asked for once more where it writes what good runs hardly ever wrote there."""
        reply, report = await self._host.own_step(messages)
        calls = 1
        if self._is_to_be_asked_plainly(reply, report):
            # The instruction for the report may have spoiled the answer: some models
            # write the report alone. The plain agent's answer is at least as good.
            first_usage, calls = reply.usage_metadata, 2
            reply, report = await self._host.ask_plainly(messages), None
            usage = usage_sum(first_usage, reply.usage_metadata)
            reply = reply.model_copy(update={"usage_metadata": usage})
            self._host.reply = reply
        if await self._is_to_be_checked(reply):
            # The step would need results behind it, so the question does not hold it.
            first, calls = reply.usage_metadata, calls + 1
            reply, report = await self._host.own_step(
                [*messages, HumanMessage(prompts.CHECK_PROMPT)]
            )
            reply = reply.model_copy(
                update={"usage_metadata": usage_sum(first, reply.usage_metadata)}
            )
            self._host.reply, self._mark = reply, replace(self._mark, checked=True)
        if self._mark.is_searching:
            self._mark = replace(self._mark, used=self._mark.used + calls)
        return reply, report

    def _is_to_be_asked_plainly(self, reply: AIMessage, report: Report | None) -> bool:
        """Return True if an answer is empty, and a plain request may bring a better one.

        An answer that only reports what is missing is asked for that first.
        """
        has_calls = bool(reply.tool_calls or reply.invalid_tool_calls)
        is_empty = not (has_calls or has_visible_content(reply) or _is_refusal(reply))
        may_ask_again = self._mark.stops == 0 and self._budget() > 0
        asks_for_more = report is not None and report.doubtful and may_ask_again
        return bool(self._host.line) and is_empty and not asks_for_more

    async def _is_to_be_checked(self, reply: AIMessage) -> bool:
        """Whether a step calls for the check of a write, see `SearchConfig.check_writes`; at most once a turn."""
        if self._mark.checked or not self._host.planner.config.check_writes:
            return False
        writes = [
            each["name"]
            for each in reply.tool_calls
            if not self._branches.is_read(each["name"], each["args"])
        ]
        return await self._host.is_unusual(self._path, writes)

    async def _step(self, reply: AIMessage) -> VisitResult:
        """The host makes the calls of an own step, unless it is a write that only the step itself wants."""
        mark = self._mark
        if not (mark.best or mark.hidden):
            return VisitResult(mark=mark if mark.checked else None)
        writes = [
            call
            for call in reply.tool_calls
            if not self._branches.is_read(call["name"], call["args"])
        ]
        if mark.best:
            named = all(
                call["name"] in mark.writes or self._is_missing(call) for call in writes
            )
            is_admitted = admits(
                writes=bool(writes),
                stops=mark.stops,
                named=named,
                evident=mark.evident,
                resumed=mark.resumed,
            )
            if not (is_admitted and self._has_steps()):
                self._add_usage(reply)
                return await self._conclude(
                    "recursion_limit" if is_admitted else "write_not_missing"
                )
        mark = self._mark = replace(
            mark, resumed=mark.resumed or (bool(writes) and mark.stops > 0)
        )
        if self._is_undone:
            parents = {**mark.parents, str(reply.id): str(self._path[-1].id)}
            self._mark = replace(mark, parents=parents)
        return VisitResult(
            mark=self._with_costs() if mark.is_searching or mark.hidden else None
        )

    def _is_missing(self, call: ToolCall) -> bool:
        """Whether what the latest report says is missing speaks of a call: of its tool or of one of its values."""
        missing, words = self._mark.missing, set(words_of(self._mark.missing))
        values = [str(value) for value in call["args"].values() if len(str(value)) > 2]  # noqa: PLR2004 - shorter ones say little
        return bool(missing) and (
            self._host.fits(missing, call["name"])
            or any(words.issuperset(words_of(value)) for value in values)
        )

    async def _stop(
        self, answer: AIMessage, report: Report | None
    ) -> VisitResult | str:
        """What to do with an answer: the outcome, or the note with which the own step is asked again."""
        if _is_refusal(answer):  # a second question would only be refused once more
            return await self._accept(answer, "")
        # An answer of an unusable form is found without asking anybody.
        problem = self._find_problem(answer)
        missing = report.missing if report else ""
        if problem is not None:
            missing = missing or problem.explanation
        else:
            judged = await self._host.judge_answer(self._path, answer)
            missing = missing or judged or ""
        mark = self._mark = replace(
            self._mark, stops=self._mark.stops + 1, missing=missing, writes=[]
        )
        waiting = self._untried(
            [
                *self._named(problem.tool_call if problem else None, answer),
                *self._named(report.call if report else None, answer),
                *mark.queue,
            ]
        )
        stop = Stop(
            missing=bool(missing) or bool(report and report.wrong is not None),
            has_read=bool(waiting) and self._has_steps(),
            idle=mark.stops == 1 and self._is_idle(),
            trouble=mark.stops == 1 and is_trouble(self._branches.results(self._path)),
            used=mark.used,
            budget=self._budget(),
            stops=mark.stops,
            again=mark.again,
            asked=mark.asked,
        )
        mark = self._mark = replace(self._mark, evident=stop.is_evident, resumed=False)
        move = next_move(stop)
        # The form of an answer is asked for once more, and no other calls for it.
        if problem is not None and move != "read" and mark.again > 0:
            move = "accept"
        if move == "accept":
            return await self._accept(answer, missing)
        self._hold(answer, missing)
        await self._doubt(missing, answer)
        if move == "read":
            return await self._explore(waiting)
        if move == "others":
            return await self._ask_for_others(missing, answer)
        self._mark = replace(self._mark, again=mark.again + 1)
        if undone := self._undo(report.wrong if report else None):
            missing = cut(missing, LONGEST_NOTE) or "it is wrong"
            return prompts.UNDONE_PROMPT.format(
                step=cut(undone, LONGEST_NOTE), missing=missing
            )
        missing = missing or ("" if stop.idle else "what a call that failed was for")
        note = _build_note(missing, problem)
        advice = await self._advice(self._path, missing)
        return "\n\n".join(filter(None, (note, advice.text)))

    def _find_problem(self, answer: AIMessage) -> AnswerProblem | None:
        """Return the problem that the form of an answer shows.

        A call that a tool's result contains is quoted, not written by the model. The
        text of a tool must never become a call.
        """
        turn = self._branches.this_turn(self._path)
        problem = find_problem(answer, self._host.offering.names, turn)
        if problem is None or problem.tool_call is None:
            return problem
        call = problem.tool_call
        parts = [call["name"], *(str(value) for value in call["args"].values())]
        for message in turn:
            text = str(message.text)
            if is_tool_result(message) and all(part in text for part in parts):
                return None
        return problem

    async def _advice(self, path: Sequence[BaseMessage], missing: str) -> Advice:
        """What past runs say of calls that could help; the mark keeps what of them is told."""
        advice = await self._host.advice(path, missing)
        if advice.recalled:
            recall = Recall.of_note(self._mark.recalled) | Recall.of_note(
                advice.recalled
            )
            self._mark = replace(self._mark, recalled=recall.note())
        return advice

    async def _accept(self, answer: AIMessage, missing: str) -> VisitResult:
        """Return an answer as it came where nothing was doubted in the turn, and otherwise the best one."""
        if self._mark.is_searching or self._mark.hidden:
            self._hold(answer, missing)
            return await self._conclude("exhausted" if missing else "answered")
        usage = self._host.judge_usage()
        if usage is None:
            return VisitResult(mark=Mark() if self._mark.checked else None)
        total = {"usage_metadata": usage_sum(answer.usage_metadata, usage)}
        return VisitResult(message=answer.model_copy(update=total))

    def _undo(self, wrong: int | None) -> str:
        """Give up the path from a step on that should not have been made; its calls, empty if it has to stay."""
        steps = [
            message
            for message in self._branches.this_turn(self._path)
            if get_tool_calls(message)
        ]
        if wrong is None or not 1 <= wrong <= len(steps):
            return ""
        at = next(
            at for at, message in enumerate(self._path) if message is steps[wrong - 1]
        )
        ids = [message.id for message in self._path[at:] if message.id]
        if not self._branches.may_be_given_up(ids):
            return ""
        # The report that a step was wrong is the first voice for what is done in its place.
        self._mark = replace(
            self._mark,
            hidden=[*self._mark.hidden, *ids],
            writes=[*self._host.offering.names],
        )
        self._path = self._branches.path(self._mark.hidden)
        self._is_undone = True
        return _labels(get_tool_calls(steps[wrong - 1]))

    def _is_idle(self) -> bool:
        """Whether the turn ends without any call although a tool looks as if it could help."""
        turn = self._branches.this_turn(self._path)
        request = self._branches.request
        return (
            request is not None
            and not any(map(get_tool_calls, turn))
            and self._host.fits(request.text)
        )

    async def _doubt(self, missing: str, answer: AIMessage) -> None:
        if not self._mark.is_searching:
            self._mark = replace(self._mark, search=uuid.uuid4().hex, began=time.time())
        lacks = f'{cut(missing, LONGEST_NOTE) or "something"}, after "{cut(answer.text, LONGEST_NOTE)}"'
        self._mark = replace(
            self._mark, doubts=[*self._mark.doubts, [str(self._path[-1].id), lacks]]
        )
        await self._host.emit(
            [{"type": "doubt", "missing": missing, "model_calls": self._mark.used}]
        )

    def _hold(self, answer: AIMessage, missing: str) -> None:
        """Keep the best answer so far; one that follows a write is the only one that is still true."""
        best = self._mark.best
        if best is not None and has_visible_content(answer):
            (best_answer,) = messages_from_dict([best.answer])
            if not has_visible_content(cast("AIMessage", best_answer)):
                # Any text is better than none.
                self._add_usage(best_answer)
                best = None
        turn = [self._branches.request, *self._branches.this_turn(self._path)]
        path = [message.id for message in turn if message is not None and message.id]
        if best is not None:
            beyond = set(path).difference(best.path)
            extends = bool(beyond) and set(path).issuperset(best.path)
            wrote = not self._branches.may_be_given_up(beyond)
            if not wrote and not is_better(
                missing=bool(missing), best_missing=bool(best.missing), extends=extends
            ):
                self._add_usage(answer)
                return
            self._add_usage(*messages_from_dict([best.answer]))
        self._mark = replace(
            self._mark, best=Best(message_to_dict(answer), path, missing)
        )

    # --- candidates ---

    def _named(self, call: ToolCall | None, answer: AIMessage) -> list[Candidate]:
        """The call that a report names, as a candidate if it reads; a write is noted as its first voice."""
        if call is None or call["name"] not in self._host.offering.names:
            return []
        name, args = call["name"], call["args"]
        if not self._branches.is_read(name, args):
            self._mark = replace(self._mark, writes=[name])
        if not self._may_try(name, args):
            return []
        reasoning = message_to_dict(with_only_call(answer, None))
        return [Candidate(name, args, self._mark.hidden, reasoning)]

    async def _ask_for_others(self, missing: str, answer: AIMessage) -> VisitResult:
        """Ask for other calls at the weakest state of the turn, and try the most promising read.

        Where runs that went well went on with a read that takes no arguments, that is tried without a question.
        """
        hidden = self._branches.weakest()
        path = self._branches.path(hidden)
        advice = await self._advice(path, missing)
        reasoning = message_to_dict(with_only_call(answer, None))
        argless = (name for name in advice.tools if name in self._host.offering.argless)
        waiting = self._untried(
            Candidate(name, {}, hidden, reasoning) for name in argless
        )
        if waiting and self._has_steps():
            return await self._explore(waiting)
        tried = _labels(self._branches.tried.values())
        remedy, calls = await self._host.remedy(self._path)
        note = prompts.OTHERS_PROMPT.format(
            count=MOST_CANDIDATES,
            tried=cut(tried or "nothing", LONGEST_NOTE),
            past=f"{advice.text}\n{remedy}".strip()
            + "\n" * bool(advice.text or remedy),
            missing=cut(missing or "what was asked for", LONGEST_NOTE),
        )
        reply = await self._host.ask([*path, HumanMessage(note)])
        self._add_usage(reply)
        self._mark = replace(
            self._mark, asked=self._mark.asked + 1, used=self._mark.used + 1 + calls
        )
        await self._host.offering.effects.judged(reply.tool_calls[:MOST_CANDIDATES])
        candidates = [
            Candidate(
                call["name"],
                call["args"],
                hidden,
                message_to_dict(with_only_call(reply, call)),
            )
            for call in reply.tool_calls[:MOST_CANDIDATES]
            if self._may_try(call["name"], call["args"])
        ]
        promising = await self._host.judge_candidates(path, candidates)
        waiting = self._untried(promising)
        facts: dict[str, Any] = {
            "calls": [each.label for each in waiting],
            "model_calls": self._mark.used,
        }
        await self._host.emit([{"type": "candidates", **facts}])
        if waiting and self._has_steps():
            return await self._explore(waiting)
        return await self._conclude("exhausted")

    def _untried(self, queue: Iterable[Candidate]) -> list[Candidate]:
        """The candidates that still may be tried, each call once."""
        waiting: dict[str, Candidate] = {}
        for each in queue:
            key = get_call_key(each.name, each.args)
            if key not in self._branches.tried and self._may_try(each.name, each.args):
                waiting.setdefault(key, each)
        return [*waiting.values()]

    def _may_try(self, name: str, args: Any) -> bool:
        return name in self._host.trials and self._branches.is_free(name, args)

    async def _explore(self, waiting: Sequence[Candidate]) -> VisitResult:
        """Return the most promising read as an ordinary call, from the state that it is to start from."""
        candidate, *rest = waiting
        hidden = [*dict.fromkeys([*candidate.hidden, *self._mark.hidden])]
        path = self._branches.path(hidden)
        message = self._as_step(candidate)
        parents = {**self._mark.parents, str(message.id): str(path[-1].id)}
        self._mark = replace(self._mark, queue=rest, hidden=hidden, parents=parents)
        facts = {
            "call": candidate.label,
            "r_pre": candidate.score,
            "model_calls": self._mark.used,
        }
        await self._host.emit([{"type": "explore", **facts}])
        return VisitResult(message=message, mark=self._with_costs())

    def _as_step(self, candidate: Candidate) -> AIMessage:
        """A candidate as a message of the agent's, in the reply that offered it: providers that sign expect that."""
        (message,) = messages_from_dict([candidate.message])
        message = cast("AIMessage", message)
        call = next(iter(message.tool_calls), None) or ToolCall(
            name=candidate.name,
            args=candidate.args,
            id=f"call_{uuid.uuid4().hex[:24]}",
            type="tool_call",
        )
        content: Any = message.content
        if isinstance(content, list) and not message.tool_calls:
            content = [*content, *call_blocks(call, message.response_metadata)] or ""
        return made_anew(message, [call], id=f"lc_{uuid.uuid4()}", content=content)

    # --- the end ---

    async def _conclude(self, reason: str) -> VisitResult:
        """Return the best answer, and remove what is not on its path."""
        best = self._mark.best
        assert best is not None  # noqa: S101 - a search begins with an answer
        answer = cast("AIMessage", messages_from_dict([best.answer])[0])
        abandoned = self._abandoned(set(best.path))
        remove = [str(each.id) for each in abandoned]
        if not self._mark.is_searching:
            return VisitResult(remove=remove, mark=Mark())
        self._add_usage(*abandoned)
        mark = self._with_costs()
        about = {
            "search": mark.search,
            "stop_reason": reason,
            "model_calls": mark.used,
            "tried": [
                call_label(call["name"], call["args"])
                for each in abandoned
                for call in get_tool_calls(each)
            ],
            "missing": best.missing,
            "removed": remove,
        }
        answer = answer.model_copy(
            update={
                "usage_metadata": usage_sum(answer.usage_metadata, mark.usage),
                "response_metadata": {**answer.response_metadata, KEY: about},
            }
        )
        await self._host.emit(
            [{"type": "stop", "reason": reason, "rollouts": len(mark.parents)}]
        )
        return VisitResult(
            answer, remove, Mark(), Ended(self._branches, mark, answer, reason)
        )

    def _abandoned(self, path: Collection[str]) -> list[BaseMessage]:
        """The messages of abandoned branches: those hidden, and those of this turn that are not on that path.

        What a person decided on stays, with the calls beside it.
        """
        begin, messages = self._branches.begin, self._branches.messages
        turn = () if begin is None else messages[begin:]
        gone = {*self._mark.hidden, *(message.id for message in turn)} - set(path)
        for at, message in enumerate(turn):
            results = results_of(turn, at)
            if any(map(is_decided, results)):
                gone -= {message.id, *(each.id for each in results)}
        return [message for message in messages if message.id and message.id in gone]

    def _with_costs(self) -> Mark:
        self._add_usage(AIMessage("", usage_metadata=self._host.judge_usage()))
        step, _ = steps_here() or (0, 0)
        return replace(self._mark, step=step)

    def _add_usage(self, *replies: BaseMessage) -> None:
        for reply in replies:
            usage = usage_sum(self._mark.usage, getattr(reply, "usage_metadata", None))
            self._mark = replace(self._mark, usage=dict(usage or {}))

    def _budget(self) -> int:
        limit, began = self._host.planner.config.max_seconds, self._mark.began
        is_late = limit is not None and began > 0 and time.time() - began >= limit
        request = self._branches.request
        can_branch = (
            request is None or request.id is not None
        )  # a reducer that gives no ids cannot remove messages
        return self._host.planner.extra_calls if can_branch and not is_late else 0

    def _has_steps(self) -> bool:
        """Whether the graph's recursion limit leaves room for another round of tools and model."""
        if (steps := steps_here()) is None:
            return True
        step, left = steps
        measured = (
            step - self._mark.step
            if self._mark.step and step > self._mark.step
            else FIRST_ROUND
        )
        return left > measured + 1


def _build_note(missing: str, problem: AnswerProblem | None) -> str:
    """Return the note with which the agent is asked again."""
    if problem is not None:
        return f"{PLANNER_NOTE} {problem.explanation}"
    if missing:
        return prompts.AGAIN_PROMPT.format(missing=cut(missing, LONGEST_NOTE))
    return prompts.IDLE_PROMPT


def _is_refusal(answer: AIMessage) -> bool:
    """Whether a provider says that its model, or its filter, has refused to answer; standard blocks tell since 1.8."""
    return any(block.get("type") == "refusal" for block in answer.content_blocks)


def _labels(calls: Iterable[ToolCall]) -> str:
    return "; ".join(call_label(call["name"], call["args"]) for call in calls)


# --- planning ahead in forks ---
