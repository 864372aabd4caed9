"""What stands in a list, whatever a model makes a list of."""

import pytest

from tests.internals.hall import listed

TWO = ["Open the door.", "Take the lamp."]


@pytest.mark.parametrize(
    "text",
    [
        "1. Open the door.\n2. Take the lamp.",
        "Here you are:\n\n1) Open the door.\n\n2) Take the lamp.\n\nThat is all I can say.",
        "(1) Open the door.\n(2) Take the lamp.",
        "- Open the door.\n- Take the lamp.",
        "* Open the door.\n* Take the lamp.",
        "• Open the door.\n• Take the lamp.",
        "**1.** Open the door.\n**2.** **Take** the lamp.",
        "Tip 1: Open the door.\nTip 2: Take the lamp.",
        "Focus point #1: Open the door.\nFocus point #2: Take the lamp.",
        '["Open the door.", "Take the lamp."]',
        'Sure!\n```json\n["Open the door.", "Take the lamp."]\n```',
        "```\n1. Open the door.\n2. Take the lamp.\n```",
        "   1. Open the door.\n   2. Take the lamp.",
    ],
)
def test_items_are_found(text):
    assert listed(text) == TWO


def test_a_line_without_a_marker_goes_on_with_the_item_before():
    assert listed("1. Open\nthe door.\n2. Take the lamp.") == ["Open\nthe door.", "Take the lamp."]


def test_deeper_items_belong_to_the_one_above_them():
    assert listed("1. Open the door.\n   - quietly\n2. Take the lamp.") == ["Open the door.\nquietly", "Take the lamp."]


def test_an_array_of_objects_is_taken_as_it_is():
    assert listed('Tips: [{"tip": "Open the door."}] or so') == [{"tip": "Open the door."}]


@pytest.mark.parametrize(
    "text", ["", "There is nothing to say.", "It costs 1.5 or\n2.5 dollars.", "[1, 2]", "[" * 5_000]
)
def test_a_text_without_a_list_has_no_items(text):
    assert listed(text) == []


def test_a_year_and_a_number_are_no_markers():
    assert listed("- It was made in\n2024. It costs\n3.50 dollars.") == [
        "It was made in\n2024. It costs\n3.50 dollars."
    ]
