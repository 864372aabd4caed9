"""Every exception that this package raises on purpose.

```
ToolTreeError
├── ConfigurationError (ValueError)   a setting, a tool list or a declaration cannot work
│   ├── ToolDefinitionError           no tools, duplicate names, an unknown name
│   └── ForeignNamespaceError         a client names another user or tenant than the server does
├── EmptyQueryError (ValueError)      there is nothing to plan for
├── TrajectoryFormatError (ValueError)  a record of a run cannot be read
├── GraphFileError (RuntimeError)     a saved graph is missing, damaged, or was made otherwise
│   └── GraphChangedError             somebody else has saved there since it was read
├── StoreError (RuntimeError)         a store cannot be used as it was asked to
│   ├── StoreLockedError              its folder belongs to another process
│   └── EmbedderMismatchError         it was filled by another embedder
├── MissingExtraError (ImportError)   a package is needed that the base install does not bring
└── ReplyError (RuntimeError)         a model's replies cannot be used
```

What goes wrong *inside* a search (a tool that raises, a judge that answers rubbish, a spent budget) is not an
exception: it is recorded in the tree and in [`SearchResult`][langchain_tooltree.SearchResult].
"""

import types
from importlib import import_module

from langchain_tooltree.secrets import masked
from langchain_tooltree.text import whole_characters


class ToolTreeError(Exception):
    """Base class of all errors raised by langchain-tooltree."""


class ConfigurationError(ToolTreeError, ValueError):
    """A setting or a declaration is invalid; the message names the value and the remedy."""


class ToolDefinitionError(ConfigurationError):
    """The tools handed to the planner cannot be used together."""


class ForeignNamespaceError(ConfigurationError):
    """What a client can set names another user or tenant than the server does."""


class EmptyQueryError(ToolTreeError, ValueError):
    """The conversation holds no user request to plan for."""


class TrajectoryFormatError(ToolTreeError, ValueError):
    """A file, a record or a message cannot be read as a trajectory; the message names the place and the remedy."""


class GraphFileError(ToolTreeError, RuntimeError):
    """A saved graph cannot be read or written; the message names the folder and the remedy."""


class GraphChangedError(GraphFileError):
    """Somebody has saved to a graph's folder since the graph was read from there; saving it would undo that."""


class StoreError(ToolTreeError, RuntimeError):
    """A store cannot be used as it was asked to; the message names the remedy."""


class StoreLockedError(StoreError):
    """A store's folder belongs to another process, or this process was forked from the one that opened the store."""


class EmbedderMismatchError(StoreError):
    """A store was filled by one embedder and is now used with another, whose vectors cannot be compared."""


class MissingExtraError(ToolTreeError, ImportError):
    """What was asked for needs a package that the base install does not bring; the message has the pip command."""


class ReplyError(ToolTreeError, RuntimeError):
    """A model gave no reply that can be used, also where it was asked again; the message says what went wrong."""


def described(error: BaseException) -> str:
    """An error in words, for people and models: its type and its message, without secrets."""
    message = masked(whole_characters(str(error)))
    return f"{type(error).__name__}: {message}".strip().removesuffix(":")


def import_extra(module: str, extra: str, user: str) -> types.ModuleType:
    """A module of an optional dependency, for a part of this package that cannot do without."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(
            f"{error.name}."
        ):  # of PIL.Image, PIL is missing
            raise
        msg = f"{user} needs {error.name}, which is not installed: pip install 'langchain-tooltree[{extra}]'"
        raise MissingExtraError(msg, name=error.name) from None


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is no whole number, or one below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{name} must be a whole number of {least} or more, got {value!r}."
        raise ConfigurationError(msg)
