"""What tests use of the toolbox beside `toolbox` itself."""

from langchain_tooltree.toolbox import bounded
from langchain_tooltree.toolbox.entries import all_entries

__all__ = ["all_entries", "bounded"]
