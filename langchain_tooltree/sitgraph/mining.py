"""From runs to what they give to the graph, and from a dialogue to its state."""

from collections.abc import Mapping, Sequence

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tooltree.experience.embeddings import embedded
from langchain_tooltree.experience.records import Record
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.sitgraph.graph import Contribution
from langchain_tooltree.sitgraph.states import DIMENSIONS, Codes, Floats, hashed, packed, projected
from langchain_tooltree.sitgraph.transitions import (
    Moment,
    Transition,
    both_ends,
    features_of,
    texts_of,
    transitions_and_ends,
)
from langchain_tooltree.text import digest

REMEMBERED = 512  # texts whose vectors are kept: from one step of a dialogue to the next, most views stay the same


class Encoder:
    """Turns texts into vectors of the graph's own length, and keeps the latest."""

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self._known: dict[str, Floats] = {}

    def forget(self) -> None:
        """Keep no vectors."""
        self._known = {}

    def encode(self, texts: Sequence[str]) -> Flow[Floats]:
        """Embed texts, each one once; an empty one is a zero vector, since embedding models refuse it."""
        known = self._known  # another thread may put another one in its place at any time
        vectors = {text: known[text] for text in texts if text in known}
        missing = [text for text in dict.fromkeys(texts) if text.strip() and text not in vectors]
        if missing:
            found = projected((yield from embedded(self.embeddings, missing)))
            vectors.update(zip(missing, found, strict=True))
            self._known = dict([*self._known.items(), *vectors.items()][-REMEMBERED:])
        nothing = np.zeros(DIMENSIONS, dtype=np.float32)
        return np.array([vectors.get(text, nothing) for text in texts])


class _Draft:
    """A successful run that is being mined: what is new in it, beside what its earlier version has given."""

    def __init__(self, run: Record, earlier: Contribution | None) -> None:
        every, ends = transitions_and_ends(run)
        self.run = run
        self.transitions = [each for each in every if not each.failed]  # what failed has not gone well
        self.moments = [*(each.moment for each in self.transitions), *ends]
        self.states: dict[str, Codes] = {}
        self.summaries: dict[str, Codes] = {}
        if earlier is not None:
            self.states = dict(zip(earlier.digests, earlier.states, strict=True))
            self.summaries = {text: vector for _, text, vector in earlier.summaries}
        new = {each.digest: each for each in self.moments if each.digest not in self.states}
        self._new = {name: (texts_of(moment), features_of(moment)) for name, moment in new.items()}
        said = dict.fromkeys(text for each in self.transitions for text in each.summaries)
        self._written = [text for text in said if text not in self.summaries]

    @property
    def texts(self) -> list[str]:
        """All texts to be embedded."""
        return [text for texts, _ in self._new.values() for text in texts.values()] + [*map(both_ends, self._written)]

    def contribution(self, vectors: Mapping[str, Floats]) -> Contribution:
        """What the run gives, by the vectors of its texts."""
        views = [[*(vectors[text] for text in texts.values()), hashed(more)] for texts, more in self._new.values()]
        states = {**self.states, **(dict(zip(self._new, packed(np.array(views)), strict=True)) if views else {})}
        summaries = {**self.summaries, **{text: packed(vectors[both_ends(text)]) for text in self._written}}
        pairs = [(each.source, each.target) for each in self.transitions]
        said = [(place, text) for place, each in enumerate(self.transitions) for text in each.summaries]
        return Contribution(
            self.run.id,
            self.run.turns,
            _version(self.run, self.transitions),
            pairs,
            befores=[moment.tool_before for moment in self.moments],
            ends=[moment.last_tool for moment in self.moments[len(pairs) :]],
            states=np.array([states[moment.digest] for moment in self.moments]),
            summaries=[(place, text, summaries[text]) for place, text in said],
            digests=[moment.digest for moment in self.moments],
            came_from=self.run.came_from,
            voice=int("".join(digest(each, 8) for each in self.run.voice), 16),
        )


def mine(runs: Sequence[Record], encoder: Encoder, *, earlier: Contribution | None = None) -> Flow[list[Contribution]]:
    """What the successful ones of some runs give to the graph; their texts are embedded together.

    What an earlier version of a run has given is taken from there, so that a run that goes on costs what is new.
    """

    def drafts(runs: Sequence[Record]) -> list[_Draft]:
        read = [_Draft(run, earlier) for run in runs if run.success]
        return [draft for draft in read if draft.transitions]

    # Reading long runs takes its time, so it must not hold up an event loop.
    found: list[_Draft] = yield FunctionStep(drafts, runs)
    texts = [text for draft in found for text in draft.texts]
    vectors = dict(zip(texts, (yield from encoder.encode(texts)), strict=True)) if texts else {}
    given: list[Contribution] = yield FunctionStep(lambda read: [each.contribution(vectors) for each in read], found)
    return given


def state_of(moment: Moment, encoder: Encoder) -> Flow[Floats]:
    """The views of a state, shape `(len(VIEWS), DIMENSIONS)`."""
    encoded = yield from encoder.encode(list(texts_of(moment).values()))
    return np.concatenate([encoded, hashed(features_of(moment))[None]])


def _version(run: Record, transitions: Sequence[Transition]) -> int:
    """Orders versions of a run by how much they hold; a hash of all that the graph takes from them settles the rest."""
    dialogues = [messages for _, messages in run.dialogues()]
    summaries = [each.summaries for each in transitions]
    held = sum(map(len, dialogues)) + sum(map(len, summaries))
    content = digest([{"dialogues": dialogues, "summaries": summaries, "voice": run.voice}])
    return min(held, (1 << 24) - 1) << 40 | int(content[:10], 16)
