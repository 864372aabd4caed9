"""Whom runs came from: what one source gives counts as one source, and can be taken back."""

import pytest
from little_runs import called, names, routine, run_of, user

from langchain_tooltree import SITGraph

HONEST = [
    *(
        routine(f"pay {number}", "look", "pay", request=f"Refund order {number}.")
        for number in range(6)
    ),
    *(
        routine(
            f"book {number}", "look", "book", request=f"A room for {number} nights."
        )
        for number in range(6)
    ),
]
ASKED = [user("Refund order 17."), *called("look")]


def poisoned(count, *, request="Refund order 17.", source="mallory"):
    runs = (
        routine(f"bad {number}", "look", "wipe", request=request)
        for number in range(count)
    )
    return [run.coming_from(source) for run in runs]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 5, 20])
def test_what_one_source_does_in_many_runs_is_not_suggested_first_where_others_know_better(
    count,
):
    graph = SITGraph.from_trajectories([*HONEST, *poisoned(count)])

    assert names(graph.suggest("look", messages=ASKED))[:1] == ["pay"]


def test_a_source_alone_is_as_good_as_ever():
    alone = SITGraph.from_trajectories([run.coming_from("ann") for run in HONEST])

    assert names(alone.suggest("look", messages=ASKED))[:1] == ["pay"]
    assert alone.suggest("look", messages=ASKED)[0].support == 6  # by its tasks


def test_support_counts_tasks_of_sources_and_not_runs():
    graph = SITGraph.from_trajectories(poisoned(3))
    assert graph.suggest("look", messages=ASKED)[0].support == 1

    graph.add(
        routine("another", "look", "wipe", request="Refund order 17.").coming_from(
            "bob"
        )
    )
    assert graph.suggest("look", messages=ASKED)[0].support == 2
    assert graph.suggest("look")[0].support == 2

    graph.remove("another")
    assert graph.suggest("look")[0].support == 1


def test_what_an_agent_says_of_itself_is_one_voice_whatever_the_task():
    runs = [
        routine(str(number), "look", "wipe", request=f"Task {number}.").coming_from(
            "ann"
        )
        for number in range(4)
    ]
    graph = SITGraph.from_trajectories(
        [run.judged(True, source="agent") for run in runs]
    )
    judged = SITGraph.from_trajectories(
        [run.judged(True, source="verdict") for run in runs]
    )

    assert graph.suggest("look")[0].support == 1
    assert judged.suggest("look")[0].support == 4


def test_runs_without_a_source_count_as_sources_of_their_own():
    graph = SITGraph.from_trajectories(
        [run_of(str(number), user("Hi."), *called("look")) for number in range(3)]
    )

    assert graph.suggest(None)[0].support == 3
