"""What stands for people and their things in recalled runs, and what stays as it is."""

import json

import pytest

from tests.internals.cfgm import masks_in
from tests.internals.hall import renamed_in

PROFILE = json.dumps({
    "user_id": "mia_li_3668",
    "name": {"first_name": "Mia", "last_name": "Li"},
    "email": "mia.li@example.com",
    "address": {"address1": "975 Sunset Drive", "city": "Austin", "country": "USA", "zip": "78750"},
    "payment_methods": {"credit_card_4421486": {"brand": "visa", "last_four": "7447", "id": "credit_card_4421486"}},
    "reservations": ["NO6JO3", "AIXC49"],
    "membership": "gold",
})  # fmt: skip


def masked(*texts):
    return renamed_in(list(texts), masks_in(texts))


def test_who_it_was_is_masked_wherever_it_stands_and_the_shape_stays():
    profile, asked, call = masked(
        PROFILE, "I am Mia, my ID is mia_li_3668, and the card ends in 7447.", '{"payment_id": "credit_card_4421486"}'
    )
    assert asked == "I am <name 1>, my ID is <user 1>, and the card ends in <number 1>."
    assert call == '{"payment_id": "<credit_card 1>"}'
    for own in ("mia", "Mia", "Li", "Sunset", "78750", "7447", "4421486", "NO6JO3", "AIXC49"):
        assert own not in profile
    for shape in ('"city": "Austin"', '"brand": "visa"', '"membership": "gold"', '"user_id": "<user 1>"'):
        assert shape in profile


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Call me on 555-123-2002.", "Call me on <phone 1>."),
        ("Write to mia@example.com, please.", "Write to <e-mail 1>, please."),
        ("It goes to 12 Oak Street.", "It goes to <address 1>."),
        ("My name is Mia Li.", "My name is <name 1>."),
        ("Cancel order number W2378156.", "Cancel order number <id 1>."),
        ("{'customerId': 'C1001', 'lineIds': ['L1001']}", "{'customerId': '<customer 1>', 'lineIds': ['<line 1>']}"),
        ('{"item_ids": ["1008292230"], "amount": 1008292}', '{"item_ids": ["<item 1>"], "amount": 1008292}'),
        ('{\\"phone_number\\": \\"555-123-2002\\"}', '{\\"phone_number\\": \\"<phone 1>\\"}'),
        ("The card is 4111 1111 1111 1111.", "The card is <number 1>."),
        ('{"password": "hunter22"}', '{"password": "<secret 1>"}'),
        ('{"user_id": "mia_li_3668"} Mia Li called.', '{"user_id": "<user 1>"} <user 1> Li called.'),
    ],
)  # fmt: skip
def test_what_identifies_somebody_or_something_is_masked(text, told):
    assert masked(text) == [told]


@pytest.mark.parametrize(
    "text",
    [
        '{"origin": "DTW", "flight_number": "HAT097", "date": "2024-05-17", "price": 158, "cabin": "basic_economy"}',
        '{"status": "cancelled", "created_at": "2024-05-11 19:32:36", "id": 7, "type_id": "economy"}',
        "Your iPhone15 Pro arrives on 17-05-2024 at 10:30, and costs $1,250.",
        'search_direct_flight(origin="JFK", destination="SEA")',
        "focus on thermometer 2 in the kitchen",
        "",
    ],
)
def test_what_is_the_same_for_everybody_stays(text):
    assert masked(text) == [text]


def test_two_of_a_kind_have_two_masks():
    assert masked('{"user_id": "a_1234"}', '{"user_id": "b_1234"}', "a_1234 and b_1234") == [
        '{"user_id": "<user 1>"}',
        '{"user_id": "<user 2>"}',
        "<user 1> and <user 2>",
    ]
