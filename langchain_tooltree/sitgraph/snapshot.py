"""Everything that a graph knows, in one canonical order: the same runs give the same snapshot, bit by bit. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.rows import Rows
from langchain_tooltree.sitgraph.views import VIEWS


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one after the other, so that a file of them need not be read to find one.

    Attributes:
        offsets: Where each begins, in bytes; one more at the end.
        characters: All of them in UTF-8.
    """

    offsets: NDArray[np.int64]
    characters: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Store texts."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: int) -> str:
        here = self.characters[self.offsets[place] : self.offsets[place + 1]]
        return here.tobytes().decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A graph in columns.

    Attributes:
        names: Names of the nodes in alphabetical order; a number elsewhere is a place in this list.
        run_ids: Ids of the runs in alphabetical order.
        turns: T of each run.
        versions: Hash of the content of each run.
        toolset_of: The toolset of each run by its place in `toolsets`; -1 where it is not known.
        toolsets: The tools that agents had, as hash of the schema by name.
        run_offsets: Where the transitions of each run begin; one more at the end.
        sources: Where each transition comes from.
        targets: Where it leads.
        state_offsets: Where the states of each node begin; one more at the end.
        states: States that were derived from the dialogue, by source and key.
        summary_offsets: Where the summaries of each node begin; one more at the end.
        summaries: Vectors of the summaries that agents made, by source and key.
        summary_texts: The summaries, in the same order.
    """

    names: tuple[str, ...]
    run_ids: tuple[str, ...]
    turns: NDArray[np.int32]
    versions: NDArray[np.uint64]
    toolset_of: NDArray[np.int32]
    toolsets: tuple[Mapping[str, str], ...]
    run_offsets: NDArray[np.int64]
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    state_offsets: NDArray[np.int64]
    states: Rows
    summary_offsets: NDArray[np.int64]
    summaries: Rows
    summary_texts: Texts

    @classmethod
    def empty(cls) -> Self:
        """The snapshot of a graph without runs."""
        nothing, start = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
        return cls(
            names=(),
            run_ids=(),
            turns=nothing,
            versions=np.zeros(0, dtype=np.uint64),
            toolset_of=nothing,
            toolsets=(),
            run_offsets=start,
            sources=nothing,
            targets=nothing,
            state_offsets=start,
            states=Rows.empty(len(VIEWS)),
            summary_offsets=start,
            summaries=Rows.empty(1),
            summary_texts=Texts.of(()),
        )


def offsets_of(numbers: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Where each number begins in an ascending list of numbers below `count`; one more at the end."""
    return np.searchsorted(numbers, np.arange(count + 1)).astype(np.int64)
