"""Little runs to make graphs of, an embedder that is a table, and what a saved graph consists of."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_tooltree import SITGraph, Trajectory
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.messages.kinds import ChatMessage


def user(text: Any) -> dict[str, Any]:
    """The user says something."""
    return {"role": "user", "content": text}


def says(text: Any) -> dict[str, Any]:
    """The agent says something."""
    return {"role": "assistant", "content": text}


def calls(
    *tools: str | tuple[str, Mapping[str, Any]], text: str | None = None
) -> dict[str, Any]:
    """The agent calls tools in one message; they go by name, or by name and arguments."""
    entries = []
    for tool in tools:
        name, arguments = (tool, {}) if isinstance(tool, str) else tool
        function = {"name": name, "arguments": json.dumps(arguments)}
        entries.append(
            {"id": f"{name} {arguments}", "type": "function", "function": function}
        )
    return {"role": "assistant", "content": text, "tool_calls": entries}


def brings(
    text: Any, call: Mapping[str, Any], place: int = 0, **more: Any
) -> dict[str, Any]:
    """What a call of a message brings back."""
    return {
        "role": "tool",
        "tool_call_id": call["tool_calls"][place]["id"],
        "content": text,
        **more,
    }


def called(
    *tools: str, result: str = "done", arguments: Mapping[str, Any] | None = None
) -> list[ChatMessage]:
    """Tools called one after the other, with their results."""
    messages: list[ChatMessage] = []
    for tool in tools:
        call = calls((tool, arguments or {}))
        messages += [call, brings(result, call)]
    return messages


def summed_up(text: str) -> list[ChatMessage]:
    """A call of `summarize_state`, with its result."""
    return called(
        "summarize_state", arguments={"summary": text}, result="The state is noted."
    )


def run_of(
    id: str,  # noqa: A002 - the field's name
    *messages: ChatMessage,
    success: bool | None = True,
    branches: Sequence[Branch] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Trajectory:
    """A run that consists of some messages."""
    return Trajectory.from_chat(
        messages, id=id, success=success, branches=branches, metadata=metadata
    )


def routine(
    id: str,  # noqa: A002
    *tools: str,
    request: str = "Help me.",
    **options: Any,
) -> Trajectory:
    """A run that calls some tools one after the other and then says so: T is one more than there are tools."""
    return run_of(id, user(request), *called(*tools), says("Done."), **options)


def names(suggestions: Sequence[Any]) -> list[str]:
    """The tools that are suggested."""
    return [each.tool for each in suggestions]


def shares(suggestions: Sequence[Any]) -> dict[str, float]:
    """The scores of the tools that are suggested."""
    return {each.tool: each.score for each in suggestions}


def content_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def saved(graph: SITGraph, folder: Path) -> dict[str, bytes]:
    """What a graph looks like in files."""
    graph.save(folder)
    return content_of(folder)


class TableEmbeddings(Embeddings):
    """Vectors from a table; texts that are not in it have none of its directions. It remembers what it was asked."""

    def __init__(
        self, table: Mapping[str, Sequence[float]] | None = None, *, dims: int = 4
    ) -> None:
        self.table = dict(table or {})
        self.dims = dims
        self.asked: list[str] = []
        self.ways: set[str] = set()
        self._lock = threading.Lock()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.ways.add("sync")
        return self._vectors(texts)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.ways.add("async")
        return self._vectors(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            self.asked += texts
        assert [text for text in texts if not text.strip()] == [], (
            "an embedding model refuses empty texts"
        )
        nothing = [0.0] * self.dims
        return [
            [*self.table.get(text, nothing), *nothing][: self.dims] for text in texts
        ]
