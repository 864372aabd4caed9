"""When a proposal of one call is asked for extra candidates, and when no more."""

import pytest

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import ExtraCandidates, OperationOutcome


def told(*, several=False, gained=None):
    return OperationOutcome(operation=0, kind="propose", node=0, several=several, gained=gained)


@pytest.fixture
def after():
    """Questions that extra candidates may take after the given outcomes."""

    def wanted(*outcomes, **settings):
        extra_candidates = ExtraCandidates(SearchConfig(**settings))
        for outcome in outcomes:
            extra_candidates.watch(outcome)
        return extra_candidates.wanted

    return wanted


FRUITFUL, FRUITLESS, UNASKED, SEVERAL = told(gained=2), told(gained=0), told(), told(several=True)


def test_the_first_proposal_is_extended_to_as_many_calls_as_are_kept(after):
    assert after() == 4
    assert after(top_k=2) == 1
    assert after(top_k=1) == 0


def test_a_model_that_once_made_several_calls_is_never_asked_again(after):
    assert after(SEVERAL) == 0
    assert after(FRUITFUL, told(several=True, gained=3), FRUITFUL) == 0


def test_two_fruitless_questions_in_a_row_are_enough(after):
    assert after(FRUITLESS) == 4
    assert after(FRUITLESS, FRUITLESS) == 0
    assert after(FRUITLESS, FRUITFUL, FRUITLESS) == 4
    assert after(FRUITLESS, UNASKED, FRUITLESS) == 0


def test_the_papers_drafts_have_no_extra_candidates(after):
    assert after(proposals="per_tool") == 0
    assert ExtraCandidates(SearchConfig.paper()).wanted == 0
