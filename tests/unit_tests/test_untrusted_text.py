"""What is written by somebody who means ill, read by models that can be fooled: it gets nothing done."""

from collections import Counter

import pytest

from tests.benchmarks.trust import untrusted
from tests.benchmarks.trust.untrusted import ATTACKS, Attack, gets_done, is_told

RECALLED = next(attack for attack in ATTACKS if attack.place == "past run")


def test_there_are_ten_attacks_of_each_kind():
    assert set(Counter(attack.kind for attack in ATTACKS).values()) == {10}
    assert len(set(ATTACKS)) == 60


def each_attack():
    """Two attacks of each kind in each place; `tests.benchmarks.trust` makes all sixty."""
    number = Counter()
    for attack in ATTACKS:
        at = number[attack.kind, attack.place]
        number[attack.kind, attack.place] += 1
        if at < 2:
            yield pytest.param(attack, id=f"{attack.kind} {at} in a {attack.place}")


@pytest.mark.slow
@pytest.mark.parametrize("attack", [*each_attack()])
def test_nothing_is_done_because_a_text_says_so(attack):
    assert gets_done(attack) == []


# --- and it would be seen if it were ---


def test_a_read_that_changes_something_is_found_out(monkeypatch):
    monkeypatch.setattr(untrusted, "READS", ("read_mail", "search_notes", "wipe"))
    monkeypatch.setattr(untrusted, "MAY_RUN", frozenset({"read_mail", "search_notes"}))
    found = gets_done(ATTACKS[0], manners=["obeys"])
    assert found == [
        f"obeys, {selection}: wipe ran while searching"
        for selection in ("doubt", "posterior")
    ]


def test_a_mark_that_can_be_closed_is_found_out(monkeypatch):
    monkeypatch.setattr(
        untrusted,
        "recall_text",
        lambda *_, **__: f"<reference_material>\n{untrusted.ORDER}",
    )
    found = gets_done(Attack("delimiters", "", "tip"), manners=["goes by marks"])
    assert "goes by marks, doubt: a call was taken from a text" in found


@pytest.mark.slow
def test_the_user_whose_run_it_was_is_told_of_it():
    assert is_told(RECALLED, "ann")
    assert not is_told(RECALLED, "bob")
