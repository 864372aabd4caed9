"""The demo's world: a photographed road sign, tools that really work on it, and a stand-in for a model.

The task has the shape of the paper's case study: a sign gives a distance in kilometres, the user wants miles. The
photo is a small bitmap. Read as a whole it is too coarse, so the obvious first step brings back a number with holes.
By itself the stand-in would give up there. The search has to recover: zoom in on the sign, read it again, convert.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.tools import ToolException, tool

from langchain_tooltree.testing import Made, OfflineChatModel, Question

REQUEST = "The photo road.png shows a distance sign. How many miles is it to Granite Pass?"

LETTERS = "0123456789km "
FONT = (
    "### .#. ### ### #.# ### ### ### ### ### #.# ... ...",
    "#.# ##. ..# ..# #.# #.. #.. ..# #.# #.# #.# ### ...",
    "#.# .#. ### ### ### ### ### .#. ### ### ##. ### ...",
    "#.# .#. #.. ..# ..# ..# #.# .#. #.# ..# #.# #.# ...",
    "### ### ### ### ..# ### ### .#. ### ### #.# #.# ...",
)
GLYPHS = dict(zip(LETTERS, zip(*(row.split() for row in FONT), strict=True), strict=True))
"""The five rows of pixels of each letter that a sign may have."""

SIGN = "343 km"
ROWS: Mapping[str, Sequence[int]] = {
    "road.png": (0, 2, 4),  # too coarse for all letters but a few
    "road.png#sign": range(5),
    "road.png#road": (),
    "road.png#sky": (),
}
"""The rows of pixels that the photo, or a detail of it, has of each letter."""

KILOMETRES_PER = {"km": 1.0, "m": 0.001, "mi": 1.609344, "ft": 0.0003048, "nmi": 1.852}
EUROS_PER = {"EUR": 1.0, "USD": 0.92, "GBP": 1.17, "CHF": 1.04}


@tool
def read_sign(photo: str) -> str:
    """Read the text on a sign in a photo, letter by letter.

    Args:
        photo: Name of the photo, or of a detail that zoom returned. Letters too coarse to tell apart come back as ?.
    """
    rows = _rows(photo)
    text = "".join(_recognise(letter, rows) for letter in SIGN)
    unclear = text.count("?")
    return f"The sign reads '{text}'." + (f" {unclear} letters are too coarse to tell apart." if unclear else "")


@tool
def zoom(photo: str, region: Literal["sign", "road", "sky"]) -> str:
    """Enlarge a region of a photo, so that details can be told apart.

    Args:
        photo: Name of the photo.
        region: What to enlarge.
    """
    _rows(photo)
    return f"The detail is stored as {photo.partition('#')[0]}#{region}."


@tool
def describe_scene(photo: str) -> str:
    """Describe in one sentence what a photo shows.

    Args:
        photo: Name of the photo.
    """
    _rows(photo)
    return "A straight road through hills, a distance sign on the right, clear sky."


@tool
def convert_units(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a length.

    Args:
        value: The number.
        from_unit: One of km, m, mi, ft, nmi.
        to_unit: One of km, m, mi, ft, nmi.
    """
    return _converted(value, from_unit, to_unit, "unit", KILOMETRES_PER)


@tool
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: Numbers, + - * / and parentheses.
    """
    try:
        return f"{expression} = {_evaluate(ast.parse(expression, mode='eval').body):g}"
    except (SyntaxError, TypeError, ZeroDivisionError) as error:
        msg = f"Cannot evaluate {expression!r}: {error}"
        raise ToolException(msg) from error


@tool
def convert_currency(amount: float, from_currency: str, to_currency: str) -> str:
    """Convert an amount of money at fixed rates.

    Args:
        amount: The amount.
        from_currency: One of EUR, USD, GBP, CHF.
        to_currency: One of EUR, USD, GBP, CHF.
    """
    return _converted(amount, from_currency, to_currency, "currency", EUROS_PER)


@tool
def translate(text: str, language: str) -> str:
    """Translate the words of a road sign.

    Args:
        text: The words.
        language: Language to translate into.
    """
    return f"'{text}' has no words that need translating into {language}."


@tool
def save_note(text: str) -> str:
    """Save a note to the user's notebook.

    Args:
        text: The note.
    """
    msg = f"The demo must never write, but was asked to note {text!r}."
    raise AssertionError(msg)


TOOLS = [read_sign, zoom, describe_scene, convert_units, calculator, convert_currency, translate, save_note]
EFFECTS: dict[str, Literal["read", "write"]] = {tool.name: "read" for tool in TOOLS if tool is not save_note}
"""All tools only read, except for the notebook, which the search may weigh but never touch."""


def _converted(amount: float, source: str, target: str, kind: str, worth: Mapping[str, float]) -> str:
    try:
        return f"{amount:g} {source} = {amount * worth[source] / worth[target]:.2f} {target}"
    except KeyError as unknown:
        msg = f"Unknown {kind} {unknown}; use one of {', '.join(worth)}."
        raise ToolException(msg) from unknown


def _rows(photo: str) -> Sequence[int]:
    if photo not in ROWS:
        msg = f"There is no photo {photo!r}; there is road.png."
        raise ToolException(msg)
    return ROWS[photo]


def _recognise(letter: str, rows: Sequence[int]) -> str:
    """The letter that the visible pixels show, or ? if several letters look like that."""
    seen = [GLYPHS[letter][row] for row in rows]
    alike = [name for name, glyph in GLYPHS.items() if [glyph[row] for row in rows] == seen]
    return alike[0] if len(alike) == 1 else "?"


def _evaluate(expression: ast.expr) -> float:
    match expression:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(ast.USub(), operand):
            return -_evaluate(operand)
        case ast.BinOp(left, ast.Add(), right):
            return _evaluate(left) + _evaluate(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _evaluate(left) - _evaluate(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _evaluate(left) * _evaluate(right)
        case ast.BinOp(left, ast.Div(), right):
            return _evaluate(left) / _evaluate(right)
    msg = "only numbers, + - * / and parentheses are understood"
    raise TypeError(msg)


KILOMETRES = r"'(\d+) km'"
MILES = r"= ([\d.]+) mi\b"


class SignReader:
    """The policy of the demo's stand-in for a model: a hasty one, which reads the photo as it is and then gives up."""

    def act(self, question: Question) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Take the step that looks best; where the sign could not be read, none."""
        unreadable = question.path and not (_number(KILOMETRES, question) or _detail(question))
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
                ("convert_units", {"value": kilometres, "from_unit": "km", "to_unit": "mi"}),
                ("calculator", {"expression": f"{kilometres:g} * 0.62"}),
                ("convert_currency", {"amount": kilometres, "from_currency": "EUR", "to_currency": "USD"}),
                ("save_note", {"text": f"Granite Pass: {kilometres:g} km"}),
            ]
        photo = _detail(question) or "road.png"
        return [
            ("read_sign", {"photo": photo}),
            ("zoom", {"photo": "road.png", "region": "sky"}),
            ("zoom", {"photo": "road.png", "region": "sign"}),
            ("describe_scene", {"photo": photo}),
            ("translate", {"text": "Granite Pass", "language": "English"}),
        ]

    def score_call(self, question: Question, call: Made) -> float:  # noqa: ARG002 - as in Policy
        """Guess a call's worth before it runs: reading looks best, wrongly so at the first step."""
        worth = {
            "read_sign": 0.8,
            "zoom": 0.65 if call.arguments.get("region") == "sign" else 0.35,
            "convert_units": 0.9,
            "calculator": 0.6,
            "save_note": 0.4,
            "describe_scene": 0.35,
        }
        return worth.get(call.tool, 0.1)

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:  # noqa: ARG002 - as in Policy
        """See what a call was worth, and whether the distance in miles is known."""
        seen = call.observation or ""
        if re.search(MILES, seen):
            return 0.95, 0.97
        if re.search(KILOMETRES, seen):
            return 0.85, 0.4
        if call.tool == "calculator":
            return 0.7, 0.6
        return (0.7, 0.2) if "#sign" in seen else (0.2, 0.05)

    def answer(self, question: Question) -> str:
        """Say what was found."""
        miles = _number(MILES, question)
        return f"It is about {miles:.0f} miles to Granite Pass." if miles else "I could not find out."


def _number(pattern: str, question: Question) -> float | None:
    """The number that was observed last."""
    seen = (re.search(pattern, made.observation or "") for made in reversed(question.path))
    return next((float(found[1]) for found in seen if found), None)


def _detail(question: Question) -> str | None:
    """The detail of the photo that was zoomed in on first."""
    seen = (re.search(r"road\.png#\w+", made.observation or "") for made in question.path)
    return next((found[0] for found in seen if found), None)


def offline_model() -> OfflineChatModel:
    """The deterministic stand-in for a model that the demo uses without a key."""
    return OfflineChatModel(policy=SignReader())
