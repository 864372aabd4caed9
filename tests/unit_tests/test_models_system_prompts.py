"""What is added to the system prompt of a single model call."""

import pytest
from langchain_core.messages import SystemMessage

from tests.internals.hall import extended


def test_a_text_is_added_at_the_end_and_all_else_stays():
    system = extended(SystemMessage("Be kind.", id="1"), "More.")

    assert system == SystemMessage("Be kind.\n\nMore.", id="1")


def test_blocks_of_a_system_message_stay_as_they_are():
    marked = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}

    system = extended(SystemMessage([marked]), "More.")

    assert system.content == [marked, {"type": "text", "text": "\n\nMore."}]


def test_the_message_that_is_passed_stays_as_it_is():
    system = SystemMessage("Be kind.")

    extended(system, "More.")

    assert system == SystemMessage("Be kind.")


@pytest.mark.parametrize("empty", [None, SystemMessage(""), SystemMessage([])])
def test_an_empty_system_message_leaves_no_trace(empty):
    assert extended(empty, "More.") == SystemMessage("More.")
