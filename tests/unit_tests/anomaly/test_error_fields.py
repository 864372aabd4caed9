"""What structured observations say of their own success."""

import pytest

from langchain_tooltree.anomaly.rules import error_in, objects_in

FAILED = [
    '{"error": "no such city"}',
    "{'error': 'no such city', 'response': ''}",
    '{"errors": [{"message": "bad"}]}',
    '{"success": false, "message": "no"}',
    '{"ok": false}',
    '{"status": "error", "detail": "x"}',
    '{"isError": true, "content": []}',
    '{"status_code": 404}',
    '{"code": "404", "message": "Not found"}',
    '{"result": {"error": "closed"}}',
    '[{"error": "closed"}]',
    '```json\n{"ok": false}\n```',
    '{"returncode": 1, "stdout": "", "stderr": "no"}',
    '{"content": "' + "x" * 9_000 + '", "isError": true}',
    "{'error': \"it's broken\"}",
]
FINE = [
    '{"error": null}',
    '{"errors": []}',
    '{"error": ""}',
    '{"error": {}}',
    '{"error_count": 0}',
    '{"error": 0.02, "unit": "K"}',
    '{"code": 451, "name": "Chemistry"}',
    '{"success": true, "errors": null}',
    '{"id": 7, "status": "failed", "amount": 3}',
    '[{"error": "a"}, {"error": "b"}]',
    '{"data": [{"error": "a"}, {"id": 2}]}',
    '{"a": {"b": {"error": "deep down"}}}',
    '{"text": "{\\"error\\": 1}"}',
    '{"returncode": 1, "stdout": "2 failed", "stderr": ""}',
]
NO_FIELDS = ["", "[ERROR] no", "error: x", "[1, 2]", "[" * 100_000, "{", "(((("]


@pytest.mark.parametrize("text", FAILED, ids=lambda text: text[:40])
def test_a_field_that_tells_of_a_failure_is_found(text):
    assert error_in(objects_in(text)) is not None


@pytest.mark.parametrize("text", FINE, ids=lambda text: text[:40])
def test_fields_without_a_failure_are_left_alone(text):
    assert error_in(objects_in(text)) is None


@pytest.mark.parametrize("text", NO_FIELDS, ids=lambda text: text[:40])
def test_what_is_no_object_has_no_fields(text):
    assert not objects_in(text)


def test_the_field_is_named():
    assert error_in(objects_in('{"ok": false, "message": "The gate is shut"}')) == "ok"
    assert (
        error_in(objects_in('{"result": {"error_message": "closed"}}'))
        == "result.errormessage"
    )


@pytest.mark.parametrize(
    "text", ['{"a": ' * 50_000, "[" * 9_000, '{"error": "cut off', "('\\d',)", "(1, 2"]
)
def test_what_is_no_data_or_far_too_much_has_no_fields(text):
    assert not objects_in(text)
