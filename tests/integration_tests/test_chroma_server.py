"""ChromaStore on a real Chroma server: several processes at once, and what a server refuses to take in one piece."""

import subprocess
import sys
from pathlib import Path

import pytest
from chroma_writer import SHARED, TURNS
from langgraph.store.base import PutOp
from store_servers import chroma_client

from langchain_tooltree import ChromaStore, Experience, Trajectory
from langchain_tooltree.cli.view import pages_of

WRITER = Path(__file__).with_name("chroma_writer.py")


@pytest.fixture
def port(references):
    return references.chroma


def test_several_processes_lose_no_writes(port):
    with chroma_client(port, "several") as client, ChromaStore(client) as store:
        subprocess.run(  # noqa: S603 - ours
            [sys.executable, str(WRITER), str(port), "several"], check=True, timeout=120
        )
        kept = {
            f"{number}-{turn}"
            for number in range(2)
            for turn in range(TURNS)
            if turn % 3 != 1
        }
        assert {item.key for item in store.search(SHARED, limit=1000)} == {
            *kept,
            "contested",
        }
        for key in kept:
            number, turn = key.split("-")
            (best,) = store.search(
                SHARED, query=f"writer {number} turn {turn}", limit=1
            )
            assert (best.key, round(best.score, 3)) == (key, 1)
        winner = store.get(SHARED, "contested").value["number"]
        scores = [
            next(
                item.score
                for item in store.search(SHARED, query=f"by writer {number}", limit=100)
                if item.key == "contested"
            )
            for number in range(2)
        ]
        assert scores.index(max(scores)) == winner
        assert store.list_namespaces() == [
            *(("own", str(number)) for number in range(2)),
            SHARED,
        ]


def test_an_experience_on_a_server_is_looked_at_while_it_learns(port):
    address = f"http://127.0.0.1:{port}/viewed"
    said = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello."},
    ]
    with chroma_client(port, "viewed") as client, ChromaStore(client) as store:
        experience = Experience(store, namespace=("tooltree",))
        for number in (1, 2):
            experience.learn(Trajectory.from_chat(said, id=str(number), success=True))
            kind, pages = pages_of(address)
            assert (kind, [*pages]) == ("experience", ["index.html", "tooltree-1.html"])
            assert f'"runs":{number}' in pages["tooltree-1.html"]


def test_a_batch_larger_than_a_request_may_be_is_stored(port):
    with chroma_client(port, "large") as client, ChromaStore(client) as store:
        values = {
            f"k{n}": {"text": f"word{n}", "payload": "x" * 2**20} for n in range(41)
        }  # 40 MB are refused
        store.batch(
            [PutOp(("large",), key, value, ["text"]) for key, value in values.items()]
        )
        assert {
            item.key: item.value for item in store.search(("large",), limit=100)
        } == values
        assert store.search(("large",), query="word7", limit=1)[0].key == "k7"


def test_an_emptied_namespace_stays_usable_for_others(port):
    with (
        chroma_client(port, "emptied") as one,
        chroma_client(port, "emptied") as two,
        ChromaStore(one) as first,
        ChromaStore(two) as second,
    ):
        first.put(SHARED, "a", {"text": "grey stone"})
        assert second.get(SHARED, "a").value == {"text": "grey stone"}
        first.delete(SHARED, "a")
        assert second.list_namespaces() == []
        assert second.search((), query="grey stone") == []
        second.put(SHARED, "b", {"text": "grey stone"})
        assert [item.key for item in first.search((), query="grey stone")] == ["b"]
