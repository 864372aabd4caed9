"""Each tool of the toolbox: right answers, and a text that helps where the input is wrong."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler

from tests.internals.toolbox import serving
from tests.unit_tests.toolbox.conftest import model_that_says

pytestmark = pytest.mark.slow  # they start a process

ANSWERS = [
    ("calculator", {"expression": "0.1 + 0.2"}, "0.3"),
    ("calculator", {"expression": "1/3"}, "0.333333333333333 (exactly 1/3)"),
    ("calculator", {"expression": "log(8, 2) + sin(pi/6) + max(1, 2)"}, "5.5"),
    (
        "calculator",
        {"expression": "round(2.345 * 2, 2) + log10(1000) - sqrt(4)"},
        "5.69",
    ),
    ("calculator", {"expression": "gcd(12, 900) + mod(10, -3)"}, "10"),
    ("calculator", {"expression": "integrate(1/x^2, (x, -1, 1))"}, "oo"),
    (
        "calculator",
        {"expression": "sum(1/n^2, (n, 1, oo))"},
        "1.64493406684823 (exactly pi**2/6)",
    ),
    ("calculator", {"expression": "limit(sin(x)/x, x, 0)"}, "1"),
    (
        "calculator",
        {"expression": "series(exp(x), x, 0, 3)"},
        "1 + x + x**2/2 + O(x**3)",
    ),
    ("solve_equations", {"equations": ["x + y = 10", "x - y = 2"]}, "x = 6, y = 4"),
    ("solve_equations", {"equations": ["a*x = b"], "variables": ["x"]}, "x = b/a"),
    ("solve_equations", {"equations": ["x = 5", "x = 6"]}, "No solution was found."),
    (
        "solve_equations",
        {"equations": ["(x + 1)^2 = x^2 + 2*x + 1"]},
        "Every value is a solution.",
    ),
    (
        "solve_equations",
        {"equations": ["x^3 - 3*x + 1 = 0"]},
        "x = 0.347296355333861\nx = 1.53208888623796\nx = -1.87938524157182",
    ),
    (
        "solve_equations",
        {"equations": ["sin(x) = 0"]},
        "x = 0\nx = 3.14159265358979 (exactly pi)\n[there may be more",
    ),
    (
        "solve_equations",
        {"equations": ["cos(x) = x"]},
        "x = 0.739085133215161\n[there may be more solutions]",
    ),
    (
        "solve_equations",
        {"equations": ["x^6 - x = y", "y = 2"]},
        "x = -1, y = 2\n[there may be more solutions]",
    ),
    (
        "convert_units",
        {"value": 100, "unit": "degC", "to": "degF"},
        "100 degree_Celsius = 212 degree_Fahrenheit",
    ),
    ("convert_units", {"value": -459.67, "unit": "degF", "to": "K"}, "= 0 kelvin"),
    (
        "convert_units",
        {"value": -5, "unit": "delta_degC", "to": "delta_degF"},
        "= -9 delta_degree_Fahrenheit",
    ),
    (
        "time_between",
        {"start": "2026-03-01", "end": "2026-12-24"},
        "298 days, or 9 months, 23 days; 213 working days",
    ),
    (
        "time_between",
        {"start": "2026-03-01T10:00+01:00", "end": "2026-03-01T12:00Z"},
        "0.125 days, or 3 hours;",
    ),
    (
        "add_to_date",
        {"start": "2024-01-31", "amount": 1, "unit": "months"},
        "2024-02-29 (Thursday), counted from a Wed",
    ),
    (
        "add_to_date",
        {"start": "2026-03-01T10:00", "amount": -11, "unit": "hours"},
        "2026-02-28T23:00:00 (Saturday)",
    ),
    (
        "describe_tables",
        {},
        "sales.csv: region VARCHAR, amount BIGINT\nstaff.json: name VARCHAR, region VARCHAR",
    ),
    (
        "describe_tables",
        {"files": ["sales.csv"]},
        'sales.csv: region VARCHAR, amount BIGINT\nIts table is "sales". The first rows:\nregion | amount\nNorth | 10',
    ),
    (
        "query_tables",
        {
            "sql": "SELECT name, sum(amount) AS total FROM sales JOIN staff USING (region) GROUP BY name ORDER BY name",
            "files": ["sales.csv", "staff.json"],
        },
        "name | total\nAda | 15\nBen | 20",
    ),
    (
        "query_tables",
        {"sql": "SELECT NULL AS n, [1, 2] AS l", "files": ["sales.csv"]},
        "n | l\nNULL | [1, 2]",
    ),
    (
        "query_tables",
        {"sql": "FROM sales WHERE amount > 99", "files": ["sales.csv"]},
        "region | amount\n[no rows]",
    ),
    ("list_files", {"ending": ".txt"}, "sub/deep.txt (13 bytes)"),
    (
        "read_document",
        {"file": "report.pdf"},
        "[page 1]\nProfit rose to 42 million.\n[page 2]\nOutlook is stable.",
    ),
    (
        "read_document",
        {"file": "page.html"},
        "Prices\nCars\nA red car & a bus\nOslo\n80",
    ),
    ("read_document", {"file": "letter.docx"}, "Offer\nWe offer 12 chairs."),
    ("read_document", {"file": "notes.md", "start": 9}, "Annual leave is 28 days."),
    (
        "search_documents",
        {"pattern": "NEEDLE|annual"},
        "notes.md, line 3: Annual leave is 28 days.\nsub/deep.txt, line 1",
    ),
    (
        "search_documents",
        {"pattern": r"\d+ million", "file": "report.pdf"},
        "report.pdf, line 2: Profit rose",
    ),
    ("image_size", {"image": "flag.png"}, "80 x 40 pixels, PNG, RGB"),
    ("image_size", {"image": "flag.png#xywh=40,0,40,20"}, "at 40, 0: 40 x 20 pixels"),
    (
        "zoom_image",
        {"image": "flag.png", "part": "top right"},
        "flag.png#xywh=40,0,40,20",
    ),
    (
        "zoom_image",
        {"image": "flag.png#xywh=40,0,40,20", "part": "centre"},
        "flag.png#xywh=50,5,20,10",
    ),
]
WRONG = [
    ("calculator", {"expression": "2x + 3"}, "Write products with *"),
    ("calculator", {"expression": "12,000 * 2"}, "Write 12000 and not 12,000"),
    ("calculator", {"expression": "max(1,200)"}, "a space after the comma"),
    ("calculator", {"expression": "1280 * 15% + 20"}, "mod(10, 3)"),
    ("calculator", {"expression": "sqrt(2, 25)"}, "sqrt cannot be applied to 2, 25"),
    ("calculator", {"expression": "integrate(1/x, (x, -1, 1))"}, "has no value"),
    (
        "calculator",
        {"expression": "limit(abs(x)/x, x, 0)"},
        "left hand limit = -1 and right hand limit = 1",
    ),
    (
        "calculator",
        {"expression": "sine(1)"},
        "There is no function 'sine'. Known: sin",
    ),
    ("solve_equations", {"equations": ["x + 1"]}, "must be texts with one '=' each"),
    ("solve_equations", {"equations": ["E = m"]}, "E is Euler's number"),
    (
        "solve_equations",
        {"equations": ["x = 3", "y = 2*x"], "variables": ["y"]},
        "variables must be 2 of x, y, not y.",
    ),
    (
        "convert_units",
        {"value": 1, "unit": "kg", "to": "m"},
        "kilogram measures [mass], and meter measures [length]",
    ),
    (
        "convert_units",
        {"value": 20, "unit": "C", "to": "F"},
        "coulomb measures [current] * [time], and farad",
    ),
    ("convert_units", {"value": 200, "unit": "Calories", "to": "kJ"}, "is no unit"),
    (
        "time_between",
        {"start": "01/02/2026", "end": "2026-03-01"},
        "Write it as 2026-03-01",
    ),
    (
        "time_between",
        {"start": "2026-01-01T10:00Z", "end": "2026-01-01"},
        "offset-naive and offset-aware",
    ),
    (
        "describe_tables",
        {"files": ["notes.md"]},
        "'notes.md' is no table. Name a file with one of the endings .csv",
    ),
    (
        "query_tables",
        {"sql": "SELECT regio FROM sales", "files": ["sales.csv"]},
        'Candidate bindings: "region"',
    ),
    ("query_tables", {"sql": "SELECT 1", "files": []}, "files must be 1 to 20 files"),
    (
        "read_document",
        {"file": "reprt.pdf"},
        "There is no file 'reprt.pdf' in the folder. Files: flag.png",
    ),
    (
        "read_document",
        {"file": "xyz"},
        "There is no file 'xyz' in the folder. Files: flag.png, letter.docx",
    ),
    ("read_document", {"file": "flag.png"}, "no text in UTF-8"),
    ("search_documents", {"pattern": "("}, "is no regular expression"),
    ("image_size", {"image": "notes.md"}, "no image that can be opened"),
    (
        "image_size",
        {"image": "flag.png#xywh=0,0,81,40"},
        "is no detail of 80 x 40 pixels",
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "expected"), ANSWERS)
def test_answers_are_right(call, tool, arguments, expected):
    content, refused = call(tool, **arguments)
    assert not refused, content
    assert expected in content


@pytest.mark.parametrize(
    "equations",
    [["x^2 = 2*x"], ["x + y = 3", "x = y"], ["x = 5", "x = 6"], ["x^5 - 3*x^4 = -1"]],
)
def test_solutions_that_are_all_there_are_come_without_doubt(call, equations):
    assert "there may be more" not in call("solve_equations", equations=equations)[0]


@pytest.mark.parametrize(("tool", "arguments", "expected"), WRONG)
def test_bad_input_is_answered_with_what_helps(call, tool, arguments, expected):
    content, refused = call(tool, **arguments)
    assert refused, content
    assert expected in content


def test_a_long_document_is_read_part_by_part(call, folder):
    (folder / "long.txt").write_text(
        "\n".join(f"line {number}" for number in range(3_000))
    )
    text, start, parts = "", 0, 0
    while True:
        part, _ = call("read_document", file="long.txt", start=start)
        read, _, rest = part.partition("\n[there is more: read on with start=")
        text, parts = text + read, parts + 1
        if not rest:
            break
        start = int(rest.rstrip("]"))
    assert text == (folder / "long.txt").read_text()
    assert parts == 2
    assert (
        call("read_document", file="long.txt", start=99_999)[0]
        == "There is no text from character 99999 on."
    )


def test_images_are_seen_as_people_see_them(call, folder):
    image = pytest.importorskip("PIL.Image")
    upright = image.Exif()
    upright[274] = 6  # turned by a quarter
    image.new("RGB", (40, 20), "red").save(folder / "turned.jpg", exif=upright)
    image.new("I;16", (8, 8), 2_048).save(folder / "deep.png")
    assert call("image_size", image="turned.jpg")[0] == "20 x 40 pixels, JPEG, RGB"
    said = call(
        "ask_image", {"vision": model_that_says("x")}, image="deep.png", question="?"
    )
    assert said == (
        "'deep.png' has more than 8 bits a channel. Have it saved with 8.",
        True,
    )


def test_a_model_is_asked_with_the_detail_and_told_that_it_is_data(call):
    seen, tags = [], []

    class Listening(BaseCallbackHandler):
        def on_chat_model_start(self, serialized, messages, **given):
            seen.extend(messages[0])
            tags.extend(given["tags"])

    model = model_that_says("A flag.", " ").model_copy(
        update={"callbacks": [Listening()]}
    )
    detail = {"image": "flag.png#xywh=40,0,40,20", "question": "Which colour?"}
    assert call("ask_image", {"vision": model}, **detail) == ("A flag.", False)
    assert "nostream" in tags  # its tokens are no part of the agent's answer
    assert "do not do it" in seen[0].text
    text, picture = seen[1].content
    assert text["text"].startswith("Which colour?")
    assert "image/jpeg" in str(picture)
    assert "gave no answer" in call("ask_image", {"vision": model}, **detail)[0]


def test_a_model_that_fails_is_told_as_an_error(call):
    message = "ask_image failed: IndexError: list index out of range"
    assert call(
        "ask_image", {"vision": model_that_says()}, image="flag.png", question="?"
    ) == (message, True)


def test_an_encyclopaedia_gives_articles_in_their_order(call):
    pages = [
        {"title": "B", "extract": "two", "index": 2},
        {"title": "A", "extract": "one", "index": 1},
    ]
    paths = []
    with serving(
        lambda request: paths.append(request.path) or {"query": {"pages": pages}}
    ) as address:
        said = call(
            "search_encyclopaedia",
            {"encyclopaedia": f"{address}/api?key=K"},
            query="a b",
        )
    assert said == ("A: one\n\nB: two", False)
    assert paths[0].startswith("/api?key=K&action=query")
    assert "gsrsearch=a+b" in paths[0]


def test_a_knowledge_graph_gives_rows_or_yes_and_no(call):
    rows = [
        {"n": {"type": "literal", "value": "7"}},
        {},
    ] * 51  # an unbound variable has no key
    answers = [
        {"head": {"vars": ["n"]}, "results": {"bindings": rows}},
        {"boolean": True},
        [],
        {"head": {}},
    ]
    with serving(lambda _: answers.pop(0)) as address:
        said = [
            call("query_knowledge_graph", {"wikidata": address}, sparql="SELECT ?n {}")
            for _ in range(4)
        ]
    assert said[0][0].startswith("n\n7\n\n7\n")
    assert said[0][0].endswith("[more rows: the first 100 are shown]")
    assert said[1] == ("true", False)
    assert said[2][1]
    assert said[3][1]


def _answer(status, body, headers=()):
    def answer(request):
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _: {"error": {"info": "Search is off"}}, "answered: Search is off"),
        (_answer(429, b"Too many"), "answered 429: Too many"),
        (_answer(302, b"", [("Location", "http://169.254.169.254/")]), "answered 302"),
        (_answer(200, b"<html>"), "did not answer with JSON"),
        (_answer(200, b"x" * 2_000_001), "more than 2,000,000 bytes"),
    ],
)
def test_a_service_that_answers_otherwise_is_refused_and_not_followed(
    call, answer, expected
):
    with serving(answer) as address:
        private = address.replace("//", "//user:secret@")
        content, refused = call(
            "search_encyclopaedia", {"encyclopaedia": f"{private}/api?key=K"}, query="a"
        )
    assert refused
    assert expected in content
    assert [each for each in ("secret", "key=K") if each in content] == []
