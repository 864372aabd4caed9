"""What pages promise of approval, quarantine, forgetting, copying and learning holds for whoever follows them."""

import pytest

from langchain_tooltree import Experience, Trajectory
from tests.unit_tests.documentation import pages


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of somebody who follows a page."""
    monkeypatch.chdir(tmp_path)


def follow(words, **names):
    """What there is once somebody has followed the blocks up to the one with these words."""
    with pages.offline():
        return pages.followed(pages.chain_with(words), **(pages.given() | names))


@pytest.mark.usefixtures("folder")
def test_what_is_approved_runs_and_nothing_before(capsys):
    stopped = follow('print(question.value["action_requests"]')
    assert [
        each.name for each in stopped["state"]["messages"] if each.type == "tool"
    ] == ["find_lamp"]
    shown = capsys.readouterr().out
    assert shown.startswith("order(article='L-1', quantity=2) waits for approval.")
    assert shown.strip() in "\n".join(pages.PAGES.values()), (
        "a page shows what a person reads"
    )

    done = follow("Command(resume=answer)")
    assert [each.name for each in done["state"]["messages"] if each.type == "tool"] == [
        "find_lamp",
        "order",
    ]


@pytest.mark.usefixtures("folder")
def test_what_is_taken_back_waits_again(capsys):
    names = pages.given()
    run = Trajectory.from_messages(pages.PAST_RUN).coming_from("ada")
    Experience(
        names["store"], verdict=lambda _: True, namespace=("tooltree",), quarantine=True
    ).learn(run)
    made = follow("store.trajectories(success=None)", **names)
    assert capsys.readouterr().out == f"{[run.id]}\n"
    assert made["experience"].status().quarantined == 1


@pytest.mark.usefixtures("folder")
def test_what_is_forgotten_is_gone(capsys):
    names = pages.given()
    ada = Experience(names["store"]).within(user_id="ada")
    ada.learn(Trajectory.from_messages(pages.PAST_RUN, success=True))
    made = follow("erased = experience.forget(", **names)
    assert len(made["erased"].runs) == 1
    assert "delete_thread" in capsys.readouterr().out
    assert ada.status().runs == 0


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_what_one_user_did_helps_that_user_until_it_is_taken_back():
    names = follow('Experience("experience/"')
    experience, ada = names["experience"], names["experience"].within(user_id="ada")
    [first] = ada.store.trajectories()
    assert (first.task, first.success) == (pages.REQUEST, True)
    assert ada.graph.suggest(None)[0].tool == "search_flights"

    with pages.offline():
        for user in ("ada", "bob"):
            names["agent"].invoke(
                {"messages": [("user", first.task)]},
                {"configurable": {"user_id": user}},
            )
        status = ada.settle()
        assert (status.runs, status.successes, status.in_graph) == (2, 2, 2)
        [second] = [run for run in ada.store.trajectories() if run.id != first.id]
        [bobs] = experience.within(user_id="bob").store.trajectories()
        assert second.metadata["recalled"] == bobs.metadata["recalled"], (
            "nothing was in doubt, so nothing was told"
        )
        assert [run.id for run in ada.memory.recall(first.task, k=1).runs] != []
        assert bobs.id in {
            run.id
            for run in experience.within(user_id="bob").memory.recall(first.task).runs
        }
        ada.label(first.id, False, "It was the wrong day.")
        assert ada.status().successes == 1
        ada.forget(run=second.id)
        assert (ada.status().runs, len(ada.graph)) == (1, 0)
        experience.within(user_id="bob").settle()
    pages.put_away(names)
