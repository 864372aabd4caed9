"""Trajectories in files: read back unchanged, and errors that name the place."""

import gzip
import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage
from test_formats import chat, messages, names, texts, values

from langchain_tooltree import Trajectory, dump_trajectories, load_trajectories
from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.experience.trajectory_json import from_json, to_json

ENTRY = {
    "id": "1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"place": "shed"}'},
}
RECORD = {
    "id": "one",
    "domain": "garden",
    "reward": 1.0,
    "messages": [
        {"role": "user", "content": "Find it."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [ENTRY],
            "x_thought": "hm",
        },
        {"role": "tool", "tool_call_id": "1", "content": "Nothing."},
    ],
}


@pytest.fixture(params=["runs.jsonl", "runs.jsonl.gz"])
def file(request, tmp_path):
    return tmp_path / request.param


def written(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


trajectories = st.builds(
    Trajectory.from_chat,
    st.lists(chat, max_size=4),
    id=names,
    task=st.none() | texts,
    success=st.none() | st.booleans(),
    reasons=texts,
    branches=st.lists(
        st.builds(
            Branch, names, st.integers(0, 4), st.lists(chat, min_size=1).map(tuple)
        ),
        max_size=2,
    ),
    metadata=st.dictionaries(names.map(lambda name: f"m_{name}"), values, max_size=2)
    | st.fixed_dictionaries({"reward": st.floats(0, 2) | st.none() | texts}),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(trajectories)
def test_a_trajectory_survives_json(trajectory):
    assert from_json(json.loads(json.dumps(to_json(trajectory)))) == trajectory


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(messages, min_size=1, max_size=3))
def test_messages_of_langchain_survive_json(conversation):
    trajectory = Trajectory.from_messages(conversation, id="one")
    read = from_json(json.loads(json.dumps(to_json(trajectory))))
    assert read == trajectory
    assert read.messages == trajectory.messages


def test_a_record_of_somebody_else_is_written_as_it_was_read(file):
    (read,) = load_trajectories(written(file, json.dumps(RECORD) + "\n"))
    assert dump_trajectories([read], file) == 1
    opened = (
        gzip.decompress(file.read_bytes())
        if file.suffix == ".gz"
        else file.read_bytes()
    )
    assert json.loads(opened) == RECORD


def test_files_are_read_back_unchanged(file):
    several = [
        Trajectory.from_chat(
            RECORD["messages"], id=f"{number}", success=success, reasons="Because."
        )
        for number, success in enumerate([True, False, None])
    ]
    assert dump_trajectories(iter(several), file) == 3
    assert list(load_trajectories(file)) == several


def test_lone_surrogates_and_line_breaks_are_kept(file):
    strange = Trajectory.from_messages(
        [HumanMessage("\ud800 \u2028 \x85 \r\n \x00 ü")], id="one"
    )
    dump_trajectories([strange], file)
    assert list(load_trajectories(file)) == [strange]


def test_what_json_cannot_say_is_written_as_text(file):
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    dump_trajectories(
        [
            Trajectory.from_messages(
                [ToolMessage("A", tool_call_id="1", artifact=moment)]
            )
        ],
        file,
    )
    (read,) = load_trajectories(file)
    assert read.to_messages()[0].artifact == "2026-01-02 00:00:00+00:00"


@pytest.mark.parametrize(
    ("more", "success"),
    [
        ({"reward": 1.0}, True),
        ({"reward": 0.99}, False),
        ({"reward": float("nan")}, None),
        ({"reward": "high"}, None),
        ({"reward": None}, None),
        ({}, None),
        ({"reward": 1.0, "success": False}, False),
        ({"reward": 1.0, "success": None}, None),
    ],
)
def test_success_is_said_or_follows_from_the_reward(more, success):
    assert from_json({"messages": [], **more}).success is success


def test_empty_lines_and_a_byte_order_mark_are_skipped(file):
    text = "\ufeff" + json.dumps(RECORD) + "\n\n  \n" + json.dumps(RECORD)
    assert [each.id for each in load_trajectories(written(file, text))] == [
        "one",
        "one",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "Every record is an object with 'messages'"),
        ("{}", "messages: Field required"),
        ('{"messages": {}}', "messages: Input should be a valid list"),
        (
            '{"messages": [{"content": "a"}]}',
            "messages.0: Value error, a message has no role",
        ),
        ('{"messages": ["a"]}', "messages.0: Input should be a valid dictionary"),
        (
            '{"messages": [], "success": "yes"}',
            "success: Input should be a valid boolean",
        ),
        (
            '{"messages": [], "branches": [{"name": "a"}]}',
            "branches.0.after: Field required",
        ),
        (
            '{"messages": [], "branches": [{"name": "a", "after": 1, "messages": 3}]}',
            "branches.0.messages: ",
        ),
    ],
)
def test_a_broken_line_is_named(file, line, problem):
    reading = load_trajectories(written(file, f"{json.dumps(RECORD)}\n\n{line}\n"))
    assert next(reading).id == "one"
    with pytest.raises(
        TrajectoryFormatError,
        match=f"{re.escape(str(file))}, line 3.*{re.escape(problem)}",
    ):
        next(reading)


def test_a_file_that_is_no_utf_8_is_named(file):
    with pytest.raises(TrajectoryFormatError, match="cannot be read"):
        list(load_trajectories(written(file, b"\xff\xfe{}\n")))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda _: b"{}",
        lambda data: data[:20] + b"xx" + data[22:],
    ],
)
def test_a_damaged_archive_is_named(tmp_path, damage):
    path = tmp_path / "runs.jsonl.gz"
    data = gzip.compress(
        b"".join(json.dumps({**RECORD, "n": n}).encode() + b"\n" for n in range(9))
    )
    path.write_bytes(damage(data))
    with pytest.raises(TrajectoryFormatError, match=r"runs.jsonl.gz cannot be read"):
        list(load_trajectories(path))


def test_a_file_is_whole_or_as_it_was(file):
    dump_trajectories([from_json(RECORD)], file)
    before = file.read_bytes()

    def failing():
        yield from_json(RECORD)
        msg = "no more"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="no more"):
        dump_trajectories(failing(), file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
