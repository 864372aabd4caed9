"""What is written by somebody who means ill, read by models that can be fooled: it gets nothing done."""

from collections import Counter

import pytest

from tests.benchmarks.trust.untrusted import ATTACKS, gets_done, is_told

RECALLED = next(attack for attack in ATTACKS if attack.place == "past run")


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


@pytest.mark.slow
def test_the_user_whose_run_it_was_is_told_of_it():
    assert is_told(RECALLED, "ann")
    assert not is_told(RECALLED, "bob")
