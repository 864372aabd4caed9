"""Cutting, digests, and JSON."""

import pytest

from langchain_tooltree.text import (
    cut,
    digest,
    json_object,
    kinship,
    one_line,
    remove_small_talk,
    shortened,
)


@pytest.mark.parametrize(
    ("text", "longest", "kept"),
    [("abcd", 4, "abcd"), ("abcde", 4, "abc…"), ("abc", 0, "…")],
)
def test_a_long_text_ends_in_a_mark(text, longest, kept):
    assert cut(text, longest) == kept


def test_on_one_line_spaces_are_made_one():
    assert one_line(" a\n\t b  c", 5) == "a b c"
    assert one_line(" a\n\t b  cd", 5) == "a b …"


@pytest.mark.parametrize("longest", [0, 1, 2, 3, 10, 99])
def test_a_shortened_text_keeps_its_ends_and_says_what_is_missing(longest):
    text = "0123456789" * 10
    head, mark, tail = shortened(text, longest).partition(
        f" [... {100 - longest} characters left out ...] "
    )
    assert mark
    assert text.startswith(head)
    assert text.endswith(tail)
    assert (len(head), len(tail)) == (longest - longest // 3, longest // 3)


def test_a_digest_is_the_same_on_every_machine():
    assert digest("a") == "ca978112ca1bbdcafac231b39a23dc4d"
    assert digest("a", 64).startswith(digest("a"))
    assert len(digest("a", 64)) == 64
    assert digest({"b": 1, "a": [None, "é"]}) == digest('{"a": [null, "é"], "b": 1}')
    assert digest("\ud800") != digest("?")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        (' ```json\n{"a": 1}\n``` ', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('It says {"a": 1}', None),
        ('{"a": 1} {"b": 2}', None),
        ('[{"a": 1}]', None),
        ('{"a": [1', None),
        ("[" * 99_999, None),
        ("", None),
    ],
)
def test_a_reply_is_read_where_it_is_one_object(text, found):
    assert json_object(text) == found


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ("Hi there! I need some help.", ""),
        ("Sure, my user ID is mia_li_3668, and I'm Mia Li.", ""),
        (
            "I don't remember the reservation ID. Cancel my flight, please.",
            "Cancel my flight, please.",
        ),
        ("Yes, please proceed. Thank you so much!", ""),
        ("Yes, use the gift card.", "Yes, use the gift card."),
        ("Ich möchte stornieren.\nDanke!", "Ich möchte stornieren. Danke!"),
    ],
)
def test_the_substance_of_a_turn_is_neither_courtesy_nor_who_somebody_is(turn, said):
    assert remove_small_talk(turn) == said


def test_kinship_is_of_telling_words_in_any_form():
    assert (
        kinship(
            "I'd like to cancel a booking, please.",
            "Could you help me? Cancellation of bookings!",
        )
        == 1
    )
    assert (
        kinship("I would like to know the weather.", "I would like to paint the fence.")
        == 0
    )
    assert kinship("Buy a red mug.", "Buy a blue kettle.") == pytest.approx(1 / 3)


def test_texts_without_telling_words_are_compared_as_they_are():
    assert kinship("Do it again.", "Do it again.") == 1
    assert kinship("17 + 4", "17 + 4") == 1
    assert kinship("!", "?") == 0
    assert kinship("", "Do it again.") == 0
