"""ToolTreeMiddleware: the planner in the loop of agents made with `create_agent`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any, NotRequired, Self, Unpack, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.middleware.internal_call_transformer import (
    InternalCallTransformer,
)
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_tooltree.experience.guide import Learner, checked_experience
from langchain_tooltree.experience.run_identity import (
    RECALLED_CHANNEL,
    ModelRequests,
    TurnNote,
)
from langchain_tooltree.flows import (
    CallStep,
    arun_flow,
    run_flow,
)
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.models import extended, quiet
from langchain_tooltree.tooltree.branches import KEY, Mark, VisitResult
from langchain_tooltree.tooltree.gate import gated
from langchain_tooltree.tooltree.host import Planner, PlannerHost, PlannerOptions
from langchain_tooltree.tooltree.planner import guide_of, visit

Handler = Callable[[ModelRequest[Any]], Any]


class PlannerState(AgentState[Any]):
    """The state of an agent with a planner: the mark is neither input nor output of the agent, and no message."""

    tooltree: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class ToolTreeMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Plans inside the agent's own loop: where an answer is doubtful, other calls are tried before it is given.

    The agent's steps are its own: the model is asked through the other middleware, and its calls, reads and writes
    alike, go to the agent's tools node. Where an answer says that something is missing, a read that was named or
    offered is made as an ordinary call, or the model is asked again, until the answer is complete or the extra model
    calls of `config` are spent. The best answer is returned, and branches that led nowhere are removed from the
    conversation. The answer's metadata tells what was tried, under `response_metadata["tooltree"]`.

    ```python
    agent = create_agent(model, tools, middleware=[ToolTreeMiddleware(effects={"search_flights": "read"})])
    ```

    It may stand anywhere in the list. A request with a `response_format`, with a forced `tool_choice` or without tools
    goes to the model as it is.

    Args:
        experience: What the agent has been through, as an `Experience` keeps it: it speaks where there is doubt, and
            each turn is kept in it when it ends.
        **options: As for `search`.

    Raises:
        ConfigurationError: If a part cannot work; the message names the value and the remedy.
    """

    state_schema = PlannerState
    transformers = (InternalCallTransformer,)

    def __new__(cls, *_: Any, experience: Learner | None = None, **__: Any) -> Self:
        """A planner with the hooks of one that learns, where it has something to learn from.

        A hook is a node in the graph of the agent, whether or not it does anything.
        """
        learns = experience is not None and cls is ToolTreeMiddleware
        planner: Self = super().__new__(
            cast("Any", _LearningMiddleware if learns else cls)
        )
        return planner

    def __init__(
        self, *, experience: Learner | None = None, **options: Unpack[PlannerOptions]
    ) -> None:
        super().__init__()
        self._planner = Planner(**options)
        self._experience = checked_experience(experience)
        self._requests = ModelRequests()

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> Any:
        """Make one visit; see `visit`."""
        self._hear(request)
        if not _is_planned(request):
            return handler(request)
        return run_flow(self._visited(request, handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """The async twin of `wrap_model_call`."""
        self._hear(request)
        if not _is_planned(request):
            return await handler(request)
        return await arun_flow(self._visited(request, handler))

    def _hear(self, request: ModelRequest[Any]) -> None:
        """Remember what the model was offered, where there is something to learn from."""

    async def _visited(self, request: ModelRequest[Any], handler: Handler) -> Any:
        offering = self._planner.offering(request.tools)
        mark = Mark.from_dict(request.state.get(KEY))
        branches = self._planner.branches(request.messages, mark, offering)
        remembered: Any = request.state.get(RECALLED_CHANNEL)
        experience = self._experience
        guide = (
            None
            if experience is None
            else partial(guide_of, experience, request.messages, remembered)
        )
        host = _RequestHost(
            self._planner,
            offering,
            guide=guide,
            model=request.model,
            system=request.system_message,
            state=request.state,
            line=self._planner.report_prompt(request.system_message, offering),
            request=request,
            handler=handler,
        )
        outcome = await visit(host, branches)
        response = _response(host, outcome)
        if outcome.ended is not None and (recalled := outcome.ended.mark.recalled):
            response.command.update[RECALLED_CHANNEL] = {
                **(remembered or {}),
                "recalled": recalled,
            }
        return response


class LearningState(PlannerState):
    """The state of an agent that learns: what was recalled is neither input nor output of the agent, and no message."""

    tooltree_recalled: NotRequired[Annotated[TurnNote, PrivateStateAttr]]


class _LearningMiddleware(ToolTreeMiddleware):
    """A planner with experience: a turn is kept when it ends, for who it was for when it began."""

    state_schema = LearningState

    @property
    def name(self) -> str:
        """The name that it has without experience, too."""
        return ToolTreeMiddleware.__name__

    def _hear(self, request: ModelRequest[Any]) -> None:
        self._requests.add(request.runtime, request.tools, request.system_message)

    def before_agent(
        self,
        state: Any,
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """Note whose turn begins, and take in what was learnt meanwhile."""
        return run_flow(self.before_agent_flow(state, runtime))

    async def abefore_agent(
        self,
        state: Any,
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """Async version of `before_agent`."""
        return await arun_flow(self.before_agent_flow(state, runtime))

    async def before_agent_flow(
        self,
        state: Any,
        runtime: Runtime[Any],  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Flow of `before_agent` and `abefore_agent`; other flows await it."""
        assert self._experience is not None  # noqa: S101 - for mypy
        remembered = await self._experience.begin(
            Conversation.of(state), state.get(RECALLED_CHANNEL) or {}
        )
        return {RECALLED_CHANNEL: remembered}

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """Keep the turn; one that was interrupted is not over."""
        run_flow(self.after_agent_flow(state, runtime))

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """Async version of `after_agent`."""
        await arun_flow(self.after_agent_flow(state, runtime))

    async def after_agent_flow(self, state: Any, runtime: Runtime[Any]) -> None:
        """Flow of `after_agent` and `aafter_agent`; other flows await it."""
        offered = self._requests.pop(runtime)
        tools, instructions = [*offered.tools.values()], offered.instructions
        if self._experience is not None and (remembered := state.get(RECALLED_CHANNEL)):
            await self._experience.end(
                state["messages"],
                remembered,
                tools=tools,
                effects=self._planner.effects,
                instructions=instructions,
            )


class BranchCleanup(AgentMiddleware[AgentState[Any], Any, Any]):
    """Removes the branches of a search that other middleware has ended in the middle, such as a limit.

    `create_tooltree_agent` adds it where there is such middleware. Without it they go with the next turn.
    """

    state_schema = PlannerState

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Remove what is hidden; no answer is published here, past guards of answers."""
        hidden = set(Mark.from_dict(state.get(KEY)).hidden)
        if not hidden:
            return None
        gone = [
            RemoveMessage(id=each.id) for each in state["messages"] if each.id in hidden
        ]
        return {"messages": gone, KEY: Mark().to_dict()}

    async def aafter_agent(
        self, state: Any, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """The async twin of `after_agent`."""
        return self.after_agent(state, runtime)


def _is_planned(request: ModelRequest[Any]) -> bool:
    """Whether a request has room for a report: a set form has none, and a forced call is no answer."""
    return (
        bool(request.tools)
        and request.response_format is None
        and request.tool_choice in (None, "auto")
    )


@dataclass(slots=True)
class _RequestHost(PlannerHost):
    """Asks the agent's model through the middleware around it."""

    request: Any = None
    handler: Any = None
    response: ModelResponse[Any] = field(
        default_factory=lambda: ModelResponse(result=[])
    )

    async def ask(
        self, messages: Sequence[BaseMessage], *, line: str = "", silent: bool = True
    ) -> AIMessage:
        """The agent's own request, with other messages."""
        request = self.request
        system = self.instructions_for(request.system_message, messages)
        if system is not request.system_message:
            request = request.override(system_message=system)
        asked = _Question.of(request, messages, quiet if silent else gated, line)
        self.response = await _respond(self.handler, asked)
        return next(
            (each for each in self.response.result if isinstance(each, AIMessage)),
            AIMessage(""),
        )


class _Question(ModelRequest[Any]):
    """A request of the planner's, to which middleware behind it may give another model or other instructions.

    Such a model, a fallback for instance, is gated or made quiet as the agent's own is, and instructions that replace
    others get the line that asks for a report back: no report would be asked for, or it would stand in streams.
    """

    prepared: Callable[[Any], Any]
    line: str

    @classmethod
    def of(
        cls,
        request: ModelRequest[Any],
        messages: Any,
        prepared: Callable[[Any], Any],
        line: str = "",
    ) -> Self:
        """A request with other messages, whose models are `prepared`, and with a line behind its instructions."""
        values = {each.name: getattr(request, each.name) for each in fields(request)}
        asked = cls(
            **{**values, "messages": messages, "model": prepared(request.model)}
        )
        return asked.holding(prepared, line)

    def override(self, **overrides: Any) -> Self:
        """A request with other values, as that of any request."""
        if overrides.get("model", self.model) is not self.model:
            overrides["model"] = self.prepared(overrides["model"])
        return cast("Self", super().override(**overrides)).holding(
            self.prepared, self.line
        )

    def holding(self, prepared: Callable[[Any], Any], line: str) -> Self:
        """This request, which is new, with what its models and its instructions are to keep."""
        system = self.system_message
        if line and (system is None or line not in system.text):
            system = extended(system, line)
        for name, value in (
            ("prepared", prepared),
            ("line", line),
            ("system_message", system),
        ):
            object.__setattr__(
                self, name, value
            )  # the usual way warns: a request is not to be changed
        return self


async def _respond(handler: Any, request: Any) -> ModelResponse[Any]:
    """Call the handler, which is sync or async as the hook is."""
    ask = partial(handler, request)
    result = await CallStep(ask, ask)
    if isinstance(result, ExtendedModelResponse):
        return result.model_response
    return (
        result if isinstance(result, ModelResponse) else ModelResponse(result=[result])
    )


def _response(host: _RequestHost, outcome: VisitResult) -> Any:
    """What the hook returns: the own step as it came, or another message, with what the state is to keep."""
    response = (
        ModelResponse(result=[outcome.message])
        if outcome.message is not None
        else host.response
    )
    if outcome.message is None:
        at = next(
            (
                at
                for at, each in enumerate(response.result)
                if isinstance(each, AIMessage)
            ),
            0,
        )
        response = replace(
            response,
            result=[*response.result[:at], host.reply, *response.result[at + 1 :]],
        )
    if outcome.before:
        response = replace(response, result=[*outcome.before, *response.result])
    update: dict[str, Any] = {}
    if outcome.mark is not None:
        update[KEY] = outcome.mark.to_dict()
    if outcome.remove:
        update["messages"] = [RemoveMessage(id=each) for each in outcome.remove]
    return (
        ExtendedModelResponse(response, Command(update=update)) if update else response
    )
