"""Documents of the folder: PDF, HTML, Word and plain text, listed, read and searched."""

import html
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from langchain_tooltree.errors import import_extra
from langchain_tooltree.text import cut
from langchain_tooltree.toolbox.guard import MAX_FILE, MAX_RESULT, RefusedError, inside, names_in, refuse

MAX_LISTED = 300  # files that are listed, and hits that are shown
LINE = 200  # characters of a line around a hit
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style|template|svg)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
# Tags within a sentence; all others end a line.
INLINE = re.compile(r"</?(a|abbr|b|cite|code|em|i|mark|q|s|small|span|strong|sub|sup|u)\b[^<>]*>", re.IGNORECASE)


def _pdf(path: Path) -> Iterator[str]:
    for number, page in enumerate(import_extra("pypdf", "toolbox", "documents").PdfReader(path).pages, 1):
        yield f"[page {number}]\n{page.extract_text().strip()}"


def _html(path: Path) -> Iterator[str]:
    text = HIDDEN.sub(" ", " ".join(_plain(path)))
    lines = re.sub(r"<[^<>]*>", "\n", INLINE.sub("", text)).splitlines()
    return (html.unescape(" ".join(line.split())) for line in lines if line.strip())


def _docx(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive, archive.open("word/document.xml") as part:
        data = part.read(MAX_FILE)  # of what is larger when unpacked, the end is missing, and it is refused
    for paragraph in ET.fromstring(data).iter(f"{WORD}p"):  # noqa: S314 - bounded here, and entities by expat
        yield "".join(each.text or "" for each in paragraph.iter(f"{WORD}t"))


def _plain(path: Path) -> Iterator[str]:
    return iter(path.read_text(encoding="utf-8-sig").splitlines())


READERS: dict[str, Callable[[Path], Iterator[str]]] = {".pdf": _pdf, ".html": _html, ".htm": _html, ".docx": _docx}


def _read(file: str, folder: str) -> Iterator[str]:
    """The text of a document, by pages, paragraphs or lines."""
    path = inside(folder, file)
    try:
        yield from READERS.get(path.suffix.lower(), _plain)(path)
    except (RefusedError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - of three libraries
        refuse(f"{file!r} cannot be read: {error}. Is it damaged, encrypted, or no text in UTF-8? Save it anew.")


def list_files(ending: str = "", *, folder: str) -> str:
    """List the files of the folder with their sizes.

    Args:
        ending: Only files whose names end so, such as ".pdf".
    """
    names = names_in(folder, (ending.lower(),))
    lines = [f"{name} ({(Path(folder) / name).stat().st_size:,} bytes)" for name in names[:MAX_LISTED]]
    more = [f"[at least {len(names) - MAX_LISTED:,} more: give an ending]"] * (len(names) > MAX_LISTED)
    return "\n".join(lines + more) or "There are no such files."


def read_document(file: str, start: int = 0, *, folder: str) -> str:
    """Read a PDF, HTML, Word (.docx) or plain text file of the folder as text.

    Args:
        file: Its name in the folder.
        start: The character to begin at, for the next part of a long file.
    """
    start = max(0, start)
    end, parts, length = start + MAX_RESULT - LINE, [], 0
    for part in _read(file, folder):  # pages after the end are not read, as each takes its time
        parts.append(f"{part}\n")
        length += len(parts[-1])
        if length > end:
            return f"{''.join(parts)[start:end]}\n[there is more: read on with start={end}]"
    return "".join(parts)[start:].strip() or f"There is no text from character {start} on."


def search_documents(pattern: str, file: str = "", *, folder: str) -> str:
    """Find lines in the documents of the folder, or in one of them, by words or a regular expression.

    Args:
        pattern: In Python's syntax; upper and lower case are the same.
        file: Only in this file.
    """
    try:
        regex = re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError) as error:
        refuse(f"{pattern!r} is no regular expression: {error}. Put a backslash before signs that are meant.")
    hits: list[str] = []
    failures: list[str] = []
    for name in [file] if file else names_in(folder):
        try:
            for number, line in enumerate("\n".join(_read(name, folder)).splitlines(), 1):
                if hit := regex.search(line):
                    start = max(0, hit.start() - LINE // 2)
                    hits.append(f"{name}, line {number}: {line[start : start + LINE].strip()}")
        except RefusedError:
            if file:
                raise
            failures.append(name)
    lines = hits[:MAX_LISTED] or ["No line matches."]
    lines += ["[there are more hits: use a longer pattern, or name a file]"] * (len(hits) > MAX_LISTED)
    lines += [f"[not read: {cut(', '.join(failures), LINE)}]"] * bool(failures)
    return "\n".join(lines)
