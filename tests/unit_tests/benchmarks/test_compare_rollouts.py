"""The worlds in which rollouts by the paper's settings are counted."""

from tests.benchmarks.compare.rollouts import FORMS, World, measure


def test_a_world_is_the_same_each_time_and_solved_by_just_the_right_calls():
    first, again = (World(3, FORMS["ACL"]) for _ in range(2))
    assert first.search.rollouts == again.search.rollouts
    solved = next(
        world
        for world in (World(seed, FORMS["ACL"]) for seed in range(20))
        if world.is_solved
    )
    path = solved.search.tree.path(solved.search.best())
    assert [step.call.arguments for step in path] == [
        {"place": place} for place in range(len(path))
    ]


def test_searches_by_the_papers_settings_do_not_end_with_the_first_few_rollouts():
    figures = measure(30)
    assert {name for name, row in figures.items() if 20 <= row["rollouts"] <= 60} == {
        "ICLR",
        "ACL",
    }
