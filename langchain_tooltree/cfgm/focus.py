"""Focus points: what to watch while a new environment is explored (CFGM, Alg. 1)."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from langchain_tooltree.cfgm.recall import example_text
from langchain_tooltree.errors import ConfigurationError, ReplyError
from langchain_tooltree.experience.store import RecordCollection
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.verdict import DEFAULT_MAX_CHARACTERS, excerpt
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import ATTEMPTS, Meter, Words, document_prompt, filled_in, inner_config
from langchain_tooltree.text import LONGEST_TEXT, digest, shortened

DEFAULT_FOCUS_PROMPT = """\
An assistant is about to try tasks in an environment that it does not know, in order to learn how things work there. \
You tell it beforehand what to watch.

You get one JSON document. `description` says what the environment is; `examples`, if there are any, are runs or texts \
from it.

Name at most 10 focus points, the most important first. Before each, say in one sentence what in the description or \
the examples makes it matter. A focus point is one sentence that says what to look at, to \
try out or to compare, and what can be learnt from it: how things are found and used, what has to be done before what, \
how the environment says that something cannot be done, what tells success from failure, which mistakes are likely. It \
must hold for many tasks of this environment, so do not solve one of the examples."""

MOST_FOCUS_POINTS = 10  # focus points there are at the most, as in the paper
LONGEST_FOCUS_POINT = 500  # characters of a focus point that are kept: about 125 tokens
MOST_EXAMPLES = 12  # examples a model is shown, so that there is room for something of each
LABEL = "focus"  # under what label focus points are kept

FROM = "trajectories"  # key of the runs that the model was shown
CURRENT = "current"  # key of those that were asked for last; others stand under the digest of what they are from


EXAMPLES = "examples"  # key of the examples, as attempts are shown them


class FocusPointForm(BaseModel):
    """One focus point, after its reasoning."""

    reasoning: str = Field(description="What makes it matter here, in one sentence")
    focus_point: Words = Field(description="What to watch, in one sentence")


class FocusForm(BaseModel):
    """What a model is asked to fill in."""

    focus_points: list[FocusPointForm] = Field(description="At most 10, the most important first")


def focus_points(
    model: BaseChatModel, collection: RecordCollection, description: str, examples: Sequence[str | Trajectory] = ()
) -> Flow[list[str]]:
    """Make the focus points for an environment, or take those that were made from the same: at most 10.

    Those that were asked for last are the current ones. Raises `ReplyError` if the model's replies hold none.
    """
    document = _document(description, examples)
    key = digest([{"prompt": DEFAULT_FOCUS_PROMPT, **document}])
    shown = [each.id for each in examples if isinstance(each, Trajectory)]
    points, _ = yield from kept_focus_points(collection, key)
    if not points:
        points = yield from _ask(model, document)
        yield from collection.putting(key, {"focus_points": points, FROM: shown})
    to_act_by = [example_text(each) for each in examples]
    yield from collection.putting(CURRENT, {"focus_points": points, FROM: shown, EXAMPLES: to_act_by})
    return points


def kept_focus_points(collection: RecordCollection, key: str = CURRENT) -> Flow[tuple[list[str], list[str]]]:
    """The focus points under a key, by default those that were asked for last, and the examples that came with them."""
    kept = (yield from collection.getting(key)) or {}
    listed = (kept.get("focus_points"), kept.get(EXAMPLES))
    points, examples = (
        [text for text in each if isinstance(text, str)] if isinstance(each, list) else [] for each in listed
    )
    return points, examples


def forget_points(collection: RecordCollection, runs: AbstractSet[str] | None) -> Flow[int]:
    """Delete the focus points that were made of some runs, or all; how many sets there were."""
    count = 0
    for key, kept in (yield from collection.reading()).items():
        made_of = kept.get(FROM)
        if runs is None or (isinstance(made_of, list) and not runs.isdisjoint(map(str, made_of))):
            yield from collection.deleting(key)
            count += key != CURRENT
    return count


def _document(description: str, examples: Sequence[str | Trajectory]) -> dict[str, Any]:
    if not isinstance(description, str) or not description.strip():
        msg = f"description must be a text that says what the environment is, got {description!r:.80}."
        raise ConfigurationError(msg)
    if isinstance(examples, str):
        msg = f"examples must be a sequence of trajectories or texts, got one text: {examples!r:.80}. Put it in a list."
        raise ConfigurationError(msg)
    given = list(examples)[:MOST_EXAMPLES]
    room = DEFAULT_MAX_CHARACTERS // max(1, len(given))
    shown = [_example(example, room) for example in given]
    document = {"description": shortened(description.strip(), DEFAULT_MAX_CHARACTERS)}
    return {**document, "examples": shown} if shown else document


def _example(example: str | Trajectory, room: int) -> Any:
    if isinstance(example, Trajectory):
        outcome = {} if example.success is None else {"success": example.success}
        record = excerpt(example, max_characters=room)
        return {"task": shortened(example.task, LONGEST_TEXT), "record": record, **outcome}
    if isinstance(example, str):
        return shortened(example, room)
    msg = f"An example must be a Trajectory or a text, got {type(example).__name__}: {example!r:.80}."
    raise ConfigurationError(msg)


def _ask(model: BaseChatModel, document: Mapping[str, Any]) -> Flow[list[str]]:
    meter = Meter(allowance=ATTEMPTS)
    prompt = document_prompt(DEFAULT_FOCUS_PROMPT, document)
    reply = yield from filled_in(model, FocusForm, prompt, inner_config("focus", {}), meter)
    if reply is None or not reply.focus_points:
        problem = "; ".join(meter.problems) or "the list is empty"
        msg = f"The model named no focus points: {problem}. Try again, or use another model."
        raise ReplyError(msg)
    lines = [" ".join(each.focus_point.split()) for each in reply.focus_points]
    points = {line.casefold().rstrip("."): line for line in lines}
    return [shortened(line, LONGEST_FOCUS_POINT) for line in points.values()][:MOST_FOCUS_POINTS]
