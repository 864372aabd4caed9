"""SITGraphMiddleware: suggestions from past runs inside agents made with `create_agent`, and learning from each run."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.runtime import Runtime

from langchain_tooltree.conversation import is_observation, visible_path
from langchain_tooltree.effects.calls import CallEffects, Effects
from langchain_tooltree.experience.guide import REMEMBERED, hints
from langchain_tooltree.experience.recorder import RunRecorder
from langchain_tooltree.experience.run_identity import name_of
from langchain_tooltree.experience.trajectory import NOTES, SUGGESTED, SUMMARIZE_STATE
from langchain_tooltree.experience.verdict import AnyVerdict
from langchain_tooltree.flows import Flow, async_twin, driven
from langchain_tooltree.models import extended
from langchain_tooltree.sitgraph.node import DEFAULT_K, GraphOfEach, Suggester, figures_of, learn_run
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.suggest import plain
from langchain_tooltree.sitgraph.summarize import create_summarize_state_tool

logger = logging.getLogger(__name__)


class SITGraphMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Tells an agent before each model call which tools came next in past runs, and learns from its own runs.

    ```python
    graph = SITGraph.from_trajectories(load_trajectories("runs.jsonl"))
    agent = create_agent(model, tools, middleware=[SITGraphMiddleware(graph, verdict=verdict)])
    ```

    Routine steps go by the course of the dialogue, without a model call. The agent also gets the tool
    `summarize_state`, whose result holds the suggestions for the state that it has described. Other suggestions stand
    at the end of the system prompt of that one model call, and never in the thread. Only tools of that call are
    suggested. Where the graph has nothing to say, the prompt stays as it is. Each suggestion is also an event:
    `{"type": "suggest", ...}` in `stream_mode="custom"`.

    It may stand before or behind a `ToolTreeMiddleware`: it goes by the path that the model sees. Put it after
    middleware that selects tools or edits the system prompt. What is learnt is the conversation as the state holds it:
    where other middleware removes messages, let a `TrajectoryRecorder` do the learning.

    A `SITGraph` is shared by all users of the agent, and may hold summaries of what they said. So it learns only from
    runs for which no user is known: neither `user_id` nor whom a LangGraph server has authenticated. Pass an
    `Experience` instead to learn from each user's runs for that user alone, or with `namespace=("tooltree",)` for all.

    Args:
        graph: Knows what came next in past runs, and learns: a `SITGraph`, or an `Experience`, in which the runs are
            kept and which has a graph for each namespace.
        k: How many tools to suggest at the most.
        model: Writes the summaries: a chat model, or a name for `init_chat_model`. The agent itself if left out.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Whenever a run has come to its end, the conversation is judged and, if it went well, part
            of the graph at once; if it goes on and fails after all, it is taken out again. Without a verdict nothing
            is learnt, unless an `Experience` has one. Where a `TrajectoryRecorder` or a `CFGMMiddleware` also has a
            verdict, one is asked, for all.
        effects: As for the planner: they say which calls a verdict has to review.
    """

    def __init__(
        self,
        graph: SITGraph | GraphOfEach,
        *,
        k: int = DEFAULT_K,
        model: str | BaseChatModel | None = None,
        verdict: AnyVerdict | None = None,
        effects: Effects | CallEffects | None = None,
    ) -> None:
        super().__init__()
        self._effects = effects
        if verdict is not None and graph is not None and not isinstance(graph, SITGraph):
            graph, verdict = graph.judged_by(verdict), None
        self._suggester = Suggester(graph, k)
        self._recorder = RunRecorder(verdict)
        self._learns = verdict is not None or not isinstance(graph, SITGraph)
        self.tools = [create_summarize_state_tool(graph, model=model, k=k)]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Have the agent's model answer with suggestions in its system prompt."""
        hinted, told = self._hinted(request)
        return _noted(handler(hinted), told)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The async twin of `wrap_model_call`."""
        hinted, told = await self._ahinted(request)
        return _noted(await handler(hinted), told)

    @driven
    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> Flow[None]:
        """Learn from a run that has come to its end; one that is interrupted has not. What goes wrong is logged."""
        if not self._learns:
            return
        graph, messages = self._suggester.graph, state["messages"]
        try:
            if not isinstance(graph, SITGraph):
                if REMEMBERED in state:
                    return  # the planner of this agent keeps its runs
                offered = self._recorder.requests.pop(runtime)
                tools, instructions = [*offered.tools.values()], offered.instructions
                ended = partial(graph.ended, messages, None, tools=tools, effects=self._effects)
                yield from ended(instructions=instructions)
                return
            yield from learn_run(graph, self._recorder, messages, runtime)
        except Exception as error:
            logger.exception("Nothing was learnt from a run: %s", error)  # noqa: TRY401 - names the reason in one line

    aafter_agent = async_twin(after_agent)  # type: ignore[arg-type] # mypy takes `self` from the base class

    @driven
    def _hinted(self, request: ModelRequest[Any]) -> Flow[tuple[ModelRequest[Any], list[dict[str, Any]]]]:
        """The request with suggestions, and their figures; none where nothing is told."""
        tools = [tool for tool in request.tools if name_of(tool) != SUMMARIZE_STATE]
        if self._learns:
            self._recorder.requests.add(request.runtime, tools, request.system_message)
        if not tools:
            return request.override(tools=[]), []  # there is no state to sum up, and the model may know no tools at all
        named = {name: tool for tool in tools if (name := name_of(tool))}
        path = visible_path(request.state, request.messages)
        latest = path[-1] if path else None
        if is_observation(latest) and latest.name == SUMMARIZE_STATE and latest.status == "success":
            return request, []  # it has just been told
        writer = request.runtime.stream_writer
        suggestions = yield from self._suggester.suggest(path, allowed=[*named.values()], writer=writer)
        if not suggestions:
            return request, []
        text = hints(map(plain, suggestions))
        return request.override(system_message=extended(request.system_message, text)), figures_of(suggestions)

    _ahinted = async_twin(_hinted)


def _noted(response: ModelResponse[Any], told: list[dict[str, Any]]) -> ModelResponse[Any]:
    """What a model answered, with what had been suggested noted beside it, for people who read the run."""

    def noted(message: BaseMessage) -> BaseMessage:
        if not isinstance(message, AIMessage):
            return message
        before = message.response_metadata.get(NOTES)
        notes = {**(before if isinstance(before, dict) else {}), SUGGESTED: told}
        return message.model_copy(update={"response_metadata": {**message.response_metadata, NOTES: notes}})

    return replace(response, result=[*map(noted, response.result)]) if told else response
