"""From runs to what they give to the graph, and from a dialogue to its state."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.experience.embeddings import EmbedStep
from langchain_tooltree.experience.records import Record
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.sitgraph.drift import GivenTools, toolset_of
from langchain_tooltree.sitgraph.graph import Contribution
from langchain_tooltree.sitgraph.states import DIMENSIONS, Floats, fitted, packed, vector_of
from langchain_tooltree.sitgraph.transitions import (
    SUMMARIZE_STATE,
    Moment,
    Transition,
    both_ends,
    ends_of,
    features_of,
    texts_of,
    transitions_of,
)
from langchain_tooltree.text import digest

REMEMBERED = 512  # texts whose vectors are kept: from one step of a dialogue to the next, most views stay the same


class Encoder:
    """Turns texts into vectors of the graph's own length, and keeps the latest."""

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self._known: dict[str, Floats] = {}

    def encode(self, texts: Sequence[str]) -> Flow[Floats]:
        """Embed texts, each one once; an empty one is a zero vector, since embedding models refuse it."""
        known = self._known  # another thread may put another one in its place at any time
        vectors = {text: known[text] for text in texts if text in known}
        missing = [text for text in dict.fromkeys(texts) if text.strip() and text not in vectors]
        if missing:
            found = fitted((yield EmbedStep(self.embeddings, missing)))
            vectors.update(zip(missing, found, strict=True))
            self._known = dict([*self._known.items(), *vectors.items()][-REMEMBERED:])
        nothing = np.zeros(DIMENSIONS, dtype=np.float32)
        return np.stack([vectors.get(text, nothing) for text in texts])


def mine(
    runs: Sequence[Record], encoder: Encoder, *, aliases: Mapping[str, str], tools: GivenTools | None = None
) -> Flow[list[Contribution]]:
    """What the successful ones of some runs give to the graph; their texts are embedded together."""
    # Reading and packing long runs takes its time, so it must not hold up an event loop.
    found: list[_Found] = yield FunctionStep(_read, (runs, aliases, tools))
    summaries = [both_ends(text) for run in found for each in run.transitions for text in each.summaries]
    texts = [*(text for run in found for views in run.texts for text in views), *summaries]
    vectors = dict(zip(texts, (yield from encoder.encode(texts)), strict=True)) if texts else {}
    contributions: list[Contribution] = yield FunctionStep(_packed, (found, vectors))
    return contributions


@dataclass(frozen=True, slots=True)
class _Found:
    run: Record
    transitions: Sequence[Transition]
    moments: Sequence[Moment]  # before each transition, then at each end of a turn
    texts: Sequence[Sequence[str]]  # of these, one a text view
    toolset: Mapping[str, str]


def _read(given: tuple[Sequence[Record], Mapping[str, str], GivenTools | None]) -> list[_Found]:
    runs, aliases, tools = given
    found = []
    for run in runs:
        # What failed in a run that succeeded has not gone well.
        if run.success and (transitions := [each for each in transitions_of(run, aliases) if not each.failed]):
            moments = [*(each.moment for each in transitions), *ends_of(run, aliases)]
            texts = [tuple(texts_of(moment).values()) for moment in moments]
            found.append(_Found(run, transitions, moments, texts, _toolset(run, tools, aliases)))
    return found


def _packed(given: tuple[Sequence[_Found], Mapping[str, Floats]]) -> list[Contribution]:
    found, vectors = given
    contributions = []
    for each in found:
        run, transitions = each.run, each.transitions
        states = [
            [*(vectors[text] for text in texts), vector_of(features_of(moment))]
            for moment, texts in zip(each.moments, each.texts, strict=True)
        ]
        summaries = [
            (place, text, packed(vectors[both_ends(text)][None]))
            for place, transition in enumerate(transitions)
            for text in transition.summaries
        ]
        pairs = [(transition.source, transition.target) for transition in transitions]
        version = _version(run, transitions, each.toolset)
        contributions.append(
            Contribution(
                run.id,
                run.turns,
                version,
                pairs,
                befores=[moment.tool_before for moment in each.moments],
                ends=[moment.last_tool for moment in each.moments[len(pairs) :]],
                states=packed(np.array(states)),
                summaries=summaries,
                toolset=each.toolset,
            )
        )
    return contributions


def state_of(moment: Moment, encoder: Encoder) -> Flow[Floats]:
    """The views of a state, shape `(len(VIEWS), DIMENSIONS)`."""
    texts = list(texts_of(moment).values())
    encoded = yield from encoder.encode(texts)
    return np.concatenate([encoded, vector_of(features_of(moment))[None]])


def _toolset(run: Record, tools: GivenTools | None, aliases: Mapping[str, str]) -> dict[str, str]:
    known = {} if tools is None else toolset_of(tools)
    if tools is None:
        with suppress(ToolDefinitionError, TypeError):  # a record from elsewhere, where the key means something else
            known = toolset_of(run.metadata.get("tools") or ())
    renamed = {aliases.get(name, name): schema for name, schema in sorted(known.items())}
    return {name: schema for name, schema in renamed.items() if name != SUMMARIZE_STATE}


def _version(run: Record, transitions: Sequence[Transition], toolset: Mapping[str, str]) -> int:
    """Orders versions of a run by how much they hold; a hash of all that the graph takes from them settles the rest."""
    dialogues = [messages for _, messages in run.dialogues()]
    summaries = [each.summaries for each in transitions]
    held = sum(map(len, dialogues)) + sum(map(len, summaries)) + bool(toolset)
    content = digest([{"dialogues": dialogues, "summaries": summaries, "toolset": toolset}])
    return min(held, (1 << 24) - 1) << 40 | int(content[:10], 16)
