"""What tests use of learning beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.learning.guide import PastRuns
