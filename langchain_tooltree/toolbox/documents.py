"""Documents of the folder: PDF, HTML, Word and plain text, read, outlined and searched."""

import re
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePath
from time import monotonic
from typing import Any
from xml.etree import ElementTree as ET

from langchain_tooltree.errors import import_extra
from langchain_tooltree.toolbox.entries import (
    MAX_FILE,
    MAX_RESULT,
    NAMED,
    RefusedError,
    check_text,
    entry,
    inside,
    names_in,
)

MAX_PAGES = 500
"""Pages of a PDF that are read."""

MAX_HTML = 5_000_000
"""Characters of an HTML file: more than the longest of books has."""

MAX_LISTED = 300
"""Files that are listed, and hits that are shown."""

MAX_PLAIN = 20_000_000
"""Characters of a text file that is read."""

LINE = 200
"""Characters of a line around a hit."""

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
SKIPPED = ("script", "style", "template", "noscript", "svg")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
CELLS = ("td", "th")
BREAKS = {
    *HEADINGS,
    *("title", "p", "div", "br", "hr", "li", "ul", "ol", "dl", "dt", "dd", "tr", "table", "section", "article"),
    *("header", "footer", "pre", "blockquote", "form", "main", "nav", "aside", "figure", "figcaption", "address"),
    *("caption", "details", "summary", "option", "button", "label", "legend", "fieldset"),
}

Block = tuple[int, str]
"""A paragraph: the level of its heading, 0 for other text, and what it says."""


def _pdf(path: Path) -> Iterator[Block]:
    pypdf = import_extra("pypdf", "toolbox", "documents")
    reader = pypdf.PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        msg = "The PDF is encrypted."
        raise RefusedError(msg)
    for number, page in enumerate(reader.pages, 1):
        if number > MAX_PAGES:
            yield 0, f"[cut: {MAX_PAGES} of {len(reader.pages)} pages are read]"
            return
        yield 1, f"Page {number}"
        yield 0, page.extract_text().strip()


class _HtmlBlocks(HTMLParser):
    """Collects the blocks of a page in one pass, which takes time in proportion to it, however deep it is."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._words: list[str] = []
        self._level, self._hidden = 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's
        self._hidden += tag in SKIPPED
        if tag in CELLS and self._words:
            self._words.append(" | ")
        if tag in BREAKS:
            self.flush()
        if tag in HEADINGS:
            self._level = HEADINGS.index(tag) + 1

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in SKIPPED))
        if tag in BREAKS:
            self.flush()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._words.append(data)

    def flush(self) -> None:
        """Keep what has come since the last block."""
        if text := " ".join("".join(self._words).split()):
            self.blocks.append((self._level, text))
        self._words, self._level = [], 0


def _html(path: Path) -> Iterator[Block]:
    reader = _HtmlBlocks()
    reader.feed(_plain(path, MAX_HTML))
    reader.close()
    reader.flush()
    yield from reader.blocks


def _docx(path: Path) -> Iterator[Block]:
    """Paragraphs of a Word document; a part that would grow too large when unpacked, or has entities, is refused."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("word/document.xml") as part:
            data = part.read(MAX_FILE + 1)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, NotImplementedError) as error:
        msg = f"The file is no Word document: {error}"
        raise RefusedError(msg) from error
    if len(data) > MAX_FILE or b"<!DOCTYPE" in data or b"<!ENTITY" in data or b"\0" in data:
        msg = f"The document is refused: it unpacks to more than {MAX_FILE:,} bytes, or is not plain XML in UTF-8."
        raise RefusedError(msg)
    body = ET.fromstring(data)  # noqa: S314 - without entities
    for alternatives in list(body.iter(ALTERNATIVES)):
        del alternatives[1:]  # the same text box again, for older programs
    for paragraph in body.iter(f"{WORD}p"):
        style = paragraph.find(f"{WORD}pPr/{WORD}pStyle")
        found = re.fullmatch(r"[Hh]eading(\d)", style.get(f"{WORD}val", "")) if style is not None else None
        marks = {f"{WORD}tab": "\t", f"{WORD}br": "\n"}
        parts = ((each.text or "") if each.tag == f"{WORD}t" else marks.get(each.tag, "") for each in _parts(paragraph))
        if text := "".join(parts).strip():
            yield (int(found[1]) if found else 0), text


def _parts(paragraph: ET.Element) -> Iterator[ET.Element]:
    """What a paragraph holds, without the paragraphs of its text boxes, which come by themselves."""
    waiting = paragraph[::-1]
    while waiting:
        part = waiting.pop()
        if part.tag != f"{WORD}p":
            yield part
            waiting += part[::-1]


def _markdown(path: Path) -> Iterator[Block]:
    fenced = False
    for line in _plain(path).splitlines():
        fenced ^= line.startswith("```")
        marks = len(line) - len(line.lstrip("#"))
        heading = not fenced and 0 < marks <= len(HEADINGS) and line[marks:][:1] == " "
        yield (marks, line[marks:].strip()) if heading else (0, line)


def _plain(path: Path, most: int = MAX_PLAIN) -> str:
    data = path.read_bytes()
    if b"\0" in data[:8_000] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        msg = "The file is no text."
        raise RefusedError(msg)
    try:
        text = data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")  # what most other files are in
    return check_text("The file", text, most)


def _text(path: Path) -> Iterator[Block]:
    return ((0, line) for line in _plain(path).splitlines())


def _blocks(file: str, folder: str) -> Iterator[Block]:
    kinds: dict[str, Any] = {".pdf": _pdf, ".html": _html, ".htm": _html, ".docx": _docx, ".md": _markdown}
    blocks: Iterator[Block] = kinds.get(PurePath(file).suffix.lower(), _text)(inside(folder, file))
    return blocks


def _lines(file: str, folder: str) -> Iterator[str]:
    return (f"{'#' * level} {text}" if level else text for level, text in _blocks(file, folder))


@entry("documents", {}, {"ending": ".pdf"})
def list_files(ending: str = "", *, folder: str) -> str:
    """List the files of the folder with their sizes.

    Args:
        ending: Only files whose names end so, such as ".pdf".
    """
    names, more = names_in(folder, (ending.lower().lstrip("*"),))
    lines = [f"{name} ({(Path(folder) / name).stat().st_size:,} bytes)" for name in names[:MAX_LISTED]]
    lines += [f"[{'over ' * bool(more)}{len(names) - MAX_LISTED:,} more]"] * (len(names) > MAX_LISTED)
    return "\n".join(lines + more) or "There are no such files."


@entry("documents", {"file": "report.pdf"}, {"file": "report.pdf", "start": 20000}, packages=("pypdf",))
def read_document(file: str, start: int = 0, *, folder: str) -> str:
    """Read a PDF, HTML, Word (.docx) or plain text file of the folder as text, headings marked with #.

    Args:
        file: Its name in the folder.
        start: The character to begin at, for the next part of a long file.
    """
    start = max(0, start)
    end = start + MAX_RESULT - LINE
    lines, length = [], -1
    for line in _lines(file, folder):  # pages after the part are not read, as each takes its time
        lines.append(line)
        length += 1 + len(line)
        if length > end:
            break
    more = f"\n[there is more: read on with start={end}]" * (length > end)
    return "\n".join(lines)[start:end] + more or (f"It has no text from {start} on." if start else "It has no text.")


@entry("documents")
def _text_of(text: str, *, folder: str) -> str:
    """What a file says. It is no tool, but helps those that take texts."""
    try:
        return "\n".join(_lines(text, folder))
    except RefusedError as error:
        if " " not in text:
            raise
        msg = f"{error} If it is the text itself, end it with a space."
        raise RefusedError(msg) from error


@entry("documents", {"file": "report.docx"}, packages=("pypdf",))
def outline_document(file: str, *, folder: str) -> str:
    """The layout of a document: its headings, or a PDF's pages, with the number of characters below each.

    Args:
        file: A PDF, HTML, Word, Markdown or text file of the folder.
    """
    parts: list[list[Any]] = [[0, "(before the first heading)", 0]]
    for level, text in _blocks(file, folder):
        if level:
            parts.append([level, text, 0])
        else:
            parts[-1][2] += len(text)
    lines = (f"{'  ' * (level - 1)}{text[:LINE]}: {size:,} characters" for level, text, size in parts if level or size)
    return "\n".join(lines) or "Empty."


@entry(
    "documents", {"words": "annual leave"}, {"words": "total", "file": "report.pdf"}, packages=("pypdf",), bounded=False
)
def search_documents(words: str, file: str = "", *, folder: str, seconds: float, run: Callable[..., str]) -> str:
    """Find the lines with all of these words in the documents of the folder, or in one of them.

    Args:
        words: Words or parts of words; upper and lower case are the same.
        file: Only in this file.
    """
    if not check_text("words", words, LINE).split():
        msg = "Give at least one word."
        raise RefusedError(msg)
    hits, unread, end = [], [], monotonic() + seconds
    names, others = ([file], []) if file else names_in(folder)
    for name in names:
        left = end - monotonic()
        if left < seconds / 20:
            unread.append(name)
            continue
        try:
            # Half of what is left, so that a document that takes for ever hides no other one.
            hits += run("_find_lines", left if file else left / 2, file=name, words=words).splitlines()
        except RefusedError:
            if file:
                raise
            unread.append(name)
    more = ["[there are more hits: give more words, or name a file]"] * (len(hits) > MAX_LISTED)
    more += [f"[not read: {', '.join(unread[:NAMED])}{', ...' * (len(unread) > NAMED)}]"] * bool(unread)
    return "\n".join(
        (hits[:MAX_LISTED] or [f"No line {'of the files that were read ' * bool(unread or others)}has them."])
        + more
        + others
    )


@entry("documents", packages=("pypdf",))
def _find_lines(file: str, words: str, *, folder: str) -> str:
    """The hits of one document, for `search_documents`; no tool itself."""
    wanted, hits = words.casefold().split(), []
    for number, line in enumerate("\n".join(_lines(file, folder)).splitlines(), 1):
        if all(each in line.casefold() for each in wanted):
            at = max(0, line.casefold().find(wanted[0]) - LINE // 2)
            hits.append(f"{file}, line {number}: {line[at : at + LINE].strip()}")
    return "\n".join(hits[: MAX_LISTED + 1])
