"""A policy that solves the task of the demo by any kind of search: it reads the photo as it is, and then gives up."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cookbook.offline_model import Made, OfflineChatModel, Question
from langchain_tooltree.demo import PHOTO, SIGN_AT

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
                (
                    "convert_units",
                    {"value": kilometres, "unit": "km", "to": "nautical_mile"},
                ),
                ("save_note", {"text": f"Granite Pass: {kilometres:g} km"}),
            ]
        photo = (
            next(
                (
                    made.observation
                    for made in question.path
                    if made.tool == "zoom_image"
                ),
                None,
            )
            or PHOTO
        )
        return [
            ("read_sign", {"image": photo}),
            ("zoom_image", {"image": PHOTO, "part": "top left"}),
            ("zoom_image", {"image": PHOTO, "part": SIGN_AT}),
            ("image_size", {"image": photo}),
            ("save_note", {"text": "Granite Pass: the sign cannot be read"}),
        ]

    def score_call(self, question: Question, call: Made) -> float:
        """Guess a call's worth before it runs: reading looks best, wrongly so at the first step."""
        worth = {
            "read_sign": 0.8,
            "zoom_image": 0.65 if call.arguments.get("part") == SIGN_AT else 0.35,
            "convert_units": 0.9 if call.arguments.get("to") == "mile" else 0.2,
            "save_note": 0.3,
        }
        return worth.get(call.tool, 0.1)

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
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
        return (
            f"It is about {miles:.0f} miles to Granite Pass."
            if miles
            else "I could not find out."
        )


def _number(pattern: str, question: Question) -> float | None:
    """The number that was observed last."""
    matches = (
        re.search(pattern, made.observation or "") for made in reversed(question.path)
    )
    return next((float(match[1]) for match in matches if match), None)


def sign_reader() -> OfflineChatModel:
    """The model of that policy."""
    return OfflineChatModel(policy=SignReader())
