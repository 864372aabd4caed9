"""Masks: what stands for the people and the things of a past run where somebody else is shown it. Pure.

Of a run for somebody else the shape is of use: which call came after which, with what kind of argument. Who it was is
not.
"""

import re
from collections.abc import Iterable, Iterator

from langchain_tooltree.text import NUMBERED, identifiers_in

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_FIELD = re.compile(
    r"""["']?(?P<name>[A-Za-z]\w{1,40})\\?["']?\s?[:=]\s?
        (?P<value>\\?"[^"\n]{1,200}"|'[^'\n]{1,200}'|\[[^\[\]{}]{1,400}\]|[\w\#@.+-]{2,80})""",
    re.VERBOSE,
)
"""A field and its value, in JSON, in the text of a Python object, or in a list of names and values."""

_ENTRY = re.compile(r"""[^\s"',\[\]\\][^"',\[\]\\]*""")

_PERSON = (
    "user|customer|client|member|passenger|guest|patient|employee|person|driver|owner|holder|contact|sender|recipient"
)
_MEANS = "card|account|passport|license|licence|ssn|iban|imei|vin|tax|insurance"
_FIELDS = {
    "e-mail": re.compile(r"e?_?mail(_address)?"),
    "phone": re.compile(r"(.*_)?(phone|mobile|telephone|fax)(_?(number|no))?"),
    "name": re.compile(rf"(first|last|full|middle|given|family|maiden|billing|shipping|{_PERSON})_?name|surname"),
    "date of birth": re.compile(r"dob|(date_of_)?birth(day|_?date)?|date_of_birth"),
    "address": re.compile(r"(.*_)?(address(_?(line)?_?\d)?|street(_\w+)?|zip(_?code)?|postal_?code|postcode)"),
    "secret": re.compile(r"(.*_)?(password|passcode|secret|token|pin|cvv|cvc|api_?key)"),
    "number": re.compile(rf"(.*_)?({_MEANS})(_number|_no)?(_last_?(4|four))?|last_?(4|four)(_digits)?"),
}
"""Fields by what they hold; their names in lower case, words joined by `_`."""

_ID = re.compile(
    rf"(?:(?P<of>\w+)_)?(?:ids?|uuid)|(?:\w+_)?(?P<numbered>{NUMBERED})(?:_(?:number|no|code|reference)|(?P<listed>s))"
)

_TEXTS = {
    "e-mail": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"),
    "number": re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?!\w|[.-]\d)"),
    "phone": re.compile(
        r"(?<![\w.-])(?!\d{4}-\d\d-\d\d)(?:\+\d{1,3}[ .-]?)?(?:\(\d{2,4}\)|\d{2,4})(?:[ .-]\d{2,4}){1,4}(?![\w-])"
    ),
    "name": re.compile(r"(?<=\b[Nn]ame is )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*|(?<=\bI'm )[A-Z][\w'-]+(?: [A-Z][\w'-]+)+"),
    "address": re.compile(
        r"\b\d{1,5} (?:[A-Z][\w'-]+ ){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Way|Court)\b"
    ),
    "id": re.compile(r"(?<!\w)[A-Za-z]+(?:_[A-Za-z]+)*_\d{3,}(?!\w)"),
}
"""What tells by itself what it is, in a text of any kind."""

_NAMED_BY_ITSELF = re.compile(r"([a-z]+(?:_[a-z]+)*)_\d{3,}")
FEWEST_DIGITS = 9  # of a phone number; a date has eight
SHORTEST = 4  # characters of what identifies something; a shorter value is a count, or the same for many
SHORTEST_NAME = 2  # characters of a name in a field
MOST_PARTS = 4  # words of a name; a longer text is none


def masks_in(texts: Iterable[str]) -> dict[str, str]:
    """What identifies somebody or something in texts, each with a mask to stand for it: `<user 1>`, `<address 2>`.

    That is what fields call a name, an address, an id and the like, and what tells by itself that it is an e-mail
    address, a phone or card number or an identifier. What is the same for everybody stays: tools, fields, words of the
    trade, airports, flights, products, amounts, dates. Replace them with `renamed_in`, all at once, so that one thing
    has one mask wherever it stands.
    """
    texts = list(texts)
    masks: dict[str, str] = {}
    counts: dict[str, int] = {}

    def mask(kind: str, value: str) -> None:
        if value not in masks:
            counts[kind] = counts.get(kind, 0) + 1
            masks[value] = f"<{kind} {counts[kind]}>"

    for text in texts:
        for kind, value in _of_fields(text):
            mask(kind, value)
    for text in texts:
        for kind, value in _of_texts(text):
            mask(kind, value)
    for value, given in list(masks.items()):
        for part in _names_in(value, given):
            masks.setdefault(part, given)
    return masks


def _names_in(value: str, mask: str) -> list[str]:
    """The single names in a whole name, or in what somebody is called by."""
    kind = mask[1:].rpartition(" ")[0]
    if kind == "name":
        parts = value.split()
    elif re.fullmatch(_PERSON, kind):
        parts = [part.capitalize() for part in re.split(r"[\W\d_]+", value)]
    else:
        return []
    return [part for part in parts if len(part) > SHORTEST_NAME] if len(parts) <= MOST_PARTS else []


def _of_fields(text: str) -> Iterator[tuple[str, str]]:
    for field in _FIELD.finditer(text):
        name = _CAMEL.sub("_", field["name"]).lower()
        kind = next((kind for kind, names in _FIELDS.items() if names.fullmatch(name)), "")
        identifier = None if kind else _ID.fullmatch(name)
        if kind or identifier:
            for entry in _ENTRY.findall(field["value"]):
                if kind and len(entry) >= (SHORTEST_NAME if kind == "name" else SHORTEST):
                    yield kind, entry
                elif identifier and _is_id(entry) and not (identifier["listed"] and entry.isalpha()):
                    own = _NAMED_BY_ITSELF.fullmatch(entry)
                    of = (identifier["of"] or identifier["numbered"] or "id").rpartition("_")[2]
                    yield own[1] if own and not re.fullmatch(_PERSON, of) else of, entry


def _of_texts(text: str) -> Iterator[tuple[str, str]]:
    for kind, pattern in _TEXTS.items():
        for found in pattern.findall(text):
            if kind != "phone" or sum(letter.isdigit() for letter in found) >= FEWEST_DIGITS:
                yield kind, found
    for found in identifiers_in(text):
        if _is_id(found):
            yield "id", found


def _is_id(value: str) -> bool:
    """Whether a value may tell one thing from all others: a plain word in small letters is rather a kind of thing."""
    return (
        len(value) >= SHORTEST and not (value.isalpha() and value.islower()) and value.lower() not in {"none", "null"}
    )
