"""Phrases: ways in which an environment or a tool says that something did not work. Pure.

The phrases that come with the package are data, in `phrases.toml` beside this file. They are read when they are first
needed.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from typing import Any, Literal, get_args

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.text import one_line

# In characters of an observation. They bound the cost of a check; refusals are shorter than each of them.
HEAD = 1_500  # the beginning that is read
TAIL = 600  # the end that is read
SHORT = 320  # an observation up to this length is read sentence by sentence
LONGEST_SENTENCE = 320  # what is read of a sentence

MOST_SENTENCES = 6  # that a short observation has
MOST_LINES = 2  # beyond them an observation is a list or a letter, of which the first line alone is read

_END_OF_SENTENCE = re.compile(r"(?<=\S[.!?])[\"')\]]?\s+|(?<!\s)\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Signals:
    """What there is to read of an observation."""

    length: int
    head: str
    tail: str  # empty where the head is the whole
    sentences: tuple[str, ...]  # the first and, if the text is short, the next; without prompts, bullets and labels
    last_line: str
    shows: bool  # data, a log, a program or a letter, rather than to say something itself

    @property
    def ends(self) -> str:
        """The beginning and the end of it."""
        return f"{self.head}\n{self.tail}" if self.tail else self.head


def signals_in(text: str) -> Signals:
    """Take an observation apart. The cost does not grow with the length of the text, except for one copy of it."""
    text = text.strip()
    head, tail = _plain(text[:HEAD]), _plain(text[max(HEAD, len(text) - TAIL) :])
    lines = [line for line in head.split("\n") if not line.isspace() and line]
    # Of several lines, those after the first are a list or a letter.
    listing = len(lines) > MOST_LINES or (len(lines) > 1 and lines[0].rstrip().endswith(":"))
    read = lines[0] if lines and (listing or len(text) > SHORT) else head
    parts = _END_OF_SENTENCE.split(read[:HEAD], maxsplit=MOST_SENTENCES)
    sentences = tuple(bare for part in _unquoted(parts) if (bare := _bare(part)))
    says = phrase_book().patterns
    confirms = len(sentences) > 1 and says["success"].search(sentences[0]) and not says["denied"].search(sentences[0])
    if len(text) > SHORT or confirms:
        sentences = sentences[:1]  # what follows is a document, or remarks on what has been done
    last_line = (tail or head).rpartition("\n")[2].strip()[:LONGEST_SENTENCE]
    return Signals(len(text), head, tail, sentences, last_line, says["record"].match(head) is not None)


def quoted(text: str, longest: int = 160) -> str:
    """A text as evidence quotes it: on one line, shortened, in quotation marks."""
    return f'"{one_line(text[: 4 * longest], longest)}"'


def _plain(text: str) -> str:
    """A text with plain apostrophes and dashes."""
    return text.replace("\u2019", "'").replace("\u2013", "-").replace("\u2014", "-")


def _unquoted(parts: Sequence[str]) -> Iterator[str]:
    """The first sentence, and those of the others that are not said or written by somebody."""
    within = False
    for place, part in enumerate(parts):
        if not place or not (within or part.startswith(('"', "\u201c"))):
            yield part
        within ^= part.count('"') % 2 == 1


def _bare(part: str) -> str:
    frame = phrase_book().patterns["frame"].match(part)
    return part[frame.end() if frame else 0 :][:LONGEST_SENTENCE].strip()


Place = Literal["anywhere", "sentence", "opening", "start", "last_line"]
"""Where a phrase counts: anywhere in the beginning or the end of an observation; in a sentence that is read (all of a
short observation, the first of a longer one); in the first of these alone, the opening; in the first sentence even
of data, logs, programs and letters; in the last line alone."""

DEFAULT_PHRASES: tuple["Phrase", ...]
"""The general language of failure, of no environment in particular."""

ALFWORLD_PHRASES: tuple["Phrase", ...]  # household tasks in text
WEBSHOP_PHRASES: tuple["Phrase", ...]  # shopping on a simulated web site
SCIENCEWORLD_PHRASES: tuple["Phrase", ...]  # elementary science in a simulated laboratory
"""How these environments refuse an action."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A way of saying that something did not work.

    Args:
        text: The words, whatever their case; a regular expression if `regex` is set.
        regex: Whether `text` is a regular expression. It is searched for, so begin it with `^` where a sentence must
            begin with it.
        place: Where it counts.
        longest: It counts in observations of at most so many characters; in any if left out.
        unless: A regular expression; a sentence that it matches, too, is normal.
        confidence: How sure it is, in [0, 1].
        recoverable: Whether the agent can do something about it; judged by the wording if left out.
    """

    text: str
    regex: bool = False
    place: Place = "anywhere"
    longest: int | None = None
    unless: str = ""
    confidence: float = 0.9
    recoverable: bool | None = None
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _normal: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            msg = f"A phrase must be a text that is not empty, got {self.text!r:.80}."
            raise ConfigurationError(msg)
        if self.place not in get_args(Place) or not 0 <= self.confidence <= 1:
            msg = (
                f"place must be one of {', '.join(get_args(Place))}, and confidence between 0 and 1; got {self!r:.160}."
            )
            raise ConfigurationError(msg)
        try:
            literal = r"\s+".join(re.escape(word.replace("\u2019", "'")) for word in self.text.split())
            pattern = re.compile(self.text if self.regex else literal, re.IGNORECASE)
            normal = re.compile(self.unless, re.IGNORECASE) if self.unless else None
        except re.error as error:
            msg = f"{self.text!r:.80} is no regular expression: {error}. Leave regex out for a plain text."
            raise ConfigurationError(msg) from error
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_normal", normal)

    def found_in(self, observation: Signals) -> str | None:
        """The sentence or line of an observation that says it; `None` if none does."""
        if self.longest is not None and observation.length > self.longest:
            return None
        if self.place == "anywhere":
            found = self._pattern.search(observation.ends)
            return None if found is None else _line_around(found)
        shown_too = self.place in {"start", "last_line"}
        if observation.shows and not shown_too:
            return None
        sentences = (observation.last_line,) if self.place == "last_line" else observation.sentences
        for sentence in sentences if self.place == "sentence" else sentences[:1]:
            words = sentence if shown_too else _ASIDE.sub(" ", sentence)
            if self._pattern.search(words) and not (self._normal and self._normal.search(words)):
                return sentence
        return None


def phrases_from(phrases: Iterable[str | Phrase]) -> tuple[Phrase, ...]:
    """Phrases as a user writes them: texts, which count anywhere, and phrases."""
    if isinstance(phrases, str):
        msg = f"phrases are a list, got the text {phrases!r:.80}; for a single phrase, {[phrases]!r:.80}."
        raise ConfigurationError(msg)
    return tuple(phrase if isinstance(phrase, Phrase) else Phrase(phrase) for phrase in phrases)


def _line_around(found: re.Match[str]) -> str:
    text = found.string
    begin = max(text.rfind("\n", 0, found.start()) + 1, found.start() - 80)
    end = text.find("\n", found.end())
    return text[begin : end if end >= 0 else len(text)].strip()


_ASIDE = re.compile(r"""(?<!\w)["`\u201c][^"`\u201d]{0,200}["`\u201d]|(?<=\s)\([^()\n]{0,200}\)""")
"""What a sentence quotes, and what it says in brackets, is not what it says."""

_NAME = re.compile(r"\{([A-Z]+)\}")
_LINE_BREAK = re.compile(r"\n *")

Written = str | Sequence[str]
"""An expression as the file has it: one text, or a list of alternatives."""


@dataclass(frozen=True, slots=True)
class PhraseBook:
    """What `phrases.toml` holds."""

    families: dict[str, tuple[Phrase, ...]]  # in the order in which they are asked
    packs: dict[str, tuple[Phrase, ...]]  # all families as "default", and those of single environments
    patterns: dict[str, re.Pattern[str]]  # how observations are read


@cache
def phrase_book() -> PhraseBook:
    """The phrases that come with the package, read once."""
    book = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
    pieces = {name: f"(?:{'|'.join(words)})" for name, words in book["words"].items()} | book["fragments"]
    families = {family["name"]: tuple(_general(book["defaults"] | family, pieces)) for family in book["general"]}
    refusal = partial(Phrase, regex=True, place="start", confidence=0.98)
    packs = {
        name: tuple(refusal(f"^(?:{_expression(text, pieces)})") for text in pack["refusals"])
        for name, pack in book["packs"].items()
    }
    packs["default"] = tuple(chain.from_iterable(families.values()))
    names = ("out_of_reach", "up_to_the_agent")
    ways = {name: [_expression(each, pieces) for each in book[name].values()] for name in names}
    written = {name: _expression(each, pieces) for name, each in (book["patterns"] | ways).items()}
    patterns = {name: re.compile(expression, re.IGNORECASE) for name, expression in written.items()}
    return PhraseBook(families, packs, patterns)


def _general(family: Mapping[str, Any], pieces: Mapping[str, Written]) -> Iterable[Phrase]:
    for given in family["phrases"]:
        each = dict(family) | given
        begins, says = (_expression(each.get(key, ""), pieces) for key in ("begins", "says"))
        normal = [_expression(each[key], pieces) for key in ("normal", "unless") if each.get(key)]
        yield Phrase(
            f"^(?:{begins})" if begins else says,
            regex=True,
            place=each["place"],
            longest=each["longest"] or None,
            unless="|".join(normal),
            confidence=each["confidence"],
        )


def _expression(written: Written, pieces: Mapping[str, Written]) -> str:
    joined = "|".join(_LINE_BREAK.sub("", part) for part in ([written] if isinstance(written, str) else written))
    return _NAME.sub(lambda found: _expression(pieces[found[1]], pieces), joined)


def __getattr__(name: str) -> tuple[Phrase, ...]:
    pack, ending, _ = name.rpartition("_PHRASES")
    if ending and pack.lower() in phrase_book().packs:
        return phrase_book().packs[pack.lower()]
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
