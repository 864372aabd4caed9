"""ScienceWorld as a live bench, in the real environment. Needs Java."""

import pytest
from langchain_core.messages import AIMessage

from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks import scienceworld_world
from tests.benchmarks.live.bench_scienceworld import ScienceWorldBench, _process
from tests.benchmarks.live.episode import Options, Setting
from tests.benchmarks.live.methods import METHODS
from tests.benchmarks.live.runs import converse

pytestmark = [
    pytest.mark.skipif(bool(scienceworld_world.missing()), reason=scienceworld_world.missing() or "-"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def task():
    [chosen] = ScienceWorldBench().tasks(Options(category="lifespan-longest-lived", tasks=1))
    yield chosen
    for name in ("real", "copies"):
        _process(name).world.close()
    _process.cache_clear()


def played(task, actions):
    calls = [{"name": "act", "args": {"action": each}, "id": f"call_{at}"} for at, each in enumerate(actions)]
    replies = [AIMessage("", tool_calls=[call]) for call in calls]
    model = ScriptedChatModel(replies=[*replies, AIMessage("Done.")])
    return converse(task, METHODS["react"][0], Setting(model=model, steps=30), None)


def test_gold_is_a_success_and_a_part_of_it_is_none(task):
    gold = _process("copies").world.gold(task.task)
    messages, outcome = played(task, gold)
    assert "longest life span" in messages[0].text
    assert (outcome.success, outcome.score) == (True, 1.0)
    _, outcome = played(task, gold[:2])
    assert not outcome.success
    assert 0 < outcome.score < 1
