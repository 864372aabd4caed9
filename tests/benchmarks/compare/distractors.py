"""Tools that are of no use to a task but read as if they might be: functions of its other classes, about other things.

`book_flight` of the travel class becomes `book_violin`: the nouns that a class is about are replaced by another one,
in its name and in all that is said of it. So thousands of tools differ from each other, and from the task's own, as
the tools of many similar services do.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.benchmarks.bfcl_world import Task, ToolSpec

NOUNS = {
    "GorillaFileSystem": "gorilla files file directories directory folder",
    "MathAPI": "numbers number math",
    "MessageAPI": "messages message workspace",
    "TicketAPI": "tickets ticket ticketing",
    "TradingBot": "stocks stock trading",
    "TravelAPI": "flights flight travel airports airport",
    "TwitterAPI": "tweets tweet tweeted twitter",
    "VehicleControlAPI": "vehicle car tire",
}
"""What each class of the benchmark is about."""

ENTITIES = """
accordion allotment ambulance antenna apartment apprentice aquarium archive atlas auction balcony ballet balloon
bakery bandage banjo barge barley barometer basket beacon beehive bicycle biscuit blanket boiler bonsai bouquet
brewery bridge broadcast broom burrow cabinet cactus camera canal canoe canvas caravan carpet castle cathedral
cello census ceramic chapel chart cheese cherry chess chimney chorus cinema circus clinic cloak clock coffee coin
comet compass concert coral cottage courtyard cradle crane crystal curtain cushion cyclone dam dentist desert
diamond diary dinosaur dolphin donation dragonfly drawbridge drone drum eclipse elevator embassy embroidery emerald
engraving exhibit fabric falcon farm ferry festival fiddle firework flute fossil fountain fresco furnace galaxy
gallery garden garment gazebo geyser glacier glossary goblet granary greenhouse guitar hammock harbour harvest
hedge helmet herb hospital hostel hydrant iceberg igloo incubator insect island jacket jewel jigsaw juniper kayak
kennel kettle kiln kiosk kitchen laboratory lagoon lantern lathe laundry lecture lighthouse loom mandolin manuscript
marathon marina meadow medal meteor microscope mill mineral monastery mosaic mural museum mushroom nursery oasis
observatory opera orchard orchestra organ ornament osprey oven painting palace parade parcel pavilion pearl penguin
pharmacy piano pilgrim plough portrait pottery puppet pyramid quarry quilt rainbow reef rehearsal reindeer relic
reservoir restaurant rowboat saddle sanctuary sapling sculpture seminar shipyard sonata spice stadium statue stove
submarine sundial sweater symphony tapestry tavern telescope temple terrace theatre tram trophy tunnel turbine
umbrella vaccine vase vineyard violin volcano waterfall windmill workshop yacht zeppelin
"""


@dataclass(frozen=True, slots=True)
class Distractor:
    """A tool that no task needs, and the function it was made of."""

    spec: ToolSpec
    origin: str


def distractors(functions: Iterable[ToolSpec], task: Task, count: int) -> list[Distractor]:
    """Distractors for a task: a fixed sequence for its classes, of which each smaller library holds the beginning.

    Args:
        functions: The functions of all classes.
        task: The task; functions of its own classes are left out, since their copies might serve as well.
        count: How many are wanted.

    Raises:
        ValueError: If the other classes do not yield so many.
    """
    own = {tool.owner for tool in task.tools}
    others = sorted((spec for spec in functions if spec.owner not in own), key=lambda spec: spec.name)
    pairs = [(spec, entity) for entity in ENTITIES.split() for spec in others]
    random.Random(",".join(sorted(own))).shuffle(pairs)  # noqa: S311 - no secret depends on it
    taken = {tool.name for tool in task.tools}
    made: list[Distractor] = []
    for spec, entity in pairs:
        if len(made) == count:
            break
        renamed = rename(spec, entity)
        if renamed.name not in taken:
            taken.add(renamed.name)
            made.append(Distractor(renamed, spec.name))
    if len(made) < count:
        msg = f"Only {len(made)} distractors can be made for {task.id}, {count} are wanted."
        raise ValueError(msg)
    return made


def rename(spec: ToolSpec, entity: str) -> ToolSpec:
    """The same function about something else."""
    nouns = re.compile("|".join(NOUNS[spec.owner].split()), re.IGNORECASE)
    say = partial(nouns.sub, entity)
    name = say(spec.name)
    return ToolSpec(
        name if name != spec.name else f"{name}_{entity}", entity, say(spec.description), _in_words(spec.schema, say)
    )


def _in_words(schema: Any, say: Any) -> Any:
    """A schema with its descriptions and the names of its properties changed."""
    if isinstance(schema, list):
        return [_in_words(part, say) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _in_words(part, say) for key, part in schema.items()}
    if isinstance(schema.get("description"), str):
        changed["description"] = say(schema["description"])
    if isinstance(schema.get("properties"), dict):
        changed["properties"] = {say(name): part for name, part in changed["properties"].items()}
        changed["required"] = [say(name) for name in schema.get("required", ())]
    return changed


def all_functions(tasks: Sequence[Task]) -> list[ToolSpec]:
    """The functions of all classes that any of the tasks has."""
    return list({tool.name: tool for task in tasks for tool in task.tools}.values())
