"""The demo's world: a photographed road sign, tools that look at it, and a stand-in for a model.

The task has the shape of the paper's case study: a sign gives a distance in kilometres, the user wants miles. Seen as
a whole the photo is too coarse, so the obvious first step brings back a number with holes. The stand-in, whose replies
are scripted, gives up there. The search has to recover: zoom in on the sign, read it again, convert. The photo is
simulated, so the demo needs no extra package; tools for real files come with `toolbox`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.node import search
from langchain_tooltree.tooltree.result import SearchResult

REQUEST = (
    "The photo road.png shows a distance sign. How many miles is it to Granite Pass?"
)
PHOTO = "road.png"
SIGN_AT = "top right"
IMAGE_PARTS = {
    "top left": "0,0",
    "top right": "320,0",
    "bottom left": "0,200",
    "bottom right": "320,200",
}
MILES_PER = {"km": 0.621371192237334, "mile": 1.0, "nautical_mile": 1.150779448023543}

ImagePart = Literal["top left", "top right", "bottom left", "bottom right"]
Unit = Literal["km", "mile", "nautical_mile"]


@tool
def zoom_image(image: Literal["road.png"], part: ImagePart) -> str:
    """Enlarge a quarter of an image, so that small things can be read. Gives the detail's name for the other tools."""
    return f"{image}#xywh={IMAGE_PARTS[part]},320,200&zoom=4"


@tool
def image_size(image: str) -> str:
    """How many pixels an image, or a detail of one, is wide and high."""
    return "640 x 400 pixels" if image == PHOTO else "1280 x 800 pixels"


@tool
def read_sign(image: str) -> str:
    """Read the text on a sign in an image, or in a detail of one. Letters too coarse to tell apart come back as ?."""
    if image == PHOTO:
        return "The sign reads '?4? ?m'. 3 letters are too coarse to tell apart."
    return (
        "The sign reads '343 km'."
        if f"={IMAGE_PARTS[SIGN_AT]}," in image
        else "There are no letters."
    )


@tool
def convert_units(value: float, unit: Unit, to: Unit) -> str:
    """Convert a distance from one unit to another."""
    return f"{value:.10g} {unit} = {value * MILES_PER[unit] / MILES_PER[to]:.10g} {to}"


@tool
def save_note(text: str) -> str:
    """Save a note to the user's notebook."""
    msg = f"The demo must never write, but was asked to note {text!r}."
    raise AssertionError(msg)


DEMO_TOOLS = [zoom_image, image_size, convert_units, read_sign, save_note]
DEMO_EFFECTS: Mapping[str, Literal["read", "write"]] = {
    tool.name: "read" for tool in DEMO_TOOLS if tool is not save_note
}
"""All tools only read, except for the notebook, which the search may weigh but never touch."""

STUCK = '{"missing": "a distance that can be read"}\nI could not find out.'
REPLIES: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]] = (
    ("", [("read_sign", {"image": PHOTO})]),
    (
        STUCK,
        [],
    ),  # a doubt: the agent's own step is asked again, and then for other calls
    (STUCK, []),
    (STUCK, []),
    (
        "",
        [
            ("zoom_image", {"image": PHOTO, "part": SIGN_AT}),
            ("zoom_image", {"image": PHOTO, "part": "top left"}),
            ("image_size", {"image": PHOTO}),
        ],
    ),
    (
        "",
        [
            (
                "read_sign",
                {"image": f"{PHOTO}#xywh={IMAGE_PARTS[SIGN_AT]},320,200&zoom=4"},
            )
        ],
    ),
    ("", [("convert_units", {"value": 343.0, "unit": "km", "to": "mile"})]),
    ('{"missing": "nothing"}\nIt is about 213 miles to Granite Pass.', []),
)
"""What the stand-in says, in order: a text, and the calls beside it."""


def stand_in() -> BaseChatModel:
    """A model that plays the demo, in which it reads the photo as it is and then gives up."""
    replies = [
        AIMessage(
            text,
            tool_calls=[
                {"name": name, "args": dict(args), "id": f"call_{number}_{at}"}
                for at, (name, args) in enumerate(calls)
            ],
        )
        for number, (text, calls) in enumerate(REPLIES)
    ]
    return ScriptedChatModel(replies=replies)


def solved(model: BaseChatModel | None = None, **settings: Any) -> SearchResult:
    """Search for the answer, with more `settings` of `search`; the stand-in's script fits the default search."""
    return search(
        REQUEST, DEMO_TOOLS, model=model or stand_in(), effects=DEMO_EFFECTS, **settings
    )
