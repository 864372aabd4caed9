"""What is new in an observation, and how it is told in short."""

from itertools import pairwise

from tests.internals.cfgm import GAP, flat, in_short, news_in, pieces_of

ROOM = "This is the kitchen. Here you see:\n\ta blue stove\n\ta rusty kettle"


def test_an_observation_falls_apart_into_lines_sentences_and_long_ones_into_clauses():
    assert pieces_of(ROOM) == ["This is the kitchen.", "Here you see:", "a blue stove", "a rusty kettle"]
    drawers = "In the drawers there are a fork, a tin opener, a ladle and a whisk, all of them quite clean."
    assert pieces_of(drawers)[0] == "In the drawers there are a fork,"


def test_only_words_that_came_up_nowhere_before_are_new():
    first, again, other = news_in([("look", ROOM), ("look", ROOM), ("look", f"{ROOM}\n\ta tall lamp")])
    assert all(piece.news for piece in first)
    assert not any(piece.news for piece in again)
    assert [piece.text for piece in other if piece.news] == ["a tall lamp"]


def test_what_the_step_itself_said_is_not_new():
    ((moved,),) = news_in([("go to the kitchen", "Go to kitchen")])
    assert moved.news == 0


def test_what_is_wanted_is_told_first():
    (pieces,) = news_in([("look", ROOM)], frozenset({"kettle"}))
    assert in_short(pieces, 20) == "a rusty kettle"


def test_what_is_told_in_short_stays_in_order_and_fits():
    (pieces,) = news_in([("look", f"{ROOM}\n\tan enormous refrigerator\n\ta yellow cup")])
    for longest in range(90):
        told = in_short(pieces, longest)
        assert len(told) <= longest
        shown = [piece.text for piece in pieces if piece.text in told]
        assert all(told.index(one) < told.index(two) for one, two in pairwise(shown))
    assert GAP in in_short(pieces, 60)


def test_lines_can_be_told_apart_on_one_line():
    assert flat(ROOM) == "This is the kitchen. Here you see: a blue stove; a rusty kettle"


def test_an_observation_without_news_is_not_told():
    _, again = news_in([("look", ROOM), ("look", ROOM)])
    assert in_short(again, 500) == ""
