"""When an answer is doubted, and what is done then, over all that may be known."""

from dataclasses import replace
from itertools import product

import pytest

from langchain_tooltree.tooltree.report import Stop, admits, is_better, next_move

FLAGS = (False, True)
BUDGETS = (2, 4, 8)
STOPS = [
    Stop(
        missing=missing,
        has_read=has_read,
        idle=idle,
        trouble=trouble,
        used=used,
        budget=budget,
        stops=stops,
        again=again,
        asked=asked,
    )
    for missing, has_read, idle, trouble in product(FLAGS, repeat=4)
    for budget in (0, 1, *BUDGETS)
    for used, stops, again, asked in product(
        range(budget + 2), (1, 2), range(5), (0, 1)
    )
]


def is_affordable(stop: Stop) -> bool:
    return stop.used < stop.budget


def test_an_answer_that_nothing_speaks_against_is_accepted_at_no_extra_call() -> None:
    for stop in STOPS:
        if not (stop.missing or stop.idle or stop.trouble):
            assert next_move(stop) == "accept"


def test_a_doubtful_answer_is_accepted_only_where_nothing_is_left_to_do() -> None:
    for stop in STOPS:
        if (
            next_move(stop) == "accept"
            and (stop.missing or stop.is_evident)
            and is_affordable(stop)
        ):
            assert not stop.has_read
            assert stop.again > 0
            assert stop.asked > 0 or not stop.missing or stop.budget - stop.used == 1


def test_no_costs_more_than_the_budget() -> None:
    price = {"accept": 0, "read": 1, "again": 1, "others": 2}
    for stop in STOPS:
        move = next_move(stop)
        assert move == "accept" or stop.used + price[move] <= stop.budget


def test_a_read_that_is_named_comes_before_any_question() -> None:
    for stop in STOPS:
        if stop.has_read and next_move(stop) != "accept":
            assert next_move(stop) == "read"


def test_more_effort_never_does_less() -> None:
    for stop in STOPS:
        if next_move(stop) != "accept":
            assert [
                more
                for more in BUDGETS
                if more > stop.budget
                and next_move(replace(stop, budget=more)) == "accept"
            ] == []


def test_a_turn_that_speaks_for_itself_is_doubted_once() -> None:
    idle = Stop(
        missing=False,
        has_read=False,
        idle=True,
        trouble=False,
        used=0,
        budget=4,
        stops=1,
        again=0,
        asked=0,
    )
    assert next_move(idle) == "again"
    assert next_move(replace(idle, stops=2, again=1, used=1)) == "accept"
    assert next_move(replace(idle, idle=False, trouble=True)) == "again"


@pytest.mark.parametrize("budget", [2, 4, 8])
def test_every_turn_ends_within_its_budget_however_often_the_answer_leaves_something_open(
    budget: int,
) -> None:
    stop = Stop(
        missing=True,
        has_read=False,
        idle=False,
        trouble=True,
        used=0,
        budget=budget,
        stops=1,
        again=0,
        asked=0,
    )
    moves = []
    while (move := next_move(stop)) != "accept":
        moves.append(move)
        used = stop.used + (2 if move == "others" else 1)
        stop = replace(
            stop,
            used=used,
            stops=stop.stops + 1,
            again=stop.again + (move == "again"),
            asked=stop.asked + (move == "others"),
        )
        assert used <= budget
    assert moves.count("again") == budget // 2


def test_the_first_write_after_an_answer_needs_two_voices() -> None:
    for writes, named, evident, resumed in product(FLAGS, repeat=4):
        voices = {"named": named, "evident": evident, "resumed": resumed}
        assert admits(writes=writes, stops=0, **voices)  # the agent by itself
        assert admits(writes=writes, stops=1, **voices) == (
            not writes or named or evident or resumed
        )


def test_the_best_answer_gives_way_only_to_one_that_is_better_supported() -> None:
    for best_missing, extends in product(FLAGS, repeat=2):
        assert is_better(missing=False, best_missing=best_missing, extends=extends)
        assert is_better(missing=True, best_missing=best_missing, extends=extends) == (
            best_missing and extends
        )


def test_the_held_answer_gives_way_only_to_one_that_is_better_supported() -> None:
    for best_missing, extends in product(FLAGS, repeat=2):
        assert is_better(missing=False, best_missing=best_missing, extends=extends)
        assert is_better(missing=True, best_missing=best_missing, extends=extends) == (
            best_missing and extends
        )
