"""Focus points (CFGM, Alg. 1): what to watch while exploring an environment, as a model says beforehand."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from langchain_tooltree.cfgm.recall import example_text
from langchain_tooltree.errors import ConfigurationError, ReplyError
from langchain_tooltree.experience.store import RecordCollection
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.transcript import MAX_RUN_CHARACTERS, excerpt
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    Words,
    document_prompt,
    filled_in,
    inner_config,
)
from langchain_tooltree.text import shortened

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
MAX_FOCUS_EXAMPLES = (
    12  # examples a model is shown, so that there is room for something of each
)
FOCUS = "focus"  # under what label focus points are kept
CURRENT = "current"  # under what key those that were asked for last stand


class FocusPointForm(BaseModel):
    """One focus point, after its reasoning."""

    reasoning: str = Field(description="What makes it matter here, in one sentence")
    focus_point: Words = Field(description="What to watch, in one sentence")


class FocusForm(BaseModel):
    """What a model is asked to fill in."""

    focus_points: list[FocusPointForm] = Field(
        description="At most 10, the most important first"
    )


async def make_focus_points(
    model: BaseChatModel,
    collection: RecordCollection,
    description: str,
    examples: Sequence[str | Trajectory] = (),
) -> list[str]:
    """Make the focus points for an environment, at most 10, and keep them.

    Raises `ReplyError` if the model's replies hold none.
    """
    if not isinstance(description, str) or not description.strip():
        msg = f"description must be a text that says what the environment is, got {description!r:.80}."
        raise ConfigurationError(msg)
    examples = [examples] if isinstance(examples, str) else examples
    document: dict[str, Any] = {
        "description": shortened(description.strip(), MAX_RUN_CHARACTERS)
    }
    if examples:
        room = MAX_RUN_CHARACTERS // min(len(examples), MAX_FOCUS_EXAMPLES)
        document["examples"] = [
            _example(each, room) for each in examples[:MAX_FOCUS_EXAMPLES]
        ]
    meter = Meter(REPLY_ATTEMPTS)
    prompt = document_prompt(DEFAULT_FOCUS_PROMPT, document)
    reply = await filled_in(model, FocusForm, prompt, inner_config("focus", {}), meter)
    if reply is None or not reply.focus_points:
        problem = "; ".join(meter.problems) or "the list is empty"
        msg = f"The model named no focus points: {problem}. Try again, or use another model."
        raise ReplyError(msg)
    lines = [" ".join(each.focus_point.split()) for each in reply.focus_points]
    distinct = {line.casefold().rstrip("."): line for line in lines}.values()
    points = [shortened(line, LONGEST_FOCUS_POINT) for line in distinct][
        :MOST_FOCUS_POINTS
    ]
    record = {
        "focus_points": points,
        "examples": list(map(example_text, examples)),
        "trajectories": [each.id for each in examples if isinstance(each, Trajectory)],
    }
    await collection.putting(CURRENT, record)
    return points


def _example(example: str | Trajectory, room: int) -> Any:
    if isinstance(example, str):
        return shortened(example, room)
    outcome = {} if example.success is None else {"success": example.success}
    return {
        "task": shortened(example.task),
        "record": excerpt(example, max_characters=room),
        **outcome,
    }


async def current_focus_points(
    collection: RecordCollection,
) -> tuple[list[str], list[str]]:
    """The focus points that were asked for last, and the examples that came with them."""
    record = await collection.getting(CURRENT)
    return (record["focus_points"], record["examples"]) if record else ([], [])


async def forget_focus_points(
    collection: RecordCollection, runs: AbstractSet[str] | None
) -> int:
    """Delete the focus points if they were made of some of these runs, or of whatever; how many sets there were."""
    record = await collection.getting(CURRENT)
    if record is None or (runs is not None and runs.isdisjoint(record["trajectories"])):
        return 0
    await collection.deleting(CURRENT)
    return 1
