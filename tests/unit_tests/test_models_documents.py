"""Questions about data."""

import json

from tests.internals.hall import document_prompt


def test_a_question_is_an_instruction_and_one_json_document():
    system, human = document_prompt("Judge.", {"request": "Zürich?", "odd": {1, 2}.__class__})
    assert system.text == "Judge."
    assert json.loads(human.text)["request"] == "Zürich?"
    assert "Zürich" in human.text
