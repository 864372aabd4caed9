"""A human's approval of a plan, before any of its writes is carried out.

Request and response have the form of LangChain's `HumanInTheLoopMiddleware`, and a decision names what it decides on.
The plan, its alternatives, its scores and its cost come with the request. Whatever is about to leave the planner is
reviewed: a write of a plan as well as one that the plain model asked for. Right before a call runs it is compared with
what was approved.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from langchain_tooltree._langgraph import sent_calls
from langchain_tooltree.conversation import Conversation, calls_in
from langchain_tooltree.effects.calls import CallEffects, Effects, ToolKey
from langchain_tooltree.tooltree.approval import (
    APPROVE,
    EDIT,
    REJECT,
    Approvals,
    admit,
    ask,
    check_answerable,
    check_named,
)
from langchain_tooltree.tooltree.result import KEY, plan_metadata
from langchain_tooltree.tooltree.signed_reasoning import CALL_BLOCKS, PLAIN_BLOCKS, block_id, with_arguments
from langchain_tooltree.tooltree.tools import checked_arguments


class _Review:
    """What middleware and node share: which calls wait, what was approved, and that nothing else runs."""

    def __init__(self, effects: Effects | CallEffects | None, approve_reads: Iterable[ToolKey] | None) -> None:
        self.effects = CallEffects.declared_as(effects).asking_for(approve_reads)
        self._approvals = Approvals()
        self._tools: dict[str, BaseTool] = {}
        self._knows_all: bool | None = None

    def know(self, tools: Iterable[Any], *, all_of_them: bool | None = None) -> None:
        """Take in tools against which edits are checked; no other name is a tool's where it is all of them each time.

        `None` says nothing of that.
        """
        self._tools |= {tool.name: tool for tool in tools if isinstance(tool, BaseTool)}
        if all_of_them is not None:
            self._knows_all = all_of_them and self._knows_all is not False

    def _unfit(self, call: ToolCall, edited: Mapping[str, Any]) -> str | None:
        """Why an edited call cannot run; `None` if it can, or nobody knows."""
        name = edited["name"]
        if (tool := self._tools.get(name)) is not None:
            return _misfit(tool, edited)
        if name == call["name"] or not self._knows_all:
            return None
        return f"The edit names {name!r}, which no tool is; there are {', '.join(sorted(self._tools))}."

    def _waiting(
        self, calls: Mapping[int, ToolCall], said: Conversation, tools: Sequence[BaseTool] = ()
    ) -> dict[int, ToolCall]:
        """Those of some calls that need approval; with the tools that will run them where they are known."""
        effects = self.effects.among(tools) if tools else self.effects
        wrote = plan_metadata(said.reply).get("wrote") if said.reply else None  # a search has found it out
        return {
            at: call
            for at, call in calls.items()
            if effects.of(call["name"], call["args"]) != "read" or (isinstance(wrote, list) and call["name"] in wrote)
        }

    def of(self, said: Conversation) -> list[BaseMessage]:
        """Have a person decide on the calls that wait, and say it in messages."""
        # A host answers some calls itself at once, such as those that fill in a response format.
        waiting = self._waiting(said.open_calls, said)
        if said.reply is None or not waiting:
            self._approvals.grant(())
            return []
        check_named(said.reply.tool_calls)
        decided = ask([*waiting.values()], said, plan_metadata(said.reply), self._approvals, unfit=self._unfit)
        decisions = dict(zip(waiting, decided, strict=True))
        calls = _decided(said.reply, decisions)
        approved, edited = ([calls[at] for at in waiting if decisions[at]["type"] == kind] for kind in (APPROVE, EDIT))
        self._approvals.grant(approved, edited)
        return _carry_out(said.reply, calls, said.open_calls, decisions)

    @contextmanager
    def before(
        self, calls: Sequence[ToolCall], said: Conversation, tools: Sequence[BaseTool]
    ) -> Iterator[list[ToolMessage]]:
        """Make sure that calls which run now were approved; gives what to say instead of running them if not."""
        waiting = list(self._waiting(dict(enumerate(calls)), said, tools).values())
        if not waiting:
            yield []
            return
        check_named(calls)
        # A process that has only taken in the answer may know the tools no sooner than here.
        by_name = {tool.name: tool for tool in tools}
        edited = ((call, by_name.get(call["name"])) for call in waiting if self._approvals.edited(call))
        if misfit := next((why for call, tool in edited if tool and (why := _misfit(tool, call))), None):
            yield [_error(call, f"This call of {call['name']} was not carried out. {misfit}") for call in calls]
            return
        decisions = admit(waiting, said, self._approvals)
        rejected = {
            call["id"]: decision.get("message")
            for call, decision in zip(waiting, decisions, strict=True)
            if decision["type"] == REJECT
        }
        with self._approvals.carrying_out(decisions):
            # A tools node runs all calls of a message or none.
            yield [
                _rejection(call, rejected[call["id"]]) if call["id"] in rejected else _left(call)
                for call in (calls if rejected else ())
            ]


class PlanReviewMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Asks a person before an agent's writes are carried out, and shows what the plan was weighed against.

    The run stops with an interrupt whose value is a `ReviewRequest`. It goes on, in this process or another, with
    `Command(resume={"decisions": [decision, ...]})`, one decision for each call. It is one of the request's own
    `decisions`, which say what is decided on, with a type: `{**named, "type": "approve"}`,
    `{**named, "type": "edit", "edited_action": {"name": ..., "args": ...}}`, or
    `{**named, "type": "reject", "message": ...}`. The agent gets a rejection in place of the result and plans again.

    An answer of another form, one given twice, one to a question that has changed since, and an edit that does not fit
    its tool are asked for again, with the problem named. Where the process learns the tool no sooner than at the call,
    such an edit does not run, and the agent is told why. Right before a call runs it is compared with what was
    approved; where a state was changed, an earlier one is run again, or the run stopped in between, the person is asked
    about it there, to approve or reject.

    Put it first in the list: `after_model` hooks run last to first, so it then sees the calls as they will run. Tools
    that the provider runs are not reviewed, and a replaced message needs the `add_messages` reducer, as agents have it.

    Tools under `interrupt_on` of a `HumanInTheLoopMiddleware` should have one reviewer only: leave them to one of
    the two.

    Args:
        effects: As for the planner. Calls that only read need no approval, all others do.
        approve_reads: Reads that need it all the same, as for the planner.
    """

    def __init__(
        self, effects: Effects | CallEffects | None = None, *, approve_reads: Iterable[ToolKey] | None = None
    ) -> None:
        super().__init__()
        self._review = _Review(effects, approve_reads)
        self.know = self._review.know

    def reviews(self, tool: str) -> bool:
        """Whether calls of a tool of this name need approval."""
        return tool not in self._review.effects.reads

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Refuse a run in which nobody could be asked before it costs anything; a graph that is made cannot know."""
        check_answerable()
        self.know(request.tools)
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        check_answerable()
        self.know(request.tools)
        return await handler(request)

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Review the calls that the model node has asked for."""
        messages = self._review.of(Conversation.of(state))
        return {"messages": messages} if messages else None

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The async twin of `after_model`."""
        return self.after_model(state, runtime)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run a call if exactly it was approved, and ask about it otherwise."""
        with self._before(request) as instead:
            return instead[0] if instead else handler(request)

    def _before(self, request: ToolCallRequest) -> AbstractContextManager[list[ToolMessage]]:
        tools = [request.tool] if request.tool is not None else []
        return self._review.before([request.tool_call], Conversation.of(request.state), tools)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """The async twin of `wrap_tool_call`."""
        with self._before(request) as instead:
            return instead[0] if instead else await handler(request)


class PlanReviewNode(Runnable[Any, dict[str, list[BaseMessage]]]):
    """The review as a node of one's own graph, between a `ToolTreeNode` and the tools node.

    ```python
    review = PlanReviewNode(effects)
    graph.add_node("review", review)
    graph.add_node("tools", review.guard(ToolNode(tools)))
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    ```

    See `PlanReviewMiddleware` for what is asked and how it is answered. Without `guard`, what runs is not compared with
    what was approved: whoever may change the state, or run an earlier one again, needs no approval then.

    Args:
        effects: As for the planner. Calls that only read need no approval, all others do.
        approve_reads: Reads that need it all the same, as for the planner.
        messages_key: Where in the state the conversation stands.
    """

    def __init__(
        self,
        effects: Effects | CallEffects | None = None,
        *,
        approve_reads: Iterable[ToolKey] | None = None,
        messages_key: str = "messages",
    ) -> None:
        self.name = "PlanReviewNode"
        self._review = _Review(effects, approve_reads)
        self._messages_key = messages_key

    def guard(self, tools: Runnable[Any, Any]) -> Runnable[Any, Any]:
        """The node to put in place of a `ToolNode`, or of one's own node that runs the calls of the latest message.

        It runs what this review has approved, and asks about anything else.
        """
        return _GuardedTools(self._review, tools, self._messages_key)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, list[BaseMessage]]:  # noqa: A002, ARG002 - the names in Runnable
        """Review the calls that wait; returns messages that replace or answer them; none if all are approved."""
        return {self._messages_key: self._review.of(Conversation.of(input, self._messages_key))}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, list[BaseMessage]]:  # noqa: A002 - the name in Runnable
        """The async twin of `invoke`."""
        return self.invoke(input, config)


class _GuardedTools(Runnable[Any, Any]):
    """A tools node behind the comparison with what was approved."""

    def __init__(self, review: _Review, tools: Runnable[Any, Any], messages_key: str) -> None:
        self.name = tools.get_name()
        self._review = review
        self._tools = tools
        self.tools_by_name = getattr(tools, "tools_by_name", {})  # for pictures of the graph, too
        review.know(self.tools_by_name.values(), all_of_them=bool(self.tools_by_name))
        self._messages_key = messages_key

    def invoke(self, input: Any, config: RunnableConfig | None = None, **given: Any) -> Any:  # noqa: A002 - the name in Runnable
        """Run the calls that wait, if they were approved."""
        with self._before(input) as instead:
            return self._update(input, instead) if instead else self._tools.invoke(input, config, **given)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **given: Any) -> Any:  # noqa: A002 - the name in Runnable
        """The async twin of `invoke`."""
        with self._before(input) as instead:
            return self._update(input, instead) if instead else await self._tools.ainvoke(input, config, **given)

    def _before(self, given: Any) -> AbstractContextManager[list[ToolMessage]]:
        calls = sent_calls(given)  # which is how a ToolNode finds them, too
        said = Conversation.of(given if calls is None else [], self._messages_key)
        if calls is None:
            calls = calls_in(said.reply) if said.reply else []
        return self._review.before(calls, said, [*self.tools_by_name.values()])

    def _update(self, given: Any, answers: list[ToolMessage]) -> Any:
        return answers if isinstance(given, list) and sent_calls(given) is None else {self._messages_key: answers}


def review_condition(state: Any, *, messages_key: str = "messages") -> Literal["tools", "model", "__end__"]:
    """Where to go after a review, as `tools_condition` says it without one.

    `"tools"` if calls wait, `"model"` if all were rejected, `END` if the conversation ends in an answer.
    """
    said = Conversation.of(state, messages_key)
    if said.latest == "observation":
        return "model"
    return "tools" if said.latest == "reply" and said.open_calls else "__end__"


def _misfit(tool: BaseTool, edited: Mapping[str, Any]) -> str | None:
    """Why a tool does not take an edited call; `None` if it does."""
    problem = checked_arguments(tool, edited["args"])[1]
    return problem and f"The edit does not fit {tool.name}: {problem}."


def _decided(message: AIMessage, decisions: Mapping[int, Mapping[str, Any]]) -> list[ToolCall]:
    """The calls of a message as a person has edited them."""
    calls = list(message.tool_calls)
    for at, decision in decisions.items():
        if decision["type"] == EDIT:
            action = decision["edited_action"]
            calls[at] = ToolCall(name=action["name"], args=action["args"], id=calls[at]["id"], type="tool_call")
    return calls


def _carry_out(
    message: AIMessage, calls: list[ToolCall], open_calls: Collection[int], decisions: Mapping[int, Mapping[str, Any]]
) -> list[BaseMessage]:
    """The decisions, by position of the call in the message that makes it, as messages.

    Rejected calls are answered right behind the message. If others of the same message go on, these move to a message
    of their own, because a tools node carries out every call of the last one.
    """
    rejected = [at for at, decision in decisions.items() if decision["type"] == REJECT]
    if calls != message.tool_calls:
        weighed = {key: value for key, value in message.response_metadata.items() if key != KEY}
        message = message.model_copy(update={"response_metadata": weighed})  # nobody has weighed the edited call
    elif not rejected:
        return []
    if not rejected:
        return [_with_calls(message, calls)]
    answers: list[BaseMessage] = [_rejection(calls[at], decisions[at].get("message")) for at in rejected]
    going_on = [call for at, call in enumerate(calls) if at in open_calls and at not in rejected]
    if not going_on:
        return answers
    staying = [call for at, call in enumerate(calls) if at not in open_calls or at in rejected]
    return _split(message, staying, answers, going_on)


def _split(
    message: AIMessage, staying: list[ToolCall], answers: Sequence[BaseMessage], going_on: list[ToolCall]
) -> list[BaseMessage]:
    """Two messages out of one: what it says stays with the first, the reasoning goes with the calls that go on.

    Providers of signed reasoning want it before the latest calls, and each of its blocks only once.
    """
    first = message.model_copy(update={"tool_calls": staying, "content": str(message.text)})
    second = _with_calls(message, going_on)
    unsaid = [block for block in second.content if isinstance(block, dict) and block.get("type") not in PLAIN_BLOCKS]
    second = second.model_copy(update={"content": unsaid or "", "id": None, "usage_metadata": None})
    return [first, *answers, second]


def _with_calls(message: AIMessage, calls: list[ToolCall]) -> AIMessage:
    """The message with other calls; where its content repeats its calls, it repeats these."""
    content = message.content
    if isinstance(content, list):
        by_id = {call["id"]: call for call in calls}
        content = [now for block in content if (now := _block_of(block, by_id)) is not None]
    return message.model_copy(update={"tool_calls": calls, "content": content})


def _block_of(block: Any, calls: Mapping[Any, ToolCall]) -> Any:
    """A content block; one that repeats a call, in the form of any provider, as the call now is, or `None` if gone."""
    if not isinstance(block, dict) or block.get("type") not in CALL_BLOCKS:
        return block
    call = calls.get(block_id(block))
    return None if call is None else {**with_arguments(block, call["args"]), "name": call["name"]}


def _rejection(call: ToolCall, reason: str | None) -> ToolMessage:
    said = f" They said: {reason}" if reason else ""
    return _error(
        call, f"The user rejected this call of {call['name']}; it was not carried out.{said} Do not make it again."
    )


def _left(call: ToolCall) -> ToolMessage:
    return _error(
        call, f"This call of {call['name']} was not carried out, since the user rejected another one beside it."
    )


def _error(call: ToolCall, content: str) -> ToolMessage:
    return ToolMessage(content, tool_call_id=call["id"], name=call["name"], status="error")
