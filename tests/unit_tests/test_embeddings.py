import math
import subprocess
import sys

import pytest

from langchain_tooltree import ConfigurationError, HashingEmbeddings


def similarity(left, right, **settings):
    embeddings = HashingEmbeddings(**settings)
    return sum(
        a * b
        for a, b in zip(
            embeddings.embed_query(left), embeddings.embed_query(right), strict=True
        )
    )


def test_vectors_have_unit_length():
    vector = HashingEmbeddings(dims=64).embed_query("Book a flight to Rome")
    assert len(vector) == 64
    assert math.isclose(sum(value * value for value in vector), 1.0)


@pytest.mark.parametrize("text", ["", "  ", "...!"])
def test_a_text_without_words_is_the_zero_vector(text):
    assert set(HashingEmbeddings(dims=8).embed_query(text)) == {0.0}


def test_similar_wording_is_nearer_than_other_wording():
    assert (
        similarity("book a flight", "flight booking")
        > similarity("book a flight", "weather forecast") + 0.2
    )


@pytest.mark.parametrize(
    ("left", "right"), [("bookFlight", "book flight"), ("book_flight", "Book Flight!")]
)
def test_names_of_code_read_like_words(left, right):
    assert similarity(left, right) == pytest.approx(1.0)


@pytest.mark.slow
def test_vectors_are_the_same_in_another_process():
    code = "from langchain_tooltree import HashingEmbeddings as H; print(H(dims=16).embed_query('book a flight'))"
    shown = subprocess.run(  # noqa: S603 - own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == str(
        HashingEmbeddings(dims=16).embed_query("book a flight")
    )


@pytest.mark.parametrize("dims", [0, -1, 1.5, True, "8"])
def test_dimensions_are_a_whole_number_of_1_or_more(dims):
    with pytest.raises(
        ConfigurationError, match="dims must be a whole number of 1 or more, got"
    ):
        HashingEmbeddings(dims=dims)


def test_texts_without_spaces_are_compared_by_characters():
    assert similarity("测量铅的熔点", "测量锡的熔点") > 0.5
    assert (
        similarity("鍵を取る", "鍵を置く") > similarity("鍵を取る", "水を沸かす") + 0.2
    )
    assert similarity("测量铅的熔点", "把水煮沸") == 0
