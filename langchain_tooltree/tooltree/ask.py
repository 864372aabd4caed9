"""Asking a model which calls may be made next, for a deep search.

Candidates come as tool calls: all in one reply, with their scores where those are fused, or one draft a tool. A
question with scores has a field more in each tool, for a confidence, and one tool more, by which the model says how the
request stands. Replies are read as LangChain parsed them; what does not validate is unknown.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, message_to_dict
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree.conversation import is_observation
from langchain_tooltree.errors import described
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.models import (
    ATTEMPTS,
    UNTRUSTED,
    Meter,
    call_tools,
    document_prompt,
    filled_in,
    inner_config,
    validated,
    was_refused,
)
from langchain_tooltree.replies import UNREADABLE
from langchain_tooltree.text import compact_json, one_line, shortened
from langchain_tooltree.tools import ToolCard, ToolLibrary, checked_arguments
from langchain_tooltree.tooltree.branches import with_only_call
from langchain_tooltree.tooltree.judge import SAID_OPEN, Standing, as_score
from langchain_tooltree.tooltree.prompts import (
    ASSESS_DESCRIPTION,
    ASSESS_PROMPT,
    CANDIDATES_PROMPT,
    CONFIDENCE,
    CONFIDENCE_DESCRIPTION,
    DRAFT_PROMPT,
    INSTRUCTIONS_PROMPT,
    MISSING_PROMPT,
    NOTHING_PROMPT,
    PLAN_PROMPT,
    PROPOSE_PROMPT,
    REPAIR_PROMPT,
    TRIED_PROMPT,
    Assessment,
    CoarsePlan,
)
from langchain_tooltree.tooltree.search import Call, Effect, KernelConfig

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
    attempt: int = 1  # for which time it is asked, from 1
    tried: Sequence[str] = ()  # the calls offered here before
    missing: Sequence[str] = ()  # what of the request is not done yet, in words


@dataclass(slots=True)
class Proposal:
    """What a model offered; the fields are those of an `OperationOutcome`."""

    calls: list[Call] = field(default_factory=list)  # most promising first
    confidences: list[float | None] = field(default_factory=list)  # one for each call; `None` where none came
    dropped: list[str] = field(default_factory=list)  # calls that cannot be made, each with the reason
    reward: float | None = None  # score of the latest result, where the reply gives one
    goal: float | None = None  # whether the request is fulfilled, where the reply says so, see `Standing`
    missing: Sequence[str] = ()  # what of it is not done yet
    error: str | None = None  # why the model could not be asked, if so

    @property
    def is_empty(self) -> bool:
        """Whether the model has replied, and offered nothing."""
        return not (self.calls or self.dropped or self.error)


@dataclass(frozen=True, slots=True)
class BoundTools:
    """Tools as they are bound to a question: what the model sees, and what of its calls is for the planner."""

    tools: Sequence[BaseTool]
    bound: Sequence[BaseTool | dict[str, Any]]
    scored: frozenset[str] = frozenset()  # names of the tools that have a field for the confidence
    assess: str | None = None  # name of the tool that says how the request stands, if there is one

    @classmethod
    def with_scores(cls, tools: Sequence[BaseTool], *, assess: bool, observed: bool = False) -> "BoundTools":
        """The tools with room for scores; the latest result is only asked about where there is one."""
        forms = {tool.name: _with_confidence(tool) for tool in tools}
        bound: list[BaseTool | dict[str, Any]] = [forms[tool.name] or tool for tool in tools]
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
    if "function" not in form or CONFIDENCE in properties:
        return None
    properties[CONFIDENCE] = {"type": "number", "description": CONFIDENCE_DESCRIPTION}
    parameters["required"] = [*parameters.get("required", ()), CONFIDENCE]
    return form


_ASSESSMENT = {
    name: {key: value for key, value in form.items() if key not in {"title", "default", "anyOf"}}
    for name, form in Assessment.model_json_schema()["properties"].items()
}


def _assessment(name: str, *, observed: bool) -> dict[str, Any]:
    properties = {each: _ASSESSMENT[each] for each in ("missing", "fulfilled")}
    if observed:
        properties = {"last_result": {"type": "number", **_ASSESSMENT["last_result"]}, **properties}
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": ASSESS_DESCRIPTION, "parameters": parameters}}


@dataclass(frozen=True, slots=True)
class Proposer:
    """Asks a model with tool calling for candidates."""

    model: BaseChatModel
    library: ToolLibrary
    effect_of: EffectOf  # what a call does to the world, by tool and arguments
    config: KernelConfig  # how candidates are asked for

    def propose(self, request: ProposalRequest, meter: Meter) -> Flow[Proposal]:
        """Ask a state for calls. Those that cannot be made are asked for again, once."""
        proposal = Proposal()
        tools = [self.library.by_name[name] for name in request.tools]
        ask = partial(self._ask, request, meter, proposal)
        if self.config.proposals == "per_tool":
            for tool in tools:
                yield from ask(BoundTools([tool], [tool]), DRAFT_PROMPT.format(tool=tool.name), attempts=1)
        elif self._has_scores:
            yield from self._ask_with_scores(request, meter, proposal, tools)
        else:
            yield from ask(BoundTools(tools, tools), PROPOSE_PROMPT.format(count=self.config.top_k))
        if proposal.dropped and meter.left:
            yield from self._repair(request, meter, proposal, tools)
        if proposal.calls:
            proposal.error = None
        return proposal

    @property
    def _has_scores(self) -> bool:
        """Whether scores are asked for with the candidates."""
        return self.config.selection == "posterior"

    def _ask_with_scores(
        self, request: ProposalRequest, meter: Meter, proposal: Proposal, tools: Sequence[BaseTool]
    ) -> Flow[None]:
        observed = bool(request.conversation) and is_observation(request.conversation[-1])
        candidates = CANDIDATES_PROMPT.format(count=self.config.top_k)
        bound = BoundTools.with_scores(tools, assess=True, observed=observed)
        end = ASSESS_PROMPT.format(assess=bound.assess)
        yield from self._ask(request, meter, proposal, bound, f"{candidates}\n\n{end}")
        if proposal.is_empty and proposal.goal == SAID_OPEN and meter.left:
            # Some models make one call in a reply, and theirs was to say how the request stands.
            instruction = f"{candidates}\n\n{NOTHING_PROMPT}"
            bound = BoundTools.with_scores(tools, assess=False)
            yield from self._ask(request, meter, proposal, bound, instruction)

    def _repair(
        self, request: ProposalRequest, meter: Meter, proposal: Proposal, tools: Sequence[BaseTool]
    ) -> Flow[None]:
        """Have invalid calls written again, once; what is still invalid stays a problem."""
        propose = PROPOSE_PROMPT.format(count=len(proposal.dropped))
        repair = REPAIR_PROMPT.format(problems=_listed(proposal.dropped))
        shown = BoundTools.with_scores(tools, assess=False) if self._has_scores else BoundTools(tools, tools)
        rewritten = Proposal()
        first_time = replace(request, attempt=1, missing=())
        yield from self._ask(first_time, meter, rewritten, shown, f"{propose}\n\n{repair}", attempts=1)
        proposal.calls += rewritten.calls
        proposal.confidences += rewritten.confidences
        proposal.dropped += rewritten.dropped

    def _ask(
        self,
        request: ProposalRequest,
        meter: Meter,
        proposal: Proposal,
        tools: BoundTools,
        instruction: str,
        *,
        attempts: int = ATTEMPTS,
    ) -> Flow[None]:
        """Ask for candidates, again if the model cannot be reached, and take them."""
        cards = {name: self.library.additions(name) for name in request.tools}
        messages = proposal_messages(request, instruction, cards)
        config = inner_config("propose", {})
        proposal.error = "the budget left no question"
        for _ in range(min(attempts, meter.left)):
            try:
                reply = yield from call_tools(self.model, tools.bound, messages, meter, config)
            except Exception as error:  # noqa: BLE001 - a model that fails ends the search with what it has
                proposal.error = f"the model failed: {described(error)}"
                if was_refused(error):
                    return  # it would be refused again
            else:
                proposal.error = None
                yield FunctionStep(partial(self._take, reply, tools), proposal)  # which may parse what was proposed
                return

    def _take(self, reply: AIMessage, tools: BoundTools, proposal: Proposal) -> None:
        """Read a reply: each call is a candidate, but for the one that says how the request stands."""
        names = {tool.name: tool for tool in tools.tools}
        offers = [call for call in reply.tool_calls if call["name"] != tools.assess]
        forms = (validated(Assessment, call["args"]) for call in reply.tool_calls if call["name"] == tools.assess)
        if assessment := next(forms, None):
            (proposal.goal, proposal.missing), proposal.reward = Standing.of(assessment), assessment.last_result
        most = READ_CANDIDATES * self.config.top_k
        for call in offers[:most]:
            arguments = dict(call["args"])
            problem: str | None = "there is no tool of this name"
            confidence = as_score(arguments.pop(CONFIDENCE, None)) if call["name"] in tools.scored else None
            if tool := names.get(call["name"]):
                arguments, problem = checked_arguments(tool, arguments)
            if problem:
                proposal.dropped.append(shortened(f"{Call(call['name'], arguments, 'write').label}: {problem}"))
                continue
            signed = message_to_dict(with_only_call(reply, call)) if _is_signed(reply) else None
            effect = self.effect_of(call["name"], arguments)
            proposal.calls.append(Call(call["name"], arguments, effect, signed))
            proposal.confidences.append(confidence)
        if len(offers) > most:
            proposal.dropped.append(f"{len(offers) - most} calls: only {most} of one reply are read")
        for broken in reply.invalid_tool_calls:
            proposal.dropped.append(shortened(f"{broken.get('name')}({broken.get('args')}): {UNREADABLE}"))


def proposal_messages(
    request: ProposalRequest, instruction: str, cards: Mapping[str, Any] | None = None
) -> list[BaseMessage]:
    """One system message, with the agent's own instructions, what was tried and what is missing, and the conversation.

    `cards` is what the cards of tools say beyond what is bound, by name.
    """
    parts = [instruction, UNTRUSTED]
    if lines := [f"{name}: {compact_json(card)}" for name, card in (cards or {}).items() if card]:
        parts.append(f"More about the tools:\n{_listed(lines)}")
    instructions = list(takewhile(lambda each: isinstance(each, SystemMessage), request.conversation))
    if instructions:
        own = "\n\n".join(str(each.text) for each in instructions)
        parts.append(INSTRUCTIONS_PROMPT.format(instructions=own))
    if request.attempt > 1:
        parts.append(TRIED_PROMPT.format(attempt=request.attempt, tried=_listed(request.tried or ["nothing"])))
    if request.missing:
        parts.append(MISSING_PROMPT.format(missing=_listed(request.missing)))
    return [SystemMessage("\n\n".join(parts)), *request.conversation[len(instructions) :]]


def _is_signed(reply: AIMessage) -> bool:
    """Whether a model may want more back than a call: reasoning or signatures, in blocks or additional arguments."""
    return isinstance(reply.content, list) or bool(reply.additional_kwargs.keys() - {"tool_calls", "refusal"})


def _listed(entries: Iterable[str]) -> str:
    # An entry is data: none of it begins a line of its own.
    return "\n".join(f"- {' '.join(entry.splitlines())}" for entry in entries)


RELEVANT = 0.3  # p_t in [0, 1] below which a tool is dropped, as the paper's ACL-format version prints it


def plan_tools(model: BaseChatModel, library: ToolLibrary, query: str, meter: Meter) -> Flow[tuple[str, ...]]:
    """Ask for the tools that a request may need.

    A tool stays if it belongs to a domain of the request (or to none), its relevance p_t is at least .3, its input can
    be had, and its output is of use. All of the library stays if the reply is unusable or would leave none: a planner
    that fails must not take tools away.
    """
    cards = [library.card(name) for name in library.names]
    prompt = document_prompt(PLAN_PROMPT, {"request": query, "tools": [*map(_in_short, cards)]})
    plan = yield from filled_in(model, CoarsePlan, prompt, inner_config("plan", {}), meter)
    if plan is None:
        return library.names
    unfit = {
        each.name for each in plan.tools if each.relevance < RELEVANT or not (each.obtainable and each.useful)
    }  # a tool that nothing was said of is not judged irrelevant
    domains = set(plan.domains)
    chosen = (
        card.name
        for card in cards
        if card.name not in unfit and (not card.domains or not domains or not domains.isdisjoint(card.domains))
    )
    return tuple(chosen) or library.names


def _in_short(card: ToolCard) -> dict[str, Any]:
    """What the question says of a tool: the first sentences of its description, its fields, and its examples."""
    examples = [one_line(compact_json(example), 300) for example in card.examples]
    short = {"name": card.name, "description": one_line(card.description, 300), "domains": [*card.domains]}
    fields = {
        "input": [*(card.input_schema or {}).get("properties", ())],
        "output": [*(card.output_schema or {}).get("properties", ())],
    }
    return {name: value for name, value in {**short, **fields, "examples": examples}.items() if value}
