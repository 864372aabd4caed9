"""Read JSON that a language model has written.

Models write JSON with typographic quotation marks, trailing commas, Python's `None`,
or keys without quotation marks. The functions of this module read all of this, in
linear time.
"""

# ruff: noqa: RUF001 - the typographic quotation marks are meant.

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from langchain_core.messages import ToolCall

_LITERALS = {
    "null": "null",
    "none": "null",
    "nil": "null",
    "undefined": "null",
    "true": "true",
    "false": "false",
}

_DEPTH_CHANGES = {"{": 1, "[": 1, "}": -1, "]": -1}

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)

_NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS_KEYS = ("arguments", "args", "parameters", "input", "action_input")


def _string_pattern(opening: str, closing: str) -> str:
    """Return the pattern of a string between the given kinds of quotation marks.

    Models forget to escape quotation marks inside a string. So a quotation mark only
    ends the string if punctuation of JSON follows, and `"the "open" orders"` is one
    string.
    """
    return (
        rf"[{opening}]"
        rf"((?:[^\\\n{closing}]++|\\.|[{closing}](?!\s*[:,}}\]]))*+)"
        rf"[{closing}]"
    )


TOKEN = re.compile(
    r"\s*(?:"
    + "|".join(
        [
            r"(?P<punctuation>[{}\[\]:,])",
            # A word, a number, or a description without quotation marks.
            r"(?P<bare>[^\s\\{}\[\]:,\"'`“”„‟‘’‚‛«»][^{}\[\]:,\n]*)",
            _string_pattern('"', '"'),
            _string_pattern("'", "'"),
            _string_pattern("`", "`"),
            _string_pattern("“”„‟", '“”„‟"'),
            _string_pattern("‘’‚‛", "‘’‚‛'"),
            _string_pattern("«»", "«»"),
            # JSON that was itself written as a string: {\"name\": \"find_orders\"}
            r'\\"([^"\\\n]*+)\\"',
        ],
    )
    + ")",
)

# A line break where JSON cannot have one: in `{"a": 1\nThe answer`, the object is not
# closed, and the text after the line break does not belong to it.
_END_OF_UNCLOSED_OBJECT = re.compile(r"(?<=[^\s{\[:,])[^\S\n]*\n\s*(?=[^\s}\]:,])")


@dataclass(frozen=True)
class ObjectText:
    """A JSON object in a text.

    Attributes:
        end: The index after the object. An object that is not closed ends with its
            line, or with the text.
        is_closed: True if the closing brace was found.
        value: The object, or None if it cannot be read.
    """

    end: int
    is_closed: bool
    value: dict[str, Any] | None = None


def read_object(text: str, start: int = 0) -> ObjectText:
    """Read the JSON object that begins at an index of a text.

    Args:
        text: The text, which may go on after the object.
        start: The index of the object's opening brace.

    Returns:
        The end of the object and, if it can be read, its value.
    """
    unclosed_end = _END_OF_UNCLOSED_OBJECT.search(text, start)
    limit = unclosed_end.start() if unclosed_end else len(text)

    tokens: list[str] = []
    depth = 0
    end = start
    while token := TOKEN.match(text, end, limit):
        end = token.end()
        tokens.append(_convert_token(token))
        depth += _DEPTH_CHANGES.get(token["punctuation"], 0)
        if depth == 0:
            return ObjectText(end, is_closed=True, value=_load_object(tokens))
    return ObjectText(limit, is_closed=False)


def _convert_token(token: re.Match[str]) -> str:
    """Return a token in the spelling of strict JSON."""
    if token["punctuation"]:
        return token["punctuation"]
    if token["bare"]:
        word = token["bare"].strip()
        if _NUMBER.fullmatch(word):
            return word
        return _LITERALS.get(word.lower(), json.dumps(word))
    # Each kind of string has a group of its own for its content.
    content = token[token.lastindex or 0]
    return json.dumps(_resolve_escapes(content))


def _resolve_escapes(content: str) -> str:
    r"""Return the content of a string with its escapes, such as `\n`, resolved."""
    if "\\" not in content:
        return content
    try:
        return str(json.loads(f'"{content}"', strict=False))
    except ValueError:
        return content


def _load_object(tokens: list[str]) -> dict[str, Any] | None:
    """Return the object that tokens of JSON describe, or None if they are not valid."""
    strict_tokens = []
    for current, following in pairwise([*tokens, ""]):
        # Strict JSON has no comma before a closing brace or bracket.
        is_trailing_comma = current == "," and following in ("}", "]")
        if not is_trailing_comma:
            strict_tokens.append(current)
    try:
        value = json.loads("".join(strict_tokens))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_tool_call(value: object) -> ToolCall | None:
    """Return the tool call that an object of a model describes.

    Models spell a call in the formats of several providers:
    `{"name": ..., "args": {...}}`, `{"tool": ..., "input": {...}}`,
    `{"function": {"name": ..., "arguments": "{...}"}}`.

    Args:
        value: The JSON value that a model has written.

    Returns:
        The call without an id, or None if the value has no name or no arguments.
    """
    if not isinstance(value, dict):
        return None
    function = value.get("function")
    if isinstance(function, dict):
        value = function

    names = [value[key] for key in _NAME_KEYS if key in value]
    arguments = [value[key] for key in _ARGUMENTS_KEYS if key in value]
    if not names or not arguments:
        return None

    name, args = names[0], arguments[0]
    # OpenAI sends the arguments as a string of JSON.
    if isinstance(args, str) and args.startswith("{"):
        args = read_object(args).value
    if not isinstance(name, str) or not isinstance(args, dict):
        return None
    return ToolCall(name=name, args=args, id=None, type="tool_call")
