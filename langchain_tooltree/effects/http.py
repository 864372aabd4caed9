"""Whether a request only reads, as far as its arguments show it. What may be anything else is a write."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from langchain_tooltree.effects.names import words_of_name
from langchain_tooltree.text import words_of

_OVERRIDE = re.compile(
    r"""x[-_]?http[-_]?method|x[-_]method|method[-_]override
    |(?:^|[=?&;{,\s])["']?_?method(?:\[\w*\])?["']?\s*(?:[=:]|$)  # as a parameter
    |[\r\n\0]  # the end of a header, behind which another request may begin""",
    re.IGNORECASE | re.VERBOSE,
)
"""Headers and parameters by which servers are asked to take a request for one of another method."""

_HANDS_OVER = frozenset(words_of("attachment body content data download file files form json payload save upload"))
"""Words in the names of arguments that hand something over, or have the answer written to a file."""

_ONLY_SAYS = frozenset(words_of("cookies header headers param params query type encoding length"))
"""Words in the names of those that only say what is asked for."""

_ADDRESS = frozenset(words_of("address base domain endpoint host hostname href link proxy server site uri url"))
_HOST = frozenset(words_of("domain host hostname proxy server"))

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,40}:[/\\]", re.IGNORECASE)
_WEB = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?(?=[/?#]|\Z)", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"\A(?:[a-z0-9_-]+\.)+([a-z][a-z0-9-]*)\.?", re.IGNORECASE | re.ASCII)

_INSIDE = frozenset(words_of("arpa corp home internal intranet lan local localdomain localhost private"))
"""Last labels of names that no public server has: `metadata.google.internal` is one of them."""


def only_asks(arguments: Mapping[str, Any], method: str, hosts: Collection[str]) -> bool:
    """Whether a call is a GET or HEAD of a public server, or of one of `hosts`, and hands nothing over."""
    verb = arguments.get(method)
    others = {name: value for name, value in arguments.items() if name != method}
    is_safe = isinstance(verb, str) and verb.upper() in ("GET", "HEAD")
    return is_safe and all(_asks(names, value, hosts) for names, value in _leaves(others, ()))


def _asks(names: tuple[str, ...], value: str, hosts: Collection[str]) -> bool:
    words = {word for name in names for word in words_of_name(name)}
    said = f"{names[-1]}={value}"
    if _OVERRIDE.search(said) or _OVERRIDE.search(unquote(said)) or (words & _HANDS_OVER and not words & _ONLY_SAYS):
        return False
    asked = [_WEB.match(value, found.start()) for found in _SCHEME.finditer(value)]
    if not all(web and _is_public(web[1], hosts) for web in asked):
        return False
    if not words & _ADDRESS or _SCHEME.match(value):
        return True
    first = re.split(r"[/?#]", value, maxsplit=1)[0]
    if words & _HOST or "." in first or first.lower() == "localhost":  # of a tool that adds the scheme
        return _is_public(first, hosts)
    return not re.search(r"[:@\\\s]", first) and not value.startswith("//")


def _is_public(host: str, hosts: Collection[str]) -> bool:
    """Whether a host is given by a public name: of an address, in all its forms, nobody sees whose it is."""
    name = _NAME.fullmatch(host)
    return host.lower().strip("[].") in hosts or (name is not None and name[1].lower() not in _INSIDE)


def _leaves(data: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is given, each with the names that lead there; nothing that is empty."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _leaves(value, (*names, str(name)))
    elif isinstance(data, list | tuple | set):
        for each in data:
            yield from _leaves(each, names)
    elif data:
        yield names, str(data)
