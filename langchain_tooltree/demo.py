"""The demo's world: a photographed road sign, tools that look at it, and a stand-in for a model.

The task has the shape of the paper's case study: a sign gives a distance in kilometres, the user wants miles. Seen as
a whole the photo is too coarse, so the obvious first step brings back a number with holes. By itself the stand-in would
give up there. The search has to recover: zoom in on the sign, read it again, convert. The photo is simulated, so the
demo needs no extra package; tools for real files come with `toolbox`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool

from langchain_tooltree.testing import Made, OfflineChatModel, Question
from langchain_tooltree.tooltree.node import search
from langchain_tooltree.tooltree.result import SearchResult

REQUEST = "The photo road.png shows a distance sign. How many miles is it to Granite Pass?"
PHOTO = "road.png"
SIGN_AT = "top right"
PARTS = {"top left": "0,0", "top right": "320,0", "bottom left": "0,200", "bottom right": "320,200"}
MILES_PER = {"km": 0.621371192237334, "mile": 1.0, "nautical_mile": 1.150779448023543}

Part = Literal["top left", "top right", "bottom left", "bottom right"]
Unit = Literal["km", "mile", "nautical_mile"]


@tool
def zoom_image(image: Literal["road.png"], part: Part) -> str:
    """Enlarge a quarter of an image, so that small things can be read. Gives the detail's name for the other tools."""
    return f"{image}#xywh={PARTS[part]},320,200&zoom=4"


@tool
def image_size(image: str) -> str:
    """How many pixels an image, or a detail of one, is wide and high."""
    return "640 x 400 pixels" if image == PHOTO else "1280 x 800 pixels"


@tool
def read_sign(image: str) -> str:
    """Read the text on a sign in an image, or in a detail of one. Letters too coarse to tell apart come back as ?."""
    if image == PHOTO:
        return "The sign reads '?4? ?m'. 3 letters are too coarse to tell apart."
    return "The sign reads '343 km'." if f"={PARTS[SIGN_AT]}," in image else "There are no letters."


@tool
def convert_units(value: float, unit: Unit, to: Unit) -> str:
    """Convert a distance from one unit to another."""
    return f"{value:.10g} {unit} = {value * MILES_PER[unit] / MILES_PER[to]:.10g} {to}"


@tool
def save_note(text: str) -> str:
    """Save a note to the user's notebook."""
    msg = f"The demo must never write, but was asked to note {text!r}."
    raise AssertionError(msg)


TOOLS = [zoom_image, image_size, convert_units, read_sign, save_note]
EFFECTS: Mapping[str, Literal["read", "write"]] = {tool.name: "read" for tool in TOOLS if tool is not save_note}
"""All tools only read, except for the notebook, which the search may weigh but never touch."""

KILOMETRES = r"'(\d+) km'"
MILES = r"= ([\d.]+) mile"


class SignReader:
    """The policy of the demo's stand-in for a model: a hasty one, which reads the photo as it is and then gives up."""

    def act(self, question: Question) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Take the step that looks best; where the sign could not be read, none."""
        latest = question.path[-1].tool if question.path else ""
        unreadable = latest == "read_sign" and not _number(KILOMETRES, question)
        return [] if unreadable else self.propose(question)[:1]

    def missing(self, question: Question) -> Sequence[str]:
        """Say what an answer leaves open."""
        return [] if _number(MILES, question) else ["a distance that can be read"]

    def propose(self, question: Question) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Offer calls for the next step, the hasty one first."""
        if _number(MILES, question):
            return []
        if kilometres := _number(KILOMETRES, question):
            return [
                ("convert_units", {"value": kilometres, "unit": "km", "to": "mile"}),
                ("convert_units", {"value": kilometres, "unit": "km", "to": "nautical_mile"}),
                ("save_note", {"text": f"Granite Pass: {kilometres:g} km"}),
            ]
        photo = next((made.observation for made in question.path if made.tool == "zoom_image"), None) or PHOTO
        return [
            ("read_sign", {"image": photo}),
            ("zoom_image", {"image": PHOTO, "part": "top left"}),
            ("zoom_image", {"image": PHOTO, "part": SIGN_AT}),
            ("image_size", {"image": photo}),
            ("save_note", {"text": "Granite Pass: the sign cannot be read"}),
        ]

    def score_call(self, question: Question, call: Made) -> float:  # noqa: ARG002 - as in Policy
        """Guess a call's worth before it runs: reading looks best, wrongly so at the first step."""
        worth = {
            "read_sign": 0.8,
            "zoom_image": 0.65 if call.arguments.get("part") == SIGN_AT else 0.35,
            "convert_units": 0.9 if call.arguments.get("to") == "mile" else 0.2,
            "save_note": 0.3,
        }
        return worth.get(call.tool, 0.1)

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:  # noqa: ARG002 - as in Policy
        """See what a call was worth, and whether the distance in miles is known."""
        observation = call.observation or ""
        if re.search(MILES, observation):
            return 0.95, 0.97
        if re.search(KILOMETRES, observation):
            return 0.85, 0.4
        return (0.7, 0.2) if call.arguments.get("part") == SIGN_AT else (0.2, 0.05)

    def answer(self, question: Question) -> str:
        """Give the miles."""
        miles = _number(MILES, question)
        return f"It is about {miles:.0f} miles to Granite Pass." if miles else "I could not find out."


def _number(pattern: str, question: Question) -> float | None:
    """The number that was observed last."""
    matches = (re.search(pattern, made.observation or "") for made in reversed(question.path))
    return next((float(match[1]) for match in matches if match), None)


def solved(model: BaseChatModel | None = None, **settings: Any) -> SearchResult:
    """Search for the answer, by default with the stand-in; `settings` are more arguments of `search`."""
    return search(REQUEST, TOOLS, model=model or OfflineChatModel(policy=SignReader()), effects=EFFECTS, **settings)
