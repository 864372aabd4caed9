"""Attacks of one tenant on another."""

import pytest

from tests.benchmarks.trust.tenants import ATTACKS


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_another_tenants_is_neither_seen_nor_changed(attack):
    assert not ATTACKS[attack]()
