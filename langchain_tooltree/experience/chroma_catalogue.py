"""Which collections hold what: two for each namespace, and a catalogue that lists the namespaces and the embedder.

A query never filters by namespace, which would cost time in proportion to everything that is stored. Items and vectors
are apart, since one item may have several vectors or none.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from chromadb.api.models.Collection import Collection

from langchain_tooltree.experience.chroma_connection import Connection

CATALOGUE = "tooltree-catalogue"

EMBEDDER = "embedder"
"""Id of the catalogue's row about the embedder; those of namespaces are JSON, which starts with a bracket."""


PLACEHOLDER = np.ones((1, 1), dtype=np.float32)
"""The vector of a row that has none: without one, chromadb would embed it with a model that it downloads."""

COSINE: Any = {"hnsw": {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 200}}
"""Chroma's defaults leave some 0.5 % of 10,000 text vectors unreachable in the graph; these leave 0.03 %."""

Namespace = tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """Finds and makes the collections of namespaces.

    Args:
        connection: Where they are.
    """

    connection: Connection

    def items(self, namespace: Namespace) -> Collection | None:
        """The collection of a namespace's items: one row for each, with its value.

        Args:
            namespace: The namespace.

        Returns:
            The collection, or `None` if the namespace is unknown.
        """
        return self.connection.find(_name("items", namespace))

    def vectors(self, namespace: Namespace) -> Collection | None:
        """The collection of a namespace's vectors: one row for each indexed text of an item.

        Args:
            namespace: The namespace.

        Returns:
            The collection, or `None` if nothing is indexed.
        """
        return self.connection.find(_name("vectors", namespace))

    def make_items(self, namespace: Namespace) -> Collection:
        """As `items`, made if need be."""
        found = self.items(namespace)
        if found is None:
            # The catalogue comes first: a namespace that it lists without items is harmless, the reverse is a loss.
            self.connection.make(CATALOGUE).upsert(ids=[json.dumps(namespace)], embeddings=PLACEHOLDER)
            found = self.connection.make(_name("items", namespace), {"namespace": json.dumps(namespace)})
        return found

    def make_vectors(self, namespace: Namespace) -> Collection:
        """As `vectors`, made if need be."""
        return self.connection.make(_name("vectors", namespace), {"namespace": json.dumps(namespace)}, COSINE)

    def drop(self, namespace: Namespace) -> None:
        """Remove an empty namespace; only safe where nobody else can be filling it at the same time.

        Args:
            namespace: The namespace.
        """
        self.connection.drop(_name("vectors", namespace))
        self.connection.drop(_name("items", namespace))
        self.connection.make(CATALOGUE).delete(ids=[json.dumps(namespace)])

    def below(self, prefix: Namespace = ()) -> list[Namespace]:
        """The namespaces that start with a prefix.

        Args:
            prefix: The prefix; an empty one selects everything.

        Returns:
            The namespaces, in order; some may have no items (any more).
        """
        rows = self.connection.find(CATALOGUE)
        if rows is None:
            return []
        known = (tuple(json.loads(row)) for row in rows.get(include=[])["ids"] if row != EMBEDDER)
        return sorted(namespace for namespace in known if namespace[: len(prefix)] == prefix)

    def embedder(self) -> Mapping[str, Any] | None:
        """What is known of the embedder that filled the store.

        Returns:
            Its `name` and `dims`, or `None` as long as there are no vectors.
        """
        rows = self.connection.find(CATALOGUE)
        found = rows.get(ids=[EMBEDDER], include=["metadatas"])["metadatas"] if rows else None
        return found[0] if found else None

    def claim(self, name: str, dims: int) -> Mapping[str, Any]:
        """Record the embedder, unless one was recorded before.

        Args:
            name: Its name.
            dims: Length of its vectors.

        Returns:
            What is recorded now.
        """
        # Chroma's `add` keeps a row that is there already, so that of two clients one wins.
        entry: dict[str, str | int] = {"name": name, "dims": dims}
        self.connection.make(CATALOGUE).add(ids=[EMBEDDER], embeddings=PLACEHOLDER, metadatas=[entry])
        return self.embedder() or entry


def _name(kind: str, namespace: Namespace) -> str:
    """Chroma's names are short and of few characters, namespaces are not."""
    digest = hashlib.sha256(json.dumps(namespace).encode()).hexdigest()
    return f"tooltree-{kind}-{digest[:48]}"
