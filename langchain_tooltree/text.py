"""Texts and plain data: cutting, digests, sums, JSON, words, what results make up, labels. Pure."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

GAP = "…"
"""What stands for something that is left out."""

LONGEST_TEXT = 2_000
"""Characters that a model is shown of one text, one observation or the arguments of one call: about 500 tokens."""


def cut(text: str, longest: int) -> str:
    """The beginning of a text that is too long, with `…` for the rest: labels, headings, quotations."""
    return text if len(text) <= longest else f"{text[: max(0, longest - len(GAP))]}{GAP}"


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
    return [shortened_in(each, longest) for each in data] if isinstance(data, list | tuple) else data


def mapping_in(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What stands under a name in data that somebody else may have written; empty if it is no mapping."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def compact_json(data: Any) -> str:
    """Data as JSON in as few tokens as it takes; what JSON cannot say is shown as text."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)


LEVELS = 60
"""Levels of data within data that are kept: pydantic and checkpointers refuse about 200, and an envelope takes some."""

LONGEST_NUMBER = 1_000
"""Bits of a whole number whose digits are told: some 300 of them."""


def is_deep(data: Any, levels: int = LEVELS) -> bool:
    """Whether there is data within data on more levels than can be kept."""
    if isinstance(data, Mapping):
        data = data.values()
    elif not isinstance(data, list | tuple):
        return False
    return levels == 0 or any(is_deep(each, levels - 1) for each in data)


def plain(data: Any, levels: int = LEVELS) -> Any:
    """Data as JSON has it and every store, checkpointer and client takes it; what they refuse is a text in its place.

    They refuse whole numbers of more than 64 bits, NaN and infinity, halves of characters (lone surrogates), keys that
    are no texts, objects, and data too deep within data.
    """
    kept: Any
    match data:
        case None | bool():
            kept = data
        case str():
            kept = whole_characters(data)
        case int() if -(2**63) <= data < 2**64:
            kept = data
        case float() if math.isfinite(data):
            kept = data
        case Mapping() if levels:
            kept = {whole_characters(str(key)): plain(value, levels - 1) for key, value in data.items()}
        case list() | tuple() if levels:
            kept = [plain(value, levels - 1) for value in data]
        case Mapping() | list() | tuple():
            kept = f"<{type(data).__name__}>"  # writing it out may take as long as all else
        case int() if data.bit_length() > LONGEST_NUMBER:
            kept = "<int>"  # its digits take the square of their number
        case _:
            kept = shortened(whole_characters(str(data)))
    return kept


def is_plain(data: Any) -> bool:
    """Whether data can be kept as they are; see `plain`."""
    return bool(plain(data) == data)


def whole_characters(text: str) -> str:
    """A text without halves of characters, which no encoding can write."""
    return text.encode("utf-8", "replace").decode()


def forget_oldest(kept: dict[Any, Any], most: int) -> None:
    """Keep the latest entries; in one step each, since other threads may look on."""
    for oldest in list(kept)[:-most]:
        kept.pop(oldest, None)


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
        data = json.loads(bare[:LONGEST_REPLY], strict=False)  # models write line breaks within strings
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Chinese and Japanese characters: each counts as a word."""

WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")


def words_of(text: str) -> list[str]:
    """The words of a text in order, without case; `_` and punctuation separate them."""
    return WORD.findall(text.casefold())


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
INTRODUCED = re.compile(r"(?i:\b(?:name is|names are|i'm|i am|this is|under))(?: [A-Z][\w'’-]+)+|(?<!\S)\S*[\d@]\S*")  # noqa: RUF001
_TURN = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - full width, as in Chinese

STEM = 5
"""Letters by which two forms of a word are taken for one: `cancel` and `cancellation`, `booked` and `booking`."""


def telling_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, by their beginnings; all words where none of them does."""
    words = [word for word in words_of(text) if not any(letter.isdigit() for letter in word)]
    telling = [word[:STEM] for word in words if word not in _JOINING and word not in _COURTEOUS]
    return frozenset(telling or words_of(text))


def kinship(one: str, other: str) -> float:
    """How much two texts are about the same thing, in [0, 1]: the cosine of their telling words (Ochiai's index)."""
    words, others = telling_words(one), telling_words(other)
    return len(words & others) / math.sqrt(len(words) * len(others)) if words and others else float(one == other)


def substance(turn: str) -> str:
    """What somebody says in a turn beside greetings, thanks, consent, and who they are: its other sentences."""
    kept = []
    for sentence in _TURN.split(turn):
        words = words_of(INTRODUCED.sub(" ", sentence))
        if any(word not in _JOINING and word not in _COURTEOUS and word not in _IDENTIFYING for word in words):
            kept.append(sentence.strip())
    return " ".join(kept)


def mermaid_text(text: str) -> str:
    """A text that Mermaid shows as it is."""
    return re.sub(r'["<>#&{}\[\]()|`]', lambda match: f"#{ord(match.group())};", text)


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.?"
_SECONDS = r"(?:[mnµu]?s|secs?|(?:milli)?seconds?)\b"
NUMBERED = (
    r"(?:order|ticket|booking|reservation|confirmation|invoice|receipt|shipment|tracking|case|reference"
    r"|payment|transaction|request|trace|message)"
)
"""What tools number when they make one."""

_MONEY = r"(?:EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CAD|AUD)"
# A bare number that is followed by a word may be a count of what the word says.
_NO_COUNT = r"(?![\w-]|[.,][\d-]|\ ?[%€$£]|\ (?!(?:is|was|has|at|placed|created|made|opened|confirmed|for|by|on)\b)\w)"
_MIXED = rf"(?!\d+[A-Za-z]+(?!\w)|{_MONEY}-?\d)(?=[A-Za-z_-]{{0,40}}\d)(?=[\d_-]{{0,40}}[A-Za-z])[^\W_][\w-]*"
_MADE_UP = re.compile(
    rf"""
    (?P<time>(?<![^\W_])
        (?: (?: \d{{4}}([-/.])\d\d\2\d\d | \d{{1,2}}([./])\d{{1,2}}\3\d{{4}}
              | (?:(?:Mon|Tues?|Wed|Thu(?:rs)?|Fri|Sat|Sun)(?:[a-z]*day)?,?\ )?
                (?:{_MONTH}\ \d{{1,2}}|\d{{1,2}}[\ -]{_MONTH}),?[\ -]\d{{4}}
            )(?:T|,?\ (?:at\ )?)
          | (?<=\bat\ ) | (?<=at":\ ") | (?<=^\[)
        )
        \d{{1,2}}:[0-5]\d:(?!00(?![.,]0*[1-9]))[0-5]\d(?:[.,]\d+)?
        (?:\ ?[AaPp]\.?[Mm]\b\.?)?(?:\ ?(?:Z|UTC|GMT)|[+-]\d\d:?\d\d)?(?![^\W_])
    )
    | (?<!\w)(?:[A-Za-z_]{{0,40}}(?:_at|[a-z]At)|timestamp|time|date)\\?["']?\s?[:=]\s?
      (?P<epoch>\d{{10,13}}(?:\.\d{{1,9}})?)(?!\w)
    | (?<!\w)(?:(?:elapsed\w{{0,9}}|took|(?:duration|latency)_ms)\\?["']?\s?[:=]\s?\\?["']?
        | (?:[Tt]ook|[Ee]lapsed|(?:done|ran|(?:complet|finish|execut|process)ed)\ in)\ (?=[\d.]{{1,19}}\ ?{_SECONDS}))
      (?P<taken>\d{{1,9}}(?:\.\d{{1,9}})?)(?:\ ?{_SECONDS}|(?!\.?\d|\ ?\w))
    | (?<![^\W_])(?P<uuid>[\da-fA-F]{{8}}(?:-[\da-fA-F]{{4}}){{3}}-[\da-fA-F]{{12}})(?!\w)
    | (?<!\w)(?: (?i:{NUMBERED})(?:[ _]?(?i:id|number|no\.?|code|reference)|\ ?(?=\#))
        | (?<![A-Za-z]\ )(?:id|Id|ID|uuid|UUID) )
      \\?["']?\s?(?P<is>is|[:=\#])?\s?\\?["'\#]?
      (?P<named>(?(is)\d{{1,40}}|\d{{5,40}}){_NO_COUNT}|{_MIXED}(?!\w))
    | (?<!\w)(?i:{NUMBERED})\\?["']?\s?[:=]?\s?\\?["']?
      (?P<numbered>(?!{_MONEY}-)[A-Z]{{1,5}}(?:-[A-Z\d]{{1,9}}){{0,3}}-\d{{5,}})(?!\w)
    | (?<![^\W_])(?P<token>[A-Za-z\d]{{8,}})(?![^\W_])
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What a tool makes up anew each time it is run: when it ran, how long it took, and generated identifiers.

To take an amount or an appointment for made up would tell the user something wrong; to take an identifier for an amount
costs a search. So a time is one to the second, since what is to happen begins on a full minute, and an identifier is a
UUID, a random token, or what a text or a field calls a number, a code or an id of something that tools make: a plain
number after its name, a word with digits at one place such as a flight's number, and whoever was chosen, are none.
"""

_KINDS = {"time": "time", "epoch": "time", "taken": "duration"}
"""Kinds by the name of the group that finds them; the others find identifiers."""

_CHANGES_IN_RANDOM = 3
"""So often letters and digits change places in a random token at least: in names such as `iphone15pro` it is twice."""

_MEASURED = re.compile(r"[\dxXhmspPTZHMSDWY]+")
"""A size, a length of time or a date in digits and units, such as `1920x1080p60`, `1h30m45s` or `20261203T150000Z`."""

SURE_LENGTH = 5
"""Characters from which on an identifier is in a text hardly by chance; a shorter one may be a count as well."""


class MadeUp(NamedTuple):
    """How two results differ that are the same but for what each has made up."""

    renamed: Mapping[str, str]  # identifiers and times, by what the other result has in their place
    gone: frozenset[str]  # what nothing in the other result is sure to stand for


SAME = MadeUp({}, frozenset())
"""Nothing differs, or only how long something took."""


def made_up(tried: str, real: str) -> MadeUp | None:
    """How two results differ if it is in nothing but what is made up anew each time; `None` if they differ in more.

    One identifier stands for one other, wherever it stands.
    """
    if tried == real:
        return SAME
    before, after = list(_parts(tried)), list(_parts(real))
    if [fixed for fixed, _, _ in before] != [fixed for fixed, _, _ in after]:
        return None
    identifiers: dict[str, str] = {}
    times: dict[str, set[str]] = {}
    for (_, kind, one), (_, other_kind, other) in zip(before, after, strict=True):
        if kind != other_kind:
            return None
        if kind == "identifier" and identifiers.setdefault(one, other) != other:
            return None
        if kind == "time" and one != other:
            times.setdefault(one, set()).add(other)
    if len(set(identifiers.values())) < len(identifiers):
        return None
    changed = {one: other for one, other in identifiers.items() if one != other}
    sure = {one: other for one, other in changed.items() if len(one) >= SURE_LENGTH}
    sure |= {one: min(others) for one, others in times.items() if len(others) == 1}
    return MadeUp(sure, frozenset((changed.keys() | times.keys()) - sure.keys()))


def _parts(text: str) -> Iterator[tuple[str, str, str]]:
    """What is fixed in a text, each with what is made up after it, and of which kind that is; the end has none."""
    end = 0
    for found in _MADE_UP.finditer(text):
        name = str(found.lastgroup)
        value = found[name]
        if (name == "token" and not _is_random(value)) or (name == "epoch" and not int(value[:10]) % 60):
            continue
        yield text[end : found.start(name)], _KINDS.get(name, "identifier"), value
        end = found.end(name)
    yield text[end:], "", ""


def _is_random(token: str) -> bool:
    kinds = [each.isdigit() for each in token]
    mixed = any(kinds) and not all(kinds)
    changes = sum(one != other for one, other in pairwise(kinds))
    random = changes >= _CHANGES_IN_RANDOM or not token.strip("0123456789abcdefABCDEF")
    return mixed and random and not _MEASURED.fullmatch(token)


def mentions(data: Any, names: Collection[str]) -> bool:
    """Whether one of some names stands in a text, or anywhere in JSON-like data, as a word of its own."""
    if not names:
        return False
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return _words(names).search(text) is not None


def renamed_in(data: Any, renamed: Mapping[str, str]) -> Any:
    """JSON-like data in which names are replaced wherever they stand as a word of their own; a number stays one."""
    if not renamed:
        return data
    words = _words(renamed)

    def replaced(each: Any) -> Any:
        if isinstance(each, str):
            return words.sub(lambda found: renamed[found[0]], each)
        if isinstance(each, int) and not isinstance(each, bool) and str(each) in renamed:
            new = renamed[str(each)]
            return int(new) if new.isdecimal() else new
        if isinstance(each, Mapping):
            return {replaced(key): replaced(value) for key, value in each.items()}
        return [replaced(item) for item in each] if isinstance(each, list | tuple) else each

    return replaced(data)


def _words(names: Collection[str]) -> re.Pattern[str]:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})(?![^\W_])")
