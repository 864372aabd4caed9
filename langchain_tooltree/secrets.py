"""What looks like a key, a token or a password is masked in all that is written down. Pure.

Tools get keys as arguments, send them in headers and repeat them in errors, and records, pages, saved searches and logs
outlive a run. Masked are

- tokens of a form that their issuers document: OpenAI, Anthropic, Stripe, AWS, GitHub, GitLab, Google, Hugging Face,
  Slack, npm, PyPI; JSON web tokens; private keys in PEM;
- what follows `Bearer` or `Basic`, and the user and password in a URL;
- the value of a field, header or query parameter that is named like a secret, such as `api_key` or `Authorization`.

A secret of no such form and name is not recognised: a password in a sentence stays.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

MASK = "[secret]"

_NAMED = (
    r"(?:(?:api|access|auth|secret|private|signing|encryption)[_\- ]?key|token|secret|passwo?r?d|pwd|passphrase"
    r"|authorization|cookie|credentials?)"
)
"""How the name of a field ends that holds a secret."""

_SECRET_FIELD = re.compile(rf"{_NAMED}\Z", re.IGNORECASE)

SMALLEST_SECRET = (
    1_000  # a PIN has four digits, while a `token` below it is a count or a place
)
MAX_FIELD_NAME_LENGTH = (
    80  # characters of the name of a field: longer keys of an object are data
)

# Each form with a text that stands in whatever it matches, since a search for that is a hundred times as fast. All of
# them take linear time: nothing begins inside a word, and what follows ends at the next character of another kind.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (marker, re.compile(rf"(?<![\w\-]){form}"))
    for marker, form in (
        ("sk-", r"sk-[\w\-]{20,}"),
        ("k_", r"[rs]k_(?:live|test)_\w{16,}"),
        ("AKIA", r"AKIA[0-9A-Z]{16}(?!\w)"),
        ("ASIA", r"ASIA[0-9A-Z]{16}(?!\w)"),
        ("gh", r"gh[opsur]_\w{30,}"),
        ("github_pat_", r"github_pat_\w{20,}"),
        ("glpat-", r"glpat-[\w\-]{20,}"),
        ("AIza", r"AIza[\w\-]{30,}"),
        ("ya29.", r"ya29\.[\w\-]{20,}"),
        ("hf_", r"hf_\w{30,}"),
        ("xox", r"xox[abeoprs]-[\w\-]{10,}"),
        ("npm_", r"npm_\w{30,}"),
        ("pypi-", r"pypi-[\w\-]{30,}"),
        ("eyJ", r"eyJ[\w\-]{10,}\.[\w\-]{10,}(?:\.[\w\-]*)?"),
    )
)
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]*")
_AUTH_SCHEME = re.compile(
    r"\b(?P<kept>Bearer|Basic) {1,3}(?=[\w.~+/\-]{0,200}[\d=])[\w.~+/\-]{16,}=*",
    re.IGNORECASE,
)
_URL = re.compile(r"(?P<kept>://)[^\s/:@\"']{0,200}:[^\s/@\"']{1,200}(?=@)")
_QUOTED = re.compile(
    rf"(?P<kept>{_NAMED}\\{{0,3}}[\"']\s{{0,3}}[:=]\s{{0,3}}(?P<quote>\\{{0,3}}[\"']))[^\"'\\]+",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"(?P<kept>{_NAMED}\s{{0,3}}[:=]\s{{0,3}})(?=[^\s\"'&,;<>]{{0,100}}\d)[^\s\"'&,;<>]{{8,}}",
    re.IGNORECASE,
)
_WORDS = (
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "authorization",
    "cookie",
    "credential",
)


def masked(value: T) -> T:
    """A text, or data or a dataclass with texts in it, in which each secret is replaced by `[secret]`.

    It is the same object where there is none. An object that is neither data nor a dataclass stays as it is.
    """
    after = _masked(value)
    return value if after == value else after


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _masked_text(value)
    if isinstance(value, Mapping):
        return {name: _masked_field(name, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        rest = [_masked(each) for each in value]
        return rest if isinstance(value, list) else tuple(rest)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{
                each.name: _masked(getattr(value, each.name))
                for each in fields(value)
                if each.init
            },
        )
    return value


def _masked_field(name: Any, value: Any) -> Any:
    is_name = isinstance(name, str) and len(name) <= MAX_FIELD_NAME_LENGTH
    if not value or isinstance(value, bool) or not (is_name and _names_secret(name)):
        return _masked(value)
    if isinstance(value, str) or (isinstance(value, int) and value >= SMALLEST_SECRET):
        return MASK
    are_texts = isinstance(value, list | tuple) and all(
        isinstance(each, str) for each in value
    )
    return [MASK] if are_texts else _masked(value)


@lru_cache(maxsize=4_096)  # the same few fields in all messages
def _names_secret(name: str) -> bool:
    return _SECRET_FIELD.search(name) is not None


def _masked_text(text: str) -> str:
    rest = text
    for marker, form in _FORMS:
        if marker in rest:
            rest = form.sub(MASK, rest)
    if "PRIVATE KEY-----" in rest:
        rest = _PEM.sub(MASK, rest)
    if "://" in rest:
        rest = _URL.sub(rf"\g<kept>{MASK}", rest)
    lower = rest.casefold()
    if "bearer " in lower or "basic " in lower:
        rest = _AUTH_SCHEME.sub(rf"\g<kept> {MASK}", rest)
    if any(word in lower for word in _WORDS):
        rest = _QUOTED.sub(rf"\g<kept>{MASK}", rest)
        rest = _BARE.sub(rf"\g<kept>{MASK}", rest)
    return rest
