"""Ready tools by domain, each with a card, examples, an effect and limits: `toolbox("maths", "tables")`.

All of them only read. Files come from one folder that the user names, services from addresses that the user gives;
nothing else is opened or called. A call that takes too long is ended.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_tooltree.toolbox.library import toolbox as toolbox

__all__ = ["toolbox"]


def __getattr__(name: str) -> Any:
    """Load the library where it is used: the process of tools does without."""
    if name != "toolbox":
        raise AttributeError(name)
    return import_module("langchain_tooltree.toolbox.library").toolbox
