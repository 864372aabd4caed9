"""A long run in little room: what stays, what goes, and that it fits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.internals.cfgm import Move, condensed

ROOM = "This is the kitchen. You see a stove, a table, a chair, a lamp, a door to the hall and a door to the garden."
LONG = [
    Move("open(kitchen)", "It is open."),
    Move("look()", ROOM),
    Move("take(kettle)", "Taken."),
    Move("look()", f"{ROOM} There is a tap, too."),
    Move("take(hammer)", "There is no hammer.", failed=True),
    *(Move("wait()", f"It has {degrees} degrees.") for degrees in range(10, 100, 10)),
    Move("look()", ROOM),
    Move("pour(kettle, cup)", "The cup is full."),
    Move("serve(tea)", "The tea is served."),
]
MOVES = st.lists(
    st.builds(
        Move,
        call=st.text(max_size=60) | st.sampled_from(["look()", "wait()", "take(kettle)"]),
        observation=st.text(max_size=300) | st.sampled_from([ROOM, "It is open.", ""]),
        failed=st.booleans(),
    ),
    max_size=30,
)


def lines(room, moves=LONG, about=""):
    return condensed(moves, max_characters=room, about=about).split("\n")


def test_a_run_that_has_room_is_told_in_full():
    told = lines(5_000)
    assert len(told) == len(LONG)
    assert all(move.observation in line for move, line in zip(LONG, told, strict=True))


def test_a_step_repeated_with_the_same_outcome_is_told_once_however_much_room_there_is():
    moves = [Move("wait()", "Nothing happens.")] * 9 + [Move("look()", "A room.")]
    assert lines(5_000, moves) == ["wait() (x9) → Nothing happens.", "look() → A room."]


def test_a_cycle_is_told_once_as_it_went_the_last_time():
    moves = [Move(call, f"{call} {turn} {'.' * 90}") for turn in range(4) for call in ("look()", "wait()")]
    told = lines(300, [*moves, Move("leave()", "Gone.")])
    assert [line.partition(" →")[0] for line in told] == ["look() (x4)", "wait() (x4)", "leave()"]
    assert "look() 3" in told[0]


def test_every_different_call_stays_before_any_observation_does():
    told = lines(170)
    for call in ("open(kitchen)", "look()", "take(kettle)", "wait() (x9)", "pour(kettle, cup)", "serve(tea)"):
        assert any(line.startswith(call) for line in told)


def test_a_repeated_observation_is_told_by_what_is_new_in_it():
    told = condensed(LONG, max_characters=420)
    assert told.count("This is the kitchen.") <= 1
    assert "There is a tap," in told


def test_the_last_step_stays_whatever_goes():
    for room in range(40, 500):
        assert lines(room)[-1].startswith("serve(tea)")


def test_failed_steps_go_first_and_are_marked_where_they_stay():
    assert "hammer" not in condensed(LONG, max_characters=110)
    assert "take(hammer) (failed)" in condensed(LONG, max_characters=5_000)


def test_what_is_wanted_stays():
    moves = [Move(f"press({name})") for name in ("anvil", "brick", "crate", "drill", "easel", "flute")]
    told = condensed(moves, max_characters=45, about="Where is the drill?")
    assert "press(drill)" in told
    assert "press(drill)" not in condensed(moves, max_characters=45)


def test_gaps_are_marked():
    assert lines(45, [Move(f"press({name})") for name in ("anvil", "brick", "crate", "drill", "easel")]) == [
        "press(anvil)",
        "press(brick)",
        "…",
        "press(easel)",
    ]


def test_a_call_takes_no_more_than_its_part_of_the_room():
    told = lines(600, [Move(f"write({'long ' * 1_000})", "Written."), *LONG])
    assert len(told) > 6
    assert all(len(line) <= 250 for line in told)


@pytest.mark.slow
@settings(deadline=None)
@given(MOVES, st.integers(0, 700), st.text(max_size=50))
def test_it_always_fits_and_keeps_the_order(moves, room, about):
    told = condensed(moves, max_characters=room, about=about)
    assert len(told) <= room
    assert told == condensed(moves, max_characters=room, about=about)


def test_nothing_is_told_of_a_run_without_steps_or_without_room():
    assert condensed([], max_characters=100) == ""
    assert condensed(LONG, max_characters=0) == ""


def test_words_that_are_told_say_something_however_little_room_there_is():
    said = Move("[answer]", f"It is the red one. {'And so on. ' * 90}", said=True)
    for room in range(60, 900, 7):
        last = lines(room, [*LONG, said])[-1]
        assert last.startswith("[answer] → It is the red one.")


def test_text_that_is_mostly_white_space_is_told_in_full_if_it_fits():
    assert lines(30, [Move("look()", f"A{' ' * 200}room.")]) == ["look() → A room."]
