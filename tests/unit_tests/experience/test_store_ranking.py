"""Ranking texts where a store has no index: the most similar first, with bounded memory."""

import pytest
from langchain_core.embeddings import FakeEmbeddings

from langchain_tooltree import ConfigurationError
from tests.internals.experience import RunRanking
from tests.internals.experience import store_module as module

TEXTS = ["Book a flight", "Weather in Oslo", "Book a hotel", "Weather in Oslo"]


async def test_texts_are_scored_by_similarity(drive):
    scores = await drive(RunRanking().scores("Book a flight", TEXTS))

    assert scores[0] == pytest.approx(1.0, abs=1e-2)
    assert scores[0] > scores[2] > scores[1] == scores[3]


async def test_no_texts_have_no_scores(drive):
    assert await drive(RunRanking().scores("Book a flight", [])) == []


async def test_a_text_without_words_is_like_nothing(drive):
    assert await drive(RunRanking().scores("", TEXTS)) == [0.0] * len(TEXTS)


async def test_memory_is_bounded_and_scores_are_the_same(drive, monkeypatch):
    unbounded = await drive(RunRanking().scores("Book a flight", TEXTS))
    monkeypatch.setattr(module, "MOST_VECTORS", 2)
    ranking = RunRanking()

    for _ in range(3):
        assert await drive(ranking.scores("Book a flight to Rome", TEXTS[:1])) != []
        assert await drive(ranking.scores("Book a flight", TEXTS)) == unbounded
        assert len(ranking._vectors) == 2
        assert set(ranking._vectors) < set(TEXTS)


async def test_any_embedder_will_do(drive):
    assert len(await drive(RunRanking(FakeEmbeddings(size=3)).scores("a", TEXTS))) == len(TEXTS)
    with pytest.raises(ConfigurationError, match="embeddings must be"):
        RunRanking(3)
