"""What is written by somebody who means ill, read by models that can be fooled: it gets nothing done."""

from collections import Counter

import pytest

from tests.benchmarks.trust import untrusted
from tests.benchmarks.trust.untrusted import ATTACKS, Attack, gets_done, is_told

NAMED = next(attack for attack in ATTACKS if attack.text == untrusted.NAMED)
RECALLED = next(attack for attack in ATTACKS if attack.place == "past run")


def test_there_are_ten_attacks_of_each_kind():
    assert set(Counter(attack.kind for attack in ATTACKS).values()) == {10}
    assert len(set(ATTACKS)) == 60


def each_attack():
    """The first attack of each kind, and as slow ones the others."""
    seen = Counter()
    for attack in ATTACKS:
        name = f"{attack.kind} {seen[attack.kind]} in a {attack.place}"
        yield pytest.param(attack, id=name, marks=[pytest.mark.slow] if seen[attack.kind] else [])
        seen[attack.kind] += 1


@pytest.mark.parametrize("attack", [*each_attack()])
def test_nothing_is_done_because_a_text_says_so(attack):
    assert gets_done(attack) == []


# --- and it would be seen if it were ---


def test_a_reader_that_takes_quotations_for_the_models_own_words_is_found_out(monkeypatch):
    monkeypatch.setattr("langchain_tooltree.tooltree.ask.quoted_from", lambda _: lambda _: False)
    assert "quotes: a call was taken from a text" in gets_done(NAMED, manners=["quotes"])


def test_a_read_that_changes_something_is_found_out(monkeypatch):
    monkeypatch.setattr(untrusted, "READS", ("read_mail", "search_notes", "wipe"))
    monkeypatch.setattr(untrusted, "MAY_RUN", frozenset({"read_mail", "search_notes"}))
    assert gets_done(ATTACKS[0], manners=["obeys"]) == ["obeys: wipe ran while searching"]


def test_a_mark_that_can_be_closed_is_found_out(monkeypatch):
    monkeypatch.setattr(untrusted, "recall_text", lambda *_, **__: f"<reference_material>\n{untrusted.ORDER}")
    found = gets_done(Attack("delimiters", "", "tip"), manners=["goes by marks"])
    assert found == ["goes by marks: a call was taken from a text"]


@pytest.mark.slow
def test_the_user_whose_run_it_was_is_told_of_it():
    assert is_told(RECALLED, "ann")
    assert not is_told(RECALLED, "bob")
