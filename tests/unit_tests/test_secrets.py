"""Secrets stay out of records, pages, saved searches and logs; everything else stays as it is."""

import json
import logging

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    Experience,
    ExperienceStore,
    SearchConfig,
    Trajectory,
    dump_trajectories,
    load_trajectories,
    search,
    write_page,
)
from langchain_tooltree.secrets import masked
from langchain_tooltree.testing import ScriptedChatModel

KEY = "sk-proj-Zm9vYmFyYmF6cXV4Zm9v0123"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"call it with {KEY}, then stop", "call it with [secret], then stop"),
        (f"token {JWT}.", "token [secret]."),
        ("AKIAIOSFODNN7EXAMPLE in us-east-1", "[secret] in us-east-1"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[secret]"),
        (
            "curl -H 'Authorization: Bearer abcdefgh12345678'",
            "curl -H 'Authorization: Bearer [secret]'",
        ),
        ("postgresql://ada:hunter2@db/sales", "postgresql://[secret]@db/sales"),
        (
            "https://api.example.com/?api_key=abc123def456&city=Oslo",
            "https://api.example.com/?api_key=[secret]&city=Oslo",
        ),
        ('{"password": "correct horse"}', '{"password": "[secret]"}'),
        (
            json.dumps({"body": '{"client_secret": "x"}'}),
            json.dumps({"body": '{"client_secret": "[secret]"}'}),
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
            "[secret]-----END PRIVATE KEY-----",
        ),
    ],
)
def test_what_issuers_document_or_a_name_announces_is_masked_in_a_text(text, rest):
    assert masked(text) == rest
    assert masked(rest) == rest


@pytest.mark.parametrize(
    "text",
    [
        "The token count was 12345678, the primary key: 12345678.",
        "Basic responsibilities and bearer responsibilities differ.",
        "password: required",
        "risk-assessment-of-the-large-harbour task-force",
        "https://example.com:8080/path@2x.png",
        "",
    ],
)
def test_plain_words_stay_the_same_object(text):
    assert masked(text) is text


def test_data_are_masked_by_the_names_of_their_fields_and_stay_the_same_object_without_secrets():
    call = {
        "url": "https://a",
        "headers": {"Authorization": "x", "Cookie": ["a=b"]},
        "page_size": 5,
        "token": None,
    }
    assert masked(call) == {
        **call,
        "headers": {"Authorization": "[secret]", "Cookie": ["[secret]"]},
    }
    numbers = {"password": 12345678, "token": 7, "pin_token": True}
    assert masked(numbers) == {**numbers, "password": "[secret]"}
    schema = {
        "properties": {"api_key": {"type": "string"}, "max_tokens": {"type": "integer"}}
    }
    assert masked(schema) is schema


def run_with(key):
    call = {"name": "fetch", "args": {"api_key": key, "city": "Oslo"}, "id": "1"}
    result = ToolMessage(f"Error: {key} is not allowed", tool_call_id="1", name="fetch")
    messages = [
        HumanMessage(f"Use {key}."),
        AIMessage("", tool_calls=[call]),
        result,
        AIMessage("No."),
    ]
    return Trajectory.from_messages(messages, id="run", success=True)


def test_records_hold_no_secret_unless_the_store_is_told_to_keep_them(tmp_path):
    stores = {keep: InMemoryStore() for keep in (False, True)}
    for keep, store in stores.items():
        experience = Experience(
            ExperienceStore(store, namespace=("all",), keep_secrets=keep),
            verdict=lambda _: True,
        )
        experience.learn(run_with(KEY))
        held = repr([item.value for item in store.search((), limit=100)])
        assert (KEY in held) is keep
        write_page(experience, page := tmp_path / "page.html")
        assert KEY not in page.read_text()
    record = ExperienceStore(stores[False], namespace=("all",)).get("run")
    assert record.calls[0].arguments == {"api_key": "[secret]", "city": "Oslo"}
    assert record.task == "Use [secret]."


def test_a_file_of_runs_holds_none_unless_it_is_told_to(tmp_path):
    for keep in (False, True):
        dump_trajectories([run_with(KEY)], tmp_path / "runs.jsonl", keep_secrets=keep)
        [run] = load_trajectories(tmp_path / "runs.jsonl")
        assert (run.calls[0].arguments["api_key"] == KEY) is keep


def test_pages_saved_searches_and_logs_of_a_search_hold_none_and_tracebacks_are_for_debugging(
    tmp_path, caplog
):
    @tool
    def fetch(city: str) -> str:
        """Fetch the weather."""
        msg = f"GET https://a/?token={KEY} failed for {city}"
        raise RuntimeError(msg) from ToolException(f"Authorization: Bearer {KEY}")

    call = {"name": "fetch", "args": {"city": "Oslo"}, "id": "1", "type": "tool_call"}
    model = ScriptedChatModel(
        replies=[AIMessage("", tool_calls=[call]), *[AIMessage("No weather.")] * 9]
    )
    caplog.set_level(logging.INFO)
    config = SearchConfig(selection="smoothed", max_rollouts=2)
    result = search(
        f"Use {KEY}.",
        [fetch],
        model=model,
        effects={"fetch": "read"},
        config=config,
        record_searches=tmp_path,
    )
    result.to_html(tmp_path / "page.html")
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert len(written) == 2
    assert "raised while searching" in caplog.text
    for text in (*written, caplog.text):
        assert KEY not in text
    assert "Traceback" not in caplog.text
