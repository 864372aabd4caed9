"""Writes to a Chroma server from a process of its own: `python chroma_writer.py PORT DATABASE NUMBER`."""

import sys

from store_servers import chroma_client

from langchain_tooltree import ChromaStore

SHARED = ("shared", "notes")
TURNS = 9


def write(port, database, number):
    with chroma_client(port, database) as client, ChromaStore(client) as store:
        for turn in range(TURNS):
            store.put(SHARED, f"{number}-{turn}", {"text": f"writer {number} turn {turn}"}, ["text"])
            store.put(SHARED, "contested", {"text": f"by writer {number}", "number": number}, ["text"])
            store.put(("own", str(number)), "last", {"turn": turn}, index=False)
            if turn % 3 == 2:
                store.delete(SHARED, f"{number}-{turn - 1}")


if __name__ == "__main__":
    write(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
