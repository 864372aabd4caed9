"""What tests use of the stores beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.stores import chroma as store_module
from langchain_tooltree.stores.chroma import check_filter, matches
from langchain_tooltree.stores.connection import CATALOGUE, LOCK_FILE
