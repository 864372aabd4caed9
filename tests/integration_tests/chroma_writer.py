"""Two processes that write to a Chroma server: `python chroma_writer.py PORT DATABASE`."""

import os
import sys

from store_servers import chroma_client

from langchain_tooltree import ChromaStore

SHARED = ("shared", "notes")
TURNS = 4


def write(port, database, number):
    with chroma_client(port, database) as client, ChromaStore(client) as store:
        for turn in range(TURNS):
            store.put(
                SHARED,
                f"{number}-{turn}",
                {"text": f"writer {number} turn {turn}"},
                ["text"],
            )
            store.put(
                SHARED,
                "contested",
                {"text": f"by writer {number}", "number": number},
                ["text"],
            )
            store.put(("own", str(number)), "last", {"turn": turn}, index=False)
            if turn % 3 == 2:
                store.delete(SHARED, f"{number}-{turn - 1}")


if __name__ == "__main__":
    child = (
        os.fork()
    )  # once everything is imported, which takes much longer than to write
    write(int(sys.argv[1]), sys.argv[2], int(child == 0))
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
