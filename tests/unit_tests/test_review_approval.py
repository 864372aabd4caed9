"""No attack that LangChain's approval withstands makes a write run which nobody allowed."""

from functools import cache

import pytest

from tests.benchmarks.trust.approvals import ATTACKS, OURS, attacked

pytestmark = pytest.mark.slow

attacked = cache(attacked)


@pytest.mark.parametrize("kind", OURS)
def test_no_write_runs_that_nobody_allowed(kind, subtests):
    for words in ATTACKS:
        with subtests.test(words):
            assert not attacked(kind, words).unapproved


@pytest.mark.parametrize("kind", OURS)
def test_what_was_allowed_runs(kind):
    ran = sum(
        (attacked(kind, words).ran for words in ATTACKS),
        start=type(attacked(kind, "nobody answers").ran)(),
    )
    assert ran == {"send Ann": 1, "pay 9": 2}
