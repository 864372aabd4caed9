"""Distractors of the comparison: similar to a task's tools, and none of them."""

import pytest

from tests.benchmarks.bfcl_world import Task, ToolSpec
from tests.benchmarks.compare.distractors import ENTITIES, distractors, rename

BOOK = ToolSpec(
    "book_flight",
    "TravelAPI",
    "Book a flight between two airports.",
    {
        "type": "object",
        "properties": {"flight_id": {"type": "string", "description": "Identifier of the flight."}},
        "required": ["flight_id"],
    },
)
CANCEL = ToolSpec("cancel_booking", "TravelAPI", "Cancel a booking.", {"type": "object", "properties": {}})
TWEET = ToolSpec("post_tweet", "TwitterAPI", "Post a tweet.", {"type": "object", "properties": {}})
TASK = Task("a", "Tweet.", (TWEET,), (), make_objects=dict, same_state=lambda *_: True)


def test_a_function_is_renamed_wherever_it_speaks_of_its_subject():
    violin = rename(BOOK, "violin")
    assert (violin.name, violin.description) == ("book_violin", "Book a violin between two violin.")
    assert violin.schema == {
        "type": "object",
        "properties": {"violin_id": {"type": "string", "description": "Identifier of the violin."}},
        "required": ["violin_id"],
    }
    assert BOOK.schema["required"] == ["flight_id"]


def test_a_function_whose_name_has_no_subject_gets_one():
    assert rename(CANCEL, "violin").name == "cancel_booking_violin"


def test_smaller_libraries_are_the_beginning_of_larger_ones():
    few, many = (distractors([BOOK, CANCEL, TWEET], TASK, count) for count in (10, 100))
    assert many[:10] == few
    assert len({distractor.spec.name for distractor in many}) == 100
    assert {distractor.origin for distractor in many} == {"book_flight", "cancel_booking"}


def test_there_are_only_so_many_distractors():
    with pytest.raises(ValueError, match="Only"):
        distractors([BOOK, TWEET], TASK, len(ENTITIES.split()) + 1)
