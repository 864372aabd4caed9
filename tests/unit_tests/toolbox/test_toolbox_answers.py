"""Each tool of the toolbox: right answers, and a text that helps where the input is wrong."""

import json
import os

import httpx
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langgraph.errors import GraphInterrupt

from langchain_tooltree.toolbox import toolbox
from tests.internals.toolbox import RefusedError, bounded, perform
from tests.unit_tests.toolbox.conftest import SERVICES, WORD, model_that_says, write_docx

pytestmark = pytest.mark.slow  # they start a process

ANSWERS = [
    ("calculator", {"expression": "0.1 + 0.2"}, "0.3"),
    ("calculator", {"expression": "2^10 - 24"}, "1000"),
    ("calculator", {"expression": "3(1 + 1.5e1) - 2pi/pi + 1e3"}, "1046"),
    ("calculator", {"expression": "1/3"}, "0.333333333333333 (exactly 1/3)"),
    ("calculator", {"expression": "log(8, 2)"}, "3 (exactly"),
    ("calculator", {"expression": "sin(pi/6) + max(1, 2)"}, "2.5"),
    ("calculator", {"expression": "factorial(20) // 7 % 997"}, "679"),
    ("calculator", {"expression": "0x10 + 0b11"}, "19"),
    ("calculator", {"expression": "cbrt(-8)"}, "-2"),
    ("calculator", {"expression": "pow(2, 3, 5) + pow(7, 10^50, 13) * 0"}, "3"),
    ("calculator", {"expression": "3 \u00d7 4 \u2212 6 ÷ 2 * π / π + 3! + pow(2, 3)"}, "23"),
    ("calculator", {"expression": "round(2.345 * 2, 2) + log10(1000) - math.sqrt(4)"}, "5.69"),
    ("calculator", {"expression": "gcd(12, 900) + max(1, 200)"}, "212"),
    ("calculator", {"expression": "10 % (-3)"}, "-2"),
    ("calculator", {"expression": "1 + I/10^12"}, "1.0 + 1.0e-12*I"),
    ("calculator", {"expression": 42}, "42"),
    ("transform_formula", {"formula": "(x^2 - 1)/(x - 1)"}, "x + 1"),
    ("transform_formula", {"formula": "x^2 - y^2", "how": "factor"}, "(x - y)*(x + y)"),
    ("solve_equations", {"equations": ["x + y = 10", "x - y = 2"]}, "x = 6, y = 4"),
    ("solve_equations", {"equations": ["x^2 = 2*x"]}, "x = 0\nx = 2"),
    ("solve_equations", {"equations": ["E = m*c^2"], "variables": ["m"]}, "[e and E are Euler's number"),
    ("solve_equations", {"equations": ["x = x + 1"]}, "No solution was found."),
    ("solve_equations", {"equations": ["x^5 - 3*x^4 = -1"]}, "x = 0.823283753685883"),
    (
        "solve_equations",
        {"equations": ["x^3 - 3*x + 1 = 0"]},
        "x = 0.347296355333861\nx = 1.53208888623796\nx = -1.879385",
    ),
    (
        "solve_equations",
        {"equations": ["x^5 - x - 1 = 0", "y = 2*x"]},
        "solved here. Solve 'x^5 - x - 1 = 0' alone, then put that into the others.",
    ),
    ("solve_equations", {"equations": ["x = 3", "y = 2*x"], "variables": ["y"]}, "x = 3, y = 6"),
    ("solve_equations", {"equations": ["x^5 - sqrt(2)*x = 1"]}, "found, but not every kind can be solved here."),
    ("solve_equations", {"equations": ["x^6 - x = y", "y = 2"]}, "x = -1, y = 2\n[there may be more solutions]"),
    ("solve_equations", {"equations": ["(x - 1)*(x^5 - pi*x - 1) = 0"]}, "x = 1\n[there may be more solutions]"),
    ("solve_equations", {"equations": ["sin(x) = 0"]}, "(exactly pi)\n[there may be more solutions]"),
    ("solve_equations", {"equations": ["cos(x) = x"]}, "x = 0.739085133215\n[found by trying"),
    ("calculator", {"expression": "gcd(12,180) + pow(2,100)/2^100"}, "13"),
    ("calculus", {"operation": "sum", "formula": "(-1)^n", "start": "0", "end": "oo"}, "It diverges: "),
    ("calculus", {"operation": "derivative", "formula": "5"}, "0"),
    ("calculus", {"operation": "derivative", "formula": "x^3"}, "3*x**2"),
    ("calculus", {"operation": "integral", "formula": "x^2", "start": "0", "end": "3"}, "9"),
    ("calculus", {"operation": "Integral", "formula": "x^2", "variable": None, "start": 0, "end": 3}, "9"),
    ("calculus", {"operation": "limit", "formula": "sin(x)/x"}, "1"),
    ("solve_equations", {"equations": "2x = 8", "variables": "x"}, "x = 4"),
    ("calculus", {"operation": "limit", "formula": "(1 + 1/n)^n", "end": "oo"}, "E"),
    ("calculus", {"operation": "limit", "formula": "1/x"}, "There is no limit: -oo from below, oo from above."),
    ("calculus", {"operation": "integral", "formula": "1/x^2", "start": "-1", "end": "1"}, "It diverges: oo."),
    ("calculus", {"operation": "sum", "formula": "1/n^2", "start": "1", "end": "oo"}, "(exactly pi**2/6)"),
    ("statistics", {"numbers": [2, 4, 4, 10]}, "mean: 5\nmedian: 4"),
    ("convert_units", {"value": 26.2, "unit": "mile", "to": "km"}, "42.1648128 km"),
    ("convert_units", {"value": 100, "unit": "degC", "to": "degF"}, "212 degF"),
    ("convert_units", {"value": 123456789, "unit": "m", "to": "km"}, "123456789 m = 123456.789 km"),
    ("convert_units", {"value": 3, "unit": "kg/m3", "to": "g/m^3"}, "3 kg/m3 = 3000 g/m^3"),
    ("convert_units", {"value": 2, "unit": "km2", "to": "m**2"}, "2 km2 = 2000000 m**2"),
    ("convert_units", {"value": -459.67, "unit": "degF", "to": "K"}, "= 0 K"),
    ("convert_units", {"value": -5, "unit": "delta_degC", "to": "delta_degF"}, "-9 delta_degF"),
    ("convert_units", {"value": 200, "unit": "kcal", "to": "kJ"}, "836.8 kJ"),
    ("convert_units", {"value": 5, "unit": "Celsius", "to": "Fahrenheit"}, "41 Fahrenheit"),
    ("time_between", {"start": "2026-03-01", "end": "2026-12-24"}, "298 days"),
    ("time_between", {"start": "31/12/2026", "end": "March 1 2027"}, "60 days"),
    ("time_between", {"start": "1 March 2026 10:00 +01:00", "end": "2026-03-01T12:00Z"}, "3 hours"),
    ("time_between", {"start": "2026-11-20", "end": "2026-11-24"}, " 2 working days"),
    (
        "add_to_date",
        {"start": "2024-01-31", "amount": 1, "unit": "month"},
        "2024-02-29 (Thursday), counted from 2024-01-31, a Wednesday",
    ),
    ("add_to_date", {"start": "2026-03-01 9:00 UTC", "amount": 1}, "2026-03-02T09:00:00+00:00 (Monday)"),
    ("add_to_date", {"start": "2026/03/01", "amount": 0}, "2026-03-01 (Sunday)"),
    ("add_to_date", {"start": "Sun 2026-03-01", "amount": 0}, "2026-03-01 (Sunday)"),
    ("add_to_date", {"start": "Sunday, 1 March 2026", "amount": 1, "unit": "DAYS"}, "2026-03-02 (Monday)"),
    ("add_to_date", {"start": "1 March 2026 10:00", "amount": -2, "unit": "hours"}, "2026-03-01T08:00:00 (Sunday)"),
    (
        "convert_time_zone",
        {"moment": "2026-07-01T09:00", "zone": "Europe/Berlin", "to": "Asia/Tokyo"},
        "2026-07-01 16:00 in Asia/Tokyo",
    ),
    (
        "convert_time_zone",  # the clocks are put back
        {"moment": "2026-10-25T02:30", "zone": "Europe/Berlin", "to": "UTC"},
        "2026-10-25 00:30 in UTC (Sunday, UTC+0000); also 01:30, as the clocks are put back",
    ),
    ("convert_time_zone", {"moment": "2026-07-01T09:00", "zone": "utc", "to": "gmt"}, "2026-07-01 09:00 in gmt"),
    ("describe_tables", {}, "sales.csv: region VARCHAR, amount BIGINT\nstaff.json: name VARCHAR, region VARCHAR"),
    ("describe_tables", {"files": ["sales.csv"]}, "the table sales: 3 rows\nregion VARCHAR, amount BIGINT"),
    (
        "query_tables",
        {
            "sql": "SELECT name, sum(amount) AS total FROM sales JOIN staff USING (region) GROUP BY name ORDER BY name",
            "files": ["sales.csv", "staff.json"],
        },
        "name | total\nAda | 15\nBen | 20",
    ),
    (
        "query_tables",  # neither type is one that Python has without another package
        {
            "sql": "SELECT TIMESTAMPTZ '2026-01-01 12:00:00Z' AS t, NULL AS n, INTERVAL 3 DAY AS i",
            "files": ["sales.csv"],
        },
        "t | n | i\n2026-01-01 ",
    ),
    (
        "query_tables",
        {"sql": "SELECT NULL AS n, '' AS e, 'a | b' AS \"x|y\"", "files": ["sales.csv"]},
        "n | e | \"x|y\"\nNULL | '' | 'a | b'",
    ),
    ("query_tables", {"sql": "SELECT count(*) AS n FROM 'sales.csv';", "files": "sales.csv"}, "n\n3"),
    ("query_tables", {"sql": "FROM sales WHERE amount > 99", "files": ["sales.csv"]}, "region | amount\n[no rows]"),
    (
        "query_tables",
        {"sql": "PIVOT sales ON region USING sum(amount);", "files": ["sales.csv"]},
        "North | South\n15 | 20",
    ),
    ("find_pattern", {"pattern": r"(\d+)-(\d+)", "text": "a 12-34"}, "'12-34' at 2, groups ('12', '34')"),
    ("find_pattern", {"pattern": "b+", "text": "abbc", "replacement": "x"}, "1 replaced:\naxc"),
    ("find_pattern", {"pattern": "z", "text": "abc"}, "There is no match."),
    (
        "find_pattern",
        {"pattern": "a", "text": "a" * 1_500},
        "Matches: 1,500, of which the first 100 are shown\n'a' at 0\n",
    ),
    ("compare_texts", {"old": "a\nb\nc", "new": "a\nx\nc"}, "-b\n+x"),
    ("compare_texts", {"old": "a", "new": "a"}, "The texts are the same."),
    (
        "compare_texts",
        {"old": "x\n" * 300, "new": "y\n" * 30 + "x\n" * 300 + "z"},
        "300 lines are the same, of 300 old and 331 new ones.\n--- old\n+++ new\n@@ -1,2 +1,32 @@\n+y",
    ),
    (
        "compare_texts",
        {"old": "\n\n".join(f"a{n}" for n in range(1_500)), "new": "\n\n".join(f"b{n}" for n in range(1_500))},
        "0 lines are the same, of 2999 old and 2999 new ones.",
    ),
    (
        "compare_texts",
        {"old": "{\n}\n" * 2_000 + "a", "new": "{\n}\n" * 1_999 + "b"},  # in well under a second
        "At least 3998 lines are the same, of 4001 old and 3999 new ones.",
    ),
    ("compare_texts", {"old": "", "new": "a"}, "@@ -0,0 +1 @@\n+a"),
    (
        "count_words",
        {"text": "To be, or not to be."},
        "6 words, 20 characters, 1 sentences, 1 lines; most frequent: to 2",
    ),
    ("count_words", {"text": "To be, or not to be.", "word": "BE"}, "occurs 2 times"),
    ("count_words", {"text": "New York, new\nyork, New Yorkers", "word": "New York"}, "occurs 2 times"),
    ("count_words", {"text": "C++ or c++11, not C", "word": "C++"}, "occurs 2 times"),
    ("count_words", {"text": "a cat, concatenated", "word": " cat "}, "occurs 1 times"),
    ("count_words", {"text": "notes.md"}, "11 words"),
    ("count_words", {"text": "Read notes.md "}, "3 words"),
    ("compare_texts", {"old": "notes.md", "new": "# Leave\n\nAnnual leave is 28 days."}, "-## Sick leave"),
    ("guess_language", {"text": "hallo wie geht es dir"}, "de 99%"),
    ("guess_language", {"text": "Das ist nicht der Weg zu dem Haus."}, "de over 99%"),
    ("guess_language", {"text": "Где находится вокзал и как это по пути?"}, "ru "),
    ("guess_language", {"text": "東京は日本の首都です。"}, "ja over 99%"),
    ("guess_language", {"text": "hello"}, "no more than a guess"),
    ("list_files", {"ending": "*.txt"}, "sub/deep.txt (13 bytes)"),
    ("read_document", {"file": "report.pdf"}, "# Page 1\nProfit rose to 42 million.\n# Page 2\nOutlook is stable."),
    ("read_document", {"file": "page.html"}, "Prices\n## Cars\nA red car\nOslo | 80"),
    ("read_document", {"file": "letter.docx"}, "# Offer\nWe offer 12 chairs."),
    ("outline_document", {"file": "notes.md"}, "Leave: 24 characters\n  Sick leave: 12 characters"),
    ("search_documents", {"words": "NEEDLE"}, "sub/deep.txt, line 1: a needle here"),
    ("search_documents", {"words": "profit million"}, "report.pdf, line 2: Profit rose"),
    ("image_size", {"image": "flag.png"}, "80 x 40 pixels, PNG, RGB"),
    (
        "crop_image",
        {"image": "flag.png", "x": 40, "y": 0, "width": 20, "height": 10},
        "flag.png#xywh=40,0,20,10&zoom=1",
    ),
    ("zoom_image", {"image": "flag.png", "part": "top right"}, "flag.png#xywh=40,0,40,20&zoom=4"),
    ("zoom_image", {"image": "flag.png", "part": "bottom"}, "flag.png#xywh=0,20,80,20&zoom=4"),
    ("zoom_image", {"image": "flag.png", "part": "Bottom-Left"}, "flag.png#xywh=0,20,40,20&zoom=4"),
    (
        "crop_image",
        {"image": "flag.png#xywh=40,0,40,20&zoom=4", "x": 80, "y": 40, "width": 40, "height": 40},
        "flag.png#xywh=60,10,10,10&zoom=4",
    ),
    ("image_size", {"image": "flag.png#xywh=40,0,40,20&zoom=4"}, "at 40, 0: 40 x 20 pixels, enlarged 4 times"),
    ("image_colours", {"image": "flag.png#xywh=40,0,40,20&zoom=4"}, "#ff0000 100%"),
]
WRONG = [
    ("calculator", {"expression": "2 3"}, "Write products with *"),
    ("calculator", {"expression": "12,000 * 2"}, "without commas"),
    *(
        ("calculator", {"expression": each}, "Put a space after a comma between arguments")
        for each in ("ln(12,000)", "sqrt(12,000)", "round(12,000)", "max(1,200, 900)", "max(1,200)")
    ),
    ("calculator", {"expression": "sqrt(2,25)"}, "write 2.5 and not 2,5, or else root(8, 3)"),
    ("calculator", {"expression": "log10(2, 25)"}, "or else log(8, 2)"),
    ("calculator", {"expression": "1280 * 15% + 20"}, "Write 15 % as 0.15"),
    ("calculator", {"expression": "1,250 * 15% + 20"}, "12000 and not 12,000. Put a space after a comma between arg"),
    ("calculator", {"expression": "1,250 * 15% + 20"}, "Write 15 % as 0.15"),
    ("calculator", {"expression": "gcd(1,200, 900)"}, "can be read in two ways"),
    ("calculator", {"expression": "10 % \u22123"}, "a remainder by a number with a sign as 10 % (-3)."),
    ("calculator", {"expression": "15% of 80"}, "Write 15 % as 0.15"),
    ("calculator", {"expression": "x + 1"}, "There is no value for x"),
    ("calculator", {"expression": "1/0"}, "divides by zero"),
    ("calculator", {"expression": "0/0"}, "That has no value"),
    ("calculator", {"expression": "round()"}, "round cannot be applied to"),
    ("calculator", {"expression": "pow(9, 10^9)"}, "is not computed"),
    ("calculator", {"expression": "(pi*10^10000) % 7"}, "none that can be computed precisely"),
    ("calculus", {"operation": "integral", "formula": "1/x", "start": "-1", "end": "1"}, "That has no value"),
    ("calculator", {"expression": "sine(1)"}, "Did you mean 'sin'"),
    ("transform_formula", {"formula": "x", "how": "expnd"}, "Did you mean 'expand'"),
    ("solve_equations", {"equations": ["x + 1"]}, "Each equation needs one '='"),
    ("solve_equations", {"equations": ["x = 1"], "variables": ["y"]}, "variable must be one of x"),
    ("calculus", {"operation": "integral", "formula": "x", "start": "1"}, "Give both"),
    ("calculus", {"operation": "derivative", "formula": "x*y"}, "variable must be one of x, y"),
    ("statistics", {"numbers": []}, "Give 1 to 100,000"),
    ("statistics", {"numbers": [1.0] * 100_001}, "got 100,001"),
    ("convert_units", {"value": 1, "unit": "kg", "to": "m"}, "kg measures [mass]"),
    ("convert_units", {"value": 1, "unit": "EUR", "to": "USD"}, "no unit that is known"),
    (
        "convert_units",
        {"value": 20, "unit": "C", "to": "F"},
        "Here C is the coulomb and F is the farad. Did you mean deg",
    ),
    ("convert_units", {"value": 1, "unit": "l/km", "to": "km/l"}, "the reciprocal of the other"),
    ("convert_units", {"value": 8, "unit": "l/100km", "to": "l/km"}, "8 l/100km is 0.08 l/km"),
    ("convert_units", {"value": -300, "unit": "degC", "to": "K"}, "below absolute zero, -273.15 degC"),
    *(("convert_units", {"value": 1, "unit": each, "to": "kg"}, "Write metric_ton") for each in ("ton", "Ton", "TONS")),
    *(
        ("convert_units", {"value": 200, "unit": each, "to": "kJ"}, "Write kilocalorie (4184 J)")
        for each in ("Cal", "Calories")
    ),
    ("time_between", {"start": "March", "end": "2026-01-01"}, "lacks its day"),
    ("time_between", {"start": "2026-01-01T10:00Z", "end": "2026-01-01"}, "has a time zone"),
    ("convert_units", {"value": 1e308, "unit": "km", "to": "nm"}, "too large"),
    ("convert_units", {"value": 1, "unit": "m*9**9**9", "to": "m"}, "Write names and powers"),
    ("time_between", {"start": "01/02/2026", "end": "2026-03-01"}, "can be read in two ways"),
    ("time_between", {"start": "2026-03-01T10:00Z", "end": "2026-03-02"}, "One of them has a time zone"),
    ("add_to_date", {"start": "2026-03-01", "amount": 1, "unit": "workdays"}, "unit must be one of years"),
    ("time_between", {"start": "2026", "end": "2027"}, "lacks its day"),
    ("time_between", {"start": "2026-03-01 10:00 EST", "end": "2026-03-01 12:00 EST"}, "is no date"),
    ("convert_time_zone", {"moment": "2026-07-01T09:00+05:00", "zone": "UTC", "to": "UTC"}, "offset of its own"),
    ("convert_time_zone", {"moment": "2026-03-29T02:30", "zone": "Europe/Berlin", "to": "UTC"}, "does not exist"),
    ("add_to_date", {"start": "Saturday 2026-03-01", "amount": 0}, "contradicts itself: 2026-03-01 is a Sunday"),
    ("add_to_date", {"start": "Sat 1 March 2026", "amount": 0}, "contradicts itself: 2026-03-01 is a Sunday"),
    ("add_to_date", {"start": "9999-12-31", "amount": 1}, "outside the years"),
    (
        "convert_time_zone",
        {"moment": "2026-01-01", "zone": "Europe/Berln", "to": "UTC"},
        "Did you mean 'Europe/Berlin'",
    ),
    *(
        ("convert_time_zone", {"moment": "2026-07-01 12:30", "zone": zone, "to": "UTC"}, "Name a place, such as Am")
        for zone in ("EST", "MST", "CET", "PST", "IST", "cest")
    ),
    *(
        ("convert_time_zone", {"moment": "2026-07-01", "zone": zone, "to": "UTC"}, f"Did you mean '{place}'?")
        for zone, place in (("New York", "America/New_York"), ("berlin", "Europe/Berlin"), ("Oslo", "Europe/Oslo"))
    ),
    (
        "query_tables",
        {"sql": "SELECT * FROM sale", "files": ["sales.csv"]},
        "exist! Tables: sales. Did you mean 'sales'",
    ),
    ("query_tables", {"sql": "FROM staff", "files": ["sales.csv"]}, "exist! Tables: sales. Add 'staff.json' to files."),
    ("query_tables", {"sql": "FROM 'staff.json'", "files": ["sales.csv"]}, "Add 'staff.json' to files."),
    ("query_tables", {"sql": "SELEC * FROM sales", "files": ["sales.csv"]}, "^^^^^ Tables: sales."),
    ("query_tables", {"sql": "FROM read_csv('sales.csv')", "files": ["sales.csv"]}, "name the tables. Tables: sales."),
    ("query_tables", {"sql": "CREATE TABLE t AS PIVOT sales ON region", "files": ["sales.csv"]}, "syntax error"),
    ("query_tables", {"sql": "SELECT 1", "files": []}, "There are: sales.csv, staff.json"),
    ("query_tables", {"sql": "SELECT 1", "files": ["notes.md"]}, "is no table"),
    ("find_pattern", {"pattern": "(", "text": ""}, "no regular expression"),
    ("guess_language", {"text": "12345"}, "no letters"),
    ("count_words", {"text": "note.md"}, "There is no file 'note.md' in the folder. Did you mean 'notes.md'?"),
    ("count_words", {"text": "my notes.md"}, "Did you mean 'notes.md'? If it is the text itself, end it with a space."),
    ("count_words", {"text": "../outside.txt"}, "is not a name in the folder"),
    ("compare_texts", {"old": "a\n" * 5_001, "new": "b"}, "At most 5,000 lines"),
    ("outline_document", {"file": "flag.png"}, "is no text"),
    ("read_document", {"file": "NOTES.MD"}, "Did you mean 'notes.md'?"),
    ("read_document", {"file": "xyz"}, "There is no file 'xyz' in the folder. There are: "),
    ("read_document", {"file": "reprt.pdf"}, "Did you mean 'report.pdf'"),
    ("read_document", {"file": "flag.png"}, "is no text"),
    ("search_documents", {"words": " "}, "at least one word"),
    ("image_size", {"image": "notes.md"}, "no image that can be opened"),
    ("crop_image", {"image": "flag.png", "x": 70, "y": 0, "width": 20, "height": 10}, "does not lie within"),
    ("zoom_image", {"image": "flag.png", "factor": 99}, "16 times at most"),
    ("image_colours", {"image": "flag.png#here"}, "Did you mean 'flag.png'?"),
    ("image_colours", {"image": "flag.png#xywh=0,0"}, "names no detail"),
    ("image_colours", {"image": "flag.png#xywh=0,0,81,40&zoom=1"}, "lies outside"),
]


@pytest.mark.parametrize(("tool", "arguments", "expected"), ANSWERS)
def test_answers_are_right(call, tool, arguments, expected):
    content, refused = call(tool, **arguments)
    assert not refused
    assert expected in content


@pytest.mark.parametrize(
    ("equations", "expected"),
    [
        (["x^2 = 2*x"], "x = 0\nx = 2"),
        (["a*x = b"], "a = b/x"),
        (["x + y = 3", "x = y"], "x = 1.5, y = 1.5"),
        (["x = 5", "x = 6"], "No solution was found."),
    ],
)
def test_solutions_that_are_all_there_are_come_without_doubt(call, equations, expected):
    assert call("solve_equations", equations=equations) == (expected, False)


@pytest.mark.parametrize(("tool", "arguments", "expected"), WRONG)
def test_bad_input_is_answered_with_what_helps(call, tool, arguments, expected):
    content, refused = call(tool, **arguments)
    assert refused, content
    assert expected in content


def test_models_are_asked_with_the_text_or_the_detail_and_told_that_it_is_data(call):
    model = model_that_says("Friday now.", "A flag.", "flag, red", "Red.", "500, 0, 1000, 500, sign")
    assert call("summarise_text", {"model": model}, text="The meeting was moved to Friday.")[0] == "Friday now."
    assert call("caption_image", {"vision": model}, image="flag.png")[0] == "A flag."
    assert call("tag_image", {"vision": model}, image="flag.png")[0] == "flag, red"
    assert call("ask_image", {"vision": model}, image="flag.png", question="Which colour?")[0] == "Red."
    found, refused = call("locate_in_image", {"vision": model}, image="flag.png", thing="sign")
    assert (found, refused) == ("sign: flag.png#xywh=40,0,40,20&zoom=1", False)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("None.", "No sign was found."),
        ("I see no sign.", "[not all of this gives places in the image: I see no sign.]"),
        ("[0, 0, 500, 1000], 'left'\n1200, 0, 1500, 9", "left: flag.png#xywh=0,0,40,40&zoom=1\n[not all of this gives"),
    ],
)
def test_places_that_cannot_be_used_are_told(call, said, expected):
    content, refused = call("locate_in_image", {"vision": model_that_says(said)}, image="flag.png", thing="sign")
    assert content.startswith(expected)
    assert not refused


def test_text_in_an_image_is_read_by_the_program(call, tmp_path, monkeypatch):
    program = tmp_path / "tesseract"
    program.write_text(
        "#!/bin/sh\n[ $1 = --list-langs ] && { echo List; echo eng; echo osd; exit; }\n"
        "[ $4 = osd ] && { echo broken >&2; exit 1; }\nhead -c 4 | tail -c 3\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    bounded.end_all()  # a process keeps the path that it was started with
    assert call("read_image_text", image="flag.png") == ("PNG", False)
    assert call("read_image_text", image="flag.png", language="osd") == ("tesseract failed: broken\n", True)
    lacking = "tesseract has no language deu, fra. Installed: eng, osd."
    assert call("read_image_text", image="flag.png", language="eng+deu+fra") == (lacking, True)
    assert call("read_image_text", image="flag.png", language="-c x")[1]


@pytest.fixture
def service(monkeypatch):
    """Answers instead of the network, and the requests that came."""
    came = []

    def serve(*answers):
        left = list(answers)

        def answer(request):
            came.append(request)
            content = left.pop(0)
            return content if isinstance(content, httpx.Response) else httpx.Response(200, json=content)

        client = httpx.Client(transport=httpx.MockTransport(answer))
        monkeypatch.setattr(httpx, "stream", client.stream)
        monkeypatch.setattr(
            "langchain_tooltree.toolbox.library.run_bounded", lambda name, given, _: perform(name, given)
        )
        return came

    return serve


def test_an_encyclopaedia_gives_articles_in_their_order(call, service):
    pages = [{"title": "B", "extract": "two", "index": 2}, {"title": "A", "extract": "one", "index": 1}]
    came = service({"query": {"pages": pages}}, {})
    assert call("search_encyclopaedia", SERVICES, query="a")[0] == "A: one\n\nB: two"
    assert (came[0].url.host, came[0].url.params["gsrsearch"]) == ("wiki.test", "a")
    assert call("search_encyclopaedia", SERVICES, query="a")[0] == "Nothing was found."


def test_a_knowledge_graph_gives_rows(call, service):
    rows = [{"n": {"type": "literal", "value": "7"}}, {}] * 51  # an unbound variable has no key
    came = service({"head": {"vars": ["n"]}, "results": {"bindings": rows}}, {"boolean": True}, [])
    said = call("query_knowledge_graph", SERVICES, sparql="SELECT ?n WHERE {}")[0]
    assert said.startswith("n\n7\n\n7\n")
    assert said.endswith("[more rows: the first 100 are shown]")
    assert came[0].headers["accept"] == "application/sparql-results+json"
    assert call("query_knowledge_graph", SERVICES, sparql="ASK {}")[0] == "true"
    assert call("query_knowledge_graph", SERVICES, sparql="ASK {}") == (
        "graph.test answered in a form that is not known.",
        True,
    )


def test_pubmed_gives_titles(call, service):
    article = {"uid": "12", "title": "On <i>x</i>", "source": "Nature", "pubdate": "2026 May"}
    about = {"uids": ["12", "13"], "12": article, "13": {"uid": "13", "error": "cannot get document summary"}}
    service({"esearchresult": {"idlist": ["12", "13"]}}, {"result": about}, {"esearchresult": {"ERROR": "x"}})
    assert call("search_pubmed", SERVICES, query="x")[0] == "On x Nature, 2026 May. PMID 12"
    assert call("search_pubmed", SERVICES, query="x") == ("pubmed.test answered in a form that is not known.", True)


def test_wolfram_alpha_gives_its_text_and_never_the_key(call, service):
    service(httpx.Response(200, text="5.2 au"), httpx.Response(501, text="KEY-1 cannot <b>do</b> that"))
    assert call("ask_wolfram_alpha", SERVICES, question="jupiter") == ("5.2 au", False)
    assert call("ask_wolfram_alpha", SERVICES, question="jupiter") == (
        "api.wolframalpha.com answered 501: (key) cannot do that",
        True,
    )


def test_a_search_of_the_users_own_is_called(call):
    assert call("search_web", {"search": lambda query: [Document(f"about {query}")]}, query="x") == ("about x", False)


def test_a_search_that_fails_says_no_key(call):
    def search(query):
        msg = f"401 for https://api.test/?key=K&q={query}"
        raise ValueError(msg)

    said = "search_web failed: ValueError. Try again later, or another tool."
    assert call("search_web", {"search": search}, query="x") == (said, True)


def test_a_search_that_asks_a_person_interrupts_the_graph(call):
    def ask(query):
        raise GraphInterrupt(query)

    with pytest.raises(GraphInterrupt):
        call("search_web", {"search": ask}, query="x")


def test_what_a_model_writes_for_a_tool_is_no_part_of_the_answer(call):
    seen = []

    class Listening(BaseCallbackHandler):
        def on_chat_model_start(self, *_, tags, **__):
            seen.extend(tags)

    model = model_that_says("Short.").model_copy(update={"callbacks": [Listening()]})
    assert call("summarise_text", {"model": model}, text="Long.")[0] == "Short."
    assert "nostream" in seen


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(200, json={"error": {"code": "x", "info": "Search is <b>off</b>"}}), "answered: Search is off"),
        (httpx.Response(429, text="Too many"), "answered 429: Too many"),
        (httpx.Response(302, headers={"Location": "http://169.254.169.254/"}), "answered 302"),
        (httpx.Response(200, text="<html>"), "did not answer with JSON"),
        (httpx.Response(200, content=b"[" * 200_000), "did not answer with JSON"),
        (httpx.Response(200, content=b"x" * 2_000_001), "more than 2,000,000 bytes"),
    ],
)
def test_a_service_that_answers_otherwise_is_refused_and_not_followed(call, service, answer, said):
    came = service(answer)
    content, refused = call("search_encyclopaedia", SERVICES, query="a")
    assert refused
    assert said in content
    assert len(came) == 1


def test_services_get_json_of_any_shape(call, service):
    for shape in ([], 1, {"query": 1}, {"query": {"pages": [1]}}, {"query": {"pages": [{}]}}):
        service(json.loads(json.dumps(shape)))
        assert "form that is not known" in call("search_encyclopaedia", SERVICES, query="a")[0]


def test_a_document_that_cannot_be_read_hides_no_other(call, monkeypatch):
    def run(name, given, seconds):
        if given["file"] == "letter.docx":
            assert seconds < 6  # of 10
            msg = "It took too long."
            raise RefusedError(msg)
        return perform(name, given)

    monkeypatch.setattr("langchain_tooltree.toolbox.library.run_bounded", run)
    said, refused = call("search_documents", words="annual")
    assert not refused
    assert said == "notes.md, line 3: Annual leave is 28 days.\n[not read: flag.png, letter.docx]"
    assert call("search_documents", words="annual", file="flag.png")[1]


BOX = "<w:txbxContent><w:p><w:r><w:t>Total: 100</w:t></w:r></w:p></w:txbxContent>"


def test_parts_of_documents_are_apart_and_come_once(call, folder):
    (folder / "parts.html").write_text("<nav>Home</nav><main>2024</main><aside>15</aside><option>red<option>blue")
    assert call("read_document", file="parts.html")[0] == "Home\n2024\n15\nred\nblue"
    boxes = f"<m:AlternateContent><m:Choice>{BOX}</m:Choice><m:Fallback>{BOX}</m:Fallback></m:AlternateContent>"
    mark = 'xmlns:m="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    paragraph = f"<w:p {mark}><w:r><w:t>In</w:t></w:r><w:r>{boxes}</w:r><w:r><w:t>voice</w:t></w:r></w:p>"
    write_docx(folder / "box.docx", xml=WORD.format(paragraph))
    assert call("read_document", file="box.docx")[0] == "Invoice\nTotal: 100"


def test_files_beyond_those_that_are_looked_at_are_no_secret(call, tmp_path, monkeypatch):
    for number in range(2_001):
        (tmp_path / f"{number:04}.txt").touch()
    for number in range(101):
        (tmp_path / f"z{number:03}.csv").write_text("n\n1\n")
    box = toolbox("documents", "tables", folder=tmp_path)
    more = "[not all files of the folder were looked at: list_files with an ending may find others]"
    assert box.tool("list_files").invoke({}).endswith(f"0299.txt (0 bytes)\n[over 1,700 more]\n{more}")
    assert box.tool("list_files").invoke({"ending": "100.CSV"}) == "z100.csv (4 bytes)"
    assert box.tool("describe_tables").invoke({}).endswith("z099.csv\n[1 more]")
    assert "and over 1,990 more" in box.tool("read_document").invoke({"file": "?"})
    monkeypatch.setattr("langchain_tooltree.toolbox.entries.MAX_LOOKED", 3)
    assert call("search_documents", words="needle")[0].endswith(more)


def test_text_that_is_not_in_unicode_is_read(call, folder):
    (folder / "old.txt").write_bytes("Grüße aus Köln".encode("cp1252"))
    assert call("read_document", file="old.txt")[0] == "Grüße aus Köln"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "utf-16"])
def test_tables_of_older_programs_are_read(call, folder, encoding):
    (folder / "towns.csv").write_bytes("town;size\nKöln;1\nHof;2\n".encode(encoding))
    assert "town | size\nKöln | 1\n" in call("describe_tables", files=["towns.csv"])[0]


def test_images_are_seen_as_people_see_them(call, folder):
    image = pytest.importorskip("PIL.Image")
    made = {"turned.jpg": image.new("RGB", (40, 20), "red"), "clear.png": image.new("RGBA", (8, 8), (0, 0, 0, 0))}
    made |= {"grey.png": image.new("I;16", (8, 8), 32_768), "scan.tif": image.new("I;16", (8, 8), 2_048)}
    made |= {"share.tif": image.new("F", (8, 8), 0.5), "heights.tif": image.new("F", (8, 8), -5.0)}
    made |= {"none.tif": image.new("F", (8, 8), float("nan"))}
    made["heights.tif"].paste(15.0, (0, 0, 8, 4))
    tags = image.Exif()
    tags[274] = 6  # taken upright
    for name, each in made.items():
        each.save(folder / name, **({"exif": tags} if name == "turned.jpg" else {}))
    assert call("image_size", image="turned.jpg")[0] == "20 x 40 pixels, JPEG, RGB"
    assert call("image_colours", image="turned.jpg#xywh=0,39,20,1&zoom=1")[1] is False
    assert "#ffffff 100%" in call("image_colours", image="clear.png")[0]
    assert "brightness 50%" in call("image_colours", image="grey.png")[0]
    for name in ("scan.tif", "share.tif", "heights.tif"):
        assert "brightness 50%" in call("image_colours", image=name)[0]
    assert call("image_colours", image="none.tif") == ("'none.tif' is damaged: its values are not all finite", True)


def test_the_name_of_an_image_may_have_the_mark_of_details(call, folder):
    (folder / "flag #2.png").write_bytes((folder / "flag.png").read_bytes())
    assert call("image_size", image="flag #2.png")[0] == "80 x 40 pixels, PNG, RGB"
    detail, _ = call("zoom_image", image="flag #2.png", part="right")
    assert "#ff0000 100%" in call("image_colours", image=detail)[0]


def test_a_photo_is_sent_in_a_size_that_providers_take(call, folder):
    size = (1_110, 1_110)
    image = pytest.importorskip("PIL.Image").frombytes("RGB", size, os.urandom(3 * 1_110**2))
    image.save(folder / "noise.bmp")
    seen = []

    class Seeing(type(model_that_says("x"))):
        def _generate(self, messages, *given, **options):
            seen.append(messages[-1].content[1])
            return super()._generate(messages, *given, **options)

    assert call("caption_image", {"vision": Seeing(replies=["ok"])}, image="noise.bmp")[0] == "ok"
    assert seen[0]["mime_type"] == "image/jpeg"
    assert len(seen[0]["base64"]) < 5_000_000


@pytest.mark.parametrize(
    ("tool", "arguments", "reply", "said"),
    [
        ("summarise_text", {"text": "Long.", "words": 0}, "x", "words must be 1 to 500."),
        ("summarise_text", {"text": "a" * 200_001}, "x", "text has 200,001 characters; at most 200,000 are taken."),
        ("summarise_text", {"text": "Long."}, " ", "summarise_text has no answer."),
        ("caption_image", {"image": "flag.png"}, "", "caption_image has no answer."),
        ("tag_image", {"image": "notes.md"}, "x", "'notes.md' is no image that can be opened"),
        ("ask_image", {"image": "flag.png", "question": "a" * 4_001}, "x", "question has 4,001 characters"),
        ("locate_in_image", {"image": "../outside.txt", "thing": "sign"}, "x", "is not a name in the folder"),
    ],
)
def test_models_are_not_asked_what_is_wrong_nor_taken_at_an_empty_word(call, tool, arguments, reply, said):
    model = model_that_says(reply)
    content, refused = call(tool, {"model": model, "vision": model}, **arguments)
    assert (refused, content[: len(said)]) == (True, said) or said in content


def test_what_a_model_writes_is_cut(call):
    content, _ = call("caption_image", {"vision": model_that_says("x" * 50_000)}, image="flag.png")
    assert content.endswith("[cut: 20,000 of 50,000 characters; ask for a smaller part]")
