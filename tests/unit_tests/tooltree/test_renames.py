"""What two results of the same call may differ in, because each has made it up, and what they may not."""

import json
import time

import pytest

from langchain_tooltree.tooltree.ahead import rename, renames

ONE_UUID, OTHER_UUID = (
    "550e8400-e29b-41d4-a716-446655440000",
    "650e8400-e29b-41d4-a716-446655440001",
)


@pytest.mark.parametrize(
    ("tried", "real", "renamed"),
    [
        (f"{ONE_UUID} was made", f"{OTHER_UUID} was made", {ONE_UUID: OTHER_UUID}),
        ("{'orderId': 10482}", "{'orderId': 10483}", {"10482": "10483"}),
        (
            '{"order_id": "ord_9f8e"}',
            '{"order_id": "ord_1a2b"}',
            {"ord_9f8e": "ord_1a2b"},
        ),
        (
            json.dumps([{"text": '{"id": "a1b2c3"}'}]),
            json.dumps([{"text": '{"id": "b2c3d4"}'}]),
            {"a1b2c3": "b2c3d4"},
        ),
        (
            "Your booking reference is X7KQ9P.",
            "Your booking reference is M2RT4Z.",
            {"X7KQ9P": "M2RT4Z"},
        ),
        (
            "Invoice number: 20260017",
            "Invoice number: 20260018",
            {"20260017": "20260018"},
        ),
        ("ticket #10482", "ticket #10484", {"10482": "10484"}),
        (
            "saved 2026-11-22 14:02:35.120+01:00",
            "saved 2026-11-22 14:02:36.987+01:00",
            {"2026-11-22 14:02:35.120+01:00": "2026-11-22 14:02:36.987+01:00"},
        ),
        ("confirmed", "confirmed", {}),
    ],
)
def test_times_and_generated_identifiers_may_differ(tried, real, renamed):
    assert renames(tried, real) == renamed
    assert renames(tried, f"{real} twice") is None


@pytest.mark.parametrize(
    ("tried", "real"),
    [
        ("paid 50000", "paid 70000"),
        ("price: 10482", "price: 10999"),
        ("id: … id: A-12345", "id: B-99999 id: …"),
        ("Order id: …, total 5", "Order id: A-12345, total 5"),
        ("bid 30000", "bid 40000"),
        ("status code 200", "status code 404"),
        ("reservation number 4 people", "reservation number 6 people"),
        ("order RTX-4090", "order RTX-4080"),
        ("sold to Ann", "sold to Bob"),
        ("Appointment on 2026-12-03", "Appointment on 2026-12-04"),
        ("starts 2026-11-22 14:00:00.000Z", "starts 2026-11-22 16:00:00.000Z"),
        ("runtime 02:15:33", "runtime 02:15:34"),
        ("", "x"),
        ("id 4f3c2b1aab, id 4f3c2b1aab", "id 5f3c2b1aab, id 5f3c2b1aac"),
        ("id 4f3c2b1aab, id 4f3c2b1aac", "id 5f3c2b1aab, id 5f3c2b1aab"),
        (f"id {ONE_UUID}", "id 2026-11-22T14:02:35Z"),
    ],
)
def test_amounts_appointments_states_and_names_may_not(tried, real):
    assert renames(tried, real) is None


def test_names_are_replaced_as_whole_words_in_any_data():
    renamed = {"10482": "10999", "ab12": "cd34"}
    data = {
        "order": 10482,
        "note": "pay 10482, not 104820",
        "ids": ["ab12", "xab12", True, 1.5],
    }
    assert rename(data, renamed) == {
        "order": 10999,
        "note": "pay 10999, not 104820",
        "ids": ["cd34", "xab12", True, 1.5],
    }
    assert rename({"order": 10482}, {"10482": "A1"}) == {"order": "A1"}


@pytest.mark.parametrize(
    "text", ["a", "1", "id_", "id-", "number ", "2026-", "  id:", "# "]
)
def test_long_texts_take_linear_time(text):
    began = time.process_time()
    renames(text * (20_000 // len(text)), "x")
    assert time.process_time() - began < 1.0
