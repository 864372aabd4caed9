"""What tests use of the stores beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.stores.chroma import items as items_module
from langchain_tooltree.stores.chroma import queries as queries_module
from langchain_tooltree.stores.chroma.connection import CATALOGUE, LOCK_FILE
from langchain_tooltree.stores.chroma.filters import FIELD, MAX_TEXT, check_filter, matches, scalar_fields, where_clause
