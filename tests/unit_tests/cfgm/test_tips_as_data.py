"""Tip: as plain data, and back."""

from boiler_room import TIP

from langchain_tooltree import Tip


def test_a_tip_comes_back_from_plain_data():
    tip = Tip("Pull.", "Pushing failed.", "comparison", "Open the door.", ("pull",), ("a", "b"))

    assert Tip.from_dict(tip.to_dict()) == tip
    assert Tip.from_dict({**TIP.to_dict(), "tools": ["a"]}).tools == ("a",)


def test_a_tip_of_another_version_is_read_as_far_as_it_can_be():
    assert Tip.from_dict({"text": "Pull.", "votes": 3, "source": "hearsay"}) == Tip("Pull.", "", "success", "")
    assert Tip.from_dict({}).text == ""
