"""Texts in pictures. Pure."""

import re


def shorten(text: str, length: int) -> str:
    """A text on one line, cut at the end where it is too long."""
    flat = re.sub(r"\s+", " ", text)
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"


def quoted(text: str) -> str:
    """A text that Mermaid shows as it is."""
    return re.sub(r'["<>#&{}\[\]()|`]', lambda match: f"#{ord(match.group())};", text)
