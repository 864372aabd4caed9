"""ToolTreeNode: a planner as a LangGraph node, in place of the model node of a ReAct graph."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, EmptyQueryError
from langchain_tooltree.experience.guide import Learner, checked_experience
from langchain_tooltree.experience.hints import NextTools, hint_line
from langchain_tooltree.experience.records import ChatMessage
from langchain_tooltree.experience.reference import looks_marked, remarked
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, async_twin, driven
from langchain_tooltree.models import Meter
from langchain_tooltree.tooltree.driver import with_experience, with_option_docs
from langchain_tooltree.tooltree.planner import Planner, PlannerOptions, Turn, with_options


@with_option_docs
class ToolTreeNode(Runnable[Any, dict[str, list[BaseMessage]]]):
    """Searches over real tool calls and adds the best trajectory to the conversation.

    Put it where the model node of a ReAct graph stands; `tools_condition` and the tools node stay as they are. It
    returns the reads that it ran, each with its result, and then either the answer or, if the best next step changes
    something, its calls, unanswered, for the tools node to carry out. On the next visit it plans on from there. An
    answer found while searching arrives whole in `stream_mode="messages"`.

    ```python
    graph.add_node("model", ToolTreeNode(model, tools, effects={"search_flights": "read"}))
    ```

    Args:
        model: Proposes calls and writes the answer: a chat model with tool calling, or a name for `init_chat_model`.
        tools: LangChain tools or functions, or a `ToolLibrary` with cards.
        **options: As for `search`.
        system_prompt: The agent's own system prompt, put before the conversation.
        messages_key: Where in the state the conversation stands.
        suggestions_key: Where in the state a `SITGraphNode` before this one leaves its suggestions, if there is one:
            they are read where the search begins, by who proposes calls, and are a prior for it.
        recalled_key: Where in the state a `CFGMRecallNode` before this one leaves what it recalled, if there is one: it
            is read by who proposes calls.
        experience: What the agent has been through, as an `Experience` keeps it: it is recalled once for each request
            and guides each search, and a turn is kept in it when it ends here, in an answer. Where
            `experience.recorder` stands in the callbacks, the record is left to it, which also hears what comes after.

    Raises:
        ConfigurationError: If the parts do not fit together; the message names the value and the remedy.
    """

    @with_options
    def __init__(
        self,
        model: str | BaseChatModel,
        tools: Iterable[BaseTool | Callable[..., Any]],
        *,
        system_prompt: str | None = None,
        messages_key: str = "messages",
        suggestions_key: str = "suggestions",
        recalled_key: str = "recalled",
        experience: Learner | None = None,
        **options: Unpack[PlannerOptions],
    ) -> None:
        self.name = "ToolTreeNode"
        self._experience = checked_experience(experience)
        self._messages_key = messages_key
        self._suggestions_key, self._recalled_key = suggestions_key, recalled_key
        self._system = [SystemMessage(system_prompt)] if system_prompt else []
        self._planner = Planner(model, tools, **options)

    @property
    def tools_by_name(self) -> Mapping[str, BaseTool]:
        """The tools that run here while searching; a picture of the graph names them, as those of a `ToolNode`."""
        return self._planner.effects.searched(self._planner.library)

    @driven
    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Flow[dict[str, list[BaseMessage]]]:  # noqa: A002 - the name in Runnable
        """Plan the next step of a conversation: a graph state, a mapping or an object, or just a list of messages.

        Returns the messages to append to it, under `messages_key`. Raises `EmptyQueryError` if there is no user message
        with text.
        """
        result = yield from with_experience(self._turn(input, config), self._experience)
        return {self._messages_key: result.messages}

    ainvoke = async_twin(invoke)  # type: ignore[arg-type] # mypy takes `self` from the declaration in Runnable

    def _turn(self, state: Any, config: RunnableConfig | None) -> Turn:
        if isinstance(state, list):
            state = {self._messages_key: state}
        values: Mapping[str, Any] = state if isinstance(state, Mapping) else _fields(state)
        if self._messages_key not in values:
            msg = f"The state has no {self._messages_key!r}, only {', '.join(values)}: see messages_key=."
            raise EmptyQueryError(msg)
        said = Conversation.of(values, self._messages_key)
        guide = _LeftInState.found(
            values.get(self._suggestions_key), values.get(self._recalled_key), said, self._planner.effects.reads
        )
        return Turn(
            planner=self._planner,
            messages=said.messages,
            guide=guide,
            system=self._system,
            config=config,
            state=values,
            messages_key=self._messages_key,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _LeftInState:
    """What nodes before this one have left in the state, as a guide for one search; see `Guide`."""

    advice: str
    suggested: Mapping[str, tuple[float, int]]  # by tool: its share, and how many runs speak for it
    said: int  # messages of the conversation, as a record has it
    reads: Collection[str]  # the tools that only read

    @classmethod
    def found(
        cls, suggestions: Any, recalled: Any, said: Conversation, reads: Collection[str]
    ) -> "_LeftInState | None":
        """What there is under the two keys; what is of another form is the user's own, and stands for nothing."""
        is_ours = isinstance(recalled, str) and looks_marked(recalled)
        advice = remarked(recalled, source="memory") if is_ours else ""
        suggested: dict[str, tuple[float, int]] = {}
        for each in suggestions if isinstance(suggestions, list | tuple) else ():
            match each:
                case {"tool": str(tool), "score": float(share), "support": int(runs)} if 0 < share <= 1 and runs > 0:
                    suggested[tool] = (share, runs)
        return cls(advice, suggested, len(said.chat), reads) if advice or suggested else None

    def next_tools(self, dialogue: Sequence[ChatMessage], allowed: Collection[str]) -> Flow[NextTools | None]:
        """The suggestions, where the search begins; in later states they are out of date."""
        yield from ()
        known = {tool: given for tool, given in self.suggested.items() if tool in allowed}
        if len(dialogue) > self.said or not known:
            return None
        shares = {tool: share for tool, (share, _) in known.items()}
        runs = {tool: runs for tool, (_, runs) in known.items()}
        found = NextTools(shares=shares, runs=runs, other=max(1 - sum(shares.values()), 0.0))
        return dataclasses.replace(found, text=hint_line(found, reads=self.reads))

    def remedy(self, said: Conversation, tools: Sequence[Any], meter: Meter) -> Flow[str]:  # noqa: ARG002 - nobody is asked
        """Nothing: trouble is the business of a node of its own, too."""
        yield from ()
        return ""

    def failed(self, attempts: Sequence[Trajectory]) -> Flow[None]:  # noqa: ARG002 - there is nowhere to keep them
        """Nothing is kept."""
        yield from ()


def _fields(state: Any) -> dict[str, Any]:
    """A state object as a mapping, not copied deeper than its fields."""
    if dataclasses.is_dataclass(state):
        return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    if not hasattr(state, "__dict__"):
        msg = f"The state must be a mapping, an object or a list of messages, got {type(state).__name__} {state!r}."
        raise ConfigurationError(msg)
    return dict(vars(state))
