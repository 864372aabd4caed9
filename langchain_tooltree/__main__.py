"""`python -m langchain_tooltree`."""

import sys

from langchain_tooltree.cli import main

if __name__ == "__main__":
    sys.exit(main())
