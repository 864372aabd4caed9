"""Which of several similar tasks to recall."""

from tests.internals.cfgm import complementary

STATES = [
    "Freeze water. First focus on the substance.",
    "Freeze ice cream. First focus on the substance.",
    "Heat water. First focus on the substance.",
    "Melt ice cream. First focus on the substance.",
    "Melt caesium. First focus on the substance.",
]


def test_the_first_one_is_the_most_similar_and_the_second_has_what_it_lacks():
    assert complementary("Melt water. First focus on the substance.", STATES, 2) == [0, 3]


def test_the_order_of_similarity_decides_where_words_do_not():
    assert complementary("¿Qué hora es?", STATES, 3) == [0, 1, 2]


def test_the_same_task_comes_twice_only_where_there_are_no_others():
    twice = [STATES[0], STATES[0], STATES[2]]
    assert complementary("Melt water.", twice, 2) == [0, 2]
    assert complementary("Melt water.", twice, 3) == [0, 2, 1]


def test_there_may_be_fewer_than_wanted():
    assert complementary("Melt water.", STATES[:1], 2) == [0]
    assert complementary("Melt water.", [], 2) == []
