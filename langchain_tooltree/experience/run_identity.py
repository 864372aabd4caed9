"""The identity of a run: for whom it is, under which id it is remembered, and which tools it was offered."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function
from langgraph.runtime import Runtime

from langchain_tooltree._langgraph import configurable_here, graph_around, namespace_here, runtime_in, without_reserved
from langchain_tooltree.errors import ConfigurationError, ForeignNamespaceError, ToolDefinitionError
from langchain_tooltree.experience.trajectory import opening_instructions
from langchain_tooltree.text import digest, forget_oldest, whole_characters

_COLLECTING = "tooltree_collecting"
_BY_US = object()
"""What no client can send: else it would leave its runs out of the records."""


def collecting() -> dict[str, Any]:
    """What under `configurable` marks runs by which a collection gathers experience; it records them by itself."""
    return {_COLLECTING: _BY_US}


def is_collecting() -> bool:
    """Whether the graph that is running is tried by a collection of this process."""
    return (configurable_here() or {}).get(_COLLECTING) is _BY_US


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


OWN, _DIGITS = "~", 8
"""What stands between a thread's id and a digest by which conversations are told apart whose threads bear one name, and
its digits: no two of some thousand share them."""


def distinct_id(thread: str, first: Any) -> str:
    """The id of one of several conversations in threads of one name, by its first message."""
    return f"{thread}{OWN}{digest([first], _DIGITS)}"


def is_in(run: str, thread: str | None) -> bool:
    """Whether a record is that of a thread, or of one with its name."""
    return thread is not None and (run == thread or run.startswith(f"{thread}{OWN}"))


def thread_of(run: str) -> str:
    """The thread of a record by its id, as far as that tells: a sub-agent's is that of the graph around it."""
    thread, own, digits = run.rpartition(OWN)
    whole = thread if own and len(digits) == _DIGITS else run
    return whole.rpartition("/")[0] or whole


def run_key(runtime: Any) -> str:
    """The id of the conversation and whose it is: threads of two users may have the same name."""
    values = without_reserved(configurable_here() or {}, place=False)
    # A context may be as large as it likes, and change; in one run it is one object.
    return repr((run_id(runtime), values, id(runtime.context)))


AnyTool = BaseTool | dict[str, Any]
"""A tool of a request: one that the agent runs, or one that the provider does."""

TOOLS = "tools"
"""Key of a trajectory's metadata under which the tools stand."""

Tools = dict[str, dict[str, Any]]
"""Tools by name, in OpenAI form where they have one: `{"type": "function", "function": {"name": ..., ...}}`."""


def tools_in(offered: Any) -> Tools:
    """The tools of one model call by name, in forms that JSON gives back unchanged.

    A provider's own tools, such as a web search, have no OpenAI form and stay as they are. What has no name is left
    out, and anything but a list counts as no tools.
    """
    tools = map(_as_function, offered if isinstance(offered, list | tuple) else [])
    return {name: json.loads(json.dumps(tool, default=str)) for tool in tools if (name := name_of(tool))}


def as_metadata(tools: Tools) -> dict[str, Any]:
    """Metadata with the tools in the order of their names; empty if there are none."""
    return {TOOLS: [tools[name] for name in sorted(tools)]} if tools else {}


GivenTools = Iterable[str | BaseTool | Mapping[str, Any] | Callable[..., Any]]
"""Tools by name, as LangChain tools, as functions, or as the dicts that providers take."""


def names_of(tools: GivenTools) -> list[str]:
    """The names of tools; a `ToolDefinitionError` if they are no list, or an entry has no name."""
    if isinstance(tools, str):
        msg = f"Tools are a list, got the text {tools!r:.80}; for a single tool, {[tools]!r:.80}."
        raise ToolDefinitionError(msg)
    names: list[str] = []
    tool: Any
    for tool in tools:
        names.append(tool if isinstance(tool, str) else name_of(tool) or getattr(tool, "__name__", ""))
        if not names[-1]:
            msg = f"A tool is a name, a LangChain tool, a function, or a dict with a name; got {tool!r:.120}."
            raise ToolDefinitionError(msg)
    return names


def name_of(tool: Any) -> str:
    """The name by which a model calls a tool; empty for those of a provider's own that have none."""
    if not isinstance(tool, Mapping):
        return str(getattr(tool, "name", ""))
    function = tool.get("function")
    return _name(function if isinstance(function, Mapping) else tool)


def _name(described: Mapping[str, Any]) -> str:
    names: Iterator[Any] = (described.get(key) for key in ("name", "type"))
    return next((name for name in names if isinstance(name, str) and name != "function"), "")


def _as_function(tool: Any) -> Any:
    """A tool in OpenAI form; itself where it has none, as a provider's own, such as Anthropic's web search."""
    given: Mapping[str, Any] = tool if isinstance(tool, Mapping) else {}
    if isinstance(given.get("function"), Mapping):
        return given
    try:
        function = convert_to_openai_function(tool)
    except (KeyError, TypeError, ValueError):
        return given
    is_own = "parameters" not in function and given.get("type", "function") != "function"
    return given if is_own else {"type": "function", "function": function}


MOST_RUNS = 1_000
"""Runs whose tools are remembered at once: more than one process has under way. A run that is never resumed has no end,
so the oldest are given up first."""


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools that each run has been offered so far, from its beginning to its end, and its instructions.

    They are there to be described. They do not say whether a tool exists: other middleware may add some further inside.
    """

    _tools: dict[str, dict[str, AnyTool]] = field(default_factory=dict)
    _instructions: dict[str, str] = field(default_factory=dict)

    def hear(self, run: str, tools: Iterable[AnyTool]) -> None:
        """Take note of the tools of one model call of a run; a tool without a name cannot be called."""
        known = self._tools.pop(run, {})
        self._tools[run] = known | {name: tool for tool in tools if (name := name_of(tool))}
        forget_oldest(self._tools, MOST_RUNS)

    def hear_instructions(self, run: str, system: SystemMessage | None) -> None:
        """Take note of the instructions of one model call of a run, without our additions; the latest count."""
        self._instructions.pop(run, None)
        if system is not None:
            self._instructions[run] = opening_instructions([{"role": "system", "content": system.content}])
        forget_oldest(self._instructions, MOST_RUNS)

    def instructions(self, run: str) -> str:
        """The instructions of a run; empty if none are known."""
        return self._instructions.get(run, "")

    def take_instructions(self, run: str) -> str:
        """The instructions of a run that has come to its end, which are then forgotten."""
        return self._instructions.pop(run, "")

    def held(self, run: str) -> list[AnyTool]:
        """The tools of a run."""
        return list(self._tools.get(run, {}).values())

    def take(self, run: str) -> dict[str, AnyTool]:
        """The tools of a run that has come to its end, by their names, which are then forgotten."""
        return self._tools.pop(run, {})

    @property
    def runs(self) -> Collection[str]:
        """The runs that are known."""
        return self._tools.keys()


Namespace = tuple[str, ...]

_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)\}")
_OF_A_TYPE = re.compile(r"<\w+>")

RESERVED = "langgraph"
"""The first label that LangGraph keeps to itself."""

AUTHENTICATED = "langgraph_auth_user_id"
"""The variable for whom a LangGraph server has authenticated: it sets it itself, whatever a client sends."""

USERS = ("user_id", AUTHENTICATED)
"""Variables that say that a user is known, where there is no namespace to name others."""


class NamespaceTemplate:
    """A namespace with variables, such as `("tooltree", "{user_id}")`, at most one in each label."""

    def __init__(self, labels: Sequence[str]) -> None:
        if isinstance(labels, str) or not labels:
            msg = f"namespace must be a tuple of labels such as ('tooltree', '{{user_id}}'), got {labels!r}."
            raise ConfigurationError(msg)
        for label in labels:
            if not isinstance(label, str):
                msg = f"A label of a namespace must be a text, got {label!r} in {tuple(labels)!r}."
                raise ConfigurationError(msg)
            plain, variables = _VARIABLE.subn("x", label)
            if "{" in plain or "}" in plain:
                msg = f"The label {label!r} has a brace that belongs to no variable. Write variables as {{user_id}}."
                raise ConfigurationError(msg)
            if variables > 1:
                apart = ", ".join(f"'{{{name}}}'" for name in _VARIABLE.findall(label))
                msg = (
                    f"The label {label!r} holds {variables} variables, so that two tenants may share it: 'a-b' and 'c' "
                    f"make the label that 'a' and 'b-c' do. Give each a label of its own: {apart}."
                )
                raise ConfigurationError(msg)
            _check_label(plain, f"The label {label!r}")
        if labels[0] == RESERVED:
            msg = f"A namespace must not begin with {RESERVED!r}, which LangGraph keeps to itself; got {labels!r}."
            raise ConfigurationError(msg)
        self.labels = tuple(labels)
        self.variables = tuple(dict.fromkeys(name for label in labels for name in _VARIABLE.findall(label)))

    def fill(self, known: Mapping[str, str]) -> Namespace:
        """The namespace in which its variables have these labels; none of them may lead to somebody else's."""
        for name in self.variables:
            if name not in known:
                raise ConfigurationError(_UNKNOWN.format(name=name, quoted=repr(name)))
        filled = tuple(_VARIABLE.sub(lambda found: known[found[1]], label) for label in self.labels)
        if filled[0] == RESERVED:
            msg = f"The namespace {self.labels!r} would begin with {RESERVED!r}, which LangGraph keeps to itself."
            raise ConfigurationError(msg)
        return filled


_UNKNOWN = (
    "The namespace needs {quoted}, which is not known here. Give the graph a context with it, use "
    "store.within({name}=...), or where no client can set it, pass config={{'configurable': {{{quoted}: ...}}}}."
)


def label_of(name: str, value: Any) -> str:
    """The label for a value of a variable: a text as it is, and anything else with its type, since 7 is not "7"."""
    if not _identifies(value):
        wanted = "a text, a whole number or an identifier such as a UUID"
        given = f"{type(value).__name__}: {value!r:.80}"
        msg = f"{name} stands in a namespace, so it must be {wanted}; got {given}."
        raise ConfigurationError(msg)
    what = f"{name}={value!r:.80}"
    if not isinstance(value, str):
        label = f"<{type(value).__name__}>{value}"
    elif _OF_A_TYPE.match(label := str.__str__(value)):
        msg = f"{what} cannot stand in a namespace: so begin the labels of values that are no text."
        raise ConfigurationError(msg)
    _check_label(label, what)
    return label


def _identifies(value: Any) -> bool:
    """Whether a value's text stands for it: not a collection's, nor an object's that has no text of its own."""
    if isinstance(value, bool | float | Iterable):
        return isinstance(value, str)
    return isinstance(value, int) or any("__str__" in vars(kind) for kind in type(value).__mro__[:-1])


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
    configurable = (configurable_here() if config is None else config.get("configurable")) or {}
    runtime = runtime_in(configurable)
    # A configuration without a runtime is another than that of the graph that is running: the context there does not
    # complete it, as it may be somebody else's. But what it says of the same variable may still come from a client.
    around = runtime or runtime_in(configurable_here() or {})
    labels: dict[str, str] = {}
    for name in names:
        own = configurable.get(name)
        label = None if own is None else label_of(name, own)
        sure = None if around is None else _sure(name, around)
        if sure is not None and label is not None and label != sure:
            raise ForeignNamespaceError(_FOREIGN.format(name=name, value=f"{own!r:.80}", where="configurable"))
        if found := label or (sure if runtime is not None else None):
            labels[name] = found
    return labels


def check_noted(noted: Any, names: Sequence[str]) -> dict[str, str]:
    """The labels that a run has noted in its state when it began.

    They stand until its end, whatever is configurable then. But a client may also write states, so it raises
    `ForeignNamespaceError` if the context here says otherwise.
    """
    labels = dict(noted) if isinstance(noted, Mapping) else {}
    around = runtime_in(configurable_here() or {})
    for name, label in labels.items():
        if name not in names or not isinstance(label, str):
            msg = f"The state names {name!r}={label!r:.80}, which is no label of a namespace with {tuple(names)!r}."
            raise ConfigurationError(msg)
        _check_label(label, f"{name}={label!r:.80}")
        if around is not None and _sure(name, around) not in (None, label):
            raise ForeignNamespaceError(_FOREIGN.format(name=name, value=f"{label!r:.80}", where="the state"))
    return labels


_FOREIGN = (
    "{where} says {name}={value}, but the server says otherwise. Clients can set it, so only what the server says "
    "counts: its runtime context, or whom it has authenticated. Leave it out there, and resume a run for whom it began."
)


_NOBODY = ""
"""What a server says that has the variable and no value for it; no label is empty."""


def _sure(name: str, runtime: Runtime[Any]) -> str | None:
    """The label that a server gives a variable; `None` if it does not know the variable."""
    server, context = runtime.server_info, runtime.context
    said: list[str] = []
    if name == AUTHENTICATED and server is not None and server.user is not None:
        said.append(label_of(name, server.user.identity))
    has_it = name in context if isinstance(context, Mapping) else hasattr(context, name)
    if has_it:
        held = context[name] if isinstance(context, Mapping) else getattr(context, name)
        said.append(_NOBODY if held is None else label_of(name, held))
    if len(set(said)) > 1:  # a LangGraph server also takes a context from its clients
        raise ForeignNamespaceError(_FOREIGN.format(name=name, value=f"{said[1]!r:.80}", where="The context"))
    return said[0] if said else None
