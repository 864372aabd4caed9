"""Programs where a package is not installed; run as a script, it serves them (see `child_processes`).

What a program shows as an error stands in its output, too.
"""

import os
import sys

import langchain.agents  # noqa: F401 - takes a second, and is installed wherever the package is

from tests.internals.child_processes import serve


def run(package, code):
    sys.modules[package] = None
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    exec(code, {"sys": sys})  # noqa: S102 - our own tests


if __name__ == "__main__":
    serve(run)
