"""Phrases: ways in which an environment or a tool says that something did not work, and packs of them. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from langchain_tooltree.cfgm.anomaly.signals import Signals
from langchain_tooltree.errors import ConfigurationError

Place = Literal["anywhere", "sentence", "opening", "start", "last_line"]
"""Where a phrase counts: anywhere in the beginning or the end of an observation; in a sentence that is read (all of a
short observation, the first of a longer one); in the first of these alone, the opening; in the first sentence even
of data, logs, programs and letters; in the last line alone."""

PLACES = ("anywhere", "sentence", "opening", "start", "last_line")


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
        recoverable: Whether the agent can do something about it; told by the wording if left out.

    Raises:
        ConfigurationError: If an argument is invalid.
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
        if self.place not in PLACES:
            msg = f"place must be one of {', '.join(PLACES)}, got {self.place!r:.80}."
            raise ConfigurationError(msg)
        if not 0 <= self.confidence <= 1:
            msg = f"confidence must be between 0 and 1, got {self.confidence!r:.80}."
            raise ConfigurationError(msg)
        try:
            pattern = re.compile(self.text if self.regex else _literal(self.text), re.IGNORECASE)
            normal = re.compile(self.unless, re.IGNORECASE) if self.unless else None
        except re.error as error:
            msg = f"{self.text!r:.80} is no regular expression: {error}. Leave regex out for a plain text."
            raise ConfigurationError(msg) from error
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_normal", normal)

    def found_in(self, observation: Signals) -> str | None:
        """Look for the phrase.

        Args:
            observation: Where to look.

        Returns:
            The sentence or line that says it; `None` if none does.
        """
        if self.longest is not None and observation.length > self.longest:
            return None
        match self.place:
            case "anywhere":
                found = self._pattern.search(observation.ends)
                return None if found is None else _line_around(found)
            case "last_line":
                sentences: Iterable[str] = (observation.last_line,)
            case "start":
                sentences = observation.sentences[:1]
            case "opening":
                sentences = () if observation.shows else observation.sentences[:1]
            case _:
                sentences = () if observation.shows else observation.sentences
        for sentence in sentences:
            words = sentence if self.place in {"start", "last_line"} else _ASIDE.sub(" ", sentence)
            if self._pattern.search(words) and not (self._normal and self._normal.search(words)):
                return sentence
        return None


def phrases_from(phrases: Iterable[str | Phrase]) -> tuple[Phrase, ...]:
    """Phrases as a user writes them.

    Args:
        phrases: Texts, which count anywhere, and phrases.

    Returns:
        The phrases.

    Raises:
        ConfigurationError: If an entry is neither.
    """
    if isinstance(phrases, str):
        msg = f"phrases are a list, got the text {phrases!r:.80}; for a single phrase, {[phrases]!r:.80}."
        raise ConfigurationError(msg)
    return tuple(phrase if isinstance(phrase, Phrase) else Phrase(phrase) for phrase in phrases)


def _literal(text: str) -> str:
    """A plain text as a regular expression, blind to kinds of blanks."""
    return r"\s+".join(re.escape(word.replace("\u2019", "'")) for word in text.split())


def _line_around(found: re.Match[str]) -> str:
    text = found.string
    begin = max(text.rfind("\n", 0, found.start()) + 1, found.start() - 80)
    end = text.find("\n", found.end())
    return text[begin : end if end >= 0 else len(text)].strip()


_ASIDE = re.compile(r"""(?<!\w)["`\u201c][^"`\u201d]{0,200}["`\u201d]|(?<=\s)\([^()\n]{0,200}\)""")
"""What a sentence quotes, and what it says in brackets, is not what it says."""


def _refusals(*texts: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(f"^(?:{text})", regex=True, place="start", confidence=0.98) for text in texts)


ALFWORLD_PHRASES: tuple[Phrase, ...] = _refusals(r"nothing happens\b")
"""ALFWorld, household tasks in text: it has one answer to everything that cannot be done."""

WEBSHOP_PHRASES: tuple[Phrase, ...] = _refusals(
    r"invalid action\b",
    r"(?:the |your )?(?:last )?action (?:is|was) (?:invalid|not (?:valid|available))\b",
    r"no (?:such )?(?:button|clickable|link|option|search (?:bar|box)) .{0,60}\b(?:here|on this page|found)\b",
)
"""WebShop, shopping on a simulated web site: what its wrappers answer to an action that the page does not offer."""

SCIENCEWORLD_PHRASES: tuple[Phrase, ...] = _refusals(
    r"no known action matches that input\b",
    r"unknown action\b",
    r"ambiguous request\b",
    r"<?error\b",
    r"it'?s not clear how\b",
    r"i'm not sure (?:what that means|how to)\b",
    r"you can't (?:move|dunk|pick up|pour|chop)\b",
    r"(?:something|that) can't be\b",
    r"that is not flammable\b",
    r"that object (?:already appears|does not appear) to be in the inventory\b",
    r"connections must specify\b|you must disconnect\b",
    r"the door doesn't appear to go anywhere\b",
    r".{1,120} (?:is not|isn't|aren't) (?:open|openable|closeable|moveable|movable|edible|flammable|a container|"
    r"currently passable|something that can|able to move)\b",
    r".{1,120} (?:appears broken, and can't be|can't be poured out|is empty, so there's nothing to pour)\b",
    r".{1,120} (?:is already connected, and must be|does not contain any liquids|is in is not movable)\b",
    r".{1,120} does not appear to (?:produce anything new|be in a location)\b",
)
"""ScienceWorld, elementary science in a simulated laboratory."""
