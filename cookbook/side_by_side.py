"""Prints what two agents did with the same request, in two columns."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from langchain_core.messages import BaseMessage

WIDTH = 58


def side_by_side(**runs: Sequence[BaseMessage]) -> None:
    """Print the messages of runs beside each other, each run under its name; requests are left out."""
    columns = [
        [name.replace("_", " ").upper(), "", *_lines(messages)]
        for name, messages in runs.items()
    ]
    for row in zip_longest(*columns, fillvalue=""):
        print(" | ".join(f"{cell:{WIDTH}}" for cell in row).rstrip(" |"))


def _lines(messages: Sequence[BaseMessage]) -> Iterator[str]:
    for message in messages:
        if message.type == "human":
            continue
        for call in getattr(message, "tool_calls", ()):
            arguments = ", ".join(
                f"{name}={value!r}" for name, value in call["args"].items()
            )
            yield from textwrap.wrap(
                f"-> {call['name']}({arguments})", WIDTH, subsequent_indent="   "
            )
        indent = "   " if message.type == "tool" else ""
        for line in message.text.splitlines():
            yield from textwrap.wrap(
                line, WIDTH, initial_indent=indent, subsequent_indent=indent
            )
