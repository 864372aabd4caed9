"""What all tests share."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Programs that tests start as processes of their own import `tests.internals`, too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
