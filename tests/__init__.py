"""A package so that `python -m tests.benchmarks.bfcl` finds its modules.

Modules of the cookbook find each other by their names, as in its notebooks.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "cookbook"))
