"""A folder with a file of each kind, tools over it, and a function that calls one as an agent does."""

import zipfile
from functools import cache

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from langchain_tooltree.toolbox import toolbox

WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{}</w:body></w:document>'
SERVICES = {
    "encyclopaedia": "https://wiki.test/api.php",
    "wikidata": "https://graph.test/sparql",
}


def write_docx(path, *paragraphs, xml=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        text = "".join(
            f"<w:p><w:r><w:t>{each}</w:t></w:r></w:p>" for each in paragraphs
        )
        archive.writestr("word/document.xml", xml or WORD.format(text))


def write_pdf(path, *texts):
    """Pages with a line each, as the format's own tutorial writes them."""
    kids = " ".join(f"{10 + 2 * number} 0 R" for number in range(len(texts)))
    parts = ["%PDF-1.4", "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj"]
    parts += [f"2 0 obj<</Type/Pages/Count {len(texts)}/Kids[{kids}]>>endobj"]
    parts += ["3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj"]
    for number, text in enumerate(texts):
        page, content = 10 + 2 * number, f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        font = f"/Resources<</Font<</F1 3 0 R>>>>/Contents {page + 1} 0 R"
        parts += [
            f"{page} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{font}>>endobj"
        ]
        parts += [
            f"{page + 1} 0 obj<</Length {len(content)}>>stream\n{content}\nendstream endobj"
        ]
    body, offsets = "", {}
    for part in parts:
        if " 0 obj" in part:
            offsets[int(part.split()[0])] = len(body)
        body += f"{part}\n"
    table = "".join(
        f"{number} 1\n{offset:010} 00000 n \n"
        for number, offset in sorted(offsets.items())
    )
    end = f"trailer<</Root 1 0 R/Size {max(offsets) + 1}>>\nstartxref\n{len(body)}\n%%EOF\n"
    path.write_text(f"{body}xref\n0 1\n0000000000 65535 f \n{table}{end}")


@pytest.fixture(scope="package")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "sales.csv").write_text("region,amount\nNorth,10\nSouth,20\nNorth,5\n")
    (folder / "staff.json").write_text(
        '[{"name": "Ada", "region": "North"}, {"name": "Ben", "region": "South"}]'
    )
    (folder / "notes.md").write_text(
        "# Leave\n\nAnnual leave is 28 days.\n\n## Sick leave\n\nSend a note.\n"
    )
    (folder / "page.html").write_text(
        "<title>Prices</title><script>alert(1)</script><h2>Cars</h2><p>A <b>red</b> car &amp; a bus"
        "<table><tr><td>Oslo<td>80</table>"
    )
    write_docx(folder / "letter.docx", "Offer", "We offer 12 chairs.")
    write_pdf(folder / "report.pdf", "Profit rose to 42 million.", "Outlook is stable.")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.txt").write_text("a needle here")
    (folder / ".env").write_text("KEY=secret")
    (folder.parent / "outside.txt").write_text("outside")
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    (folder / "loop").symlink_to(folder / "loop")
    image = pytest.importorskip("PIL.Image").new("RGB", (80, 40), "white")
    image.paste((255, 0, 0), (40, 0, 80, 40))
    image.save(folder / "flag.png")
    return folder


@pytest.fixture
def folder(files):
    """The folder of `files`, where nothing stays that a test puts into it."""
    before = {*files.iterdir()}
    yield files
    for path in {*files.iterdir()} - before:
        path.unlink()


def model_that_says(*replies):
    return FakeMessagesListChatModel(responses=[AIMessage(reply) for reply in replies])


@cache
def plain_toolbox(name, folder):
    return toolbox(name, folder=folder)


@pytest.fixture
def call(files):
    """Calls one tool, and gives what the model reads and whether it is an error."""

    def called(name, settings=None, /, **arguments):
        box = (
            toolbox(name, folder=files, **settings)
            if settings
            else plain_toolbox(name, files)
        )
        message = box.tool(name).invoke(
            {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        )
        return message.content, message.status == "error"

    return called
