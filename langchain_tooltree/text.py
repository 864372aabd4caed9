"""Texts and plain data: cutting, digests, sums, JSON, words, what results make up, labels. Pure."""

import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from itertools import chain, islice
from typing import Any

GAP = "…"  # what stands for something that is left out

LONGEST_TEXT = 2_000
"""Characters that a model is shown of one text, one observation or the arguments of one call: about 500 tokens."""


def cut(text: str, longest: int) -> str:
    """The beginning of a text that is too long, with `…` for the rest: labels, headings, quotations."""
    return (
        text if len(text) <= longest else f"{text[: max(0, longest - len(GAP))]}{GAP}"
    )


def one_line(text: str, longest: int) -> str:
    """A text on one line, cut where it is too long."""
    return cut(" ".join(text.split()), longest)


def counted(number: int, noun: str) -> str:
    """So many of something, in words."""
    return f"{number} {noun}{'s' * (number != 1)}"


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text that is too long without its middle, with a mark that says how much is missing: what models read.

    The beginning gets two thirds of the room. An observation often ends with what matters, such as an error.
    """
    if len(text) <= longest:
        return text
    tail = longest // 3
    end = text[len(text) - tail :]
    return f"{text[: longest - tail]} [... {len(text) - longest} characters left out ...] {end}"


def shortened_in(data: Any, longest: int = LONGEST_TEXT) -> Any:
    """Data with each text in it shortened, keys aside."""
    if isinstance(data, str):
        return shortened(data, longest)
    if isinstance(data, Mapping):
        return {key: shortened_in(value, longest) for key, value in data.items()}
    return (
        [shortened_in(each, longest) for each in data]
        if isinstance(data, list | tuple)
        else data
    )


def get_mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What stands under a name in data that somebody else may have written; empty if it is no mapping."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def compact_json(data: Any) -> str:
    """Data as JSON in as few tokens as it takes; what JSON cannot say is shown as text."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)


def call_label(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in one line, for people: `look(query="a sign")`."""
    written = (
        f"{name}={json.dumps(value, default=str, ensure_ascii=False)}"
        for name, value in arguments.items()
    )
    return f"{tool}({', '.join(written)})"


def get_call_key(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """Return a text that is equal for calls that mean the same.

    Example:
        >>> get_call_key("search", {"query": "otters", "limit": 3})
        'search({"limit": 3, "query": "otters"})'
    """
    return f"{tool}({write_json(arguments, sort_keys=True)})"


def write_json(data: Any, *, sort_keys: bool = False) -> str:
    """Return data as JSON, with other objects as text."""
    try:
        return json.dumps(data, ensure_ascii=False, default=str, sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError):
        # The data have keys that JSON cannot write or sort, or they hold themselves.
        plain_data = to_plain_data(data)
        return json.dumps(plain_data, ensure_ascii=False, sort_keys=sort_keys)


LEVELS = 60
"""Levels of data within data that are kept: pydantic and checkpointers refuse about 200, and an envelope takes some."""

LONGEST_NUMBER = 1_000  # bits of a whole number whose digits are told: some 300 of them


_HOLDERS = (dict, list, tuple)


def is_nested_too_deeply(data: Any, levels: int = LEVELS) -> bool:
    """Whether there is data within data on more levels than can be kept."""
    return next(islice(_levels(data), levels, None), None) is not None


def holds_more_values(data: Any, values: int) -> bool:
    """Whether more than so many values stand in data, at any level."""
    for level in _levels(data):
        values -= sum(map(len, level))
        if values < 0:
            return True
    return False


def _levels(data: Any) -> Iterator[list[Any]]:
    """The mappings and sequences of data, level by level: a recursion would end at a thousand."""
    level = [data] if isinstance(data, _HOLDERS) else []
    while level:
        yield level
        within = chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in level
        )
        holders = (each for each in within if isinstance(each, _HOLDERS))
        level = [
            *{id(each): each for each in holders}.values()
        ]  # once, where data are shared: else they may double


def to_plain_data(data: Any, levels: int = LEVELS) -> Any:
    """Data as JSON has it and every store, checkpointer and client takes it; what they refuse is a text in its place.

    They refuse whole numbers of more than 64 bits, NaN and infinity, halves of characters (lone surrogates), keys that
    are no texts, objects, and data too deep within data.
    """
    result: Any
    match data:
        case None | bool():
            result = data
        case str():
            result = whole_characters(data)
        case int() if -(2**63) <= data < 2**64:
            result = data
        case float() if math.isfinite(data):
            result = data
        case list() | tuple() if levels:
            result = [to_plain_data(value, levels - 1) for value in data]
        case dict() | Mapping() if levels:
            result = {
                whole_characters(str(key)): to_plain_data(value, levels - 1)
                for key, value in data.items()
            }
        case list() | tuple() | Mapping():
            result = f"<{type(data).__name__}>"  # writing it out may take as long as all else
        case int() if data.bit_length() > LONGEST_NUMBER:
            result = "<int>"  # its digits take the square of their number
        case _:
            result = shortened(whole_characters(str(data)))
    return result


def is_plain_data(data: Any) -> bool:
    """Whether data can be kept as they are; see `plain`."""
    return bool(to_plain_data(data) == data)


def whole_characters(text: str) -> str:
    """A text without halves of characters, which no encoding can write."""
    return text.encode("utf-8", "replace").decode()


def forget_oldest(entries: dict[Any, Any], most: int) -> None:
    """Keep the latest entries; in one step each, since other threads may look on."""
    for oldest in list(entries)[:-most]:
        entries.pop(oldest, None)


def digest(content: Any, length: int = 32) -> str:
    """The first hexadecimal digits of the SHA-256 of a text, of bytes, or of data as JSON: the same on every machine.

    32 digits are 128 bits, so no two of 10^15 things share one; other lengths stand where stored ids have them.
    """
    if not isinstance(content, str | bytes):
        content = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    return sha256(content).hexdigest()[:length]


LONGEST_REPLY = 100_000
"""Characters of a reply that are read for its form: about 25,000 tokens, more than any form takes."""


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, in a fence or not; `None` for anything else, other words beside it included."""
    bare = text.strip().removeprefix("```").removeprefix("json").removesuffix("```")
    try:
        data = json.loads(
            bare[:LONGEST_REPLY], strict=False
        )  # models write line breaks within strings
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # Chinese and Japanese characters: each counts as a word

WORD_PATTERN = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")


def words_of(text: str) -> list[str]:
    """The words of a text in order, without case; `_` and punctuation separate them."""
    return WORD_PATTERN.findall(text.casefold())


# Words that say nothing of what a task is about, in English, in which most requests are made; those of other languages
# count like any word. They join, greet, thank, agree, or say who somebody is.
_JOINING = frozenset(
    words_of("""
    a about after again all also am an and any anything are as at back be because been before being but by can could did
    do does doing don done down for from get give go going got had has have having he her here him his how i if in into
    is it its just know let like ll look looking make making many may me might more most much must my need needs next no
    not now of off on one only or other our out over re really s see she should so some something still such t take tell
    than that the their them then there these they thing things this those through to too try trying up us use using ve
    very want wanted was way we well were what when where which while who why will with within without work working
    would you your m d able currently been possible
    """)
)
_COURTEOUS = frozenset(
    words_of("""
    hi hello hey dear good morning afternoon evening great perfect please sorry sure thank thanks appreciate ok okay yes
    yeah yep alright right fine welcome help assist assistance question confirm confirmed proceed ahead continue sounds
    course problem issue bye today provide first second moment unfortunately patience
    """)
)
_IDENTIFYING = frozenset(
    words_of("""
    id ids number numbers name names named called phone email mail address user username customer account profile member
    reservation reservations booking bookings order orders confirmation ticket code remember recall hand head details
    detail information find found
    """)
)
INTRODUCED = re.compile(
    r"(?i:\b(?:name is|names are|i'm|i am|this is|under))(?: [A-Z][\w'’-]+)+|(?<!\S)\S*[\d@]\S*"  # noqa: RUF001
)
_TURN = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - full width, as in Chinese

STEM = 5  # letters by which two forms of a word are taken for one: `cancel` and `cancellation`, `booked` and `booking`


def telling_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, by their beginnings; all words where none of them does."""
    words = [
        word for word in words_of(text) if not any(letter.isdigit() for letter in word)
    ]
    telling = [
        word[:STEM] for word in words if word not in _JOINING and word not in _COURTEOUS
    ]
    return frozenset(telling or words_of(text))


def kinship(one: str, other: str) -> float:
    """How much two texts are about the same thing, in [0, 1]: the cosine of their telling words (Ochiai's index)."""
    words, others = telling_words(one), telling_words(other)
    return (
        len(words & others) / math.sqrt(len(words) * len(others))
        if words and others
        else float(one == other)
    )


def remove_small_talk(turn: str) -> str:
    """What somebody says in a turn beside greetings, thanks, consent, and who they are: its other sentences."""
    sentences = []
    for sentence in _TURN.split(turn):
        words = words_of(INTRODUCED.sub(" ", sentence))
        if any(
            word not in _JOINING and word not in _COURTEOUS and word not in _IDENTIFYING
            for word in words
        ):
            sentences.append(sentence.strip())
    return " ".join(sentences)


def mermaid_text(text: str) -> str:
    """A text that Mermaid shows as it is."""
    return re.sub(r'["<>#&{}\[\]()|`]', lambda match: f"#{ord(match.group())};", text)


def whole_words(names: Collection[str]) -> re.Pattern[str]:
    """A pattern for names where they stand as words of their own."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(
        rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})(?![^\W_])"
    )


STANDS_FOR = "\N{REPLACEMENT CHARACTER}"
"""What is shown for a character that XML refuses, or that would change how others are read."""

_JOINERS = {
    "\N{ZERO WIDTH JOINER}",
    "\N{ZERO WIDTH NON-JOINER}",
}  # emoji and Persian need them
_INVISIBLE_CATEGORIES = {
    "Cc",
    "Cf",
    "Cs",
    "Co",
}  # control, format, lone surrogates, private
_NONE = {
    "\ufffe",
    "\uffff",
}  # no characters, and XML refuses them; other unassigned ones may be of a newer Unicode


def visible(text: str) -> str:
    """A text as everybody sees it: what XML refuses, is invisible or turns the direction of others is marked."""
    return "".join(STANDS_FOR if _refused(each) else each for each in text)


def visible_lines(text: str) -> str:
    """The same of a text that may have several lines, such as a terminal shows: line ends and tabs stay."""
    return (
        text
        if text.isprintable()
        else re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)
    )


def _refused(character: str) -> bool:
    return character in _NONE or (
        unicodedata.category(character) in _INVISIBLE_CATEGORIES
        and character not in _JOINERS
    )


# Reference material is text that this package puts into a conversation. What is recalled from other runs, or advised in
# this one, would otherwise be learnt again as if it had been observed, so it is left out of every record. It looks the
# same everywhere, for models, but its looks decide nothing, since anybody can write a text that looks so:
# - In a prompt, it is a text that this process has made, known by its digest. Prompts are made anew for each request.
# - In a result, which checkpoints keep, a note of this package beside the content says which text was added. Tools
#   write contents, and no notes; what they return, and what a user says, is never reference material.
