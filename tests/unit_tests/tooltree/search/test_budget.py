import pytest

from tests.internals.tooltree import Budget, Estimate, KernelConfig, Spent


def budget(**settings):
    return Budget(KernelConfig(**settings), Estimate(rollouts=5, model_calls=10, tool_calls=4))


def test_spent_adds_up_field_by_field():
    cached = {"input_token_details": {"cache_read": 2}}
    own = {"input_tokens": 4, "output_tokens": 5, "total_tokens": 9}
    one = Spent(model_calls=1, tool_calls=2, calls={"propose": 1}, usage={**own, **cached})
    other = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_token_details": {"cache_read": 1, "audio": 7},
    }
    both = one + Spent(model_calls=10, calls={"check": 9, "propose": 1}, usage=other)
    usage = {
        "input_tokens": 5,
        "output_tokens": 6,
        "total_tokens": 11,
        "input_token_details": {"cache_read": 3, "audio": 7},
    }
    calls = {"propose": 2, "check": 9}
    assert both == Spent(model_calls=11, tool_calls=2, calls=calls, usage=usage)
    assert both.tokens == 11


def test_a_promise_is_taken_from_what_is_free():
    held = budget()
    held.reserved_model_calls, held.reserved_tool_calls = 3, 1
    held.spent = Spent(model_calls=1)
    assert (held.free_model_calls, held.free_tool_calls) == (6, 3)


@pytest.mark.parametrize(("tokens", "exceeded"), [(99, None), (100, "max_tokens"), (101, "max_tokens")])
def test_tokens_are_exceeded_at_the_limit(tokens, exceeded):
    held = budget(max_tokens=100)
    held.spent = Spent(usage={"input_tokens": tokens - 9, "output_tokens": 9})
    assert held.exceeded() == exceeded


@pytest.mark.parametrize(("elapsed", "exceeded"), [(0.9, None), (1.0, "max_seconds")])
def test_seconds_are_exceeded_at_the_limit(elapsed, exceeded):
    held = budget(max_seconds=1.0)
    held.elapsed = elapsed
    assert held.exceeded() == exceeded


def test_without_limits_nothing_is_exceeded():
    held = budget()
    held.elapsed = 1e9
    held.spent = Spent(usage={"input_tokens": 10**9})
    assert held.exceeded() is None
