import pytest

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import Budget, Estimate, Spent


def budget(**settings):
    return Budget(SearchConfig(**settings), Estimate(rollouts=5, model_calls=10, tool_calls=4))


def test_spent_adds_up_field_by_field():
    one = Spent(model_calls=1, tool_calls=2, replayed=3, input_tokens=4, output_tokens=5, seconds=0.5)
    both = one + Spent(model_calls=10, output_tokens=1)
    assert both == Spent(model_calls=11, tool_calls=2, replayed=3, input_tokens=4, output_tokens=6, seconds=0.5)
    assert both.tokens == 10


def test_a_promise_is_taken_from_what_is_free():
    held = budget()
    held.reserve(model_calls=3, tool_calls=1)
    assert (held.free_model_calls, held.free_tool_calls) == (7, 3)


def test_settling_refunds_what_was_not_used():
    held = budget()
    held.reserve(model_calls=3, tool_calls=1)
    held.settle(Spent(model_calls=1), model_calls=3, tool_calls=1)
    assert (held.free_model_calls, held.free_tool_calls) == (9, 4)
    assert held.spent == Spent(model_calls=1)


@pytest.mark.parametrize(("tokens", "exceeded"), [(99, None), (100, "max_tokens"), (101, "max_tokens")])
def test_tokens_are_exceeded_at_the_limit(tokens, exceeded):
    held = budget(max_tokens=100)
    held.settle(Spent(input_tokens=tokens - 9, output_tokens=9))
    assert held.exceeded() == exceeded


@pytest.mark.parametrize(("elapsed", "exceeded"), [(0.9, None), (1.0, "max_seconds")])
def test_seconds_are_exceeded_at_the_limit(elapsed, exceeded):
    held = budget(max_seconds=1.0)
    held.elapsed = elapsed
    assert held.exceeded() == exceeded


def test_without_limits_nothing_is_exceeded():
    held = budget()
    held.elapsed = 1e9
    held.settle(Spent(input_tokens=10**9))
    assert held.exceeded() is None
