"""Attacks of one tenant on another: a handful in the inner loop, and all of them in the whole run."""

import pytest

from tests.benchmarks.trust.tenants import ATTACKS, PLACES

HANDFUL = [
    *(f"configured in {place.__name__}" for place in PLACES),
    "noted as_state in planner",
    "authenticated, context in by_hand",
    "one thread name in recorded",
    "after bob in suggesting, by context",
]


@pytest.mark.parametrize("attack", HANDFUL)
def test_what_is_another_tenants_is_neither_seen_nor_changed(attack):
    assert not ATTACKS[attack]()


@pytest.mark.slow
@pytest.mark.parametrize("attack", [name for name in ATTACKS if name not in HANDFUL])
def test_no_other_way_leads_there_either(attack):
    assert not ATTACKS[attack]()
