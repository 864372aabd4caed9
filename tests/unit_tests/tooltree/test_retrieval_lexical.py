import math
import subprocess
import sys

import numpy as np
import pytest

from tests.internals.tooltree import LexicalIndex, terms


@pytest.mark.parametrize(
    "forms",
    [
        "copy copies copied copying Copy",
        "plan plans planned planning",
        "file files filed filing",
        "class classes",
        "box boxes",
    ],
)
def test_forms_of_an_english_word_are_one_term(forms):
    assert len(set(terms(forms))) == 1


def test_different_words_stay_apart():
    words = "flight hotel status bus need red 200 2000 1100 110"
    assert len(set(terms(words))) == len(words.split())


def test_names_in_camel_and_snake_case_are_taken_apart():
    assert terms("bookFlight") == terms("book_flight") == terms("Book, flight!")


def test_scripts_without_spaces_are_taken_by_character():
    assert terms("天気の予報") == list("天気の予報")


def test_scores_are_those_of_bm25():
    index = LexicalIndex(["book flight", "book hotel hotel room", "weather"])
    mean_length = 7 / 3

    def weight(times, length, having):
        rarity = math.log(1 + (3 - having + 0.5) / (having + 0.5))
        return rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / mean_length))

    expected = [weight(1, 2, 2), weight(1, 4, 2) + weight(2, 4, 1), 0]
    assert index.scores("Booking hotels") == pytest.approx(expected)


def test_a_rare_word_counts_more_than_a_common_one():
    index = LexicalIndex([*(f"create thing{number}" for number in range(9)), "remove ticket"])
    scores = index.scores("create ticket")
    assert scores.argmax() == 9
    assert set(scores[:9]) == {scores[0]}
    assert scores[0] > 0


def test_a_word_that_the_query_repeats_counts_once():
    index = LexicalIndex(["book flight", "weather"])
    assert np.array_equal(index.scores("book book book"), index.scores("book"))


@pytest.mark.parametrize("texts", [["", "..."], ["book", ""]])
def test_without_common_words_nothing_scores(texts):
    assert list(LexicalIndex(texts).scores("weather")) == [0, 0]
    assert list(LexicalIndex(texts).scores("")) == [0, 0]


@pytest.mark.slow
def test_scores_do_not_depend_on_how_python_hashes_strings():
    code = """
from langchain_tooltree.tooltree.retrieval import LexicalIndex
words = [f"word{number}x" for number in range(200)]
index = LexicalIndex([" ".join(words[start::3]) for start in range(50)])
print(index.scores(" ".join(words)).tobytes().hex())
"""
    shown = {
        subprocess.run(  # noqa: S603 - own code
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1
