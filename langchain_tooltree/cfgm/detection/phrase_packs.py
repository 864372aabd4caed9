"""Phrase packs: the words of particular environments, to be added to the general ones. Pure.

```python
AnomalyDetector(phrases=[*DEFAULT_PHRASES, *SCIENCEWORLD_PHRASES])
```

The general phrases know most of these, too; a pack is sure of them, and alone it knows nothing else.
"""

from langchain_tooltree.cfgm.detection.phrase import Phrase


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
