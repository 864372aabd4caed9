import pytest

from langchain_tooltree.errors import ResumeError
from langchain_tooltree.tooltree.search import Node, OperationOutcome, Rollout, Scheduler, Spent


@pytest.fixture
def make():
    def queue(*, model_calls=10, proposer_calls=2, judge_calls=2, single=False):
        held = min(judge_calls, 1)
        calls = {"propose": proposer_calls, "score": judge_calls, "execute": held, "evaluate": judge_calls}
        return Scheduler(model_calls, calls, single=single)

    return queue


def rollout(number=0):
    return Rollout(number, Node(number))


def tell(queue, operation, **used):
    return queue.consume(OperationOutcome(operation.id, **used))


def test_a_proposal_reserves_the_most_it_may_use_and_is_refunded(make):
    queue = make()
    queue.put("propose", rollout())
    operation = queue.launch()
    assert (operation.model_calls, queue.free_model_calls) == (2, 8)
    tell(queue, operation, model_calls=1)
    assert queue.free_model_calls == 9


def test_what_operations_used_adds_up(make):
    queue = make()
    queue.put("propose", rollout(0))
    queue.put("execute", rollout(1), run=True)
    for used in ({"model_calls": 2, "tokens": 30}, {"tokens": 4}):
        tell(queue, queue.launch(), **used)
    assert queue.spent == Spent(model_calls=2, tool_calls=1, tokens=34)


def test_what_is_kept_back_is_not_granted():
    queue = Scheduler(2, {"propose": 2}, reserved=1)
    queue.put("propose", rollout(0))
    assert queue.launch().model_calls == 1


@pytest.mark.parametrize(("single", "wanted"), [(False, 2), (True, 6)])
def test_scoring_candidates_one_by_one_reserves_a_question_for_each(make, single, wanted):
    queue = make(single=single)
    queue.put("score", rollout(), candidates=(1, 2, 3))
    assert queue.launch().model_calls == wanted


def test_a_launch_waits_for_refunds_while_some_can_come(make):
    queue = make(model_calls=2)
    queue.put("propose", rollout(0))
    queue.put("propose", rollout(1))
    first = queue.launch()
    assert queue.launch() is None
    tell(queue, first, model_calls=1)
    assert queue.launch().model_calls == 1
    assert queue.free_model_calls == 0


def test_a_budget_is_spent_when_no_refund_can_come(make):
    queue = make(model_calls=2)
    queue.put("propose", rollout(0))
    tell(queue, queue.launch(), model_calls=2)
    queue.put("propose", rollout(1))
    assert queue.launch() is None
    assert not queue.outstanding


def test_running_a_call_holds_a_model_call_to_judge_it(make):
    queue = make(model_calls=3)
    work = rollout()
    queue.put("execute", work)
    execution = queue.launch()
    assert (execution.model_calls, work.held_model_calls, queue.free_model_calls) == (0, 1, 2)
    tell(queue, execution)
    assert (work.held_model_calls, queue.free_model_calls) == (1, 2)
    queue.put("evaluate", work)
    evaluation = queue.launch()
    assert (evaluation.model_calls, work.held_model_calls, queue.free_model_calls) == (2, 0, 1)
    tell(queue, evaluation, model_calls=1)
    assert (queue.free_model_calls, queue.reserved) == (2, 0)


def test_a_call_is_not_run_if_it_could_not_be_judged(make):
    queue = make(model_calls=1)
    queue.put("propose", rollout(0))
    tell(queue, queue.launch(), model_calls=1)
    queue.put("execute", rollout(1))
    assert queue.launch() is None


def test_a_function_as_judge_needs_no_model_calls(make):
    queue = make(model_calls=1, judge_calls=0)
    queue.put("propose", rollout(0))
    tell(queue, queue.launch(), model_calls=1)
    for kind in ("score", "execute", "evaluate"):
        queue.put(kind, rollout(1), candidates=(1,))
        assert queue.launch().model_calls == 0


def test_a_rollout_that_ends_gives_back_what_it_held(make):
    queue = make(model_calls=3)
    work = rollout()
    queue.put("execute", work)
    tell(queue, queue.launch())
    queue.release(work)
    assert (queue.free_model_calls, work.held_model_calls) == (3, 0)


def test_outcomes_are_consumed_in_the_order_of_launch_only(make):
    queue = make()
    queue.put("propose", rollout(0))
    queue.put("propose", rollout(1))
    first, second = queue.launch(), queue.launch()
    with pytest.raises(ResumeError, match="Tell outcomes in the order"):
        tell(queue, second)
    assert tell(queue, first)[0] is first
    assert tell(queue, second)[0] is second
    assert not queue.outstanding
