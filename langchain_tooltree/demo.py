"""The demo's world: a photographed road sign, the toolbox's tools beside one of its own, and a stand-in for a model.

The task has the shape of the paper's case study: a sign gives a distance in kilometres, the user wants miles. Seen as
a whole the photo is too coarse, so the obvious first step brings back a number with holes. By itself the stand-in would
give up there. The search has to recover: zoom in on the sign, read it again, convert.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, ToolException, tool

from langchain_tooltree.errors import import_extra
from langchain_tooltree.testing import Made, OfflineChatModel, Question
from langchain_tooltree.toolbox import toolbox
from langchain_tooltree.toolbox.process import RefusedError
from langchain_tooltree.toolbox.sources import pixels
from langchain_tooltree.tooltree.node import search
from langchain_tooltree.tooltree.result import SearchResult

REQUEST = "The photo road.png shows a distance sign. How many miles is it to Granite Pass?"

READY = ("zoom_image", "image_size", "convert_units")
"""The tools that come from the toolbox."""

EFFECTS: dict[str, Literal["read", "write"]] = dict.fromkeys((*READY, "read_sign"), "read")
"""All tools only read, except for the notebook, which the search may weigh but never touch."""

PHOTO = "road.png"
SIGN = "343 km"
FONT = (
    "### .#. ### ### #.# ### ### ### ### ### #.# ... ...",
    "#.# ##. ..# ..# #.# #.. #.. ..# #.# #.# #.# ### ...",
    "#.# .#. ### ### ### ### ### .#. ### ### ##. ### ...",
    "#.# .#. #.. ..# ..# ..# #.# .#. #.# ..# #.# #.# ...",
    "### ### ### ### ..# ### ### .#. ### ### #.# #.# ...",
)
GLYPHS = dict(zip("0123456789km ", map("".join, zip(*(row.split() for row in FONT), strict=True)), strict=True))
"""The dots of each letter that a sign may have, three in a row and five rows."""

DOT = 6
"""Pixels of the photo that a dot is wide and high."""

SEEN = 128
"""Pixels of the longer side of what the reader sees, as vision models shrink an image: in the whole photo a dot has 1.2
of them and runs into its neighbours, in a quarter of it 2.4."""

PAINT, WHITE = 75, 155
"""Brightness of the sign's green paint, and the least of its letters; nothing else in the photo is as bright."""

BLURRED = 45
"""How far from black and white the dots of a letter may be, on average, for it to be told from others."""


def tools(folder: str | os.PathLike[str]) -> list[BaseTool]:
    """Draw the photo into a folder, and give the tools that look at it.

    Raises:
        MissingExtraError: Without the extra `toolbox`.
    """
    import_extra("PIL", "toolbox", "The demo")
    box = toolbox(*READY, folder=folder)
    _draw(Path(folder) / PHOTO)

    @tool
    def read_sign(image: str) -> str:
        """Read the text on a sign in an image.

        Args:
            image: A file, or a detail of one. Letters too coarse to tell apart come back as ?.
        """
        try:
            text = _read(pixels(image, str(folder), SEEN).convert("L"))
        except RefusedError as refused:
            raise ToolException(str(refused)) from refused
        unclear = f" {text.count('?')} letters are too coarse to tell apart." if "?" in text else ""
        return f"The sign reads '{text}'.{unclear}" if text else "There are no letters."

    return [*box, read_sign, save_note]


@tool
def save_note(text: str) -> str:
    """Save a note to the user's notebook.

    Args:
        text: The note.
    """
    msg = f"The demo must never write, but was asked to note {text!r}."
    raise AssertionError(msg)


def _draw(path: Path) -> None:
    """A road through hills under a clear sky, with the sign on the right."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - an extra

    photo = Image.new("RGB", (640, 400), "#4a7aa8")
    pen = ImageDraw.Draw(photo)
    pen.polygon([(0, 230), (160, 150), (330, 220), (480, 170), (640, 230), (640, 400), (0, 400)], "#6f7f4f")
    pen.polygon([(300, 225), (330, 225), (520, 400), (60, 400)], "#55585c")
    pen.polygon([(314, 240), (317, 240), (300, 400), (280, 400)], "#8f7f3a")
    pen.rectangle((496, 100, 504, 260), "#707478")
    pen.rectangle((412, 42, 586, 108), "#0b6b3a")
    for place, letter in enumerate(SIGN):
        for dot, ink in enumerate(GLYPHS[letter]):
            if ink == "#":
                x, y = 430 + (4 * place + dot % 3) * DOT, 60 + dot // 3 * DOT
                pen.rectangle((x, y, x + DOT - 1, y + DOT - 1), "white")
    photo.save(path)


def _read(seen: Any) -> str:
    """The letters in a grey image, with a ? for each that looks like none or like several."""
    white = seen.point(lambda light: 255 * (light >= WHITE)).getbbox()
    if white is None:
        return ""
    left, top, right, bottom = white
    letters = max(1, round((5 * (right - left) / (bottom - top) + 1) / 4))  # each is three dots wide, five high
    wide = 4 * letters - 1
    dots = seen.crop(white).resize((wide, 5)).tobytes()
    cells = ([dots[row * wide + at + dot] for row in range(5) for dot in range(3)] for at in range(0, wide, 4))
    return "".join(map(_letter, cells))


def _letter(lights: Sequence[int]) -> str:
    def apart(letter: str) -> float:
        glyph = GLYPHS[letter]
        return sum(abs(light - (255 if ink == "#" else PAINT)) for light, ink in zip(lights, glyph, strict=True)) / 15

    nearest = min(GLYPHS, key=apart)
    return nearest if apart(nearest) < BLURRED else "?"


KILOMETRES = r"'(\d+) km'"
SIGN_AT = "top right"
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
        seen = call.observation or ""
        if re.search(MILES, seen):
            return 0.95, 0.97
        if re.search(KILOMETRES, seen):
            return 0.85, 0.4
        return (0.7, 0.2) if call.arguments.get("part") == SIGN_AT else (0.2, 0.05)

    def answer(self, question: Question) -> str:
        """Say what was found."""
        miles = _number(MILES, question)
        return f"It is about {miles:.0f} miles to Granite Pass." if miles else "I could not find out."


def _number(pattern: str, question: Question) -> float | None:
    """The number that was observed last."""
    matches = (re.search(pattern, made.observation or "") for made in reversed(question.path))
    return next((float(match[1]) for match in matches if match), None)


def solved(model: BaseChatModel | None = None, **settings: Any) -> SearchResult:
    """Search for the answer in a temporary folder.

    Args:
        model: Without one, the stand-in is asked.
        settings: More arguments of `search`.

    Raises:
        MissingExtraError: Without the extra `toolbox`.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return search(REQUEST, tools(folder), model=model or offline_model(), effects=EFFECTS, **settings)


def offline_model() -> OfflineChatModel:
    """The deterministic stand-in for a model that the demo uses without a key."""
    return OfflineChatModel(policy=SignReader())
