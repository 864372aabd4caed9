"""The phrases by which environments refuse an action, and what is not to be taken for one."""

import re
from time import perf_counter

import pytest
from runs_to_read import calls, seen

from langchain_tooltree import AnomalyDetector, ConfigurationError
from langchain_tooltree.anomaly.rules import HEAD, Phrase, Signals, phrase_book

REFUSALS = """\
You can't move something into itself.
It's not clear how to get there from here.
Its not clear how to go through that.
The door is not open.
No known action matches that input.
Ambiguous request: Please enter the number for the action you intended (or blank to cancel):
The stove appears broken, and can't be activated or deactivated.
I don\u2019t understand that.
You can't see any such thing.
Nothing happens.
You have to unlock the gate first.
That's not a verb I know.
There is no lamp here.
bash: foo: command not found
ls: cannot access 'x': No such file or directory
fatal: not a git repository
no such table: users
ERROR 1064 (42000): You have an error in your SQL syntax
404 Not Found
Service climate/warm not found.
No path to the goal!
Element [12] is not clickable at this point
The gripper is not holding anything.
End time must be after start time.
Invalid action! Choose one of the listed ones.
Unknown unit: furlongz
Not enough mana.
This robot has too many items already.
Request timed out after 30 seconds
Which do you mean, the red key or the blue key?
Sorry, we couldn't find that product.
Unrecognized status 'shippped'. Allowed values: pending, shipped, delivered
Object ID Pen|1|2|3 appears to be invalid.
Forest becomes impassable to the north.
Javascript execution was prevented by the page's content security policy.
Meeting room B cannot be booked before noon.
The wizard refuses to talk to you.
Only the player can carry out that sort of command.
Villager does not want to trade with you.
You pull in vain.
Participant email not provided.
Email not sent: recipient list is empty.
That's hardly portable.
You aren't wearing that.
Element is not an <input>, <textarea> or [contenteditable] element
No diamond_ore nearby to collect.
No option 'Blu' in the drop-down.
There seems to be no such thing here.
Nothing in hand to place.
Supervisor approval required for discounts over 30%.
The new item id should be different from the old item id
Requested 5 but only 2 are in stock.
End date precedes start date.
Attachment too large (26 MB, limit 25 MB).
The promo code has reached its usage limit.
Order is past its cancellation window.
The brass bell resists your attempt to break it.
A strange little man blocks your way.
Robot is currently holding Apple
Your hand has something in it already!
Order #W123 was placed by a different user.
The plate is under the pan, remove the pan first.
How can I do that to a zorkmid?
You should say whether you want to go up or down.
Please fill out this form.
net::ERR_NAME_NOT_RESOLVED at http://exmple.com
channel_not_found
usage: tool [-h] name
You are already in the kitchen.
Item is already in the cart.
Try searching by phone number."""

NORMAL = """\
The door is already open.
The cupboard is closed.
a door to the hallway (that is closed)
You have no new messages
0 errors, 12 tests passed
No results
The drawer is empty
The door is now open.
You are carrying nothing.
You see nothing special about the lamp.
You open the drawer. It is empty inside.
app.log:12: ERROR failed to connect, retrying
2024-05-01 10:00:02 ERROR Failed to load the plugin
Subject: Cannot log in
The review says: "Does not fit. I couldn't return it."
a1b2c3d Fix: the login failed without an error
Reservation confirmed. You cannot change it within 24 hours.
nothing to commit, working tree clean
Everything up-to-date
[('error',), ('failed',)]
The temperature is 21 degrees, no rain expected.
You don't have any meetings today.
{"title": "404 Not Found: A Novel", "price": 12}
{"id": 5, "status": "failed", "amount": 20, "currency": "EUR"}
42
To make salt water, you need to mix sodium chloride, water.
You moved forward by 5 blocks.
It's an ordinary hammer, too heavy to be a toy.
You see a pillow on the bed. The bed cannot be moved.
Discount applied: 10% off. The code cannot be combined with other offers.
Bob nods. "I can't complain," he says.
You read the note: "Keep out. No entry without a pass."
There are 4 variants: red, blue, green (out of stock), black.
0 upgraded, 0 newly installed, 0 to remove and 12 not upgraded.
No lights are on.
No doors in the cellar.
The lamp is the same color as the sheet.
The lamp is not lit.
Breaking news: Talks fail as ministers cannot agree on the budget
Roaming was already enabled
[{"sender": "+1123", "content": "Sorry, I cannot make it, the car won't start"}]
Motion not detected for 12 minutes.
Collision count: 0
Your order is already in transit.
No results found.
No issues found."""


def found(observation, **options):
    return AnomalyDetector(**options).check(seen(observation))


@pytest.mark.parametrize("text", REFUSALS.splitlines())
def test_refusals_of_many_environments_are_found(text):
    anomaly = found(text)
    assert anomaly is not None
    assert anomaly.kind == "phrase"
    assert text[:14].replace("\u2019", "'") in anomaly.evidence


@pytest.mark.parametrize(
    "unit",
    [
        *" a\"'(_[.:",
        "no ",
        "not ",
        "you ",
        "try ",
        "is ",
        "no a",
        "which ",
        "got ",
        "if ",
        "nothing to ",
    ],
)
def test_no_phrase_searches_long_for_what_is_not_there(unit):
    sentence = Signals.of((unit * 400)[:1_200])
    begin = perf_counter()
    for phrase in phrase_book().phrases:
        phrase.sentence_in(sentence)
    assert perf_counter() - begin < 1


@pytest.mark.parametrize("text", NORMAL.splitlines())
def test_normal_answers_are_left_alone(text):
    assert found(text) is None


def test_a_long_document_may_speak_of_errors():
    document = (
        "Chapter one. "
        + "The gate cannot be opened, and the call failed: error 404, not found. " * 40
    )
    assert found(document) is None
    assert (
        found(
            "I don't understand that.\n" + "These are the commands that I know. " * 40
        )
        is not None
    )


def test_a_traceback_is_told_by_its_last_line():
    trace = "running\n" + "  File 'a.py', line 3\n" * 200 + "ValueError: wrong"
    assert found(trace).kind == "phrase"


def test_what_the_agent_wrote_itself_is_no_anomaly_when_it_comes_back():
    ticket = {"message": "The payment failed and cannot be repeated"}
    answer = '{"id": 1, "message": "The payment failed and cannot be repeated"}'
    assert AnomalyDetector().check(calls(("create_ticket", ticket, answer))) is None
    assert (
        AnomalyDetector().check(calls(("create_ticket", {"message": "Hello"}, answer)))
        is not None
    )


def test_a_text_counts_anywhere_at_the_ends_whatever_its_case():
    assert (
        "LEVER is jammed"
        in found("The LEVER is\njammed for good.", phrases=["lever is jammed"]).evidence
    )
    assert (
        found("You pull. The LEVER is jammed.", phrases=["lever is jammed"]).kind
        == "phrase"
    )
    assert (
        found("x" * 5_000 + " the lever is jammed", phrases=["lever is jammed"])
        is not None
    )
    assert (
        found(
            "x" * HEAD + " the lever is jammed " + "x" * 5_000,
            phrases=["lever is jammed"],
        )
        is None
    )


def test_texts_and_phrases_may_be_mixed():
    phrases = ["It rains", Phrase(r"^\d+ leaks$", place="sentence", confidence=0.5)]
    assert found("3 leaks", phrases=phrases).confidence == 0.5
    assert found("It rains again.", phrases=phrases).recoverable


def test_a_phrase_may_be_limited_in_place_and_length():
    assert (
        found(
            "All went well.\nBut it rains", phrases=[Phrase("it rains", place="start")]
        )
        is None
    )
    assert (
        found(
            "All went well.\nBut it rains",
            phrases=[Phrase("it rains", place="last_line")],
        )
        is not None
    )
    assert (
        found("It rains" + "!" * 50, phrases=[Phrase("it rains", longest=20)]) is None
    )
    assert (
        found(
            "All went well. But it rains", phrases=[Phrase("it rains", place="opening")]
        )
        is None
    )
    assert (
        found("It rains, all went well.", phrases=[Phrase("it rains", place="opening")])
        is not None
    )
    assert (
        found(
            "It rains cats",
            phrases=[Phrase("it rains", place="sentence", unless="cats")],
        )
        is None
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"pattern": " "}, "empty"),
        ({"pattern": "("}, "regular"),
        ({"pattern": "a", "place": "end"}, "place"),
    ],
)
def test_a_phrase_that_cannot_work_is_refused(options, word):
    with pytest.raises(ConfigurationError, match=word):
        AnomalyDetector(phrases=[Phrase(**options)])


def test_prompts_labels_and_quotes_do_not_hide_a_sentence():
    assert Signals.of('> Observation: "You walk."').sentences == ('You walk."',)
    assert found("Observation: You can't do that.") is not None


def test_no_fragment_is_left_in_an_expression():
    for phrase in phrase_book().phrases:
        assert not re.search(r"\{[A-Z]|\n|  ", phrase.pattern + phrase.unless)
