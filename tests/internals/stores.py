"""What tests use of the stores beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.stores.chroma import store as store_module
from langchain_tooltree.stores.chroma.connection import CATALOGUE, LOCK_FILE
from langchain_tooltree.stores.chroma.filters import check_filter, matches
