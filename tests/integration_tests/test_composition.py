"""The planner beside every middleware that LangChain ships: a run is what the plain agent's is, and one with a branch
is what two plain runs are, one that is in doubt and one that is right, without what led nowhere."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from composition import (
    DETOUR,
    FIND,
    ORDER,
    PRICE,
    Clerk,
    Depot,
    Run,
    Step,
    check_equal,
    run_agent,
    summary,
)
from conversations import check_pairs
from langchain.agents import middleware as mw

from langchain_tooltree.testing import ScriptedChatModel

pytestmark = [
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol"),
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <_io.FileIO"
    ),  # LangChain's ShellSession, when it stops
]


@dataclass(frozen=True)
class Case:
    """One middleware, in a run in which it does something.

    Attributes:
        make: Makes the middleware, for an agent and a folder.
        depot: Arguments of the depot.
        model: Arguments of the clerk.
        shows: What of the run with the middleware differs from one without: a name of a field of `Run`, or an error
            that there is without it.
        prompts: Whether the prompts after a branch are those of the two plain runs.
    """

    make: Callable[["Clerk", Path], Sequence[mw.AgentMiddleware[Any, Any, Any]]]
    depot: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    shows: str | type[Exception] = "messages"
    prompts: bool = True


def scripted(*replies: Any) -> ScriptedChatModel:
    """A model of a middleware's own that says the same again and again."""
    return ScriptedChatModel(replies=[*replies] * 50)


def emulated(messages: Sequence[Any]) -> str:
    """What a model makes up that stands in for a tool."""
    return "[]" if "bolts" in messages[-1].text else "shelf 8"


def fallback_of(model: Clerk) -> mw.ModelFallbackMiddleware:
    """The same clerk, reached where the usual one is down: its notes are those of the first."""
    return mw.ModelFallbackMiddleware(model.model_copy())


QUICK: dict[str, Any] = {"initial_delay": 0, "jitter": False}

TODOS: Step = (
    "write_todos",
    {"todos": [{"content": "Find the bolt", "status": "in_progress"}]},
)

CASES: dict[type[mw.AgentMiddleware[Any, Any, Any]], Case] = {
    mw.ContextEditingMiddleware: Case(
        lambda *_: [
            mw.ContextEditingMiddleware(
                edits=[mw.ClearToolUsesEdit(trigger=1, keep=1, placeholder="[gone]")]
            )
        ],
        shows="prompts",
    ),
    mw.FilesystemFileSearchMiddleware: Case(
        lambda _, folder: [
            mw.FilesystemFileSearchMiddleware(root_path=str(folder), use_ripgrep=False)
        ],
        model={"extra": [("glob_search", {"pattern": "*.txt"})]},
    ),
    mw.HumanInTheLoopMiddleware: Case(
        lambda *_: [
            mw.HumanInTheLoopMiddleware({"find": True, "price": True, "order": True})
        ],
        shows="questions",
    ),
    mw.LLMToolEmulator: Case(
        lambda *_: [mw.LLMToolEmulator(tools=["find"], model=scripted(emulated))]
    ),
    mw.LLMToolSelectorMiddleware: Case(
        lambda *_: [
            mw.LLMToolSelectorMiddleware(model=scripted({"tools": ["find", "price"]}))
        ],
        shows="prompts",
    ),
    mw.ModelCallLimitMiddleware: Case(
        lambda *_: [mw.ModelCallLimitMiddleware(thread_limit=9)], shows="state"
    ),
    mw.ModelFallbackMiddleware: Case(
        lambda model, _: [fallback_of(model)],
        model={"failures": [ConnectionError("down")]},
        shows=ConnectionError,
    ),
    mw.ModelRetryMiddleware: Case(
        lambda *_: [mw.ModelRetryMiddleware(**QUICK)],
        model={"failures": [ConnectionError("down")]},
        shows=ConnectionError,
    ),
    mw.PIIMiddleware: Case(
        lambda *_: [
            mw.PIIMiddleware("email", apply_to_tool_results=True),
            mw.PIIMiddleware("ip", apply_to_output=True),
        ]
    ),
    mw.ProviderToolSearchMiddleware: Case(
        lambda *_: [mw.ProviderToolSearchMiddleware(searchable_tools=["order"])],
        shows="prompts",
    ),
    mw.ShellToolMiddleware: Case(
        lambda _, folder: [mw.ShellToolMiddleware(folder)],
        model={"extra": [("shell", {"command": "echo 7"})]},
    ),
    mw.SummarizationMiddleware: Case(
        lambda *_: [
            mw.SummarizationMiddleware(
                scripted(summary), trigger=("messages", 3), keep=("messages", 2)
            )
        ],
        prompts=False,
    ),
    mw.TodoListMiddleware: Case(
        lambda *_: [mw.TodoListMiddleware()], model={"extra": [TODOS]}, shows="state"
    ),
    mw.ToolCallLimitMiddleware: Case(
        lambda *_: [mw.ToolCallLimitMiddleware(thread_limit=9)], shows="state"
    ),
    mw.ToolErrorMiddleware: Case(
        lambda *_: [mw.ToolErrorMiddleware(lambda *_: "ask the clerk")],
        depot={"broken": ["price"]},
        shows=ConnectionError,
    ),
    mw.ToolRetryMiddleware: Case(
        lambda *_: [mw.ToolRetryMiddleware(max_retries=1, **QUICK)],
        depot={"failing": ["find bolts", "find bolt", "price bolt"]},
        shows=ConnectionError,
    ),
}


if hasattr(mw, "AutoModeMiddleware"):  # from langchain 1.5 on
    from decider import Decider

    CASES |= {
        mw.AutoModeMiddleware: Case(
            lambda *_: [mw.AutoModeMiddleware(tools=["order"], classifier=Decider())]
        ),
        mw.ModelRouterMiddleware: Case(
            lambda model, _: [
                mw.ModelRouterMiddleware(
                    choices={"clerk": mw.ModelChoice(model.model_copy(), "all tasks")},
                    instructions="Choose a model.",
                    classifier=Decider(),
                )
            ],
            shows="state",
        ),
    }


def public_middleware() -> set[Any]:
    """Every middleware class that `langchain.agents.middleware` ships."""
    public = (getattr(mw, name) for name in mw.__all__)
    classes = {
        each
        for each in public
        if inspect.isclass(each) and issubclass(each, mw.AgentMiddleware)
    }
    return classes - {mw.AgentMiddleware}


def test_every_middleware_that_langchain_ships_has_a_case() -> None:
    elsewhere = {
        "ModelRefusalMiddleware"
    }  # in test_composition_failures.py, since typed streams lose refusals
    assert {each.__name__ for each in CASES} == {
        each.__name__ for each in public_middleware()
    } - elsewhere


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all agents, so that runs can be compared."""
    return tmp_path_factory.mktemp("depot")


@pytest.fixture(params=CASES, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=["first", "last"])
def planner(request: pytest.FixtureRequest) -> str:
    """Where the planner stands in the list."""
    return str(request.param)


@pytest.fixture
def path(kind: Any) -> str:
    """Every other middleware runs on the async path: what the planner does there is the same for all of them."""
    return ("sync", "async")[[*CASES].index(kind) % 2]


MODELS: dict[str, dict[str, Any]] = {
    "straight": {"steps": [FIND, PRICE, ORDER]},
    "right": {},
    "doubtful": {"detour": DETOUR},
}


@functools.cache
def once(
    kind: Any,
    planner: str | None,
    path: str,
    folder: Path,
    name: str,
    *,
    without: bool = False,
) -> Run:
    """One run of an agent with a middleware, or without it; those of plain agents are compared twice."""
    case = CASES[kind]
    clerk = Clerk(
        **{**case.model, **MODELS[name], "failures": [*case.model.get("failures", ())]}
    )
    others = [] if without else case.make(clerk, folder)
    return run_agent(clerk, Depot(**case.depot), others, planner=planner, path=path)


def test_each_case_shows_what_its_middleware_does(
    kind: Any, path: str, folder: Path
) -> None:
    run = once(kind, None, path, folder, "straight")

    shows = CASES[kind].shows
    if isinstance(shows, str):
        assert getattr(run, shows) != getattr(
            once(kind, None, path, folder, "straight", without=True), shows
        )
    else:
        with pytest.raises(shows):
            once(kind, None, path, folder, "straight", without=True)


def test_a_straight_run_is_the_plain_agents(
    kind: Any, planner: str, path: str, folder: Path
) -> None:
    check_equal(
        once(kind, planner, path, folder, "straight"),
        once(kind, None, path, folder, "straight"),
    )


def test_a_run_with_a_branch_is_that_of_a_doubtful_and_a_right_agent(
    kind: Any, planner: str, path: str, folder: Path
) -> None:
    doubtful, right = (
        once(kind, None, path, folder, name) for name in ("doubtful", "right")
    )

    run = once(kind, planner, path, folder, "doubtful")

    case = CASES[kind]
    shared = len(case.model.get("extra", ()))  # made by both before anything else
    check_pairs(run.raw)
    assert run.messages == right.messages
    assert run.calls == doubtful.calls + right.calls
    assert run.questions == doubtful.questions + right.questions
    assert run.tool_calls == doubtful.tool_calls + right.tool_calls[shared:]
    if case.prompts:
        asked_again = len(case.model.get("failures", ()))
        assert (
            run.prompts == doubtful.prompts + right.prompts[shared + 1 + asked_again :]
        )
