"""CFGM as LangGraph nodes: recall before a model node, and reflection on anomalous observations in front of it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tooltree.anomaly.detector import AnomalyDetector
from langchain_tooltree.cfgm.memory import DEFAULT_K, CFGMMemory, check_memory, recall_for, recovery_with
from langchain_tooltree.cfgm.recall import examples_in, recall_text
from langchain_tooltree.cfgm.reflection import AgentTool, Help, Reflector
from langchain_tooltree.conversation import Conversation, visible_path
from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.run_identity import names_of, run_id
from langchain_tooltree.flows import Flow, Writer, async_twin, current_runtime, current_writer, driven

logger = logging.getLogger(__name__)

Correction = dict[str, list[BaseMessage]] | list[BaseMessage]  # for the state; a list where the state is one


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
        self, memory: CFGMMemory, *, k: int = DEFAULT_K, messages_key: str = "messages", recalled_key: str = "recalled"
    ) -> None:
        self.name = "CFGMRecallNode"
        if memory is None:
            msg = "memory must be a CFGMMemory, got None. Make one: CFGMMemory(model, store)."
            raise ConfigurationError(msg)
        check_memory(memory)
        check_count("k", k)
        self._memory = memory
        self._k = k
        self._messages_key = messages_key
        self._recalled_key = recalled_key

    @driven
    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Flow[dict[str, str]]:  # noqa: A002, ARG002 - as Runnable has it
        """Recall what is known of tasks like the latest request of a graph state or a list of messages.

        Returns:
            The text under `recalled_key`; empty if nothing is known.
        """
        conversation = Conversation.of(input, self._messages_key)
        if not conversation.task:
            return {self._recalled_key: ""}
        runtime, writer = current_runtime(), current_writer()
        own = run_id(runtime) if runtime else None
        recollection = yield from recall_for(self._memory, conversation.aim, k=self._k, own=own, writer=writer)
        return {self._recalled_key: recall_text(recollection, max_characters=self._memory.max_characters)}

    ainvoke = async_twin(invoke)  # type: ignore[arg-type] # mypy takes `self` from the declaration in Runnable


class CFGMReflectionNode(Runnable[Any, Correction]):
    """Corrects the course of an agent where an observation is anomalous, for the model node after it.

    ```python
    graph.add_node("reflect", CFGMReflectionNode("openai:gpt-4.1-mini", memory))
    graph.add_edge("tools", "reflect")
    graph.add_edge("reflect", "model")
    ```

    It may stand there unconditionally, or behind `anomaly_condition`. Where the latest observation is anomalous, a
    model extracts key information from the course so far, asks itself what went wrong, and gives the corrected next
    step (CFGM, Alg. 3). The correction is put at the end of that observation, marked as reference material, so that
    calls and observations stay paired. A single anomaly is left to the agent; trouble that goes on gets a reflection,
    and so does any where the state says by its `remaining_steps` that the run is about to end. Another one follows only
    if it goes on still; see `patience`, `cooldown` and `max_reflections`. What was noticed and found out are also
    events: `{"type": "anomaly", ...}` and `{"type": "reflect", ...}` in `stream_mode="custom"`.

    Beside a `ToolTreeNode` it looks at each observation on the path that the model sees, also of tries of the planner.

    The state needs the `add_messages` reducer for its messages, as `MessagesState` has it: the observation with the
    correction takes the place of the one without. In a graph, an observation without an id cannot be replaced, and is
    left alone; that is logged once. If the model fails, there is no correction, and the run goes on.

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
        k: int = DEFAULT_K,
        messages_key: str = "messages",
    ) -> None:
        self.name = "CFGMReflectionNode"
        check_memory(memory)
        check_count("k", k)
        budget = {"cooldown": cooldown, "max_reflections": max_reflections, "patience": patience}
        self._recovery = recovery_with(memory, model, detector, **budget)
        self._memory = memory
        self._names = None if tools is None else frozenset(names_of(tools))
        self._tools = [{"name": tool} if isinstance(tool, str) else tool for tool in tools or ()]
        self._k = k
        self._messages_key = messages_key
        self._has_warned = False

    @driven
    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Flow[Correction]:  # noqa: A002, ARG002 - as Runnable has it
        """Look at the latest observations of a graph state or a list of messages; correct the course if need be.

        Returns:
            The anomalous observation, with the correction, under `messages_key`; nothing if all is well. Of a state
            that is a list, a list.
        """
        conversation = Conversation(visible_path(input, key=self._messages_key))
        writer = current_writer()
        message = None
        # Outside of any graph, the caller puts the correction in its place.
        if writer is None or self._can_replace(conversation.observations):
            message = yield from self._recovery.correction(
                conversation,
                names=self._names,
                help_=self._help(conversation, writer),
                steps_left=input.get("remaining_steps") if isinstance(input, Mapping) else None,
                writer=writer,
            )
        if isinstance(input, list):
            return [message] if message else []
        return {self._messages_key: [message]} if message else {}

    ainvoke = async_twin(invoke)  # type: ignore[arg-type] # mypy takes `self` from the declaration in Runnable

    def _can_replace(self, observations: Sequence[BaseMessage]) -> bool:
        """Whether corrections can take the place of observations: checked first, since a reflection asks a model."""
        if all(each.id is not None for each in observations):
            return True
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "Results of tools have no id, so no correction can take their place. Use the add_messages reducer for "
                "the messages of the state, as MessagesState does."
            )
        return False

    def _help(self, conversation: Conversation, writer: Writer | None) -> Flow[Help]:
        if self._memory is None or not conversation.task:
            return Help((), (), self._tools)
        recollection = yield from recall_for(self._memory, conversation.aim, k=self._k, writer=writer)
        text = recall_text(recollection, max_characters=self._memory.max_characters)
        return Help(recollection.tips, examples_in(text), self._tools)
