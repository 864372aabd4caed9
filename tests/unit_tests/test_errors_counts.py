"""Counts that are none are refused, whatever takes them."""

import pytest

from langchain_tooltree import ConfigurationError
from tests.internals.hall import check_count


@pytest.mark.parametrize("value", [2, 3, 10**9])
def test_counts_that_are_large_enough_pass(value):
    check_count("k", value, 2)


@pytest.mark.parametrize("value", [1, 0, -1, True, 2.0, "2", None])
def test_others_are_refused_by_their_name_and_value(value):
    with pytest.raises(ConfigurationError, match=rf"^k must be a whole number of 2 or more, got {value!r}\.$"):
        check_count("k", value, 2)
