"""Hostile input: no tool leaves its folder, runs what it is given, or takes longer or more than it may."""

import base64
import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from langchain_tooltree.toolbox import process
from tests.internals.toolbox import serving
from tests.unit_tests.toolbox.conftest import model_that_says, write_docx

pytestmark = pytest.mark.slow  # they start processes

ENDLESS = {"pattern": "(a+)+$", "file": "many.txt"}
"""Arguments of `search_documents` that keep Python's regular expressions busy for years."""


@pytest.fixture(scope="module", autouse=True)
def many(files):
    (files / "many.txt").write_text("a" * 60 + "b")
    yield
    (files / "many.txt").unlink()


@pytest.mark.parametrize(
    "expression",
    [
        "10**10**10",
        "factorial(10**9)",
        "1e999",
        "(" * 500 + "1" + ")" * 500,
        "__import__('os').system('true')",
        "(1).__class__.__bases__",
        "[x for x in (1,)]",
        "lambda: 1",
        "'a' * 10**9",
        "open('x')",
        "sin(*[1])",
        "1 << 10**9",
        "\0",
        "",
    ],
)
def test_expressions_run_nothing_and_end(call, expression):
    content, refused = call("calculator", {"seconds": 0.5}, expression=expression)
    assert refused, content
    assert "Traceback" not in content


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_documents", ENDLESS),
        ("calculator", {"expression": "expand((x + y + z + w)^900)"}),
        (
            "query_tables",
            {
                "sql": "SELECT sum(sin(a.range + b.range)) FROM range(10000000) a, range(10000000) b"
            },
        ),
    ],
)
def test_what_takes_too_long_is_ended_and_the_next_call_works(call, tool, arguments):
    files = {"files": ["sales.csv"]} if tool == "query_tables" else {}
    content, refused = call(tool, {"seconds": 0.5}, **arguments, **files)
    assert refused
    assert f"{tool} was stopped: it took over 0.5 seconds" in content
    assert call("list_files")[1] is False


@pytest.mark.parametrize("tool", ["read_document", "image_size", "query_tables"])
@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "sub/../../outside.txt",
        "link.txt",
        "loop",
        "/etc/passwd",
        "//etc/passwd",
        "~/.bashrc",
        "file:///etc/passwd",
        "report.pdf\0.txt",
        ".env",
        "sub/./../.env",
        "",
        ".",
        "sub",
        "x" * 5_000,
        "report.pdf/x",
        "*.csv",
    ],
)
def test_no_name_leads_out_of_the_folder(call, tool, name):
    arguments = {
        "query_tables": {"sql": "SELECT 1", "files": [name]},
        "image_size": {"image": name},
    }
    content, refused = call(tool, **arguments.get(tool, {"file": name}))
    assert refused, content
    assert "outside" not in content.replace(repr(name), "")
    assert len(content) <= 1_000


def test_a_whole_path_into_the_folder_is_as_good_as_a_name(call, files):
    assert call("read_document", file=str(files / "notes.md")) == call(
        "read_document", file="notes.md"
    )
    assert "is hidden" in call("read_document", file=str(files / ".env"))[0]
    assert str(files) not in call("read_document", file=str(files / "flag.png"))[
        0
    ].replace(repr(str(files)), "")


def test_links_hidden_files_and_pipes_are_neither_listed_nor_opened(call, folder):
    listed = call("list_files")[0]
    assert "notes.md" in listed
    assert [name for name in ("link", "loop", ".env") if name in listed] == []
    os.mkfifo(folder / "pipe.txt")
    assert call("search_documents", pattern="secret|outside")[0].startswith(
        "No line matches."
    )
    assert "There is no file 'pipe.txt'" in call("read_document", file="pipe.txt")[0]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY sales TO '{folder}/out.csv'",
        "ATTACH '{folder}/new.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; DROP TABLE sales",
        "SELECT * FROM read_csv('{folder}/../outside.txt')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '{folder}/staff.json'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM 'https://example.org/x.csv'",
        "SELECT * FROM database",
        "SELECT getenv('PATH')",
        "",
    ],
)
def test_queries_read_their_tables_alone(call, files, sql):
    before = sorted(files.iterdir())
    content, refused = call(
        "query_tables", sql=sql.format(folder=files), files=["sales.csv"]
    )
    assert refused, content
    assert sorted(files.iterdir()) == before
    assert str(files) not in content


def test_names_of_files_are_no_patterns_and_no_sql(call, folder):
    (folder / "s*.csv").write_text("n\n1\n")
    (folder / 'x" AS SELECT 7; --.csv').write_text("n\n2\n")
    assert call("query_tables", sql='FROM "s*"', files=["s*.csv"])[0] == "n\n1"
    described = call("describe_tables", files=['x" AS SELECT 7; --.csv'])[0]
    assert described.endswith(
        'Its table is "x_ as select 7; --". The first rows:\nn\n2'
    )


def test_results_are_bounded(call, folder):
    content, _ = call(
        "query_tables",
        sql="SELECT repeat('x', 5000) FROM range(5000)",
        files=["sales.csv"],
    )
    assert len(content) <= 20_100
    content, _ = call(
        "query_tables", sql="SELECT range AS n FROM range(5000)", files=["sales.csv"]
    )
    assert content.endswith(
        "99\n[more rows: the first 100 are shown; aggregate, or use LIMIT and OFFSET]"
    )
    content, refused = call(
        "query_tables", sql="SELECT list(range(1000000000))", files=["sales.csv"]
    )
    assert refused
    assert "Out of Memory" in content
    assert "SET" not in content
    content, _ = call("calculator", expression="10^30000")
    assert content.endswith(
        "[cut: 20,000 of 30,001 characters; ask for a smaller part]"
    )
    with (folder / "large.txt").open("wb") as file:
        file.truncate(50_000_001)
    assert "at most 50,000,000 are read" in call("read_document", file="large.txt")[0]


def test_archives_entities_and_streams_that_grow_are_refused(call, folder):
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    write_docx(
        folder / "laughs.docx",
        xml=f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><x>&e9;</x>',
    )
    with zipfile.ZipFile(folder / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml", b"<x>" + b" " * 50_000_001 + b"</x>", compresslevel=1
        )
    (folder / "broken.docx").write_bytes(b"PK\3\4" + b"\0" * 50)
    stream = zlib.compress(b" " * 100_000_000, 1)
    pdf = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\n"
    pdf += b"3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R>>endobj\n4 0 obj<</Filter/FlateDecode/Length "
    pdf += b"%d>>stream\n%s\nendstream endobj\ntrailer<</Root 1 0 R>>" % (
        len(stream),
        stream,
    )
    (folder / "bomb.pdf").write_bytes(pdf)
    for name in ("laughs.docx", "bomb.docx", "broken.docx", "bomb.pdf"):
        content, refused = call("read_document", {"seconds": 3}, file=name)
        assert refused, content
    (folder / "deep.html").write_text("<div>" * 20_000 + "x")
    assert call("read_document", file="deep.html") == ("x", False)


def test_images_that_grow_are_refused_and_models_get_small_ones(call, folder):
    image = pytest.importorskip("PIL.Image")

    def chunk(kind, data):
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    header = b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", (8_000).to_bytes(4) * 2 + b"\x08\x02\0\0\0"
    )
    (folder / "bomb.png").write_bytes(
        header + chunk(b"IDAT", zlib.compress(b"\0" * 1_000_000)) + chunk(b"IEND", b"")
    )
    (folder / "vector.eps").write_text(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n"
    )
    assert (
        "8000 x 8000 pixels; at most 50,000,000"
        in call("image_size", image="bomb.png")[0]
    )
    assert "is no image" in call("image_size", image="vector.eps")[0]
    image.frombytes("RGB", (2_500, 1_000), os.urandom(7_500_000)).save(
        folder / "noise.bmp"
    )
    seen = []

    class Seeing(type(model_that_says("x"))):
        def _generate(self, messages, *given, **options):
            seen.append(base64.b64decode(messages[-1].content[1]["base64"]))
            return super()._generate(messages, *given, **options)

    for name, size in (
        ("noise.bmp", (2_048, 819)),
        ("flag.png#xywh=0,0,80,40", (1_280, 640)),
    ):
        vision = Seeing(responses=model_that_says("ok").responses)
        assert call("ask_image", {"vision": vision}, image=name, question="?") == (
            "ok",
            False,
        )
        assert image.open(io.BytesIO(seen[-1])).size == size
    assert len(seen[0]) < 3_700_000  # less than 5 MB in base64


def test_the_process_has_no_key_writes_no_file_and_has_bounded_memory(
    call, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    process.POOL.end()  # a process keeps the environment that it was started with
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        process.subprocess,
        "Popen",
        lambda *given, **more: started.append(popen(*given, **more)) or started[-1],
    )
    assert call("list_files")[1] is False
    if sys.platform == "linux":
        about = Path(f"/proc/{started[0].pid}")
        assert b"secret" not in (about / "environ").read_bytes()
        limits = (about / "limits").read_text()
        assert f"{process.MEMORY}" in limits
        assert "Max file size             0" in limits
    started[0].kill()
    started[0].wait()
    assert call("list_files")[1] is False  # in another one
    assert len(started) == 2


def test_a_process_that_cannot_be_started_is_told(call, monkeypatch):
    process.POOL.end()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    content, refused = call("list_files")
    assert refused
    assert "list_files was stopped" in content


def test_a_current_folder_that_is_deleted_leaves_the_tools_as_they_are(
    call, tmp_path, monkeypatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    process.POOL.end()  # so that the next call starts a process here
    assert call("query_tables", sql="SELECT 1 AS n", files=["sales.csv"]) == (
        "n\n1",
        False,
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").rmdir()
    assert call("query_tables", sql="SELECT 2 AS n", files=["sales.csv"]) == (
        "n\n2",
        False,
    )


def test_an_interrupted_call_gives_its_answer_to_no_other(call):
    assert call("list_files")[1] is False
    interrupt = threading.Timer(
        0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    )

    def interrupted():
        interrupt.start()
        call("search_documents", {"seconds": 20}, **ENDLESS)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert call("calculator", expression="1 + 1") == ("2", False)


def test_calls_at_once_share_a_few_processes_and_keep_their_answers_apart(
    call, monkeypatch
):
    process.POOL.end()
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        process.subprocess,
        "Popen",
        lambda *given, **more: started.append(1) or popen(*given, **more),
    )
    with ThreadPoolExecutor(12) as threads:
        said = list(
            threads.map(
                lambda n: call("calculator", expression=f"{n} * 7")[0], range(24)
            )
        )
    assert said == [str(n * 7) for n in range(24)]
    assert len(started) <= process.MAX_PROCESSES


def test_a_fork_uses_no_process_of_its_parent(files):
    code = (
        "import os, sys\n"
        "from langchain_tooltree.toolbox import toolbox\n"
        "add = toolbox('add_to_date').tool('add_to_date')\n"
        "assert add.invoke({'start': '2026-01-01', 'amount': 1}).startswith('2026-01-02')\n"
        "child = os.fork()\n"
        "month = '03' if child else '07'\n"
        "said = [add.invoke({'start': f'2026-{month}-01', 'amount': n}) for n in range(6)]\n"
        "assert [each[:10] for each in said] == [f'2026-{month}-{n + 1:02}' for n in range(6)], said\n"
        "sys.exit(os.waitpid(child, 0)[1] if child else 0)\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_service_has_as_long_as_any_call(call):
    def trickle(request):
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        with contextlib.suppress(OSError):  # nobody waits for the rest
            for _ in range(1_000):  # each header comes in time
                request.wfile.write(b"X: 1\r\n")
                time.sleep(0.05)

    start = time.monotonic()
    with serving(trickle) as address:
        content = call(
            "search_encyclopaedia",
            {"seconds": 0.5, "encyclopaedia": address},
            query="x",
        )[0]
        taken = time.monotonic() - start
    assert "took over 0.5 seconds" in content
    assert taken < 40  # seconds; the service takes 50
