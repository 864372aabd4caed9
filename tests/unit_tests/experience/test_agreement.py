"""Agreement of verdicts with what people say: Cohen's kappa, and when nothing should be learnt any more."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tooltree import Trajectory
from tests.internals.experience import Agreement, agreement

COUNTS = st.integers(0, 60)
RUN = Trajectory.from_chat([{"role": "user", "content": "Find it."}], id="one")


@st.composite
def tables(draw):
    return [draw(COUNTS) for _ in range(4)]


def kappa_of(table):
    """Cohen's formula with fractions, from the shares of each word."""
    pairs = [(True, True), (False, False), (True, False), (False, True)]
    total = sum(table)
    observed = (table[0] + table[1]) / total
    expected = 0.0
    for word in (True, False):
        said = sum(n for n, (verdict, _) in zip(table, pairs, strict=True) if verdict is word) / total
        labelled = sum(n for n, (_, label) in zip(table, pairs, strict=True) if label is word) / total
        expected += said * labelled
    return (observed - expected) / (1 - expected)


@given(tables())
def test_kappa_is_cohens_wherever_it_is_defined(table):
    found = Agreement(*table)

    words = (table[0] + table[2], table[0] + table[3])
    if not sum(table) or words in ((0, 0), (sum(table),) * 2):
        assert found.kappa is None
    else:
        assert found.kappa == pytest.approx(kappa_of(table))
        assert -1 <= found.kappa <= 1


@given(tables())
def test_kappa_does_not_depend_on_who_is_called_what(table):
    both_success, both_failure, false_success, false_failure = table

    assert Agreement(*table).kappa == Agreement(both_failure, both_success, false_failure, false_success).kappa
    assert Agreement(*table).kappa == Agreement(both_success, both_failure, false_failure, false_success).kappa


def test_a_figure_from_the_literature():
    # Both say yes 20 times, both no 15 times; one alone says yes 5 times, the other 10 times.
    assert Agreement(20, 15, 5, 10).kappa == pytest.approx(0.4)
    assert Agreement(20, 15, 5, 10).share == 0.7


def test_full_agreement_and_chance():
    assert Agreement(5, 5).kappa == 1
    assert Agreement(0, 0, 5, 5).kappa == -1
    assert Agreement(4, 4, 4, 4).kappa == 0
    assert (Agreement().kappa, Agreement().share) == (None, None)


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.booleans())))
def test_every_pair_is_counted_once(pairs):
    found = agreement(pairs)

    assert found.count + found.unclear == len(pairs)
    assert found.false_success == pairs.count((True, False))
    assert found == agreement(reversed(pairs))


def test_nothing_is_doubted_before_there_are_samples_enough():
    for said, labelled in product([True, False], repeat=2):
        assert not agreement([(said, labelled)] * 9).is_doubtful
    assert agreement([(True, False)] * 10).is_doubtful
    assert not agreement([(None, False)] * 50).is_doubtful


@pytest.mark.parametrize(
    ("table", "doubtful"),
    [
        ((5, 5, 0, 0), False),
        ((4, 4, 1, 1), False),
        ((4, 3, 2, 1), False),  # kappa .4
        ((4, 4, 6, 2), True),
        ((8, 14, 2, 8), False),  # kappa .375: strict, and right where it says success
        ((30, 2, 18, 0), True),  # nearly all that failed passes
        ((10, 0, 0, 0), False),  # one word alone: kappa says nothing
        ((9, 0, 1, 0), False),  # .9 of them right, though kappa is 0
        ((0, 6, 4, 0), True),
        ((0, 7, 3, 0), False),
    ],
)
def test_verdicts_are_doubted_by_kappa_or_by_the_share_where_people_use_one_word(table, doubtful):
    assert Agreement(*table).is_doubtful is doubtful


def test_a_run_is_a_sample_if_a_person_has_judged_it_after_a_verdict():
    judged = RUN.judged(True, "Done.", source="verdict")
    labelled = judged.judged(False, "It is not.", source="user")

    assert agreement([RUN, judged, RUN.judged(True), RUN.judged(True, source="user")]) == Agreement()
    assert agreement([judged.judged(True, source="agent")]) == Agreement()
    assert agreement([labelled]) == Agreement(false_success=1)
    assert agreement([judged.judged(True, source="user")]) == Agreement(both_success=1)
    assert agreement([RUN.judged(None, source="verdict").judged(True, source="user")]) == Agreement(unclear=1)


def test_what_a_person_says_takes_the_place_of_the_verdict_which_is_kept():
    judged = RUN.judged(True, "Done.", source="verdict")
    labelled = judged.judged(False, "It is not.", source="user")

    assert (judged.source, judged.overruled) == ("verdict", None)
    assert (labelled.success, labelled.reasons, labelled.source) == (False, "It is not.", "user")
    assert labelled.overruled == {"success": True, "reasons": "Done."}
    again = labelled.judged(True, "After all.", source="user")
    assert (again.success, again.overruled) == (True, labelled.overruled)
    assert labelled.judged(True, "Looked again.", source="verdict").overruled is None
    assert RUN.source is None
