"""A person approves calls before they run: LangChain's `HumanInTheLoopMiddleware`, for all that is no declared read.

Question, answer and what an approval is worth are LangChain's. This adds which calls wait, by their effects instead of
by names of tools, and what a person is shown of a call, see `shown`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, get_args

from langchain.agents.middleware import AgentState, HumanInTheLoopMiddleware, InterruptOnConfig, ToolCallRequest
from langchain.agents.middleware.human_in_the_loop import DecisionType
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send

from langchain_tooltree._langgraph import can_be_answered
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects.calls import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import arun_flow
from langchain_tooltree.review.shown import describe

DECISIONS: tuple[DecisionType, ...] = ("approve", "edit", "reject")

_READ: ContextVar[tuple[Any, Conversation]] = ContextVar("tooltree_reviewed")
"""The state that is reviewed at the moment, and the conversation in it."""


def _conversation(state: Any) -> Conversation:
    reviewed, conversation = _READ.get((None, None))
    return conversation if conversation is not None and reviewed is state else Conversation.of(state)


class _EveryTool(Mapping[str, InterruptOnConfig]):
    """An `interrupt_on` that has the same entry for every name: tools may come and go while an agent runs."""

    def __init__(self, entry: InterruptOnConfig) -> None:
        self._entry = entry

    def __getitem__(self, name: str) -> InterruptOnConfig:
        return self._entry

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class PlanReviewMiddleware(HumanInTheLoopMiddleware[AgentState[Any], Any, Any]):
    """LangChain's `HumanInTheLoopMiddleware` for every call that is not declared a read.

    The run stops before such calls with an interrupt whose value is LangChain's `HITLRequest`, and goes on with a
    `HITLResponse`: `Command(resume={"decisions": [{"type": "approve"}]})`, one decision for each call, in their order.
    So every interface for LangChain's approval works. The `description` of a call says what the user asked, the results
    behind the call, which of its values the user never named, and what a planner weighed it against.

    A turn that only reads stops nowhere and needs no checkpointer. Put it first in the list: `after_model` hooks run
    last to first, so it then sees the calls as they will run. Leave each tool to one reviewer.

    Args:
        effects: Which calls only read, by tool or by call, as for the planner. Without it, every call waits.
        allowed_decisions: What a person may decide: `"approve"`, `"edit"`, `"reject"`, `"respond"`.

    Raises:
        ConfigurationError: Of other `effects` and `allowed_decisions`; while running, of a call that waits where no
            checkpointer keeps the question.
    """

    def __init__(
        self,
        effects: Effects | CallEffects | None = None,
        *,
        allowed_decisions: Sequence[DecisionType] = DECISIONS,
    ) -> None:
        known = get_args(DecisionType)
        if not allowed_decisions or isinstance(allowed_decisions, str) or not {*allowed_decisions} <= {*known}:
            msg = f"allowed_decisions must be some of {', '.join(known)}, got {allowed_decisions!r}."
            raise ConfigurationError(msg)
        super().__init__({})
        # What a process finds out about effects is left behind: LangChain asks `when` again as a run resumes, maybe in
        # another process, and carries out the call without its decision if the answer differs.
        self._effects = CallEffects(CallEffects.declared_as(effects).entries)
        entry = InterruptOnConfig(
            allowed_decisions=list(allowed_decisions), description=self._describe, when=self._must_wait
        )
        self.interrupt_on = _EveryTool(entry)  # type: ignore[assignment]  # in which only names are looked up

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Stop where a call waits for a person, with all that wait in one question."""
        read = _READ.set((state, Conversation.of(state)))  # once for all calls of a reply
        try:
            return super().after_model(state, runtime)
        finally:
            _READ.reset(read)

    def _must_wait(self, request: ToolCallRequest) -> bool:
        """Whether a call waits: it may change something, and has no result yet."""
        call, conversation = request.tool_call, _conversation(request.state)
        if self._effects.of(call["name"], call["args"]) == "read":
            return False
        if all(call["id"] != each["id"] for each in conversation.open_calls.values()):
            return False  # answered by the agent itself, such as a call that fills in a response format
        if not can_be_answered():
            msg = (
                f"A call of {call['name']!r} waits until somebody has answered, which needs a checkpointer. Pass one, "
                "such as checkpointer=InMemorySaver(), where the outermost graph is made."
            )
            raise ConfigurationError(msg)
        return True

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The async twin of `after_model`."""
        await _judge_ahead(self._effects, Conversation.of(state))
        return self.after_model(state, runtime)

    @staticmethod
    def _describe(tool_call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:  # noqa: ARG004
        return describe(tool_call, _conversation(state))


class PlanReviewNode(Runnable[Any, dict[str, list[BaseMessage]]]):
    """The same review as a node of one's own graph, between the model and a `ToolNode`.

    ```python
    graph.add_node("review", PlanReviewNode(effects))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    ```

    Question and answer are those of `PlanReviewMiddleware`. An edited call takes the place of the model's own, so the
    state needs the reducer `add_messages`; a rejected one gets the `ToolMessage` that LangChain writes.

    Args:
        effects: Which calls only read, by tool or by call, as for the planner. Without it, every call waits.
        allowed_decisions: What a person may decide: `"approve"`, `"edit"`, `"reject"`, `"respond"`.
        messages_key: Where in the state the conversation stands.
    """

    def __init__(
        self,
        effects: Effects | CallEffects | None = None,
        *,
        allowed_decisions: Sequence[DecisionType] = DECISIONS,
        messages_key: str = "messages",
    ) -> None:
        self.name = "PlanReviewNode"
        self._effects = CallEffects.declared_as(effects)
        self._middleware = PlanReviewMiddleware(self._effects, allowed_decisions=allowed_decisions)
        self._messages_key = messages_key

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, list[BaseMessage]]:  # noqa: A002, ARG002 - the names in Runnable
        """Ask about the calls that wait.

        Returns:
            An update of the state: the model's message where a call was edited, and the results of rejected calls.
        """
        conversation = Conversation.of(input, self._messages_key)
        reply = conversation.reply
        messages: Any = [each.model_copy() if each is reply else each for each in conversation.messages]
        update = self._middleware.after_model({"messages": messages}, get_runtime()) or {}  # it changes the copy
        edits = update.get("hitl_edited_tool_calls") or {}  # where an agent keeps an edit until its call runs
        changes = [_edited(each, edits) for each in update.get("messages", ())]
        return {self._messages_key: [each for each in changes if each != reply]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, list[BaseMessage]]:  # noqa: A002 - the name in Runnable
        """The async twin of `invoke`."""
        await _judge_ahead(self._effects, Conversation.of(input, self._messages_key))
        return self.invoke(input, config)


async def _judge_ahead(effects: CallEffects, conversation: Conversation) -> None:
    """Judge what will be asked about in a moment, since to parse SQL would hold the event loop."""
    await arun_flow(effects.judged([*conversation.open_calls.values()]))


def _edited(message: BaseMessage, edits: Mapping[str, Mapping[str, Any]]) -> BaseMessage:
    """A message with some of its calls, by their ids, replaced."""
    if not isinstance(message, AIMessage) or not edits:
        return message
    calls = [{**call, **edits.get(str(call["id"]), {})} for call in message.tool_calls]
    return message.model_copy(update={"tool_calls": calls})


def review_condition(
    state: Any, *, messages_key: str = "messages"
) -> list[Send] | Literal["tools", "model", "__end__"]:
    """Where to go after a review, as `tools_condition` says it without one.

    Returns:
        `"tools"` if all calls of the latest message go on; where others were rejected, those that do, sent to
        `"tools"`; `"model"` if none does; `END` if the conversation ends in an answer.
    """
    conversation = Conversation.of(state, messages_key)
    calls = list(conversation.open_calls.values())
    if conversation.latest == "observation":
        return [Send("tools", calls)] if calls else "model"
    return "tools" if calls and conversation.latest == "reply" else "__end__"
