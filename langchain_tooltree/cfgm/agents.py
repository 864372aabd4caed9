"""CFGM in agents: `CFGMMiddleware` for `create_agent`, and nodes that recall and reflect for graphs of your own."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime

from langchain_tooltree.anomaly.detector import AnomalyDetector
from langchain_tooltree.cfgm.memory import (
    DEFAULT_RECALLED_RUNS,
    CFGMMemory,
    check_memory,
    recovery_with,
)
from langchain_tooltree.cfgm.online import AgentTool, Reflector
from langchain_tooltree.cfgm.recall import PAST_RUNS, Tip, examples_in, recall_text
from langchain_tooltree.errors import check_count
from langchain_tooltree.experience.recorder import RunRecorder
from langchain_tooltree.experience.run_identity import (
    TurnNote,
    is_collecting,
    names_of,
    run_id,
    turn_note,
)
from langchain_tooltree.experience.trajectory import Recall
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.flows import arun_flow, run_flow
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import remark_reference
from langchain_tooltree.messages.request_summary import summarize_requests
from langchain_tooltree.messages.visible_messages import get_visible_messages
from langchain_tooltree.models import extended
from langchain_tooltree.streaming import (
    StreamWriter,
    get_current_runtime,
    get_stream_writer,
)

logger = logging.getLogger(__name__)


class Recalled(TurnNote):
    """What a run began with, and what was recalled for its request: plain data, since a checkpointer keeps it."""

    runs: list[str]  # ids of the runs, most similar first
    tips: list[dict[str, Any]]  # as memory writes them
    latest: str  # what the user asked for last
    text: str  # for the system prompt; empty if nothing is known


class CFGMState(AgentState[Any]):
    """The state of an agent with memory.

    What begins with `cfgm_` is neither input nor output of the agent, but a checkpointer keeps it and streams show it.
    """

    cfgm_recalled: NotRequired[Annotated[Recalled, PrivateStateAttr]]


class CFGMMiddleware(AgentMiddleware[CFGMState, Any, Any]):
    """Gives an agent memory, and helps it out where something is off.

    ```python
    memory = CFGMMemory("openai:gpt-4.1-mini", store)
    agent = create_agent(model, tools, middleware=[CFGMMiddleware("openai:gpt-4.1-mini", memory, verdict=verdict)])
    ```

    - *Recall*: when a run begins, the runs and tips for the most similar tasks are added to the system prompt of each
      model call (CFGM, Alg. 3).
    - *Reflection*: where a tool's result is anomalous, a model extracts key information, asks itself what went wrong,
      and gives the corrected next step, which is added to that result. A single anomaly is left to the agent; trouble
      that goes on gets one reflection, and another one only if it goes on still.
    - *Recording*: when a run ends, it is judged and kept in memory, without what was recalled and advised.

    Each is also an event: `{"type": "recall" | "anomaly" | "reflect", ...}` in `stream_mode="custom"`. If memory or a
    model fails, the agent goes on without this help. Put it after other middleware that edits the system prompt. Runs
    of `CFGMMemory.collect` are left alone.

    Args:
        model: Reflects: a chat model, a name for `init_chat_model`, or a `Reflector` with settings of its own.
        memory: Has past runs and tips. Variables of its namespace are filled from the agent's context or configuration
            when a run begins, and stand until its end; `ConfigurationError` is raised if one is not known.
        detector: Tells anomalous results from normal ones.
        recall: Whether to recall.
        reflect: Whether to look for anomalies and reflect on them.
        record: Whether to keep runs; a `TrajectoryRecorder` with the same store adds to the same records.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Only runs that succeeded are recalled.
        cooldown: Rounds of calls from one reflection to the next at the least: 3 if left out.
        max_reflections: Reflections from one message of the user to the next at the most: 5 if left out.
        patience: Anomalies of one episode that pass before the first reflection: 1 if left out. A loop is reflected
            upon at once. With a `CFGMMemory.paper()`, each anomaly is if these three are left out.
        k: How many runs to recall at the most.
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
        verdict: AnyVerdict | None = None,
        cooldown: int | None = None,
        max_reflections: int | None = None,
        patience: int | None = None,
        k: int = DEFAULT_RECALLED_RUNS,
    ) -> None:
        super().__init__()
        check_memory(memory)
        check_count("k", k)
        budget = {
            "cooldown": cooldown,
            "max_reflections": max_reflections,
            "patience": patience,
        }
        self._recovery = (
            recovery_with(memory, model, detector, **budget) if reflect else None
        )
        self._memory = memory if recall or record else None
        self._recalls = recall and memory is not None
        self._records = record and memory is not None
        self._recorder = RunRecorder(verdict)
        if self._records and verdict is None:
            logger.info(
                "Runs are kept without a verdict, so that they will not be recalled. Pass verdict=."
            )
        self._k = k

    def before_agent(self, state: CFGMState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Recall what is known of tasks like the user's."""
        return run_flow(self.before_agent_flow(state, runtime))

    async def abefore_agent(
        self, state: CFGMState, runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Async version of `before_agent`."""
        return await arun_flow(self.before_agent_flow(state, runtime))

    async def before_agent_flow(
        self, state: CFGMState, runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Flow of `before_agent` and `abefore_agent`; other flows await it."""
        memory = None if is_collecting() else self._memory
        conversation = Conversation.of(state)
        namespace = {} if memory is None else memory.experience.within_config().values
        earlier: Mapping[str, Any] = state.get("cfgm_recalled") or {}
        if earlier.get("namespace") != namespace:
            earlier = {}
        turn = turn_note(conversation, earlier, namespace)
        latest = conversation.task or earlier.get("latest", "")
        is_new = conversation.task and not (
            earlier and earlier["request"] == turn["request"]
        )  # at least in words
        if memory is None or not self._recalls or not is_new:
            recall = {
                name: earlier[name]
                for name in ("runs", "tips", "text")
                if name in earlier
            }
            return {
                "cfgm_recalled": {
                    **Recalled(**turn, runs=[], tips=[], latest=latest, text=""),
                    **recall,
                }
            }
        aim = summarize_requests(dict.fromkeys([turn["first"], *conversation.requests]))
        recollection = await memory.recaller.recall_here(
            aim, k=self._k, own=run_id(runtime), writer=runtime.stream_writer
        )
        text = recall_text(recollection, max_characters=memory.max_characters)
        runs, tips = (
            [run.id for run in recollection.runs],
            [tip.to_dict() for tip in recollection.tips],
        )
        return {
            "cfgm_recalled": Recalled(
                **turn, runs=runs, tips=tips, latest=latest, text=text
            )
        }

    def before_model(
        self, state: CFGMState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Look at what the tools have brought back, and correct the course if need be.

        It is a step of the graph of its own: no model is asked twice where a run is resumed or a model call repeated.
        """
        return run_flow(self.before_model_flow(state, runtime))

    async def abefore_model(
        self, state: CFGMState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Async version of `before_model`."""
        return await arun_flow(self.before_model_flow(state, runtime))

    async def before_model_flow(
        self, state: CFGMState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Flow of `before_model` and `abefore_model`; other flows await it."""
        conversation = Conversation(get_visible_messages(state))
        if self._recovery is None or not conversation.results:
            return None
        turn: Mapping[str, Any] = state.get("cfgm_recalled") or {}
        message = await self._recovery.correction(
            conversation,
            find_help=partial(self._help, turn, runtime),
            writer=runtime.stream_writer,
        )
        return None if message is None else {"messages": [message]}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Have the agent's model answer with what was recalled in its system prompt."""
        return handler(self._with_recalled(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        return await handler(self._with_recalled(request))

    def after_agent(self, state: CFGMState, runtime: Runtime[Any]) -> None:
        """Record a run that has come to its end; one that is interrupted has not. What goes wrong is logged."""
        run_flow(self.after_agent_flow(state, runtime))

    async def aafter_agent(self, state: CFGMState, runtime: Runtime[Any]) -> None:
        """Async version of `after_agent`."""
        await arun_flow(self.after_agent_flow(state, runtime))

    async def after_agent_flow(self, state: CFGMState, runtime: Runtime[Any]) -> None:
        """Flow of `after_agent` and `aafter_agent`; other flows await it."""
        instructions = self._recorder.requests.pop(runtime).instructions
        if self._memory is None or not self._records or is_collecting():
            return
        turn: Mapping[str, Any] = state.get("cfgm_recalled") or {}
        try:
            experience = self._memory.experience
            experience = (
                experience.resumed(turn["namespace"])
                if "namespace" in turn
                else experience.within_config()
            )
            # What was recalled stands in the record: tips get credit by its verdict.
            # Where nothing was, that stands there, too: else its reflections may have repeated anything.
            tips = map(Tip.from_dict, turn.get("tips", ()))
            recall = Recall(
                turn.get("runs", ()), {tip.id: tip.trajectories for tip in tips}
            )
            about = recall.metadata() if "runs" in turn else {}
            keep = partial(self._recorder.keep, state["messages"], runtime, experience)
            await keep(
                task=turn.get("first") or None, instructions=instructions, about=about
            )
        except Exception as error:
            logger.exception("A run was not recorded: %s", error)  # noqa: TRY401 - names the reason in one line

    async def _help(
        self, turn: Mapping[str, Any], runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """What was recalled when the run began, and what its model was offered and told."""
        offered = self._recorder.requests.of(runtime)
        tips, examples = (
            map(Tip.from_dict, turn.get("tips", ())),
            examples_in(turn.get("text", "")),
        )
        about = {"task": turn.get("latest", ""), "instructions": offered.instructions}
        return {
            "tips": tips,
            "examples": examples,
            "tools": offered.tools.values(),
            **about,
        }

    def _with_recalled(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        self._recorder.requests.add(
            request.runtime, request.tools, request.system_message
        )
        turn: Mapping[str, Any] = request.state.get("cfgm_recalled") or {}  # type: ignore[assignment]
        if not self._recalls or not turn.get("text"):
            return request
        prompt = extended(
            request.system_message, remark_reference(turn["text"], source=PAST_RUNS)
        )
        return request.override(system_message=prompt)


class CFGMRecallNode(Runnable[Any, dict[str, str]]):
    """Writes into the state what is recalled of tasks like the latest request, for the model node after it (Alg. 3).

    ```python
    class State(MessagesState):
        recalled: str

    graph.add_node("recall", CFGMRecallNode(memory))
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "model")
    ```

    The text is marked as reference material: put it at the end of a system prompt, so that no run learns what it was
    shown. A `ToolTreeNode` finds it in the state by itself. What was recalled is also an event:
    `{"type": "recall", ...}` in `stream_mode="custom"`. If memory fails, that is logged, and nothing is recalled.

    Args:
        memory: Has past runs and tips.
        k: How many runs to recall at the most.
        messages_key: Where in the state the conversation stands.
        recalled_key: Where in the state the text goes.
    """

    def __init__(
        self,
        memory: CFGMMemory,
        *,
        k: int = DEFAULT_RECALLED_RUNS,
        messages_key: str = "messages",
        recalled_key: str = "recalled",
    ) -> None:
        self.name = "CFGMRecallNode"
        check_memory(memory, optional=False)
        check_count("k", k)
        self._memory = memory
        self._k = k
        self._messages_key = messages_key
        self._recalled_key = recalled_key

    def invoke(
        self,
        input: Any,  # noqa: A002 - as Runnable has it
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, str]:
        """Recall what is known of tasks like the latest request of a graph state or a list of messages.

        Returns:
            The text under `recalled_key`; empty if nothing is known.
        """
        return run_flow(self.invoke_flow(input, config, **_))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - as Runnable has it
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, str]:
        """Async version of `invoke`."""
        return await arun_flow(self.invoke_flow(input, config, **_))

    async def invoke_flow(
        self,
        input: Any,  # noqa: A002 - as Runnable has it
        config: RunnableConfig | None = None,  # noqa: ARG002 - as Runnable has it
        **_: Any,
    ) -> dict[str, str]:
        """Flow of `invoke` and `ainvoke`; other flows await it."""
        conversation = Conversation.of(input, self._messages_key)
        if not conversation.task:
            return {self._recalled_key: ""}
        runtime, writer = get_current_runtime(), get_stream_writer()
        own = run_id(runtime) if runtime else None
        recollection = await self._memory.recaller.recall_here(
            conversation.aim, k=self._k, own=own, writer=writer
        )
        return {
            self._recalled_key: recall_text(
                recollection, max_characters=self._memory.max_characters
            )
        }


class CFGMReflectionNode(Runnable[Any, dict[str, list[BaseMessage]]]):
    """Corrects the course of an agent where an observation is anomalous, for the model node after it.

    ```python
    graph.add_node("reflect", CFGMReflectionNode("openai:gpt-4.1-mini", memory))
    graph.add_edge("tools", "reflect")
    graph.add_edge("reflect", "model")
    ```

    It may stand there unconditionally, or behind `anomaly_condition`. Reflection and its events are those of
    `CFGMMiddleware`. Beside a `ToolTreeNode` it looks at each observation on the path that the model sees.

    The state needs the `add_messages` reducer for its messages, as `MessagesState` has it: the observation with the
    correction takes the place of the one without. If the model fails, there is no correction, and the run goes on.

    Args:
        model: Reflects: a chat model, a name for `init_chat_model`, or a `Reflector` with settings of its own.
        memory: Has tips from experience for the reflection.
        detector: Tells anomalous observations from normal ones.
        tools: The tools that the agent has: LangChain tools, functions, dicts in OpenAI form, or names. They are
            described in the question to the model, and failed calls of other tools are recognised as such.
        cooldown, max_reflections, patience: As for `CFGMMiddleware`.
        k: How many runs to take tips from at the most.
        messages_key: Where in the state the conversation stands.
    """

    def __init__(
        self,
        model: str | BaseChatModel | Reflector,
        memory: CFGMMemory | None = None,
        *,
        detector: AnomalyDetector | None = None,
        tools: Sequence[AgentTool | str] | None = None,
        cooldown: int | None = None,
        max_reflections: int | None = None,
        patience: int | None = None,
        k: int = DEFAULT_RECALLED_RUNS,
        messages_key: str = "messages",
    ) -> None:
        self.name = "CFGMReflectionNode"
        check_memory(memory)
        check_count("k", k)
        budget = {
            "cooldown": cooldown,
            "max_reflections": max_reflections,
            "patience": patience,
        }
        self._recovery = recovery_with(memory, model, detector, **budget)
        self._memory = memory
        self._names = None if tools is None else frozenset(names_of(tools))
        self._tools = [
            {"name": tool} if isinstance(tool, str) else tool for tool in tools or ()
        ]
        self._k = k
        self._messages_key = messages_key

    def invoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Look at the latest observations of a graph state or a list of messages; correct the course if need be.

        Returns:
            The anomalous observation, with the correction, under `messages_key`; nothing if all is well.
        """
        return run_flow(self.invoke_flow(input, config, **_))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Async version of `invoke`."""
        return await arun_flow(self.invoke_flow(input, config, **_))

    async def invoke_flow(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,
    ) -> dict[str, list[BaseMessage]]:
        """Flow of `invoke` and `ainvoke`; other flows await it."""
        conversation = Conversation(get_visible_messages(input, key=self._messages_key))
        writer = get_stream_writer()
        # Outside of any graph, the caller puts the correction in its place.
        if writer is not None and any(each.id is None for each in conversation.results):
            logger.warning(
                "Results of tools have no id, so no correction can take their place: use add_messages."
            )
            return {}
        find_help = partial(self._help, conversation, writer)
        message = await self._recovery.correction(
            conversation, names=self._names, find_help=find_help, writer=writer
        )
        return {} if message is None else {self._messages_key: [message]}

    async def _help(
        self, conversation: Conversation, writer: StreamWriter | None
    ) -> dict[str, Any]:
        if self._memory is None or not conversation.task:
            return {"tools": self._tools}
        recollection = await self._memory.recaller.recall_here(
            conversation.aim, k=self._k, writer=writer
        )
        text = recall_text(recollection, max_characters=self._memory.max_characters)
        return {
            "tips": recollection.tips,
            "examples": examples_in(text),
            "tools": self._tools,
        }
