"""Asking a model for candidate calls, and, as in the paper's ACL-format version, for the tools of a request."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.tools import BaseTool

from langchain_tooltree.flows import Flow
from langchain_tooltree.models import (
    ATTEMPTS,
    Meter,
    StructuredQuestion,
    call_tools,
    document_prompt,
    inner_config,
    was_refused,
)
from langchain_tooltree.tooltree.prompts import (
    DEFAULT_ATTEMPT_PROMPT,
    DEFAULT_DRAFT_PROMPT,
    DEFAULT_PLAN_PROMPT,
    DEFAULT_PROPOSE_PROMPT,
    DEFAULT_REPAIR_PROMPT,
    DEFAULT_TOP_UP_PROMPT,
    CoarsePlan,
)
from langchain_tooltree.tooltree.search import Call, Effect, SearchConfig
from langchain_tooltree.tooltree.signed_reasoning import Reply, signed_reasoning_of
from langchain_tooltree.tooltree.tools import ToolLibrary, checked_arguments

READ_CANDIDATES = 2
"""So many times `top_k` calls are read from one reply: room for invalid ones, and a bound on what a model can offer."""


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """A state to be asked for calls."""

    conversation: Sequence[BaseMessage]
    tools: Sequence[str]
    attempt: int = 1  # for which time it is asked, from 1
    tried: Sequence[str] = ()  # the calls offered here before
    extra_candidates: int = 0  # how often other calls may be asked for if a reply holds one
    metadata: Mapping[str, Any] = field(default_factory=dict)  # where in the search the question stands, for traces


@dataclass(frozen=True, slots=True)
class Problem:
    """A call that cannot be made as the model wrote it, and why."""

    tool: str
    call: str
    reason: str

    def __str__(self) -> str:
        return f"{self.call}: {self.reason}"


@dataclass(slots=True)
class Proposal:
    """What a model offered."""

    calls: list[Call] = field(default_factory=list)  # the valid ones, the most promising first
    problems: list[Problem] = field(default_factory=list)
    finished: bool = False  # whether the model replied without offering any call
    largest_reply: int = 0  # calls in the reply that held most, valid or not
    gained: int | None = None  # calls that asking for others brought; `None` if that was not asked
    error: str | None = None  # why the model could not be asked, if so


class Proposer:
    """Asks a model with tool calling for candidate calls: all in one reply, or one draft a tool, as `config` says."""

    def __init__(
        self,
        model: BaseChatModel,
        library: ToolLibrary,
        effects: Mapping[str, Effect],
        config: SearchConfig,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._call = partial(call_tools, model, settings=settings)
        self._tools = library.by_name
        self._effects = effects
        self._config = config

    def propose(self, request: ProposalRequest, meter: Meter) -> Flow[Proposal]:
        """Ask a state for candidate calls."""
        proposal = Proposal()
        tools = [self._tools[name] for name in request.tools if name in self._tools]
        if self._config.proposals == "together":
            instruction = DEFAULT_PROPOSE_PROMPT.format(count=self._config.top_k)
            yield from self._ask(request, tools, instruction, meter, proposal)
            if proposal.calls and proposal.largest_reply == 1:
                yield from self._ask_for_others(request, tools, meter, proposal)
        else:
            for tool in tools:
                instruction = DEFAULT_DRAFT_PROMPT.format(tool=tool.name)
                if not (yield from self._ask(request, [tool], instruction, meter, proposal)):
                    reason = "the budget left no question about this tool"
                    proposal.problems.append(Problem(tool.name, f"{tool.name}()", reason))
        if proposal.problems and meter.left:
            yield from self._repair(request, tools, meter, proposal)
        proposal.finished = not (proposal.calls or proposal.problems or proposal.error)
        if proposal.calls:
            proposal.error = None
        return proposal

    def _ask(
        self, request: ProposalRequest, tools: Sequence[BaseTool], instruction: str, meter: Meter, proposal: Proposal
    ) -> Flow[int]:
        """One question; asked a second time if the model cannot be reached. Returns how often the budget allows it."""
        messages = propose_messages(request, instruction)
        attempts = min(ATTEMPTS if self._config.proposals == "together" else 1, meter.left)
        for _ in range(attempts):
            try:
                reply = yield from self._call(tools, messages, meter, inner_config("propose", request.metadata))
            except Exception as error:  # noqa: BLE001 - any failure of a model ends in the fallback, not in a crash
                proposal.error = f"the model failed: {type(error).__name__}: {error}"
                if was_refused(error):
                    break  # it would be refused again
            else:
                proposal.error = None
                self._read(reply, tools, proposal)
                break
        return attempts

    def _ask_for_others(
        self, request: ProposalRequest, tools: Sequence[BaseTool], meter: Meter, proposal: Proposal
    ) -> Flow[None]:
        """Ask for other calls beside the only one, until a reply brings nothing new or holds several."""
        for _ in range(request.extra_candidates):
            offered = [*(call.label for call in proposal.calls), *(problem.call for problem in proposal.problems)]
            if not meter.left or len(offered) >= self._config.top_k or proposal.largest_reply > 1:
                return
            instruction = DEFAULT_PROPOSE_PROMPT.format(count=self._config.top_k - len(offered))
            messages = propose_messages(request, instruction, offered)
            try:
                reply = yield from self._call(tools, messages, meter, inner_config("propose", request.metadata))
            except Exception:  # noqa: BLE001 - the call that there is will do
                return
            more = Proposal()
            self._read(reply, tools, more)
            seen = {call.key for call in proposal.calls}
            calls = [call for call in more.calls if call.key not in seen and call.label not in request.tried]
            problems = [problem for problem in more.problems if problem.call not in offered]
            proposal.calls += calls
            proposal.problems += problems
            proposal.largest_reply = max(proposal.largest_reply, more.largest_reply)
            proposal.gained = (proposal.gained or 0) + len(calls) + len(problems)
            if not (calls or problems):
                return

    def _repair(
        self, request: ProposalRequest, tools: Sequence[BaseTool], meter: Meter, proposal: Proposal
    ) -> Flow[None]:
        """Have invalid calls written again, once; what is still invalid stays a problem."""
        listed = _listed(map(str, proposal.problems))
        propose = DEFAULT_PROPOSE_PROMPT.format(count=len(proposal.problems))
        instruction = f"{propose}\n\n{DEFAULT_REPAIR_PROMPT.format(problems=listed)}"
        messages = propose_messages(replace(request, attempt=1), instruction)
        try:
            reply = yield from self._call(tools, messages, meter, inner_config("propose", request.metadata))
        except Exception:  # noqa: BLE001 - without a repair the calls are dropped for the reason they had
            return
        rewritten = {call["name"] for call in (*reply.tool_calls, *reply.invalid_tool_calls)}
        proposal.problems = [problem for problem in proposal.problems if problem.tool not in rewritten]
        self._read(reply, tools, proposal)

    def _read(self, reply: AIMessage, tools: Sequence[BaseTool], proposal: Proposal) -> None:
        """Sort the calls of a reply into valid ones and problems."""
        proposal.largest_reply = max(proposal.largest_reply, len(reply.tool_calls) + len(reply.invalid_tool_calls))
        shown = {tool.name: tool for tool in tools}
        written_calls = [*reply.tool_calls, *reply.invalid_tool_calls]
        origin = Reply(reply.content, reply.additional_kwargs, reply.response_metadata, written_calls)
        for position, written in enumerate(reply.tool_calls[: READ_CANDIDATES * self._config.top_k]):
            tool = shown.get(written["name"])
            if tool is None:
                reason = f"there is no tool of this name; the tools are {', '.join(shown)}"
                proposal.problems.append(Problem(written["name"], f"{written['name']}({written['args']})", reason))
                continue
            arguments, problem = checked_arguments(tool, written["args"])
            # Nearly all replies are plain: a text and the calls.
            plain = isinstance(reply.content, str) and not reply.additional_kwargs
            signed = None if problem or plain else signed_reasoning_of(origin, position, arguments)
            call = Call(tool=tool.name, arguments=arguments, effect=self._effects[tool.name], signed_reasoning=signed)
            if problem:
                proposal.problems.append(Problem(tool.name, call.label, problem))
            else:
                proposal.calls.append(call)
        for broken in reply.invalid_tool_calls:
            call_text = f"{broken.get('name')}({broken.get('args')})"
            proposal.problems.append(Problem(str(broken.get("name")), call_text, "the arguments are not valid JSON"))


def propose_messages(request: ProposalRequest, instruction: str, offered: Sequence[str] = ()) -> list[BaseMessage]:
    """The prompt that asks a state for calls: one system message, then the conversation.

    System messages at the head of the conversation stay in force: they follow the planner's own. `offered` are the
    calls that the model has offered just now, if it is asked for others.
    """
    parts = [instruction]
    if request.attempt > 1:
        tried = _listed(request.tried) or "- none"
        parts.append(DEFAULT_ATTEMPT_PROMPT.format(attempt=request.attempt, tried=tried))
    if offered:
        parts.append(DEFAULT_TOP_UP_PROMPT.format(offered=_listed(offered)))
    rest = list(request.conversation)
    while rest and isinstance(rest[0], SystemMessage):
        parts.append(rest.pop(0).text)
    return [SystemMessage("\n\n".join(parts)), *rest]


def _listed(calls: Iterable[str]) -> str:
    return "\n".join(f"- {call}" for call in calls)


def plan_tools(
    model: BaseChatModel, library: ToolLibrary, query: str, config: SearchConfig, meter: Meter
) -> Flow[tuple[str, ...]]:
    """Names of the tools that a request may need, in the library's order: the coarse planner of the ACL-format paper.

    A tool is kept if it belongs to a domain of the request (or to none), its input can be had, its output is of use,
    and its relevance p_t reaches the threshold. All are kept if the reply is unusable or would leave none: a planner
    that fails must not take tools away.
    """
    document = {"request": query, "tools": list(library.to_dicts().values())}
    question = StructuredQuestion(
        model,
        CoarsePlan,
        document_prompt(DEFAULT_PLAN_PROMPT, document),
        usable=lambda reply: isinstance(reply.get("tools"), list) and isinstance(reply.get("domains"), list),
        config=inner_config("plan", {}),
    )
    replies = yield from question.ask(meter)
    if not replies:
        return library.names
    domains = {str(domain) for domain in _list(replies[-1].get("domains"))}
    rated = {str(v.get("name")): v for v in _list(replies[-1].get("tools")) if isinstance(v, dict)}
    kept = tuple(
        name
        for name in library.names
        if name in config.always_include
        or _passes(rated.get(name, {}), library.card(name).domains, domains, config.relevance_threshold)
    )
    return kept or library.names


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _passes(verdict: Mapping[str, Any], card_domains: tuple[str, ...], domains: set[str], threshold: float) -> bool:
    if not verdict:
        return True  # a tool that the model said nothing about is not judged useless
    relevance = verdict.get("relevance")
    irrelevant = isinstance(relevance, int | float) and 0 <= relevance < threshold
    wanted = not card_domains or not domains or bool(domains & set(card_domains))
    possible = verdict.get("input_available") is not False and verdict.get("output_useful") is not False
    return not irrelevant and wanted and possible
