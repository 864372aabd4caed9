"""ToolTreeMiddleware: a planner inside agents made with `create_agent`."""

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, NotRequired, Self, Unpack, cast

from langchain.agents import factory
from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.agents.structured_output import AutoStrategy, OutputToolBinding, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import Runtime

from langchain_tooltree._langgraph import configurable_here, namespace_here, stream_now
from langchain_tooltree.anomaly.detector import standard_detector
from langchain_tooltree.anomaly.rules import SURE
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects.calls import CallEffects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.guide import REMEMBERED, Learner, Remembered, checked_experience, room_for
from langchain_tooltree.experience.run_identity import OfferedTools, heard_as
from langchain_tooltree.flows import Flow, arun_flow, async_twin, driven, run_flow
from langchain_tooltree.models import AGENT_NAME, resolve_model
from langchain_tooltree.text import forget_oldest
from langchain_tooltree.tooltree.driver import remembered, searched, with_option_docs
from langchain_tooltree.tooltree.planner import KEPT, KEPT_SEARCHES, Planner, PlannerOptions, Turn, with_options
from langchain_tooltree.tooltree.result import SearchCost, SearchResult, plan_metadata
from langchain_tooltree.tooltree.search import SearchConfig
from langchain_tooltree.tooltree.tool_executor import HostHooks
from langchain_tooltree.tooltree.tools import ToolCard, ToolLibrary


def deserves_search(request: ModelRequest[Any]) -> bool:
    """Whether a model call is worth a search that costs more than the call: see `ToolTreeMiddleware(when=...)`.

    It is where a turn of the user begins, where another agent has handed over, where something is off in what came back
    last, as `AnomalyDetector` tells it, and where a plan that was explored in a sandbox goes on after one of its
    writes. All other model calls go straight to the model.
    """
    said = Conversation(request.messages)
    if not said.observations:
        return said.latest in {"request", "summary"}
    latest = next(said.rounds())
    if latest.reply is None:
        return False
    # A call that a person has rejected is no anomaly, and still a reason to plan anew.
    failed = any(result.status == "error" for result in latest.observations)
    if not failed and not _corrects_form(request):
        anomaly = standard_detector().check(said)
        failed = anomaly is not None and anomaly.confidence >= SURE
    goes_on = bool(plan_metadata(latest.reply).get("plan"))
    return failed or goes_on or _handed_over(request, latest.reply)


@with_option_docs
class ToolTreeMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Plans the model calls of an agent that deserve it by a search over real tool calls.

    In place of the agent's model call, a search finds the best next calls. It begins with the agent's own step, asked
    as the agent asks it, and goes on from there. Reads that were tried come back as calls with their results, so
    nothing runs twice, with the answer behind them. If the best next step is a write, it comes back as an ordinary tool
    call, for the agent's own tools node, approval, retries and limits; writes of one reply come back together.

    An answer found while searching arrives whole in `stream_mode="messages"`, since before it is checked nobody knows
    whether it is the one. The agent's own model is asked for the answer, token by token, where the request has
    provider-side tools or a `response_format` that the provider fills in, or another model searches.

    ```python
    agent = create_agent(model, tools, middleware=[ToolTreeMiddleware(effects={"search_flights": "read"})])
    ```

    Put it last in the list. Middleware before it (dynamic prompts, tool selection, context editing) then shapes what
    the search gets to see, and each request is planned with the model, the tools and the system prompt that it comes
    with. Provider-side tools (dicts) stay with the agent's own model call. A request with a forced `tool_choice`
    goes straight to the model. Where middleware in front asks again because the answer failed, the plan is kept.

    A search counts as one model call for `ModelCallLimitMiddleware`, and calls tried while searching do not count for
    `ToolCallLimitMiddleware`: those limits guard the agent's loop, while what one search may spend stands in `config`.

    Args:
        model: Proposes calls; the agent's model if left out.
        **options: As for `search`.
        cards: Cards with domains, output schemas and examples for some of the tools.
        when: Decides which model calls deserve a search. If left out, it is every call in place of which a search asks
            the same (`SearchConfig(proposals="own_step")`), and otherwise what `deserves_search` says.
        host_middleware: The agent's other middleware. Searched calls then pass through its `wrap_tool_call`, results
            through the redaction of `PIIMiddleware(apply_to_tool_results=True)`, and tools under `interrupt_on` of
            `HumanInTheLoopMiddleware` are never run while searching. Middleware cannot see its neighbours, so
            without this, searched reads run bare. `create_tooltree_agent` fills it in.
        experience: What the agent has been through, as an `Experience` keeps it: it is recalled when a turn begins,
            guides each search, and each turn is kept in it when it ends.

    Raises:
        ConfigurationError: If a part cannot work. What depends on the tools is found out by `prepare`, or at the first
            request; the message names the value and the remedy.
    """

    def __new__(cls, *_: Any, experience: Learner | None = None, **__: Any) -> Self:
        """A planner with the hooks of one that learns where it has something to learn from, and without them otherwise.

        A hook is a node in the graph of the agent, whether or not it does anything.
        """
        kind: Any = cls if experience is None else cast("Any", _learning)(cls)
        made: Self = super().__new__(kind)
        return made

    @with_options
    def __init__(
        self,
        model: str | BaseChatModel | None = None,
        *,
        cards: Iterable[ToolCard] = (),
        when: Callable[[ModelRequest[Any]], bool] | None = None,
        host_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
        experience: Learner | None = None,
        **options: Unpack[PlannerOptions],
    ) -> None:
        super().__init__()
        self._experience = checked_experience(experience)
        self._offered = OfferedTools()
        if when is not None and not callable(when):
            msg = f"when must be a function from a ModelRequest to a bool, got {when!r}."
            raise ConfigurationError(msg)
        self._model = None if model is None else resolve_model(model)
        self._options = options
        self._effects = CallEffects.declared_as(options.get("effects"))
        self._known: dict[str, BaseTool] = {}  # the tools that bore their names first
        if isinstance(judge := options.get("judge"), str):  # every planner of this agent then has the same
            self._options["judge"] = resolve_model(judge)
        if isinstance(judge := options.get("post_judge"), str):
            self._options["post_judge"] = resolve_model(judge)
        self._options["embeddings"] = resolve_embeddings(options.get("embeddings"))
        self._cards = tuple(cards)
        self._when = when
        self._host_hooks = HostHooks.of(host_middleware)
        self._planners: dict[tuple[Any, ...], Planner] = {}
        self._unanswered: dict[tuple[str, str], _Planned] = {}
        self._forms: dict[int, tuple[Any, list[BaseTool]]] = {}
        self._lock = threading.Lock()

    __new__.__dict__["__signature__"] = inspect.signature(__init__)  # what `help()` shows

    def prepare(self, model: BaseChatModel, tools: Iterable[BaseTool | Callable[..., Any]]) -> Mapping[str, BaseTool]:
        """Check the parts against the model and all tools of an agent, instead of at its first request.

        Returns the tools of which some calls may run while searching, by name.

        Raises:
            ConfigurationError: If the parts do not fit together.
            ToolDefinitionError: If `effects`, `cards` or the sandbox names a tool that the agent does not have.
        """
        planner = self._planner(model, list(ToolLibrary(tools)), {}, selection=False)
        return planner.effects.searched(planner.library)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Plan, then have the agent's model answer; or leave a request that deserves no search to the model."""
        planned = run_flow(self._planned(request))
        if planned is None:
            return handler(request)
        plan = planned.messages_for(request)
        if planned.is_whole_for(request):
            return ModelResponse(plan)
        reply = plan.pop() if planned.fills_in_form_of(request) else None
        with self._kept_if_unanswered(planned, but=reply):
            stream_now(plan)
            response = handler(_continued(request, plan, reply))
        return run_flow(planned.with_response(plan, response, reply))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        planned = await arun_flow(self._planned(request))
        if planned is None:
            return await handler(request)
        plan = planned.messages_for(request)
        if planned.is_whole_for(request):
            return ModelResponse(plan)
        reply = plan.pop() if planned.fills_in_form_of(request) else None
        with self._kept_if_unanswered(planned, but=reply):
            stream_now(plan)
            response = await handler(_continued(request, plan, reply))
        return await arun_flow(planned.with_response(plan, response, reply))

    def _planned(self, request: ModelRequest[Any]) -> "Flow[_Planned | None]":
        """The plan for a request, as a flow; `None` for one that deserves no search.

        It may be one that the current task of the graph has made before, if its answer failed and its tools are there.
        """
        if self._experience is not None:
            heard = heard_as(request.runtime)
            self._offered.hear(heard, request.tools)
            self._offered.hear_instructions(heard, request.system_message)
        turn = self._turn(request)
        if turn is None:
            return None
        with self._lock:
            kept = self._unanswered.pop(_current_task(), None)
        if kept and kept.result.steps and {call.tool for call in kept.result.calls} <= set(turn.planner.library.names):
            return kept
        if self._experience is not None and (remembered := _remembered(request.state)):
            room = room_for(turn.system, turn.planner.library.size, turn.said)
            guide = yield from self._experience.guide(remembered, room, turn.planner.effects.declared)
            turn = replace(turn, guide=guide)
        result = yield from searched(turn)
        spent = {**(kept.spent if kept else {}), result.search_id: result.cost}
        for search, cost in spent.items():
            if search != result.search_id:  # which a resumed task finds again
                result = result.after(cost)
        return _Planned(turn.planner.model, result, spent)

    def _turn(self, request: ModelRequest[Any]) -> Turn | None:
        """The request as a turn of the planner, if it deserves a search and has something to plan with."""
        tools = [tool for tool in request.tools if isinstance(tool, BaseTool)]
        forced = request.tool_choice not in (None, "auto")  # it may be a dict
        said = Conversation(request.messages)
        if not tools or forced or not said.goal or not self._deserves_search(request):
            return None
        return Turn(
            planner=self._planner(request.model, tools, request.model_settings, self._form_tools(request)),
            messages=request.messages,
            system=[request.system_message] if request.system_message else [],
            state=request.state,
            read=said,
        )

    def _form_tools(self, request: ModelRequest[Any]) -> list[BaseTool]:
        """The tools whose call is the answer, if it is one, as the agent itself has them."""
        asked, form = request.response_format, _form_of(request)
        if form is None or self._model is not None:
            return []
        with self._lock:
            if id(asked) not in self._forms:
                made = [OutputToolBinding.from_schema_spec(spec).tool for spec in form.schema_specs]
                self._forms[id(asked)] = asked, made  # no other form gets its id
                forget_oldest(self._forms, KEPT)
            return self._forms[id(asked)][1]

    def _deserves_search(self, request: ModelRequest[Any]) -> bool:
        """Whether the user wants a search here; if nobody said so, whether it begins with the very call it replaces."""
        if self._when is not None:
            return self._when(request)
        proposals = getattr(self._options.get("config") or SearchConfig(), "proposals", None)
        costs_nothing = proposals == "own_step" and _asks_alike(self._model or request.model, request)
        return (costs_nothing and not _corrects_form(request)) or deserves_search(request)

    def _planner(
        self,
        model: BaseChatModel,
        tools: Sequence[BaseTool],
        settings: Mapping[str, Any],
        forms: Sequence[BaseTool] = (),
        *,
        selection: bool = True,
    ) -> Planner:
        """The planner for a model, its settings and a selection of tools; most agents have only ever one."""
        options = self._options.copy()
        if self._model is not None:
            model, settings = self._model, {}
        if forms:  # as the agent does it, every reply is a call, and no form is ever hidden
            config = options.get("config") or SearchConfig()
            always = (*config.always_include, *(form.name for form in forms))
            options["config"] = replace(config, always_include=always)
            tools, settings = [*tools, *forms], {**settings, "tool_choice": "any"}
        key = (id(model), repr(settings), *map(id, tools))
        with self._lock:
            planner = self._planners.get(key)
            if planner is None:
                names = {tool.name for tool in tools}
                cards = [card for card in self._cards if card.name in names or not selection]
                library = ToolLibrary(tools, cards)
                for tool in tools:
                    self._known.setdefault(tool.name, tool)
                options["effects"] = self._effects.pinned(self._known)
                planner = Planner(
                    model,
                    library,
                    **options,
                    host_hooks=self._host_hooks.holding_back(tool.name for tool in tools if tool.return_direct),
                    selection=selection,
                    model_settings=settings,
                )
                self._planners[key] = planner
                forget_oldest(self._planners, KEPT)
        return planner

    @contextmanager
    def _kept_if_unanswered(self, planned: "_Planned", *, but: BaseMessage | None) -> Iterator[None]:
        """Keep a plan whose answer fails for where middleware in front asks again: nothing is then searched twice.

        If the plan holds the answer, which is given as `but`, it would only fail again, and without a step another
        model may well find a plan; what was spent is then counted.
        """
        try:
            yield
        except Exception:
            if but is not None:
                planned = replace(planned, result=replace(planned.result, steps=()))
            with self._lock:
                self._unanswered[_current_task()] = planned
                forget_oldest(self._unanswered, KEPT_SEARCHES)
            raise


class LearningState(AgentState[Any]):
    """The state of an agent that learns: what was recalled is neither input nor output of the agent, and no message."""

    tooltree_recalled: NotRequired[Annotated[Remembered, PrivateStateAttr]]


class _Learning(ToolTreeMiddleware):
    """A planner with experience: what is known is recalled when a turn begins, and the turn is kept when it ends."""

    state_schema = LearningState

    @driven
    def before_agent(self, state: Any, runtime: Runtime[Any]) -> Flow[dict[str, Any] | None]:  # noqa: ARG002
        """Recall what is known of tasks like the user's."""
        assert self._experience is not None  # noqa: S101 - for mypy
        remembered = yield from self._experience.begun(Conversation.of(state), _remembered(state))
        return {REMEMBERED: remembered}

    abefore_agent = async_twin(before_agent)  # type: ignore[arg-type] # mypy takes `self` from the base class

    @driven
    def after_agent(self, state: Any, runtime: Runtime[Any]) -> Flow[None]:
        """Keep the turn; one that was interrupted is not over."""
        heard = heard_as(runtime)
        tools = [tool for tool in self._offered.take(heard).values() if tool is not None]
        instructions = self._offered.take_instructions(heard)
        if self._experience is not None and (remembered := _remembered(state)):
            effects = self._effects.pinned(self._known)
            ended = partial(self._experience.ended, state["messages"], remembered, tools=tools, effects=effects)
            yield from ended(instructions=instructions)

    aafter_agent = async_twin(after_agent)  # type: ignore[arg-type] # as above


def _remembered(state: Any) -> Mapping[str, Any]:
    remembered: Mapping[str, Any] = state.get(REMEMBERED) or {}
    return remembered


@cache
def _learning(cls: type[Any]) -> type[Any]:
    """A kind of planner with the hooks of one that learns, under the same name; its own come first."""
    if issubclass(cls, _Learning):
        return cls
    bases = (_Learning,) if cls is ToolTreeMiddleware else (cls, _Learning)
    return type(cls.__name__, bases, {"__doc__": cls.__doc__, "__module__": cls.__module__})


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan, and the model that proposed its calls."""

    model: BaseChatModel
    result: SearchResult
    spent: Mapping[str, SearchCost]  # by the searches of its turn: it, and those before it whose answers failed

    def messages_for(self, request: ModelRequest[Any]) -> list[BaseMessage]:
        """The plan for the model that answers from it, by the name of the agent, as that model's own messages are."""
        name = get_config().get("metadata", {}).get(AGENT_NAME)
        result = self.result if self.is_whole_for(request) else replace(self.result, answer=None)
        messages = result.messages if request.model is self.model else result.plain_messages
        for message in messages:
            if name and isinstance(message, AIMessage):
                message.name = name
        return messages

    def with_response(
        self, plan: Sequence[BaseMessage], response: ModelResponse[Any], reply: BaseMessage | None
    ) -> Flow[ModelResponse[Any]]:
        """The plan and what the agent's own model has said behind it, which then tells what all of it cost.

        A `reply` that the search has found tells it already.
        """
        said: list[Any] = [*response.result]
        if reply is None and (replies := [at for at, message in enumerate(said) if isinstance(message, AIMessage)]):
            result = yield from remembered(self.result.with_answer(said[replies[-1]]))
            said[replies[-1]] = result.answer
        return replace(response, result=[*plan, *said])

    def is_whole_for(self, request: ModelRequest[Any]) -> bool:
        """Whether nothing is left to say: calls wait, or the answer is what the agent's model would say itself."""
        if self.result.waiting:
            return not self.fills_in_form_of(request)
        return self.result.answer is not None and request.response_format is None and _asks_alike(self.model, request)

    def fills_in_form_of(self, request: ModelRequest[Any]) -> bool:
        """Whether the plan ends in the call that is the answer, which the agent makes a structured response of."""
        names = _forms_of(request.response_format)
        return any(step.call.tool in names for step in self.result.waiting)


class _Replied:
    """Stands for a model whose reply is known: a search has asked it, and what the agent makes of it is its own.

    It is no chat model, so that no callback hears of the same request twice.
    """

    def __init__(self, reply: BaseMessage) -> None:
        self._reply = reply

    def bind_tools(self, *_: Any, **__: Any) -> "_Replied":
        """The reply was made with the agent's tools."""
        return self

    def invoke(self, _: Any) -> BaseMessage:
        """The reply."""
        return self._reply

    async def ainvoke(self, _: Any) -> BaseMessage:
        """The async twin of `invoke`."""
        return self._reply


def _asks_alike(model: BaseChatModel, request: ModelRequest[Any]) -> bool:
    """Whether a model is asked for its own step as the agent asks it.

    A form of the answer that is no tool, and tools that the provider runs, reach the agent's own call only.
    """
    own = model is request.model and (request.response_format is None or _form_of(request) is not None)
    return own and not any(isinstance(tool, dict) for tool in request.tools)


def _handed_over(request: ModelRequest[Any], reply: AIMessage) -> bool:
    """Whether another agent made the calls of a message: this one has none of the tools."""
    own = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
    called = {call["name"] for call in reply.tool_calls}
    return bool(called) and called.isdisjoint(own | _forms_of(request.response_format))


def _corrects_form(request: ModelRequest[Any]) -> bool:
    """Whether the model has filled in a form wrongly: nothing else has to be found out."""
    said = Conversation(request.messages)
    reply = next(said.rounds()).reply if said.observations else None
    names = _forms_of(request.response_format)
    return reply is not None and any(call["name"] in names for call in reply.tool_calls)


def _form_of(request: ModelRequest[Any]) -> ToolStrategy[Any] | None:
    """The form of a request's answer, if to the agent, too, it is a tool, and none that the provider fills in."""
    form = request.response_format
    if isinstance(form, ToolStrategy):
        return form
    by_provider = getattr(factory, "_supports_provider_strategy", lambda *_, **__: True)  # as the agent decides it
    if not isinstance(form, AutoStrategy) or by_provider(request.model, tools=request.tools):
        return None
    # A schema without a title has a new name each time it is read.
    return ToolStrategy(form.schema) if _forms_of(form) == _forms_of(form) else None


def _forms_of(answer: Any) -> set[str]:
    """Names of the tools whose call is the answer."""
    if isinstance(answer, AutoStrategy):
        answer = ToolStrategy(answer.schema)
    return {spec.name for spec in answer.schema_specs} if isinstance(answer, ToolStrategy) else set()


def _continued(request: ModelRequest[Any], plan: Sequence[BaseMessage], reply: BaseMessage | None) -> ModelRequest[Any]:
    """The request after a plan; `reply` is what the model has said to it, if that is known."""
    messages: list[Any] = [*request.messages, *plan]
    continued = request.override(messages=messages)
    return continued if reply is None else continued.override(model=cast("Any", _Replied(reply)))


def _current_task() -> tuple[str, str]:
    """What LangGraph knows the running model node by: another one in every step of every run."""
    return str((configurable_here() or {}).get("thread_id", "")), namespace_here()
