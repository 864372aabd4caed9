"""CFGMMiddleware: experience recalled, trouble reflected upon and runs recorded, inside agents of `create_agent`."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.agents.structured_output import AutoStrategy, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from langchain_tooltree.cfgm.course import request_in, task_of
from langchain_tooltree.cfgm.detector import AnomalyDetector
from langchain_tooltree.cfgm.episodes import DEFAULT_COOLDOWN, DEFAULT_MAX_REFLECTIONS
from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.recall import recollection_text
from langchain_tooltree.cfgm.recovery import AnyTool, Recovery
from langchain_tooltree.cfgm.reflection import Reflector
from langchain_tooltree.cfgm.reminder import DEFAULT_K, check_k, check_memory, reminding
from langchain_tooltree.cfgm.tip import Tip
from langchain_tooltree.experience.run_ids import run_id
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.verdict import ModelVerdict, VerdictFunction, resolve_verdict
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.system_prompts import extended

logger = logging.getLogger(__name__)

MOST_RUNS = 1_000
"""Runs under way whose tools are remembered."""

Update = dict[str, Any]


class Recalled(TypedDict):
    """What was recalled for a request: plain data, since a checkpointer keeps it.

    Attributes:
        request: Id of the user's message.
        text: What the system prompt says; empty if nothing is known.
        tips: The tips, as `Tip.to_dict` has them.
    """

    request: str | None
    text: str
    tips: list[dict[str, Any]]


class CFGMState(AgentState[Any]):
    """The state of an agent with memory; what was recalled is nobody's input or output."""

    cfgm_recalled: NotRequired[Annotated[Recalled, PrivateStateAttr]]


class CFGMMiddleware(AgentMiddleware[CFGMState, Any, Any]):
    """Gives an agent memory, and helps it out where something is off.

    ```python
    memory = CFGMMemory("openai:gpt-4.1-mini", store)
    agent = create_agent(model, tools, middleware=[CFGMMiddleware("openai:gpt-4.1-mini", memory, verdict=verdict)])
    ```

    - *Recall*: when a run begins, the experiences and tips for the most similar tasks are recalled (CFGM, Alg. 3). They
      stand at the end of the system prompt of each model call, and never in the thread.
    - *Reflection*: where a tool's result is anomalous, a model extracts key information from the course so far, asks
      itself what went wrong, and gives the corrected next step, before the agent's model is asked again. The
      correction stands at the end of that result, marked as reference material. For one episode of trouble there is
      one reflection, and another one only if the trouble goes on. Without memory, this is all that is done.
    - *Recording*: when a run has come to its end, the conversation is judged and kept in memory, without what was
      recalled and advised. One that goes on takes the place of its beginning.

    Each is also an event: `{"type": "recall" | "anomaly" | "reflect", ...}` in `stream_mode="custom"`. Memory or a
    model that fails costs the help, and not the run. Put it after middleware that edits the system prompt, and before a
    `ToolTreeMiddleware`, whose proposals then know the tips.

    Args:
        model: Reflects: a chat model, a name for `init_chat_model`, or a `Reflector` with settings of its own.
        memory: Has the experiences. Variables of its namespace are filled from the agent's configuration or context.
        detector: Tells anomalous results from normal ones.
        recall: Whether to recall.
        reflect: Whether to look for anomalies and reflect on them.
        record: Whether to keep runs. Switch it off where a `TrajectoryRecorder` feeds the same store.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Without, runs are kept unjudged; only those that succeeded are recalled.
        cooldown: A reflection is followed by another one in the `cooldown`th round of calls after it at the earliest.
        max_reflections: How many reflections there may be from one message of the user to the next.
        k: How many experiences to recall at the most.

    Raises:
        ConfigurationError: If an argument is invalid.
    """

    state_schema = CFGMState

    def __init__(
        self,
        model: str | BaseChatModel | Reflector,
        memory: CFGMMemory | None = None,
        *,
        detector: AnomalyDetector | None = None,
        recall: bool = True,
        reflect: bool = True,
        record: bool = True,
        verdict: VerdictFunction | ModelVerdict | BaseChatModel | str | None = None,
        cooldown: int = DEFAULT_COOLDOWN,
        max_reflections: int = DEFAULT_MAX_REFLECTIONS,
        k: int = DEFAULT_K,
    ) -> None:
        super().__init__()
        check_memory(memory)
        check_k(k)
        recovery = Recovery.of(model, detector, cooldown=cooldown, max_reflections=max_reflections)
        self._recovery = recovery if reflect else None
        self._recalls_from = memory if recall else None
        self._records_in = memory if record else None
        self._judge = None if verdict is None else resolve_verdict(verdict)
        self._k = k
        self._offered: dict[str | None, list[AnyTool]] = {}

    def before_agent(self, state: CFGMState, runtime: Runtime[Any]) -> Update | None:
        """Recall what is known of tasks like the user's."""
        return run_flow(self._recall(state, runtime))

    async def abefore_agent(self, state: CFGMState, runtime: Runtime[Any]) -> Update | None:
        """The async twin of `before_agent`."""
        return await arun_flow(self._recall(state, runtime))

    def before_model(self, state: CFGMState, runtime: Runtime[Any]) -> Update | None:
        """Look at what the tools have brought back, and correct the course if need be.

        It is a step of the graph of its own, so that nobody is asked twice where a run is resumed or a model call
        is repeated.
        """
        return run_flow(self._correct(state, runtime))

    async def abefore_model(self, state: CFGMState, runtime: Runtime[Any]) -> Update | None:
        """The async twin of `before_model`."""
        return await arun_flow(self._correct(state, runtime))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Have the agent's model answer with what was recalled in its system prompt.

        Args:
            request: What the agent is about to ask its model.
            handler: Asks it.

        Returns:
            The model's response.
        """
        return handler(self._reminded(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        return await handler(self._reminded(request))

    def after_agent(self, state: CFGMState, runtime: Runtime[Any]) -> None:
        """Record a run that has come to its end; one that is interrupted has not."""
        run_flow(self._record(state, runtime))

    async def aafter_agent(self, state: CFGMState, runtime: Runtime[Any]) -> None:
        """The async twin of `after_agent`."""
        await arun_flow(self._record(state, runtime))

    def _recall(self, state: CFGMState, runtime: Runtime[Any]) -> Flow[Update | None]:
        request = request_in(state["messages"])
        task = task_of(state["messages"])
        if self._recalls_from is None or request is None or not task:
            return None
        known = state.get("cfgm_recalled")
        if known and known["request"] == request.id:
            return None  # nothing new was asked
        recollection = yield from reminding(
            self._recalls_from, task, k=self._k, own=run_id(runtime), writer=runtime.stream_writer
        )
        recalled = Recalled(
            request=request.id,
            text=recollection_text(recollection, max_characters=self._recalls_from.max_characters),
            tips=[tip.to_dict() for tip in recollection.tips],
        )
        return {"cfgm_recalled": recalled}

    def _reminded(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if self._recovery is not None:
            self._remember(run_id(request.runtime), [*request.tools, *_forms(request)])
        recalled: Mapping[str, Any] = request.state.get("cfgm_recalled") or {}  # type: ignore[assignment]
        if self._recalls_from is None or not recalled.get("text"):
            return request
        return request.override(system_message=extended(request.system_message, recalled["text"]))

    def _correct(self, state: CFGMState, runtime: Runtime[Any]) -> Flow[Update | None]:
        if self._recovery is None:
            return None
        message = yield from self._recovery.correcting(
            state["messages"],
            tools=self._offered.get(run_id(runtime)),
            tips=_tips(state),
            writer=runtime.stream_writer,
        )
        return None if message is None else {"messages": [message]}

    def _remember(self, run: str | None, tools: list[AnyTool]) -> None:
        """Which tools a run has now, until its end; of runs that never end, only the latest are kept."""
        self._offered.pop(run, None)
        self._offered[run] = tools
        for abandoned in list(self._offered)[:-MOST_RUNS]:
            self._offered.pop(abandoned, None)

    def _record(self, state: CFGMState, runtime: Runtime[Any]) -> Flow[None]:
        """Judge the conversation and keep it. What goes wrong does not disturb the run."""
        run = run_id(runtime)
        self._offered.pop(run, None)
        if self._records_in is None:
            return
        try:
            trajectory = Trajectory.from_messages(state["messages"], id=run)
            if self._judge is not None:
                verdict = yield from self._judge(trajectory)
                trajectory = trajectory.judged(verdict.success, verdict.reasons)
            yield from self._records_in.experience.adding(trajectory)
        except Exception as error:
            logger.exception("A run was not recorded: %s", error)  # noqa: TRY401 - names the reason in one line


def _forms(request: ModelRequest[Any]) -> list[dict[str, Any]]:
    """What the model is given to answer in a set form, which it calls like tools."""
    form = request.response_format
    if isinstance(form, AutoStrategy):
        form = ToolStrategy(form.schema)
    specs = form.schema_specs if isinstance(form, ToolStrategy) else ()
    return [{"name": spec.name, "description": spec.description, "parameters": spec.json_schema} for spec in specs]


def _tips(state: CFGMState) -> Flow[Iterable[Tip]]:
    """The tips that were recalled when the run began."""
    yield from ()
    recalled: Mapping[str, Any] = state.get("cfgm_recalled") or {}
    return [Tip.from_dict(tip) for tip in recalled.get("tips", ())]
