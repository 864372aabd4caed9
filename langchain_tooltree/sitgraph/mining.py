"""From runs to what they give to the graph, and from a dialogue to its state."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.experience.embeddings import embedded
from langchain_tooltree.experience.records import Record
from langchain_tooltree.experience.reference import SUMMARIZE_STATE
from langchain_tooltree.experience.run_identity import GivenTools
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.sitgraph.drift import toolset_of
from langchain_tooltree.sitgraph.graph import Contribution, MadeBefore
from langchain_tooltree.sitgraph.states import DIMENSIONS, Floats, fitted, packed, vector_of
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
            found = fitted((yield from embedded(self.embeddings, missing)))
            vectors.update(zip(missing, found, strict=True))
            self._known = dict([*self._known.items(), *vectors.items()][-REMEMBERED:])
        nothing = np.zeros(DIMENSIONS, dtype=np.float32)
        return np.stack([vectors.get(text, nothing) for text in texts])


def mine(
    runs: Sequence[Record],
    encoder: Encoder,
    *,
    aliases: Mapping[str, str],
    tools: GivenTools | None = None,
    known: MadeBefore | None = None,
) -> Flow[list[Contribution]]:
    """What the successful ones of some runs give to the graph; their texts are embedded together.

    What is `known` of an earlier version of a run is taken from there, so that a run that goes on costs what is new.
    """
    # Reading and packing long runs takes its time, so it must not hold up an event loop.
    found: list[_Found] = yield FunctionStep(_read, (runs, aliases, tools, known or MadeBefore()))
    summaries = [both_ends(text) for run in found for text in run.summaries() if text not in run.known.summaries]
    texts = [*(text for run in found for views in run.texts.values() for text in views), *summaries]
    vectors = dict(zip(texts, (yield from encoder.encode(texts)), strict=True)) if texts else {}
    contributions: list[Contribution] = yield FunctionStep(_packed, (found, vectors))
    return contributions


@dataclass(frozen=True, slots=True)
class _Found:
    run: Record
    transitions: Sequence[Transition]
    moments: Sequence[Moment]  # before each transition, then at each end of a turn
    texts: Mapping[str, Sequence[str]]  # of those that are new, by what they are known by: one a text view
    toolset: Mapping[str, str]
    known: MadeBefore

    def summaries(self) -> Iterator[str]:
        """What the agent said of the state, in order."""
        return (text for each in self.transitions for text in each.summaries)


def _read(given: tuple[Sequence[Record], Mapping[str, str], GivenTools | None, MadeBefore]) -> list[_Found]:
    runs, aliases, tools, known = given
    found = []
    for run in (run for run in runs if run.success):
        every, ends = transitions_and_ends(run, aliases)
        # What failed in a run that succeeded has not gone well.
        if transitions := [each for each in every if not each.failed]:
            moments = [*(each.moment for each in transitions), *ends]
            new = (moment for moment in moments if moment.known_by not in known.states)
            texts = {moment.known_by: tuple(texts_of(moment).values()) for moment in new}
            found.append(_Found(run, transitions, moments, texts, _toolset(run, tools, aliases), known))
    return found


def _packed(given: tuple[Sequence[_Found], Mapping[str, Floats]]) -> list[Contribution]:
    found, vectors = given
    contributions = []
    for each in found:
        run, transitions, known = each.run, each.transitions, each.known
        made = [
            [*(vectors[text] for text in each.texts[moment.known_by]), vector_of(features_of(moment))]
            for moment in each.moments
            if moment.known_by in each.texts
        ]
        codes = iter(packed(np.array(made))) if made else iter(())
        states = [
            next(codes) if moment.known_by in each.texts else known.states[moment.known_by] for moment in each.moments
        ]
        summaries = [
            (place, text, known.summaries[text] if text in known.summaries else packed(vectors[both_ends(text)][None]))
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
                states=np.array(states),
                summaries=summaries,
                toolset=each.toolset,
                known_by=[moment.known_by for moment in each.moments],
                came_from=run.came_from,
                voice=int("".join(digest(each, 8) for each in run.voice), 16),
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
    content = digest([{"dialogues": dialogues, "summaries": summaries, "toolset": toolset, "voice": run.voice}])
    return min(held, (1 << 24) - 1) << 40 | int(content[:10], 16)
