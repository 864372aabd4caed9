"""A package only so that `python -m tests.benchmarks.bfcl` finds its modules."""
