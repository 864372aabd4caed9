"""Namespaces: under which labels the things of one user or tenant are kept, and who may say whose a run is."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from langchain_tooltree._langgraph import configurable_here, runtime_in
from langchain_tooltree.errors import ConfigurationError, ForeignNamespaceError
from langchain_tooltree.text import whole_characters

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
