"""The parts of a planner: what stands in for what is left out, what is refused, and the one visible model call."""

import inspect
from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import Field

from langchain_tooltree import (
    ConfigurationError,
    ObjectSandbox,
    Prompts,
    SearchConfig,
    ToolLibrary,
    ToolTreeMiddleware,
    ToolTreeNode,
    asearch,
    create_tooltree_agent,
    search,
)
from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import Patience
from tests.internals.tooltree import FunctionEvaluator, HostHooks, ModelEvaluator, Planner, SearchSession, Turn


class Ledger:
    """A world to write to."""

    def beta(self, n: int) -> str:
        """Add a number."""
        return f"added {n}"


def test_the_model_judges_if_nobody_else_does(offline, numbered_tools):
    model = offline()
    planner = Planner(model, numbered_tools("alpha"), config=SearchConfig(seed=3))
    assert planner.pre_judge == planner.post_judge == ModelEvaluator(model, seed=3)


def test_the_judge_scores_observations_too_unless_there_is_another(offline, numbered_tools):
    judge = offline()

    def post_judge(_):
        return 0.5

    planner = Planner(offline(), numbered_tools("alpha"), judge=judge)
    assert planner.pre_judge == planner.post_judge == ModelEvaluator(judge)
    planner = Planner(offline(), numbered_tools("alpha"), judge=judge, post_judge=post_judge)
    assert (planner.pre_judge, planner.post_judge) == (ModelEvaluator(judge), FunctionEvaluator(post_judge))


@pytest.mark.parametrize("role", ["judge", "post_judge"])
def test_a_judge_of_the_users_own_is_asked_for_every_score(offline, numbered_tools, role):
    config = Planner(offline(), numbered_tools("alpha"), **{role: offline()}).config
    assert (config.proposals, config.pre_evaluation, config.post_evaluation) == ("own_step", "batched", "needed")
    chosen = SearchConfig(selection="smoothed")
    assert Planner(offline(), numbered_tools("alpha"), **{role: offline()}, config=chosen).config == chosen


def effects_in(planner):
    return {name: planner.effects.of(name, {}) for name in planner.library.names}


def test_the_settings_have_defaults(offline, numbered_tools):
    planner = Planner(offline(), numbered_tools("alpha"))
    assert planner.config == SearchConfig()
    assert planner.host_hooks == HostHooks()
    assert (planner.sandbox, planner.bound_tools) == (None, frozenset())


def test_a_library_is_taken_as_it_is(offline, numbered_tools):
    library = ToolLibrary(numbered_tools("alpha", "beta"))
    assert Planner(offline(), library).library.names == ("alpha", "beta")


def test_what_is_tried_where_follows_from_effects_and_sandbox(offline, numbered_tools):
    sandbox = ObjectSandbox.of_methods(Ledger())
    tools = [*numbered_tools("alpha", "gamma"), *sandbox.tools]
    planner = Planner(offline(), tools, effects={"alpha": "read"}, sandbox=sandbox)
    assert effects_in(planner) == {"alpha": "read", "beta": "sandboxed", "gamma": "write"}
    assert planner.bound_tools == {"beta"}


def test_a_tool_that_waits_for_approval_is_a_write_whatever_is_declared(offline, numbered_tools):
    planner = Planner(
        offline(),
        numbered_tools("alpha", "beta"),
        effects={"alpha": "read", "beta": "read"},
        host_hooks=HostHooks(held_back=frozenset({"beta"})),
    )
    assert effects_in(planner) == {"alpha": "read", "beta": "write"}


def test_effects_and_sandbox_may_name_tools_that_a_selection_lacks(offline, numbered_tools):
    sandbox = ObjectSandbox.of_methods(Ledger())
    parts = {"effects": {"alpha": "read", "gone": "read"}, "sandbox": sandbox}
    planner = Planner(offline(), numbered_tools("alpha"), **parts, selection=True)
    assert effects_in(planner) == {"alpha": "read"}
    with pytest.raises(ToolDefinitionError, match="effects names gone, but the tools are alpha"):
        Planner(offline(), numbered_tools("alpha"), **parts)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"config": {"max_rollouts": 3}}, "config must be a SearchConfig, got dict"),
        ({"sandbox": object()}, "sandbox must have `tools` and `fork"),
        ({"judge": 0.5}, "judge must be a chat model, the name of one, or a function, got float"),
        ({"post_judge": 0.5}, "judge must be a chat model, the name of one, or a function, got float"),
        ({"effects": ["alpha"]}, "effects must be a mapping"),
    ],
)
def test_a_part_that_cannot_work_is_named(offline, numbered_tools, part, problem):
    with pytest.raises(ConfigurationError, match=problem):
        Planner(offline(), numbered_tools("alpha"), **part)


@pytest.mark.parametrize("helps", [{"effects": {"beta": "read"}}, {"sandbox": ObjectSandbox.of_methods(Ledger())}])
def test_a_planner_that_can_try_nothing_out_says_so(offline, caplog, helps):
    tools = ObjectSandbox.of_methods(Ledger()).tools
    Planner(offline(), tools)
    assert "No tool is declared a read or bound by a sandbox" in caplog.text
    assert "effects={'beta': 'read', ...}" in caplog.text
    caplog.clear()
    Planner(offline(), tools, **helps)
    assert caplog.text == ""


async def test_the_answer_is_the_models_own_step_with_every_tool_bound(drive, numbered_tools):
    heard = []

    class Listening(ScriptedChatModel):
        def _message(self, messages, options):
            heard.append((messages, [tool["function"]["name"] for tool in options["tools"]]))
            return super()._message(messages, options)

    called = AIMessage("", tool_calls=[{"name": "alpha", "args": {"n": 1}, "id": "1"}])
    planner = Planner(Listening(replies=[called]), numbered_tools("alpha", "beta"))
    conversation = [HumanMessage("Go.")]
    reply = await drive(planner.answer(conversation, {"tags": ["mine"]}, Patience()))
    assert reply.tool_calls[0]["name"] == "alpha", "without a plan, the model does what it thinks best"
    assert heard == [(conversation, ["alpha", "beta"])]


async def test_a_model_that_is_down_when_it_should_answer_is_not_hidden(drive, numbered_tools):
    planner = Planner(ScriptedChatModel(replies=[ConnectionError("down")]), numbered_tools("alpha"))
    with pytest.raises(ConnectionError, match="down"):
        await drive(planner.answer([HumanMessage("Go.")], {}, Patience()))


OPTIONS = ["judge", "post_judge", "config", "effects", "sandbox", "embeddings", "retriever", "prompts"]


@pytest.mark.parametrize("made", [search, asearch, ToolTreeNode, ToolTreeMiddleware, create_tooltree_agent])
def test_the_options_of_a_planner_can_be_read_wherever_one_is_made(made):
    parameters = inspect.signature(made).parameters
    assert [name for name in parameters if name in OPTIONS] == OPTIONS
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in OPTIONS)
    assert {parameters[name].default for name in OPTIONS} == {None}
    assert "options" not in parameters
    documented = inspect.getdoc(made).partition("Args:")[2]
    assert all(f"\n    {name}: " in documented for name in OPTIONS)


@pytest.mark.parametrize("make", [search, ToolTreeNode, Planner])
def test_a_misspelt_option_is_refused(numbered_tools, make):
    given = {"model": ScriptedChatModel(), "tools": numbered_tools("alpha")}
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'effect'\. Did you mean 'effects'\?"):
        make(**given, effect={"alpha": "read"})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'verdict'\. See help\("):
        make(**given, verdict=None)


def test_a_misspelt_option_is_refused_before_there_are_tools():
    with pytest.raises(TypeError, match=r"ToolTreeMiddleware\(\) got an unexpected keyword argument 'effect'"):
        ToolTreeMiddleware(effect={"alpha": "read"})


def test_templates_of_ones_own_reach_models_and_tell_searches_apart(offline, numbered_tools):
    told = Prompts(pre_judge="Judge.")
    planner = Planner(offline(), numbered_tools("alpha"), prompts=told)
    assert planner.pre_judge.prompts == planner.post_judge.prompts == told
    plain = Planner(offline(), numbered_tools("alpha"), prompts=Prompts())
    assert planner.fingerprint != plain.fingerprint == Planner(offline(), numbered_tools("alpha")).fingerprint
    with pytest.raises(ConfigurationError, match="prompts must be a Prompts, got str 'Judge'"):
        Planner(offline(), numbered_tools("alpha"), prompts="Judge")


class Shown(ScriptedChatModel):
    """Remembers which tools it was shown."""

    seen: list[list[str]] = Field(default_factory=list)

    def _respond(self, messages, tools):
        self.seen.append([each["function"]["name"] for each in tools])
        return super()._respond(messages, tools)


async def test_a_question_is_asked_with_the_tools_that_were_settled_at_its_launch(drive, numbered_tools):
    model = Shown(replies=['Nothing to do.\n{"missing": "nothing"}'])
    planner = Planner(model, numbered_tools(*(f"tool_{at}" for at in range(60))), config=SearchConfig(tool_tokens=900))
    session = SearchSession(Turn(planner=planner, messages=[HumanMessage("Take tool_3.")]))
    (launched,), _ = session.advance(None, 9)
    settled = replace(launched, tools=("tool_59", "tool_57"))
    session.search.shown_tools = ("tool_58",)  # what came back meanwhile
    await drive(session.perform(settled))
    assert model.seen[0][:2] == ["tool_59", "tool_57"]
    assert "tool_58" not in model.seen[0]
