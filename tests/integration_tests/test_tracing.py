"""What a trace and callback handlers show of a search: the agent's own run, and the planner's questions by name."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from agents import invoke, stream
from doubts import ASKED, READS, REPLIES, look, middleware_agent, node_agent
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from langchain_tooltree import create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel

RESCUE = REPLIES["removed branches"]

INNER = {"tooltree", "nostream"}
"""The tags of questions that the planner asks beside the agent's own."""


class Tracer(BaseTracer):
    """Keeps every trace, as a tracing service would."""

    run_inline = True

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.roots.append(run)

    @property
    def runs(self) -> list[Run]:
        """All runs of all traces, parents first."""
        return [run for root in self.roots for run in _with_descendants(root)]

    def of(self, kind: str) -> list[Run]:
        """The runs of models, `llm`, or of tools, in order."""
        return sorted(
            (run for run in self.runs if run.run_type == kind),
            key=lambda run: run.start_time,
        )

    def above(self, run: Run) -> list[str]:
        """Names of the runs around a run, the outermost first."""
        by_id = {each.id: each for each in self.runs}
        names: list[str] = []
        parent = run.parent_run_id
        while parent is not None:
            names.insert(0, by_id[parent].name)
            parent = by_id[parent].parent_run_id
        return names


def _with_descendants(run: Run) -> Iterator[Run]:
    yield run
    for child in run.child_runs:
        yield from _with_descendants(child)


class Listener(BaseCallbackHandler):
    """Keeps custom events and the runs that they belong to."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.run_ids: set[Any] = set()

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        assert name == f"tooltree.{data['type']}"
        self.events.append(data)
        self.run_ids.add(run_id)


@pytest.fixture(
    params=[node_agent, middleware_agent, create_tooltree_agent],
    ids=["node", "middleware", "agent"],
)
def make(request: pytest.FixtureRequest) -> Any:
    """Makes an agent with these replies."""

    def agent(replies: Any = RESCUE, **options: Any) -> Any:
        return request.param(
            ScriptedChatModel(replies=replies), [look], effects=READS, **options
        )

    return agent


def inner(run: Run) -> set[str]:
    return INNER & {*(run.tags or ())}


def test_own_steps_carry_no_tag_and_the_question_for_other_calls_does(
    make: Any, path: str
) -> None:
    tracer = Tracer()
    invoke(make(), ASKED, {"callbacks": [tracer], "run_name": "my agent"}, path=path)

    assert [root.name for root in tracer.roots] == ["my agent"]
    assert not tracer.run_map
    assert [run.name for run in tracer.runs if run.error or run.end_time is None] == []
    assert [inner(run) for run in tracer.of("llm")] == [
        set(),
        set(),
        set(),
        set(),
        INNER,
        set(),
    ]
    assert {run.name for run in tracer.of("llm")} == {"ScriptedChatModel"}
    assert {tuple(tracer.above(run)) for run in tracer.of("llm")} == {
        ("my agent", "model")
    }
    assert [run.inputs for run in tracer.of("tool")] == [
        {"place": place} for place in ("void", "cellar", "shelf")
    ]
    assert {tuple(tracer.above(run)) for run in tracer.of("tool")} == {
        ("my agent", "tools")
    }


def test_a_run_without_doubt_is_traced_as_the_plain_agent_s(
    make: Any, path: str
) -> None:
    traces = []
    for agent in (
        make(REPLIES["straight"]),
        create_agent(ScriptedChatModel(replies=REPLIES["straight"]), [look]),
    ):
        tracer = Tracer()
        invoke(agent, ASKED, {"callbacks": [tracer], "run_name": "my agent"}, path=path)
        traces.append(
            [
                (tuple(tracer.above(run)), inner(run))
                for kind in ("llm", "tool")
                for run in tracer.of(kind)
            ]
        )

    assert traces[0] == traces[1]


def test_questions_to_a_judge_are_named_and_tagged(make: Any, path: str) -> None:
    tracer = Tracer()
    scores = {
        "scores": [{"id": f"c{at}", "reason": "", "score": 0.9} for at in range(3)]
    }
    check = {"missing": [], "fulfilled": True}
    post = {"reason": "", "score": 0.9, "goal": 0.9}
    judge = ScriptedChatModel(replies=[check, check, check, scores, post, check])

    invoke(make(judge=judge), ASKED, {"callbacks": [tracer]}, path=path)

    named = Counter(
        run.name for run in tracer.of("llm") if run.name.startswith("tooltree.")
    )
    assert named == {
        "tooltree.check": 4,
        "tooltree.pre_judge": 1,
        "tooltree.post_judge": 1,
    }
    assert [
        run for run in tracer.of("llm") if run.name in named and inner(run) != INNER
    ] == []


def test_a_callback_handler_hears_what_is_streamed_and_in_which_run(
    make: Any, path: str
) -> None:
    listener, tracer = Listener(), Tracer()

    chunks = stream(
        make(),
        ASKED,
        {"callbacks": [listener, tracer]},
        path=path,
        stream_mode="custom",
    )

    assert listener.events == [chunk["tooltree"] for chunk in chunks]
    kinds = ["doubt", "doubt", "doubt", "candidates", "explore", "explore", "stop"]
    assert [event["type"] for event in listener.events] == kinds
    assert listener.run_ids <= {run.id for run in tracer.runs if run.name == "model"}


def test_tags_and_metadata_of_the_host_reach_every_run_of_a_search(
    make: Any, path: str
) -> None:
    tracer = Tracer()

    invoke(
        make(),
        ASKED,
        {"callbacks": [tracer], "tags": ["mine"], "metadata": {"user": "ann"}},
        path=path,
    )

    runs = [*tracer.of("llm"), *tracer.of("tool")]
    assert [
        run
        for run in runs
        if not ("mine" in (run.tags or []) and run.metadata["user"] == "ann")
    ] == []
