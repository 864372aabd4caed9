"""The identity of a run: for whom it is, under which id it is remembered, and what its models were offered."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function
from langgraph.runtime import Runtime

from langchain_tooltree._langgraph import (
    configurable_here,
    graph_around,
    namespace_here,
    runtime_in,
    without_reserved,
)
from langchain_tooltree.errors import (
    ConfigurationError,
    ForeignNamespaceError,
    ToolDefinitionError,
)
from langchain_tooltree.messages.chat_format import get_opening_instructions
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.text import digest, forget_oldest, whole_characters

_COLLECTING = "tooltree_collecting"
_BY_US = (
    object()
)  # what no client can send: else it would leave its runs out of the records


def collecting() -> dict[str, Any]:
    """What under `configurable` marks runs by which a collection gathers experience; it records them by itself."""
    return {_COLLECTING: _BY_US}


def is_collecting() -> bool:
    """Whether the graph that is running is tried by a collection of this process."""
    return (configurable_here() or {}).get(_COLLECTING) is _BY_US


# --- ids ---


def run_id(runtime: Any) -> str | None:
    """The id of the conversation, the same as a `TrajectoryRecorder` of this agent gives it.

    It is the id of the thread, or of the run where there is no thread; `None` if neither is known. An agent inside
    another graph also has its namespace in it, which tells it from that graph and from other agents of the thread.
    """
    info = runtime.execution_info
    if info is None or info.thread_id is None:
        return None if info is None else info.run_id
    namespace = graph_around(namespace_here())
    return f"{info.thread_id}/{namespace}" if namespace else info.thread_id


_BESIDE = re.compile(r"~[0-9a-f]{8}\Z")


def id_beside(thread: str, first: Any) -> str:
    """The id of another conversation in a thread of this name, by its first message."""
    return f"{thread}~{digest([first], 8)}"


def without_digest(run: str) -> str:
    """The id of a record as it is where no other conversation has taken it."""
    return _BESIDE.sub("", run)


def is_in(run: str, thread: str | None) -> bool:
    """Whether a record is that of a thread, or of another one of its name."""
    return thread is not None and without_digest(run) == thread


def thread_of(run: str) -> str:
    """The thread of a record by its id, as far as that tells: a sub-agent's is that of the graph around it."""
    whole = without_digest(run)
    return whole.rpartition("/")[0] or whole


# --- tools ---

AnyTool = (
    BaseTool | dict[str, Any]
)  # a tool of a request: one that the agent runs, or one that the provider does

AnyTools = Iterable[str | BaseTool | Mapping[str, Any] | Callable[..., Any]]
"""Tools by name, as LangChain tools, as functions, or as the dicts that providers take."""

Tools = dict[str, dict[str, Any]]
"""Tools by name, in OpenAI form where they have one: `{"type": "function", "function": {"name": ..., ...}}`."""

TOOLS_KEY = "tools"  # key of a trajectory's metadata under which the tools stand


def tools_in(offered: Any) -> Tools:
    """The tools of one model call by name, in forms that JSON gives back unchanged; what has no name is left out."""
    tools = map(_in_openai_form, offered if isinstance(offered, list | tuple) else [])
    return {
        name: json.loads(json.dumps(tool, default=str))
        for tool in tools
        if (name := name_of(tool))
    }


def as_metadata(tools: Tools) -> dict[str, Any]:
    """Metadata with the tools in the order of their names; empty if there are none."""
    return {TOOLS_KEY: [tools[name] for name in sorted(tools)]} if tools else {}


def names_of(tools: AnyTools) -> list[str]:
    """The names of tools; a `ToolDefinitionError` if they are no list, or an entry has no name."""
    if isinstance(tools, str):
        msg = f"Tools are a list, got the text {tools!r:.80}; for a single tool, {[tools]!r:.80}."
        raise ToolDefinitionError(msg)
    names: list[str] = []
    tool: Any
    for tool in tools:
        names.append(
            tool
            if isinstance(tool, str)
            else name_of(tool) or getattr(tool, "__name__", "")
        )
        if not names[-1]:
            msg = f"A tool is a name, a LangChain tool, a function, or a dict with a name; got {tool!r:.120}."
            raise ToolDefinitionError(msg)
    return names


def name_of(tool: Any) -> str:
    """The name by which a model calls a tool; empty for those of a provider's own that have none."""
    if not isinstance(tool, Mapping):
        return str(getattr(tool, "name", ""))
    function = tool.get("function")
    described = function if isinstance(function, Mapping) else tool
    names = (described.get(key) for key in ("name", "type"))
    return next(
        (name for name in names if isinstance(name, str) and name != "function"), ""
    )


def _in_openai_form(tool: Any) -> Any:
    """A tool in OpenAI form; itself where it has none, as a provider's own."""
    if not isinstance(tool, Mapping) or tool.keys() & {
        "parameters",
        "input_schema",
        "toolSpec",
    }:
        with suppress(KeyError, TypeError, ValueError):
            return {"type": "function", "function": convert_to_openai_function(tool)}
    return tool


MAX_REMEMBERED_RUNS = 1_000
"""Runs whose requests are remembered at once: more than one process has under way. A run that is never resumed has no
end, so the oldest are given up first."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What the models of a run were offered, by name, and the agent's instructions."""

    tools: Mapping[str, AnyTool] = field(default_factory=dict)
    instructions: str = ""


class ModelRequests:
    """What the models of runs under way were offered and told, from the first request of a run to its end.

    It is there to be described. It does not say whether a tool exists: other middleware may add some further inside.
    """

    def __init__(self) -> None:
        self._runs: dict[str, Offered] = {}

    def add(
        self, runtime: Any, tools: Iterable[AnyTool], system: SystemMessage | None
    ) -> None:
        """Take note of a model call: its tools, and its instructions without our additions; the latest count."""
        key = _key(runtime)
        named = {
            name: tool for tool in tools if (name := name_of(tool))
        }  # what has no name cannot be called
        content = (
            [] if system is None else [{"role": "system", "content": system.content}]
        )
        before = self._runs.pop(key, Offered())
        self._runs[key] = Offered(
            {**before.tools, **named}, get_opening_instructions(content)
        )
        forget_oldest(self._runs, MAX_REMEMBERED_RUNS)

    def of(self, runtime: Any) -> Offered:
        """What is known of a run that goes on."""
        return self._runs.get(_key(runtime), Offered())

    def pop(self, runtime: Any) -> Offered:
        """What is known of a run that has come to its end, which is then forgotten."""
        return self._runs.pop(_key(runtime), Offered())


def _key(runtime: Any) -> str:
    """The id of the conversation and whose it is: threads of two users may have the same name."""
    values = without_reserved(configurable_here() or {}, place=False)
    # A context may be as large as it likes, and change; in one run it is one object.
    return repr((run_id(runtime), values, id(runtime.context)))


# --- namespaces ---

Namespace = tuple[str, ...]

_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)\}")

RESERVED = "langgraph"  # the first label that LangGraph keeps to itself

AUTHENTICATED = "langgraph_auth_user_id"
"""The variable for whom a LangGraph server has authenticated: it sets it itself, whatever a client sends."""

USERS = ("user_id", AUTHENTICATED)
"""Variables that say that a user is known, where there is no namespace to name others."""


class NamespaceTemplate:
    """A namespace with variables, such as `("tooltree", "{user_id}")`, each a label of its own.

    A label that held two could be shared by tenants: 'a-b' and 'c' would make what 'a' and 'b-c' do.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        if (
            isinstance(labels, str)
            or not labels
            or not all(isinstance(label, str) for label in labels)
        ):
            msg = f"namespace must be a tuple of labels such as ('tooltree', '{{user_id}}'), got {labels!r}."
            raise ConfigurationError(msg)
        for label in labels:
            plain, variables = _VARIABLE.subn("x", label)
            if "{" in plain or "}" in plain or variables > 1:
                msg = f"The label {label!r} may hold one variable, as '{{user_id}}', and no other brace."
                raise ConfigurationError(msg)
            _check_label(plain, f"The label {label!r}")
        self.labels = tuple(labels)
        self.variables = tuple(
            dict.fromkeys(name for label in labels for name in _VARIABLE.findall(label))
        )
        self.fill(dict.fromkeys(self.variables, "x"))

    def fill(self, labels: Mapping[str, str]) -> Namespace:
        """The namespace in which its variables have these labels."""
        for name in self.variables:
            if name not in labels:
                raise ConfigurationError(_UNKNOWN.format(name=name, quoted=repr(name)))
        namespace = tuple(
            _VARIABLE.sub(lambda variable: labels[variable[1]], label)
            for label in self.labels
        )
        if namespace[0] == RESERVED:
            msg = f"A namespace must not begin with {RESERVED!r}, which LangGraph keeps to itself; got {self.labels!r}."
            raise ConfigurationError(msg)
        return namespace


_UNKNOWN = (
    "The namespace needs {quoted}, which is not known here. Invoke the agent with a context that has it or, where no "
    "client can set that, with {{'configurable': {{{quoted}: ...}}}}; outside of a run, use within({name}=...)."
)


def label_of(name: str, value: Any) -> str:
    """The label for a value of a variable: a text, a whole number or a UUID."""
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        problem = f"{type(value).__name__}: {value!r:.80}"
        msg = f"{name} stands in a namespace, so it must be a text, a whole number or a UUID; got {problem}."
        raise ConfigurationError(msg)
    _check_label(str(value), f"{name}={value!r:.80}")
    return str(value)


def _check_label(label: str, what: str) -> None:
    if not label or "." in label or "\x00" in label or whole_characters(label) != label:
        msg = (
            f"{what} cannot stand in a namespace: it must not be empty, nor hold a period, a NUL character or half a "
            "surrogate pair."
        )
        raise ConfigurationError(msg)


def labels_in(config: RunnableConfig | None, names: Sequence[str]) -> dict[str, str]:
    """The labels of the variables that a configuration, or that of the graph that is running, knows.

    What a server says counts: whom it has authenticated, and the runtime context. What is `configurable` counts where
    these do not know the variable, and raises `ForeignNamespaceError` where it says otherwise, since clients of a
    served graph can set it. A context that has the variable and says `None` has said that it is nobody.
    """
    configurable = (
        configurable_here() if config is None else config.get("configurable")
    ) or {}
    runtime = runtime_in(configurable)
    # A configuration without a runtime is another than that of the graph that is running: the context there does not
    # complete it, as it may be somebody else's. But what it says of the same variable may still come from a client.
    around = runtime or runtime_in(configurable_here() or {})
    labels: dict[str, str] = {}
    for name in names:
        label = (
            None
            if configurable.get(name) is None
            else label_of(name, configurable[name])
        )
        sure = None if around is None else _sure(name, around)
        if sure is not None and label is not None and label != sure:
            raise ForeignNamespaceError(
                _FOREIGN.format(name=name, value=repr(label), where="configurable")
            )
        if label := label or (sure if runtime is not None else None):
            labels[name] = label
    return labels


_FOREIGN = (
    "{where} says {name}={value}, but the server says otherwise. Clients can set it, so only what the server says "
    "counts: its runtime context, or whom it has authenticated. Leave it out there, and resume a run for whom it began."
)


_NOBODY = ""  # what a server says that has the variable and no value for it; no label is empty


def _sure(name: str, runtime: Runtime[Any]) -> str | None:
    """The label that a server gives a variable; `None` if it does not know the variable."""
    server, context = runtime.server_info, runtime.context
    labels: list[str] = []
    if name == AUTHENTICATED and server is not None and server.user is not None:
        labels.append(label_of(name, server.user.identity))
    if name in context if isinstance(context, Mapping) else hasattr(context, name):
        value = (
            context[name] if isinstance(context, Mapping) else getattr(context, name)
        )
        labels.append(_NOBODY if value is None else label_of(name, value))
    if len(set(labels)) > 1:  # a LangGraph server also takes a context from its clients
        raise ForeignNamespaceError(
            _FOREIGN.format(name=name, value=f"{labels[1]!r:.80}", where="The context")
        )
    return labels[0] if labels else None


RECALLED_CHANNEL = "tooltree_recalled"  # where the state of an agent that plans with experience keeps what is known of a turn


class TurnNote(TypedDict):
    """The note of a turn: plain data, since a checkpointer keeps it for who resumes the run."""

    namespace: dict[
        str, str
    ]  # values of the variables of the namespace: what is one user's is not for another
    first: str  # what the user asked for first in this conversation
    request: str | None  # id of the user's message
    recalled: NotRequired[
        Mapping[str, Any]
    ]  # what a search was told of past runs, as a record notes it


def turn_note(
    conversation: Conversation, earlier: Mapping[str, Any], namespace: Mapping[str, str]
) -> TurnNote:
    """What a turn that begins notes; `earlier` is the note of an earlier turn of the conversation.

    The first request stays in it where a summary has taken it out of the conversation.
    """
    earlier = earlier if earlier.get("namespace", namespace) == namespace else {}
    goes_on = conversation.is_summarized or any(
        each.id == earlier.get("request") for each in conversation.messages if each.id
    )
    first = (earlier.get("first", "") if goes_on else "") or conversation.first_task
    request = conversation.request.id if conversation.request else None
    return TurnNote(namespace=dict(namespace), first=first, request=request)
