"""Asking a model what to do next.

A state that was not asked yet is asked as the agent itself would ask: its own step. Where the search branches, it asks
for candidates.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, takewhile
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall
from langchain_core.tools import BaseTool

from langchain_tooltree.conversation import is_observation, told_to_model
from langchain_tooltree.effects.calls import ReadTool
from langchain_tooltree.errors import described
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import (
    ATTEMPTS,
    UNTRUSTED,
    Meter,
    call_tools,
    inner_config,
    is_form_refusal,
    other_tools_refused,
    takes_other_tools,
    was_refused,
    with_more,
)
from langchain_tooltree.replies import UNREADABLE
from langchain_tooltree.text import compact_json, one_line, quoted_from, shortened
from langchain_tooltree.tooltree.channel import (
    LIKELY,
    MISSING_CHARS,
    SAID_DONE,
    SAID_OPEN,
    NamedCall,
    ScoredTools,
    answer_in,
    as_score,
    asked_to_show,
    hidden_prompt,
    read_form,
    standing_of,
    step_messages,
    step_prompt,
)
from langchain_tooltree.tooltree.prompts import DEFAULT_PROMPTS, Prompts
from langchain_tooltree.tooltree.search import Call, SearchConfig
from langchain_tooltree.tooltree.signed_reasoning import Reply, signed_reasoning_of
from langchain_tooltree.tooltree.tools import SearchEffects, ToolLibrary, checked_arguments

READ_CANDIDATES = 2
"""So many times `top_k` calls are read from one reply: room for invalid ones, and a bound on what a model can offer."""

BATCH_CALLS = 32
"""Calls that are read of one own step: more than an agent makes in one reply, unless it has lost its way."""

INSTRUCTIONS, RECALLED, HINTED = "[The agent's instructions]", "[What was recalled]", "[What past runs say here]"
"""Stand in the words of a question for what is not the planner's own."""


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """A state to be asked what to do next."""

    conversation: Sequence[BaseMessage]
    tools: Sequence[str]
    attempt: int = 1  # for which time it is asked, from 1
    tried: Sequence[str] = ()  # the calls offered here before
    extra_candidates: int = 0  # how often other calls may be asked for if a reply holds one
    metadata: Mapping[str, Any] = field(default_factory=dict)  # where in the search the question stands, for traces
    own_step: bool = False  # whether to ask as the agent itself would, for what it would do now
    missing: Sequence[str] = ()  # what a check found not done yet, in words
    advice: str = ""  # reference material for all of the request: at the end of the instructions
    hint: str = ""  # the same for this state: at the end of the last message
    hidden: Sequence[str] = ()  # the tools that there are beside those shown, the most relevant ones first


@dataclass(frozen=True, slots=True)
class Problem:
    """A call that cannot be made as the model wrote it, and why."""

    tool: str
    call: str
    reason: str

    def __str__(self) -> str:
        return shortened(f"{self.call}: {self.reason}")


@dataclass(slots=True)
class Proposal:
    """What a model offered."""

    actions: list[tuple[Call, ...]] = field(default_factory=list)  # calls or batches of them, most promising first
    confidences: list[float | None] = field(default_factory=list)  # one for each action; `None` where none came
    problems: list[Problem] = field(default_factory=list)
    corrected: list[Problem] = field(default_factory=list)  # what was left out, and is not to be written again
    finished: bool = False  # whether the model replied without offering any call
    reward: float | None = None  # score of the latest result, where the reply gives one
    goal: float | None = None  # whether the request is fulfilled, where the reply says so
    missing: tuple[str, ...] = ()  # what the reply says is not done yet
    answer: AIMessage | None = None  # of an own step: the reply without calls
    largest_reply: int = 0  # calls in the reply that held most, valid or not
    gained: int | None = None  # calls that asking for others brought; `None` if that was not asked
    wanted: list[str] = field(default_factory=list)  # hidden tools that the model asks for, by name or in words
    error: str | None = None  # why the model could not be asked, if so

    @property
    def calls(self) -> list[Call]:
        """The calls of all actions."""
        return [call for action in self.actions for call in action]

    @property
    def dropped(self) -> list[str]:
        """The calls that could not be made, each once and with the reason, those that were written again first."""
        return [*dict.fromkeys(map(str, (*self.corrected, *self.problems)))]

    def after(self, *before: "Proposal") -> "Proposal":
        """This one, which also tells of the calls that earlier replies to the same question lost."""
        lost = [problem for each in before for problem in (*each.corrected, *each.problems)]
        self.corrected = [problem for problem in lost if problem not in self.problems] + self.corrected
        return self


@dataclass(slots=True)
class _Inquiry:
    """A state that is asked: with which tools and budget, and what has come of it."""

    request: ProposalRequest
    shown: ScoredTools
    meter: Meter
    proposal: Proposal = field(default_factory=Proposal)

    @property
    def again(self) -> "_Inquiry":
        """The same question, of which nothing has come yet."""
        return replace(self, proposal=Proposal())


class Proposer:
    """Asks a model with tool calling what to do next.

    It asks as the agent itself would, or for candidates: all in one reply, or one draft a tool, as `config` says.
    """

    def __init__(
        self,
        model: BaseChatModel,
        library: ToolLibrary,
        effects: SearchEffects,
        config: SearchConfig,
        settings: Mapping[str, Any] | None = None,
        *,
        prompts: Prompts = DEFAULT_PROMPTS,
    ) -> None:
        self._model = model
        self._call = partial(call_tools, model, settings=settings)
        self._makes_one_call = (settings or {}).get("parallel_tool_calls") is False
        self._library = library
        self._tools = library.by_name
        self._prompts = prompts
        self._effects = effects
        self._config = config

    def propose(self, request: ProposalRequest, meter: Meter) -> Flow[Proposal]:
        """Ask a state what to do next."""
        asked = _Inquiry(request, ScoredTools.plain(self._shown(request), request.hidden), meter)
        if request.own_step:
            return (yield from self._own_step(asked))
        proposal = asked.proposal
        if self._config.proposals == "per_tool":
            yield from self._ask_for_drafts(asked)
        elif self._config.pre_evaluation == "fused":
            yield from self._ask_with_scores(asked)
        else:
            yield from self._ask_together(asked)
            if proposal.actions and proposal.largest_reply == 1:
                yield from self._ask_for_others(asked)
        if proposal.problems and meter.left:
            yield from self._repair(asked)
        proposal.finished = not (proposal.actions or proposal.problems or proposal.wanted or proposal.error)
        if proposal.actions:
            proposal.error = None
        return proposal

    def _shown(self, request: ProposalRequest) -> list[BaseTool]:
        return [self._tools[name] for name in request.tools if name in self._tools]

    # --- the agent's own step ---

    def _own_step(self, asked: _Inquiry) -> Flow[Proposal]:
        """The agent's own question: all calls of a reply are one action, a reply without calls is the answer.

        If a call cannot be made, the whole step is asked for again, once. If that does not help, the other calls of the
        reply are made.
        """
        request, shown, step = asked.request, asked.shown, asked.proposal
        size = sum(self._library.characters(name) for name in shown.names)
        lines = [step_prompt(request.conversation, size, self._prompts)]
        if shown.show:
            lines.append(hidden_prompt(self._prompts.hidden, shown.show, request.hidden))
        reply = yield from self._reply(asked, step_messages(request.conversation, *lines))
        if isinstance(reply, AIMessage):
            self._take_step(asked, reply)
        if not (step.problems and asked.meter.left):
            return step
        told = self._prompts.step_repair.format(problems=_listed(map(str, step.problems)))
        repair = asked.again
        reply = yield from self._reply(repair, step_messages(request.conversation, *lines, told), attempts=1)
        if not isinstance(reply, AIMessage):
            return step
        self._take_step(repair, reply)
        again = repair.proposal
        if step.actions and (again.finished or not again.actions):
            return step.after(again)
        return again.after(step)

    def _take_step(self, asked: _Inquiry, reply: AIMessage) -> None:
        """The calls of a reply as a batch, each once, the writes that are left to the host last; or the answer."""
        step = asked.proposal
        quoted = quoted_from(
            chain(told_to_model(asked.request.conversation), (asked.request.advice, asked.request.hint))
        )
        batch: dict[str, Call] = {}
        for call, _ in self._read(asked, reply, BATCH_CALLS):
            batch.setdefault(call.key, call)
        if batch:
            first, *others = sorted(batch.values(), key=lambda call: call.effect == "write")
            said, _ = read_form(str(reply.text), quoted)
            step.actions, step.confidences = [(first.model_copy(update={"said": said}), *others)], [None]
        elif not (step.problems or step.wanted):
            step.finished = True
            step.answer, (step.goal, step.missing, named) = answer_in(reply, quoted)
            self._take_named(asked, named)

    def _take_named(self, asked: _Inquiry, named: Iterable[NamedCall]) -> None:
        """The calls that an answer says may still be needed; one that cannot be made is a hint, if not all is done.

        A real write is taken from an answer only if that says that the request is not done, and holds the call for
        likely: an agent that holds its answer for complete, or asks its user, has not asked for it.
        """
        step = asked.proposal
        offered: dict[str, tuple[Call, float | None]] = {}
        for name, written, confidence in named:
            tool, arguments = self._tools[name] if name in asked.shown.names else None, written
            problem: str | None = "there is no tool of this name"
            if tool is not None:
                arguments, problem = checked_arguments(tool, written)
                problem = problem or ("a value is not filled in" if _is_blank(arguments) else None)
            effect = "write" if problem else self._effects.of(name, arguments)
            call = Call(tool=name, arguments=arguments, effect=effect, of_path=isinstance(tool, ReadTool))
            wanted = step.goal == SAID_OPEN and (confidence is None or confidence >= LIKELY)
            unasked = call.effect == "write" and not wanted
            if not (problem or unasked):
                offered.setdefault(call.key, (call, confidence))
            elif step.goal != SAID_DONE:
                step.missing += (one_line(call.label, MISSING_CHARS),)
        ranked = sorted(offered.values(), key=lambda each: each[1] or 0, reverse=True)
        step.actions = [(call,) for call, _ in ranked]
        step.confidences = [confidence for _, confidence in ranked]

    # --- candidates ---

    def _ask_together(self, asked: _Inquiry) -> Flow[Exception | None]:
        """Ask for candidates without scores."""
        return (yield from self._ask(asked, self._prompts.propose.format(count=self._config.top_k)))

    def _ask_with_scores(self, asked: _Inquiry) -> Flow[None]:
        """Ask for candidates, their scores and how things stand in one reply, if the model takes such tools."""
        request, plain, proposal = asked.request, asked.shown, asked.proposal
        if not takes_other_tools(self._model):
            yield from self._ask_together(asked)
            return
        observed = bool(request.conversation) and is_observation(request.conversation[-1])
        asked.shown = ScoredTools.of(
            self._shown(request), assess=not self._makes_one_call, observed=observed, hidden=request.hidden
        )
        failure = yield from self._ask_scored(asked)
        if failure is not None and is_form_refusal(failure):
            asked.shown = plain
            if asked.meter.left and not (yield from self._ask_together(asked)):
                other_tools_refused(self._model, failure)
            return
        # Some models make one call in a reply, and theirs may have been to say how things stand.
        silent = not (failure or proposal.actions or proposal.problems or proposal.wanted)
        if silent and proposal.goal == SAID_OPEN and asked.meter.left:
            asked.shown = asked.shown.without_assess()
            yield from self._ask_scored(asked)

    def _ask_scored(self, asked: _Inquiry) -> Flow[Exception | None]:
        candidates = self._prompts.candidates.format(count=self._config.top_k)
        assess = asked.shown.assess
        end = self._prompts.assess.format(assess=assess) if assess else self._prompts.nothing
        return (yield from self._ask(asked, f"{candidates}\n\n{end}"))

    def _ask_for_drafts(self, asked: _Inquiry) -> Flow[None]:
        for tool in self._shown(asked.request):
            if asked.meter.left:
                draft = replace(asked.request, tools=[tool.name])
                drafted = replace(asked, request=draft, shown=ScoredTools([tool]))
                yield from self._ask(drafted, self._prompts.draft.format(tool=tool.name), attempts=1)
            else:
                reason = "the budget left no question about this tool"
                asked.proposal.problems.append(Problem(tool.name, f"{tool.name}()", reason))

    def _ask_for_others(self, asked: _Inquiry) -> Flow[None]:
        """Ask for other calls beside the only one, until a reply brings nothing new or holds several."""
        request, proposal = asked.request, asked.proposal
        for _ in range(request.extra_candidates):
            offered = [*(call.label for call in proposal.calls), *(problem.call for problem in proposal.problems)]
            if not asked.meter.left or len(offered) >= self._config.top_k or proposal.largest_reply > 1:
                return
            instruction = self._prompts.propose.format(count=self._config.top_k - len(offered))
            others = asked.again
            if (yield from self._ask(others, instruction, offered, attempts=1)):
                return  # the call that there is will do
            more = others.proposal
            seen = {call.key for call in proposal.calls}
            new = [action for action in more.actions if action[0].key not in seen]
            new = [action for action in new if action[0].label not in request.tried]
            problems = [problem for problem in more.problems if problem.call not in offered]
            proposal.actions += new
            proposal.confidences += [None] * len(new)
            proposal.problems += problems
            proposal.largest_reply = max(proposal.largest_reply, more.largest_reply)
            proposal.gained = (proposal.gained or 0) + len(new) + len(problems)
            if not (new or problems):
                return

    def _repair(self, asked: _Inquiry) -> Flow[None]:
        """Have invalid calls written again, once; what is still invalid stays a problem."""
        proposal = asked.proposal
        listed = _listed(map(str, proposal.problems))
        propose = self._prompts.propose.format(count=len(proposal.problems))
        instruction = f"{propose}\n\n{self._prompts.repair.format(problems=listed)}"
        first_time = replace(asked.request, attempt=1, missing=())
        repair = replace(asked.again, request=first_time, shown=asked.shown.without_assess())
        reply = yield from self._reply(repair, self._messages(repair, instruction), attempts=1)
        if not isinstance(reply, AIMessage):
            return  # without a repair the calls are dropped for the reason they had
        rewritten = {call["name"] for call in (*reply.tool_calls, *reply.invalid_tool_calls)}
        before = proposal.problems
        proposal.problems = [problem for problem in before if problem.tool not in rewritten]
        self._take_candidates(replace(repair, proposal=proposal), reply)
        proposal.after(Proposal(problems=before))

    # --- one question ---

    def _messages(self, asked: _Inquiry, instruction: str, offered: Sequence[str] = ()) -> list[BaseMessage]:
        """The prompt for candidates, with what the cards of the shown tools say beyond what is bound."""
        request = asked.request
        told = {name: self._library.told(name) for name in request.tools if name in self._tools}
        if cards := [f"{name}: {compact_json(card)}" for name, card in told.items() if card]:
            instruction = f"{instruction}\n\n{self._prompts.cards.format(cards=_listed(cards))}"
        system, *rest = propose_messages(request, instruction, offered, self._prompts)
        if asked.shown.show:
            hidden = hidden_prompt(self._prompts.hidden, asked.shown.show, request.hidden)
            system = SystemMessage(f"{system.text}\n\n{hidden}")
        return [system, *rest]

    def _ask(
        self, asked: _Inquiry, instruction: str, offered: Sequence[str] = (), *, attempts: int = ATTEMPTS
    ) -> Flow[Exception | None]:
        """Ask for candidates and take them; returns why that failed, if it did."""
        reply = yield from self._reply(asked, self._messages(asked, instruction, offered), attempts=attempts)
        if isinstance(reply, AIMessage):
            self._take_candidates(asked, reply)
            return None
        return reply

    def _reply(
        self, asked: _Inquiry, messages: Sequence[BaseMessage], *, attempts: int = ATTEMPTS
    ) -> Flow[AIMessage | Exception | None]:
        """The reply to a question, asked again if the model cannot be reached; `None` without a budget for it."""
        failure, proposal, own = None, asked.proposal, own_words(messages, asked.request)
        messages = with_reference(messages, advice=asked.request.advice, hint=asked.request.hint)
        config = inner_config("own_step" if asked.request.own_step else "propose", asked.request.metadata)
        for _ in range(min(attempts, asked.meter.left)):
            try:
                reply = yield from self._call(asked.shown.bound, messages, asked.meter, config)
            except Exception as error:  # noqa: BLE001 - any failure of a model ends in the fallback, not in a crash
                proposal.error = f"the model failed: {described(error)}"
                failure = error
                if was_refused(error) or (asked.shown.scored and is_form_refusal(error)):
                    break  # it would be refused again
            else:
                proposal.error = None
                asked.meter.asked[own] = None
                return reply
        return failure

    def _take_candidates(self, asked: _Inquiry, reply: AIMessage) -> None:
        """Each call of a reply is an action, with the confidence in it."""
        for call, confidence in self._read(asked, reply, READ_CANDIDATES * self._config.top_k):
            asked.proposal.actions.append((call,))
            asked.proposal.confidences.append(confidence)

    def _read(self, asked: _Inquiry, reply: AIMessage, most: int) -> Iterator[tuple[Call, float | None]]:
        """The valid calls of a reply, in order; problems and how things stand are noted at the proposal."""
        shown, proposal = asked.shown, asked.proposal
        written_calls = [*reply.tool_calls, *reply.invalid_tool_calls]
        wanted: list[tuple[int, ToolCall]] = []
        said: dict[str, Any] | None = None
        for position, written in enumerate(reply.tool_calls):
            if written["name"] == shown.show:
                proposal.wanted += asked_to_show(written["args"])
            elif written["name"] != shown.assess:
                wanted.append((position, written))
            elif said is None:
                said = written["args"]
                proposal.reward = as_score(said.get("last_result"))
                proposal.goal, proposal.missing, _ = standing_of(said)
        proposal.largest_reply = max(proposal.largest_reply, len(wanted) + len(reply.invalid_tool_calls))
        origin = Reply(reply.content, reply.additional_kwargs, reply.response_metadata, written_calls)
        proposal.corrected += _unread(len(wanted), most)
        for position, written in wanted[:most]:
            tool = self._tools[written["name"]] if written["name"] in shown.names else None
            if tool is None and shown.show and written["name"] in self._tools:
                proposal.wanted.append(written["name"])  # it knows the name, and nothing of the arguments
                continue
            if tool is None:
                reason = f"there is no tool of this name; the tools are {', '.join(shown.names)}"
                proposal.problems.append(Problem(shortened(written["name"]), _as_written(written), reason))
                continue
            own, confidence = shown.taken_from(tool.name, written["args"])
            arguments, problem = checked_arguments(tool, own)
            # Nearly all replies are plain: a text and the calls.
            plain = isinstance(reply.content, str) and not reply.additional_kwargs
            signed = None if problem or plain else signed_reasoning_of(origin, position, arguments)
            call = Call(
                tool=tool.name,
                arguments=arguments,
                effect="write" if problem else self._effects.of(tool.name, arguments),
                signed_reasoning=signed,
                of_path=isinstance(tool, ReadTool),
            )
            if problem:
                proposal.problems.append(Problem(tool.name, shortened(call.label), problem))
            else:
                yield call, confidence
        for broken in reply.invalid_tool_calls:
            proposal.problems.append(Problem(shortened(str(broken.get("name"))), _as_written(broken), UNREADABLE))


def _unread(written: int, most: int) -> list[Problem]:
    return [Problem("", f"{written - most} calls", f"only {most} of one reply are read")] if written > most else []


def _as_written(call: Mapping[str, Any]) -> str:
    return shortened(f"{call.get('name')}({call.get('args')})")


def propose_messages(
    request: ProposalRequest, instruction: str, offered: Sequence[str] = (), prompts: Prompts = DEFAULT_PROMPTS
) -> list[BaseMessage]:
    """The prompt that asks a state for candidates: one system message, then the conversation.

    System messages at the head of the conversation stay in force: they follow the planner's own. `offered` are the
    calls that the model has offered just now, if it is asked for others.
    """
    parts = [instruction, UNTRUSTED]
    if request.attempt > 1:
        parts.append(prompts.attempt.format(attempt=request.attempt))
        if request.tried:
            parts.append(prompts.tried.format(tried=_listed(request.tried)))
    if request.missing:
        parts.append(prompts.missing.format(missing=_listed(request.missing)))
    if offered:
        parts.append(prompts.top_up.format(offered=_listed(offered)))
    rest = list(request.conversation)
    while rest and isinstance(rest[0], SystemMessage):
        parts.append(rest.pop(0).text)
    return [SystemMessage("\n\n".join(parts)), *rest]


def with_reference(messages: Sequence[BaseMessage], *, advice: str, hint: str) -> Sequence[BaseMessage]:
    """A prompt with what past runs say: of the request at the end of its instructions, of the state at its very end."""
    prompt = step_messages(messages, advice) if advice else messages
    if not hint:
        return prompt
    *before, last = prompt
    if isinstance(last, AIMessage):  # no words are put into its mouth
        return [*prompt, HumanMessage(hint)]
    return [*before, with_more(last, hint)]


def own_words(messages: Sequence[BaseMessage], request: ProposalRequest) -> str:
    """What a prompt adds to the conversation; what others say in it is named only, so that no copy outlives it."""
    asked, agents = (
        "\n\n".join(str(each.text) for each in takewhile(lambda each: isinstance(each, SystemMessage), prompt))
        for prompt in (messages, request.conversation)
    )
    if agents and asked.endswith(agents):  # where it is asked what to propose, they come after our words
        words = asked[: -len(agents)] + INSTRUCTIONS
    else:
        words = asked.replace(agents, INSTRUCTIONS, 1) if agents else asked
    return "\n\n".join((words, *(name for name, said in ((RECALLED, request.advice), (HINTED, request.hint)) if said)))


_BLANK = re.compile(r"\s*(?:<[\w' -]+>|\{+[\w' -]+\}+|\[[\w' -]+\]|\?+|\.{3}|…|TBD)\s*")


def _is_blank(value: Any) -> bool:
    """Whether a value, or one in it, only holds the place of one, as in a plan: `<address of Ann>`, `?`."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list):
        return any(map(_is_blank, value))
    return isinstance(value, str) and _BLANK.fullmatch(value) is not None


def _listed(calls: Iterable[str]) -> str:
    # A call that cannot be read has what stood in it, and none of that begins a line of its own.
    return "\n".join(f"- {' '.join(call.splitlines())}" for call in calls)
