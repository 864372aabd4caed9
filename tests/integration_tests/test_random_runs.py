"""Agents fail, are killed and go on at random; no write runs unasked, unapproved or twice."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from campaign import SCRIPT, Conversation, Scenario, Tally, hold_campaign
from child_processes import Servers, servers

RUNS = 8

CALM = Scenario(
    seed=1,
    host="node",
    path="sync",
    durability="sync",
    review=False,
    sandbox=False,
    handles_errors=True,
    trouble=0.0,
    limits={"max_rollouts": 4},
    requests=("Get tea",),
    disturbances=0,
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Servers]:
    with servers(SCRIPT) as running:
        yield running


def test_random_runs_end_and_no_write_runs_unasked_unapproved_or_twice(processes: Servers, tmp_path: Path) -> None:
    total = sum((tally for _, tally in hold_campaign(processes, tmp_path, range(RUNS))), Tally())

    assert total.violations == []
    assert total.counts["runs"] == RUNS
    for happened in ("kills", "resumes", "writes", "approves", "rejects"):
        assert total.counts[happened], f"no {happened} in any run"


@pytest.mark.parametrize(("host", "path"), list(product(("node", "middleware", "agent"), ("sync", "async"))))
@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_write_whose_process_dies_arrives_again_with_its_id_and_runs_once(
    processes: Servers, tmp_path: Path, host: str, path: str, moment: str
) -> None:
    scenario = replace(CALM, host=host, path=path)
    death = {"act": "kill", "moment": moment, "number": 1}

    tally = Conversation(processes, tmp_path, scenario, fates=[death]).hold()

    assert tally.violations == []
    assert (tally.counts["kills"], tally.counts["resumes"]) == (1, 1)
    assert tally.counts["kills in the gap"] == (moment != "before")
    assert tally.counts["repeated arrivals"] == 1


@pytest.mark.parametrize("act", ["stop", "drain"])
@pytest.mark.parametrize("path", ["sync", "async"])
def test_a_run_that_was_stopped_goes_on(processes: Servers, tmp_path: Path, act: str, path: str) -> None:
    fates = [{"act": act, "moment": moment, "number": 1} for moment in ("call", "between")]

    tally = Conversation(processes, tmp_path, replace(CALM, path=path), fates=fates).hold()

    assert tally.violations == []
    assert tally.counts["stops"] == len(fates)


FORGED: dict[str, dict[str, Any]] = {
    "which was not emitted": {"what": "effect", "key": "call_1", "name": "order", "args": {"item": "tea"}},
    "which was not approved": {"what": "effect", "key": "call_1", "name": "order", "args": {"item": "tea"}},
    "stands for": {"what": "arrival", "args": {"item": "milk"}},
    "2 times": {"what": "effect"},
}


@pytest.mark.parametrize("found", FORGED)
def test_a_write_that_should_not_have_run_is_found(processes: Servers, tmp_path: Path, found: str) -> None:
    conversation = Conversation(processes, tmp_path, replace(CALM, review=found == "which was not approved"))
    assert conversation.hold().violations == []
    ledger = tmp_path / "1.ledger"
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    written = next((line for line in lines if line["what"] == "effect"), {})
    ledger.write_text("".join(f"{json.dumps(line)}\n" for line in (*lines, {**written, **FORGED[found]})))

    conversation.check()

    assert any(found in violation for violation in conversation.tally.violations)
